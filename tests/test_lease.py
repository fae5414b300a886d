"""Leases between real processes: nobody is on a device that another holds, however it died."""

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from tmol_plugin import device, lease, locks
from tmol_plugin.errors import RunError

# A process that takes a lease, prints the device's index, start, end and waited seconds, and
# ends when its input does: arguments are holder, share and how long to wait.
TAKE = """
import sys, time
from tmol_plugin import lease
from tmol_plugin.errors import RunError
try:
    taken = lease.take(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
except RunError as error:
    sys.exit(str(error))
print("took", taken.device.index, taken.started_at, taken.waited_seconds, flush=True)
"""
HOLD = TAKE + "sys.stdin.read(); print(taken.release(), flush=True)\n"
# Likewise, with a child that inherits the lease and lives on.
HAND_ON = TAKE + (
    "import subprocess; child = subprocess.Popen(['sleep', '600'], pass_fds=taken.fds,"
    " stdout=subprocess.DEVNULL); print(child.pid, flush=True); sys.stdin.read()\n"
)
# A child that inherits only what is inherited by accident: nothing.
NO_HAND_ON = HAND_ON.replace("pass_fds=taken.fds", "close_fds=False")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of leases of this test's own, on a machine with one pretend device."""
    path = tmp_path / "leases"
    monkeypatch.setenv("TMOL_PLUGIN_LEASES", str(path))
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return path


@pytest.fixture
def start():
    """A function that starts a process; all are ended after the test."""
    started = []

    def start(holder, share=1, wait_seconds=60, visible=None, code=HOLD):
        environment = dict(os.environ) | (
            {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, holder, str(share), str(wait_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def took(process):
    """The index of the device that a process has taken, which is waited for."""
    words = process.stdout.readline().split()
    assert words[:1] == ["took"], process.stderr.read()
    return int(words[1])


def wait_until(is_so, seconds=30):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def waiting(folder):
    """Holders of the tickets in their order."""
    with locks.exclusively(folder):
        found = locks.look_at_locked(folder, "waiting")
    return [one["holder"] for one in sorted(found, key=lambda one: one["number"])]


def start_in_order(start, folder, names, **how):
    """Processes that wait, each started when the one before had its ticket."""
    processes, before = {}, len(waiting(folder))
    for name in names:
        processes[name] = start(name, **how)
        before += 1
        wait_until(lambda count=before: len(waiting(folder)) == count)
    return processes


@contextmanager
def end_of(pid):
    """Kill a process, which is no child of ours, at the end of the block."""
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


def test_one_process_has_a_device_and_the_next_has_it_at_once(start, folder):
    first = start("first")
    assert took(first) == 0
    second = start("second")
    wait_until(lambda: waiting(folder) == ["second"])
    ended_at = float(first.communicate()[0])
    words = second.stdout.readline().split()
    assert words[:2] == ["took", "0"]
    assert ended_at <= float(words[2])  # as the timing table tells them
    assert float(words[3]) > 0
    assert waiting(folder) == []


def test_what_is_to_be_set_and_when_it_began_and_ended(monkeypatch):
    before = time.time()
    taken = lease.take("me", 1, 0)
    assert taken.environment == {
        "CUDA_VISIBLE_DEVICES": taken.device.uuid,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert not any(os.get_inheritable(fd) for fd in taken.fds)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", taken.device.uuid)
    assert device.visible_devices() == [taken.device]
    ended_at = taken.release()
    assert before <= taken.started_at <= ended_at <= time.time()
    assert taken.release() == ended_at
    lease.take("me again", 1, 0).release()


def test_a_killed_holder_leaves_the_device_free_at_once(start):
    for _ in range(3):
        process = start("killed", wait_seconds=0)
        assert took(process) == 0
        process.kill()
        process.wait()


def test_a_child_that_inherits_the_lease_holds_on(start, folder):
    parent = start("parent", code=HAND_ON)
    took(parent)
    child = int(parent.stdout.readline())
    with end_of(child):
        parent.kill()
        parent.wait()
        with pytest.raises(RunError) as error:
            lease.take("me", 1, 0)
        assert f"pid {parent.pid} (ended; a process that it started holds on)" in str(error.value)
        waiter = start("waiter")
        wait_until(lambda: waiting(folder) == ["waiter"])
    assert took(waiter) == 0


def test_a_lease_is_not_inherited_by_accident(start):
    parent = start("parent", code=NO_HAND_ON)
    took(parent)
    with end_of(int(parent.stdout.readline())):
        parent.kill()
        parent.wait()
        lease.take("me", 1, 0).release()


def test_who_waits_is_served_in_order_also_past_dead_ones(start, folder):
    holder = start("holder")
    took(holder)
    names = list("abcdef")
    processes = start_in_order(start, folder, names, code=TAKE + "print(taken.release())\n")
    assert waiting(folder) == names
    processes.pop("c").kill()
    wait_until(lambda: waiting(folder) == list("abdef"))
    holder.communicate()
    began = {name: float(one.communicate()[0].split()[2]) for name, one in processes.items()}
    assert sorted(began, key=began.get) == list("abdef")


def test_a_newcomer_does_not_overtake_who_has_not_looked_yet(start, folder, monkeypatch):
    """Between a device's release and the waiter's next look, only the waiter may have it."""
    taken = lease.take("holder", 1, 0)
    (waiter,) = start_in_order(start, folder, ["waiter"]).values()
    with locks.exclusively(folder):  # or it might be stopped while it has this
        waiter.send_signal(signal.SIGSTOP)
        state = Path(f"/proc/{waiter.pid}/stat")
        wait_until(lambda: state.read_text().rpartition(") ")[2].startswith("T"))
    taken.release()
    with pytest.raises(RunError, match=r"kept for one who waits before\. Waiting before .*: 1\."):
        lease.take("newcomer", 1, 0.3)
    # One that has been away for long does not keep a device idle; back again, it waits on.
    monkeypatch.setattr(lease, "_ABSENT_SECONDS", 0.1)
    taken = lease.take("newcomer", 1, 5)
    waiter.send_signal(signal.SIGCONT)
    taken.release()
    assert took(waiter) == 0


def test_waiters_for_other_devices_are_not_blocked(start, folder, monkeypatch):
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "3")
    first = start("first", visible="0")
    assert took(first) == 0
    start_in_order(start, folder, ["queued", "queued too"], visible="0")
    assert took(start("overlapping", visible="0,1", wait_seconds=0)) == 1
    assert took(start("disjoint", visible="2", wait_seconds=0)) == 2
    assert waiting(folder) == ["queued", "queued too"]


def test_the_least_used_device_is_taken(monkeypatch):
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "3")
    taken = [lease.take("me", 3, 0) for _ in range(9)]
    assert [one.device.index for one in taken] == [0, 1, 2] * 3
    with pytest.raises(RunError, match="no GPU became free"):
        lease.take("me", 3, 0)
    taken.pop(4).release()
    assert lease.take("me", 3, 0).device.index == 1
    for one in taken:
        one.release()


@pytest.mark.parametrize(
    ("held", "wanted", "fits"),
    [
        ([], 1, True),
        ([1], 1, False),
        ([1], 5, False),
        ([2], 1, False),
        ([2], 2, True),
        ([2], 5, True),
        ([5, 5], 2, False),
        ([5, 2], 5, False),
        ([5, 5], 3, True),
        ([3, 5], 5, True),
        ([3, 5, 5], 5, False),
        ([5, 5, 5], 5, True),
    ],
)
def test_as_many_share_as_the_least_willing_allows(held, wanted, fits):
    taken = [lease.take("holder", share, 0) for share in held]
    if fits:
        taken.append(lease.take("me", wanted, 0))
    else:
        with pytest.raises(RunError, match="no GPU became free"):
            lease.take("me", wanted, 0)
    for one in taken:
        one.release()


def test_who_wants_a_device_alone_is_not_kept_out_by_those_who_share(start, folder):
    taken = lease.take("sharer", 2, 0)
    (alone,) = start_in_order(start, folder, ["alone"]).values()
    with pytest.raises(RunError, match="Waiting before this process: 1"):
        lease.take("another sharer", 2, 0.3)
    taken.release()
    assert took(alone) == 0


def test_the_end_of_waiting_says_who_holds_what(start, monkeypatch, caplog):
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "2")
    processes = start("chunk 0a"), start("chunk 0b", share=2)
    assert {took(one) for one in processes} == {0, 1}
    monkeypatch.setattr(lease.log, "disabled", False)
    with caplog.at_level("INFO"), pytest.raises(RunError) as error:
        lease.take("me", 1, 0.25)
    words = str(error.value)
    for process, holder in zip(processes, ("chunk 0a", "chunk 0b, share 2"), strict=True):
        since = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        assert re.search(f"pid {process.pid} of .+ on .+, {holder}, {since}", words)
    assert "no GPU became free within 0.00416667 minutes" in words
    assert "device.wait_minutes" in words
    announced = [one.getMessage() for one in caplog.records]
    assert len(announced) == 1
    assert announced[0].startswith("waiting for a GPU, at most 0.00416667 minutes: GPU 0 (pretend")


@pytest.mark.parametrize("words", [b"", b"{", b"[]", b'{"pid": 1, "share": 9}', b"\xff\x00"])
def test_a_lock_that_says_nothing_of_use_is_a_lock(folder, words):
    taken = lease.take("me", 9, 0)
    os.ftruncate(taken.fds[0], 0)
    os.pwrite(taken.fds[0], words, 0)
    with pytest.raises(RunError, match="held by a process that does not say who it is"):
        lease.take("other", 9, 0)
    taken.release()
    # And of an unlocked file nothing is believed.
    lease.take("other", 1, 0).release()
    assert lease.holders([taken.device.uuid]) == {taken.device.uuid: []}


def test_a_removed_file_is_not_what_is_locked(folder, monkeypatch):
    """A cleaner of old files may remove one between its opening and its locking."""
    lease.take("me", 1, 0).release()
    opened = []

    def remove_first(path, make):
        fd = open_file(path, make)
        if not opened:
            path.unlink()
        opened.append(path)
        return fd

    open_file = locks._open
    monkeypatch.setattr(locks, "_open", remove_first)
    fd = locks.try_lock(folder / "mutex")
    assert opened == [folder / "mutex"] * 2
    assert os.fstat(fd).st_ino == (folder / "mutex").stat().st_ino
    locks.unlock(fd)


def test_many_processes_never_overlap_and_use_all_devices(start, folder, monkeypatch):
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "4")
    code = TAKE + "time.sleep(0.05); print(taken.release())\n"
    spans = {index: [] for index in range(4)}
    for process in [start(f"chunk {number}", code=code) for number in range(40)]:
        output, errors = process.communicate()
        assert process.returncode == 0, errors
        _, index, began, _, ended = output.split()
        spans[int(index)].append((float(began), float(ended)))
    assert sum(map(len, spans.values())) == 40
    assert all(spans.values())
    for of_device in spans.values():
        of_device.sort()
        for (_, ended), (began, _) in pairwise(of_device):
            assert ended <= began
    assert lease.holders([one.device.uuid for one in device.listed_devices()]) == {
        one.device.uuid: [] for one in device.listed_devices()
    }


# The folder of leases


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_is_for_all_users_whatever_the_umask(folder):
    before = os.umask(0o077)
    try:
        taken = lease.take("me", 1, 0)
        with pytest.raises(RunError):
            lease.take("other", 1, 0)
    finally:
        assert os.umask(before) == 0o077
    taken.release()
    assert mode(folder) == 0o1777
    files = {path.name.rpartition("-")[2]: mode(path) for path in folder.iterdir()}
    assert files == {"mutex": 0o666, "waiting.0": 0o666, "0.0": 0o666}


# Python itself may be readable to root alone, so all is imported before.
AS_ANOTHER = "import os; from tmol_plugin import lease\n"
AS_ANOTHER += "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")


@pytest.fixture
def shared_folder(monkeypatch):
    """A folder of leases that other users can reach, which they cannot below pytest's own."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o1777)
        monkeypatch.setenv("TMOL_PLUGIN_LEASES", f"{path}/leases")
        yield Path(path) / "leases"


@as_root
@pytest.mark.parametrize("first", ["root", "nobody"])
def test_users_wait_for_each_other(start, shared_folder, first):
    """Whoever made the files, who may not write to others' but for their mode."""
    codes = {"root": HOLD, "nobody": AS_ANOTHER + HOLD}
    second = "root" if first == "nobody" else "nobody"
    for holder, waiter in ((first, second), (second, first)):
        holding = start("holder", code=codes[holder])
        assert took(holding) == 0
        refused = start("waiter", wait_seconds=0, code=codes[waiter]).communicate()[1]
        assert f"held by pid {holding.pid} of {holder} on " in refused
        holding.communicate()
    assert {path.owner() for path in shared_folder.iterdir()} == {"root", "nobody"}
    assert shared_folder.owner() == first


def test_files_that_are_there_are_not_opened_to_be_made(folder, monkeypatch):
    """As Linux forbids with fs.protected_regular, were the file of another user."""
    lease.take("me", 1, 0).release()

    def protected(path, flags, *mode, **at):
        if flags & os.O_CREAT and not flags & os.O_EXCL and os.path.exists(path):
            raise PermissionError(13, "Permission denied", path)
        return open_file(path, flags, *mode, **at)

    open_file = os.open
    monkeypatch.setattr(os, "open", protected)
    with pytest.raises(PermissionError):
        os.open(folder / "mutex", os.O_RDWR | os.O_CREAT)
    lease.take("me", 1, 0).release()


@as_root
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "words"),
    [
        (0o755, None, "mutex cannot be opened: Permission denied"),
        (0o700, None, "leases cannot be used: Permission denied"),
        (0o1777, 0o644, "mutex cannot be opened: Permission denied"),
    ],
)
def test_a_folder_for_another_user_alone(start, shared_folder, folder_mode, file_mode, words):
    shared_folder.mkdir()
    shared_folder.chmod(folder_mode)
    if file_mode:
        (shared_folder / "mutex").touch()
        (shared_folder / "mutex").chmod(file_mode)
    errors = start("other", wait_seconds=0, code=AS_ANOTHER + TAKE).communicate()[1]
    assert f"{words}; set TMOL_PLUGIN_LEASES to a folder on a disk of this machine" in errors


def make_file(path):
    path.write_text("")


def make_link(path):
    target = path.with_name("elsewhere")
    target.mkdir()
    path.symlink_to(target)


def make_dangling_link(path):
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("make", [make_file, make_link, make_dangling_link])
def test_what_is_no_folder_of_its_own_is_refused(folder, make):
    make(folder)
    with pytest.raises(RunError, match="it is a link or no folder; set TMOL_PLUGIN_LEASES"):
        lease.take("me", 1, 0)
    assert not folder.with_name("nowhere").exists()
    assert not any(folder.with_name("elsewhere").glob("*"))


def test_a_folder_in_none_is_refused(folder, monkeypatch):
    monkeypatch.setenv("TMOL_PLUGIN_LEASES", str(folder / "b"))
    with pytest.raises(RunError, match="b cannot be used: No such file or directory; set TMOL_"):
        lease.take("me", 1, 0)


@pytest.mark.parametrize("kind", ["symbolic", "hard", "fifo", "folder"])
def test_a_trap_in_the_place_of_a_lock_is_refused(folder, tmp_path, kind):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    locks.checked_folder()
    trap = folder / f"{device.visible_devices()[0].uuid}.0"
    make = {
        "symbolic": lambda: trap.symlink_to(precious),
        "hard": lambda: trap.hardlink_to(precious),
        "fifo": lambda: os.mkfifo(trap),
        "folder": trap.mkdir,
    }
    make[kind]()
    with pytest.raises(RunError, match=r"-0\.0 (cannot be opened|is no plain file of its own)"):
        lease.take("me", 1, 0)
    assert precious.read_text() == "precious"


def test_a_network_file_system_is_refused(folder, monkeypatch):
    monkeypatch.setattr(locks, "_file_system", lambda fd: 0x6969)
    with pytest.raises(RunError, match=r"is on a network or FUSE file system \(0x6969\)"):
        lease.take("me", 1, 0)


def test_the_type_of_a_file_system_is_the_systems():
    for path in ("/", "/proc", "/dev"):
        words = subprocess.check_output(["stat", "-f", "-c", "%t", path], text=True)
        fd = os.open(path, os.O_RDONLY)
        try:
            assert locks._file_system(fd) == int(words, 16), path
        finally:
            os.close(fd)


def test_locks_without_effect_are_noticed(folder, monkeypatch):
    monkeypatch.setattr(locks.fcntl, "flock", lambda fd, operation: None)
    with pytest.raises(RunError, match="have no effect; set TMOL_PLUGIN_LEASES"):
        lease.take("me", 1, 0)


def test_a_file_system_that_cannot_lock_is_named(folder, monkeypatch):
    def fail(fd, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(locks.fcntl, "flock", fail)
    with pytest.raises(RunError, match="mutex cannot be locked: No locks available; set TMOL_"):
        lease.take("me", 1, 0)


def test_a_stuck_process_is_told_of(folder, monkeypatch):
    monkeypatch.setattr(locks, "_PATIENCE_SECONDS", 0.1)
    locks.checked_folder()
    fd = locks.try_lock(folder / "mutex")
    with pytest.raises(RunError, match="mutex stays locked"):
        lease.take("me", 1, 0)
    locks.unlock(fd)


def test_the_default_folder_is_in_tmp(monkeypatch):
    monkeypatch.setenv("TMOL_PLUGIN_LEASES", "")
    assert locks.named_folder() == Path("/tmp/tmol_plugin_leases")  # noqa: S108

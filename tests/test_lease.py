"""Leases between real processes: nobody is on a device that another holds, however it died."""

import os
import re
import signal
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from lease_processes import TAKE, took

from tmol_plugin import device, lease, locks
from tmol_plugin.errors import RunError

# A holder with a child that inherits the lease and lives on; it prints the pid of that.
HAND_ON = TAKE + (
    "import subprocess; child = subprocess.Popen(['sleep', '600'], pass_fds=taken.fds,"
    " stdout=subprocess.DEVNULL); print(child.pid, flush=True); sys.stdin.read()\n"
)
# A child that inherits only what is inherited by accident: nothing.
NO_HAND_ON = HAND_ON.replace("pass_fds=taken.fds", "close_fds=False")

pytestmark = pytest.mark.usefixtures("leases")


def wait_until(is_so, seconds=30):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def waiting(leases):
    """Holders of the tickets in their order."""
    with locks.exclusively(leases):
        found = locks.look_at_locked(leases, "waiting")
    return [one["holder"] for one in sorted(found, key=lambda one: one["number"])]


def start_in_order(start, leases, names, **how):
    """Processes that wait, each started when the one before had its ticket."""
    processes, before = {}, len(waiting(leases))
    for name in names:
        processes[name] = start(name, **how)
        before += 1
        wait_until(lambda count=before: len(waiting(leases)) == count)
    return processes


@contextmanager
def end_of(pid):
    """Kill a process, which is no child of ours, at the end of the block."""
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


def test_one_process_has_a_device_and_the_next_has_it_at_once(start, leases):
    first = start("first")
    assert took(first) == 0
    second = start("second")
    wait_until(lambda: waiting(leases) == ["second"])
    ended_at = float(first.communicate()[0])
    words = second.stdout.readline().split()
    assert words[:2] == ["took", "0"]
    assert ended_at <= float(words[2])  # as the timing table tells them
    assert float(words[3]) > 0
    assert waiting(leases) == []


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


def test_a_child_that_inherits_the_lease_holds_on(start, leases):
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
        wait_until(lambda: waiting(leases) == ["waiter"])
    assert took(waiter) == 0


def test_a_lease_is_not_inherited_by_accident(start):
    parent = start("parent", code=NO_HAND_ON)
    took(parent)
    with end_of(int(parent.stdout.readline())):
        parent.kill()
        parent.wait()
        lease.take("me", 1, 0).release()


def test_who_waits_is_served_in_order_also_past_dead_ones(start, leases):
    holder = start("holder")
    took(holder)
    names = list("abcdef")
    processes = start_in_order(start, leases, names, code=TAKE + "print(taken.release())\n")
    assert waiting(leases) == names
    processes.pop("c").kill()
    wait_until(lambda: waiting(leases) == list("abdef"))
    holder.communicate()
    began = {name: float(one.communicate()[0].split()[2]) for name, one in processes.items()}
    assert sorted(began, key=began.get) == list("abdef")


def test_a_newcomer_does_not_overtake_who_has_not_looked_yet(start, leases, monkeypatch):
    """Between a device's release and the waiter's next look, only the waiter may have it."""
    taken = lease.take("holder", 1, 0)
    (waiter,) = start_in_order(start, leases, ["waiter"]).values()
    with locks.exclusively(leases):  # or it might be stopped while it has this
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


def test_who_looks_is_seen_to_be_there(start, leases):
    taken = lease.take("holder", 1, 0)
    start_in_order(start, leases, ["waiter"])
    ticket = leases / "waiting.0"
    with locks.exclusively(leases):
        os.utime(ticket, (0, 0))
        assert lease._waiters_before(leases, {"number": 0}) == []
    wait_until(lambda: ticket.stat().st_mtime > 0)
    with locks.exclusively(leases):
        assert len(lease._waiters_before(leases, {"number": 0})) == 1
    taken.release()


def test_waiters_for_other_devices_are_not_blocked(start, leases, monkeypatch):
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "3")
    first = start("first", visible="0")
    assert took(first) == 0
    start_in_order(start, leases, ["queued", "queued too"], visible="0")
    assert took(start("overlapping", visible="0,1", wait_seconds=0)) == 1
    assert took(start("disjoint", visible="2", wait_seconds=0)) == 2
    assert waiting(leases) == ["queued", "queued too"]


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


def test_who_wants_a_device_alone_is_not_kept_out_by_those_who_share(start, leases):
    taken = lease.take("sharer", 2, 0)
    (alone,) = start_in_order(start, leases, ["alone"]).values()
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
def test_a_lock_that_says_nothing_of_use_is_a_lock(leases, words):
    taken = lease.take("me", 9, 0)
    os.ftruncate(taken.fds[0], 0)
    os.pwrite(taken.fds[0], words, 0)
    with pytest.raises(RunError, match="held by a process that does not say who it is"):
        lease.take("other", 9, 0)
    taken.release()
    # And of an unlocked file nothing is believed.
    lease.take("other", 1, 0).release()
    assert lease.holders([taken.device.uuid]) == {taken.device.uuid: []}


def test_many_processes_never_overlap_and_use_all_devices(start, leases, monkeypatch):
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

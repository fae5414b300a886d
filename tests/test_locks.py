"""The folder of leases: for all users, whoever made it, and nothing that could mislead is in it."""

import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from lease_processes import HOLD, TAKE, took

from tmol_plugin import device, lease, locks
from tmol_plugin.errors import RunError


@pytest.fixture(autouse=True)
def folder(leases):
    return leases


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


def test_a_removed_file_is_not_what_is_locked(folder, monkeypatch):
    """A cleaner of old files may remove one between its opening and its locking."""
    lease.take("me", 1, 0).release()
    opened = []

    def remove_first(path, make):
        fd = open_file(path, make)
        if not opened:
            os.unlink(path)
        opened.append(path)
        return fd

    open_file = locks._open
    monkeypatch.setattr(locks, "_open", remove_first)
    fd = locks.try_lock(folder / "mutex")
    assert opened == [folder / "mutex"] * 2
    assert os.fstat(fd).st_ino == (folder / "mutex").stat().st_ino
    locks.unlock(fd)


def test_unlocking_does_not_wait_for_a_forked_process(folder):
    """A copy of a descriptor is what a fork without exec leaves in another process."""
    fd = locks.try_lock(locks.checked_folder() / "mutex")
    copy = os.dup(fd)
    locks.unlock(fd)
    again = locks.try_lock(folder / "mutex")
    assert again is not None
    locks.unlock(again)
    os.close(copy)


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

"""Kernel locks on files in a folder that all users of a machine share, and what they say.

The kernel frees a lock (flock) however a process dies, once no process has the descriptor any
more. Descriptors are closed on exec unless handed on (`pass_fds`); a fork without exec
inherits them, and with them the lock.

Looking at locks and changing them is done under one more lock, `exclusively`, held for about
a millisecond. A locked file is described before its locker lets go of that one, so who
looks reads the words of whoever holds it; what an unlocked file says is of the past. Files
are never removed: where a cleaner of old files removed one, its successor is locked.
"""

import ctypes
import errno
import fcntl
import itertools
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tmol_plugin.errors import RunError

# Not /dev/shm, which is emptied of a user's files when they log out, nor /run/lock, which on
# some systems only root may write to.
_DEFAULT_FOLDER = "/tmp/tmol_plugin_leases"  # noqa: S108 - a link there is not followed
_REMEDY = "set TMOL_PLUGIN_LEASES to a folder on a disk of this machine that all its users can use"
_PATIENCE_SECONDS = 60
# What statfs(2) says of NFS, SMB, CIFS, SMB2, Ceph, Lustre, GPFS, BeeGFS, AFS, kAFS, FUSE
# (sshfs and others), GFS2, OCFS2, Coda, PanFS, OrangeFS and 9p.
_NETWORK_FILE_SYSTEMS = frozenset(
    (
        *(0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x00C36400, 0x0BD00BD0, 0x47504653),
        *(0x19830326, 0x5346414F, 0x6B414653, 0x65735546, 0x01161970, 0x7461636F),
        *(0x73757245, 0xAAD7AAEA, 0x20030528, 0x01021997),
    )
)
_WORDS = {"pid": int, "user": str, "host": str, "holder": str, "candidates": str}
_WORDS |= {"share": int, "number": int, "since": (int, float)}  # of every description


def named_folder() -> Path:
    """The folder of the locks, which may not be there yet."""
    return Path(os.environ.get("TMOL_PLUGIN_LEASES") or _DEFAULT_FOLDER)


def checked_folder() -> Path:
    """The folder of the locks, made if it is missing, for all users like /tmp.

    Raises:
        RunError: it cannot be made, is no folder or a link to one, or is on a network.
    """
    path = named_folder()
    try:
        with _no_umask(), suppress(FileExistsError):
            os.mkdir(path, 0o1777)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        is_other = error.errno in (errno.ENOTDIR, errno.ELOOP) and path.parent.is_dir()
        why = "it is a link or no folder" if is_other else error.strerror
        raise RunError(f"the folder of leases {path} cannot be used: {why}; {_REMEDY}") from error
    try:
        kind = _file_system(fd)
    finally:
        os.close(fd)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise RunError(
            f"the folder of leases {path} is on a network or FUSE file system ({kind:#x}), where"
            f" locks may be lost; {_REMEDY}"
        )
    return path


def _file_system(fd: int) -> int:
    """The type in statfs(2), which Python's own statvfs leaves out; it is the first field."""
    buffer = (ctypes.c_long * 64)()
    if ctypes.CDLL(None, use_errno=True).fstatfs(fd, buffer) != 0:
        raise RunError(f"fstatfs: {os.strerror(ctypes.get_errno())}")
    return buffer[0] & 0xFFFFFFFF


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Be the only process that looks at locks of the folder and changes them.

    Raises:
        RunError: others were there for a minute: one of them is stopped, or means no good.
    """
    path, pause = f"{folder}/mutex", 0.001
    give_up_at = time.monotonic() + _PATIENCE_SECONDS
    while (fd := try_lock(path)) is None:
        if time.monotonic() > give_up_at:
            raise RunError(f"{path} stays locked: see with `fuser {path}` which process is stuck")
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    try:
        os.utime(fd)  # so that it is not taken for an old file
        yield
    finally:
        unlock(fd)


def try_lock(path: str | Path, make: bool = True) -> int | None:
    """Lock a file if nobody else has; its descriptor, or None.

    Raises:
        FileNotFoundError: there is none and it is not to be made.
        RunError: the file cannot be opened or locked, or is no plain file.
    """
    while True:
        fd = _open(path, make)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False)):
                    return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError as error:
            os.close(fd)
            raise RunError(f"{path} cannot be locked: {error.strerror}; {_REMEDY}") from error
        unlock(fd)  # it was removed since it was opened


def unlock(fd: int) -> None:
    """Unlock and close, also if a forked process has the descriptor, too."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def lock_first(folder: Path, name: str, about: dict) -> int:
    """Lock and describe the first free one of the files name.0, name.1, ...

    Raises:
        RunError: as `try_lock`, or locks have no effect there, or the disk is full.
    """
    for path in _numbered(folder, name):
        fd = try_lock(path)
        if fd is not None:
            break
    try:
        if _look(path) is None:
            raise RunError(f"locks in {folder} have no effect; {_REMEDY}")
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(about).encode(), 0)
    except OSError as error:
        unlock(fd)
        raise RunError(f"{path} cannot be written: {error.strerror}; {_REMEDY}") from error
    return fd


def look_at_locked(folder: Path, name: str) -> list[dict]:
    """The descriptions of those of the files name.0, name.1, ... that are locked.

    Each has a `seen_at`, the UTC seconds of when its file was last touched, and else nothing
    if it is not one of ours.
    """
    found = []
    for path in _numbered(folder, name):
        try:
            about = _look(path)
        except FileNotFoundError:
            return found
        if about is not None:
            found.append(about)


# Paths are text here, which is quicker to join: dozens of waiters look all the time.


def _numbered(folder: Path, name: str) -> Iterator[str]:
    safe = name.replace("/", "-")  # MIG's UUIDs before driver 470 have slashes
    return (f"{folder}/{safe}.{number}" for number in itertools.count())


def _look(path: str) -> dict | None:
    """What a locked file says; None if it is not locked."""
    fd = _open(path, make=False)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
        return None
    except BlockingIOError:
        seen_at, text = os.fstat(fd).st_mtime, os.pread(fd, 2**16, 0)
    except OSError as error:
        raise RunError(f"{path} cannot be locked: {error.strerror}; {_REMEDY}") from error
    finally:
        os.close(fd)
    try:
        about = json.loads(text)
    except ValueError:
        about = None
    is_ours = isinstance(about, dict) and all(
        isinstance(about.get(name), kind) for name, kind in _WORDS.items()
    )
    return {**(about if is_ours else {}), "seen_at": seen_at}


def _open(path: str | Path, make: bool) -> int:
    """Open a file, others' too, for reading and writing; with `make` one that all can lock.

    Never O_CREAT on a file that is there: Linux forbids that on files of others in folders
    like /tmp (fs.protected_regular).
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        while True:
            try:
                fd = os.open(path, flags)
                break
            except FileNotFoundError:
                if not make:
                    raise
            with _no_umask(), suppress(FileExistsError):
                fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
                break
    except FileNotFoundError:
        if os.path.exists(folder := os.path.dirname(path)):
            raise
        raise RunError(f"the folder of leases {folder} was removed; start again") from None
    except OSError as error:
        raise RunError(f"{path} cannot be opened: {error.strerror}; {_REMEDY}") from error
    # A second name could be that of a file of ours somewhere else.
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(fd)
        raise RunError(f"{path} is no plain file of its own; remove it, or {_REMEDY}")
    return fd


@contextmanager
def _no_umask() -> Iterator[None]:
    """Make what is made with the mode given: at once, so that nobody finds it with another.

    The umask is the process's: what other threads make in these microseconds is without it.
    """
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)

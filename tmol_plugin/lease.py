"""The lease on one GPU: processes of this machine take turns, or share as far as all agree.

A lease is a lock (tmol_plugin.locks) on a file named by the device's UUID; the kernel frees it
however the process dies. Who waits holds a lock on a ticket. A process that shares a device
with n locks one of its files <uuid>.0, <uuid>.1, ...
"""

import logging
import os
import pwd
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tmol_plugin import device as devices
from tmol_plugin import locks
from tmol_plugin.device import Device
from tmol_plugin.errors import RunError

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
# A waiter that has not looked for so long (it was stopped) is passed over until it does again.
_ABSENT_SECONDS = 10
_ANNOUNCE_SECONDS = 600
_TICKET = "waiting"


@dataclass
class Lease:
    """A device that this process, and those that it hands `fds` to, may use.

    `environment` is for the process that uses it, set before that imports torch; `fds` are for
    its `pass_fds`. `started_at` is in UTC seconds.
    """

    device: Device
    started_at: float
    waited_seconds: float
    fds: tuple[int, ...]
    environment: dict[str, str]
    _ended_at: float | None = field(default=None, repr=False)

    def release(self) -> float:
        """Let go of the device; returns when, in UTC seconds, also if it was before.

        The device is free when processes that inherited `fds` have ended, too.
        """
        if self._ended_at is None:
            self._ended_at = time.time()  # before it is free, so that leases never overlap
            for fd in self.fds:
                os.close(fd)
        return self._ended_at


def lease_for(wanted: dict, holder: str) -> Lease | None:
    """The lease that the config's `device` (normalized) asks for; None to use the CPU.

    Raises:
        RunError: `cuda` is asked for and cannot be used, and as `take`.
    """
    if wanted["use"] == "cpu":
        return None
    why_not = devices.why_no_cuda()
    if why_not is None:
        return take(holder, wanted["share"], wanted["wait_minutes"] * 60)
    if wanted["use"] == "cuda":
        raise RunError(f"device: cuda cannot be used: {why_not}")
    level = logging.WARNING if devices.listed_devices() else logging.INFO
    log.log(level, "device: auto is the CPU: %s", why_not)
    return None


def take(holder: str, share: int, wait_seconds: float) -> Lease:
    """A lease on one of the visible devices; waits for it, first come first served.

    Args:
        holder: who takes it, in words, for those who wait.
        share: how many processes may be on the device, this one included. It is never on a
            device with more than that, nor with more than any other holder there allows.
        wait_seconds: how long to wait at most.

    Raises:
        RunError: no device is visible or none became free, with who holds them; the folder of
            leases cannot be used.
    """
    candidates = {device.uuid: device for device in devices.visible_devices()}
    if not candidates:
        raise RunError("no GPU is visible to this process; see `python -m tmol_plugin devices`")
    folder, begun = locks.checked_folder(), time.monotonic()
    about = {"pid": os.getpid(), "user": _user(), "host": socket.gethostname(), "holder": holder}
    about |= {"share": share, "number": 0, "since": time.time()}
    about |= {"candidates": " ".join(candidates)}
    ticket, announce_at = None, begun
    try:
        while True:
            now = time.monotonic()
            is_over = now - begun >= wait_seconds
            with locks.exclusively(folder):
                uuid = _next_for(folder, about)
                if uuid is not None:
                    since = time.time()
                    fd = locks.lock_first(folder, uuid, about | {"since": since})
                    break
                # The place in the queue is taken before another can look.
                if ticket is None:
                    about["number"] = 1 + max(map(_number, _waiters(folder)), default=0)
                    ticket = locks.lock_first(folder, _TICKET, about)
                os.utime(ticket)
                if is_over or now >= announce_at:
                    words = _explain_wait(folder, candidates, about)
            if is_over:
                raise RunError(
                    f"no GPU became free within {wait_seconds / 60:g} minutes: {words}."
                    " Raise device.wait_minutes, start fewer jobs at once, or end who holds them"
                )
            if now >= announce_at:
                log.info("waiting for a GPU, at most %g minutes: %s", wait_seconds / 60, words)
                announce_at = now + _ANNOUNCE_SECONDS
            time.sleep(POLL_SECONDS)
    finally:
        if ticket is not None:
            locks.unlock(ticket)
    waited = time.monotonic() - begun
    log.info("lease on %s after %.1f s", _name(candidates[uuid]), waited)
    environment = {"CUDA_VISIBLE_DEVICES": uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return Lease(candidates[uuid], since, waited, (fd,), environment)


def report() -> str:
    """A table of the devices that this process is shown and of who holds a lease on them."""
    visible = {device.uuid for device in devices.visible_devices()}
    rows = [("index", "name", "UUID", "GiB", "visible", "lease")]
    listed = devices.listed_devices()
    held = holders([one.device.uuid for one in listed if one.device.uuid])
    for device, _, why_not in listed:
        use = why_not or ("yes" if device.uuid in visible else "no")
        who = "; ".join(map(_who, held.get(device.uuid, []))) or "free"
        size = f"{device.total_bytes / 2**30:.1f}"
        rows.append((str(device.index), device.name, device.uuid, size, use, who))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows] if listed else []
    if (why_not := devices.why_no_cuda()) is not None:
        lines.append(f"CUDA cannot be used: {why_not}")
    return "\n".join(lines)


def holders(uuids: list[str]) -> dict[str, list[dict]]:
    """Who holds a lease on each device: pid, user, host, holder, share, since (UTC seconds).

    Raises:
        RunError: the folder of leases is there and cannot be used.
    """
    if not uuids or not locks.named_folder().exists():
        return {}
    folder = locks.checked_folder()
    with locks.exclusively(folder):
        return {uuid: locks.look_at_locked(folder, uuid) for uuid in uuids}


# What follows, to the end of `_explain_wait`, is called under the mutex.


def _next_for(folder: Path, about: dict) -> str | None:
    """The candidate that this process may take now, if those who wait before it are served.

    Each of them is given its own best device in thought; one that none is free for keeps the
    least used of its candidates from filling up with others, who would share.
    """
    held: dict[str, list[int]] = {}  # the shares of a device's holders

    def shares(uuid: str) -> list[int]:
        if uuid not in held:
            held[uuid] = [_share(one) for one in locks.look_at_locked(folder, uuid)]
        return held[uuid]

    if not _best(about, shares)[0]:  # as mostly: then the queue need not be looked at
        return None
    for waiter in _waiters_before(folder, about):
        shares(_best(waiter, shares)[1]).append(_share(waiter))
    is_free, uuid = _best(about, shares)
    return uuid if is_free else None


def _best(waiter: dict, shares: Callable[[str], list[int]]) -> tuple[bool, str]:
    """The least used of a waiter's candidates, a free one if there is one, and whether it is."""

    def rank(uuid: str) -> tuple[bool, int]:
        there = shares(uuid)
        return len(there) >= min([_share(waiter), *there]), len(there)

    uuid = min(waiter["candidates"].split(), key=rank)
    return not rank(uuid)[0], uuid


def _share(about: dict) -> int:
    """How many a holder shares with; one that does not say it shares with none."""
    return max(1, about.get("share", 1))


def _number(about: dict) -> int:
    """A waiter's place in the queue; who has no ticket yet would be its last."""
    return about["number"] or sys.maxsize


def _waiters(folder: Path) -> list[dict]:
    found = locks.look_at_locked(folder, _TICKET)
    return sorted((one for one in found if one.get("candidates")), key=_number)


def _waiters_before(folder: Path, about: dict) -> list[dict]:
    earliest = time.time() - _ABSENT_SECONDS
    waiters = [one for one in _waiters(folder) if _number(one) < _number(about)]
    return [one for one in waiters if one["seen_at"] >= earliest]


def _explain_wait(folder: Path, candidates: dict[str, Device], about: dict) -> str:
    parts = []
    for uuid, device in candidates.items():
        who = "; ".join(map(_who, locks.look_at_locked(folder, uuid)))
        parts.append(f"{_name(device)}: {who or 'kept for one who waits before'}")
    before = len(_waiters_before(folder, about))
    return ". ".join(parts) + f". Waiting before this process: {before}"


def _name(device: Device) -> str:
    return f"GPU {device.index} ({device.name}, {device.uuid})"


def _who(about: dict) -> str:
    if "pid" not in about:
        return "held by a process that does not say who it is"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(about["since"]))
    process = f"pid {about['pid']}"
    if about["host"] == socket.gethostname() and not _is_alive(about["pid"]):
        process += " (ended; a process that it started holds on)"
    shared = f", share {about['share']}" if about["share"] != 1 else ""
    return (
        f"held by {process} of {about['user']} on {about['host']}, {about['holder']}{shared},"
        f" since {since}"
    )


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"

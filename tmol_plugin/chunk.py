"""Stage `score_chunk`: one chunk on one device, by a process that can be lost and replaced.

This process takes the lease on a GPU, if the chunk is for one, and has a worker score the
chunk. A worker that dies, of a CUDA fault or of a crash in native code, is replaced: the next
one takes up after the last finished batch and takes what was in hand one by one. A structure
that ends a process again is a failure of its own. Then the GPU is let go, and the tables of
the chunk are made of what the workers finished.

Until the worker runs, nothing is imported here that takes long.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tmol_plugin import device as devices
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.lease import Lease, lease_for

log = logging.getLogger(__name__)

# Structures that end a process one after the other, with nothing scored between them, tell
# more of the device than of themselves.
MOST_BLAMED_IN_A_ROW = 5
# Workers that die before they begin anything, one after the other.
MOST_DEAD_IN_A_ROW = 3

WORKER = [sys.executable, "-m", "tmol_plugin.worker"]


def run(
    members_file: str,
    plan_file: str,
    parameters_file: str,
    output: str,
    device: str | None,
    threads: int,
    started_at: float,
) -> None:
    """Score a chunk and write its tables and, last, done.json; `device` None is the config's.

    Raises:
        RunError: no device, a worker's error that concerns the run, a device that fails.
    """
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    wanted = devices.normalized(plan["config"]["device"]) | ({"use": device} if device else {})
    folder = Path(output)
    order = {"chunk": folder.name, "members": members_file, "plan": plan_file}
    order |= {"parameters": parameters_file, "threads": threads, "supervisor": os.getpid()}
    with _claimed(folder / "parts") as waited:
        if waited and (folder / "done.json").exists():
            log.info("the other process has scored it")
            shutil.rmtree(folder / "parts", ignore_errors=True)
        else:
            _run(order, plan, wanted, folder, started_at)


@contextlib.contextmanager
def _claimed(parts_folder: Path):
    """Hold the chunk for this process: one left over from a killed run may still be at it.

    Yields whether it was waited for.
    """
    waited = False
    parts_folder.mkdir(parents=True, exist_ok=True)
    with open(parts_folder / "lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another process is at chunk %s; waiting for it", parts_folder.parent.name)
            fcntl.flock(file, fcntl.LOCK_EX)
            waited = True
        except OSError as error:  # a network file system without locks
            log.warning("%s cannot be locked: %s", parts_folder, error)
        yield waited


def _run(order: dict, plan: dict, wanted: dict, folder: Path, started_at: float) -> None:
    supervisor = Supervisor(order, plan, folder / "parts")
    lease = None
    if supervisor.something_left():
        if devices.gpus_of_chunk(order["members"], wanted["use"]):
            lease = lease_for(wanted, holder=f"chunk {order['chunk']}")
        try:
            supervisor.work(lease, started_at)
        finally:
            if lease is not None:
                lease_ended_at = lease.release()
    from tmol_plugin import assembly

    timing = {"threads": order["threads"], "started_at": started_at, "device": "cpu"}
    if lease is not None:
        timing |= {"device": lease.device.name, "device_uuid": lease.device.uuid}
        timing |= {"lease_started_at": lease.started_at, "lease_ended_at": lease_ended_at}
        timing["lease_wait_seconds"] = lease.waited_seconds
    assembly.write(folder, supervisor.members(), supervisor.found(), plan, timing)
    shutil.rmtree(folder / "parts")


class Supervisor:
    """Has workers score a chunk until every member is finished."""

    def __init__(self, order: dict, plan: dict, parts_folder: Path):
        self._order = order
        self._plan = plan
        self._folder = parts_folder
        # What was in hand when a worker died, and how many died with nothing else in hand.
        self._suspects: dict[tuple, int] = {}
        self._n_ended = 0
        self._blamed: list[Path] = []  # parts of structures blamed one after the other
        self._dead_in_a_row = 0

    def members(self):
        """The members of the chunk, tables.MEMBERS."""
        from tmol_plugin import tables

        return tables.read_tsv(self._order["members"], tables.MEMBERS)

    def found(self):
        """What is finished: parts.Found."""
        from tmol_plugin import parts

        return parts.read(self._folder, parts.identity_of(self._plan))

    def something_left(self) -> bool:
        """Whether any member is not finished; looked up only if there are parts at all."""
        if not any(self._folder.glob("*.part")):
            return True
        n_ended = len(self.found().ended)
        log.info("%d structures were finished before", n_ended)
        return n_ended < len(self.members())

    def work(self, lease: Lease | None, started_at: float) -> None:
        """Start a worker, and another one as long as one dies."""
        while True:
            part = self._new_part()
            code = self._worker(part, lease, started_at)
            if code == 0:
                return
            self._learn(part, code)
            started_at = time.time()

    def _new_part(self) -> Path:
        number = 1 + max((int(path.stem) for path in self._folder.glob("*.part")), default=0)
        return self._folder / f"{number:06d}.part"

    def _worker(self, part: Path, lease: Lease | None, started_at: float) -> int:
        """Run a worker to its end; returns its exit code, negative if a signal ended it."""
        where = "cpu" if lease is None or lease.device.is_pretend else "cuda"
        order = self._order | {"part": str(part), "where": where, "started_at": started_at}
        order |= {"alone": list(self._suspects), "lease": list(lease.fds) if lease else []}
        threads = str(self._order["threads"])
        environment = os.environ | (lease.environment if lease else {})
        for library in ("OMP", "MKL", "OPENBLAS"):
            environment[f"{library}_NUM_THREADS"] = threads
        worker = subprocess.Popen(  # noqa: S603 - Python, and a module of this package
            WORKER,
            stdin=subprocess.PIPE,
            env=environment,
            pass_fds=lease.fds if lease else (),
        )
        with contextlib.suppress(BrokenPipeError):  # it died: its exit code tells
            worker.stdin.write(json.dumps(order).encode())
            worker.stdin.close()
        return worker.wait()

    def _learn(self, part: Path, code: int) -> None:
        """Take note of what the dead worker had in hand; blame it if it is clear.

        Raises:
            RunError: if another worker would not help.
        """
        from tmol_plugin import worker

        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if code == worker.ERROR or -code in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            raise RunError(f"the process that scores ended with {how}; its words are above")
        found = self.found()
        in_hand = found.in_hand.get(part.name, [])
        words = found.words.get(part.name, "")
        log.warning("the worker ended with %s, %d structures in hand", how, len(in_hand))
        self._dead_in_a_row = 0 if in_hand else self._dead_in_a_row + 1
        if self._dead_in_a_row == MOST_DEAD_IN_A_ROW:
            raise RunError(
                f"{MOST_DEAD_IN_A_ROW} processes ended with {how} before they began to score;"
                f" {words or 'see the log above'}"
            )
        if len(found.ended) > self._n_ended:
            self._blamed.clear()
        self._n_ended = len(found.ended)
        still = {key: n for key, n in self._suspects.items() if key not in found.ended}
        self._suspects = dict.fromkeys(in_hand, 0) | still
        if len(in_hand) == 1:
            self._suspects[in_hand[0]] += 1
            # What happens once may be the device's. Anybody may kill a process, and the kernel
            # kills a large one when memory runs out: that must happen once more.
            if self._suspects[in_hand[0]] == (3 if -code == signal.SIGKILL else 2):
                self._blame(in_hand[0], how, words)

    def _blame(self, key: tuple, how: str, words: str) -> None:
        """Make the failure of the structure that ended a process while alone in it."""
        from tmol_plugin import parts, tables

        if len(self._blamed) == MOST_BLAMED_IN_A_ROW:
            for part in self._blamed:
                part.unlink()
            raise RunError(
                f"{MOST_BLAMED_IN_A_ROW + 1} structures one after the other ended the process, the"
                f" last with {how}{f' ({words})' if words else ''}: the device or its driver seems"
                " to be at fault; look at it, then run again"
            )
        (row,) = (r for r in self.members().to_dict("records") if parts.key_of(r) == key)
        path = tables.unescape(row["path"])
        said = (
            f"{path}: each process that scored it ended with {how}{f': {words}' if words else ''}"
        )
        killed = how.endswith("SIGKILL")
        error = StructureError("too_large" if killed else "device_fault", said)
        log.warning("%s", said)
        self._blamed.append(self._new_part())
        writer = parts.PartWriter(self._blamed[-1], parts.identity_of(self._plan))
        writer.finish({"failures": [tables.failure_row(row, "score", error)]})
        writer.close()
        del self._suspects[key]
        self._n_ended += 1

"""Preparing many files: in one process, or in several, results in the order of the input.

gemmi holds the interpreter lock while it parses, so threads of one process would wait for
each other most of the time; processes do not.
"""

import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from tempfile import TemporaryDirectory

import numpy as np

from tmol_plugin import native
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.naming import preparation_arrays
from tmol_plugin.parameters import Parameters
from tmol_plugin.policy import Policy
from tmol_plugin.pose import Pose
from tmol_plugin.reading import Source
from tmol_plugin.structure import (
    DEFAULT,
    NotCoveredError,
    Result,
    make_pose,
    prepare_file,
    tables_of,
)

# Files of one task: enough that handing it over costs little, few enough to spread evenly.
_TASK_FILES = 16
# Tasks under way for each process: results wait here, so this bounds the memory they take.
_TASKS_AHEAD = 4

_Outcome = Result | tuple[str, str]  # or the reason of a failure and its message


def read_poses(
    paths: Iterable[str],
    parameters: Parameters,
    threads: int = 1,
    model: int | None = None,
    policy: Policy = DEFAULT,
) -> Iterator[Pose | StructureError]:
    """Prepare one model of each file, as `structure.read_pose` does.

    Args:
        paths: files, taken as they are needed: there may be millions.
        threads: how many to prepare at a time, each in a process of its own; 1 starts none.

    Yields:
        For each path in turn its Pose, or the StructureError that it ended in.
    """
    if isinstance(paths, str):
        raise TypeError(f"paths is the string {paths!r}: give a list of paths")
    if threads <= 1:
        outcomes = (_outcome(path, tables_of(parameters), model, policy) for path in paths)
    else:
        outcomes = _in_processes(iter(paths), parameters, threads, model, policy)
    for outcome in outcomes:
        if isinstance(outcome, Result):
            yield make_pose(outcome, parameters)
        else:
            reason, message = outcome
            covered = reason != _NOT_COVERED
            yield StructureError(reason, message) if covered else NotCoveredError(message, None)


_NOT_COVERED = ""


def _outcome(path: str, tables: native.Tables, model: int | None, policy: Policy) -> _Outcome:
    try:
        return prepare_file(Source(path), tables, model, policy)
    except NotCoveredError as error:
        return _NOT_COVERED, error.message
    except StructureError as error:
        return error.reason, error.message


_worker_tables: native.Tables | None = None


def _start_worker(file: str) -> None:
    global _worker_tables
    with np.load(file) as arrays:
        _worker_tables = native.Tables(dict(arrays))


def _is_ready() -> bool:
    return _worker_tables is not None


def _work(paths: list[str], model: int | None, policy: Policy) -> list[_Outcome]:
    return [_outcome(path, _worker_tables, model, policy) for path in paths]


def _in_processes(paths, parameters, threads: int, model: int | None, policy: Policy):
    workers = _Workers(threads, preparation_arrays(parameters), model, policy)
    under_way: deque[tuple[list[str], Future]] = deque()
    try:
        while True:
            while len(under_way) < threads * _TASKS_AHEAD:
                task = list(islice(paths, _TASK_FILES))
                if not task:
                    break
                under_way.append((task, workers.submit(task)))
            if not under_way:
                return
            task, future = under_way.popleft()
            try:
                yield from future.result()
            except BrokenProcessPool:
                # A process died: of which file, only one at a time can tell.
                workers.restart()
                for path in task:
                    yield workers.alone(path)
                under_way = deque((task, workers.submit(task)) for task, _ in under_way)
    finally:
        workers.close()


class _Workers:
    """Processes that prepare files, started anew when one of them dies."""

    def __init__(self, threads: int, arrays, model: int | None, policy: Policy):
        # Through a file: to hand them to a process that dies at its start could wait for ever.
        self._folder = TemporaryDirectory()
        self._file = f"{self._folder.name}/tables.npz"
        np.savez(self._file, **arrays)
        self._threads, self._arguments = threads, (model, policy)
        self._start()

    def _start(self) -> None:
        # Forking a process that has threads can hang.
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(self._threads, context, _start_worker, (self._file,))
        try:
            self.pool.submit(_is_ready).result()
        except BrokenProcessPool as error:
            raise RunError(
                "processes that prepare files cannot be started; a script that starts them must"
                ' do so under `if __name__ == "__main__":`, or read with threads=1'
            ) from error

    def restart(self) -> None:
        self.pool.shutdown()
        self._start()

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def submit(self, task: list[str]) -> Future:
        try:
            return self.pool.submit(_work, task, *self._arguments)
        except BrokenProcessPool as error:  # of a task before: seen before that is awaited
            future: Future = Future()
            future.set_exception(error)
            return future

    def alone(self, path: str) -> _Outcome:
        """The outcome of one file, while nothing else is under way."""
        try:
            return self.submit([path]).result()[0]
        except BrokenProcessPool:
            self.restart()
            return "engine_error", f"{path}: the process that prepared it died"

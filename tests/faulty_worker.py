"""The worker, with a native engine that fails as the environment's FAULTS tells it to.

FAULTS is a JSON object: `faults`, {name of a structure: [moment, what happens, how often]},
`oom_above`, atoms of a batch above which memory runs out, and `log`, a file that gets a line
for each batch that is scored: the names in it.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from tmol_plugin import native_engine, worker

TOLD = json.loads(os.environ["FAULTS"])


def cuda_error():
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def kill_supervisor():
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()  # until the kernel kills this process too


HAPPENS = {
    "abort": os.abort,
    "segmentation fault": lambda: ctypes.string_at(0),
    "exit": lambda: os._exit(3),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "terminate": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "CUDA error": cuda_error,
    "kill supervisor": kill_supervisor,
}


class FaultyEngine(native_engine.NativeEngine):
    """Scores natively what it is not told to fail with."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self._names = {}  # of what was prepared, by its identity

    def read(self, source, model, policy):
        name = Path(source.path).stem
        self._at("prepare", [name])
        prepared = super().read(source, model, policy)
        self._names[id(prepared)] = name
        return prepared

    def stack(self, batch):
        self._stacked = [self._names[id(one)] for one in batch]
        self._n_atoms = sum(one.n_atoms for one in batch)
        return super().stack(batch)

    def score(self, stacked):
        self._at("score", self._stacked)
        if self._n_atoms > TOLD.get("oom_above", self._n_atoms):
            raise MemoryError
        with open(TOLD["log"], "a", encoding="utf-8") as log:
            log.write(" ".join(self._stacked) + "\n")
        return super().score(stacked)

    def _at(self, moment, names):
        for name in names:
            when, what, most = TOLD["faults"].get(name, ("never", "", 0))
            count = Path(f"{TOLD['log']}.{name}")
            if when == moment and (n := len(count.read_bytes()) if count.exists() else 0) < most:
                count.write_bytes(b"x" * (n + 1))
                HAPPENS[what]()


if __name__ == "__main__":
    if TOLD.get("start"):
        HAPPENS[TOLD["start"]]()
    native_engine.NativeEngine = FaultyEngine
    sys.exit(worker.main())

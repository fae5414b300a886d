"""The worker, on a GPU, with less memory or with a fault as the environment's GPU_TEST tells it.

GPU_TEST is a JSON object: `limit_bytes`, what torch may allocate; `faulty`, the name of a
structure whose scoring reads beyond a tensor on the device; `log`, a file that gets the names
of the structures of each batch that was scored.
"""

import json
import os
import sys
from pathlib import Path

import torch

from tmol_plugin import native_engine, worker

TOLD = json.loads(os.environ["GPU_TEST"])


class FaultyEngine(native_engine.NativeTmolEngine):
    """Scores what it is not told to fail with."""

    def __init__(self, *arguments, device):
        super().__init__(*arguments, device=device)
        if limit_bytes := TOLD.get("limit_bytes"):
            total_bytes = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(limit_bytes / total_bytes, device)
        self._names = {}  # of what was prepared, by its identity

    def read(self, source, model, policy):
        prepared = super().read(source, model, policy)
        self._names[id(prepared)] = Path(source.path).stem
        return prepared

    def stack(self, batch):
        self._stacked = [self._names[id(one)] for one in batch]
        return super().stack(batch)

    def score(self, stacked):
        if TOLD.get("faulty") in self._stacked:
            beyond = torch.tensor([1], device="cuda")
            torch.zeros(1, device="cuda")[beyond].cpu()  # a device-side assertion
        energies = super().score(stacked)
        with open(TOLD["log"], "a", encoding="utf-8") as log:
            log.write(" ".join(self._stacked) + "\n")
        return energies


if __name__ == "__main__":
    native_engine.NativeTmolEngine = FaultyEngine
    sys.exit(worker.main())

"""Measure what batches take on the CPU, as a memory table for `fit-memory`.

    python tests/benchmarks/memory.py FOLDER --output memory.parquet [--engines native tmol]

Batches of 1 to 512 poses of structures of the folder and the shipped ones, native ones on 1
and 4 threads and TMol's on 1 and 2. Each batch is stacked and scored REPEATS times by the real
engine under `memory_meter.Meter`, in a forked process of its own that scored nothing before, and
from a heap without freed memory (glibc's malloc_trim), which would hide what a batch takes. As in
a chunk, a thread meanwhile reads as many structures ahead for native scoring, and is waited for.
TMol prepares one pose and stacks it n times. Prints each batch, and what a native pose takes.

The rows' chunk is the engine, structure, poses and threads.
"""

import argparse
import ctypes
import logging
import os
import pickle
import sys
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tmol_plugin import device, tables
from tmol_plugin.engine import TmolEngine
from tmol_plugin.memory_meter import Meter, host_memory
from tmol_plugin.memory_model import Model, batch_columns
from tmol_plugin.native_engine import NativeEngine
from tmol_plugin.parameters import compile_parameters
from tmol_plugin.policy import Policy
from tmol_plugin.reading import Source

SHIPPED = Path(__file__).parents[1] / "structures"
SETTINGS = {"hydrogens": "keep", "packer_seed": 20160}
REPEATS = 2
# Structure, and poses of a batch; two structures: one pose of the first, the others of the second.
BATCHES = {
    "native": [
        *((("bysize_015_res_1lu6.pdb",), n) for n in (1, 32, 256)),
        *((("1ubi.pdb",), n) for n in (1, 8, 32, 64, 128, 256, 512)),
        *((("1fas.cif",), n) for n in (16, 256)),
        *((("bysize_200_res_5mm8.pdb",), n) for n in (1, 16, 64, 256, 512)),
        *((("bysize_400_res_6azu.pdb",), n) for n in (4, 32, 128, 256)),
        *((("bysize_800_res_5opj.pdb",), n) for n in (1, 8, 32, 64, 128, 256)),
        *((("bysize_800_res_5opj.pdb", "1ubi.pdb"), n) for n in (32, 256)),
    ],
    "tmol": [
        *((("bysize_015_res_1lu6.pdb",), n) for n in (1, 32, 512)),
        *((("1bna.pdb",), n) for n in (1, 32, 96, 256)),
        *((("bysize_075_res_2mtq.pdb",), n) for n in (1, 8, 32, 128, 512)),
        *((("bysize_200_res_5mm8.pdb",), n) for n in (1, 8, 32, 128, 256)),
        *((("bysize_400_res_6azu.pdb",), n) for n in (1, 8, 32, 64)),
        *((("bysize_800_res_5opj.pdb",), n) for n in (1, 4, 16, 32, 64)),
        *((("bysize_800_res_5opj.pdb", "bysize_075_res_2mtq.pdb"), n) for n in (8, 32)),
    ],
}
THREADS = {"native": (1, 4), "tmol": (1, 2)}


def rows_of(engine, n_threads: int, read, wanted: list[Path], chunk: str, model: Model):
    """Rows of one case; to be called in a process that has done nothing else."""
    if engine.name == "tmol":
        import torch

        torch.set_num_threads(n_threads)
    trim()
    reads_ahead, before = engine.reads_ahead, host_memory()[0]
    batch = list(map(read, wanted))
    trim()
    if reads_ahead:
        each = (host_memory()[0] - before) / len(wanted)
        print(f"{chunk}: {each:,.0f} bytes a pose", flush=True)
    meter, rows = Meter(device.Host()), []
    with ThreadPoolExecutor(1) as thread:
        for repeat in range(REPEATS):
            trim()
            meter.start()
            following = thread.submit(lambda: list(map(read, wanted))) if reads_ahead else None
            stacked = engine.stack(batch)
            meter.stacked()
            engine.score(stacked)
            if following:
                following = following.result()
            measured = meter.end()
            live, peak = model.predict("cpu", batch)
            row = {"chunk": chunk, "batch": repeat, "split": 0, "outcome": "scored"}
            row |= {"device": "cpu", "predicted_live_bytes": live, "predicted_peak_bytes": peak}
            rows.append(row | batch_columns(batch) | measured)
            stacked, batch = None, following or batch
    return rows


def trim() -> None:
    """Give freed memory back to the system."""
    ctypes.CDLL(None).malloc_trim(0)


def in_a_fork(function, *arguments):
    """The function's result, computed in a forked process."""
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(function(*arguments), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        written = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{arguments[-2:]}: ended with {os.waitstatus_to_exitcode(status)}")
    return pickle.loads(written)  # noqa: S301 - of our own child


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", required=True)
    parser.add_argument("--engines", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    parameters, model, rows = in_a_fork(compile_parameters), Model.load(""), []
    policy = Policy()
    for name in options.engines:
        if name == "native":
            engines = {n: NativeEngine(parameters, SETTINGS, n) for n in THREADS[name]}
        else:
            import torch

            torch.set_num_threads(1)  # threads of the parent would be lost by forks
            made = TmolEngine(parameters, SETTINGS, torch.device("cpu"))
            engines = dict.fromkeys(THREADS[name], made)

        engine = engines[1]

        def read(path, engine=engine):
            return engine.read(Source(str(path)), 1, policy)

        of_path = {}
        for names, n in BATCHES[name]:
            folders = (options.folder, SHIPPED)
            paths = [next(p / f for p in folders if (p / f).exists()) for f in names]
            get = read
            if name == "tmol":  # once, here: it takes half a second
                of_path |= {path: read(path) for path in paths if path not in of_path}
                get = of_path.get
            for n_threads, engine in engines.items():
                chunk = f"{name} {'+'.join(names)} x{n} on {n_threads}"
                wanted = [paths[0], *[paths[-1]] * (n - 1)]
                rows += in_a_fork(rows_of, engine, n_threads, get, wanted, chunk, model)
                needs = [row["peak_bytes"] - row["floor_bytes"] for row in rows[-REPEATS:]]
                lives = [row["live_bytes"] - row["floor_bytes"] for row in rows[-REPEATS:]]
                words = [f"{x / 1e6:.1f}" for x in (*lives, *needs)]
                print(f"{chunk}: live, peak MB {' '.join(words)}", flush=True)
                # As it grows: what was measured is there, however this ends.
                tables.write_parquet(options.output, tables.MEMORY, tables.MEMORY.frame(rows))
    print(f"{len(rows)} rows in {options.output}")


if __name__ == "__main__":
    main()

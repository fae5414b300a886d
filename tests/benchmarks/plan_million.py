"""Plan a million synthetic structures; print the seconds and the memory that it takes.

    python tests/benchmarks/plan_million.py [--rows N] [--folder FOLDER]

The index is made in a process of its own, so that the memory is that of planning alone.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from tmol_plugin import memory_meter, plan, tables
from tmol_plugin.parameters import Parameters

ROOT = Path(__file__).parents[2]
SEED = 20160


def write_index(path: Path, n: int) -> None:
    """An index of n structures of 300 to 30000 atoms, log-normal; 1% of them failed."""
    rng = np.random.default_rng(SEED)
    atoms = np.clip(rng.lognormal(np.log(2500), 0.9, n), 300, 30_000).astype(np.int32)
    failed = rng.random(n) < 0.01
    names = [f"designs/batch_{i // 5000:04d}/design_{i:07d}_model_1.pdb" for i in range(n)]
    columns = {
        "structure_id": names,
        "path": [f"/data/projects/binders/{name}" for name in names],
        "model": np.ones(n, np.int32),
        "sha256": _hex_hashes(rng, n),
        "n_residues": np.maximum(atoms // 16, 1),
        "n_heavy_atoms": atoms // 2,
        "n_atoms": atoms,
        "n_chains": np.ones(n, np.int32),
        "chemistry": np.where(failed, None, "protein"),
        "notes": "waters_dropped=12",
        "stage": np.where(failed, "scan", None),
        "reason": np.where(failed, "missing_atoms", None),
        "message": np.where(failed, "ARG 17 A lacks NE, CZ, NH1, NH2", None),
        "remedy": np.where(failed, "Complete the side chains", None),
    }
    frame = pd.DataFrame(columns).reindex(columns=list(tables.INDEX.columns))
    tables.write_parquet(path, tables.INDEX, frame)


def _hex_hashes(rng: np.random.Generator, n: int) -> list[str]:
    text = rng.bytes(32 * n).hex()
    return [text[64 * i : 64 * (i + 1)] for i in range(n)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="keep the index and the plan here")
    parser.add_argument("--only-index", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only_index:
        return write_index(arguments.only_index, arguments.rows)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        index = folder / "index.parquet"
        command = [sys.executable, __file__, "--rows", str(arguments.rows)]
        subprocess.run([*command, "--only-index", str(index)], check=True)
        imported = memory_meter.host_memory()[0]
        parameters = folder / "parameters.safetensors"
        Parameters({}, {"score_function": "", "residues": [], "failed": {}}).save(parameters)
        config = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
        config["memory"]["device_gib"] = 24
        started = time.perf_counter()
        made = plan.run([index], parameters, config, folder / "plan")
        seconds = time.perf_counter() - started
        peak = memory_meter.host_memory()[1]
    print("    rows  failures  chunks  batches  seconds  peak MB  before MB")
    counts = f"{arguments.rows:8d}  {len(made.failures):8d}  {len(made.chunks):6d}"
    batches = int(made.chunks["n_batches"].sum())
    print(f"{counts}  {batches:7d}  {seconds:7.1f}  {peak / 1e6:7.0f}  {imported / 1e6:9.0f}")


if __name__ == "__main__":
    main()

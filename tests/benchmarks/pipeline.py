"""Throughput of the whole pipeline with native scoring against a plain loop over TMol, in one run.

    python tests/benchmarks/pipeline.py FOLDER [--structures 2000] [--sample 20] [--cores N]

Writes as many PDB files, copies with noise of 0.02 to 0.1 angstrom of what the folder and the
shipped structures hold that is prepared natively; runs Snakemake on them in a temporary folder
(device cpu, else the default configuration); then reads and scores a sample of them, over the
range of sizes, with TMol in this process: `pose_stack_from_file(path, device, no_optH=True)`
and the scorer rendered for each. Prints wall seconds, scores and failures, and where the time
of the chunks went; structures per second of both, the ratio, and the ratio of the scoring jobs
alone (from the start of the first to the end of the last); and the worst difference of totals.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from tmol_plugin.errors import StructureError
from tmol_plugin.parameters import compile_parameters
from tmol_plugin.structure import read_pose

ROOT = Path(__file__).parents[2]


def write_structures(folders: list[Path], to: Path, n_structures: int) -> pd.Series:
    """Copies in turn of what is prepared natively, no two equal; atoms by file name."""
    parameters, rng, poses = compile_parameters(), np.random.default_rng(20160), []
    paths = [path for folder in folders for path in sorted(folder.iterdir())]
    for path in (p for p in paths if ".pdb" in p.name or ".cif" in p.name):
        try:
            poses.append(read_pose(path, parameters))
        except StructureError as error:
            print(f"{path.name}: not native: {error.reason}")
    n_atoms = {}
    for i in range(n_structures):
        pose = poses[i % len(poses)]
        noise = rng.normal(0, rng.uniform(0.02, 0.1), pose.coords.shape)
        name = f"structure_{i:06d}.pdb"
        replace(pose, coords=(pose.coords + noise).astype(np.float32)).write_pdb(to / name)
        n_atoms[name] = pose.n_atoms
    print(f"{n_structures} files of {min(n_structures, len(poses))} structures")
    return pd.Series(n_atoms)


def run_pipeline(folder: Path, n_cores: int) -> float:
    """Wall seconds of Snakemake, from nothing to the final tables."""
    settings = {"structures": "structures", "results": "results", "device": "cpu"}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile")]
    command += ["--configfile", "config.yaml", "--cores", str(n_cores)]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return time.perf_counter() - started


def report_timing(timing: pd.DataFrame) -> float:
    """Prints where the chunks' time went; seconds from the first's start to the last's end."""
    span = timing["ended_at"].max() - timing["started_at"].min()
    in_jobs = (timing["ended_at"] - timing["started_at"]).sum()
    parts = timing.filter(like="_seconds").sum()
    words = ", ".join(f"{name.removesuffix('_seconds')} {s:.2f}" for name, s in parts.items())
    counts = timing["engine"].value_counts().to_dict()
    print(f"{len(timing)} chunks {counts}: {span:.1f} s from first to last, {in_jobs:.1f} s in all")
    print(f"  of these {words} s")
    return span


def plain_loop(paths: list[Path], n_cores: int) -> tuple[float, dict[str, float]]:
    """Seconds per structure by TMol alone, warm; weighted totals by file name."""
    import tmol
    import torch

    torch.set_num_threads(n_cores)
    device = torch.device("cpu")
    score_function = tmol.beta2016_score_function(device)
    reading = scoring = 0.0
    totals = {}
    for i, path in enumerate([paths[0], *paths]):
        started = time.perf_counter()
        stack = tmol.pose_stack_from_file(str(path), device, no_optH=True)
        read = time.perf_counter()
        with torch.no_grad():
            total = score_function.render_whole_pose_scoring_module(stack)(stack.coords).item()
        if i > 0:  # warm
            reading, scoring = reading + read - started, scoring + time.perf_counter() - read
        totals[path.name] = total
    n = len(paths)
    read_ms, score_ms = 1e3 * reading / n, 1e3 * scoring / n
    print(f"TMol alone, {n} files: {read_ms:.0f} ms reading and {score_ms:.0f} ms scoring each")
    return (reading + scoring) / n, totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--structures", type=int, default=2000)
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    started = time.perf_counter()
    import tmol  # noqa: F401

    imported = time.perf_counter() - started
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        structures = folder / "structures"
        structures.mkdir()
        given = [options.folder, ROOT / "tests" / "structures"]
        n_atoms = write_structures(given, structures, options.structures)
        wall = run_pipeline(folder, options.cores)
        tables = {
            name: pd.read_parquet(folder / "results" / f"{name}.parquet")
            for name in ("scores", "failures", "timing")
        }
        scores = tables["scores"].set_index("structure_id")
        print(f"pipeline: {wall:.1f} s, {len(scores)} scores, {len(tables['failures'])} failures")
        print(f"  engines {scores['engine'].value_counts().to_dict()}")
        for reason, rows in tables["failures"].groupby("reason"):
            print(f"  {len(rows)} {reason}: {rows['message'].iloc[0][:150]}")
        span = report_timing(tables["timing"])
        # One of each range of sizes: their times are as different as their sizes.
        by_size = n_atoms[scores.index].sort_values(kind="stable")
        ranges = np.array_split(by_size.index, min(options.sample, len(by_size)))
        rng = np.random.default_rng(20160)
        sample = [str(rng.choice(names)) for names in ranges]
        each, totals = plain_loop([structures / name for name in sample], options.cores)
    print(f"atoms on average: {n_atoms.mean():.0f} of all, {n_atoms[sample].mean():.0f} in sample")
    print(f"import of TMol, not counted for the loop: {imported:.1f} s")
    rate, rate_jobs, rate_loop = len(scores) / wall, len(scores) / span, 1 / each
    print(f"structures/s on {options.cores} cores: pipeline {rate:.1f}, its scoring jobs")
    print(f"  {rate_jobs:.1f}; TMol alone {rate_loop:.3f}")
    print(f"ratio {rate / rate_loop:.0f}; of the scoring jobs alone {rate_jobs / rate_loop:.0f}")
    found, expected = scores.loc[sample, "total"].to_numpy(), np.array([totals[n] for n in sample])
    share = np.abs(found - expected) / (0.01 + 1e-5 * np.abs(expected))
    print(f"worst difference of totals: {share.max():.3f} of what is allowed")


if __name__ == "__main__":
    main()

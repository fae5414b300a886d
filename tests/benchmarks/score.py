"""Speed of native scoring against TMol's own scorer, warm, in one run on the same threads.

    python tests/benchmarks/score.py FOLDER [--threads 1,2] [--repeats 5]

For structures of about 76, 150, 300 and 800 residues (1ubi, and the folder's bysize_* files
nearest to these): milliseconds per pose of both, best and median of the repeats, which take
turns; ratios; and the worst difference of the totals as a share of the 0.01 + 1e-5 * |total|
that is allowed. A batch is 32 copies with noise of 0.02 angstrom, or as many as TMol's memory
allows. Then native milliseconds per pose of 50 to 5,000 residues, copies of one structure side
by side, and the exponent of the growth.
"""

import argparse
import logging
import os
import re
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from biotite.structure import AtomArray
from tmol import ParameterDatabase, beta2016_score_function
from tmol.io import build_context_from_atom_array

from tmol_plugin.parameters import compile_parameters
from tmol_plugin.pose import Pose, PoseStackBuilder
from tmol_plugin.score import ScoreFunction
from tmol_plugin.structure import read_pose
from tmol_plugin.upstream import tmol_pose_stack

CPU = torch.device("cpu")
UBIQUITIN = Path(__file__).parents[1] / "structures" / "1ubi.pdb"
SIZES = (150, 300, 800)
GROWTH = (50, 100, 200, 500, 1000, 2000, 5000)
# TMol's memory goes with blocks squared: 40 poses of 300 residues.
BATCH, BATCH_BLOCK_PAIRS = 32, 40 * 300**2


def seconds(function) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def nearest(folder: Path, n_residues: int) -> Path:
    """The bysize_* file whose name says the nearest number of residues."""
    sizes = {int(re.search(r"\d+", p.name)[0]): p for p in folder.glob("bysize_*")}
    return sizes[min(sizes, key=lambda size: abs(size - n_residues))]


def batch_of(pose: Pose, n_poses: int) -> list[Pose]:
    """Copies of a pose, each with other noise."""
    rng = np.random.default_rng(n_poses)
    noise = rng.normal(0, 0.02, (n_poses, *pose.coords.shape))
    return [replace(pose, coords=(pose.coords + one).astype(np.float32)) for one in noise]


def compare(
    path: Path, score_function: ScoreFunction, context, tmols_function, n_threads: int, repeats: int
) -> None:
    torch.set_num_threads(n_threads)
    pose = read_pose(path, score_function.parameters)
    n_poses = max(1, min(BATCH, BATCH_BLOCK_PAIRS // pose.n_blocks**2))
    poses = batch_of(pose, n_poses)
    batch, stack = PoseStackBuilder.from_poses(poses, CPU), tmol_pose_stack(poses, context)
    native = score_function.render_whole_pose_scoring_module(batch)
    tmols = tmols_function.render_whole_pose_scoring_module(stack)
    with torch.no_grad():
        ours, theirs = native(batch.coords).double(), tmols(stack.coords).double().flatten()
        times = [
            (seconds(lambda: native(batch.coords)), seconds(lambda: tmols(stack.coords)))
            for _ in range(repeats)
        ]
    share = ((ours - theirs).abs() / (0.01 + 1e-5 * theirs.abs())).max()
    best, median = (f(times, axis=0) * 1e3 / n_poses for f in (np.min, np.median))
    print(
        f"{pose.n_blocks:8d} {pose.n_atoms:6d} {n_poses:5d} {n_threads:7d}"
        f" {best[0]:9.3f} {median[0]:9.3f} {best[1]:9.2f} {median[1]:9.2f}"
        f" {best[1] / best[0]:7.1f} {median[1] / median[0]:7.1f} {share:7.3f}",
        flush=True,
    )


def side_by_side(pose: Pose, n_copies: int) -> Pose:
    """One pose of copies of another, further chains, in a cube of boxes that do not overlap."""
    copy, n_edge = np.arange(n_copies), int(np.ceil(n_copies ** (1 / 3)))
    place = np.stack([copy % n_edge, copy // n_edge % n_edge, copy // n_edge**2], axis=1)
    step = np.ptp(pose.coords, axis=0) + 2.5  # the distance of atoms that touch
    coords = pose.coords + (place * step)[:, None]
    bonded = pose.connections[:, 0] >= 0
    shift = np.stack([bonded * pose.n_blocks, 0 * bonded], axis=1)
    first_chains = copy[:, None] * (pose.chain_of_block.max() + 1)
    ends = copy[:, None] * pose.n_atoms + pose.block_atom_offsets[1:]
    return replace(
        pose,
        coords=coords.reshape(-1, 3).astype(np.float32),
        block_types=np.tile(pose.block_types, n_copies),
        block_atom_offsets=np.concatenate([[0], ends.ravel()]).astype(np.int32),
        connections=np.concatenate([pose.connections + i * shift for i in copy]).astype(np.int32),
        chain_of_block=(pose.chain_of_block + first_chains).ravel().astype(np.int32),
        labels=[*pose.labels] * n_copies,
    )


def growth(path: Path, score_function: ScoreFunction, repeats: int) -> None:
    """Time per pose on one thread by residues, and the slope of their logarithms."""
    unit = read_pose(path, score_function.parameters)
    rows = []
    for size in GROWTH:
        pose = side_by_side(unit, max(1, round(size / unit.n_blocks)))
        n_poses = max(1, 5000 // pose.n_blocks)
        batch = PoseStackBuilder.from_poses(batch_of(pose, n_poses), CPU)
        scorer = score_function.render_whole_pose_scoring_module(batch, n_threads=1)
        scorer(batch.coords)
        best = min(seconds(lambda s=scorer, b=batch: s(b.coords)) for _ in range(repeats))
        rows.append((pose.n_blocks, best / n_poses * 1e3))
        ms, per_residue = rows[-1][1], 1e3 * rows[-1][1] / pose.n_blocks
        print(f"{pose.n_blocks:8d} {pose.n_atoms:6d} {n_poses:5d} {ms:9.3f} {per_residue:10.2f}")
    slope = np.polyfit(*np.log(rows).T, 1)[0]
    local = np.diff(np.log(rows), axis=0)
    steps = " ".join(f"{y / x:.2f}" for x, y in local)
    print(f"time grows with residues to the power {slope:.3f}; from row to row: {steps}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    database = ParameterDatabase.get_default()
    context = build_context_from_atom_array(AtomArray(0), CPU, database)
    tmols_function = beta2016_score_function(CPU, database)
    score_function = ScoreFunction.from_parameters(compile_parameters(), CPU)
    paths = [UBIQUITIN, *(nearest(options.folder, size) for size in SIZES)]
    print(f"{'':29s}  native ms per pose   TMol ms per pose    TMol : native")
    heads = f"{'residues':>8s} {'atoms':>6s} {'poses':>5s} {'threads':>7s}"
    pair = f"{'best':>9s} {'median':>9s}"
    print(f"{heads} {pair} {pair} {'best':>7s} {'median':>7s} {'share':>7s}")
    for n_threads in map(int, options.threads.split(",")):
        for path in paths:
            functions = score_function, context, tmols_function
            compare(path, *functions, n_threads, options.repeats)
    print(f"\n{'residues':>8s} {'atoms':>6s} {'poses':>5s} {'native ms':>9s} {'us/residue':>10s}")
    growth(nearest(options.folder, 50), score_function, options.repeats)
    print(f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

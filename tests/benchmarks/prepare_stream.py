"""Prepare many structures in a stream; print the resident memory on the way: it must stay flat.

python tests/benchmarks/prepare_stream.py [FOLDER] [--count 10000] [--threads 1]
"""

import argparse
import itertools
import time
from pathlib import Path

from tmol_plugin.memory_meter import host_memory
from tmol_plugin.parameters import compile_parameters, load_parameters
from tmol_plugin.pose import Pose
from tmol_plugin.pose_reader import read_poses

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "tests" / "structures")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--parameters", type=Path, help="compiled before; else compiled here")
    options = parser.parse_args()
    given = options.parameters
    parameters = load_parameters(given) if given else compile_parameters()
    paths = sorted(str(p) for p in options.folder.iterdir() if ".pdb" in p.name or ".cif" in p.name)
    stream = itertools.islice(itertools.cycle(paths), options.count)
    n_poses, n_atoms, started = 0, 0, time.perf_counter()
    for i, pose in enumerate(read_poses(stream, parameters, options.threads), 1):
        if isinstance(pose, Pose):
            n_poses, n_atoms = n_poses + 1, n_atoms + pose.n_atoms
        if i % max(options.count // 10, 1) == 0:
            elapsed = time.perf_counter() - started
            megabytes = host_memory()[0] / 1e6
            print(
                f"{i} files, {n_poses} poses, {n_atoms} atoms, {elapsed:.1f} s,"
                f" {megabytes:.1f} MB resident",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Native preparation against `tmol.pose_stack_from_file(path, no_optH=True)`, in one run.

    python tests/benchmarks/prepare.py [FOLDER] [--threads 1 2] [--repeats N]

For each file that both prepare: atoms of the pose, milliseconds of each (the least of the
repeats, warm) and their ratio; then structures per second and the ratio for all of them, with
each number of threads: processes of `read_poses`, threads of torch; then where native
preparation spends its time. Files that one of them refuses are listed with the reason.
"""

import argparse
import logging
import os
import time
import warnings
from pathlib import Path

import gemmi

from tmol_plugin import native
from tmol_plugin.errors import StructureError
from tmol_plugin.parameters import Parameters, compile_parameters
from tmol_plugin.policy import Policy
from tmol_plugin.pose import Pose
from tmol_plugin.pose_reader import read_poses
from tmol_plugin.reading import Source
from tmol_plugin.structure import make_pose, prepare_file, read_plain, read_pose, tables_of

ROOT = Path(__file__).parents[2]


def seconds(function, repeats: int) -> float:
    """The least time that a call takes; one call before warms up."""
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


def read_by_tmol(path: str):
    import tmol
    import torch

    return tmol.pose_stack_from_file(path, torch.device("cpu"), no_optH=True)


def comparable(folder: Path, parameters: Parameters) -> list[str]:
    """Files that both prepare; prints why the others are left out."""
    paths = []
    for path in sorted(p for p in folder.iterdir() if ".pdb" in p.name or ".cif" in p.name):
        try:
            read_pose(path, parameters)
        except StructureError as error:
            print(f"{path.name}: not native: {error.reason}: {str(error)[:100]}")
            continue
        try:
            read_by_tmol(str(path))
        except Exception as error:
            print(f"{path.name}: TMol refuses: {str(error)[:100]!r}")
            continue
        paths.append(str(path))
    return paths


def compare(paths: list[str], parameters: Parameters, repeats: int) -> None:
    print(f"{'file':40s} {'atoms':>7s} {'native ms':>10s} {'TMol ms':>10s} {'ratio':>7s}")
    for path in paths:
        ours = seconds(lambda path=path: read_pose(path, parameters), 10 * repeats)
        theirs = seconds(lambda path=path: read_by_tmol(path), repeats)
        n_atoms = read_pose(path, parameters).n_atoms
        name = Path(path).name
        print(
            f"{name:40s} {n_atoms:7d} {1e3 * ours:10.3f} {1e3 * theirs:10.1f} {theirs / ours:7.0f}"
        )


def throughput(paths: list[str], parameters: Parameters, threads: int, repeats: int) -> None:
    """All files in turn, as a pipeline would read them."""
    import torch

    torch.set_num_threads(threads)
    # Enough that starting processes does not count: they are started once in a run.
    many = paths * (20 * repeats)
    poses = read_poses(many, parameters, threads)
    for _ in range(len(paths)):
        assert isinstance(next(poses), Pose)
    started = time.perf_counter()
    left = sum(isinstance(pose, Pose) for pose in poses)
    ours = left / (time.perf_counter() - started)
    theirs = len(paths) / seconds(lambda: [read_by_tmol(path) for path in paths], repeats)
    words = f"{threads} threads: native {ours:.0f} structures/s, TMol {theirs:.2f}"
    print(f"{words}, ratio {ours / theirs:.0f}")


def profile(paths: list[str], parameters: Parameters, repeats: int) -> None:
    """Milliseconds of each part, summed over the files; PDB and mmCIF apart."""
    tables, policy = tables_of(parameters), Policy()
    for is_cif in (False, True):
        parts = dict.fromkeys(("open", "scan", "gemmi", "arrays", "prepare", "pose"), 0.0)
        total = n_atoms = 0.0
        chosen = [path for path in paths if Source(path).is_cif == is_cif]
        for path in chosen:
            source = Source(path)
            try:
                atoms = read_plain(source, 1)
            except native.NotPlain:
                continue
            result = prepare_file(source, tables, 1, policy)
            n_atoms += len(result.prepared.coords)
            parts["open"] += seconds(lambda path=path: Source(path), repeats)
            read = seconds(lambda source=source: read_plain(source, 1), repeats)
            if is_cif:
                parts["gemmi"] += seconds(
                    lambda source=source: gemmi.make_structure_from_block(
                        gemmi.cif.read_string(source.data).sole_block()
                    ),
                    repeats,
                )
                parts["arrays"] += read
            else:
                text = native.scan_pdb(source.data, 1).text
                scan = seconds(lambda source=source: native.scan_pdb(source.data, 1), repeats)
                parse = seconds(
                    lambda text=text: gemmi.FlatStructure(gemmi.read_pdb_string(text)), repeats
                )
                parts["scan"] += scan
                parts["gemmi"] += parse
                parts["arrays"] += read - scan - parse
            parts["prepare"] += seconds(lambda a=atoms: native.prepare(tables, *a), repeats)
            parts["pose"] += seconds(lambda r=result: make_pose(r, parameters), repeats)
            total += seconds(lambda path=path: read_pose(path, parameters), repeats)
        if chosen:
            words = ", ".join(f"{name} {1e3 * value:.2f}" for name, value in parts.items())
            kind = "mmCIF" if is_cif else "PDB"
            print(
                f"{kind}, {len(chosen)} files, {n_atoms:.0f} atoms: {1e3 * total:.2f} ms; {words}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "tests" / "structures")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    import torch

    torch.set_num_threads(1)
    parameters = compile_parameters()
    paths = comparable(options.folder, parameters)
    compare(paths, parameters, options.repeats)
    for threads in options.threads:
        throughput(paths, parameters, threads, options.repeats)
    profile(paths, parameters, 10 * options.repeats)
    print(f"{os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()

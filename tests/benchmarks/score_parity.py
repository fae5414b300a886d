"""Native energies against TMol's on identical coordinates, term by term.

    python tests/benchmarks/score_parity.py FOLDER ... [--copies 500]

Structures of the folders that are prepared natively (the others are listed with the reason);
copies of those of up to 300 residues with Gaussian noise of 0.02 to 1.0 angstrom; every block
type of the 20 amino acids alone, with atoms of a residue cut from the structures, at several
chi; tripeptides about each at several phi, psi, omega and chi, and with atoms in a plane; chain
ends, breaks and disulfides of the structures.

Prints a line for each score type and one for the weighted total: energies compared, worst
absolute error (and TMol's energy there), worst relative error where TMol's energy is at least
1, worst share of what is allowed (1e-3 + 1e-4 * |TMol's|, of the total 0.01 + 1e-5 * |TMol's|),
and where that is. Energies that TMol has no finite number for are not compared; ours are finite,
or the share is infinite. Exit status 1 if a share is above 1.
"""

import argparse
import logging
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from biotite.structure import AtomArray
from score_cases import Named, amino_acids, pieces, shaken, tripeptides
from tmol import ParameterDatabase, beta2016_score_function
from tmol.io import build_context_from_atom_array

sys.path.insert(0, str(Path(__file__).parents[1]))
from score_parity import CPU, excess, native_energies, tmol_energies

from tmol_plugin import native
from tmol_plugin.errors import StructureError
from tmol_plugin.parameters import compile_parameters
from tmol_plugin.structure import read_pose

# TMol's memory goes with blocks squared: 40 poses of 300 residues at a time.
BATCH_BLOCK_PAIRS, BATCH_POSES = 40 * 300**2, 200


def structures(folders: list[Path], parameters) -> Named:
    """What is prepared natively; prints what is not, and why."""
    poses, refused = [], Counter()
    paths = [path for folder in folders for path in sorted(folder.iterdir())]
    for path in (p for p in paths if ".pdb" in p.name or ".cif" in p.name):
        try:
            poses.append((path.name, read_pose(path, parameters)))
        except StructureError as error:
            print(f"{path.name}: not native: {error.reason}: {str(error)[:100]}")
            refused[error.reason] += 1
    print(f"{len(poses)} structures prepared natively; not: {dict(refused) or 'none'}")
    return poses


def batches(poses: Named):
    """Poses of like sizes together, as many as TMol's memory allows."""
    batch = []
    for one in sorted(poses, key=lambda named: named[1].n_blocks):
        block_pairs = (len(batch) + 1) * one[1].n_blocks ** 2
        if batch and (block_pairs > BATCH_BLOCK_PAIRS or len(batch) == BATCH_POSES):
            yield batch
            batch = []
        batch.append(one)
    yield batch


def compare(name: str, found, expected, share, where: list[str]) -> bool:
    """Print a score type's line; whether all is as allowed."""
    finite = np.isfinite(expected)
    error = np.where(finite, np.abs(found - expected), 0)
    share = np.where(np.isfinite(found), np.where(finite, share, 0), np.inf)
    relative = np.where(finite & (np.abs(expected) >= 1), error / np.abs(expected), 0)
    most, at = np.nanargmax(error), int(share.argmax())
    print(
        f"{name:18s} {finite.sum():6d} {error[most]:9.2e} {expected[most]:12.4g}"
        f" {relative.max():9.2e} {share[at]:8.4f}  {where[at]}"
    )
    return bool(share[at] <= 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--copies", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    parameters, rng = compile_parameters(), np.random.default_rng(20160)
    database = ParameterDatabase.get_default()
    context = build_context_from_atom_array(AtomArray(0), CPU, database)
    score_function = beta2016_score_function(CPU, database)
    scorer = native.Scorer(parameters.tensors)
    given = structures(options.folders, parameters)
    parts = {"structures": given, "shaken": shaken(given, options.copies, rng)}
    parts |= {"pieces": pieces(given), "tripeptides": tripeptides(given, rng)}
    parts |= {"amino acids": amino_acids(given, parameters, rng)}
    print(", ".join(f"{len(poses)} {name}" for name, poses in parts.items()), flush=True)
    where, found, expected = [], [], []
    for batch in batches([one for poses in parts.values() for one in poses]):
        names, poses = zip(*batch)
        where += names
        found.append(native_energies(poses, scorer))
        expected.append(tmol_energies(poses, context, score_function))
    expected = {name: np.concatenate([b[name] for b in expected]) for name in expected[0]}
    zero = np.zeros(len(where))
    computed = {name: np.concatenate([b[name] for b in found]) for name in found[0]}
    found = {name: computed.get(name, zero) for name in expected}
    print(
        f"{'score type':18s} {'number':>6s} {'absolute':>9s} {'of TMol':>12s} {'relative':>9s}"
        f" {'share':>8s}  where"
    )
    with np.errstate(all="ignore"):
        passed = [
            compare(name, found[name], expected[name], excess(found[name], expected[name]), where)
            for name in expected
        ]
        weights = parameters.metadata["weights"]
        ours, theirs = (sum(weights[n] * e[n] for n in expected) for e in (found, expected))
        share = np.abs(ours - theirs) / (0.01 + 1e-5 * np.abs(theirs))
        passed.append(compare("weighted total", ours, theirs, share, where))
    kinds = {str(n) for poses in parts.values() for _, pose in poses for n in pose.block_type_names}
    known = parameters.tensors["block_type.is_canonical_protein"].astype(bool)
    missing = sorted(set(parameters.block_type_names[known].tolist()) - kinds)
    print(
        f"{len(where)} poses of {len(kinds)} block types; amino acids without: {missing or 'none'}"
    )
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())

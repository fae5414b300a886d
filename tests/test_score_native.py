"""Native scoring as a whole against TMol; the terms' own files have their special cases."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_poses import shaken
from score_parity import excess, native_energies, tmol_energies

from tmol_plugin import native
from tmol_plugin.structure import read_pose

STRUCTURES = Path(__file__).parent / "structures"
FILES = ("1ejg.pdb", "1k1i.pdb", "1qbs.pdb", "1ubi.pdb", "1a8o.cif", "1fas.cif")
FILES += ("2k39.pdb.gz", "2ofg.cif.gz", "4zhl.cif.gz")


@pytest.fixture(scope="module")
def poses(compiled):
    return [read_pose(STRUCTURES / name, compiled) for name in FILES]


@pytest.mark.parametrize("sigma", [0, 0.02, 0.3, 1.0])
def test_energies_are_those_of_tmol(poses, context, score_function, scorer, sigma):
    moved = [shaken(pose, sigma, seed) for seed, pose in enumerate(poses)]
    expected = tmol_energies(moved, context, score_function)
    found = native_energies(moved, scorer)
    for name in native.score_types():
        assert (excess(found[name], expected[name]) < 1).all(), name
        assert (found[name] != 0).any(), name
    # What native scoring does not compute cannot occur.
    for name in expected.keys() - found.keys():
        assert not expected[name].any(), name


def test_weighted_totals_are_those_of_tmol(poses, compiled, context, score_function, scorer):
    weights = compiled.metadata["weights"]
    total = [
        sum(weights[name] * values for name, values in energies.items())
        for energies in (
            native_energies(poses, scorer),
            tmol_energies(poses, context, score_function),
        )
    ]
    assert (np.abs(total[0] - total[1]) < 0.01 + 1e-5 * np.abs(total[1])).all()


def test_atoms_at_one_point_have_large_finite_energies_as_tmol(
    poses, context, score_function, scorer
):
    pose = poses[FILES.index("1ubi.pdb")]
    coords = pose.coords.copy()
    # Two atoms of one block, two of blocks far apart, and a whole block on another.
    first, second, third = pose.block_atom_offsets[[3, 40, 60]]
    coords[first + 7] = coords[first + 9]
    coords[second + 4] = coords[third + 2]
    size = min(np.diff(pose.block_atom_offsets)[[10, 30]])
    at = pose.block_atom_offsets[[10, 30]]
    coords[at[0] : at[0] + size] = coords[at[1] : at[1] + size]
    clash = [replace(pose, coords=coords)]
    expected = tmol_energies(clash, context, score_function)
    found = native_energies(clash, scorer)
    assert expected["fa_ljrep"] > 1000
    for name, energies in found.items():
        assert np.isfinite(energies).all(), name
        if np.isfinite(expected[name]).all():
            assert (excess(energies, expected[name]) < 1).all(), name

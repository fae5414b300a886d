"""Pairs of atoms, hydrogen bonds and waters, native against TMol: poses that no file would give.

What is allowed is DESIGN.md's: `excess` < 1.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_poses import bonded_pose, random_pose
from score_parity import native_energies, worst

from tmol_plugin.structure import read_pose

STRUCTURES = Path(__file__).parent / "structures"
PAIRS = ("fa_ljatr", "fa_ljrep", "fa_lk", "fa_elec")
WATERS = ("lk_ball_iso", "lk_ball", "lk_bridge", "lk_bridge_uncpl")
TYPES = (*PAIRS, "hbond", *WATERS)


@pytest.fixture(scope="module")
def assert_equal(context, score_function, scorer):
    """Assert that native energies of poses are TMol's, and that `present` are not all 0."""

    def check(poses, present=TYPES):
        for name, over, found, expected, at in worst(poses, context, score_function, scorer, TYPES):
            assert over < 1, f"{name} of pose {at}: {found}, TMol {expected}"
        energies = native_energies(poses, scorer)
        for name in present:
            assert np.any(energies[name] != 0), name

    return check


@pytest.fixture(scope="module")
def amino_acids(compiled):
    """Names of the block types of amino acids within a chain, all their variants."""
    names = compiled.block_type_names[compiled.tensors["block_type.is_canonical_protein"] != 0]
    return [name for name in names.tolist() if ":" not in name]


def crowd(rng, spread):
    return lambda n: rng.normal(0, spread, (n, 3))


def test_each_amino_acid_alone(compiled, assert_equal):
    rng = np.random.default_rng(1)
    names = compiled.block_type_names[compiled.tensors["block_type.is_canonical_protein"] != 0]
    poses = [
        bonded_pose(compiled, [name], [], crowd(rng, spread))
        for name in names.tolist()
        for spread in (1.0, 2.0)
    ]
    # A hydrogen bond within a residue needs a geometry that chance does not give.
    assert_equal(poses, (*PAIRS, *WATERS))


def test_each_pair_of_amino_acids_bonded_and_not(compiled, amino_acids, assert_equal):
    rng = np.random.default_rng(2)
    bond = [((0, "up"), (1, "down"))]
    poses = [
        bonded_pose(compiled, [first, second], bonds, crowd(rng, 2.5))
        for first in amino_acids
        for second in amino_acids
        for bonds in (bond, [])
    ]
    assert_equal(poses)


def test_chains_with_ends_breaks_and_disulfides_in_a_crowd(compiled, amino_acids, assert_equal):
    rng = np.random.default_rng(3)
    poses = [
        random_pose(compiled, rng, amino_acids + 5 * ["CYD"], 2 + i % 9, spread=4)
        for i in range(60)
    ]
    assert_equal(poses)


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.6])
def test_shaken_structures(compiled, assert_equal, sigma):
    rng = np.random.default_rng(int(100 * sigma))
    poses = []
    for name in ("1ejg.pdb", "1qbs.pdb", "1ubi.pdb", "1fas.cif"):
        pose = read_pose(STRUCTURES / name, compiled)
        for _ in range(3):
            noise = rng.normal(0, sigma, pose.coords.shape)
            poses.append(replace(pose, coords=(pose.coords + noise).astype(np.float32)))
    assert_equal(poses)


def test_two_residues_at_each_distance(compiled, assert_equal):
    """Two serines, their atoms at one point each, drawn apart across all cutoffs."""
    size = 11
    poses = []
    for distance in np.concatenate([np.arange(0, 6.5, 0.05), [1.35, 1.85, 4.5, 5.5, 6.0]]):
        coords = np.zeros((2 * size, 3))
        coords[size:, 0] = distance
        coords += np.random.default_rng(4).normal(0, 0.01, coords.shape)
        poses.append(bonded_pose(compiled, ["SER", "SER"], [], coords))
    assert_equal(poses, PAIRS)


def test_atoms_on_a_line_and_at_one_point_are_finite(compiled, amino_acids, scorer):
    poses = [
        bonded_pose(compiled, ["SER", name], [((0, "up"), (1, "down"))], place)
        for name in amino_acids
        for place in (lambda n: np.zeros((n, 3)), lambda n: np.arange(n)[:, None] * [[1.1, 0, 0]])
    ]
    for name, energies in native_energies(poses, scorer).items():
        assert np.isfinite(energies).all(), name


def test_blocks_out_of_reach_have_the_energies_of_each_alone(compiled, scorer):
    rng = np.random.default_rng(5)
    places = [rng.normal(0, 1, (21, 3)) + shift for shift in (0, 500, 1e6)]
    alone = [bonded_pose(compiled, ["TYR"], [], place) for place in places]
    together = bonded_pose(compiled, ["TYR"] * 3, [], np.concatenate(places))
    for name, energies in native_energies([*alone, together], scorer).items():
        np.testing.assert_allclose(energies[3], energies[:3].sum(), rtol=1e-12, err_msg=name)

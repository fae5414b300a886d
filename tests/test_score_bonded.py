"""Bonded geometry and disulfides, native against TMol.

What is allowed is DESIGN.md's: `excess` < 1. TMol's float arithmetic alone takes up to 0.1 of it.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_poses import DEGENERATE_PLACES, bonded_pose, names_where, random_pose
from score_parity import excess, native_energies, score_function_of, tmol_energies, worst

from tmol_plugin.structure import read_pose

STRUCTURES = Path(__file__).parent / "structures"
# With prolines, and in the first and the last with disulfides.
FILES = ("1ejg.pdb", "1k1i.pdb", "1qbs.pdb", "1ubi.pdb", "1a8o.cif", "1fas.cif")
CART = ("cart_lengths", "cart_angles", "cart_torsions", "cart_impropers", "cart_hxltorsions")
TYPES = (*CART, "disulfide")
WITHOUT_HYDROXYL = tuple(name for name in TYPES if name != "cart_hxltorsions")


@pytest.fixture(scope="module")
def score_function(context):
    return score_function_of(TYPES, context)


@pytest.fixture(scope="module")
def assert_equal(context, score_function, scorer):
    """Assert that native energies of poses are TMol's, and not all of them 0."""

    def check(poses, present=TYPES):
        for name, over, *at in worst(poses, context, score_function, scorer, TYPES):
            assert over < 1, f"{name}: native, TMol, pose: {at}"
        energies = native_energies(poses, scorer)
        assert {name for name in TYPES if energies[name].any()} == set(present)

    return check


@pytest.fixture(scope="module")
def poses(compiled):
    return [read_pose(STRUCTURES / name, compiled) for name in FILES]


def anywhere(rng):
    return lambda n: rng.normal(0, 1, (n, 3))


@pytest.mark.parametrize("sigma", [0, 0.02, 0.1, 0.3, 1.0])
def test_shipped_structures_as_they_are_and_shaken(poses, assert_equal, sigma):
    rng = np.random.default_rng(int(100 * sigma))
    shaken = [
        replace(pose, coords=pose.coords + rng.normal(0, sigma, pose.coords.shape).astype("f4"))
        for pose in poses
    ]
    assert_equal(shaken)


def test_each_block_type_alone(compiled, assert_equal):
    rng = np.random.default_rng(1)
    names = compiled.block_type_names.tolist()
    poses = [bonded_pose(compiled, [name], [], anywhere(rng)) for name in names]
    assert_equal(poses, CART)


def test_each_pair_of_amino_acids_by_peptide_bonds(compiled, assert_equal):
    rng = np.random.default_rng(2)
    names = [n for n in names_where(compiled, "block_type.is_canonical_protein") if ":" not in n]
    assert {"PRO", "CYD", "HIS", "HIS_D", "HIS_POS"} <= set(names)
    pairs = [(first, second) for first in names for second in names]
    bond = [((0, "up"), (1, "down"))]
    poses = [bonded_pose(compiled, pair, bond, anywhere(rng)) for pair in pairs]
    assert_equal(poses, CART)


def test_blocks_of_any_types_bonded_in_any_way(compiled, assert_equal):
    rng = np.random.default_rng(3)
    polymers = names_where(compiled, "block_type.is_polymer")
    cystines = [name for name in polymers if "CYD" in name]
    poses = [random_pose(compiled, rng, polymers, 1 + i % 6) for i in range(60)]
    poses += [random_pose(compiled, rng, polymers + 20 * cystines, 1 + i % 6) for i in range(60)]
    assert_equal(poses)


@pytest.mark.parametrize("first", ["CYD", "DCYD"])
@pytest.mark.parametrize("second", ["CYD", "DCYD"])
def test_disulfides_between_neighbours_of_either_hand(compiled, assert_equal, first, second):
    rng = np.random.default_rng(4)
    disulfide, peptide = ((0, "dslf"), (1, "dslf")), ((0, "up"), (1, "down"))
    poses = [
        bonded_pose(compiled, [first, second], bonds, anywhere(rng))
        for bonds in ([disulfide], [disulfide, peptide])
        for _ in range(8)
    ]
    assert_equal(poses, WITHOUT_HYDROXYL)


def test_a_cystine_bonded_to_another_atom_than_a_sulfur_has_no_disulfide(compiled, assert_equal):
    rng = np.random.default_rng(5)
    bonds = [((0, "dslf"), (1, "down"))]
    poses = [bonded_pose(compiled, ["CYD", "ALA"], bonds, anywhere(rng))]
    assert_equal(poses, WITHOUT_HYDROXYL[:-1])


def test_rings_of_one_and_two_blocks(compiled, assert_equal):
    rng = np.random.default_rng(6)
    own = [((0, "up"), (0, "down"))]
    both = [((0, "up"), (1, "down")), ((1, "up"), (0, "down"))]
    poses = [
        bonded_pose(compiled, names, bonds, anywhere(rng))
        for names, bonds in ((["SER"], own), (["PRO", "TYR"], both), (["GLY", "GLY"], both))
    ]
    assert_equal(poses, CART)


@pytest.mark.parametrize("place", DEGENERATE_PLACES)
def test_atoms_in_degenerate_places(compiled, context, score_function, scorer, place):
    rng = np.random.default_rng(7)
    names = ["TYR:nterm", "CYD", "PRO", "SER", "HIS_POS", "CYD", "GLU:cterm"]
    bonds = [((i, "up"), (i + 1, "down")) for i in range(6)] + [((1, "dslf"), (5, "dslf"))]
    poses = [
        bonded_pose(compiled, names, bonds, lambda n: place(n, rng).astype("f4")) for _ in range(8)
    ]
    found = native_energies(poses, scorer)
    expected = tmol_energies(poses, context, score_function)
    for name in TYPES:
        assert np.isfinite([expected[name], found[name]]).all(), name
        assert excess(found[name], expected[name]).max() < 1, name

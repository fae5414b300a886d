"""Hydrogen bonds between all donors and acceptors, and waters of any blocks, against TMol.

What is allowed is DESIGN.md's: `excess` < 1. TMol's float arithmetic alone takes up to 0.01 of it.
"""

import numpy as np
import pytest
from random_poses import DEGENERATE_PLACES, bonded_pose, names_where, random_pose
from score_parity import excess, native_energies, score_function_of, tmol_energies

from tmol_plugin import native

TYPES = ("hbond", "lk_ball_iso", "lk_ball", "lk_bridge", "lk_bridge_uncpl")


@pytest.fixture(scope="module")
def score_function(context):
    return score_function_of(TYPES, context)


@pytest.fixture(scope="module")
def energies_of(compiled, context, score_function):
    """Native energies of poses by term, after asserting that they are TMol's."""
    scorer = native.Scorer(compiled.tensors)

    def energies(poses):
        found = native_energies(poses, scorer)
        expected = tmol_energies(poses, context, score_function)
        for name in TYPES:
            assert np.isfinite(found[name]).all(), name
            known = np.isfinite(expected[name])
            over = np.where(known, excess(found[name], np.where(known, expected[name], 0)), 0)
            at = int(np.argmax(over))
            kinds = compiled.block_type_names[poses[at].block_types].tolist()
            assert over[at] < 1, f"{name} of {kinds}: {found[name][at]}, {expected[name][at]}"
        return {name: found[name] for name in TYPES}

    return energies


@pytest.fixture(scope="module")
def polar_atoms(compiled):
    """The donor hydrogens and the acceptors of a block type."""
    tensors = compiled.tensors
    index = {str(name): at for at, name in enumerate(compiled.block_type_names)}

    def listed(name):
        kind = index[name]
        donors = slice(*tensors["hbond.donor_offset"][kind : kind + 2])
        acceptors = slice(*tensors["hbond.acceptor_offset"][kind : kind + 2])
        hydrogens = tensors["hbond.donor_hydrogen"][donors]
        return hydrogens.tolist(), tensors["hbond.acceptor_atom"][acceptors].tolist()

    return listed


def cloud(rng, spread):
    return lambda n: rng.normal(0, spread, (n, 3))


def facing_pose(parameters, rng, names, bonds, hydrogen, acceptor):
    """A hydrogen of the first block points at an acceptor of the last, all else lies behind them.

    Blocks between them are far away.
    """
    pose = bonded_pose(parameters, names, bonds, lambda n: rng.normal(0, 0.25, (n, 3)) + 50)
    begin, end = pose.block_atom_offsets[:-1], pose.block_atom_offsets[1:]
    pose.coords[begin[0] : end[0]] += np.float32([-50 - 2.9, -50, -50])
    pose.coords[begin[-1] : end[-1]] += np.float32([-50 + 0.7, -50 + 1.0, -50])
    pose.coords[begin[0] + hydrogen] = [-1.9, 0, 0]
    pose.coords[begin[-1] + acceptor] = [0, 0, 0]
    return pose


def test_each_block_type_alone(compiled, energies_of):
    rng = np.random.default_rng(1)
    names = compiled.block_type_names.tolist()
    found = energies_of([bonded_pose(compiled, [name], [], cloud(rng, 2)) for name in names])
    assert all(found[name].any() for name in TYPES)


def peptide(n_blocks):
    return [((i, "up"), (i + 1, "down")) for i in range(n_blocks - 1)]


# The names of blocks between donor and acceptor, bonds, and the most and least that may bond:
# atoms less than five bonds apart do not, or those that TMol counts the bonds between.
@pytest.mark.parametrize(
    ("between", "bonds", "least", "most"),
    [
        ([], [], 0.9, 1),
        ([], peptide(2), 0, 0.1),
        ([], [((1, "up"), (0, "down"))], 0.05, 0.5),
        (["GLY"], peptide(3), 0.9, 1),
        (["GLY"], [((1, "up"), (0, "down")), ((2, "up"), (1, "down"))], 0.5, 0.99),
    ],
)
def test_hydrogen_bonds_of_all_donors_and_acceptors(
    compiled, polar_atoms, energies_of, between, bonds, least, most
):
    rng = np.random.default_rng(2)
    names = [n for n in names_where(compiled, "block_type.is_canonical_protein") if ":" not in n]
    assert {"HIS", "HIS_D", "HIS_POS", "SER", "THR", "TYR"} <= set(names)
    poses = [
        facing_pose(compiled, rng, [first, *between, last], bonds, hydrogen, acceptor)
        for first in names
        for last in names
        for hydrogen in polar_atoms(first)[0]
        for acceptor in polar_atoms(last)[1]
    ]
    share = (energies_of(poses)["hbond"] < -0.1).mean()
    assert least <= share <= most


def test_hydrogen_bonds_of_blocks_of_more_than_32_atoms(compiled, polar_atoms, energies_of):
    """Those with polar atoms beyond the 32nd, where TMol counts anew."""
    rng = np.random.default_rng(3)
    names = compiled.block_type_names.tolist()
    n_connections = np.diff(compiled.tensors["block_type.connection_offset"])
    large = [name for name in names if max([*polar_atoms(name)[0], *polar_atoms(name)[1], 0]) >= 32]
    assert {"RG", "DT:na5primephos"} <= set(large)
    poses = []
    for name in large:
        for connection in range(n_connections[names.index(name)]):
            bonds = [((0, "down"), (1, connection))]
            back = [((0, connection), (1, "down"))]
            hydrogens, acceptors = polar_atoms(name)
            for atom in acceptors:
                for hydrogen in polar_atoms("GLN")[0]:
                    poses.append(facing_pose(compiled, rng, ["GLN", name], bonds, hydrogen, atom))
            for hydrogen in hydrogens:
                for atom in polar_atoms("GLN")[1]:
                    poses.append(facing_pose(compiled, rng, [name, "GLN"], back, hydrogen, atom))
    energies = energies_of(poses)["hbond"]
    assert (energies < -0.1).any()
    assert (energies == 0).any()


@pytest.mark.parametrize("spread", [1.0, 2.5])
def test_blocks_of_any_types_bonded_in_any_way(compiled, energies_of, spread):
    """Breaks and chain ends among them: a fifth of the connections lead nowhere."""
    rng = np.random.default_rng(4)
    polymers = names_where(compiled, "block_type.is_polymer")
    poses = [random_pose(compiled, rng, polymers, 1 + i % 6, spread=spread) for i in range(100)]
    found = energies_of(poses)
    assert min((found[name] != 0).sum() for name in TYPES) >= 5


@pytest.mark.parametrize("place", DEGENERATE_PLACES)
def test_atoms_in_degenerate_places_have_finite_energies(compiled, energies_of, place):
    """And those of TMol, where these are finite."""
    rng = np.random.default_rng(6)
    names = ["TYR:nterm", "CYD", "HIS", "HIS_D", "SER", "CYD", "GLU:cterm"]
    bonds = [*peptide(7), ((1, "dslf"), (5, "dslf"))]
    energies_of([bonded_pose(compiled, names, bonds, lambda n: place(n, rng)) for _ in range(8)])

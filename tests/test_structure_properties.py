"""What must hold of native preparation whatever the structure: moved, renumbered, shuffled."""

import warnings
from pathlib import Path

import numpy as np
import pieces as p
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parity import ARRAYS, check_same_as_tmol, counted

from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source
from tmol_plugin.structure import NotCoveredError, read_pose

STRUCTURES = Path(__file__).parent / "structures"
# Ubiquitin's residues 1 to 9 and 66 to 70 (a histidine, a gap between), and crambin's end with
# three cysteines, without the hydrogens of its last residues.
LINES = p.nmr(1, 9) + p.nmr(66, 70)
BRIDGE = [s for s in p.crambin(15, 33) if not p.is_hydrogen(s) or p.number_of(s) < 25]
HYDROGENS = [(p.number_of(s), p.atom_of(s)) for s in LINES if p.is_hydrogen(s)]

# The same examples in every run; files are small, but TMol takes its time with the first.
examples = settings(
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def read(tmp_path, compiled):
    """Write lines of PDB, or text of mmCIF, and prepare them."""

    def read(content):
        path = tmp_path / ("in.cif" if isinstance(content, str) else "in.pdb")
        data = content.encode() if isinstance(content, str) else p.text_of(p.with_serials(content))
        path.write_bytes(data)
        return read_pose(path, compiled)

    return read


def check_same(pose, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(pose, name), getattr(other, name), err_msg=name)


def rotation(axis, angle):
    """Rodrigues' rotation about an axis."""
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


@examples
@given(
    axis=st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: np.linalg.norm(v) > 0.1),
    angle=st.floats(0, 6.3),
    by=st.tuples(*[st.floats(-300, 300)] * 3),
    lines=st.sampled_from([LINES, BRIDGE]),
)
def test_a_rigid_motion_moves_the_pose(read, tmp_path, axis, angle, by, lines):
    path = tmp_path / "still.pdb"
    path.write_bytes(p.text_of(p.with_serials(lines)))
    structure = read_structure(Source(str(path)), 1, Policy())
    still = read(structure.to_cif())
    turn = rotation(axis, angle)
    for residue in structure.residues:
        residue.coords = residue.coords @ turn.T + by
    moved = read(structure.to_cif())
    assert moved.block_types.tolist() == still.block_types.tolist()
    assert moved.connections.tolist() == still.connections.tolist()
    # Coordinates of up to 400 angstrom in 32 bits are 1.5e-5 apart; a built atom is as far
    # from its parents as they are from each other, so their rounding is hardly magnified.
    expected = still.coords.astype(np.float64) @ turn.T + by
    assert np.abs(moved.coords - expected).max() < 2e-4


@examples
@given(chance=st.randoms(use_true_random=False), lines=st.sampled_from([LINES, BRIDGE]))
def test_the_order_of_atoms_in_a_residue_changes_nothing(read, chance, lines):
    numbers = list(dict.fromkeys(map(p.number_of, lines)))
    residues = [[s for s in lines if p.number_of(s) == number] for number in numbers]
    for residue in residues:
        chance.shuffle(residue)
    pose, other = read(lines), read([s for residue in residues for s in residue])
    check_same(pose, other)
    assert (pose.labels, pose.notes) == (other.labels, other.notes)


@examples
@given(
    numbers=st.lists(st.integers(-999, 9999), min_size=19, max_size=19, unique=True),
    chain=st.sampled_from("BZa0 "),
    lines=st.sampled_from([LINES, BRIDGE]),
)
def test_numbers_and_chain_names_change_only_labels(read, numbers, chain, lines):
    number_of = dict(zip(dict.fromkeys(map(p.number_of, lines)), numbers, strict=False))
    renamed = [p.with_field(s, 21, f"{chain}{number_of[p.number_of(s)]:4d}") for s in lines]
    pose, other = read(lines), read(renamed)
    check_same(pose, other)
    assert list(other.labels) == [(chain.strip() or "_", str(n)) for n in number_of.values()]
    notes = [counted(one.notes | {"disulfides": ""}) for one in (pose, other)]
    assert notes[0] == notes[1]


@examples
@given(hydrogen=st.sampled_from(HYDROGENS))
def test_any_one_hydrogen_is_rebuilt_as_by_tmol(read, tmp_path, hydrogen):
    import tmol

    number, atom = hydrogen
    lines = p.without(LINES, atom, number=number)
    assert len(lines) == len(LINES) - 1
    # TMol makes a neutral amino terminus of two hydrogens on N.
    if number == 1 and atom in ("H1", "H2", "H3"):
        with pytest.raises(NotCoveredError, match="neutral amino terminus"):
            read(lines)
        return
    # And asks AtomWorks for the form of a histidine that lacks one: not always the same.
    if number == 68 and atom not in ("H", "HE2"):
        with pytest.raises(NotCoveredError, match="a histidine of which"):
            read(lines)
        return
    pose = read(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stack = tmol.pose_stack_from_file(
            str(tmp_path / "in.pdb"), torch.device("cpu"), no_optH=True
        )
    check_same_as_tmol(pose, stack)

"""What native preparation must not depend on, and what it must follow, on drawn examples."""

import gzip
import string

import gemmi
import numpy as np
import pieces as p
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parity import check_same_as_tmol, check_same_result, prepare_fast
from tmol_poses import read_tmol

from tmol_plugin.reading import Source
from tmol_plugin.structure import NotCoveredError, Result, read_pose

# Drawn anew in each run they would be flaky tests of other people's changes. A fixture that is
# shared by the examples is what is wanted: each writes its own file.
EXAMPLES = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
FEW = settings(EXAMPLES, max_examples=12)

# All hydrogens; altlocs and disulfides; most hydrogens built; two chains.
NAMES = ["2k39.pdb.gz", "1ejg.pdb", "1fas.cif", "1qbs.pdb"]


def gemmi_structure(name):
    data = (p.STRUCTURES / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    if ".cif" in name:
        structure = gemmi.make_structure_from_block(gemmi.cif.read_string(data).sole_block())
    else:
        structure = gemmi.read_pdb_string(data)
        structure.setup_entities()
    while len(structure) > 1:
        del structure[1]
    return structure


def write_cif(structure, path):
    """mmCIF with as many decimals as a double has: PDB and gemmi's own keep three."""
    block = structure.make_mmcif_block()
    table = block.find("_atom_site.", ["Cartn_x", "Cartn_y", "Cartn_z"])
    atoms = [cra.atom for model in structure for cra in model.all()]
    for row, atom in zip(table, atoms, strict=True):
        for axis, value in enumerate(atom.pos.tolist()):
            row[axis] = repr(value)
    path.write_text(block.as_string())
    return str(path)


angles = st.floats(-np.pi, np.pi)
shifts = st.tuples(*[st.floats(-500, 500)] * 3)


def rotation(alpha, beta, gamma):
    """About z, y and z: every rotation."""

    def about_z(angle):
        c, s = np.cos(angle), np.sin(angle)
        return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])

    swap = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]])
    return about_z(alpha) @ swap @ about_z(beta) @ swap.T @ about_z(gamma)


@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(alpha=angles, beta=angles, gamma=angles, shift=shifts)
def test_a_rigid_motion_moves_the_pose(name, alpha, beta, gamma, shift, tmp_path, compiled):
    """Built atoms too, and nothing else changes.

    Input is rounded to 32 bits, 3e-5 angstrom at 600; an atom built 1 to 2 angstrom away from
    three others 1.4 apart repeats their errors some times.
    """
    structure = gemmi_structure(name)
    still = read_pose(write_cif(structure, tmp_path / "still.cif"), compiled)
    turn = rotation(alpha, beta, gamma)
    for cra in structure[0].all():
        cra.atom.pos = gemmi.Position(*(turn @ np.array(cra.atom.pos.tolist()) + shift))
    moved = read_pose(write_cif(structure, tmp_path / "moved.cif"), compiled)
    assert np.array_equal(moved.block_types, still.block_types)
    assert np.array_equal(moved.connections, still.connections)
    assert np.array_equal(moved.chain_of_block, still.chain_of_block)
    assert moved.labels == still.labels
    assert moved.notes == still.notes
    expected = still.coords.astype(np.float64) @ turn.T + shift
    np.testing.assert_allclose(moved.coords, expected, rtol=0, atol=3e-4)


def residues_of(lines):
    """Lines by residue, in their order."""
    sites = list(dict.fromkeys(s[21:27] for s in lines))
    return [[s for s in lines if s[21:27] == site] for site in sites]


PIECES = {
    "all hydrogens": p.nmr(1, 76),
    "none": p.ubiquitin(1, 76),
    "disulfides": p.crambin(1, 46),
    "two chains": p.nmr(1, 9) + p.in_chain(p.shifted(p.nmr(60, 76), 30.0), "B"),
    "a gap": p.nmr(1, 9) + p.nmr(12, 30),
    "altlocs": p.atom_lines("1ejg.pdb", 7, 14, altloc=""),
}
pieces = st.sampled_from(sorted(PIECES))


def prepared(lines, path, parameters):
    """On the fast path, which is the one that could confuse atoms."""
    path.write_bytes(p.text_of(p.with_serials(lines)))
    result = prepare_fast(Source(str(path)), parameters)
    assert isinstance(result, Result), result
    return result


@EXAMPLES
@given(piece=pieces, chance=st.randoms(use_true_random=False))
def test_the_order_of_a_residues_atoms_changes_nothing(piece, chance, tmp_path, compiled):
    lines = PIECES[piece]
    expected = prepared(lines, tmp_path / "x.pdb", compiled)
    shuffled = [s for own in residues_of(lines) for s in chance.sample(own, len(own))]
    check_same_result(prepared(shuffled, tmp_path / "x.pdb", compiled), expected)


@EXAMPLES
@given(piece=pieces, chance=st.randoms(use_true_random=False))
def test_numbers_are_labels_only(piece, chance, tmp_path, compiled):
    lines = PIECES[piece]
    expected = prepared(lines, tmp_path / "x.pdb", compiled)
    renumbered = []
    for own, number in zip(residues_of(lines), chance.sample(range(-999, 10_000), 80)):
        code = chance.choice("ABC ")
        renumbered += [p.with_field(s, 22, f"{number:4d}{code}") for s in own]
    check_same_but_labels(prepared(renumbered, tmp_path / "x.pdb", compiled), expected)


@EXAMPLES
@given(piece=pieces, chance=st.randoms(use_true_random=False))
def test_chain_names_are_labels_only(piece, chance, tmp_path, compiled):
    lines = PIECES[piece]
    expected = prepared(lines, tmp_path / "x.pdb", compiled)
    letters = chance.sample(string.ascii_letters + string.digits + " '", 2)
    renamed = [p.with_field(s, 21, letters["AB".index(s[21])]) for s in lines]
    check_same_but_labels(prepared(renamed, tmp_path / "x.pdb", compiled), expected)


def check_same_but_labels(found, expected):
    relabelled = Result(found.prepared, expected.labels, found.notes)
    check_same_result(relabelled, expected)


PEPTIDES = {
    "first": p.nmr(1, 9),
    "middle": p.nmr(18, 30),
    "rings": p.nmr(56, 70),
    "last": p.nmr(71, 76),
    "bridge": p.crambin(15, 27),
}
deletable = [
    (name, i) for name, lines in PEPTIDES.items() for i, s in enumerate(lines) if p.is_hydrogen(s)
]


def check_rebuilt_as_tmol(lines, path, parameters):
    path.write_bytes(p.text_of(p.with_serials(lines)))
    expected = read_tmol(path)
    try:
        pose = read_pose(path, parameters)
    except NotCoveredError:
        kinds = expected.packed_block_types.active_block_types
        first = kinds[int(expected.block_type_ind[0, 0])].name
        assert "nterm_neutral" in first
        return
    check_same_as_tmol(pose, expected)


@settings(EXAMPLES, max_examples=60)
@given(choice=st.sampled_from(deletable))
def test_one_hydrogen_left_out_is_rebuilt_as_by_tmol(choice, tmp_path, compiled):
    name, index = choice
    lines = PEPTIDES[name]
    check_rebuilt_as_tmol(lines[:index] + lines[index + 1 :], tmp_path / "x.pdb", compiled)


@pytest.fixture(scope="module")
def twenty(tmp_path_factory, compiled):
    """Residues of 1qbs with all hydrogens, as they are built: the twenty amino acids."""
    path = tmp_path_factory.mktemp("built") / "1qbs.pdb"
    read_pose(p.STRUCTURES / "1qbs.pdb", compiled).write_pdb(path)
    residues = residues_of([s for s in path.read_text().split("\n") if s.startswith("ATOM")])
    return {own[0][17:20]: residues[i - 1 : i + 2] for i, own in enumerate(residues[1:-1], 1)}


def test_one_hydrogen_of_each_amino_acid_is_rebuilt_as_by_tmol(twenty, tmp_path, compiled):
    """Those of the examples above lack tryptophan; each time another of its hydrogens."""
    assert len(twenty) == 20
    for index, (before, own, after) in enumerate(twenty.values()):
        hydrogens = [s for s in own if p.is_hydrogen(s)]
        absent = hydrogens[index % len(hydrogens)]
        lines = [s for s in before + own + after if s != absent]
        check_rebuilt_as_tmol(lines, tmp_path / "x.pdb", compiled)


@pytest.mark.parametrize(("name", "count"), [("TRP", 10), ("CYS", 5), ("MET", 9)])
def test_each_hydrogen_within_a_chain_is_rebuilt_as_by_tmol(
    name, count, twenty, tmp_path, compiled
):
    """Of amino acids that the examples above lack, or have only at an end or in a bridge."""
    before, own, after = twenty[name]
    hydrogens = [s for s in own if p.is_hydrogen(s)]
    assert len(hydrogens) == count
    for absent in hydrogens:
        kept = [s for s in before + own + after if s != absent]
        check_rebuilt_as_tmol(kept, tmp_path / "x.pdb", compiled)


@FEW
@given(name=st.sampled_from(sorted(PEPTIDES)), chance=st.randoms(use_true_random=False))
def test_any_hydrogens_left_out_are_rebuilt_as_by_tmol(name, chance, tmp_path, compiled):
    """In each residue by a share of its own: some keep all, some none."""
    lines = []
    for own in residues_of(PEPTIDES[name]):
        share = chance.choice([0.0, 0.2, 0.8, 1.0])
        lines += [s for s in own if not p.is_hydrogen(s) or chance.random() >= share]
    check_rebuilt_as_tmol(lines, tmp_path / "x.pdb", compiled)


def test_the_examples_are_prepared_as_they_are(tmp_path, compiled):
    """Else the properties above would hold of failures."""
    for lines in (*PIECES.values(), *PEPTIDES.values()):
        result = prepared(lines, tmp_path / "x.pdb", compiled)
        assert len(result.prepared.block_types) == len(residues_of(lines))

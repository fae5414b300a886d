"""The tmol engine against TMol alone (0.2.0), and what it makes of TMol's refusals."""

import gzip
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from direct_tmol import energies as energies_by_tmol_alone

from tmol_plugin.engine import (
    Prepared,
    TmolEngine,
    _ligand_heavy_atoms_built,
    check_parameters,
    explain,
)
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.parameters import Parameters
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source

STRUCTURES = Path(__file__).parent / "structures"
PARAMETERS = Parameters({}, {"score_function": "beta2016", "residues": [], "failed": {}})
SEED = 20160


def new_engine(hydrogens):
    settings = {"hydrogens": hydrogens, "packer_seed": SEED}
    return TmolEngine(PARAMETERS, settings, torch.device("cpu"))


@pytest.fixture(scope="module")
def keep():
    return new_engine("keep")


@pytest.fixture(scope="module")
def optimize():
    return new_engine("optimize")


def read(name, model=1, policy=None):
    return read_structure(Source(str(STRUCTURES / name)), model, policy or Policy())


def atom_lines(name, first, last):
    """The ATOM lines of residues first to last of the first chain with these numbers."""
    data = (STRUCTURES / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    text = text.partition("ENDMDL")[0]
    return [
        line
        for line in text.splitlines(True)
        if line.startswith("ATOM") and first <= int(line[22:26]) <= last
    ]


@pytest.fixture
def piece(tmp_path):
    """Residues first to last of a shipped file, as a file and read."""

    def make(name, first, last):
        path = tmp_path / "piece.pdb"
        path.write_text("".join(atom_lines(name, first, last)))
        return path, read_structure(Source(str(path)), 1, Policy())

    return make


@pytest.fixture(scope="module")
def poses(keep, tmp_path_factory):
    """Poses of 1 to 74 blocks: ubiquitin's GLY 10, crambin, ubiquitin, protein with DNA."""
    path = tmp_path_factory.mktemp("gly") / "gly.pdb"
    path.write_text("".join(atom_lines("1ubi.pdb", 10, 10)))
    gly = read_structure(Source(str(path)), 1, Policy())
    structures = [read("1ubi.pdb"), gly, read("1lcd.pdb"), read("1ejg.pdb")]
    return [keep.prepare(structure) for structure in structures]


def within(found, expected):
    """|found - expected| / (1e-3 + 1e-5 |expected|), to be at most 1.

    TMol sums in float32 (6e-8 of a sum), over terms of up to some thousand units and in an
    order that the batch and its padding decide: that is 1e-5 of the larger energies with room
    to spare, and 1e-3 for small ones that are differences of large terms. On CPU the largest
    difference of these tests was 5e-7.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    return np.abs(found - expected) / (1e-3 + 1e-5 * np.abs(expected))


def check_against_tmol_alone(engine, path, model, hydrogens):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        direct = energies_by_tmol_alone(str(path), model, hydrogens, SEED)
    pose = engine.prepare(read_structure(Source(str(path)), model, Policy()))
    energies = engine.score(engine.stack([pose]))
    assert (energies.shape, energies.dtype) == ((1, len(direct)), np.float64)
    assert engine.score_types == tuple(direct)
    assert within(energies[0] * engine.weights, list(direct.values())).max() <= 1
    return dict(zip(engine.score_types, energies[0], strict=True)), pose


@pytest.mark.parametrize(
    ("name", "model", "sizes", "terms"),
    [
        # Blocks and atoms are TMol's, as in tests/structures/README.md. The terms are those
        # for which the file was chosen: a pose that lost them would agree with nothing.
        ("1ubi.pdb", 1, (76, 1231), ["hbond", "dunbrack_rot", "rama"]),
        ("1ejg.pdb", 1, (46, 642), ["disulfide"]),
        ("1lcd.pdb", 1, (74, 1499), ["na_torsion", "metal_coordination"]),
        ("1lcd.pdb", 2, (74, 1499), ["na_torsion", "metal_coordination"]),
        ("1lcd.pdb", 3, (74, 1499), ["na_torsion", "metal_coordination"]),
    ],
)
def test_energies_are_those_of_tmol_alone(keep, name, model, sizes, terms):
    energies, pose = check_against_tmol_alone(keep, STRUCTURES / name, model, "keep")
    assert (pose.n_residues, pose.n_atoms) == sizes
    assert all(abs(energies[term]) > 0.1 for term in terms)


@pytest.mark.parametrize("name", ["1ejg.pdb", "1ajj.pdb"])
def test_energies_with_hydrogens_optimized_are_those_of_tmol_alone(keep, optimize, name):
    energies, _ = check_against_tmol_alone(optimize, STRUCTURES / name, 1, "optimize")
    kept = keep.score(keep.stack([keep.prepare(read(name))]))[0]
    # Were the setting ignored, these would be equal; packing is to lower the energy.
    assert keep.weights @ list(energies.values()) < keep.weights @ kept - 2


def test_one_residue_is_enough(keep, piece):
    path, structure = piece("1ubi.pdb", 10, 10)
    assert structure.residues[0].atoms == ["N", "CA", "C", "O"]
    energies, pose = check_against_tmol_alone(keep, path, 1, "keep")
    # GLY with both termini: 3 + 2 hydrogens and OXT are built.
    assert (pose.n_residues, pose.n_atoms, pose.notes["atoms_built"]) == (1, 10, 6)
    assert energies["cart_angles"] > 0


def test_a_batch_of_mixed_sizes_gives_each_what_it_gets_alone(keep, poses):
    alone = np.concatenate([keep.score(keep.stack([pose])) for pose in poses])
    together = keep.score(keep.stack(poses))
    assert within(together, alone).max() <= 1
    assert within(keep.score(keep.stack(poses[::-1]))[::-1], alone).max() <= 1
    assert within(keep.score(keep.stack([*poses, *poses])), np.tile(alone, (2, 1))).max() <= 1
    # The four differ by far more than the tolerance: an order mixed up would be seen.
    assert (within(alone, alone[[1, 2, 3, 0]]).max(axis=1) > 1000).all()


def test_poses_of_other_parameters_are_refused(keep, poses):
    stranger = Prepared(poses[0].pose, "f" * 12, 76, 1231, {}, "tmol")
    with pytest.raises(RunError, match=f"{'f' * 12}.*{PARAMETERS.id}"):
        check_parameters(PARAMETERS.id, [poses[1], stranger])
    with pytest.raises(RunError, match=f"{'f' * 12}.*{PARAMETERS.id}"):
        keep.stack([poses[1], stranger])
    check_parameters(PARAMETERS.id, poses)


def test_notes_say_what_was_built(poses, keep, piece):
    # 1ubi holds 602 heavy atoms and no hydrogen; TMol's pose has 1231 atoms.
    assert len(atom_lines("1ubi.pdb", 1, 76)) == 602
    assert (poses[0].notes["atoms_built"], poses[0].notes["hydrogens_unused"]) == (629, 0)
    # An amide hydrogen inside a chain has no place at the terminus that a fragment begins
    # with: TMol builds three there, and OXT at the other end.
    _, structure = piece("2k39.pdb.gz", 2, 6)
    assert "H" in structure.residues[0].atoms
    notes = keep.prepare(structure).notes
    assert (notes["hydrogens_unused"], notes["atoms_built"]) == (1, 4)


def test_notes_say_what_tmol_decided(poses, optimize):
    # SSBOND of 1ejg: 3-40, 4-32, 16-26.
    assert poses[3].notes["disulfides"] == "A:3-A:40,A:4-A:32,A:16-A:26"
    assert not poses[0].notes["disulfides"]
    tautomers = {name: n for name, n in poses[0].notes.items() if name.startswith("HIS")}
    assert sum(tautomers.values()) == 1  # HIS 68 is ubiquitin's only one
    notes = optimize.prepare(read("1ajj.pdb")).notes
    assert sum(n for name, n in notes.items() if name.startswith("HIS")) == 2


# Residues of trypsin with insertion codes; the sixth is TYR 184A, and is A:6 for TMol.
FIRST, LAST, SIXTH = 180, 192, 5


def change_coincident(structure):
    residue = structure.residues[SIXTH]
    residue.coords[residue.atoms.index("CA")] = residue.position("N")


def change_atom_name(structure):
    structure.residues[SIXTH].atoms[-1] = "XX"


def change_backbone(structure):
    residue = structure.residues[SIXTH]
    at = residue.atoms.index("C")
    residue.coords = np.delete(residue.coords, at, axis=0)
    del residue.atoms[at], residue.elements[at]


def change_residue_name(structure):
    structure.residues[SIXTH].name = "XYZ"


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (change_coincident, "bad_geometry", ["atom N", "atom CA", "A:184A"]),
        (change_atom_name, "unrecognized_atom", ["TYR at residue index 5: XX"]),
        (change_backbone, "unsupported_chemistry", ["TMol left out A:184A TYR"]),
        (change_residue_name, "unsupported_chemistry", ["TMol left out A:184A TYR"]),
    ],
)
def test_what_tmol_refuses_is_a_failure_that_names_the_residue(keep, piece, change, reason, words):
    """The policy lets none of these through; what it does, TMol must not lose in silence."""
    path, structure = piece("1k1i.pdb", FIRST, LAST)
    assert structure.residues[SIXTH].label == "A:184A TYR"
    change(structure)
    with pytest.raises(StructureError) as error:
        keep.prepare(structure)
    assert (error.value.reason, reason) == (reason, error.value.reason)
    for word in (str(path), *words):
        assert word in error.value.message


def test_a_residue_that_tmol_leaves_out_is_a_failure(keep, piece, monkeypatch):
    import tmol

    build = tmol.pose_stack_from_atom_array

    def build_less(array, *args, **kwargs):
        return build(array[array.res_id != array.res_id[-1]], *args, **kwargs)

    path, structure = piece("1k1i.pdb", FIRST, LAST)
    monkeypatch.setattr(tmol, "pose_stack_from_atom_array", build_less)
    with pytest.raises(StructureError) as error:
        keep.prepare(structure)
    assert error.value.reason == "unsupported_chemistry"
    assert error.value.message == f"{path}: TMol left out A:192 GLN"


@pytest.mark.parametrize(
    "error", [RuntimeError("CUDA error: an illegal memory access was encountered")]
)
def test_a_lost_device_is_not_the_failure_of_a_structure(keep, piece, monkeypatch, error):
    import tmol

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(tmol, "pose_stack_from_atom_array", fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        keep.prepare(piece("1ubi.pdb", 1, 3)[1])


# Messages of TMol 0.2.0 with their residues: io/pose_stack_from_biotite.py,
# io/_input_geometry.py, io/details and torch.
MESSAGES = [
    ("Heavy atoms are absent from the selected chemical definitions: TYR at residue index 5: XX."
     " Supply a matching chemical definition", "unrecognized_atom"),
    ("Multiple input atoms map to canonical atom 6 of TYR at residue index 5 (CD1). Resolve",
     "duplicate_atom"),
    ("No residue remains: 3 polymer residues lack mainchain atoms", "incomplete_backbone"),
    ("Cannot discard an incomplete or unsupported residue while retaining its covalent partner:"
     " declared bond TYR A:6/OH -- XYZ B:17/C1 would be lost. Supply", "unrecognized_residue"),
    ("pose_stack_from_canonical_form: no recognized residues found in input.",
     "unrecognized_residue"),
    ("Ligand (non-polymer) block(s) have missing heavy atoms;\n  pose=0 block=5 bt=TYR chain=A"
     " resid=6 missing_atoms=CZ", "missing_atoms"),
    ("Coincident bonded heavy atoms in input geometry: pose 0, residue 5 TYR, atom N (chain A,"
     " resid 6) -- pose 0, residue 5 TYR, atom CA (chain A, resid 6)", "bad_geometry"),
    ("Declared polymer bond crosses a geometry gap between residue indices 5 and 6 (cutoff 2.4",
     "bad_geometry"),
    ("Stated terminus conflicts with a covalent connection: A:6:TYR/N -- A:5:GLY/C",
     "bad_geometry"),
    ("NaN coordinates produced by pose_stack_from_atom_array:\n  pose=0 block=5 bt=TYR chain=A"
     " resid=6 atom=CA (global_atom_idx=64)", "bad_coordinates"),
    ("something that no one has seen", "unsupported_chemistry"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "reason"), MESSAGES)
def test_words_of_tmol_are_explained(piece, words, reason):
    path, structure = piece("1k1i.pdb", FIRST, LAST)
    error = explain(ValueError(words), structure)
    assert error.reason == reason
    assert error.message.startswith(f"{path}: TMol cannot build a pose: ValueError: ")
    if any(form in words for form in ("A:6", "resid 6", "resid=6")):
        assert "A:184A" in error.message, error.message


def test_running_out_of_memory_is_not_called_chemistry(piece):
    path, structure = piece("1ubi.pdb", 1, 3)
    wrapped = ValueError("cannot read it")
    wrapped.__cause__ = MemoryError("no room")
    for error in (MemoryError(), torch.OutOfMemoryError("CUDA out of memory."), wrapped):
        explained = explain(error, structure)
        assert (explained.reason, str(path) in explained.message) == ("too_large", True)


def test_labels_are_the_files_where_tmol_names_residues(piece):
    _, structure = piece("1k1i.pdb", FIRST, LAST)
    words = "A:1/CA A:5/N A:6/N A:7/N A:16/C B:6 3A:6 A:60"
    message = explain(ValueError(words), structure).message
    # 184 and 184A are A:5 and A:6 for TMol; A:16, B:6 and A:60 are no residues of it.
    assert message.endswith("A:180/CA A:184/N A:184A/N A:185/N A:16/C B:6 3A:6 A:60")


def test_heavy_atoms_that_tmol_built_in_a_ligand_are_counted():
    """GLX has C1, O1, OXT and H1, of which the file gave C1: O1 was built, OXT ends a chain."""
    atoms = [SimpleNamespace(name=n, atom_type=n[0]) for n in ("C1", "O1", "OXT", "H1")]
    kind = SimpleNamespace(atoms=atoms, atom_aliases=[])
    elements = [SimpleNamespace(name=n, element=n) for n in "COH"]
    packed = SimpleNamespace(
        active_block_types=[kind], chem_db=SimpleNamespace(atom_types=elements)
    )
    pose = SimpleNamespace(packed_block_types=packed, block_type_ind=np.zeros((1, 2), int))
    given = SimpleNamespace(name="GLX", atoms=["C1"])
    assert _ligand_heavy_atoms_built({0: given}, pose) == 1
    known = SimpleNamespace(name="GLY", atoms=["N"])
    assert _ligand_heavy_atoms_built({0: given, 1: known}, pose) == 1

"""Poses: their checks, their stacking, and the PDB files written of them, as TMol reads them."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gemmi
import numpy as np
import pytest
import torch
from tmol import beta2016_score_function
from tmol.io import default_packed_block_types
from tmol_poses import CPU, parameters_of, pose_from_tmol, read_tmol

from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.pose import PoseStackBuilder, _stacked
from tmol_plugin.pose_pdb import _chain_names, split_number

STRUCTURES = Path(__file__).parent / "structures"
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
ARRAYS = ("coords", "block_types", "connections")


@pytest.fixture(scope="module")
def parameters():
    return parameters_of(default_packed_block_types(CPU))


@pytest.fixture(scope="module")
def ubi(parameters):
    return pose_from_tmol(read_tmol(STRUCTURES / "1ubi.pdb"), 0, parameters)


@pytest.fixture(scope="module")
def upa(parameters):
    """Two chains U and P, insertion codes, six disulfides."""
    return pose_from_tmol(read_tmol(STRUCTURES / "4zhl.cif.gz"), 0, parameters)


@pytest.fixture(scope="module")
def gly(parameters, tmp_path_factory):
    """Ubiquitin's GLY 10 alone: a pose of one block without connections."""
    path = tmp_path_factory.mktemp("gly") / "gly.pdb"
    lines = (STRUCTURES / "1ubi.pdb").read_text().splitlines(True)
    path.write_text("".join(x for x in lines if x.startswith("ATOM") and x[22:26] == "  10"))
    return pose_from_tmol(read_tmol(path), 0, parameters)


def test_names_are_tmols(ubi, upa, gly):
    assert (gly.n_blocks, gly.n_atoms, gly.parameters_id) == (1, 10, "0123456789ab")
    assert gly.block_type_names.tolist() == ["GLY:cterm:nterm"]
    assert set(gly.atom_names) == {*("N", "H1", "H2", "H3", "CA", "HA2", "HA3", "C", "O", "OXT")}
    kinds = {kind.name: kind for kind in default_packed_block_types(CPU).active_block_types}
    for pose in (ubi, upa):
        types = [kinds[name] for name in pose.block_type_names]
        assert pose.atom_names.tolist() == [atom.name for kind in types for atom in kind.atoms]
        assert pose.residue_names.tolist() == [kind.io_equiv_class for kind in types]
        assert pose.block_connection_offsets[-1] == sum(len(kind.connections) for kind in types)
    # Its cysteines are block types of another name, and residues of the same.
    assert sum(name.startswith("CYD") for name in upa.block_type_names) == 12
    assert sum(upa.residue_names == "CYS") == 12


def changed(name, at, value):
    def change(pose):
        array = getattr(pose, name).copy()
        array[at] = value
        return {name: array}

    return change


SHORT = "block_atom_offsets and coords: "
UNRETURNED = "connections: not each partner"
# What is wrong: what is changed, and what is said.
CONTRADICTIONS = {
    "no atom at the end": (lambda p: {"coords": p.coords[:-1]}, SHORT),
    "coords float64": (lambda p: {"coords": p.coords.astype(float)}, "coords: float64 .1231, 3."),
    "coords flat": (lambda p: {"coords": p.coords.ravel()}, "coords: float32 .3693., must be"),
    "coords not finite": (changed("coords", (5, 1), np.nan), "coords: not all finite"),
    "no such block type": (changed("block_types", 3, 268), "block_types: not all from 0 to 267"),
    "negative block type": (changed("block_types", 3, -1), "block_types: not all from 0 to 267"),
    "another block type": (lambda p: changed("block_types", 3, p.block_types[0])(p), SHORT),
    "offsets moved": (changed("block_atom_offsets", 4, 60), SHORT),
    "a block less": (lambda p: {"block_types": p.block_types[:-1]}, "block_atom_offsets: int32"),
    "a connection less": (lambda p: {"connections": p.connections[:-1]}, "connections: 149, .*150"),
    "partner beyond the pose": (changed("connections", (2, 0), 76), UNRETURNED),
    "partner before the pose": (changed("connections", (2, 0), -2), UNRETURNED),
    "port beyond the partner's": (changed("connections", (2, 1), 3), UNRETURNED),
    "negative port": (changed("connections", (2, 1), -1), UNRETURNED),
    "bond of one side only": (changed("connections", (2,), -1), UNRETURNED),
    "port without partner": (changed("connections", (2, 0), -1), UNRETURNED),
    "partner of another": (changed("connections", (2, 0), 30), UNRETURNED),
    "a chain less": (lambda p: {"chain_of_block": p.chain_of_block[:-1]}, "chain_of_block: int32"),
    "a label less": (lambda p: {"labels": p.labels[:-1]}, "75 labels for 76 blocks"),
    "no blocks": (
        lambda p: {
            **{name: getattr(p, name)[:0] for name in (*ARRAYS, "chain_of_block", "labels")},
            "block_atom_offsets": p.block_atom_offsets[:1],
        },
        "0 labels for 0 blocks",
    ),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_arrays_that_contradict_each_other_are_refused(ubi, what):
    change, said = CONTRADICTIONS[what]
    with pytest.raises(StructureError, match=f"^pose: {said}") as caught:
        replace(ubi, **change(ubi))
    assert caught.value.reason == "engine_error"


@pytest.mark.parametrize("device", DEVICES)
def test_a_stack_holds_its_poses_end_to_end(ubi, upa, gly, device):
    poses = [ubi, gly, upa, gly, ubi]
    stack = PoseStackBuilder.from_poses(poses, device)
    assert (len(stack), stack.n_poses, stack.parameters_id) == (5, 5, ubi.parameters_id)
    assert stack.device.type == device
    # 1231, 4010 and 10 atoms, 76, 257 and 1 blocks: tests/structures/README.md.
    assert stack.pose_atom_offsets.tolist() == [0, 1231, 1241, 5251, 5261, 6492]
    assert stack.pose_block_offsets.tolist() == [0, 76, 77, 334, 335, 411]
    assert (stack.n_atoms, stack.n_blocks) == (6492, 411)
    atoms, blocks = stack.pose_atom_offsets.tolist(), stack.pose_block_offsets.tolist()
    for i, pose in enumerate(poses):
        of_blocks, of_ends = slice(*blocks[i : i + 2]), slice(blocks[i], blocks[i + 1] + 1)
        connections = stack.block_connection_offsets[of_ends].cpu().numpy()
        same = {
            "coords": stack.coords[atoms[i] : atoms[i + 1]],
            "block_types": stack.block_types[of_blocks],
            "connections": stack.connections[connections[0] : connections[-1]],
            "block_atom_offsets": stack.block_atom_offsets[of_ends] - atoms[i],
        }
        for name, found in same.items():
            assert found.cpu().numpy().dtype == getattr(pose, name).dtype
            assert np.array_equal(found.cpu().numpy(), getattr(pose, name)), name
        assert np.array_equal(connections - connections[0], pose.block_connection_offsets)
    assert len(stack.connections) == stack.block_connection_offsets[-1]
    for name, tensor in vars(stack).items():
        if name not in ("coords", "parameters_id"):
            assert tensor.dtype == torch.int32


def test_a_stack_is_a_copy(ubi):
    before = ubi.coords.copy()
    PoseStackBuilder.from_poses([ubi], "cpu").coords.zero_()
    assert np.array_equal(ubi.coords, before)


def test_no_poses_make_an_empty_stack():
    stack = PoseStackBuilder.from_poses([], "cpu")
    assert (stack.n_poses, stack.n_blocks, stack.n_atoms, stack.parameters_id) == (0, 0, 0, None)
    shapes = [tuple(getattr(stack, name).shape) for name in ARRAYS]
    assert shapes == [(0, 3), (0,), (0, 2)]
    assert stack.coords.dtype == torch.float32
    offsets = [tensor for name, tensor in vars(stack).items() if name.endswith("offsets")]
    assert [(o.tolist(), o.dtype) for o in offsets] == [([0], torch.int32)] * 4


def test_poses_of_two_parameters_do_not_stack(ubi, gly):
    parameters = gly.parameters
    other = SimpleNamespace(
        id="f" * 12, block_type_names=parameters.block_type_names, tensors=parameters.tensors
    )
    with pytest.raises(RunError, match=f"{'f' * 12}.*{ubi.parameters_id}"):
        PoseStackBuilder.from_poses([ubi, replace(gly, parameters=other)], "cpu")


def test_more_atoms_than_int32_counts_do_not_stack():
    most = 2**31 - 1
    assert _stacked([[0, most - 1], [0, 1]]).tolist() == [0, most - 1, most]
    with pytest.raises(RunError, match="2,147,483,648"):
        _stacked([[0, most], [0, 1]])


def test_a_pose_costs_no_import_of_torch():
    """The scan's jobs are many and short; torch is seconds."""
    code = "import sys, tmol_plugin.pose; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def rounded(pose):
    """As PDB holds it, to 0.001 angstrom: float32 of the decimals that the file has."""
    return replace(pose, coords=np.round(pose.coords.astype(np.float64), 3).astype(np.float32))


def check_same_pose(found, expected):
    """Every array the same bits, so the energies are."""
    assert found.block_type_names.tolist() == expected.block_type_names.tolist()
    for name in (*ARRAYS, "block_atom_offsets", "chain_of_block"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.parametrize("name", ["ubi", "upa", "gly"])
def test_tmol_reads_the_same_pose_from_the_pdb(request, tmp_path, name):
    pose = rounded(request.getfixturevalue(name))
    path = tmp_path / "pose.pdb"
    pose.write_pdb(path)
    found = pose_from_tmol(read_tmol(path), 0, pose.parameters)
    check_same_pose(found, pose)
    assert found.labels == pose.labels
    lines = path.read_text().splitlines()
    # Disulfides of 4zhl, as its struct_conn declares them, and an end of each chain.
    disulfides = {"upa": 6, "ubi": 0, "gly": 0}[name]
    assert sum(line.startswith("SSBOND") for line in lines) == disulfides
    assert sum(line.startswith("TER") for line in lines) == len(set(pose.chain_of_block))
    assert not any(line.startswith(("HETATM", "CRYST1")) for line in lines)


def test_a_long_disulfide_is_read_from_the_pdb(upa, tmp_path):
    """TMol bonds sulfurs up to 2.5 angstrom apart by itself; this is of CYS P 1 and P 10."""
    coords = upa.coords.copy()
    first, second = np.flatnonzero(upa.atom_names == "SG")[-2:]
    coords[first] += (coords[first] - coords[second]) * 0.4
    assert np.linalg.norm(coords[first] - coords[second]) > 2.7
    pose = rounded(replace(upa, coords=coords))
    path = tmp_path / "pose.pdb"
    pose.write_pdb(path)
    check_same_pose(pose_from_tmol(read_tmol(path), 0, pose.parameters), pose)


def test_energies_of_the_pdb_are_the_poses(upa, tmp_path):
    """Unrounded: what 0.0005 angstrom do. TMol 0.2.0 gives fa_ljrep 363.81, and 0.10 more from
    the file; the next largest difference is 0.025, of cart_angles. 0.3 leaves room for other
    machines' coordinates of hydrogens, and none for an atom that is misplaced.
    """
    path = tmp_path / "pose.pdb"
    upa.write_pdb(path)
    score_function = beta2016_score_function(CPU)
    energies = []
    for stack in (read_tmol(STRUCTURES / "4zhl.cif.gz"), read_tmol(path)):
        scorer = score_function.render_whole_pose_scoring_module(stack)
        with torch.no_grad():
            energies.append(scorer(stack.coords, sum_terms=False)[:, 0])
    assert (energies[0].abs() > 0.1).sum() >= 18
    assert torch.allclose(energies[1], energies[0], rtol=0, atol=0.3)


def test_labels_that_pdb_cannot_hold_are_made_anew(upa, tmp_path):
    """Two chains of one long name, and numbers that descend, repeat and are too large."""
    n = upa.n_blocks
    labels = [("heavy", str(20000 - 3 * (i // 2))) for i in range(n)]
    pose = rounded(replace(upa, labels=labels))
    path = tmp_path / "pose.pdb"
    pose.write_pdb(path)
    found = pose_from_tmol(read_tmol(path), 0, pose.parameters)
    check_same_pose(found, pose)
    n_first = int((upa.chain_of_block == 0).sum())
    expected = [("A", str(i + 1)) for i in range(n_first)]
    expected += [("B", str(i + 1)) for i in range(n - n_first)]
    assert found.labels == expected


def test_atoms_are_written_as_they_are(ubi, tmp_path):
    path = tmp_path / "folder" / "pose.pdb"
    ubi.write_pdb(path)
    (chain,) = gemmi.read_structure(str(path))[0]
    atoms = [(residue.name, atom) for residue in chain for atom in residue]
    assert [atom.name for _, atom in atoms] == ubi.atom_names.tolist()
    counts = np.diff(ubi.block_atom_offsets)
    assert [name for name, _ in atoms] == np.repeat(ubi.residue_names, counts).tolist()
    # Ubiquitin, C378 H629 N105 O118 S1.
    elements = [atom.element.name for _, atom in atoms]
    assert {e: elements.count(e) for e in set(elements)} == {
        **{"C": 378, "H": 629, "N": 105, "O": 118, "S": 1}
    }
    xyz = np.array([atom.pos.tolist() for _, atom in atoms])
    assert np.abs(xyz - ubi.coords).max() <= 0.5e-3 + 1e-6  # half a last decimal
    assert {(atom.occ, atom.b_iso) for _, atom in atoms} == {(1, 0)}


@pytest.mark.parametrize("shift", [-1000, 10000])
def test_coordinates_that_pdb_cannot_hold_are_refused(gly, tmp_path, shift):
    path = tmp_path / "pose.pdb"
    coords = gly.coords - gly.coords[0] + np.float32(shift)
    with pytest.raises(StructureError, match=r"pose\.pdb.*9999\.999") as caught:
        replace(gly, coords=coords).write_pdb(path)
    assert caught.value.reason == "bad_coordinates"
    assert not path.exists()


def test_chain_names():
    # A later chain keeps its own name; blank, long, repeated and foreign ones get a free one.
    assert _chain_names(["", "B", "AA", "B", "é", "A", "7"]) == ["C", "B", "D", "E", "F", "A", "7"]
    many = _chain_names(["A"] * 3906)
    assert (many[0], many[61], many[62], many[-1]) == ("A", "9", "AA", "99")
    assert len(set(many)) == 3906
    with pytest.raises(RunError, match="3906"):
        _chain_names(["A"] * 3907)


def test_numbers_are_split():
    numbers = ["7", "-3", "184A", "-1B", "", "x", "1AB", "1é", "9" * 10]
    expected = [(7, ""), (-3, ""), (184, "A"), (-1, "B"), *[(0, "")] * 5]
    assert [split_number(number) for number in numbers] == expected

"""Natively prepared poses are TMol's (0.2.0), and the fast way to them is the careful one."""

import warnings
from pathlib import Path

import numpy as np
import pieces
import pytest
import torch
from file_cases import CASES
from parity import (
    check_both_ways,
    check_same_as_tmol,
    counted,
    prepare_careful,
    prepare_fast,
    reason_of,
)
from structure_cases import NOT_COVERED, POSE
from tmol_poses import CPU, read_tmol

from tmol_plugin.engine import TmolEngine
from tmol_plugin.errors import StructureError
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.pose_reader import read_poses
from tmol_plugin.reading import Source
from tmol_plugin.structure import NotCoveredError, Result, read_pose
from tmol_plugin.upstream import tmol_pose_stack

STRUCTURES = Path(__file__).parent / "structures"
# What becomes of the shipped files.
COVERED = ("1a8o.cif", "1ejg.pdb", "1fas.cif", "1k1i.pdb", "1qbs.pdb", "1ubi.pdb")
COVERED += ("2k39.pdb.gz", "2ofg.cif.gz", "4zhl.cif.gz")
ENDS = {
    **dict.fromkeys(COVERED, POSE),
    **dict.fromkeys(("1ajj.pdb", "1lcd.pdb"), NOT_COVERED),
    **{"1fmo.pdb": "unrecognized_residue", "1ubi_ca.pdb": "incomplete_backbone"},
}
# |native - TMol| of the weighted total. Where nothing is built the coordinates are the same
# bits; built ones differ by 1e-6 angstrom, which came to 1e-3 at most (991 residues).
ENERGY = 0.01


@pytest.fixture(scope="module")
def engine(compiled):
    return TmolEngine(compiled, {"hydrogens": "keep", "packer_seed": 20160}, CPU)


@pytest.fixture
def file(tmp_path):
    def write(case):
        path = tmp_path / case.file
        path.write_bytes(case.content)
        return str(path)

    return write


def by_engine(engine, path, model=1):
    """TMol's pose of what the policy reads, and the notes that the tmol engine's row has."""
    structure = read_structure(Source(path), model, Policy())
    prepared = engine.prepare(structure)
    return prepared.pose, counted(structure.notes | prepared.notes)


def read_alone(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_tmol(path)


def total_energy(engine, stack):
    with torch.no_grad():
        scorer = engine._score_function.render_whole_pose_scoring_module(stack)
        return scorer(stack.coords, sum_terms=True, apply_weights=True)[0].item()


def ending(path, parameters, **options):
    try:
        read_pose(path, parameters, **options)
    except StructureError as failure:
        return reason_of(failure)
    return POSE


@pytest.mark.parametrize("name", COVERED)
def test_shipped_structures_are_tmols(name, engine, compiled, context):
    path = str(STRUCTURES / name)
    pose = read_pose(path, compiled)
    prepared, notes = by_engine(engine, path)
    check_same_as_tmol(pose, prepared)
    check_same_as_tmol(pose, read_alone(path))
    assert counted(pose.notes) == notes
    one, other = tmol_pose_stack([pose], context), prepared
    assert abs(total_energy(engine, one) - total_energy(engine, other)) < ENERGY


@pytest.mark.parametrize(
    ("name", "model"), [("2k39.pdb.gz", 4), ("2ofg.cif.gz", 2), ("2ofg.cif.gz", 3)]
)
def test_other_models_are_tmols(name, model, engine, compiled):
    path = str(STRUCTURES / name)
    pose = read_pose(path, compiled, model=model)
    prepared, notes = by_engine(engine, path, model)
    check_same_as_tmol(pose, prepared)
    assert counted(pose.notes) == notes
    assert isinstance(check_both_ways(Source(path), compiled, model), Result)


@pytest.mark.parametrize("name", ENDS)
def test_shipped_structures_by_both_ways(name, compiled):
    path = str(STRUCTURES / name)
    check_both_ways(Source(path), compiled)
    assert ending(path, compiled) == ENDS[name]
    fast = prepare_fast(Source(path), compiled)
    # 1ejg has two residue names at one position.
    assert isinstance(fast, Result) == (ENDS[name] == POSE and name != "1ejg.pdb")


@pytest.mark.parametrize("name", CASES)
def test_case_by_both_ways(name, compiled, file):
    """The fast way ends as the careful one does, and takes the files that it is meant to."""
    case = CASES[name]
    path = file(case)
    assert ending(path, compiled) == case.outcome
    if case.outcome == "unreadable":
        return
    careful = check_both_ways(Source(path), compiled)
    if isinstance(careful, StructureError):
        assert reason_of(careful) == case.outcome
    elif case.outcome == POSE:
        assert isinstance(prepare_fast(Source(path), compiled), Result) != case.careful


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.outcome == POSE])
def test_case_is_tmols(name, engine, compiled, file):
    case = CASES[name]
    path = file(case)
    pose = read_pose(path, compiled)
    prepared, notes = by_engine(engine, path)
    check_same_as_tmol(pose, prepared)
    assert counted(pose.notes) == notes
    if not case.alone:
        check_same_as_tmol(pose, read_alone(path))


def test_what_is_not_covered_keeps_its_residues(compiled, file):
    """The tmol engine takes the structure from the error: it is not read again."""
    path = file(CASES["calcium"])
    with pytest.raises(NotCoveredError, match="no amino acid") as caught:
        read_pose(path, compiled)
    assert caught.value.reason == "unsupported_chemistry"
    assert caught.value.structure.chemistry == "protein+metal"
    with pytest.raises(NotCoveredError, match="optimize") as caught:
        read_pose(STRUCTURES / "1ubi.pdb", compiled, "optimize")
    assert len(caught.value.structure.residues) == 76


def test_a_cyclic_peptide_is_not_covered(compiled, tmp_path):
    """Residues 1 to 6 of ubiquitin, N of the first where the next residue's would be."""
    lines = pieces.ubiquitin(1, 6)
    ends = [pieces.position(pieces.find(lines, *end)) for end in ((6, "C"), (1, "N"))]
    by = ends[0] - ends[1] + [0, 0, 1.33]
    lines = pieces.with_atom_moved(lines, 1, "N", by)
    path = tmp_path / "cyclic.pdb"
    path.write_bytes(pieces.text_of(lines))
    with pytest.raises(NotCoveredError, match="cyclic"):
        read_pose(path, compiled)
    assert isinstance(prepare_careful(Source(str(path)), compiled), NotCoveredError)


def test_the_policy_is_kept(compiled, tmp_path):
    """Residues to drop are dropped; side chains to rebuild are for the tmol engine."""
    path = tmp_path / "ligand.pdb"
    path.write_bytes(CASES["ligand"].content)
    dropped = read_pose(path, compiled, policy=Policy(on_unrecognized="drop"))
    assert dropped.notes["unrecognized_residues_dropped"] == 1
    np.testing.assert_array_equal(dropped.coords, read_pose(_piece(tmp_path), compiled).coords)
    path.write_bytes(pieces.text_of(pieces.without(pieces.ubiquitin(1, 6), "CG", number=4)))
    assert ending(path, compiled) == "missing_atoms"
    rebuild = Policy(missing_side_chains="rebuild")
    assert ending(path, compiled, policy=rebuild) == NOT_COVERED


def _piece(tmp_path):
    path = tmp_path / "piece.pdb"
    path.write_bytes(CASES["hydrogens-all"].content)
    return path


@pytest.mark.parametrize("threads", [1, 2])
def test_many_files_end_in_their_order(threads, compiled, tmp_path):
    paths = [str(STRUCTURES / name) for name in ENDS] + [str(tmp_path / "absent.pdb")]
    found = list(read_poses(iter(paths), compiled, threads))
    ends = [reason_of(one) if isinstance(one, StructureError) else POSE for one in found]
    assert ends == [*ENDS.values(), "unreadable"]
    for path, one in zip(paths, found, strict=True):
        if isinstance(one, StructureError):
            assert path in one.message
        else:
            expected = read_pose(path, compiled)
            np.testing.assert_array_equal(one.coords, expected.coords)
            assert (one.labels, one.notes) == (expected.labels, expected.notes)

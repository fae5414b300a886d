"""Native preparation against upstream TMol, and its fast way against its careful one."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pieces as p
import pytest
import torch
from distance_cases import CASES
from parity import (
    check_both_ways,
    check_same_as_tmol,
    counted,
    prepare_fast,
    reason_of,
)
from structure_cases import POSE

from tmol_plugin.engine import TmolEngine
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.native_engine import NativeTmolEngine
from tmol_plugin.policy import Policy
from tmol_plugin.pose import Pose
from tmol_plugin.pose_reader import read_poses
from tmol_plugin.reading import Source
from tmol_plugin.structure import NotCoveredError, Result, read_pose

STRUCTURES = Path(__file__).parent / "structures"
SETTINGS = {"hydrogens": "keep", "packer_seed": 20160}
# Shipped files that are prepared natively: all that have a score, but for the calcium of 1ajj
# and the DNA of 1lcd. 1ejg has two residue names at one position.
NATIVE = ["1a8o.cif", "1ejg.pdb", "1fas.cif", "1k1i.pdb", "1qbs.pdb", "1ubi.pdb"]
NATIVE += ["2k39.pdb.gz", "2ofg.cif.gz", "4zhl.cif.gz"]
PLAIN = [name for name in NATIVE if name != "1ejg.pdb"]


@pytest.fixture(scope="module")
def upstream(compiled):
    return TmolEngine(compiled, SETTINGS, torch.device("cpu"))


@pytest.fixture(scope="module")
def native(compiled):
    return NativeTmolEngine(compiled, SETTINGS, torch.device("cpu"))


def read_by_tmol(path):
    import tmol

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tmol.pose_stack_from_file(str(path), torch.device("cpu"), no_optH=True)


@pytest.mark.parametrize("name", NATIVE)
def test_shipped_files_are_prepared_as_by_tmol(name, compiled, native, upstream):
    path = STRUCTURES / name
    pose = read_pose(path, compiled)
    check_both_ways(Source(str(path)), compiled)
    assert isinstance(prepare_fast(Source(str(path)), compiled), Result) == (name in PLAIN)
    check_same_as_tmol(pose, read_by_tmol(path))
    expected = upstream.read(Source(str(path)), 1, Policy())
    check_same_as_tmol(pose, expected.pose)
    assert counted(pose.notes) == counted(expected.notes)
    # A weighted total of the same atoms within 0.01: the measure of one pose. Built
    # atoms differ by the rounding of 32 bits; the worst found was 1.2e-3, for 14935 atoms.
    prepared = native.read(Source(str(path)), 1, Policy())
    assert (prepared.engine, prepared.n_atoms) == ("tmol", expected.n_atoms)
    totals = [
        (engine.score(engine.stack([one]))[0] * engine.weights).sum()
        for engine, one in ((native, prepared), (upstream, expected))
    ]
    assert abs(totals[0] - totals[1]) < 0.01


def ended(path, parameters):
    """The pose of a file, or the error that it ends in."""
    try:
        return read_pose(path, parameters)
    except StructureError as error:
        return error


def is_read_so_by_tmol(path, pose):
    """Whether TMol, reading the file itself, makes this pose of it; how it fails is its own."""
    try:
        stack = read_by_tmol(path)
    except Exception:
        return False
    try:
        check_same_as_tmol(pose, stack)
    except AssertionError:
        return False
    return True


def written(tmp_path, case):
    path = tmp_path / case.file
    path.write_bytes(case.content)
    return path


@pytest.mark.parametrize("name", CASES)
def test_hand_made_cases_end_as_they_must(name, tmp_path, compiled, upstream):
    case = CASES[name]
    path = written(tmp_path, case)
    careful = check_both_ways(Source(str(path)), compiled)
    pose = ended(path, compiled)
    if case.outcome != POSE:
        assert reason_of(pose) == reason_of(careful) == case.outcome
        return
    assert isinstance(prepare_fast(Source(str(path)), compiled), Result) != case.careful
    expected = upstream.read(Source(str(path)), 1, Policy())
    check_same_as_tmol(pose, expected.pose)
    assert counted(pose.notes) == counted(expected.notes)
    if not case.alone:
        check_same_as_tmol(pose, read_by_tmol(path))
    else:  # it excuses no file that TMol can be asked about
        assert not is_read_so_by_tmol(path, pose)


def test_what_is_not_covered_goes_to_tmol(tmp_path, compiled, native, upstream):
    path = written(tmp_path, CASES["n-terminus-2"])
    prepared = native.read(Source(str(path)), 1, Policy())
    assert prepared.engine == "tmol"
    assert prepared.pose.packed_block_types.active_block_types[
        int(prepared.pose.block_type_ind[0, 0])
    ].name.endswith("nterm_neutral")
    # In one batch with poses of the library, each has the energies that it has alone.
    others = [native.read(Source(str(STRUCTURES / name)), 1, Policy()) for name in PLAIN[:2]]
    batch = [others[0], prepared, others[1]]
    together = native.score(native.stack(batch))
    alone = np.concatenate([native.score(native.stack([one])) for one in batch])
    # TMol sums in 32 bits, in an order that the batch's padding decides.
    assert np.allclose(together, alone, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("threads", [1, 2])
def test_many_files_give_poses_and_failures_in_order(tmp_path, compiled, threads):
    names = ["1ubi.pdb", "1lcd.pdb", "1ubi_ca.pdb", "2k39.pdb.gz", "1fas.cif"] * 8
    paths = [str(STRUCTURES / name) for name in names]
    paths[20] = str(tmp_path / "nowhere.pdb")
    found = list(read_poses(iter(paths), compiled, threads))
    assert len(found) == len(paths)
    for path, one in zip(paths, found, strict=True):
        expected = ended(path, compiled)
        assert type(one) is type(expected)
        if not isinstance(one, Pose):
            assert (one.reason, one.message) == (expected.reason, expected.message)
            continue
        assert one.parameters is compiled
        assert np.array_equal(one.coords, expected.coords)
        assert (one.labels, one.notes) == (expected.labels, expected.notes)


def test_disulfides_are_those_of_a_plain_search(tmp_path, compiled):
    """Cysteines at random in a box, so crowded that many sulfurs have several neighbours."""
    cysteine = p.heavy(p.crambin(26, 26))
    rng = np.random.default_rng(20160)
    lines, sulfurs = [], []
    for number in range(1, 121):
        residue = [p.with_field(s, 22, f"{number:4d}") for s in cysteine]
        by = rng.uniform(0, 14, 3)
        residue = [p.moved(s, p.position(s) + by) for s in residue]
        sulfurs.append(p.position(p.find(residue, number, "SG")))
        lines += [*residue, "TER"]
    path = tmp_path / "cysteines.pdb"
    path.write_bytes(p.text_of(p.with_serials(lines)))
    free, pairs = set(range(120)), []
    for i in range(120):
        near = [(float(((sulfurs[i] - sulfurs[j]) ** 2).sum()), j) for j in free if j > i]
        if i in free and near and min(near)[0] < 2.5**2:
            pairs.append((i, min(near)[1]))
            free -= set(pairs[-1])
    expected = ",".join(f"A:{i + 1}-A:{j + 1}" for i, j in pairs)
    assert len(pairs) > 10
    assert read_pose(path, compiled).notes["disulfides"] == expected


# Sulfurs 2.7 angstrom apart, unless a name says otherwise; the bond is declared or it is not.
BRIDGES = {
    "disulfide": "A:16-A:26",
    "disulfide-too-far": "",
    "disulfide-below": "A:16-A:26",
    "disulfide-above": "",
    "declared-disulfide-below": "A:16-A:26",
    "declared-disulfide-above": "",
    "ssbond-absent": "",
    "ssbond-long": "A:16-A:26",
    "ssbond-long-of-another-cell": "",
    "ssbond-between-chains": "A:16-B:26",
    "ssbond-number-again": "A:16-B:26",
    "ssbond-number-again-at-once": "A:16-B:26",
    "conect-disulfide": "A:16-A:26",
    "three-sulfurs": "A:16-B:126",
    "three-sulfurs-one-declared": "A:16-A:26",
    "cif-conn-absent": "",
    "cif-conn-disulf": "A:16-A:26",
    "cif-conn-covale": "A:16-A:26",
    "cif-conn-hydrog": "",
    "cif-conn-of-another-cell": "",
    "cif-conn-of-nothing": "",
    "cif-conn-number-again": "A:16-A:26",
}


@pytest.mark.parametrize("name", BRIDGES)
def test_disulfides_are_those_found_or_declared(name, tmp_path, compiled):
    pose = read_pose(written(tmp_path, CASES[name]), compiled)
    assert pose.notes["disulfides"] == BRIDGES[name]
    joined = [kind for kind in pose.block_type_names.tolist() if kind.startswith("CYD")]
    assert len(joined) == (2 if BRIDGES[name] else 0)


class Deadly(str):
    """A path that ends the process that it is handed to."""

    def __reduce__(self):
        return os._exit, (1,)


def test_a_process_that_dies_costs_one_file(compiled):
    good = str(STRUCTURES / "1ubi.pdb")
    paths = [good] * 70 + [Deadly("deadly.pdb")] + [good] * 70 + [Deadly("last.pdb")]
    found = list(read_poses(paths, compiled, 2))
    assert len(found) == len(paths)
    for path, one in zip(paths, found, strict=True):
        if path == good:
            assert isinstance(one, Pose)
        else:
            assert (one.reason, path in one.message) == ("engine_error", True)


def test_processes_that_cannot_start_end_the_reading(tmp_path, compiled):
    """A script without the guard that spawning needs: an error that says so, no waiting."""
    compiled.save(tmp_path / "p.safetensors")
    script = tmp_path / "script.py"
    script.write_text(
        "from tmol_plugin.parameters import load_parameters\n"
        "from tmol_plugin.pose_reader import read_poses\n"
        f"list(read_poses(['x'] * 40, load_parameters({str(tmp_path / 'p.safetensors')!r}), 2))\n"
    )
    command = [sys.executable, str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert 'must do so under `if __name__ == "__main__":`' in ended.stderr


def test_no_files_give_no_poses(compiled):
    assert list(read_poses([], compiled, 1)) == list(read_poses([], compiled, 2)) == []


def test_hydrogens_to_optimize_are_not_covered(compiled):
    path = STRUCTURES / "1ubi.pdb"
    with pytest.raises(NotCoveredError, match=r"1ubi\.pdb: hydrogens: optimize") as caught:
        read_pose(path, compiled, hydrogens="optimize")
    assert len(caught.value.structure.residues) == 76


@pytest.mark.parametrize("name", ["2k39.pdb.gz", "2ofg.cif.gz"])
def test_models_are_told_apart(name, compiled):
    source = Source(str(STRUCTURES / name))
    poses = [read_pose(source, compiled, model=number) for number in source.models]
    for number in source.models:
        check_both_ways(source, compiled, number)
    assert len({pose.coords.tobytes() for pose in poses}) == len(source.models) > 1
    with pytest.raises(StructureError) as caught:
        read_pose(source, compiled, model=99)
    assert caught.value.reason == "no_such_model"


@pytest.mark.parametrize(
    ("name", "label"), [("space", "A B"), ("colon", "A:B"), ("long", "ASSEMBLY-1")]
)
def test_labels_are_those_of_the_file(name, label, tmp_path, compiled):
    pose = read_pose(written(tmp_path, CASES[f"cif-chain-{name}"]), compiled)
    assert pose.labels == [(label, str(number)) for number in range(1, 10)]


def test_a_cyclic_chain_is_not_covered(tmp_path, compiled):
    """Residues 1 to 6 of ubiquitin, N of the first where the next residue's would be."""
    lines = p.ubiquitin(1, 6)
    end, start = (p.position(p.find(lines, *at)) for at in ((6, "C"), (1, "N")))
    path = tmp_path / "cyclic.pdb"
    path.write_bytes(p.text_of(p.with_atom_moved(lines, 1, "N", end - start + [0, 0, 1.33])))
    with pytest.raises(NotCoveredError, match="a cyclic chain"):
        read_pose(path, compiled)


def test_residues_are_dropped_or_rebuilt_under_the_policy(tmp_path, compiled):
    path = written(tmp_path, CASES["ligand"])
    dropped = read_pose(path, compiled, policy=Policy(on_unrecognized="drop"))
    assert dropped.notes["unrecognized_residues_dropped"] == 1
    path.write_bytes(p.text_of(p.nmr(1, 9)))
    assert np.array_equal(dropped.coords, read_pose(path, compiled).coords)
    path.write_bytes(CASES["atom-missing"].content)
    with pytest.raises(NotCoveredError, match="missing heavy atoms"):
        read_pose(path, compiled, policy=Policy(missing_side_chains="rebuild"))


def test_the_first_model_is_read_unless_another_is_asked_for(tmp_path, compiled):
    lines = (STRUCTURES / "1ubi.pdb").read_text().splitlines()
    atoms = [line for line in lines if line.startswith("ATOM")]
    shifted = [line[:30] + f"{float(line[30:38]) + 5:8.3f}" + line[38:] for line in atoms]
    text = ["MODEL        4", *atoms, "ENDMDL", "MODEL        7", *shifted, "ENDMDL", "END"]
    path = tmp_path / "models.pdb"
    path.write_text("\n".join(text) + "\n")
    first, fourth, seventh = (read_pose(path, compiled, model=m) for m in (None, 4, 7))
    np.testing.assert_array_equal(first.coords, fourth.coords)
    np.testing.assert_allclose(seventh.coords[:, 0], first.coords[:, 0] + 5, atol=1e-4)
    assert [p.n_atoms for p in read_poses([str(path)], compiled)] == [first.n_atoms]


def test_arguments_that_are_none_are_refused_by_name(compiled):
    with pytest.raises(RunError, match="hydrogens is 'kept': give 'keep' or 'optimize'"):
        read_pose(STRUCTURES / "1ubi.pdb", compiled, hydrogens="kept")
    with pytest.raises(TypeError, match="give a list of paths"):
        next(read_poses("1ubi.pdb", compiled))

"""Parameters: an id that says which energies, and databases that keep what they add."""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tmol_plugin import ligands, parameters, scan, tables
from tmol_plugin.engine import TmolEngine
from tmol_plugin.errors import RunError
from tmol_plugin.inputs import list_structures, write_manifest
from tmol_plugin.parameters import Parameters, load_parameters
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source

STRUCTURES = Path(__file__).parent / "structures"
SETTINGS = {"hydrogens": "keep", "packer_seed": 20160}

# A molecule of three atoms as a TMol parameter file; {more} adds a charge.
LIGAND = """version: "5.2"
chemical:
  residues:
    - name: LGX
      base_name: LGX
      name3: LGX
      io_equiv_class: LGX
      atoms:
        - {{name: O1, atom_type: OH}}
        - {{name: C1, atom_type: CH2}}
        - {{name: C2, atom_type: CH2}}
      bonds: [[O1, C1, SINGLE, false], [O1, C2, SINGLE, false]]
      connections: []
      icoors:
        - {{name: O1, parent: O1, grand_parent: C1, great_grand_parent: C2, phi: 0, theta: 0, d: 0}}
        - {{name: C1, parent: O1, grand_parent: C1, great_grand_parent: C2, phi: 0, theta: 3.14159,
            d: 1.4}}
        - {{name: C2, parent: O1, grand_parent: C1, great_grand_parent: C2, phi: 0, theta: 1.2,
            d: 1.4}}
      properties: {{}}
      default_jump_connection_atom: O1
elec:
  atom_charge_parameters:
    - {{res: LGX, atom: O1, charge: -0.2}}
    - {{res: LGX, atom: C1, charge: 0.1}}
    - {{res: LGX, atom: C2, charge: 0.1}}
    {more}
"""


def start(output, *options, hash_seed=0):
    """`python -m tmol_plugin parameters` in a process of its own."""
    command = [sys.executable, "-m", "tmol_plugin", "parameters", "--output", str(output)]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, *map(str, options)], env=environment, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, words = process.communicate(timeout=300)
    assert process.returncode == 0, words


def compiled(folder, **changes):
    """The file of a run in this process, read again."""
    path = folder / "parameters.safetensors"
    given = {"score_function": "beta2016", "ligand_params": [], "index_files": []}
    parameters.run(str(path), **(given | {"ligand_seed": 0} | changes))
    return load_parameters(path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The file of TMol's own database and beta2016, by the command line."""
    path = tmp_path_factory.mktemp("plain") / "parameters.safetensors"
    finish(start(path, hash_seed=1))
    return path


def test_the_file_is_the_same_from_every_process(plain, tmp_path):
    finish(start(tmp_path / "again.safetensors", hash_seed=2))
    assert plain.read_bytes() == (tmp_path / "again.safetensors").read_bytes()
    here, there = parameters.compile_parameters(), load_parameters(plain)
    assert there.id == here.id
    assert there.metadata == here.metadata
    assert there.tensors.keys() == here.tensors.keys()
    for name, tensor in here.tensors.items():
        assert there.tensors[name].dtype == tensor.dtype, name
        np.testing.assert_array_equal(there.tensors[name], tensor, err_msg=name)
    assert (there.database, there.residues, there.failed) == (None, [], {})
    assert there.score_function == "beta2016"
    assert re.fullmatch("[0-9a-f]{12}", there.id)


def test_the_id_is_another_for_other_energies(plain, tmp_path):
    soft = compiled(tmp_path, score_function="beta_soft")
    assert soft.id != load_parameters(plain).id
    # Its content makes the id, not its name; a comment is taken for a change, which costs a run.
    copy = tmp_path / "copy.sfxn"
    copy.write_bytes(parameters.score_function_file("beta_soft").read_bytes())
    assert compiled(tmp_path, score_function=str(copy)).id == soft.id
    copy.write_text(copy.read_text().replace("fa_elec: 1.0", "fa_elec: 1.5"))
    assert compiled(tmp_path, score_function=str(copy)).id != soft.id


def test_the_id_covers_every_tensor_and_list_that_changes_an_energy(plain):
    made = load_parameters(plain)
    # The tables of rotamers are large, and hashed as all others are.
    few = {name: tensor for name, tensor in made.tensors.items() if tensor.nbytes < 10**6}
    ids = [Parameters(few, made.metadata).id]
    for name, tensor in few.items():
        other = tensor.copy()
        other.reshape(-1).view(np.uint8)[-1] ^= 1
        ids.append(Parameters(few | {name: other}, made.metadata).id)
    frame = few["atom.frame"]
    for other in (frame.view(np.float32), frame.reshape(-1)):
        ids.append(Parameters(few | {"atom.frame": other}, made.metadata).id)
    for key in set(made.metadata) - {"score_function", "failed"}:
        ids.append(Parameters(few, made.metadata | {key: "other"}).id)
    assert len(set(ids)) == len(ids)
    renamed = made.metadata | {"score_function": "a copy", "failed": {"XYZ": "why"}}
    assert Parameters(few, renamed).id == ids[0]


def test_another_tmol_is_another_id(plain, monkeypatch):
    ids = [load_parameters(plain).id]
    monkeypatch.setattr(parameters, "versions", lambda: {"tmol": "0.2.99"})
    ids.append(parameters.compile_parameters().id)
    monkeypatch.undo()
    monkeypatch.setattr(parameters, "_tree_sha256", lambda folder: "a database that was edited")
    ids.append(parameters.compile_parameters().id)
    assert len(set(ids)) == 3


def test_loading_takes_no_tmol_and_no_time(plain):
    script = (
        "import sys, time; from tmol_plugin.parameters import load_parameters;"
        "begin = time.perf_counter(); made = load_parameters(sys.argv[1]);"
        "print(made.id, time.perf_counter() - begin, *({'tmol', 'torch'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", script, str(plain)]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert words[0] == load_parameters(plain).id
    # 0.06 s on an idle machine, hashing and all.
    assert float(words[1]) < 0.3
    assert words[2:] == []


def test_a_file_that_is_none_is_not_loaded(plain, tmp_path):
    path, whole = tmp_path / "parameters.safetensors", plain.read_bytes()
    header = int.from_bytes(whole[:8], "little")
    cut = [whole[:length] for length in (0, 7, 8, 100, header, header + 8, len(whole) - 1)]
    foreign = [b"{}", b'{"id": "0123456789ab"}', b"\x00" * 4096, whole + b"!", b"\x02" + bytes(9)]
    for content in cut + foreign:
        path.write_bytes(content)
        with pytest.raises(RunError, match=r"meters\.safetensors: is no .*; remove it, run again"):
            load_parameters(path)
    with pytest.raises(RunError, match=r"gone\.safetensors: is no parameters file"):
        load_parameters(tmp_path / "gone.safetensors")
    for metadata in (None, {"more": "1"}, {"parameters": "["}, {"parameters": "[]"}):
        save_file({"x": np.zeros(3)}, path, metadata)
        with pytest.raises(RunError, match="is no parameters file"):
            load_parameters(path)
    flipped = bytearray(whole)
    flipped[-1000] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(RunError, match="its content is not what was written; remove it"):
        load_parameters(path)


def test_a_file_of_another_layout_is_not_loaded(tmp_path, monkeypatch):
    path = tmp_path / "parameters.safetensors"
    monkeypatch.setattr(parameters, "FORMAT", parameters.FORMAT + 1)
    Parameters({}, {"score_function": "", "residues": [], "failed": {}}).save(path)
    monkeypatch.undo()
    with pytest.raises(RunError, match="of another version of tmol_plugin; remove it, run again"):
        load_parameters(path)


def test_tree_hash_follows_names_and_contents(tmp_path):
    def tree(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return parameters._tree_sha256(folder)

    first = tree(a="1", b="2")
    assert first == tree(b="2", a="1", **{"__pycache__/c.pyc": "x"})
    others = {tree(a="1", b="3"), tree(a="1", c="2"), tree(a="1"), tree(a="2", b="1")}
    assert len(others | {first, tree(a="1", **{"b/b": "2"})}) == 6


@pytest.mark.parametrize("name", ["beta2017", "", "no/such.sfxn", "."])
def test_a_score_function_that_is_not_there(tmp_path, name):
    with pytest.raises(RunError, match=f"score_function: '{name}' is neither beta2016, beta_soft"):
        compiled(tmp_path, score_function=name)
    assert not (tmp_path / "parameters.safetensors").exists()


def test_residue_names_are_those_that_files_define(tmp_path):
    class_of, named, bare = tmp_path / "a.tmol", tmp_path / "b.tmol", tmp_path / "c.tmol"
    class_of.write_text(LIGAND.format(more=""))
    named.write_text("chemical: {residues: [{name: X_1, name3: X1}, {name: ABC}]}")
    bare.write_text("chemical: {residues: [{name: 1PE, name3: 017, io_equiv_class: '017'}]}")
    files = [str(path) for path in (class_of, named, bare)]
    assert ligands.residue_names(files) == ["017", "ABC", "LGX", "X1"]
    assert ligands.residue_names([]) == []


NO_PARAMETERS = ["", "just text", "[1", "\x00", "chemical: {}", "residues: []"]
NO_PARAMETERS += [f"chemical: {{residues: {value}}}" for value in ("7", "[1]", "[{atoms: []}]")]


@pytest.mark.parametrize("text", [None, *NO_PARAMETERS])
def test_a_file_that_is_no_parameter_file_is_named(tmp_path, text):
    path = tmp_path / "bad.tmol"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RunError, match=r"ligand_params: '.*/bad\.tmol' is not a TMol parameter"):
        ligands.residue_names([str(path)])


@pytest.mark.parametrize(
    ("old", "new"),
    [("5.2", "99.0"), ("{name: O1, atom_type", "{atom_type"), ("residues:", "rest:")],
)
def test_a_parameter_file_that_tmol_refuses_is_named(tmp_path, old, new):
    path = tmp_path / "refused.tmol"
    path.write_text(LIGAND.format(more="").replace(old, new, 1))
    with pytest.raises(RunError, match=r"ligand_params: .*refused\.tmol"):
        compiled(tmp_path, ligand_params=[str(path)])


def test_a_residue_that_tmol_cannot_build_is_named(tmp_path):
    path = tmp_path / "ligand.tmol"
    path.write_text(LIGAND.format(more="").replace("default_jump_connection_atom: O1", ""))
    with pytest.raises(RunError, match=r"TMol cannot use .* for LGX: KeyError: '';"):
        compiled(tmp_path, ligand_params=[str(path)])


def test_the_id_covers_all_that_a_parameter_file_changes(plain, tmp_path):
    """Also charges of residues that TMol has itself: they change every protein's energy."""
    ids, charges = [load_parameters(plain).id], []
    for more in ("", "- {res: GLY, atom: CA, charge: 0.5}", "- {res: GLY, atom: CA, charge: 0.9}"):
        path = tmp_path / "ligand.tmol"
        path.write_text(LIGAND.format(more=more))
        found = compiled(tmp_path, ligand_params=[str(path)])
        assert found.residues == ["LGX"]
        assert "LGX" in found.block_type_names
        ids.append(found.id)
        database = parameters.load_database(found)
        added = {(c.res, c.atom): c.charge for c in database.scoring.elec.atom_charge_parameters}
        charges.append(added["GLY", "CA"])
    assert charges == [pytest.approx(value) for value in (-0.03279, 0.5, 0.9)]
    assert len(set(ids)) == 4


def test_a_database_that_was_altered_is_not_loaded(tmp_path):
    (tmp_path / "ligand.tmol").write_text(LIGAND.format(more=""))
    path = tmp_path / "parameters.safetensors"
    file = compiled(tmp_path, ligand_params=[str(tmp_path / "ligand.tmol")]).database
    data = file.read_bytes()
    assert file.parent == tmp_path
    file.write_bytes(data + b"!")
    with pytest.raises(RunError, match=r"\.pickle: missing or changed; remove .*\.safetensors"):
        load_parameters(path)
    file.unlink()
    with pytest.raises(RunError, match="missing or changed"):
        load_parameters(path)


def new_engine(made):
    return TmolEngine(made, SETTINGS, torch.device("cpu"))


def energies(engine, path, parametrized=()):
    """Unweighted energies by score type of a structure."""
    policy = Policy(parametrized=frozenset(parametrized))
    pose = engine.prepare(read_structure(Source(str(path)), 1, policy))
    values = engine.score(engine.stack([pose]))[0]
    return dict(zip(engine.score_types, values.tolist(), strict=True))


def lines(name, *numbers):
    text = (STRUCTURES / name).read_text().splitlines(True)
    return [s for s in text if s[:6] in ("ATOM  ", "HETATM") and int(s[22:26]) in numbers]


def test_a_score_function_of_ones_own(tmp_path):
    (tmp_path / "in.pdb").write_text("".join(lines("1ubi.pdb", *range(1, 21))))
    original = parameters.score_function_file("beta2016").read_text()
    # beta2016 weights fa_ljrep by 0.55.
    half = tmp_path / "half.sfxn"
    half.write_text(original.replace("fa_ljrep: 0.55", "fa_ljrep: 0.275"))
    found = []
    for name in ("beta2016", str(half)):
        engine = new_engine(compiled(tmp_path, score_function=name))
        found.append((engine.weights, energies(engine, tmp_path / "in.pdb")))
    (weights, plain), (half_weights, half_plain) = found
    assert plain == half_plain
    assert plain["fa_ljrep"] > 1
    at = list(plain).index("fa_ljrep")
    # Weights are float32 in TMol.
    assert weights[at] * plain["fa_ljrep"] == pytest.approx(0.55 * plain["fa_ljrep"], rel=1e-6)
    assert half_weights[at] == pytest.approx(weights[at] / 2, rel=1e-6)
    others = np.arange(len(plain)) != at
    assert np.array_equal(weights[others], half_weights[others])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(("version: '1.0'\nweights: [1", "bad.sfxn"), ("hello", "bad.sfxn"), ("", "bad.sfxn")),
        ("version: '1.0'\nweights: {nope: 1}", "nope"),
        (
            "version: '1.0'\nweights: {constraint: 1.0, fa_elec: 1.0}",
            "weights constraint, which no",
        ),
    ],
)
def test_a_score_function_that_cannot_be_used_is_named(tmp_path, text, words):
    path = tmp_path / "bad.sfxn"
    path.write_text(text)
    with pytest.raises(RunError, match=r"^score_function: .*bad\.sfxn") as error:
        parameters.compile_parameters(str(path))
    assert words in str(error.value)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """Parameters of SEP and TPO from 1fmo, by two processes; the second is also asked for XYZ.

    About 30 s. The name that nothing is known of must change nothing for the others.
    """
    folder = tmp_path_factory.mktemp("generated")
    write_manifest(folder / "m.tsv", list_structures(str(STRUCTURES / "1fmo.pdb")))
    index = folder / "index.parquet"
    scan.run(str(folder / "m.tsv"), str(index), "first", Policy(defer_unrecognized=True))
    row = {"structure_id": "gone", "path": "no/such.pdb", "model": 1, "unrecognized": "XYZ"}
    tables.write_parquet(folder / "gone.parquet", tables.INDEX, tables.INDEX.frame([row]))
    sources = [[index], [folder / "gone.parquet", index]]
    paths = [folder / f"{seed}" / "parameters.safetensors" for seed in (1, 2)]
    processes = [
        start(path, "--prepare-from", *files, hash_seed=seed)
        for seed, (path, files) in enumerate(zip(paths, sources), 1)
    ]
    for process in processes:
        finish(process)
    return [load_parameters(path) for path in paths]


def test_parameters_of_residues_are_generated(generated):
    first, second = generated
    assert (first.residues, first.failed) == (["SEP", "TPO"], {})
    assert second.residues == first.residues
    assert list(second.failed) == ["XYZ"]
    assert "no/such.pdb: No such file" in second.failed["XYZ"]
    assert first.id == second.id
    names = {r.io_equiv_class for r in parameters.load_database(first).chemical.residues}
    assert {"SEP", "TPO"} <= names


def test_generated_parameters_score_and_change_no_other_energy(generated, plain, tmp_path):
    first, second = generated
    # THR 195 to GLY 200 of 1fmo, with TPO 197; and crambin, which has neither TPO nor SEP.
    (tmp_path / "tpo.pdb").write_text("".join(lines("1fmo.pdb", *range(195, 201))))
    crambin, own = STRUCTURES / "1ejg.pdb", load_parameters(plain)
    engine = new_engine(first)
    with_tpo = energies(engine, tmp_path / "tpo.pdb", first.residues)
    assert np.isfinite(list(with_tpo.values())).all()
    # Torsions of generated residues have a term of their own.
    assert with_tpo["gen_torsions"] != 0
    assert energies(engine, crambin) == energies(new_engine(own), crambin)
    # The same id promises the same energies, whichever process made the database.
    assert energies(new_engine(second), tmp_path / "tpo.pdb", second.residues) == with_tpo


def test_the_documentation_names_every_tensor_and_list(plain):
    """Both ways; `.x` is of the term before it, `_x` another ending, `*` any."""
    made = load_parameters(plain)
    text = (Path(__file__).parents[1] / "docs" / "parameters.md").read_text()
    documented, term, last = set(), "", ""
    for row in re.findall(r"^\| (`.+?) \|", text, re.MULTILINE):
        for name in re.findall(r"`([\w.*]+)`", row):
            if name.startswith("_"):
                name = last.rpartition("_")[0] + name
            elif name.startswith("."):
                name = term + name
            term, last = name.partition(".")[0], name
            documented.add(name)
    written = {*made.tensors, *made.metadata, "id", "format", "database", "database_sha256"}
    assert [name for name in documented if not fnmatch.filter(written, name)] == []
    matched = {name for pattern in documented for name in fnmatch.filter(written, pattern)}
    assert written - matched == {"class_aliases"}  # explained beside `classes`

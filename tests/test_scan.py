"""The index: what the scan says of the shipped structures, and of those it cannot use."""

import json
import re
from pathlib import Path

import pytest

from tmol_plugin import scan, tables
from tmol_plugin.errors import REASONS
from tmol_plugin.inputs import Row, list_structures, write_manifest
from tmol_plugin.policy import Policy

STRUCTURES = Path(__file__).parent / "structures"

# Models, chains, chemistry and notes, read off the files: chains are runs of one chain id
# (1ajj and 1lcd have a metal of its own besides), counts are by grep.
SHIPPED = {
    "1a8o.cif": (1, 1, "protein", "mse_as_met=4 waters_dropped=88 zero_occupancy_atoms=3"),
    "1ajj.pdb": (1, 2, "protein+metal", "waters_dropped=30"),
    "1ejg.pdb": (1, 1, "protein", "residues_with_altlocs=17"),
    "1fas.cif": (
        *(1, 1, "protein"),
        "residues_with_altlocs=2 waters_dropped=105 zero_occupancy_atoms=3",
    ),
    "1k1i.pdb": (1, 1, "protein", ""),
    "1lcd.pdb": (3, 4, "protein+nucleic acid+metal", "waters_dropped=49"),
    "1qbs.pdb": (1, 2, "protein", ""),
    "1ubi.pdb": (1, 1, "protein", "waters_dropped=81"),
    "2k39.pdb.gz": (4, 1, "protein", ""),
    "2ofg.cif.gz": (3, 1, "protein", ""),
    "4zhl.cif.gz": (1, 2, "protein", "waters_dropped=50"),
}


@pytest.fixture
def scanned(tmp_path):
    """Index rows of inputs, as dicts, through the manifest and the table."""

    def scanned(rows, models="first", policy=None):
        write_manifest(tmp_path / "m.tsv", rows)
        scan.run(str(tmp_path / "m.tsv"), str(tmp_path / "i"), models, policy or Policy())
        frame = tables.read_parquet(tmp_path / "i", tables.INDEX)
        return frame.astype(object).where(frame.notna(), None).to_dict("records")

    return scanned


def given(name, model=None, **extra):
    return Row(name, str(STRUCTURES / name), model, extra, 1, 1)


def tmol_sizes():
    """File -> (blocks, atoms) of TMol's pose, from the table of tests/structures/README.md."""
    text = (STRUCTURES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(\S+)` \|[^|]*\| *\d+ *\| *(\d+) *\| *(\d+) *\|", text)
    return {name: (int(blocks), int(atoms)) for name, blocks, atoms in rows}


def failures(rows):
    return {row["structure_id"]: (row["stage"], row["reason"]) for row in rows if row["reason"]}


def check_row(row):
    """A row has all that a plan needs, or all of a failure, and nothing of the other."""
    sizes = ["n_residues", "n_heavy_atoms", "n_atoms", "n_chains", "chemistry"]
    why = ["stage", "reason", "message", "remedy"]
    has, lacks = (why, sizes) if row["reason"] else (sizes, why)
    assert all(row[name] for name in has), row
    assert all(row[name] is None for name in lacks), row
    if row["reason"]:
        assert row["reason"] in REASONS
        assert tables.unescape(row["path"]) in row["message"]


def test_rows_of_the_shipped_structures(scanned):
    rows = scanned(list_structures(str(STRUCTURES)))
    for row in rows:
        check_row(row)
    sizes = tmol_sizes()
    found = {row["structure_id"]: row for row in rows}
    assert list(found) == sorted([*SHIPPED, "1fmo.pdb", "1ubi_ca.pdb"])
    assert failures(rows) == {
        "1fmo.pdb": ("scan", "unrecognized_residue"),
        "1ubi_ca.pdb": ("scan", "incomplete_backbone"),
    }
    assert set(sizes) == set(SHIPPED)
    for name, (_, n_chains, chemistry, notes) in SHIPPED.items():
        row = found[name]
        assert (row["n_chains"], row["chemistry"], row["notes"]) == (n_chains, chemistry, notes)
        assert (row["model"], row["unrecognized"]) == (1, "")
        blocks, atoms = sizes[name]
        assert row["n_residues"] == blocks
        # Buckets are 1.5 wide: an estimate of 2 % is plenty. The largest error is 1.8 %.
        assert row["n_atoms"] == pytest.approx(atoms, rel=0.02)
        assert row["sha256"] == tables.file_sha256(STRUCTURES / name)


def test_a_failure_names_the_residues(scanned):
    (row,) = scanned([given("1fmo.pdb")])
    assert row["message"].endswith("1fmo.pdb: no parameters for E:197 TPO, E:338 SEP")
    assert row["sha256"] == tables.file_sha256(STRUCTURES / "1fmo.pdb")


def test_residues_without_parameters_by_policy(scanned):
    (deferred,) = scanned([given("1fmo.pdb")], policy=Policy(defer_unrecognized=True))
    assert (deferred["unrecognized"], deferred["n_residues"]) == ("SEP,TPO", 338)
    (dropped,) = scanned([given("1fmo.pdb")], policy=Policy(on_unrecognized="drop"))
    assert (dropped["unrecognized"], dropped["n_residues"]) == ("", 336)
    assert dropped["notes"] == "chain_breaks=2 unrecognized_residues_dropped=2"
    policy = Policy(parametrized=frozenset({"SEP", "TPO"}))
    (known,) = scanned([given("1fmo.pdb")], policy=policy)
    assert (known["unrecognized"], known["n_residues"], known["notes"]) == ("", 338, "")
    policy = Policy(parametrized=frozenset({"SEP"}))
    (half,) = scanned([given("1fmo.pdb")], policy=policy)
    assert (half["reason"], "SEP" in half["message"]) == ("unrecognized_residue", False)
    for row in (deferred, dropped, known, half):
        check_row(row)


def test_missing_atoms_are_listed(scanned, tmp_path):
    text = (STRUCTURES / "1ubi.pdb").read_text().splitlines(True)
    lacking = [s for s in text if s[12:16] not in (" NZ ", " CD1")]
    path = tmp_path / "lacking.pdb"
    path.write_text("".join(s for s in lacking if not s.startswith("HETATM")))
    row = Row("lacking", str(path), None, {}, 1, 1)
    (failed,) = scanned([row])
    assert failed["reason"] == "missing_atoms"
    (rebuilt,) = scanned([row], policy=Policy(missing_side_chains="rebuild"))
    listed = rebuilt["missing_atoms"].split("; ")
    # 1ubi: LYS 7, ILE 7, LEU 9, PHE 2, TYR 1.
    assert len(listed) == 7 + 7 + 9 + 2 + 1
    assert listed[:3] == ["A:3 ILE: CD1", "A:4 PHE: CD1", "A:6 LYS: NZ"]
    assert rebuilt["notes"] == "heavy_atoms_rebuilt=26"
    for found in (failed, rebuilt):
        check_row(found)


def test_models(scanned):
    names = ["2ofg.cif.gz", "1lcd.pdb", "2k39.pdb.gz", "1ubi.pdb"]
    rows = scanned([given(name) for name in names], models="all")
    expected = [(name, m) for name in names for m in range(1, SHIPPED[name][0] + 1)]
    assert [(row["structure_id"], row["model"]) for row in rows] == expected
    # Models of 2ofg.cif.gz end early from the second on, those of 1lcd differ in waters only.
    assert [row["n_residues"] for row in rows[:3]] == [106, 76, 71]
    notes = ["waters_dropped=49", "waters_dropped=45", "waters_dropped=44"]
    assert [row["notes"] for row in rows[3:6]] == notes
    first = scanned([given(name) for name in names], models="first")
    assert [row["model"] for row in first] == [1, 1, 1, 1]
    # A model that the sheet names takes precedence over `models`.
    for models in ("first", "all"):
        (second,) = scanned([given("2ofg.cif.gz", 2)], models)
        assert second == rows[1]
        (missing,) = scanned([given("2k39.pdb.gz", 9)], models)
        check_row(missing)
        assert (missing["model"], missing["reason"]) == (9, "no_such_model")
        assert missing["message"].endswith("no model 9; it has 4: 1, 2, 3, 4")


def test_models_by_their_numbers(scanned, tmp_path):
    atoms = [s for s in (STRUCTURES / "1ubi.pdb").read_text().splitlines(True) if s[:4] == "ATOM"]
    pieces = [[s for s in atoms if int(s[22:26]) <= n] for n in (2, 3, 4)]
    pieces[1][1:2] = []  # no CA in residue 1
    text = "".join(
        f"MODEL     {number:4}\n{''.join(piece)}ENDMDL\n"
        for number, piece in zip((3, 7, 5), pieces, strict=True)
    )
    (tmp_path / "m.pdb").write_text(text)
    row = Row("m", str(tmp_path / "m.pdb"), None, {}, 1, 1)
    rows = scanned([row], models="all")
    found = [(r["model"], r["n_residues"], r["reason"]) for r in rows]
    assert found == [(3, 2, None), (7, None, "incomplete_backbone"), (5, 4, None)]
    (first,) = scanned([row], models="first")
    assert first == rows[0]


def test_files_that_are_no_structures(scanned, tmp_path):
    contents = {"empty": b"", "text": b"hello\n", "binary": b"\0" * 100, "html": b"<html>\n"}
    contents |= {"damaged.gz": b"\x1f\x8b\x08\x00cut", "water": None, "gone": None}
    rows = []
    for name, data in contents.items():
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        rows.append(Row(name, str(path), None, {}, 1, 1))
    water = "HETATM    1  O   HOH A   1       0.000   0.000   0.000  1.00 10.00           O\n"
    (tmp_path / "water").write_text(water)
    rows.append(Row("folder", str(tmp_path), None, {}, -1, -1))
    found = scanned(rows, models="all")
    assert [row["structure_id"] for row in found] == [row.structure_id for row in rows]
    for row in found:
        check_row(row)
        assert (row["stage"], row["model"]) == ("scan", 1)
        expected = "no_polymer" if row["structure_id"] == "water" else "unreadable"
        assert row["reason"] == expected
    assert found[-2]["message"].endswith("gone: No such file or directory")


def test_names_and_further_columns_survive(scanned, tmp_path):
    path = tmp_path / "tab\there\udce9.pdb"
    path.write_bytes((STRUCTURES / "1ubi.pdb").read_bytes())
    extra = {"count": "007", "odd\udce9": "a\tb\udce9", "empty": "", 'q"': "NA"}
    rows = [Row("id\n\udce9", str(path), None, extra, 1, 1)]
    rows.append(Row("gone", str(tmp_path / "gone\udce9"), 4, extra, -1, -1))
    scored, failed = scanned(rows)
    assert tables.unescape(scored["path"]) == str(path)
    assert (scored["structure_id"], scored["reason"]) == ("id\\n\\xe9", None)
    assert (failed["model"], failed["reason"]) == (4, "unreadable")
    for row in (scored, failed):
        columns = json.loads(row["extra"])
        found = {tables.unescape(key): tables.unescape(text) for key, text in columns.items()}
        assert found == extra
        # They become names and values of Parquet columns, which are UTF-8.
        for text in [*columns, *columns.values()]:
            text.encode("utf-8")


def test_the_same_bytes_each_time(tmp_path):
    rows = [given("1ubi.pdb", kind="x"), given("1ubi_ca.pdb", kind="y")]
    write_manifest(tmp_path / "m.tsv", rows)
    for name in ("a", "b"):
        scan.run(str(tmp_path / "m.tsv"), str(tmp_path / name), "first", Policy())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_notes_are_sorted_and_leave_out_what_is_not_there():
    assert (
        scan.format_notes({"b": 2, "a": 1, "c": 0, "d": "A:3-A:9", "e": ""}) == "a=1 b=2 d=A:3-A:9"
    )
    assert scan.format_notes({}) == ""

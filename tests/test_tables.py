"""Tables: names that survive, files that are whole, and lists that agree with each other."""

import ast
import os
import re
import stat
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tmol_plugin import engine, tables
from tmol_plugin.errors import REASONS, RETRIED, RunError, StructureError

ROOT = Path(__file__).parents[1]

# What a file name or a sheet can hold: any character, and as surrogates the bytes that are
# not UTF-8 (PEP 383). Characters that mean something to `escape` come often.
CHARACTERS = st.characters(exclude_categories=["Cs"])
BYTES_NOT_UTF8 = st.integers(0xDC80, 0xDCFF).map(chr)
TEXT = st.text(CHARACTERS | BYTES_NOT_UTF8 | st.sampled_from(list('\\\t\n\rtnrx4f1"')))


@given(TEXT)
@example("\\x41")
@example("\\xe9")
@example("\\\udce9")
@example("\\\\t\t")
def test_escape_is_undone_and_gives_one_line_of_utf8(text):
    escaped = tables.escape(text)
    assert tables.unescape(escaped) == text
    assert not set("\t\n\r") & set(escaped)
    escaped.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        *(("plain é.pdb", "plain é.pdb"), ("a\tb", r"a\tb"), ("a\nb\r", r"a\nb\r")),
        *(("a\\b", r"a\\b"), ("\\x41", r"\\x41"), ("caf\udce9.pdb", r"caf\xe9.pdb")),
    ],
)
def test_escape_is_as_the_readme_says(text, escaped):
    assert tables.escape(text) == escaped


# Ids that a reader of tables is tempted to take for numbers, nulls, quotes or comments.
ODD_IDS = ["NA", "1e5", "007", "", "nan", "None", "null", "#N/A", '"', 'a"b', '""', "'q'", "#x"]
ODD_IDS += [" a ", "a,b", "é", "TRUE", "-1", "0x1F", "a\\tb", "inf", "2030-11-30"]


def members(ids=ODD_IDS):
    return [
        {"structure_id": name, "path": f"in/{name}", "model": i + 1, "sha256": f"{i:064x}"}
        | {"n_residues": 10 + i, "n_atoms": 2**31 - 1 - i, "batch": i // 4}
        | {"engine_reason": ["", "heavy atoms to rebuild"][i % 2]}
        for i, name in enumerate(ids)
    ]


@pytest.mark.parametrize("form", ["parquet", "tsv"])
def test_odd_ids_come_back_as_they_are(tmp_path, form):
    path, frame = tmp_path / f"m.{form}", tables.MEMBERS.frame(members())
    if form == "tsv":
        tables.write_tsv(path, frame)
        found = tables.read_tsv(path, tables.MEMBERS)
    else:
        tables.write_parquet(path, tables.MEMBERS, frame)
        found = tables.read_parquet(path, tables.MEMBERS)
    assert found.to_dict("records") == members()
    assert list(found.columns) == list(tables.MEMBERS.columns)


@given(names=st.lists(TEXT, max_size=8))
def test_any_name_comes_back_from_both_forms(tmp_path_factory, names):
    rows, folder = members([tables.escape(name) for name in names]), tmp_path_factory.getbasetemp()
    frame = tables.MEMBERS.frame(rows)
    tables.write_tsv(folder / "any.tsv", frame)
    tables.write_parquet(folder / "any.parquet", tables.MEMBERS, frame)
    for found in (
        tables.read_tsv(folder / "any.tsv", tables.MEMBERS),
        tables.read_parquet(folder / "any.parquet", tables.MEMBERS),
    ):
        assert [tables.unescape(name) for name in found["structure_id"]] == names
        assert found.to_dict("records") == rows


def test_a_row_may_lack_values_and_keeps_its_types(tmp_path):
    rows = [{"structure_id": "a", "path": "p", "model": 1, "n_residues": 7}, {"structure_id": "b"}]
    tables.write_parquet(tmp_path / "i", tables.INDEX, tables.INDEX.frame(rows))
    found = tables.read_parquet(tmp_path / "i", tables.INDEX)
    assert found["n_residues"].tolist() == [7, pd.NA]
    assert (str(found["n_residues"].dtype), str(found["reason"].dtype)) == ("Int32", "string")
    assert pq.read_schema(tmp_path / "i").equals(tables.INDEX.schema)
    assert len(tables.INDEX.frame([])) == 0


def test_energies_have_six_decimals_in_tsv(tmp_path):
    row = dict.fromkeys(tables.SCORES.columns, 0) | {"total": -1 / 3, "fa_ljatr": 1234.5}
    row |= {name: "x" for name, (kind, _) in tables.SCORES.columns.items() if kind == "string"}
    tables.write_tsv(tmp_path / "s.tsv", tables.SCORES.frame([row]))
    header, values = (tmp_path / "s.tsv").read_text().splitlines()
    named = dict(zip(header.split("\t"), values.split("\t"), strict=True))
    assert (named["total"], named["fa_ljatr"]) == ("-0.333333", "1234.500000")
    assert (named["n_atoms"], named["notes"]) == ("0", "x")


def test_the_same_rows_give_the_same_bytes(tmp_path):
    frame = tables.MEMBERS.frame(members())
    other = frame[frame.columns[::-1]].set_index(pd.Index(range(5, 5 + len(frame)), name="odd"))
    other = other.astype({"n_atoms": "int64", "structure_id": object})
    for number, one in enumerate((frame, other, frame)):
        tables.write_parquet(tmp_path / f"{number}.parquet", tables.MEMBERS, one)
        tables.write_tsv(tmp_path / f"{number}.tsv", one[list(tables.MEMBERS.columns)])
    for form in ("parquet", "tsv"):
        assert len({(tmp_path / f"{n}.{form}").read_bytes() for n in range(3)}) == 1
    frame.loc[0, "batch"] = 9
    tables.write_parquet(tmp_path / "3.parquet", tables.MEMBERS, frame)
    assert (tmp_path / "3.parquet").read_bytes() != (tmp_path / "0.parquet").read_bytes()


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "new" / "t.txt"

    def fail(temporary):
        Path(temporary).write_text("half of it")
        raise error

    with pytest.raises(type(error)):
        tables.write_atomically(path, fail)
    assert list(path.parent.iterdir()) == []
    tables.write_text(path, "old")
    with pytest.raises(type(error)):
        tables.write_atomically(path, fail)
    assert [p.name for p in path.parent.iterdir()] == ["t.txt"]
    assert path.read_text() == "old"


def test_while_it_is_written_the_old_file_stands(tmp_path):
    path = tmp_path / "t.txt"
    tables.write_text(path, "old")

    def write(temporary):
        assert Path(temporary).parent == tmp_path  # else the rename may cross file systems
        assert path.read_text() == "old"
        Path(temporary).write_text("new")

    tables.write_atomically(path, write)
    assert path.read_text() == "new"
    before = os.umask(0o027)
    try:
        tables.write_text(path, "for the group")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
    finally:
        os.umask(before)


def test_read_parquet_refuses_what_is_not_the_table(tmp_path):
    path, rows = tmp_path / "t.parquet", tables.MEMBERS.frame(members())
    columns = tables.MEMBERS.columns
    for other in (
        {name: columns[name] for name in list(columns)[:-1]},
        columns | {"more": columns["batch"]},
        {name: columns[name] for name in reversed(columns)},
    ):
        frame = rows.assign(more=1)[list(other)]
        tables.write_parquet(path, tables.Table("other", other), frame)
        with pytest.raises(RunError, match=r"t\.parquet: has columns .* a members table has"):
            tables.read_parquet(path, tables.MEMBERS)
    whole = path.read_bytes()
    for data in (b"", b"no parquet", whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(RunError, match=r"t\.parquet: cannot be read as a members table"):
            tables.read_parquet(path, tables.MEMBERS)
    path.unlink()
    with pytest.raises(RunError, match=r"t\.parquet: cannot be read"):
        tables.read_parquet(path, tables.MEMBERS)
    tables.write_tsv(path, rows[["structure_id", "path"]])
    with pytest.raises(RunError, match=r"t\.parquet: has columns"):
        tables.read_tsv(path, tables.MEMBERS)


def test_failure_row():
    row = {"structure_id": "a", "path": "p", "model": 2, "sha256": "not taken"}
    error = StructureError("unreadable", " first\n\n  second\r\nthird \udce9\u2028fourth ")
    found = tables.failure_row(row, "scan", error)
    assert found == {
        **{"structure_id": "a", "path": "p", "model": 2, "stage": "scan", "reason": "unreadable"},
        "message": "first | second | third \\udce9 | fourth",
        "remedy": REASONS["unreadable"],
    }
    assert list(found) == list(tables.FAILURES.columns)
    assert tables.failure_row(row, "scan", StructureError("changed", "m", "do"))["remedy"] == "do"
    with pytest.raises(ValueError, match="not a stage: 'scoring'"):
        tables.failure_row(row, "scoring", error)
    with pytest.raises(ValueError, match="unknown failure reason 'bad_luck'"):
        StructureError("bad_luck", "m")


def reasons_in_the_code() -> set[str]:
    """First arguments of StructureError(...), where they stand as text."""
    found = set()
    for path in (ROOT / "tmol_plugin").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StructureError":
                words = ast.walk(node.args[0])  # `"a" if ... else "b"` names two
                found |= {one.value for one in words if isinstance(one, ast.Constant)}
    return found


def test_reasons_are_those_used_and_documented():
    mapped = {reason for _, reason in engine._EXPLANATIONS}
    assert reasons_in_the_code() | mapped == set(REASONS)
    assert set(REASONS) >= RETRIED
    readme = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    table = readme.partition("## Reasons for failure")[2]
    assert dict(re.findall(r"(?m)^\| `(\w+)` \| (.*) \|$", table)) == REASONS


def test_score_types_are_tmols():
    """Against TMol as installed: an upgrade that adds a score type must not lose its energy."""
    import torch
    from tmol import ParameterDatabase
    from tmol.score import ScoreFunction, ScoreType

    from tmol_plugin.parameters import SCORE_FUNCTIONS, score_function_file

    database, device = ParameterDatabase.get_default(), torch.device("cpu")
    for name in SCORE_FUNCTIONS:
        path = str(score_function_file(name))
        types = ScoreFunction.from_sfxn_file(path, database, device).all_score_types()
        assert tuple(kind.name for kind in types) == tables.SCORE_TYPES, name
    every = {kind.name for kind in ScoreType} - {"n_score_types"}
    # `constraint` is the energy of restraints that a user adds, not of a structure.
    assert {*tables.SCORE_TYPES, "constraint"} == every


def test_digest_does_not_depend_on_order_or_process():
    # printf '{"a":[1,"é"],"b":2}' | sha256sum
    expected = "df9a461ade0c"
    assert tables.digest({"b": 2, "a": [1, "é"]}) == expected
    assert tables.digest({"a": [1, "é"], "b": 3}) != expected
    assert len(tables.digest({}, 16)) == 16

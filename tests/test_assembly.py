"""The tables of a chunk and done.json, written of what a loop finished."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fake_engine import ID, PARAMETERS, SETTINGS, FakeEngine, raising, scored, write_members

from tmol_plugin import provenance, tables
from tmol_plugin.errors import RunError


@pytest.fixture
def members(tmp_path):
    return partial(write_members, tmp_path)


def test_done_vouches_for_what_is_written(members, tmp_path):
    engine, rows = FakeEngine(), members(4, batches=[0, 0, 1, 1])
    engine.not_finite["b"] = (0, np.nan)
    made = scored(engine, rows)
    folder = tmp_path / "chunks" / ID
    made.write(folder)
    done = json.loads((folder / "done.json").read_text())
    names = {table.name for table in tables.CHUNK_TABLES}
    assert {p.name for p in folder.iterdir()} == {"done.json", *(f"{n}.parquet" for n in names)}
    frames = {
        table.name: tables.read_parquet(folder / f"{table.name}.parquet", table)
        for table in tables.CHUNK_TABLES
    }
    assert done["rows"] == {name: len(frame) for name, frame in frames.items()}
    assert done["rows"] == {"memory": 2, "timing": 1, "failures": 1} | dict.fromkeys(
        ("scores", "scores_unweighted"), 3
    )
    hashes = {name: tables.file_sha256(folder / f"{name}.parquet") for name in names}
    assert (done["sha256"], done["chunk"]) == (hashes, ID)
    assert done["fingerprint"] == provenance.fingerprint(SETTINGS, PARAMETERS.id)
    for row, found in zip(made.rows["scores"], frames["scores"].to_dict("records"), strict=True):
        assert found == row
    timing = frames["timing"].iloc[0]
    assert (timing["chunk"], timing["n_scored"], timing["n_failed"]) == (ID, 3, 1)


@pytest.mark.parametrize(
    ("error", "retry"),
    [(None, False), (MemoryError(), True), (ValueError("odd"), False), ("file", True)],
)
def test_done_says_whether_another_try_may_help(members, tmp_path, error, retry):
    rows = members(2)
    if error == "file":
        Path(rows["path"][0]).unlink()
        error = None
    fault = raising(error, lambda names: "a" in names) if error else None
    scored(FakeEngine(on_score=fault), rows).write(tmp_path / ID)
    assert json.loads((tmp_path / ID / "done.json").read_text())["retry"] is retry


def test_rows_are_in_the_order_of_the_members_whatever_was_finished_first(members, tmp_path):
    rows = members(6, batches=[1, 0, 1, 0, 2, 2])
    made = scored(FakeEngine(), rows, wants_residues=True)
    made.write(tmp_path / "a" / ID)
    other = scored(FakeEngine(), rows, wants_residues=True, alone=[("in/f", 1), ("in/c", 1)])
    assert other.steps[:4] == [
        *(("begin", ["c"]), ("finish", ["c"])),
        *(("begin", ["f"]), ("finish", ["f"])),
    ]
    other.write(tmp_path / "b" / ID)
    for name in ("scores", "scores_unweighted", "failures", "per_residue"):
        first, second = (tmp_path / x / ID / f"{name}.parquet" for x in "ab")
        assert first.read_bytes() == second.read_bytes(), name
    scores = tables.read_parquet(tmp_path / "a" / ID / "scores.parquet", tables.SCORES)
    assert "".join(Path(path).stem for path in scores["path"]) == "bdacef"


def test_a_leak_of_any_process_is_in_the_timing(members, tmp_path):
    made = scored(FakeEngine(), members(1))
    floors = {1: [10**9] * 30, 2: [10**9 + 10**7 * batch for batch in range(30)]}
    made.rows["memory"] = [
        {"chunk": ID, "process": process, "batch": batch, "floor_bytes": floor}
        for process, of_process in floors.items()
        for batch, floor in enumerate(of_process)
    ]
    made.write(tmp_path / ID)
    timing = tables.read_parquet(tmp_path / ID / "timing.parquet", tables.TIMING)
    assert timing["floor_rise_bytes"].tolist() == [pytest.approx(10**7, rel=0.01)]


@pytest.mark.parametrize("change", ["lost", "stranger"])
def test_what_is_not_the_chunks_is_refused(members, tmp_path, change):
    rows = members(3)
    made = scored(FakeEngine(), rows)
    if change == "lost":
        made.rows["scores"].pop()
        made.rows["scores_unweighted"].pop()
    else:
        made.members = rows[:2]
    with pytest.raises(RunError, match=r"1 structures .*in/c"):
        made.write(tmp_path / ID)
    assert not (tmp_path / ID / "done.json").exists()


def test_an_interrupted_write_leaves_nothing_that_vouches(members, tmp_path, monkeypatch):
    made = scored(FakeEngine(), members(2))
    made.write(tmp_path / ID)

    def disk_full(path, table, frame):
        raise OSError("disk full")

    monkeypatch.setattr(tables, "write_parquet", disk_full)
    with pytest.raises(OSError, match="disk full"):
        made.write(tmp_path / ID)
    assert not (tmp_path / ID / "done.json").exists()

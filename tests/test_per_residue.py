"""The table of residues' energies: a chunk's rows, in the scores' order, and the merge of them."""

import json

import numpy as np
import pandas as pd
import pytest
from fake_engine import ID, FakeEngine, failed, names_of, raising, scored
from fake_engine import write_members as members
from test_merge import CONFIG, INPUT, Run, refused

from tmol_plugin import per_residue, tables
from tmol_plugin.engine import Residues
from tmol_plugin.errors import RunError

NAMES = ("structure_id", "model", "chain", "residue_number", "residue_name", "block_type")


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_each_residue_of_each_score_has_its_row(tmp_path, monkeypatch, reads_ahead):
    monkeypatch.setattr(FakeEngine, "reads_ahead", reads_ahead)
    engine = FakeEngine()
    engine.not_finite["b"] = (0, np.nan)
    made = scored(engine, members(tmp_path, 5, batches=[1, 0, 1, 0, 2]), wants_residues=True)
    made.write(tmp_path / ID)
    assert failed(made) == {"b": ("score", "not_finite")}
    rows = tables.read_parquet(tmp_path / ID / per_residue.FILE, tables.PER_RESIDUE)
    scores = pd.DataFrame(made.rows["scores"])
    assert names_of(made.rows["scores"]) == ["d", "a", "c", "e"]
    expected = [
        (f"in/{name}", 1, "A", str(n), f"{name}{n}", f"{name}{n}:x")
        for name in "dace"
        for n in range(1, ord(name) - ord("a") + 3)
    ]
    assert list(rows[list(NAMES)].itertuples(index=False, name=None)) == expected
    # 32 bits hold 1e-7 of a value; sums of up to seven of them.
    sums = rows.groupby("structure_id", sort=False)[["total", *tables.SCORE_TYPES]].sum()
    assert np.allclose(sums, scores[["total", *tables.SCORE_TYPES]], rtol=1e-6)
    last = rows[rows["structure_id"] == "in/e"]["fa_ljatr"].to_numpy()
    assert np.allclose(last / last[0], np.arange(1, 7), rtol=1e-6)
    done = json.loads((tmp_path / ID / "done.json").read_text())
    assert done["rows"]["per_residue"] == len(rows) == 5 + 2 + 4 + 6
    sha256 = tables.file_sha256(tmp_path / ID / per_residue.FILE)
    assert done["sha256"]["per_residue"] == sha256


def test_a_chunk_without_it_leaves_none_behind(tmp_path):
    rows = members(tmp_path, 2)
    scored(FakeEngine(), rows, wants_residues=True).write(tmp_path / ID)
    assert (tmp_path / ID / per_residue.FILE).exists()
    scored(FakeEngine(), rows).write(tmp_path / ID)
    assert not (tmp_path / ID / per_residue.FILE).exists()
    done = json.loads((tmp_path / ID / "done.json").read_text())
    assert "per_residue" not in {*done["rows"], *done["sha256"]}


def test_a_chunk_of_failures_has_an_empty_one(tmp_path):
    engine = FakeEngine(on_score=raising(ValueError("odd"), lambda names: True))
    scored(engine, members(tmp_path, 2), wants_residues=True).write(tmp_path / ID)
    rows = tables.read_parquet(tmp_path / ID / per_residue.FILE, tables.PER_RESIDUE)
    assert len(rows) == 0


@pytest.mark.parametrize(
    ("error", "reason"), [(ValueError("odd"), "engine_error"), (MemoryError(), "too_large")]
)
def test_residues_that_cannot_be_scored_cost_no_other_structure(tmp_path, error, reason):
    engine = FakeEngine(on_residues=raising(error, lambda names: names == ["c"]))
    made = scored(engine, members(tmp_path, 5), wants_residues=True)
    assert failed(made) == {"c": ("score", reason)}
    assert names_of(made.rows["scores"]) == ["a", "b", "d", "e"]
    found = per_residue.joined(made.residues)["structure_id"].to_pylist()
    assert list(dict.fromkeys(found)) == ["in/a", "in/b", "in/d", "in/e"]


class RunWithResidues(Run):
    """Structures of two residues, whose energies tell them apart."""

    def _write_chunk(self, chunk):
        super()._write_chunk(chunk)
        folder = self.chunk_folder(chunk)
        scores = tables.read_parquet(folder / "scores.parquet", tables.SCORES)
        self.change(chunk, tables.SCORES, lambda frame: frame.assign(n_residues=2))
        parts = [
            per_residue.rows_of(
                {"structure_id": row.structure_id, "model": row.model},
                Residues("AA", ["1", "2A"], ["GLY"] * 2, ["GLY"] * 2, np.outer([1, 3], row.total)),
                ["fa_elec"],
                np.array([0.25]),
            )
            for row in scores.itertuples()
        ]
        tables.write_parquet(
            folder / per_residue.FILE, tables.PER_RESIDUE, per_residue.joined(parts)
        )
        done = json.loads((folder / "done.json").read_text())
        done["sha256"]["per_residue"] = tables.file_sha256(folder / per_residue.FILE)
        tables.write_json(folder / "done.json", done)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    CONFIG["outputs"]["per_residue"] = True
    try:
        yield RunWithResidues(tmp_path_factory.mktemp("residues"), INPUT)
    finally:
        CONFIG["outputs"]["per_residue"] = False


@pytest.fixture
def run(whole, tmp_path):
    return whole.copy(tmp_path / "run")


def test_chunks_are_merged_one_after_the_other(run):
    _, out = run.merge()
    rows = tables.read_parquet(out / per_residue.FILE, tables.PER_RESIDUE)
    scores = pd.read_parquet(out / "scores.parquet").set_index(["structure_id", "model"])
    parts = [pd.read_parquet(run.chunk_folder(chunk) / per_residue.FILE) for chunk in run.chunks]
    assert rows.astype(object).equals(pd.concat(parts, ignore_index=True).astype(object))
    assert len(rows) == 2 * len(scores)
    totals = rows.groupby(["structure_id", "model"])["total"].sum().reindex(scores.index)
    assert np.allclose(totals, scores["total"])
    assert rows["residue_number"].tolist() == ["1", "2A"] * len(scores)


def test_a_table_of_a_run_before_does_not_stay(run):
    _, out = run.merge()
    described = json.loads((run.plan / "run.json").read_text())
    described["config"]["outputs"]["per_residue"] = False
    tables.write_json(run.plan / "run.json", described)
    run.merge()
    assert not (out / per_residue.FILE).exists()
    assert (out / "scores.parquet").exists()


def test_a_chunk_without_the_table_is_refused(run):
    (run.chunk_folder(run.chunks[0]) / per_residue.FILE).unlink()
    refused(run, f"chunk {run.chunks[0]}: ", per_residue.FILE, "run again")


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.iloc[:-1],
        lambda frame: pd.concat([frame, frame.iloc[:1]]),
        lambda frame: frame.iloc[::-1],
        lambda frame: frame.assign(model=7),
    ],
)
def test_rows_that_are_not_the_scores_residues_are_refused(run, change):
    chunk = run.chunk_with("ensemble")
    run.change(chunk, tables.PER_RESIDUE, change)
    with pytest.raises(RunError, match=rf"chunk {chunk}: .*not hold the residues of its scores"):
        run.merge()
    assert list((run.folder / "results").iterdir()) == []

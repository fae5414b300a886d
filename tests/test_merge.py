"""The merge of a small run made by the project's own writers, whole and tampered with.

Scan, plan and chunks are written as in a run; only the energies are made up, a function of
the row, so that a value under the wrong row is seen.
"""

import copy
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from fake_engine import Scored

from tmol_plugin import merge, plan, tables
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.inputs import Row, write_manifest
from tmol_plugin.parameters import Parameters

CONFIG = yaml.safe_load((Path(__file__).parents[1] / "config" / "config.yaml").read_text())
CONFIG["memory"]["device_gib"] = 8
CONFIG["chunk"]["max_structures"] = 2
PARAMETERS = Parameters({}, {"score_function": "beta2016", "residues": [], "failed": {}})

# The input, in an order that no sorting gives: (id, models, how the scan and the scoring end).
INPUT = [
    *(("zeta", [1], "scored"), ("ensemble", [1, 2, 10, 3], "scored"), ("broken", [1], "scan")),
    *(("alpha", [1], "chunk"), ("tab\there\udce9", [1], "scored"), ("1e5", [1], "scored")),
    *(("NA", [1], "scored"), ("007", [1], "scored"), ("beta", [4], "scored")),
]


def energy(structure_id, model):
    return float(sum(map(ord, structure_id)) + model / 100)


class Run:
    """A run's files below a folder, up to the merge."""

    def __init__(self, folder, inputs):
        self._settle(folder)
        self.inputs = inputs
        rows = []
        for i, (name, models, _) in enumerate(inputs):
            model = models[0] if models == [4] else None  # the sheet names this one
            extra = {"family": f"0{i}", "odd name": f"x\t{name}"}
            rows.append(Row(name, f"in/{name}.pdb", model, extra, 1, 1))
        write_manifest(self.manifest, rows)
        self._write_index(rows)
        self._write_plan()
        for chunk in self.chunks:
            self._write_chunk(chunk)

    def _settle(self, folder):
        self.folder, self.manifest, self.plan = folder, folder / "manifest.tsv", folder / "plan"
        self.index = [str(folder / f"{shard}.parquet") for shard in "ab"]

    def copy(self, folder):
        """The same run in another folder, which does not exist yet."""
        shutil.copytree(self.folder, folder)
        other = copy.copy(self)
        other._settle(folder)
        return other

    def _write_index(self, rows):
        index = []
        for row, (name, models, end) in zip(rows, self.inputs, strict=True):
            for model in models:
                key = {"structure_id": tables.escape(name), "path": tables.escape(row.path)}
                key |= {"model": model, "sha256": f"{len(index):064x}"}
                extra = {column: tables.escape(value) for column, value in row.extra.items()}
                key["extra"] = json.dumps(extra)
                if end == "scan":
                    key |= tables.failure_row(key, "scan", StructureError("unreadable", "empty"))
                else:
                    key |= {"n_residues": 5, "n_atoms": 80, "chemistry": "protein"}
                index.append(key)
        # Shards hold what their hash gives them: here every other row, the last first.
        for path, part in zip(self.index, (index[::-2], index[-2::-2]), strict=True):
            tables.write_parquet(path, tables.INDEX, tables.INDEX.frame(part))

    def _write_plan(self):
        PARAMETERS.save(self.folder / "parameters.safetensors")
        plan.run(self.index, self.folder / "parameters.safetensors", CONFIG, self.plan)
        self.chunks = tables.read_tsv(self.plan / "chunks.tsv", tables.CHUNKS)["chunk"].tolist()

    def _write_chunk(self, chunk):
        made = Scored(None, False)
        made.plan = json.loads((self.plan / "run.json").read_text())
        ends = {tables.escape(name): end for name, _, end in self.inputs}
        made.members = tables.read_tsv(self.plan / "members" / f"{chunk}.tsv", tables.MEMBERS)
        for row in made.members.to_dict("records"):
            if ends[row["structure_id"]] == "chunk":
                error = StructureError("not_finite", "fa_elec not finite")
                made.rows["failures"].append(tables.failure_row(row, "score", error))
                continue
            value = energy(row["structure_id"], row["model"])
            common = {key: row[key] for key in ("structure_id", "path", "model")}
            common |= {"chunk": chunk, "total": value}
            made.rows["scores"].append(common | {"fa_elec": value})
            made.rows["scores_unweighted"].append(common | {"fa_elec": 2 * value})
        made.rows["memory"].append({"chunk": chunk, "batch": 0, "split": 0, "outcome": "scored"})
        made.write(self.chunk_folder(chunk))

    def chunk_folder(self, chunk):
        return self.folder / "chunks" / chunk

    def chunk_with(self, structure_id):
        for chunk in self.chunks:
            members = tables.read_tsv(self.plan / "members" / f"{chunk}.tsv", tables.MEMBERS)
            if structure_id in set(members["structure_id"]):
                return chunk
        raise KeyError(structure_id)

    def change(self, chunk, table, change):
        """Rewrite a chunk's table by change(frame), and let done.json vouch for it."""
        folder = self.chunk_folder(chunk)
        path = folder / f"{table.name}.parquet"
        tables.write_parquet(path, table, change(tables.read_parquet(path, table)))
        done = json.loads((folder / "done.json").read_text())
        done["sha256"][table.name] = tables.file_sha256(path)
        tables.write_json(folder / "done.json", done)

    def merge(self, output="results"):
        out = self.folder / output
        chunks = str(self.folder / "chunks")
        merge.run(str(self.manifest), self.index, str(self.plan), chunks, str(out))
        return json.loads((out / "run.json").read_text())["counts"], out


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("whole"), INPUT)


@pytest.fixture
def run(whole, tmp_path):
    return whole.copy(tmp_path / "run")


def keys(frame):
    ids = map(tables.unescape, frame["structure_id"])
    return list(zip(ids, frame["model"], strict=True))


def expected_keys(inputs, *ends):
    """In the order of the input, a file's models by number."""
    return [(name, m) for name, models, end in inputs if end in ends for m in sorted(models)]


def test_rows_stand_in_the_order_of_the_input_with_their_values(run):
    assert len(run.chunks) > 2
    counts, out = run.merge()
    assert counts == {"scored": 10, "failed": 2}
    for name, factor in (("scores", 1), ("scores_unweighted", 2)):
        for form in ("parquet", "tsv"):
            path = out / f"{name}.{form}"
            if form == "parquet":
                frame = pd.read_parquet(path)
            else:
                frame = pd.read_csv(path, sep="\t", keep_default_na=False, dtype=str)
                frame = frame.astype({"model": int, "total": float, "fa_elec": float})
            assert keys(frame) == expected_keys(INPUT, "scored")
            values = [energy(*key) for key in zip(frame["structure_id"], frame["model"])]
            # TSV has six decimals, the energies two.
            assert frame["total"].tolist() == pytest.approx(values, abs=1e-6)
            assert frame["fa_elec"].tolist() == pytest.approx([factor * v for v in values])
            numbers = {name: f"0{i}" for i, (name, _, _) in enumerate(INPUT)}
            assert frame["family"].tolist() == [numbers[name] for name, _ in keys(frame)]
            assert frame["odd name"].tolist() == [f"x\\t{name}" for name in frame["structure_id"]]
            paths = [tables.escape(f"in/{name}.pdb") for name, _ in keys(frame)]
            assert frame["path"].tolist() == paths
            assert list(frame.columns) == [*tables.SCORES.columns, "family", "odd name"]
    failures = pd.read_parquet(out / "failures.parquet")
    assert keys(failures) == expected_keys(INPUT, "scan", "chunk")
    assert failures["stage"].tolist() == ["scan", "score"]
    assert failures["reason"].tolist() == ["unreadable", "not_finite"]
    assert failures["family"].tolist() == ["02", "03"]


def test_memory_timing_and_description(run):
    counts, out = run.merge()
    memory = tables.read_parquet(out / "memory.parquet", tables.MEMORY)
    timing = tables.read_parquet(out / "timing.parquet", tables.TIMING)
    assert memory["chunk"].tolist() == timing["chunk"].tolist() == sorted(run.chunks)
    assert timing["n_scored"].sum() == counts["scored"]
    described = json.loads((out / "run.json").read_text())
    planned = json.loads((run.plan / "run.json").read_text())
    assert described["counts"] == counts
    assert (described["devices"], len(described["machines"])) == (["cpu"], 1)
    assert {key: described[key] for key in planned} == planned


def test_the_same_bytes_each_time(run):
    run.merge("first")
    run.index.reverse()
    run.merge("second")
    first, second = (run.folder / name for name in ("first", "second"))
    names = sorted(path.name for path in first.iterdir())
    forms = [f"{table.name}.{form}" for table in tables.CHUNK_TABLES for form in ("parquet", "tsv")]
    assert names == sorted([*forms, "run.json"])
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_a_file_that_moved_keeps_its_score_at_its_new_path(run):
    for path in run.index:
        frame = tables.read_parquet(path, tables.INDEX)
        frame["path"] = "new/" + frame["path"]
        tables.write_parquet(path, tables.INDEX, frame)
    _, out = run.merge()
    scores = tables.read_tsv(out / "failures.tsv", extended(tables.FAILURES))
    assert scores["path"].tolist() == ["new/in/broken.pdb", "new/in/alpha.pdb"]
    assert pd.read_parquet(out / "scores.parquet")["path"].str.startswith("new/in/").all()


def extended(table):
    text = table.columns["path"]
    return tables.Table(table.name, table.columns | {"family": text, "odd name": text})


@pytest.mark.parametrize("ends", [["scan"], ["scored"]])
def test_all_failed_or_none(tmp_path, ends):
    inputs = [(name, models, ends[0]) for name, models, _ in INPUT]
    run = Run(tmp_path, inputs)
    counts, out = run.merge()
    n = len(expected_keys(inputs, *ends))
    assert (len(run.chunks) == 0, counts) == (
        ends == ["scan"],
        {"scored": 0, "failed": n} if ends == ["scan"] else {"scored": n, "failed": 0},
    )
    for table in tables.CHUNK_TABLES:
        frame = pd.read_parquet(out / f"{table.name}.parquet")
        lines = (out / f"{table.name}.tsv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(frame) + 1
        assert lines[0].split("\t") == list(frame.columns)
        assert list(frame.columns)[: len(table.columns)] == list(table.columns)


def without(structure_id):
    return lambda frame: frame[frame["structure_id"] != structure_id]


def refused(run, *words):
    with pytest.raises(RunError) as error:
        run.merge()
    for word in words:
        assert word in str(error.value)
    assert "np." not in str(error.value)  # numbers as people write them
    assert not (run.folder / "results").exists()


def test_a_chunk_without_done_is_refused(run):
    (run.chunk_folder(run.chunks[1]) / "done.json").unlink()
    refused(run, f"chunk {run.chunks[1]}: ", "done.json", "run again")


def test_a_chunk_that_is_not_there_is_refused(run):
    shutil.rmtree(run.chunk_folder(run.chunks[1]))
    refused(run, f"chunk {run.chunks[1]}: ", "done.json")


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]", b"null", b'{"sha256": {}}'])
def test_a_done_that_is_none_is_refused(run, data):
    (run.chunk_folder(run.chunks[1]) / "done.json").write_bytes(data)
    refused(run, f"chunk {run.chunks[1]}: ")


@pytest.mark.parametrize("key", ["fingerprint", "machine"])
def test_a_done_that_lacks_something_is_refused(run, key):
    path = run.chunk_folder(run.chunks[1]) / "done.json"
    done = json.loads(path.read_text())
    del done[key]
    tables.write_json(path, done)
    refused(run, run.chunks[1], key)


@pytest.mark.parametrize("table", tables.CHUNK_TABLES)
def test_a_table_that_was_altered_or_removed_is_refused(run, table):
    path = run.chunk_folder(run.chunks[0]) / f"{table.name}.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(run, f"chunk {run.chunks[0]}: ", f"{table.name}.parquet is not the file")
    path.unlink()
    refused(run, f"chunk {run.chunks[0]}: ", f"{table.name}.parquet")


def test_another_fingerprint_is_refused(run):
    path = run.chunk_folder(run.chunks[2]) / "done.json"
    done = json.loads(path.read_text())
    tables.write_json(path, done | {"fingerprint": "f" * 16})
    refused(run, run.chunks[2], "other versions, settings or parameters")
    with pytest.raises(RunError) as error:
        run.merge()
    assert run.chunks[1] not in str(error.value)


def test_a_chunk_under_another_name_is_refused(run):
    first, second = map(run.chunk_folder, run.chunks[:2])
    shutil.rmtree(second)
    shutil.copytree(first, second)
    refused(run, f"chunk {run.chunks[1]}: ", f"that of chunk {run.chunks[0]}")


def test_a_row_in_scores_and_failures_is_refused(run):
    row = {"structure_id": "zeta", "path": "in/zeta.pdb", "model": 1}
    row = tables.failure_row(row, "score", StructureError("not_finite", "m"))
    added = tables.FAILURES.frame([row])
    run.change(run.chunks[0], tables.FAILURES, lambda frame: pd.concat([frame, added]))
    refused(run, "'zeta'", "1", "more than once")


def test_a_row_in_neither_is_refused(run):
    chunk = run.chunk_with("zeta")
    run.change(chunk, tables.SCORES, without("zeta"))
    run.change(chunk, tables.SCORES_UNWEIGHTED, without("zeta"))
    refused(run, "1 rows are astray", "'zeta'", "1", "the input only")


def test_an_unknown_row_is_refused(run):
    def add(frame):
        return pd.concat([frame, frame.iloc[:1].assign(structure_id="stranger", model=7)])

    for table in (tables.SCORES, tables.SCORES_UNWEIGHTED):
        run.change(run.chunks[0], table, add)
    refused(run, "'stranger'", "7", "the results only")


def test_scores_without_their_unweighted_are_refused(run):
    run.change(run.chunk_with("zeta"), tables.SCORES_UNWEIGHTED, without("zeta"))
    refused(run, "scores and scores_unweighted hold different rows")


def test_an_index_that_is_not_of_the_input_is_refused(run):
    frames = [tables.read_parquet(path, tables.INDEX) for path in run.index]
    for number, frame in enumerate(frames):
        if "broken" in set(frame["structure_id"]):
            lacking, path = without("broken")(frame), run.index[number]
            stranger = frame.replace({"structure_id": {"broken": "stranger"}})
    tables.write_parquet(path, tables.INDEX, lacking)
    refused(run, "the index lacks 1 inputs, first 'broken'", "scan again")
    tables.write_parquet(path, tables.INDEX, stranger)
    refused(run, "the index holds 'stranger'", "scan again")
    for path, frame in zip(run.index, frames, strict=True):
        tables.write_parquet(path, tables.INDEX, frame)
    run.index.append(run.index[0])
    refused(run, "in the input more than once")

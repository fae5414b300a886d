"""The stage that scores a chunk: workers that die, in every way, and what is left of the chunk.

The workers are real processes with the native engine, which crash as they are told to
(faulty_worker.py). What is scored must be the same bits as where nothing happens.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_engine import SETTINGS, write_members

from tmol_plugin import chunk, tables
from tmol_plugin.errors import RunError

ID = "ba9876543210"
BATCHES = [0, 0, 0, 1, 1, 1, 2, 2]  # of a to h
OFTEN = 99
MORE = "'first', 'third', 'fourth'"


class Made:
    """A planned chunk of pieces of ubiquitin, and runs of it."""

    def __init__(self, folder, compiled, n=8, batches=BATCHES):
        self.folder = folder / "chunks" / ID
        self.members = write_members(folder, n, batches).assign(engine_reason="")
        self.plan = {"parameters_id": compiled.id, "settings": SETTINGS | {"seed": 1}}
        self.plan["config"] = {"device": "cpu", "memory": {"model": ""}}
        self.plan["config"]["outputs"] = {"per_residue": False}
        self.log = folder / "scored.txt"
        compiled.save(folder / "parameters.safetensors")
        tables.write_tsv(folder / "m.tsv", self.members)
        tables.write_json(folder / "run.json", self.plan)
        names = ("m.tsv", "run.json", "parameters.safetensors")
        self.files = [*(str(folder / name) for name in names), str(self.folder)]

    def run(self, monkeypatch, faults=None, started_at=None, **told):
        """Score the chunk; `faults` is {name: (moment, what happens, how often)}."""
        told |= {"faults": faults or {}, "log": str(self.log)}
        monkeypatch.setenv("FAULTS", json.dumps(told))
        worker = Path(__file__).with_name("faulty_worker.py")
        monkeypatch.setattr(chunk, "WORKER", [sys.executable, str(worker)])
        chunk.run(*self.files, device=None, threads=1, started_at=started_at or time.time())

    def table(self, table):
        return tables.read_parquet(self.folder / f"{table.name}.parquet", table)

    def scores(self):
        frame = self.table(tables.SCORES).set_index("structure_id")
        return {Path(name).stem: tuple(row) for name, row in frame.iterrows()}

    def failures(self):
        rows = self.table(tables.FAILURES).to_dict("records")
        return {Path(r["path"]).stem: (r["stage"], r["reason"], r["message"]) for r in rows}

    def batches(self):
        """Names of the structures of each batch that was scored, in order."""
        return [line.split() for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="module")
def undisturbed(compiled, tmp_path_factory):
    """A chunk whose worker met nothing."""
    made = Made(tmp_path_factory.mktemp("undisturbed"), compiled)
    with pytest.MonkeyPatch.context() as monkeypatch:
        made.run(monkeypatch)
    return made


@pytest.fixture
def made(compiled, tmp_path):
    return Made(tmp_path, compiled)


def check_scores(made, undisturbed, without=""):
    expected = undisturbed.scores()
    found = made.scores()
    assert list(found) == [name for name in expected if name not in without]
    for name, row in found.items():
        same = [(a, b) for a, b in zip(row, expected[name], strict=True) if a != b]
        assert all(".pdb" in str(a) for a, _ in same), same  # but for the path
    assert sorted(made.failures()) == sorted(without)
    assert not (made.folder / "parts").exists()


def test_nothing_happens(undisturbed):
    assert undisturbed.batches() == [list("abc"), list("def"), list("gh")]
    assert list(undisturbed.scores()) == list("abcdefgh")
    timing = undisturbed.table(tables.TIMING).iloc[0]
    assert (timing["n_processes"], timing["n_scored"], timing["n_failed"]) == (1, 8, 0)
    assert (timing["engine"], timing["device"]) == ("native", "cpu")


@pytest.mark.parametrize("moment", ["prepare", "score"])
@pytest.mark.parametrize("what", ["abort", "segmentation fault", "exit", "CUDA error"])
def test_the_structure_that_ends_the_process_is_found(made, undisturbed, monkeypatch, moment, what):
    made.run(monkeypatch, {"e": (moment, what, OFTEN)})
    check_scores(made, undisturbed, without="e")
    stage, reason, message = made.failures()["e"]
    assert (stage, reason) == ("score", "device_fault")
    words = {"abort": "SIGABRT", "segmentation fault": "SIGSEGV", "exit": "exit code 3"}
    assert message.startswith(made.members["path"][4])
    assert words.get(what, "illegal memory access") in message
    if moment == "score":  # else the batch before may be in hand too
        scored = [name for batch in made.batches() for name in batch]
        assert sorted(scored) == list("abcdfgh")  # each once: no finished batch again
        assert made.batches()[0] == list("abc")
    # One that met it in its batch, two that met it alone, one for the rest.
    assert made.table(tables.TIMING)["n_processes"][0] == 4
    assert json.loads((made.folder / "done.json").read_text())["retry"]


def test_several_that_end_the_process(made, undisturbed, monkeypatch):
    faults = {"a": ("score", "abort", OFTEN), "b": ("prepare", "abort", OFTEN)}
    made.run(monkeypatch, faults | {"h": ("score", "CUDA error", OFTEN)})
    check_scores(made, undisturbed, without="abh")


@pytest.mark.parametrize("what", ["abort", "kill", "CUDA error"])
def test_what_happens_once_costs_no_score(made, undisturbed, monkeypatch, what):
    made.run(monkeypatch, {"d": ("score", what, 1), "g": ("prepare", what, 1)})
    check_scores(made, undisturbed)


def test_one_that_is_killed_again_and_again_is_too_large(made, undisturbed, monkeypatch):
    made.run(monkeypatch, {"e": ("score", "kill", OFTEN), "b": ("score", "kill", 2)})
    check_scores(made, undisturbed, without="e")
    stage, reason, message = made.failures()["e"]
    assert (stage, reason, "SIGKILL" in message) == ("score", "too_large", True)


def test_a_worker_that_is_told_to_stop_has_no_successor(made, undisturbed, monkeypatch):
    with pytest.raises(RunError, match="SIGTERM"):
        made.run(monkeypatch, {"e": ("score", "terminate", OFTEN)})
    assert not (made.folder / "done.json").exists()
    made.run(monkeypatch)
    check_scores(made, undisturbed)
    assert made.batches() == [list("abc"), list("def"), list("gh")]


def test_a_device_that_fails_with_everything_blames_no_structure(made, undisturbed, monkeypatch):
    faults = dict.fromkeys("bcdefgh", ("score", "CUDA error", OFTEN))
    with pytest.raises(RunError, match=r"6 structures .*illegal memory.*device"):
        made.run(monkeypatch, faults)
    assert not (made.folder / "done.json").exists()
    made.run(monkeypatch)  # on another device, say
    check_scores(made, undisturbed)


def test_workers_that_never_begin_end_the_chunk(made, monkeypatch):
    with pytest.raises(RunError, match="3 processes ended with signal SIGSEGV before they began"):
        made.run(monkeypatch, start="segmentation fault")


def test_memory_that_runs_out_is_met_by_halves(made, undisturbed, monkeypatch):
    """Every structure is scored once, splits are rows, and what never fits is too large."""
    sizes = undisturbed.table(tables.SCORES)["n_atoms"].to_numpy(int)
    most = int(sizes[6])  # g fits, h does not
    assert sizes[1:3].sum() <= most < min(sizes[:3].sum(), sizes[4:6].sum())
    made.run(monkeypatch, oom_above=most)
    check_scores(made, undisturbed, without="h")
    assert made.failures()["h"][1] == "too_large"
    rows = made.table(tables.MEMORY)[["batch", "split", "n_structures", "outcome"]]
    assert [tuple(row) for row in rows.itertuples(index=False)] == [
        *((0, 0, 3, "too_large"), (0, 1, 1, "scored"), (0, 1, 2, "scored")),
        *((1, 0, 3, "too_large"), (1, 1, 1, "scored"), (1, 1, 2, "too_large")),
        *((1, 2, 1, "scored"), (1, 2, 1, "scored")),
        *((2, 0, 2, "too_large"), (2, 1, 1, "scored"), (2, 1, 1, "too_large")),
    ]
    scored = [name for batch in made.batches() for name in batch]
    assert sorted(scored) == list("abcdefg")


PROCESS = """
import logging, sys
from tmol_plugin import chunk
logging.basicConfig(level=logging.INFO)
chunk.WORKER = [sys.executable, {worker!r}]
chunk.run(*{files!r}, device=None, threads=1, started_at=0)
"""


def start_process(made, monkeypatch, **faults):
    """The stage in a process of its own."""
    monkeypatch.setenv("FAULTS", json.dumps({"faults": faults, "log": str(made.log)}))
    worker = str(Path(__file__).with_name("faulty_worker.py"))
    code = PROCESS.format(worker=worker, files=made.files)
    return subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)


def test_a_killed_run_goes_on_after_its_last_finished_batch(made, undisturbed, monkeypatch):
    killed = start_process(made, monkeypatch, e=("score", "kill supervisor", 1))
    killed.communicate()
    assert killed.returncode == -9
    assert made.batches() == [list("abc")]
    made.run(monkeypatch)
    check_scores(made, undisturbed)
    assert made.batches() == [list("abc"), list("def"), list("gh")]
    assert made.table(tables.TIMING)["n_processes"][0] == 2


def test_what_is_finished_needs_no_worker(made, undisturbed, monkeypatch):
    """As where the disk was full when the tables were written."""
    with monkeypatch.context() as patch:
        patch.setattr(tables, "write_parquet", lambda *_: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            made.run(patch)
    made.run(monkeypatch, start="abort")
    check_scores(made, undisturbed)


def test_parts_of_other_settings_do_not_count(made, undisturbed, monkeypatch):
    plan = Path(made.files[1])
    with pytest.raises(RunError):
        made.run(monkeypatch, {"e": ("score", "terminate", OFTEN)})
    changed = made.plan | {"settings": made.plan["settings"] | {"seed": 2}}
    tables.write_json(plan, changed)
    made.run(monkeypatch)
    assert [len(batch) for batch in made.batches()] == [3, 3, 3, 2]
    check_scores(made, undisturbed)


@pytest.mark.parametrize("finished", [True, False])
def test_a_second_process_waits_for_the_first(made, undisturbed, monkeypatch, finished):
    (made.folder / "parts").mkdir(parents=True)
    with chunk._claimed(made.folder / "parts") as waited:
        assert not waited
        second = start_process(made, monkeypatch)
        assert "another process is at chunk" in second.stderr.readline()
        assert not made.log.exists()
        if finished:  # as the first leaves it
            (made.folder / "done.json").write_text("{}")
    second.communicate()
    assert second.returncode == 0
    if finished:
        assert not made.log.exists()
        assert [path.name for path in made.folder.iterdir()] == ["done.json"]
    else:
        check_scores(made, undisturbed)


def test_memory_does_not_grow_with_the_batches(made, monkeypatch):
    """Live and resident memory after the 200th of 200 equal batches, against the 5th."""
    (row,) = made.members[7:].to_dict("records")
    rows = [
        row | {"structure_id": f"copy {batch} {i}", "batch": batch}
        for batch in range(200)
        for i in range(4)
    ]
    tables.write_tsv(Path(made.files[0]), tables.MEMBERS.frame(rows))
    made.run(monkeypatch)
    memory = made.table(tables.MEMORY)
    assert memory["batch"].tolist() == list(range(200))
    for held in ("live_bytes", "host_rss_bytes"):
        assert memory[held][199] == pytest.approx(memory[held][4], rel=0.01)
    assert made.table(tables.TIMING)["floor_rise_bytes"].tolist() == [0]
    # The first batch is measured from what was there before the scorer's buffers.
    above = memory["peak_bytes"] - memory["floor_bytes"]
    assert (above <= memory["predicted_peak_bytes"]).all()


def test_a_run_accounts_for_its_time_and_for_its_parameters(made, monkeypatch):
    before = time.time() - 100
    made.run(monkeypatch, started_at=before)
    timing = made.table(tables.TIMING).iloc[0]
    assert (timing["device"], timing["threads"], timing["started_at"]) == ("cpu", 1, before)
    # The process began 100 s ago: what was before the worker's stopwatch is start-up. All of
    # the time is in one of the parts, but for the end of the worker and imports for the tables.
    assert 100 <= timing["startup_seconds"] < 130
    named = [name for name in tables.TIMING.columns if name.endswith("_seconds")]
    assert timing[named].sum() == pytest.approx(timing["ended_at"] - before, abs=5)
    tables.write_json(Path(made.files[1]), made.plan | {"parameters_id": "f" * 12})
    with pytest.raises(RunError, match="exit code 1"):
        made.run(monkeypatch)

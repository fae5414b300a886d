"""The loop that scores a chunk, with an engine of numpy that fails as it is told to.

Every test is run with an engine that prepares a batch after the other, and with one that
prepares the next while one is scored: the tables must be the same.
"""

import threading
import weakref
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_engine import (
    ID,
    PARAMETERS,
    UBIQUITIN,
    FakeEngine,
    energies_of,
    failed,
    names_of,
    raising,
    scored,
    write_members,
)

from tmol_plugin import tables, worker
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.worker import Stopwatch

OUT_OF_MEMORY = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory"
    ),
]


@pytest.fixture(autouse=True, params=[False, True], ids=["in turn", "ahead"])
def reads_ahead(request, monkeypatch):
    monkeypatch.setattr(FakeEngine, "reads_ahead", request.param)
    return request.param


@pytest.fixture
def members(tmp_path):
    return partial(write_members, tmp_path)


def batches_of(made):
    return [(m["batch"], m["split"], m["n_structures"], m["outcome"]) for m in made.rows["memory"]]


def check_scores(made, members, without=""):
    """Every member but those named has its own energies, once, in the order of the members."""
    expected = [name for name in names_of(members.to_dict("records")) if name not in without]
    for table in ("scores", "scores_unweighted"):
        assert names_of(made.rows[table]) == expected
    for row, plain in zip(made.rows["scores"], made.rows["scores_unweighted"], strict=True):
        n_residues = ord(Path(row["path"]).stem) - ord("a") + 2
        atoms = [s for s in UBIQUITIN if s.startswith("ATOM") and int(s[22:26]) <= n_residues]
        coords = np.array([[float(s[k : k + 8]) for k in (30, 38, 46)] for s in atoms])
        energies = energies_of(coords)
        # Energies are float64 here; only the order of the summation may differ.
        for i, name in enumerate(FakeEngine.score_types):
            assert plain[name] == pytest.approx(energies[i], rel=1e-12)
            assert row[name] == plain[name] * FakeEngine.weights[i]
        for name in set(tables.SCORE_TYPES) - set(FakeEngine.score_types):
            assert (row[name], plain[name]) == (0.0, 0.0)
        total = 2 * energies[0] + energies[1] + 0.25 * energies[2]
        assert row["total"] == pytest.approx(total, rel=1e-12)
        assert plain["total"] == row["total"]
        assert (row["n_residues"], row["n_atoms"]) == (n_residues, len(atoms))
        assert (row["chunk"], row["engine"], row["hydrogens"]) == (ID, "fake", "keep")
        assert row["parameters_id"] == PARAMETERS.id
        assert row["notes"] == f"atoms_built={n_residues}"


def test_batches_are_scored_as_planned(members):
    engine, rows = FakeEngine(), members(5, batches=[1, 0, 1, 0, 2])
    made = scored(engine, rows)
    assert engine.batches == [["b", "d"], ["a", "c"], ["e"]]
    check_scores(made, rows.sort_values("batch", kind="stable"))
    assert failed(made) == {}
    assert batches_of(made) == [(0, 0, 2, "scored"), (1, 0, 2, "scored"), (2, 0, 1, "scored")]
    measured = made.rows["memory"][0]
    assert (measured["engine"], measured["device"]) == ("fake", "cpu")
    assert measured["max_atoms"] == max(r["n_atoms"] for r in made.rows["scores"][:2])
    assert 0 < measured["host_rss_bytes"] <= measured["host_peak_rss_bytes"]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
@pytest.mark.parametrize("moment", ["on_stack", "on_score"])
def test_a_batch_that_does_not_fit_is_halved_until_it_does(members, error, moment):
    rows = members(7, batches=[0] * 6 + [1])
    made = scored(FakeEngine(**{moment: raising(error, lambda names: len(names) > 2)}), rows)
    check_scores(made, rows)
    assert failed(made) == {}
    # 6 -> 3 and 3; each 3 -> 1 and 2. The next batch starts anew.
    half = [(0, 1, 3, "too_large"), (0, 2, 1, "scored"), (0, 2, 2, "scored")]
    assert batches_of(made) == [(0, 0, 6, "too_large"), *half, *half, (1, 0, 1, "scored")]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_one_structure_too_large_alone_costs_no_other_its_score(members, error):
    rows = members(5)
    made = scored(FakeEngine(on_score=raising(error, lambda names: "d" in names)), rows)
    check_scores(made, rows, without="d")
    assert failed(made) == {"d": ("score", "too_large")}
    message = made.rows["failures"][0]["message"]
    predicted = made.rows["memory"][-2]["predicted_peak_bytes"]
    assert message.startswith(rows["path"][3])
    assert f"{predicted:,} bytes" in message
    assert batches_of(made) == [
        *((0, 0, 5, "too_large"), (0, 1, 2, "scored"), (0, 1, 3, "too_large")),
        *((0, 2, 1, "scored"), (0, 2, 2, "too_large")),
        *((0, 3, 1, "too_large"), (0, 3, 1, "scored")),
    ]


@pytest.mark.parametrize("error", [ValueError("odd pose"), RuntimeError("shape\nmismatch")])
def test_one_structure_that_breaks_the_engine_costs_no_other_its_score(members, error):
    rows = members(6, batches=[0, 0, 0, 0, 1, 1])
    made = scored(FakeEngine(on_score=raising(error, lambda names: "b" in names)), rows)
    check_scores(made, rows, without="b")
    assert failed(made) == {"b": ("score", "engine_error")}
    message = made.rows["failures"][0]["message"]
    kind = type(error).__name__
    assert message == f"{rows['path'][1]}: {kind}: {error}".replace("\n", " | ")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_energy_that_is_not_finite_is_a_failure(members, value):
    engine, rows = FakeEngine(), members(3)
    engine.not_finite["b"] = (1, value)
    made = scored(engine, rows)
    check_scores(made, rows, without="b")
    assert failed(made) == {"b": ("score", "not_finite")}
    assert made.rows["failures"][0]["message"] == f"{rows['path'][1]}: fa_ljatr not finite"
    assert batches_of(made) == [(0, 0, 3, "scored")]


def test_what_changed_since_the_plan_is_a_failure(members):
    rows = members(6)
    paths = list(map(Path, rows["path"]))
    paths[0].write_text(paths[0].read_text().replace("MET", "ALA", 1))
    paths[1].unlink()
    paths[3].write_text("")
    rows.loc[5, "model"] = 2
    made = scored(FakeEngine(), rows)
    check_scores(made, rows, without="abdf")
    expected = {"a": "changed", "b": "unreadable", "f": "no_such_model"}
    found = failed(made)
    assert found.pop("d")[1] in ("changed", "unreadable")  # it is both
    assert found == {name: ("prepare", reason) for name, reason in expected.items()}


def test_a_pose_that_cannot_be_built_is_a_failure_and_empty_batches_are_not_scored(members):
    error = StructureError("unsupported_chemistry", "no such atom", "write to us")
    engine = FakeEngine(on_prepare=raising(error, lambda names: names[0] in "ac"))
    rows = members(4, batches=[0, 1, 0, 1])
    made = scored(engine, rows)
    check_scores(made, rows, without="ac")
    assert engine.batches == [["b", "d"]]
    row = made.rows["failures"][0]
    found = [row[k] for k in ("structure_id", "stage", "reason", "message", "remedy")]
    assert found == ["in/a", "prepare", "unsupported_chemistry", "no such atom", "write to us"]
    assert batches_of(made) == [(1, 0, 2, "scored")]


def test_paths_are_unescaped_and_rows_keep_them_escaped(members, tmp_path):
    rows = members(1)
    odd = tmp_path / "tab\there\udce9.pdb"
    odd.write_bytes(Path(rows["path"][0]).read_bytes())
    rows.loc[0, ["path", "structure_id"]] = tables.escape(str(odd)), r"in/a\tb"
    made = scored(FakeEngine(), rows)
    (row,) = made.rows["scores"]
    assert (row["path"], row["structure_id"]) == (tables.escape(str(odd)), r"in/a\tb")


@pytest.mark.parametrize(
    ("error", "moment"),
    [
        (RunError("of other parameters"), "on_score"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "on_score"),
        (RuntimeError("CUDA error: unspecified launch failure"), "on_prepare"),
    ],
)
def test_what_concerns_all_ends_the_chunk(members, error, moment):
    """A lost CUDA context or a wrong run would else be the failure of every structure."""
    with pytest.raises(type(error), match=str(error)):
        scored(FakeEngine(**{moment: raising(error, lambda names: True)}), members(3))


def test_poses_of_other_parameters_end_the_chunk(members):
    engine = FakeEngine()
    engine.parameters_id = "f" * 12
    with pytest.raises(RunError, match=f"{PARAMETERS.id}.*{'f' * 12}"):
        scored(engine, members(3))


def test_a_batch_is_let_go_before_the_next(members, monkeypatch):
    """Also one that failed: else its memory is missing where its halves need it."""
    monkeypatch.setattr(worker.log, "disabled", True)  # pytest keeps records, with tracebacks
    alive, before = [], []

    class Watched(FakeEngine):
        def stack(self, batch):
            alive.extend(len(batch) for stack in before if stack() is not None)
            stacked = super().stack(batch)
            before.append(weakref.ref(stacked))
            return stacked

    def fault(names):
        if len(names) > 1:  # raised anew: an error that is kept keeps what it passed through
            raise torch.OutOfMemoryError("CUDA out of memory.")

    made = scored(Watched(on_score=fault), members(6, batches=[0] * 4 + [1, 1]))
    assert len(made.rows["scores"]) == 6
    assert (len(before), alive) == (10, [])


def test_the_next_batch_is_prepared_while_one_is_scored(members, reads_ahead):
    begun, seen = threading.Event(), []

    def prepare(names):
        if names == ["b"]:
            begun.set()

    def score(names):
        if names == ["a"]:
            seen.append(begun.wait(10 if reads_ahead else 0.1))

    rows = members(3, batches=[0, 1, 2])
    made = scored(FakeEngine(on_prepare=prepare, on_score=score), rows)
    assert seen == [reads_ahead]
    check_scores(made, rows)


def test_the_stopwatch_counts_each_second_once(monkeypatch):
    now = iter([10.0, 11.0, 13.0, 16.0])
    monkeypatch.setattr(worker.time, "perf_counter", lambda: next(now))
    watch = Stopwatch()
    for part in ("a", "b", "a"):
        watch.lap(part)
    assert watch.seconds == Counter(a=4.0, b=2.0)

"""The native engine: its energies and its residues' are TMol's, which it imports if it must."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from distance_cases import CASES

from tmol_plugin import memory, native, tables
from tmol_plugin.engine import Prepared
from tmol_plugin.errors import RunError
from tmol_plugin.native_engine import NativeEngine, NativeTmolEngine
from tmol_plugin.parameters import Parameters
from tmol_plugin.policy import Policy
from tmol_plugin.pose import Pose
from tmol_plugin.reading import Source

STRUCTURES = Path(__file__).parent / "structures"
SETTINGS = {"hydrogens": "keep", "packer_seed": 20160, "on_unrecognized": "fail"}
SETTINGS |= {"missing_side_chains": "fail"}
# Disulfides and two residue names at one place; two chains; mmCIF; insertion codes.
NAMES = ["1ejg.pdb", "1qbs.pdb", "1a8o.cif", "1fas.cif", "1ubi.pdb", "1k1i.pdb"]


@pytest.fixture(scope="module")
def engine(compiled):
    return NativeEngine(compiled, SETTINGS, threads=1)


@pytest.fixture(scope="module")
def upstream(compiled):
    """Native preparation, scored by TMol."""
    return NativeTmolEngine(compiled, SETTINGS, torch.device("cpu"))


def read(engine, path):
    return engine.read(Source(str(path)), 1, Policy())


@pytest.fixture(scope="module")
def prepared(engine):
    return [read(engine, STRUCTURES / name) for name in NAMES]


@pytest.fixture(scope="module")
def by_tmol(engine, tmp_path_factory):
    """A neutral amino terminus: TMol takes it, late."""
    path = tmp_path_factory.mktemp("late") / CASES["n-terminus-2"].file
    path.write_bytes(CASES["n-terminus-2"].content)
    return read(engine, path)


def within(found, expected):
    """|found - expected| as a share of what DESIGN.md allows in 32-bit sums of a term."""
    assert found.shape == expected.shape
    return (np.abs(found - expected) / (1e-3 + 1e-4 * np.abs(expected))).max()


def test_energies_are_those_that_tmol_gives_for_the_same_poses(engine, upstream, prepared):
    assert all(isinstance(one.pose, Pose) and one.engine == "native" for one in prepared)
    assert engine.score_types == upstream.score_types == tables.SCORE_TYPES
    assert np.array_equal(engine.weights, upstream.weights)
    found, expected = (one.score(one.stack(prepared)) for one in (engine, upstream))
    assert (found.dtype, found.shape) == (np.float64, (len(NAMES), 25))
    assert within(found, expected) < 1
    totals = [energies @ engine.weights for energies in (found, expected)]
    assert (np.abs(totals[0] - totals[1]) < 0.01 + 1e-5 * np.abs(totals[1])).all()


def test_energies_of_residues_are_those_of_tmols_block_pairs(engine, upstream, prepared):
    for one in prepared[:3]:
        found, expected = (by.score_residues(one) for by in (engine, upstream))
        for name in ("chains", "numbers", "names", "block_types"):
            assert list(getattr(found, name)) == list(getattr(expected, name)), name
        assert within(found.energies, expected.energies) < 1
        whole = engine.score(engine.stack([one]))[0]
        # Pairs are summed in 32 bits, and otherwise where halves are kept apart.
        assert np.allclose(found.energies.sum(axis=0), whole, rtol=1e-6, atol=1e-5)
        assert (found.energies[:, tables.SCORE_TYPES.index("ref")] != 0).all()


def test_residues_are_named_as_in_the_file(engine, prepared):
    residues = engine.score_residues(prepared[NAMES.index("1k1i.pdb")])
    at = list(residues.numbers).index("184A")
    named = residues.chains[at], residues.names[at], residues.block_types[at]
    assert named == ("A", "TYR", "TYR")


def test_what_tmol_takes_late_is_scored_by_it_in_the_same_batch(
    engine, upstream, prepared, by_tmol
):
    assert by_tmol.engine == "tmol"
    assert not isinstance(by_tmol.pose, Pose)
    batch = [prepared[0], by_tmol, prepared[1], by_tmol]
    together = engine.score(engine.stack(batch))
    alone = [engine.score(engine.stack([one]))[0] for one in batch]
    # Native energies are the same bits; TMol's sums depend on what is beside them.
    assert np.array_equal(together[::2], alone[::2])
    assert within(together[1::2], np.array(alone[1::2])) < 0.1
    expected = upstream.score(upstream.stack([by_tmol]))[0]
    assert within(together[1], expected) < 0.1
    residues = engine.score_residues(by_tmol)
    assert residues.block_types[0].endswith("nterm_neutral")
    assert residues.numbers == tuple(str(n) for n in range(1, by_tmol.n_residues + 1))
    assert within(residues.energies.sum(axis=0), expected) < 1


def test_tmols_score_types_may_stand_in_another_order(engine, by_tmol, monkeypatch):
    before = engine.score(engine.stack([by_tmol]))
    of_residues = engine.score_residues(by_tmol).energies
    types, score = engine._tmol.score_types, engine._tmol.score
    score_residues = engine._tmol.score_residues
    monkeypatch.setattr(engine._tmol, "score_types", types[::-1])
    monkeypatch.setattr(engine._tmol, "score", lambda stacked: score(stacked)[:, ::-1])

    def reverse(one):
        found = score_residues(one)
        return replace(found, energies=found.energies[:, ::-1])

    monkeypatch.setattr(engine._tmol, "score_residues", reverse)
    assert np.array_equal(engine.score(engine.stack([by_tmol])), before)
    assert np.array_equal(engine.score_residues(by_tmol).energies, of_residues)


def test_only_what_the_score_function_weighs_is_scored(compiled, engine, prepared):
    weights = {"rama": 2.0, "na_torsion": 1.0, "fa_ljrep": 0.5}
    fewer = Parameters(compiled.tensors, compiled.metadata | {"weights": weights})
    prepared = [replace(one, parameters_id=fewer.id) for one in prepared[:2]]
    other = NativeEngine(fewer, SETTINGS, threads=2)
    assert other.score_types == ("fa_ljrep", "rama", "na_torsion")
    assert other.weights.tolist() == [0.5, 2, 1]
    columns = [tables.SCORE_TYPES.index(name) for name in other.score_types]
    stacked = other.stack(prepared)
    expected = engine.score(stacked)[:, columns]
    assert (expected[:, :2] != 0).all()
    assert np.array_equal(other.score(stacked), expected)
    expected = engine.score_residues(prepared[0]).energies[:, columns]
    assert np.array_equal(other.score_residues(prepared[0]).energies, expected)


def test_poses_of_other_parameters_are_refused(engine, prepared):
    stranger = Prepared(prepared[0].pose, "f" * 12, 46, 642, {}, "native")
    with pytest.raises(RunError, match=f"{'f' * 12}.*{engine.parameters_id}"):
        engine.stack([prepared[1], stranger])


def test_running_out_of_memory_is_told_from_other_failures(engine, prepared, monkeypatch):
    def fail(scorer, stack, n_threads, energies, blocks, error, size):
        error.value = words
        return 1

    monkeypatch.setattr(native.library(), "tp_score", fail)
    for words, is_memory in ((b"out of memory", True), (b"array index", False)):
        with pytest.raises(RuntimeError, match=words.decode()) as caught:
            engine.score(engine.stack(prepared[:1]))
        assert memory.is_out_of_memory(caught.value) == is_memory


RUN = """
import sys, time
from tmol_plugin import chunk
loaded = "print(sorted({'torch', 'tmol', 'biotite'} & {*sys.modules}))"
worker = f"import sys; from tmol_plugin import worker; worker.main(); {loaded}"
chunk.WORKER = [sys.executable, "-c", worker]
chunk.run(*sys.argv[1:5], device=sys.argv[5], threads=1, started_at=time.time())
exec(loaded)
"""


def write_chunk(folder, compiled, names):
    """Files of a plan of one chunk, as arguments of `chunk.run`."""
    compiled.save(folder / "p.safetensors")
    plan = {"parameters_id": compiled.id, "settings": SETTINGS}
    plan["config"] = {"device": "auto", "outputs": {"per_residue": True}}
    plan["config"]["memory"] = {"model": ""}
    tables.write_json(folder / "run.json", plan)
    rows = [
        {"structure_id": name, "path": str(STRUCTURES / name), "model": 1, "engine_reason": ""}
        | {"sha256": tables.file_sha256(STRUCTURES / name), "n_residues": 9, "n_atoms": 99}
        | {"batch": batch}
        for batch, name in enumerate(names)
    ]
    tables.write_tsv(folder / "m.tsv", tables.MEMBERS.frame(rows))
    return [str(folder / name) for name in ("m.tsv", "run.json", "p.safetensors", "abc")]


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_a_chunk_is_scored_without_torch_and_tmol(tmp_path, compiled, engine, prepared, device):
    files = write_chunk(tmp_path, compiled, NAMES)
    words = subprocess.check_output([sys.executable, "-c", RUN, *files, device], text=True)
    assert words == "[]\n[]\n"  # of the worker, and of its supervisor
    scores = tables.read_parquet(tmp_path / "abc" / "scores.parquet", tables.SCORES)
    assert scores["structure_id"].tolist() == NAMES
    assert set(scores["engine"]) == {"native"}
    expected = engine.score(engine.stack(prepared)) * engine.weights
    assert np.array_equal(scores[list(tables.SCORE_TYPES)], expected)
    residues = tables.read_parquet(tmp_path / "abc" / "per_residue.parquet", tables.PER_RESIDUE)
    totals = residues.groupby("structure_id", sort=False)["total"].sum()
    assert np.allclose(totals, scores["total"], rtol=1e-4, atol=1e-3)
    done = json.loads((tmp_path / "abc" / "done.json").read_text())
    assert done["machine"]["instruction_set"] == native.instruction_sets()[0]
    timing = tables.read_parquet(tmp_path / "abc" / "timing.parquet", tables.TIMING).iloc[0]
    assert (timing["device"], timing["engine"], timing["n_scored"]) == ("cpu", "native", 6)

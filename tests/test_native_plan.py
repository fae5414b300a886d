"""Plans and memory of native scoring, which pads nothing: a batch is as large as its atoms."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from test_plan import index_of, plan_of, structure

from tmol_plugin import device, memory, plan, tables
from tmol_plugin.parameters import Parameters

# Peak memory in MB above that of the process before, of n poses read, stacked and scored on
# some threads, and as many read ahead (how: memory.py): n, atoms, threads, MB.
MEASURED = [
    (32, 1231, 1, 6.8),
    (256, 1231, 1, 15.7),
    (256, 1231, 4, 16.9),
    (256, 3120, 1, 47.1),
    (256, 3120, 4, 49.1),
    (256, 913, 4, 14.7),
    (64, 4010, 4, 18.9),
    (1, 11992, 4, 6.6),
    (32, 11992, 1, 20.3),
    (256, 11992, 4, 188.7),
]


@pytest.mark.parametrize(("n", "atoms", "threads", "megabytes"), MEASURED)
def test_the_prediction_is_above_the_measured_peak_and_near_it(n, atoms, threads, megabytes):
    predicted = memory.predict_native_bytes(n * atoms) / 1e6
    assert megabytes <= predicted <= 2.1 * megabytes + 24


@given(
    n_atoms=st.lists(st.integers(1, 30_000), max_size=40),
    budget=st.integers(0, 40_000_000),
    max_batch=st.integers(1, 12),
)
def test_packing_is_greedy_in_the_order_given(n_atoms, budget, max_batch):
    expected, batch, size, atoms = [], -1, 0, 0
    for own in n_atoms:
        fits = memory.predict_native_bytes(atoms + own) <= budget and 0 < size < max_batch
        batch, size, atoms = (batch, size + 1, atoms + own) if fits else (batch + 1, 1, own)
        expected.append(batch)
    found = memory.pack_native_batches(np.array(n_atoms, np.int64), budget, max_batch)
    assert found.dtype == np.int32
    assert found.tolist() == expected


def test_the_largest_batch_is_the_one_of_most_atoms():
    n_atoms, batches = np.array([10, 20, 5000, 4000, 3000], np.int32), np.array([0, 0, 1, 2, 2])
    found = memory.predict_largest_batch_bytes(n_atoms, n_atoms, batches, native=True)
    assert found == memory.predict_native_bytes(7000)


# Sizes that padding would keep apart: each is twice the one before.
SIZES = [100 * 2**i for i in range(8)]


def test_native_batches_hold_what_padding_would_keep_apart():
    rows = [structure(i, n, engine) for i, n in enumerate(SIZES) for engine in ("native",)]
    rows += [structure(i + 10, n) for i, n in enumerate(SIZES)]
    made = plan_of(
        rows,
        max_structures=100,
        target_minutes=9,
        start_up_minutes=9,
        native_budget_bytes=memory.predict_native_bytes(sum(SIZES[:-1])),
    )
    of_chunk = made.chunks.set_index("engine")
    assert of_chunk["n_batches"].to_dict() == {"native": 2, "tmol": 8}
    batches = made.members[made.members["engine_reason"] == ""]
    assert batches["n_atoms"].tolist() == SIZES
    assert batches["batch"].tolist() == [0] * 7 + [1]
    expected = memory.predict_native_bytes(SIZES[-1])
    assert of_chunk.loc["native", "estimated_bytes"] == expected
    # Which engine scores them is no part of what they are.
    by_tmol = plan_of(rows, max_structures=100, target_minutes=9, start_up_minutes=9)
    assert set(by_tmol.chunks["n_batches"]) == {8}
    assert by_tmol.chunks["chunk"].tolist() == made.chunks["chunk"].tolist()


def test_only_what_tmol_scores_takes_a_gpu(tmp_path):
    odd = {"path": 'in/"odd" name.pdb'}
    plan.write_plan(plan_of([structure(1, 500, "native", **odd), structure(2, 500)]), tmp_path)
    found = {
        (wanted, row.engine): device.gpus_of_chunk(
            tmp_path / "members" / f"{row.chunk}.tsv", wanted
        )
        for row in tables.read_tsv(tmp_path / "chunks.tsv", tables.CHUNKS).itertuples()
        for wanted in ("auto", "cpu", "cuda")
    }
    takes_one = {("auto", "tmol"), ("cuda", "native"), ("cuda", "tmol")}
    assert found == {key: int(key in takes_one) for key in found}
    assert len(found) == 6


@pytest.mark.parametrize("wanted", ["auto", "cpu", "cuda"])
def test_tmol_scores_what_native_prepares_on_a_gpu_that_is_insisted_on(tmp_path, wanted):
    config = yaml.safe_load((Path(__file__).parents[1] / "config" / "config.yaml").read_text())
    config["device"] |= {"use": wanted, "share": 2}
    config |= {"memory": {"fraction": 0.5, "device_gib": 1}}
    described = {"score_function": "beta2016", "residues": [], "failed": {}}
    Parameters({}, described).save(tmp_path / "parameters.safetensors")
    rows = [structure(i, n, "native") for i, n in enumerate(SIZES)]
    tables.write_parquet(tmp_path / "a.parquet", tables.INDEX, index_of(rows))
    files = [tmp_path / "a.parquet"], tmp_path / "parameters.safetensors"
    made = plan.run(*files, config, tmp_path / "plan")
    assert made.chunks["n_batches"].tolist() == [8 if wanted == "cuda" else 1]
    written = json.loads((tmp_path / "plan" / "run.json").read_text())
    assert written["batch_budget"]["bytes"] == 2**30 // 4  # half of half a GiB: two share it
    budget = written["native_batch_budget"]
    if wanted == "cuda":
        assert budget is None
    else:
        assert budget["bytes"] == memory.device_budget_bytes(0.5, 0, "cpu").bytes

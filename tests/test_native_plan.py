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
from tmol_plugin.memory_model import Model, Terms
from tmol_plugin.parameters import Parameters

TERMS = Terms(batch=24_000_000, structure=1000, atom=100, block=200, block_pair=1)


def peak(n_atoms, n_blocks):
    """Predicted for a batch of poses, in plain words."""
    bytes_of = TERMS.batch
    for atoms, blocks in zip(n_atoms, n_blocks, strict=True):
        bytes_of += TERMS.structure + TERMS.atom * atoms + TERMS.block * blocks
        bytes_of += TERMS.block_pair * blocks * (blocks + 1) // 2
    return bytes_of


@given(
    sizes=st.lists(st.tuples(st.integers(1, 30_000), st.integers(1, 2000)), max_size=40),
    budget=st.integers(0, 40_000_000),
    max_batch=st.integers(1, 12),
)
def test_packing_is_greedy_in_the_order_given(sizes, budget, max_batch):
    expected, batch, members = [], -1, []
    for own in sizes:
        fits = 0 < len(members) < max_batch and peak(*zip(*members, own)) <= budget
        batch, members = (batch, [*members, own]) if fits else (batch + 1, [own])
        expected.append(batch)
    n_atoms, n_blocks = np.array(sizes, np.int32).reshape(-1, 2).T
    found = memory.pack_native_batches(TERMS, n_atoms, n_blocks, budget, max_batch)
    assert found.dtype == np.int32
    assert found.tolist() == expected


# Sizes that padding would keep apart: each is twice the one before.
SIZES = [100 * 2**i for i in range(8)]


def native_peak(n_atoms):
    """By the shipped model, of structures as `structure` makes them: 16 atoms a block."""
    blocks = [max(1, n // 16) for n in n_atoms]
    pairs = sum(n * (n + 1) // 2 for n in blocks)
    terms = Model.load("").peak("native", "cpu")
    return terms.bytes((len(n_atoms), sum(n_atoms), sum(blocks), pairs))


def test_native_batches_hold_what_padding_would_keep_apart():
    rows = [structure(i, n, engine) for i, n in enumerate(SIZES) for engine in ("native",)]
    rows += [structure(i + 10, n) for i, n in enumerate(SIZES)]
    made = plan_of(
        rows,
        max_structures=100,
        target_minutes=9,
        start_up_minutes=9,
        native_budget_bytes=native_peak(SIZES[:-1]),
    )
    of_chunk = made.chunks.set_index("engine")
    assert of_chunk["n_batches"].to_dict() == {"native": 2, "tmol": 8}
    batches = made.members[made.members["engine_reason"] == ""]
    assert batches["n_atoms"].tolist() == SIZES
    assert batches["batch"].tolist() == [0] * 7 + [1]
    expected = max(native_peak(SIZES[:-1]), native_peak(SIZES[-1:]))
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
    config |= {"memory": {"fraction": 0.5, "device_gib": 1, "model": ""}}
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

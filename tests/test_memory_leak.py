"""A rising floor: told from noise, warm-up, steps and larger batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmol_plugin.memory_leak import floor_rise_bytes, rising_floor

MB = 1_000_000
BASE = 300 * MB


def rows_of(floors, predicted=None, hosts=None):
    floors = [None if floor is None else int(floor) for floor in floors]
    predicted = [50 * MB] * len(floors) if predicted is None else predicted
    hosts = floors if hosts is None else hosts
    return [
        {"floor_bytes": f, "predicted_peak_bytes": p, "host_rss_bytes": h}
        for f, p, h in zip(floors, predicted, hosts, strict=True)
    ]


def noise(n, scale, seed=1):
    return np.random.default_rng(seed).normal(0, scale, n)


FLAT = {
    "flat": np.full(200, BASE),
    "noisy": BASE + noise(200, 5 * MB),
    "a few batches": BASE + noise(12, 5 * MB),
    "warm-up, then flat": BASE + 100 * MB * np.minimum(np.arange(200), 30) / 30,
    "warm-up that ends slowly": BASE + 100 * MB * (1 - np.exp(-np.arange(200) / 10)),
    "a step in the middle": BASE + 2000 * MB * (np.arange(200) >= 120),
    "two batches that stand out": BASE + 500 * MB * np.isin(np.arange(200), [90, 199]),
    "falling": BASE - 1 * MB * np.arange(200),
    "0.5 % over all": BASE + 0.005 * BASE * np.arange(200) / 200,
}


@pytest.mark.parametrize("floors", FLAT.values(), ids=FLAT)
def test_what_is_no_leak(floors):
    rows = rows_of(floors)
    assert floor_rise_bytes(rows) == 0
    assert rising_floor(rows) is None


@given(seed=st.integers(0, 10_000), n=st.integers(12, 60), scale=st.sampled_from([1, 10, 50]))
def test_noise_is_no_leak(seed, n, scale):
    assert floor_rise_bytes(rows_of(BASE + noise(n, scale * MB, seed))) == 0


@pytest.mark.parametrize("n", [15, 50, 200, 1000])
@pytest.mark.parametrize("each", [MB, 20 * MB])
@pytest.mark.parametrize("warm_up", [0, 80 * MB])
def test_what_each_batch_leaves_behind_is_found(n, each, warm_up):
    floors = BASE + each * np.arange(n) + noise(n, each / 2)
    floors[2:] += warm_up
    rows = rows_of(floors)
    # Noise of half a batch's rise moves medians of n / 4 of them by less than that.
    assert floor_rise_bytes(rows) == pytest.approx(each, rel=0.2 if n > 15 else 0.4)
    words = rising_floor(rows)
    assert f"{floor_rise_bytes(rows):,} bytes with each batch" in words
    assert f"from {int(floors[0]):,} to {int(floors[-1]):,} bytes over {n} batches" in words


def test_larger_batches_are_no_leak_and_do_not_hide_one():
    predicted = [(50 + 3 * i) * MB for i in range(60)]
    floors = BASE + 2.5 * MB * np.arange(60)  # what larger batches left in the heap
    assert floor_rise_bytes(rows_of(floors, predicted)) == 0
    assert floor_rise_bytes(rows_of(floors + 5 * MB * np.arange(60), predicted)) > 4 * MB
    # Smaller ones after a large one give nothing back.
    predicted = [400 * MB, *[50 * MB] * 59]
    floors = np.array([BASE, *[BASE + 390 * MB] * 59])
    assert floor_rise_bytes(rows_of(floors, predicted)) == 0


def test_a_leak_of_the_host_is_found_beside_a_flat_device():
    hosts = [int(BASE + 2 * MB * i) for i in range(100)]
    rows = rows_of(np.full(100, 10 * MB), hosts=hosts)
    assert floor_rise_bytes(rows) == pytest.approx(2 * MB, rel=0.01)
    assert rising_floor(rows).startswith("host memory rises by about 2,000,000 bytes")


@pytest.mark.parametrize("floors", [[], [BASE], [BASE + 90 * MB * i for i in range(11)]])
def test_of_few_batches_nothing_is_known(floors):
    assert floor_rise_bytes(rows_of(floors)) is None
    assert rising_floor(rows_of(floors)) is None
    assert floor_rise_bytes(rows_of([None] * 50)) is None

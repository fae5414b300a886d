"""The memory model against measurements, the packing against a slow one, and the readings."""

import os
import resource
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tmol_plugin import memory
from tmol_plugin.errors import RunError

# Peak memory in MB above that of the process before, measured on 2026-11-30 with TMol 0.2.0 and
# torch 2.13.0+cpu: n, atoms, residues, threads, MB. The first eight prepared n poses, stacked,
# rendered and scored them; the others stacked n times one prepared pose (how: memory.py).
MEASURED = [
    (96, 758, 24, 2, 80.0),  # 1bna, DNA
    (128, 1116, 73, 2, 123.1),  # bysize_*, as all that follow
    (32, 5899, 370, 1, 124.8),
    (32, 5899, 370, 2, 153.4),
    (32, 11992, 753, 2, 257.7),
    (64, 11992, 753, 1, 365.5),
    (256, 3039, 197, 2, 438.0),
    (512, 218, 14, 2, 114.6),
    (32, 218, 14, 2, 38.7),
    (512, 1116, 73, 1, 254.1),
    (512, 1116, 73, 2, 292.1),
    (128, 3039, 197, 1, 181.3),
    (128, 3039, 197, 4, 261.7),
    (512, 3039, 197, 2, 582.3),
    (64, 5899, 370, 2, 230.2),
    (32, 11992, 753, 1, 175.3),
    (64, 11992, 753, 1, 308.1),
    (64, 11992, 753, 2, 380.3),
    (256, 758, 24, 2, 119.7),  # 1bna
    (32, 11992, 753, 2, 233.4),  # one pose of that size and 31 of 1116 atoms: as if padded
]


@pytest.mark.parametrize(("n", "atoms", "residues", "threads", "megabytes"), MEASURED)
def test_the_prediction_is_above_the_measured_peak_and_near_it(
    n, atoms, residues, threads, megabytes
):
    predicted = memory.predict_bytes(n, atoms, residues) / 1e6
    assert predicted >= megabytes
    if megabytes > 100:
        assert predicted <= 2.1 * megabytes


def test_the_prediction_has_the_documented_terms():
    assert memory.predict_bytes(1, 1000, 100) == 48_000_000 + 500_000 + 280_000 + 4 * 5050
    assert memory.predict_bytes(7, 1000, 100) == 48_000_000 + 7 * (500_000 + 280_000 + 4 * 5050)
    assert type(memory.predict_bytes(1, 1, 1)) is int


def test_arrays_are_predicted_as_their_elements_and_do_not_overflow():
    n = np.array([1, 300, 2000], np.int32)
    atoms = np.array([[20_000], [300]], np.int32)
    predicted = memory.predict_bytes(n, atoms, np.int32(20_000))
    expected = [[memory.predict_bytes(int(i), int(a), 20_000) for i in n] for a in atoms[:, 0]]
    assert predicted.tolist() == expected
    assert predicted[0, 2] == 48_000_000 + 2000 * (20_000 * 3300 + 2 * 20_000 * 20_001)


sizes = st.integers(1, 30_000)


@given(n=st.integers(1, 5000), atoms=sizes, residues=sizes, more=st.integers(1, 1000))
def test_the_prediction_grows_with_each_argument(n, atoms, residues, more):
    predicted = memory.predict_bytes(n, atoms, residues)
    assert memory.predict_bytes(n + more, atoms, residues) > predicted
    assert memory.predict_bytes(n, atoms + more, residues) > predicted
    assert memory.predict_bytes(n, atoms, residues + more) > predicted


def test_the_largest_batch_is_the_one_predicted_to_peak_highest():
    n_atoms, n_residues = np.array([10, 20, 5000, 40, 50]), np.array([9, 1, 300, 4, 6])
    batches = np.array([0, 0, 1, 2, 2], np.int32)
    expected = [memory.predict_bytes(*x) for x in [(2, 20, 9), (1, 5000, 300), (2, 50, 6)]]
    assert expected[1] == max(expected)
    assert memory.predict_largest_batch_bytes(n_atoms, n_residues, batches) == expected[1]


def slow_packing(members, budget, max_batch, ratio):
    """Batches, as lists of positions, by trying to add one member at a time."""
    batches = []
    for i in sorted(range(len(members)), key=lambda i: members[i][0]):
        joined = [members[j] for j in [*batches[-1], i]] if batches else []
        blocks = max((r for _, r in joined), default=0)
        largest, smallest = (max(joined)[0], min(joined)[0]) if joined else (0, 0)
        if (
            joined
            and len(joined) <= max_batch
            and memory.predict_bytes(len(joined), largest, blocks) <= budget
            and len(joined) * blocks * (blocks + 1) / 2 < 2**31
            and largest <= ratio * smallest
        ):
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


@given(
    members=st.lists(st.tuples(sizes, st.integers(1, 12_000)), max_size=40),
    budget=st.integers(0, 2_000_000_000),
    max_batch=st.integers(1, 12),
    ratio=st.sampled_from([1, 1.2, 1.5, 3, 1e9]),
)
def test_packing_is_greedy_within_every_limit(members, budget, max_batch, ratio):
    atoms, residues = np.array(members, np.int32).reshape(-1, 2).T
    batches = memory.pack_batches(atoms, residues, budget, max_batch, ratio)
    assert batches.dtype == np.int32
    expected = np.empty(len(members), int)
    for number, batch in enumerate(slow_packing(members, budget, max_batch, ratio)):
        expected[batch] = number
    assert batches.tolist() == expected.tolist()


def test_a_structure_above_the_budget_is_a_batch_of_its_own():
    assert memory.pack_batches([100, 101, 102], [9, 9, 9], budget_bytes=1).tolist() == [0, 1, 2]


def test_batches_keep_to_the_pairs_that_tmol_can_number():
    # A pose of 20000 blocks has 200,010,000 pairs of them; 2**31 - 1 has room for ten such.
    batches = memory.pack_batches([300_000] * 25, [20_000] * 25, budget_bytes=10**15)
    assert np.bincount(batches).tolist() == [10, 10, 5]


def test_packing_takes_no_structures_and_rejects_impossible_limits():
    assert memory.pack_batches([], [], 10**9).tolist() == []
    with pytest.raises(RunError, match="max_batch is 0"):
        memory.pack_batches([1], [1], 10**9, max_batch=0)
    with pytest.raises(RunError, match=r"ratio is 0\.5"):
        memory.pack_batches([1], [1], 10**9, ratio=0.5)
    with pytest.raises(RunError, match="ratio is nan"):
        memory.pack_batches([1], [1], 10**9, ratio=float("nan"))


class FakeNVML(SimpleNamespace):
    """As much of pynvml as is used, with GPUs of the given bytes, or failing at init."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpu_bytes, fails=False):
        super().__init__(shut_down=0)
        self.gpu_bytes, self.fails = gpu_bytes, fails

    def nvmlInit(self):  # noqa: N802
        if self.fails:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self):  # noqa: N802
        self.shut_down += 1

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.gpu_bytes)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=self.gpu_bytes[handle])


HALF_OF_MAIN = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def test_the_budget_is_of_the_configured_memory(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML([8 * 2**30]))
    budget = memory.device_budget_bytes(0.75, 24)
    assert budget == (18 * 2**30, "0.75 of memory.device_gib of 24 GiB")


def test_the_budget_is_of_the_smallest_gpu(monkeypatch):
    nvml = FakeNVML([80 * 2**30, 24 * 2**30, 40 * 2**30])
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    budget = memory.device_budget_bytes(0.5, 0)
    assert budget.bytes == 12 * 2**30
    assert budget.source == "0.5 of 24.0 GiB of the smallest of 3 GPUs of this machine"
    assert nvml.shut_down == 1
    assert memory.device_budget_bytes(0.5, 0, "cpu").bytes == HALF_OF_MAIN // 2


@pytest.mark.parametrize("nvml", [None, FakeNVML([]), FakeNVML([2**30], fails=True)])
def test_without_a_gpu_the_budget_is_of_half_the_main_memory(monkeypatch, nvml):
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # None: importing it raises ImportError
    budget = memory.device_budget_bytes(1, 0)
    assert budget.bytes == HALF_OF_MAIN
    assert "main memory" in budget.source


@pytest.mark.parametrize(("fraction", "gib"), [(0, 1), (1.1, 1), (float("nan"), 1), (0.5, -1)])
def test_the_budget_rejects_values_out_of_range(fraction, gib):
    with pytest.raises(RunError, match=r"memory\.(fraction|device_gib) is"):
        memory.device_budget_bytes(fraction, gib)


def test_running_out_of_memory_is_told_from_other_errors():
    with pytest.raises(RuntimeError) as too_much:
        torch.empty(2**60, dtype=torch.uint8)
    assert memory.is_out_of_memory(too_much.value)
    assert memory.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to"))
    assert memory.is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    assert memory.is_out_of_memory(MemoryError())
    assert not memory.is_out_of_memory(RuntimeError("CUDA error: an illegal memory access"))
    assert not memory.is_out_of_memory(ValueError("residue 7: out of memory of man"))


def test_the_memory_of_the_cpu_is_the_main_memory():
    assert memory.device_bytes(torch.device("cpu")) // 2 == HALF_OF_MAIN


def test_resident_memory_follows_an_allocation_and_its_release():
    before = memory.host_rss_bytes()
    block = np.ones(100_000_000, np.uint8)
    during = memory.host_rss_bytes()
    assert during - before > 90_000_000
    del block
    assert memory.host_rss_bytes() < during - 90_000_000
    assert memory.host_peak_rss_bytes() >= during - 5_000_000


def test_without_proc_the_readings_are_those_of_getrusage(monkeypatch):
    def no_proc(self):
        raise FileNotFoundError(str(self))

    monkeypatch.setattr(Path, "read_text", no_proc)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    assert memory.host_peak_rss_bytes() == memory.host_rss_bytes() == pytest.approx(peak, rel=0.01)

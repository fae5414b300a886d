"""The packing of batches against a slow one, the budget, and errors of memory that ran out."""

import errno
import os
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tmol_plugin import memory
from tmol_plugin.errors import RunError
from tmol_plugin.memory_model import Model

MODEL = Model.load("")
TMOL = MODEL.peak("tmol", "cuda")


def predicted(n, atoms, blocks, terms=TMOL):
    """Peak of a padded batch, in plain words."""
    per_pose = terms.atom * atoms + terms.block * blocks
    per_pose += terms.block_pair * blocks * (blocks + 1) // 2
    return terms.batch + n * (terms.structure + per_pose)


sizes = st.integers(1, 30_000)


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
            and predicted(len(joined), largest, blocks) <= budget
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
    batches = memory.pack_batches(TMOL, atoms, residues, budget, max_batch, ratio)
    assert batches.dtype == np.int32
    expected = np.empty(len(members), int)
    for number, batch in enumerate(slow_packing(members, budget, max_batch, ratio)):
        expected[batch] = number
    assert batches.tolist() == expected.tolist()


def test_a_structure_above_the_budget_is_a_batch_of_its_own():
    assert memory.pack_batches(TMOL, [100, 101, 102], [9, 9, 9], budget_bytes=1).tolist() == [
        0,
        1,
        2,
    ]


def test_batches_keep_to_the_pairs_that_tmol_can_number():
    # A pose of 20000 blocks has 200,010,000 pairs of them; 2**31 - 1 has room for ten such.
    batches = memory.pack_batches(TMOL, [300_000] * 25, [20_000] * 25, budget_bytes=10**15)
    assert np.bincount(batches).tolist() == [10, 10, 5]


def test_packing_takes_no_structures_and_rejects_impossible_limits():
    assert memory.pack_batches(TMOL, [], [], 10**9).tolist() == []
    with pytest.raises(RunError, match="max_batch is 0"):
        memory.pack_batches(TMOL, [1], [1], 10**9, max_batch=0)
    with pytest.raises(RunError, match=r"ratio is 0\.5"):
        memory.pack_batches(TMOL, [1], [1], 10**9, ratio=0.5)
    with pytest.raises(RunError, match="ratio is nan"):
        memory.pack_batches(TMOL, [1], [1], 10**9, ratio=float("nan"))


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
    assert budget == (18 * 2**30, "cuda", "0.75 of memory.device_gib of 24 GiB")


def test_processes_that_share_a_device_share_its_budget(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML([8 * 2**30]))
    budget = memory.device_budget_bytes(0.75, 0, "cuda", share=3)
    assert budget.bytes == 2 * 2**30
    assert budget.source.endswith("of 1 GPUs of this machine, for each of 3 processes")
    with pytest.raises(RunError, match=r"device\.share is 0: give at least 1"):
        memory.device_budget_bytes(0.75, 0, "cuda", share=0)


@pytest.mark.parametrize("gpus", [[], [2**30]])
@pytest.mark.parametrize("gib", [0, 24])
def test_planned_for_is_the_gpu_unless_there_is_none(monkeypatch, gpus, gib):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML(gpus))
    found = {d: memory.device_budget_bytes(0.5, gib, d).device for d in ("auto", "cpu", "cuda")}
    assert found == {"auto": "cuda" if gpus or gib else "cpu", "cpu": "cpu", "cuda": "cuda"}


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


# How torch 2.13 words them: ATen/cuda/Exceptions.h for the CUDA libraries and the driver, libc10.so
# for the CPU; what NVML's absence makes of it: pytorch/pytorch#112377 and #130486.
OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"),
    torch.AcceleratorError("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in"),
    RuntimeError("CUDA driver error: out of memory"),
    RuntimeError("cudaErrorMemoryAllocation: the API call failed"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError(
        'NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":830,'
        " please report a bug to PyTorch."
    ),
    RuntimeError(
        "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_() INTERNAL ASSERT FAILED at"
        ' "../c10/cuda/CUDACachingAllocator.cpp":963, please report a bug to PyTorch.'
    ),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't"
        " allocate memory: you tried to allocate 1 bytes. Error code 12"
    ),
    RuntimeError("std::bad_alloc"),
    RuntimeError("native scoring: out of memory"),
    MemoryError(),
    np._core._exceptions._ArrayMemoryError((2**60,), np.dtype("u1")),
    pa.ArrowMemoryError("malloc of size 64 failed"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
]
OTHER_ERRORS = [
    RuntimeError("CUDA error: an illegal memory access was encountered"),
    RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be"),
    RuntimeError("CUDA error: misaligned address"),
    RuntimeError("CUDA error: uncorrectable ECC error encountered"),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    RuntimeError('false INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":1'),
    RuntimeError("shape '[2, 3]' is invalid for input of size 5"),
    OSError(errno.ENOENT, "No such file: out of memory"),
    OSError("out of memory of man"),
    ValueError("residue 7: out of memory of man"),
    IndexError("index 12 is out of bounds"),
    KeyError("out of memory"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_words_of_memory_that_ran_out(error):
    assert memory.is_out_of_memory(error)


@pytest.mark.parametrize("error", OTHER_ERRORS, ids=str)
def test_words_of_other_errors(error):
    assert not memory.is_out_of_memory(error)


def test_memory_that_runs_out_for_real():
    with pytest.raises(RuntimeError) as too_much:
        torch.empty(2**60, dtype=torch.uint8)
    assert memory.is_out_of_memory(too_much.value)
    with pytest.raises(MemoryError) as too_much:
        np.empty(2**60, np.uint8)
    assert memory.is_out_of_memory(too_much.value)


def test_the_memory_of_the_cpu_is_the_main_memory():
    assert memory.device_bytes(torch.device("cpu")) // 2 == HALF_OF_MAIN

"""Batches that fit into a device's memory, its budget, and errors that say it ran out."""

import errno
import os
from typing import NamedTuple

import numpy as np

from tmol_plugin.errors import RunError
from tmol_plugin.memory_model import Terms, block_pairs

# TMol numbers the pairs of blocks of all poses of a batch with an int32 and raises an
# OverflowError beyond it (score/common/counting.hh, checked_dispatch_product).
MAX_BLOCK_PAIRS = 2**31 - 1

# Structures of one batch. Larger batches gain little, and what is lost when a process is
# killed, or tried again when a batch fails, grows with them. Not tuned on a GPU.
MAX_BATCH = 256


class Budget(NamedTuple):
    """Device memory that a batch may be expected to take."""

    bytes: int
    device: str  # kind of device that is planned for: cpu or cuda
    source: str  # where the figure comes from, for the log and for people


def pack_batches(
    terms: Terms,
    n_atoms,
    n_residues,
    budget_bytes: int,
    max_batch: int = MAX_BATCH,
    ratio: float = 1.5,
) -> np.ndarray:
    """Put structures into batches of the tmol engine: within the budget, little padding.

    Members are taken from the smallest number of atoms up (ties: in the order given), and join
    the batch of those before them while the batch has at most `max_batch` members, is
    predicted to peak within `budget_bytes`, stays within MAX_BLOCK_PAIRS, and its largest
    member has at most `ratio` times the atoms of its smallest. A structure that exceeds the
    budget alone is a batch of its own: the run tries it.

    Args:
        terms: the memory model's for the peak of the tmol engine.
        n_atoms, n_residues: [n], whole numbers of at least 1, in any order.

    Returns:
        int32 [n]: each member's batch, from 0, in the order given. Batches are numbered from
        the smallest members up.

    Raises:
        RunError: `max_batch` below 1, or `ratio` below 1.
    """
    if max_batch < 1:
        raise RunError(f"max_batch is {max_batch}: a batch needs room for 1 structure")
    if not ratio >= 1:
        raise RunError(f"ratio is {ratio}: the largest of a batch is at least 1 times its smallest")
    n_atoms = np.asarray(n_atoms, np.int64)
    order = np.argsort(n_atoms, kind="stable")
    atoms, blocks = n_atoms[order], np.asarray(n_residues, np.int64)[order]
    counts = np.arange(1, max_batch + 1)
    sorted_batches = np.empty(len(order), np.int32)
    start = batch = 0
    while start < len(order):
        window = slice(start, start + max_batch)
        # Each test holds for the first members of the window and then for no further ones.
        max_atoms, max_blocks = atoms[window], np.maximum.accumulate(blocks[window])
        n, pairs = counts[: len(max_atoms)], block_pairs(max_blocks)
        fits = terms.bytes((n, n * max_atoms, n * max_blocks, n * pairs)) <= budget_bytes
        fits &= n * pairs <= MAX_BLOCK_PAIRS
        fits &= max_atoms <= ratio * max_atoms[0]
        size = max(1, len(fits) if fits.all() else int(np.argmin(fits)))
        sorted_batches[start : start + size] = batch
        start, batch = start + size, batch + 1
    batches = np.empty_like(sorted_batches)
    batches[order] = sorted_batches
    return batches


def pack_native_batches(
    terms: Terms, n_atoms, n_residues, budget_bytes: int, max_batch: int = MAX_BATCH
) -> np.ndarray:
    """Put structures into batches of the native engine, in the order given.

    A batch takes the next member while it has at most `max_batch` and is predicted to peak
    within `budget_bytes`; a structure that exceeds it alone is a batch of its own.

    Args:
        terms: the memory model's for the peak of the native engine.

    Returns:
        int32 [n]: each member's batch, from 0; they ascend.
    """
    atoms, blocks = np.asarray(n_atoms, np.int64), np.asarray(n_residues, np.int64)
    each = terms.bytes((1, atoms, blocks, block_pairs(blocks))) - terms.batch
    ends, room = np.cumsum(each), max(0, budget_bytes - terms.batch)
    batches = np.empty(len(ends), np.int32)
    start = batch = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + room, side="right"))
        end = min(max(end, start + 1), start + max_batch)
        batches[start:end] = batch
        start, batch = end, batch + 1
    return batches


def device_budget_bytes(
    fraction: float, device_gib: float = 0, device: str = "auto", share: int = 1
) -> Budget:
    """Memory that a batch may be expected to take, for planning.

    Args:
        fraction: share of the device's memory, more than 0 and at most 1.
        device_gib: memory of the device in GiB; 0 to ask this machine.
        device: auto, cpu or cuda, as in the config; with "cpu" no GPU is asked.
        share: processes that may use one device at a time; each gets an equal part.

    Returns:
        `fraction` of `device_gib`; else of the smallest GPU that NVML lists; else of half of
        this machine's main memory. Planned for is CUDA, unless `device` is "cpu", or "auto" and
        there is no GPU to ask.

    Raises:
        RunError: `fraction`, `device_gib` or `share` out of range.
    """
    if not 0 < fraction <= 1:
        raise RunError(f"memory.fraction is {fraction}: give more than 0 and at most 1")
    if not device_gib >= 0:
        raise RunError(f"memory.device_gib is {device_gib}: give GiB, or 0 to ask the machine")
    if not share >= 1:
        raise RunError(f"device.share is {share}: give at least 1 process for a device")
    kind = "cpu" if device == "cpu" else "cuda"
    if device_gib > 0:
        total, source = int(device_gib * 2**30), f"memory.device_gib of {device_gib:g} GiB"
    elif device != "cpu" and (gpus := _gpu_bytes()):
        total = min(gpus)
        source = f"{total / 2**30:.1f} GiB of the smallest of {len(gpus)} GPUs of this machine"
    else:
        total = _main_memory_bytes() // 2
        source = f"{total / 2**30:.1f} GiB, half of this machine's main memory"
        kind = "cuda" if device == "cuda" else "cpu"
    shared = f", for each of {share} processes" if share > 1 else ""
    return Budget(int(total * fraction) // share, kind, f"{fraction:g} of {source}{shared}")


def _gpu_bytes() -> list[int]:
    """Total memory of each GPU that NVML lists; none without NVML (nvidia-ml-py) or driver."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return [int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _main_memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def device_bytes(device) -> int:
    """Total memory of a torch device, in bytes: of the GPU, or the main memory."""
    if device.type != "cuda":
        return _main_memory_bytes()
    import torch

    return torch.cuda.get_device_properties(device).total_memory


# In lower case, what torch, the CUDA libraries and the C++ library say when memory runs out.
# CUDA's runtime and driver say "out of memory", and torch "CUDA out of memory".
_OUT_OF_MEMORY = (
    *("out of memory", "cudaerrormemoryallocation", "can't allocate memory", "std::bad_alloc"),
    *("cublas_status_alloc_failed", "cusolver_status_alloc_failed", "cudnn_status_alloc_failed"),
    *("host_allocation_failed", "device_allocation_failed"),  # of cuDNN 9
)
# torch asks NVML for the words of its error when memory ran out; where NVML lacks, as in some
# containers and on Jetson, it says this instead (pytorch/pytorch#112377, #185240).
_OUT_OF_MEMORY_WITHOUT_NVML = ("nvml_success ==", "cudacachingallocator.cpp")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says, in torch's, CUDA's or the host's words, that memory ran out.

    After it a smaller batch can be tried in the same process, unlike after a fault of the device.
    """
    if isinstance(error, MemoryError):  # NumPy's and Arrow's too
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    words = str(error).lower()
    said = any(sign in words for sign in _OUT_OF_MEMORY)
    said = said or all(sign in words for sign in _OUT_OF_MEMORY_WITHOUT_NVML)
    return isinstance(error, RuntimeError) and said

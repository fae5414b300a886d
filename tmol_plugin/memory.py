"""The memory models of the engines, the packing of batches by them, and memory readings.

TMol's model, `predict_bytes`, is for TMol 0.2.0 and has four terms:

    FIXED_BYTES + n_structures * (BYTES_PER_ATOM * max_atoms + BYTES_PER_BLOCK * max_residues
                                  + BYTES_PER_BLOCK_PAIR * max_residues * (max_residues + 1) / 2)

TMol pads each pose of a batch to its largest, so a batch costs as its number times its
largest member: 32 poses, one of 753 residues and 31 of 73, peaked as 32 poses of 753 did.

*Quadratic, from the source.* On CUDA `build_compact_block_neighbors` (score/ljlk/potentials/
ljlk_pose_score.impl.hh) holds one int32 per pose and pair of blocks (diagonal included); the
terms with a cutoff share that list. It is the only tensor of whole-pose scoring that grows
with the square: inter-block bond separations are sparse since 0.2. On the CPU the list holds
neighbours only, so there the term is surplus. It has not been measured, for want of a GPU.

*Linear, measured* on a CPU (2026-11-30, TMol 0.2.0, torch 2.13.0+cpu, 2 threads): VmHWM of a
forked child after `/proc/self/clear_refs`, less its VmRSS at the start, while it prepared n
poses, stacked, rendered and scored them twice (weighted sum; unweighted terms). Rendering
peaks with the blocks (proteins and DNA: 5.3 and 5.5 kB per block), scoring with the atoms as
well, and the more so the more terms run at once, as on CUDA streams. Residuals:

    residues  atoms    n   measured MB  predicted MB  ratio
          24    758   96            80            91   1.14   (1bna, DNA)
          73   1116  128           123           147   1.20
         370   5899   32           153           184   1.20
         753  11992   32           258           344   1.33
         753  11992   64           366           640   1.75   (1 thread)

and 1.2 to 2.1 over 34 batches of 8 to 512 copies of one pose with 1 to 8 threads (some
in tests/test_memory.py). Not in it: what a process holds before its first batch (2.0 GB of host
memory, of which 144 MB are tensors that a GPU would hold), and the CUDA context.

The native engine pads nothing, and its model, `predict_native_bytes`, knows all atoms of a
batch only: NATIVE_FIXED_BYTES + NATIVE_BYTES_PER_ATOM * n_atoms. Measured likewise, with the
poses of the next batch, which are read meanwhile (2026-12-01, 4 threads):

    residues  atoms    n   measured MB  predicted MB
          76   1231   32           7.9          27.9
          76   1231  256          16.9          55.5
         198   3120  256          49.1         103.9
         753  11992    1          6.6          25.2
         753  11992  256          188.7       331.0

Threads and the largest pose hardly count. What a process holds before its first batch is
0.2 GB.
"""

import os
import resource
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tmol_plugin.errors import RunError

FIXED_BYTES = 48_000_000
BYTES_PER_ATOM = 500
BYTES_PER_BLOCK = 2_800
BYTES_PER_BLOCK_PAIR = 4

NATIVE_FIXED_BYTES = 24_000_000
NATIVE_BYTES_PER_ATOM = 100

# TMol numbers the pairs of blocks of all poses of a batch with an int32 and raises an
# OverflowError beyond it (score/common/counting.hh, checked_dispatch_product).
MAX_BLOCK_PAIRS = 2**31 - 1

# Structures of one batch. Larger batches gain little, and what is lost when a process is
# killed, or tried again when a batch fails, grows with them. Not tuned on a GPU.
MAX_BATCH = 256


class Budget(NamedTuple):
    """Device memory that a batch may be expected to take."""

    bytes: int
    source: str  # where the figure comes from, for the log and for people


def predict_bytes(n_structures, max_atoms, max_residues):
    """Peak memory of a batch of the tmol engine, in bytes: poses, stack and scoring.

    Args:
        n_structures: poses of the batch.
        max_atoms: atoms of the pose that has most.
        max_residues: blocks of the pose that has most.

    Each is a whole number, or an array of them of any shapes that broadcast.

    Returns:
        int, or an int64 array. It grows with each argument. See the module's docstring.
    """
    n, atoms, blocks = (np.asarray(x, np.int64) for x in (n_structures, max_atoms, max_residues))
    per_pose = BYTES_PER_ATOM * atoms + BYTES_PER_BLOCK * blocks
    per_pose = per_pose + BYTES_PER_BLOCK_PAIR * _block_pairs(blocks)
    predicted = FIXED_BYTES + n * per_pose
    return int(predicted) if predicted.ndim == 0 else predicted


def predict_native_bytes(n_atoms: int) -> int:
    """Peak memory of a batch of the native engine, in bytes: its poses, those of the next
    batch, and scoring; `n_atoms` are all atoms of the batch."""
    return NATIVE_FIXED_BYTES + NATIVE_BYTES_PER_ATOM * n_atoms


def predict_largest_batch_bytes(n_atoms, n_residues, batches, native: bool = False) -> int:
    """Largest prediction among batches, whose members stand together: all are [n]."""
    starts = np.flatnonzero(np.diff(batches, prepend=-1))
    if native:
        return predict_native_bytes(int(np.add.reduceat(n_atoms, starts, dtype=np.int64).max()))
    counts = np.diff(starts, append=len(batches))
    largest = [np.maximum.reduceat(sizes, starts) for sizes in (n_atoms, n_residues)]
    return int(predict_bytes(counts, *largest).max())


def _block_pairs(blocks):
    return blocks * (blocks + 1) // 2


def pack_batches(
    n_atoms, n_residues, budget_bytes: int, max_batch: int = MAX_BATCH, ratio: float = 1.5
) -> np.ndarray:
    """Put structures into batches that fit the budget and waste little on padding.

    Members are taken from the smallest number of atoms up (ties: in the order given), and join
    the batch of those before them while the batch has at most `max_batch` members, is
    predicted to peak within `budget_bytes`, stays within MAX_BLOCK_PAIRS, and its largest
    member has at most `ratio` times the atoms of its smallest. A structure that exceeds the
    budget alone is a batch of its own: the run tries it.

    Args:
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
        n = counts[: len(max_atoms)]
        fits = predict_bytes(n, max_atoms, max_blocks) <= budget_bytes
        fits &= n * _block_pairs(max_blocks) <= MAX_BLOCK_PAIRS
        fits &= max_atoms <= ratio * max_atoms[0]
        size = max(1, len(fits) if fits.all() else int(np.argmin(fits)))
        sorted_batches[start : start + size] = batch
        start, batch = start + size, batch + 1
    batches = np.empty_like(sorted_batches)
    batches[order] = sorted_batches
    return batches


def pack_native_batches(n_atoms, budget_bytes: int, max_batch: int = MAX_BATCH) -> np.ndarray:
    """Put structures into batches of the native engine, in the order given.

    A batch takes the next member while it has at most `max_batch` and is predicted to peak
    within `budget_bytes`; a structure that exceeds it alone is a batch of its own.

    Returns:
        int32 [n]: each member's batch, from 0; they ascend.
    """
    ends = np.cumsum(n_atoms, dtype=np.int64)
    room = max(0, budget_bytes - NATIVE_FIXED_BYTES) // NATIVE_BYTES_PER_ATOM
    batches = np.empty(len(ends), np.int32)
    start = batch = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        end = int(np.searchsorted(ends, before + room, side="right"))
        end = min(max(end, start + 1), start + max_batch)
        batches[start:end] = batch
        start, batch = end, batch + 1
    return batches


def device_budget_bytes(fraction: float, device_gib: float = 0, device: str = "auto") -> Budget:
    """Memory that a batch may be expected to take, for planning.

    Args:
        fraction: share of the device's memory, more than 0 and at most 1.
        device_gib: memory of the device in GiB; 0 to ask this machine.
        device: the config's `device`; with "cpu" no GPU is asked.

    Returns:
        `fraction` of `device_gib`; else of the smallest GPU that NVML lists; else of half of
        this machine's main memory.

    Raises:
        RunError: `fraction` or `device_gib` out of range.
    """
    if not 0 < fraction <= 1:
        raise RunError(f"memory.fraction is {fraction}: give more than 0 and at most 1")
    if not device_gib >= 0:
        raise RunError(f"memory.device_gib is {device_gib}: give GiB, or 0 to ask the machine")
    if device_gib > 0:
        total, source = int(device_gib * 2**30), f"memory.device_gib of {device_gib:g} GiB"
    elif device != "cpu" and (gpus := _gpu_bytes()):
        total = min(gpus)
        source = f"{total / 2**30:.1f} GiB of the smallest of {len(gpus)} GPUs of this machine"
    else:
        total = _main_memory_bytes() // 2
        source = f"{total / 2**30:.1f} GiB, half of this machine's main memory"
    return Budget(int(total * fraction), f"{fraction:g} of {source}")


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
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    import torch

    return torch.cuda.get_device_properties(device).total_memory


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says, in torch's, CUDA's or the host's words, that memory ran out."""
    words = str(error).lower()
    said = any(
        sign in words
        for sign in ("out of memory", "can't allocate memory", "cublas_status_alloc_failed")
    )
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and said)


def host_rss_bytes() -> int:
    """Resident memory of this process, in bytes; its peak where the system tells only that."""
    return _proc_status_bytes("VmRSS") or _rusage_peak_bytes()


def host_peak_rss_bytes() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return _proc_status_bytes("VmHWM") or _rusage_peak_bytes()


def _proc_status_bytes(field: str) -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024  # "  123 kB", which are KiB
    return None


def _rusage_peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

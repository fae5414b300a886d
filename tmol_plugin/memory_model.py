"""The memory model: what a batch holds once it is built and peaks at, from its sizes.

A batch is predicted to take, in bytes above what the process held before it was stacked,

    batch + structure * n_structures + atom * n_atoms + block * n_blocks
          + block_pair * n_block_pairs

with one set of these coefficients, which are whole numbers of at least 0, for the bytes live
after construction and one for the peak, for each engine and kind of device (`COVERED`). A pose of
n blocks has n (n + 1) / 2 pairs of blocks. What is counted differs with the engine:

- `native` pads nothing: its atoms, blocks and pairs are those of all poses of the batch.
- `tmol` pads each pose of a batch to its largest, so it counts n_structures times the most
  atoms, blocks and pairs of one pose: 32 poses, one of 753 residues and 31 of 73, peak as 32
  poses of 753 do.

The coefficients that are shipped are in memory_model.json beside this file, with the sizes that
they were fitted on and the residuals. Those of the CPU are fitted (`memory_fit`) to what
tests/benchmarks/memory.py measured (2026-12-01, TMol 0.2.0, torch 2.13.0+cpu, x86-64). Peaks:

    engine  residues  atoms    n   measured MB  predicted MB
    native        76   1231    1       3- 5            29
    native        76   1231  256      15-19            47
    native       198   3120  256      35-44            75
    native       753  11992    1      12-19            30
    native       753  11992  256     126-140          204
    tmol          24    758  256     114-144          177    (1bna, DNA)
    tmol          73   1116  512     279-280          410
    tmol         197   3039  256     364-418          529
    tmol         753  11992    1      67-69            87
    tmol         753  11992   64     345-426          519

on 1 and 4 threads natively, and 1 and 2 with TMol; more threads take more, natively as much
each as one large pose. Of 112 rows of TMol the median is predicted 1.2 times its need and none
more than 1.6 times; of 116 native ones, those above 10 MB, 1.9 and 3.4 times. TMol's first batch
allocates 23 MB that stay, and 45 MB more are pages of libraries that each forked process
of the benchmark maps anew: without a fork the 67 MB of one small pose are 29.

Not in the model: what a process holds before its first batch (0.2 GB natively; 2.0 GB with
TMol, of which 144 MB are tensors that a GPU would hold), the CUDA context, and the poses
themselves, which are there before they are stacked: 25 bytes per atom of native ones. The part of
a device that `memory.fraction` leaves free is for these.

*TMol on CUDA has not been measured*, for want of a GPU. What is live is taken to be what it is on
the CPU, with 2 MB for the batch. The peak comes from the CPU's as measured on 2026-11-30, of
poses, stack and scoring together (48 MB, 500 per atom, 2800 per block): rendering peaks with the
blocks, scoring with the atoms as well, and the more so the more terms run at once, as on CUDA
streams. From the source comes the square: `build_compact_block_neighbors`
(score/ljlk/potentials/ljlk_pose_score.impl.hh) holds one int32 per pose and pair of blocks,
diagonal included; the terms with a cutoff share that list. It is the only tensor of whole-pose
scoring that grows so: inter-block bond separations are sparse since 0.2. On the CPU the list holds
neighbours only.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tmol_plugin.errors import RunError

SHIPPED = Path(__file__).with_name("memory_model.json")
# Engine and kind of device of each set of coefficients. Native scoring is on the CPU only.
COVERED = (("native", "cpu"), ("tmol", "cpu"), ("tmol", "cuda"))


class Terms(NamedTuple):
    """Bytes for a batch, and for each structure, atom, block and pair of blocks it counts."""

    batch: int
    structure: int
    atom: int
    block: int
    block_pair: int

    def bytes(self, counted):
        """Bytes of a batch of what `counted` gives; int64 [n] for arrays [n]."""
        return self.batch + sum(each * n for each, n in zip(self[1:], counted, strict=True))


class Counted(NamedTuple):
    """What an engine holds of a batch, padding included; whole numbers, or int64 [n] each."""

    n_structures: int
    n_atoms: int
    n_blocks: int
    n_block_pairs: int


def block_pairs(n_blocks):
    """Pairs of blocks of one pose, each block with itself included."""
    return n_blocks * (n_blocks + 1) // 2


def counted(engine: str, sizes: Mapping) -> Counted:
    """What an engine, native or tmol, holds of a batch of the sizes of `batch_columns`."""
    n = sizes["n_structures"]
    if engine == "native":
        return Counted(n, sizes["n_atoms"], sizes["n_blocks"], sizes["n_block_pairs"])
    blocks = sizes["max_blocks"]
    return Counted(n, n * sizes["max_atoms"], n * blocks, n * block_pairs(blocks))


def batch_columns(prepared: Sequence) -> dict[str, int | str]:
    """The columns of tables.MEMORY that say what a batch is: its engine and its sizes.

    Args:
        prepared: engine.Prepared of each pose, at least one.
    """
    atoms, blocks = [one.n_atoms for one in prepared], [one.n_residues for one in prepared]
    return {
        "engine": "+".join(sorted({one.engine for one in prepared})),
        "n_structures": len(prepared),
        "n_atoms": sum(atoms),
        "max_atoms": max(atoms),
        "n_blocks": sum(blocks),
        "max_blocks": max(blocks),
        "n_block_pairs": sum(map(block_pairs, blocks)),
    }


class Model:
    """A memory model. `content` is what its file holds; see the module's docstring.

    Args:
        content: engine -> kind of device -> `live` and `peak`, each with the fields of Terms,
            and `fit`, which says where they come from.
        source: what to call it in errors.

    Raises:
        RunError: something lacks or is no coefficient.
    """

    def __init__(self, content: Mapping, source: str = "memory.model"):
        self.content = content
        self._terms = {}
        for engine, kind in COVERED:
            for moment in ("live", "peak"):
                place = f"{source}: {engine}.{kind}.{moment}"
                try:
                    given = content[engine][kind][moment]
                    terms = Terms(**given)
                except (TypeError, KeyError) as error:
                    names = ", ".join(Terms._fields)
                    raise RunError(
                        f"{place}: must have {names} and no other key; make the file with"
                        " `python -m tmol_plugin fit-memory`"
                    ) from error
                for name, value in terms._asdict().items():
                    if type(value) is not int or not 0 <= value < 2**40:
                        raise RunError(
                            f"{place}.{name}: is {value!r}, must be a whole number of bytes,"
                            " at least 0 and below 2**40"
                        )
                self._terms[engine, kind, moment] = terms

    @classmethod
    def load(cls, given: str | Mapping) -> "Model":
        """The model of a file; of the shipped one if the name is empty; or of its content.

        Raises:
            RunError: the file cannot be read, or is no memory model.
        """
        if isinstance(given, Mapping):
            return cls(given)
        path = Path(given or SHIPPED)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"memory.model: {path}: cannot be read as JSON: {error}") from error
        return cls(content, str(path))

    def live(self, engine: str, kind: str) -> Terms:
        """Coefficients of the bytes live after construction."""
        return self._terms[engine, kind, "live"]

    def peak(self, engine: str, kind: str) -> Terms:
        """Coefficients of the peak, to the end of scoring."""
        return self._terms[engine, kind, "peak"]

    def predict(self, kind: str, prepared: Sequence) -> tuple[int, int]:
        """Bytes live after construction and peak of a batch, above what was held before it.

        Poses of both engines in one batch cost what each engine's would cost alone.

        Args:
            kind: of the device, cpu or cuda (a torch device's `type`).
            prepared: engine.Prepared of each pose.
        """
        live = peak = 0
        for engine in {one.engine for one in prepared}:
            sizes = batch_columns([one for one in prepared if one.engine == engine])
            held = counted(engine, sizes)
            live += self.live(engine, kind).bytes(held)
            peak += self.peak(engine, kind).bytes(held)
        return live, peak

    def largest_batch_bytes(self, engine: str, kind: str, n_atoms, n_blocks, batches) -> int:
        """Largest peak predicted among batches, whose members stand together: all are [n]."""
        blocks, starts = (
            np.asarray(n_blocks, np.int64),
            np.flatnonzero(np.diff(batches, prepend=-1)),
        )
        sizes = {"n_structures": np.diff(starts, append=len(batches))}
        for name, values in (("atoms", np.asarray(n_atoms, np.int64)), ("blocks", blocks)):
            sizes[f"n_{name}"] = np.add.reduceat(values, starts)
            sizes[f"max_{name}"] = np.maximum.reduceat(values, starts)
        sizes["n_block_pairs"] = np.add.reduceat(block_pairs(blocks), starts)
        return int(self.peak(engine, kind).bytes(counted(engine, sizes)).max())

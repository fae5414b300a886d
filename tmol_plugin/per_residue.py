"""The table `per_residue`: energies of each residue of each structure, if they are asked for.

It has as many rows as all structures have residues, so it is built in arrow and merged
chunk by chunk, and there is no TSV of it.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tmol_plugin import tables
from tmol_plugin.engine import Residues
from tmol_plugin.errors import RunError

FILE = f"{tables.PER_RESIDUE.name}.parquet"


def rows_of(row: dict, residues: Residues, score_types, weights: np.ndarray) -> pa.Table:
    """The rows of one structure; `row` holds its id and model, `weights` are [n_score_types]."""
    weighted = residues.energies * weights
    n = len(weighted)
    names = residues.chains, residues.numbers, residues.names, residues.block_types
    columns = [[row["structure_id"]] * n, [row["model"]] * n, *names, weighted.sum(axis=1)]
    of_type = dict(zip(score_types, weighted.T, strict=True))
    columns += [of_type.get(name, np.zeros(n)) for name in tables.SCORE_TYPES]
    schema = tables.PER_RESIDUE.schema
    arrays = [
        pa.array(np.asarray(column, np.float32) if kind == pa.float32() else column, kind)
        for column, kind in zip(columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def joined(parts: list[pa.Table]) -> pa.Table:
    """The rows of several structures."""
    return pa.concat_tables([tables.PER_RESIDUE.schema.empty_table(), *parts])


def merge(chunk_folders: list[Path], output: Path) -> None:
    """Write the rows of all chunks, in the chunks' order, after checking that none is missing.

    Raises:
        RunError: if a chunk's rows are not those of the residues of its scores.
    """

    def write(temporary: str) -> None:
        schema = tables.PER_RESIDUE.schema
        with pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for folder in chunk_folders:
                scores = tables.read_parquet(folder / "scores.parquet", tables.SCORES)
                rows = pq.read_table(folder / FILE)
                _check(folder, scores, rows)
                writer.write_table(rows.cast(schema))

    tables.write_atomically(output, write)


def _check(folder: Path, scores, rows: pa.Table) -> None:
    n_residues = scores["n_residues"].to_numpy(np.int64)
    sound = rows.schema.names == tables.PER_RESIDUE.schema.names
    for name in ("structure_id", "model"):
        expected = np.repeat(scores[name].to_numpy(object), n_residues)
        sound = sound and np.array_equal(rows[name].to_numpy().astype(object), expected)
    if not sound:
        raise RunError(
            f"chunk {folder.name}: {FILE} does not hold the residues of its scores; remove"
            f" {folder} and run again"
        )

"""The tables of a run: columns, types, units; writing whole files or none; verifying them.

Every table that a stage hands to the next, and every table that a user gets, is defined
here and nowhere else. Parquet is for machines, TSV for people; both hold the same rows.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tmol_plugin.errors import RunError, StructureError

# TMol's score types under TMol's names, in the order of its beta2016 score function.
SCORE_TYPES = (
    *("fa_ljatr", "fa_ljrep", "fa_lk", "fa_elec", "hbond"),
    *("cart_lengths", "cart_angles", "cart_torsions", "cart_impropers", "cart_hxltorsions"),
    *("disulfide", "rama", "omega", "dunbrack_rot", "dunbrack_rotdev", "dunbrack_semirot"),
    *("lk_ball_iso", "lk_ball", "lk_bridge", "lk_bridge_uncpl", "ref"),
    *("gen_torsions", "na_torsion", "na_torsion_well", "metal_coordination"),
)

STAGES = ("scan", "plan", "prepare", "score")


@dataclass(frozen=True)
class Table:
    """A table's columns: name -> (arrow type, what it holds, with its unit)."""

    name: str
    columns: dict[str, tuple[pa.DataType, str]]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, kind) for name, (kind, _) in self.columns.items()])

    def arrow(self, rows: Iterable[dict]) -> pa.Table:
        """Rows as an arrow table with exactly this table's columns; absent values are null."""
        return pa.Table.from_pylist(list(rows), schema=self.schema)

    def frame(self, rows: Iterable[dict]) -> pd.DataFrame:
        """Rows as a data frame with exactly this table's columns; absent values are null."""
        return self.arrow(rows).to_pandas(types_mapper=_PANDAS_TYPES.get)


# Nullable pandas types, so that ids stay strings and integers stay integers beside nulls.
_PANDAS_TYPES = {
    pa.string(): pd.StringDtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
}

_KEY = {
    "structure_id": (pa.string(), "the sheet's id, else the path relative to the common root"),
    "path": (pa.string(), "the file, as the config or sheet names it"),
    "model": (pa.int32(), "model number in the file, from 1"),
}
_WHY = {
    "stage": (pa.string(), "where it failed: " + ", ".join(STAGES)),
    "reason": (pa.string(), "one of errors.REASONS"),
    "message": (pa.string(), "what is wrong, with residue, atom or line"),
    "remedy": (pa.string(), "what to do"),
}
_ENERGIES = {
    "total": (pa.float64(), "sum of the weighted score types, in TMol energy units"),
    **{name: (pa.float64(), "in TMol energy units") for name in SCORE_TYPES},
}
_SCORED = {
    **_KEY,
    "n_residues": (pa.int32(), "blocks of the pose"),
    "n_atoms": (pa.int32(), "atoms of the pose, hydrogens included"),
    "engine": (pa.string(), "native or tmol: what scored it"),
    "hydrogens": (pa.string(), "keep or optimize, as in the config"),
    "parameters_id": (pa.string(), "id of the parameter database and score function"),
    "chunk": (pa.string(), "id of the chunk that scored it"),
    "notes": (pa.string(), "what was dropped, renamed, built or chosen, as name=count"),
}

_HELD = "allocated by torch on the device (CUDA), or resident memory of the process (CPU)"

INDEX = Table(
    "index",
    {
        **_KEY,
        "sha256": (pa.string(), "of the file as it stands on disk"),
        "n_residues": (pa.int32(), "residues that will be scored"),
        "n_heavy_atoms": (pa.int32(), "atoms that are not hydrogen, in the file"),
        "n_atoms": (pa.int32(), "estimate of the atoms of the pose, hydrogens included"),
        "n_chains": (pa.int32(), "chains, broken at TER and where the id changes"),
        "chemistry": (pa.string(), "protein, protein+nucleic acid, protein+ligand, ..."),
        "unrecognized": (pa.string(), "residue names without parameters, comma-separated"),
        "missing_atoms": (pa.string(), "heavy atoms to rebuild, as residue: atoms; ..."),
        "notes": (pa.string(), "what the reading dropped, renamed or chose, as name=count"),
        "extra": (pa.string(), "further columns of the sheet, as a JSON object"),
        **_WHY,
    },
)
FAILURES = Table("failures", {**_KEY, **_WHY})
SCORES = Table("scores", {**_SCORED, **_ENERGIES})
SCORES_UNWEIGHTED = Table("scores_unweighted", {**_SCORED, **_ENERGIES})
# Only if the config asks for it: as many rows as all structures have residues.
PER_RESIDUE = Table(
    "per_residue",
    {
        "structure_id": _KEY["structure_id"],
        "model": _KEY["model"],
        "chain": (pa.string(), "chain, as the file has it"),
        "residue_number": (pa.string(), "number with insertion code, as the file has it"),
        "residue_name": (pa.string(), "name of the residue in files"),
        "block_type": (pa.string(), "TMol's name of what it was scored as"),
        "total": (pa.float32(), "sum of the weighted score types, in TMol energy units"),
        **{
            name: (pa.float32(), "weighted, a pair's halved between its residues")
            for name in SCORE_TYPES
        },
    },
)
MEMORY = Table(
    "memory",
    {
        "chunk": (pa.string(), "id of the chunk"),
        "process": (pa.int32(), "of those that scored the chunk one after the other, from 1"),
        "batch": (pa.int32(), "batch within the chunk, from 0"),
        "split": (pa.int32(), "how often the batch was halved after running out of memory"),
        "outcome": (pa.string(), "scored, or the reason why it was not (halved, if more than one)"),
        "engine": (pa.string(), "what scored it: native, tmol, or native+tmol"),
        "device": (pa.string(), "cpu or cuda"),
        "n_structures": (pa.int32(), "poses of the batch"),
        "n_atoms": (pa.int64(), "atoms of all its poses"),
        "max_atoms": (pa.int32(), "atoms of the pose that has most"),
        "n_blocks": (pa.int64(), "blocks of all its poses"),
        "max_blocks": (pa.int32(), "blocks of the pose that has most"),
        "n_block_pairs": (
            pa.int64(),
            "pairs of blocks of one pose, each with itself too: n (n + 1) / 2, of all its poses",
        ),
        "predicted_live_bytes": (pa.int64(), "by the memory model: live_bytes - floor_bytes"),
        "predicted_peak_bytes": (pa.int64(), "by the memory model: peak_bytes - floor_bytes"),
        "floor_bytes": (pa.int64(), f"before the batch was stacked: {_HELD}"),
        "live_bytes": (pa.int64(), f"after construction: {_HELD}"),
        "peak_bytes": (pa.int64(), f"largest from floor to the end of scoring: {_HELD}"),
        "incremental_peak_bytes": (pa.int64(), "peak_bytes - live_bytes"),
        "reserved_bytes": (pa.int64(), "held by torch's allocator after scoring (CUDA)"),
        "device_used_bytes": (pa.int64(), "used on the device by all processes (CUDA, by NVML)"),
        "host_rss_bytes": (pa.int64(), "resident memory of the process after scoring"),
        "host_peak_rss_bytes": (pa.int64(), "largest resident memory of the process so far"),
    },
)
TIMING = Table(
    "timing",
    {
        "chunk": (pa.string(), "id of the chunk"),
        "engine": (pa.string(), "engine of the chunk, native or tmol"),
        "device": (pa.string(), "cpu, or the name of the GPU"),
        "device_uuid": (pa.string(), "of the GPU that was leased; null on the CPU"),
        "hostname": (pa.string(), "machine that scored it"),
        "threads": (pa.int32(), "CPU threads it was given"),
        "n_scored": (pa.int32(), "structures scored"),
        "n_failed": (pa.int32(), "structures that failed in the chunk"),
        "n_processes": (pa.int32(), "processes that scored it, one after the other"),
        "floor_rise_bytes": (
            pa.int64(),
            "by which each batch raised what its process holds; 0: no leak; null: too few batches",
        ),
        "lease_started_at": (pa.float64(), "UTC, seconds since 1970: the GPU was this job's"),
        "lease_ended_at": (pa.float64(), "UTC, seconds since 1970: it was let go"),
        "lease_wait_seconds": (pa.float64(), "waiting for the GPU"),
        "startup_seconds": (pa.float64(), "imports and device, of all processes"),
        "parameters_seconds": (pa.float64(), "parameter database and score function"),
        "preparation_seconds": (pa.float64(), "files to poses, if nothing was scored meanwhile"),
        "scoring_seconds": (pa.float64(), "stacking, rendering and scoring, results on the host"),
        "writing_seconds": (pa.float64(), "writing the chunk's tables"),
        "started_at": (pa.float64(), "UTC, seconds since 1970"),
        "ended_at": (pa.float64(), "UTC, seconds since 1970"),
    },
)

CHUNKS = Table(
    "chunks",
    {
        "chunk": (pa.string(), "id, from the content of its members and the settings"),
        "engine": (pa.string(), "native or tmol: what prepares and scores it"),
        "bucket": (pa.string(), "smallest-largest atom count of its bucket"),
        "n_structures": (pa.int32(), "structures"),
        "n_batches": (pa.int32(), "batches"),
        "estimated_minutes": (pa.float64(), "expected run time, without start-up"),
        "estimated_bytes": (pa.int64(), "expected device memory of its largest batch"),
    },
)
MEMBERS = Table(
    "members",
    {
        **_KEY,
        "sha256": (pa.string(), "the file must still have this content when it is scored"),
        "n_residues": (pa.int32(), "from the scan"),
        "n_atoms": (pa.int32(), "estimate from the scan"),
        "batch": (pa.int32(), "batch within the chunk, from 0"),
        "engine_reason": (pa.string(), "why upstream TMol is its engine; empty if native is"),
    },
)

# The tables that every chunk writes, and that merge joins.
CHUNK_TABLES = (SCORES, SCORES_UNWEIGHTED, FAILURES, MEMORY, TIMING)
# Names that a sheet's further columns, which merge adds to the tables, may not have.
RESERVED_COLUMNS = frozenset(SCORES.columns) | frozenset(FAILURES.columns)


_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


def escape(text: str) -> str:
    """`text` as tables hold it: one line, no tab, valid Unicode; `unescape` undoes it.

    File names may hold anything; those of bytes that are not UTF-8 have surrogates here.
    """
    text = re.sub(r"[\\\t\n\r]", lambda found: _ESCAPES[found[0]], text)
    return re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def unescape(text: str) -> str:
    """The text that `escape` made `text` of."""

    def plain(found):
        code = found[1]
        if code[0] == "x":
            return chr(0xDC00 + int(code[1:], 16))
        return {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}[code]

    return re.sub(r"\\(x[0-9a-f]{2}|[\\tnr])", plain, text)


def failure_row(row: dict, stage: str, error: StructureError) -> dict:
    """The failures row of `error` for the input `row`."""
    if stage not in STAGES:
        raise ValueError(f"not a stage: {stage!r}")
    message = error.message.encode("utf-8", "backslashreplace").decode()
    message = " | ".join(line.strip() for line in message.splitlines() if line.strip())
    why = {"reason": error.reason, "message": message, "remedy": error.remedy}
    return {name: row[name] for name in _KEY} | {"stage": stage} | why


def write_atomically(path: str | Path, write: Callable[[str], None]) -> None:
    """Run `write(temporary_path)`, sync the file and rename it to `path`: whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(temporary)
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        # mkstemp makes files for the owner alone; results belong to whoever may read the folder.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def write_text(path: str | Path, text: str) -> None:
    """Write a text file (UTF-8), whole or not at all."""
    write_atomically(path, lambda temporary: Path(temporary).write_text(text, encoding="utf-8"))


def write_json(path: str | Path, value) -> None:
    """Write JSON with sorted keys, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def write_parquet(path: str | Path, table: Table, frame: pd.DataFrame | pa.Table) -> None:
    """Write a table's frame as Parquet, with the table's columns and types."""
    arrow = frame
    if not isinstance(arrow, pa.Table):
        arrow = pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False)
    # Without pandas' metadata the bytes depend on the rows and on nothing else.
    arrow = arrow.replace_schema_metadata(None)
    write_atomically(path, lambda temporary: pq.write_table(arrow, temporary, compression="zstd"))


def read_parquet(path: str | Path, table: Table) -> pd.DataFrame:
    """Read a table's Parquet file; raises RunError if its columns are not the table's."""
    try:
        arrow = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise RunError(f"{path}: cannot be read as a {table.name} table: {error}") from error
    if arrow.schema.names != table.schema.names:
        raise RunError(
            f"{path}: has columns {arrow.schema.names}, a {table.name} table has"
            f" {table.schema.names}; it comes from another version: remove it and run again"
        )
    return arrow.to_pandas(types_mapper=_PANDAS_TYPES.get)


def write_tsv(path: str | Path, frame: pd.DataFrame) -> None:
    """Write a frame as TSV; energies and times with six decimals."""
    write_atomically(
        path,
        lambda temporary: frame.to_csv(
            temporary, sep="\t", index=False, float_format="%.6f", lineterminator="\n"
        ),
    )


def read_tsv(path: str | Path, table: Table) -> pd.DataFrame:
    """Read a table's TSV; ids such as NA, 007 and 1e5 stay the strings they are."""
    strings = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    if list(strings.columns) != table.schema.names:
        raise RunError(f"{path}: has columns {list(strings.columns)}, not {table.schema.names}")
    types = {name: kind for name, (kind, _) in table.columns.items()}
    for name, kind in types.items():
        if not pa.types.is_string(kind):
            strings[name] = pd.to_numeric(strings[name]).astype(kind.to_pandas_dtype())
    return strings


def file_sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(value, length: int = 12) -> str:
    """A short id of any JSON-able value: the same on every machine and in every process."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]

"""The tables of a chunk, from what its workers finished; last done.json, which vouches for them."""

import os
import socket
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from tmol_plugin import parts, per_residue, provenance, tables
from tmol_plugin.errors import RETRIED, RunError
from tmol_plugin.memory_leak import floor_rise_bytes


def write(
    folder: Path, members: pd.DataFrame, found: parts.Found, plan: dict, timing: dict
) -> None:
    """Write the tables of a chunk into its folder, and done.json.

    Rows are in the order of the members' batches, whatever order they were finished in.

    Args:
        members: tables.MEMBERS of the chunk.
        plan: run.json of the plan: `settings`, `parameters_id` and `config`.
        timing: columns of tables.TIMING that the supervisor knows.

    Raises:
        RunError: a member is not finished, or one that is none is.
    """
    began = time.perf_counter()
    wanted = [table for table in tables.CHUNK_TABLES if table is not tables.TIMING]
    if plan["config"]["outputs"]["per_residue"]:
        wanted.append(tables.PER_RESIDUE)
    made = _in_order(members, found)
    for name in ("done.json", per_residue.FILE):
        (folder / name).unlink(missing_ok=True)
    for table in wanted:
        tables.write_parquet(folder / f"{table.name}.parquet", table, made[table.name])
    row = timing | {
        "chunk": folder.name,
        "engine": "native" if members["engine_reason"].fillna("").eq("").all() else "tmol",
        "hostname": socket.gethostname(),
        "n_scored": made["scores"].num_rows,
        "n_failed": made["failures"].num_rows,
        "n_processes": found.n_processes,
        "floor_rise_bytes": _floor_rise_bytes(made["memory"].to_pylist()),
        "ended_at": time.time(),
    }
    seconds = dict(found.seconds)
    seconds["writing"] = seconds.get("writing", 0) + time.perf_counter() - began
    row |= {f"{part}_seconds": value for part, value in seconds.items()}
    made["timing"] = tables.TIMING.arrow([row])
    tables.write_parquet(folder / "timing.parquet", tables.TIMING, made["timing"])
    wanted.append(tables.TIMING)
    files = {table.name: folder / f"{table.name}.parquet" for table in wanted}
    reasons = set(made["failures"]["reason"].to_pylist())
    done = {
        "chunk": folder.name,
        "retry": bool(reasons & RETRIED),
        "fingerprint": parts.identity_of(plan)["fingerprint"],
        "rows": {table.name: made[table.name].num_rows for table in wanted},
        "sha256": {name: tables.file_sha256(path) for name, path in files.items()},
        "machine": provenance.machine(),
        "process": os.getpid(),
    }
    tables.write_json(folder / "done.json", done)


def _floor_rise_bytes(rows: list[dict]) -> int | None:
    """The largest of the processes'; None if none scored enough batches to tell."""
    processes = sorted({row["process"] for row in rows})
    of_each = ([row for row in rows if row["process"] == process] for process in processes)
    rises = [rise for one in of_each if (rise := floor_rise_bytes(one)) is not None]
    return max(rises, default=None)


def _in_order(members: pd.DataFrame, found: parts.Found) -> dict[str, pa.Table]:
    """The tables found, their rows in the order of the members' batches."""
    rows = members.sort_values("batch", kind="stable").to_dict("records")
    order = {parts.key_of(row): position for position, row in enumerate(rows)}
    if astray := sorted(order.keys() ^ found.ended):
        raise RunError(
            f"{len(astray)} structures are not both in the chunk and finished, first {astray[0]}:"
            " report this, with the chunk's folder"
        )
    made = {}
    for name, table in found.tables.items():
        if name != tables.MEMORY.name:
            positions = np.array([order[key] for key in parts.keys_in(table)], np.int64)
            table = table.take(np.argsort(positions, kind="stable"))
        made[name] = table.combine_chunks()
    return made

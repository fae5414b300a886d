"""Part files: what is finished of a chunk, appended batch by batch by the process that scores it.

Each process appends to a file of its own, frame after frame, and says in a frame what it
begins before it begins it. So whoever comes after knows what is finished, from any file,
and what a process that died had in hand, from its own. A frame counts if it is whole: what
a killed process left half-written, or a disk altered, ends the file.
"""

import hashlib
import json
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from tmol_plugin import provenance, tables
from tmol_plugin.errors import RunError

TABLES = {t.name: t for t in (*tables.CHUNK_TABLES, tables.PER_RESIDUE) if t != tables.TIMING}

Key = tuple[str, int]  # structure_id, model

_HEAD = struct.Struct("<Q16s")  # length and digest of what follows


def key_of(row: dict) -> Key:
    """What a member of a chunk is known by."""
    return row["structure_id"], int(row["model"])


def identity_of(plan: dict) -> dict:
    """What decides the rows of a chunk, of the plan's run.json and this environment.

    Parts of another identity do not count.
    """
    fingerprint = provenance.fingerprint(plan["settings"], plan["parameters_id"])
    return {"fingerprint": fingerprint, "per_residue": plan["config"]["outputs"]["per_residue"]}


class PartWriter:
    """Appends to a new part file.

    Args:
        path: the file; it must not exist.
        identity: as `identity_of` has it.

    Raises (also its methods):
        RunError: the file cannot be written.
    """

    def __init__(self, path: Path, identity: dict):
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - `close` closes it
        except OSError as error:
            raise self._not_written(error) from error
        self._append({"kind": "identity", "identity": identity})

    def begin(self, rows: Iterable[dict]) -> None:
        """Say which members (tables.MEMBERS) are taken in hand."""
        self._append({"kind": "begin", "keys": [key_of(row) for row in rows]})

    def finish(
        self,
        rows: dict[str, list[dict]],
        residues: Iterable[pa.Table] = (),
        seconds: dict[str, float] | None = None,
    ) -> None:
        """Append rows by table, residues' rows, and the seconds that they took by part of work.

        A member is finished with its row in `scores` or `failures`.
        """
        made = {name: TABLES[name].arrow(of_table) for name, of_table in rows.items() if of_table}
        if residues := list(residues):
            made[tables.PER_RESIDUE.name] = pa.concat_tables(residues)
        streams = {name: _to_bytes(table) for name, table in made.items()}
        head = {"kind": "rows", "seconds": dict(seconds or {})}
        head["tables"] = {name: len(stream) for name, stream in streams.items()}
        self._append(head, *streams.values())

    def fault(self, words: str) -> None:
        """Leave the words of an error that ends the process."""
        self._append({"kind": "fault", "words": words})

    def close(self) -> None:
        self._file.close()

    def _append(self, head: dict, *streams: bytes) -> None:
        body = b"\n".join([json.dumps(head).encode(), b"".join(streams)])
        frame = _HEAD.pack(len(body), _digest(body)) + body
        try:
            while frame:  # a full disk takes a part, then nothing
                frame = frame[self._file.write(frame) :]
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: OSError) -> RunError:
        return RunError(
            f"{self._path}: cannot be written: {error.strerror or error}; mend that (room on the"
            " disk, permissions) and run again: what is finished is kept"
        )


@dataclass
class Found:
    """What part files of one identity hold.

    tables: by name, rows in the order in which they were finished; no member is in it twice.
    ended: the members finished.
    in_hand: by file name, members begun in it and finished in none.
    words: by file name, the words of the error that ended its process.
    seconds: by part of the work, of all processes.
    """

    tables: dict[str, pa.Table] = field(default_factory=dict)
    ended: set[Key] = field(default_factory=set)
    in_hand: dict[str, list[Key]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    seconds: Counter = field(default_factory=Counter)
    n_processes: int = 0


def read(folder: Path, identity: dict) -> Found:
    """All that the part files of a folder hold; those of another identity are passed over."""
    found, parts = Found(), {name: [table.schema.empty_table()] for name, table in TABLES.items()}
    begun: dict[str, list[Key]] = {}
    for path in sorted(folder.glob("*.part")):
        frames = _frames(path)
        head, _ = next(frames, ({}, b""))
        if head.get("identity") != identity:
            continue
        for head, payload in frames:
            if head["kind"] == "begin":
                begun.setdefault(path.name, []).extend(map(tuple, head["keys"]))
            elif head["kind"] == "fault":
                found.words[path.name] = head["words"]
            else:
                _add_rows(head, payload, parts, found.ended)
                found.seconds.update(head["seconds"])
                found.n_processes += "startup" in head["seconds"]
    for name, keys in begun.items():
        found.in_hand[name] = [key for key in dict.fromkeys(keys) if key not in found.ended]
    found.tables = {name: pa.concat_tables(of_table) for name, of_table in parts.items()}
    return found


def _add_rows(head: dict, payload: bytes, parts: dict[str, list[pa.Table]], ended: set) -> None:
    made, start = {}, 0
    for name, length in head["tables"].items():
        made[name] = pa.ipc.open_stream(payload[start : start + length]).read_all()
        start += length
    keys = {
        key
        for name in (tables.SCORES.name, tables.FAILURES.name)
        if name in made
        for key in keys_in(made[name])
    }
    # Two processes may have finished the same member, if one outlived the run that began it.
    known = keys & ended
    for name, table in made.items():
        if known and name != tables.MEMORY.name:
            table = table.filter([key not in known for key in keys_in(table)])
        parts[name].append(table)
    ended |= keys


def keys_in(table: pa.Table) -> list[Key]:
    """The key of each row."""
    return list(zip(table["structure_id"].to_pylist(), table["model"].to_pylist(), strict=True))


def _frames(path: Path) -> Iterator[tuple[dict, bytes]]:
    """Head and payload of each whole frame, up to the first that is not."""
    with open(path, "rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            length, digest = _HEAD.unpack(head)
            body = file.read(min(length, path.stat().st_size))
            if len(body) != length or _digest(body) != digest:
                return
            words, _, payload = body.partition(b"\n")
            yield json.loads(words), payload


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()

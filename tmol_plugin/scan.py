"""Stage `scan`: size and chemistry of each structure, or the reason it cannot be scored.

Whatever is wrong with a file is found here, on a CPU, before any GPU is used.
"""

import json
from collections.abc import Iterator

from tmol_plugin import heavy_atoms, native, tables
from tmol_plugin.errors import StructureError
from tmol_plugin.inputs import Row, read_manifest
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source, reasoned
from tmol_plugin.structure import read_plain


def run(manifest: str, output: str, models: str, policy: Policy) -> None:
    """Scan the structures of a manifest and write their index rows, in the manifest's order."""
    rows = [index for row in read_manifest(manifest) for index in scan_rows(row, models, policy)]
    tables.write_parquet(output, tables.INDEX, tables.INDEX.frame(rows))


def scan_rows(row: Row, models: str, policy: Policy) -> Iterator[dict]:
    """The index rows of one input: one per model that is asked for."""
    extra = {tables.escape(name): tables.escape(value) for name, value in row.extra.items()}
    key = {
        "structure_id": tables.escape(row.structure_id),
        "path": tables.escape(row.path),
        "model": row.model or 1,
        "extra": json.dumps(extra, ensure_ascii=False),
    }
    try:
        source = Source(row.path)
        if row.model is not None:
            wanted = [row.model]
        elif models == "all":
            wanted = source.models
        elif plain := _summary(source, source.first_model):
            yield key | {"model": source.first_model} | plain
            return
        else:
            wanted = source.models[:1]
    except StructureError as error:
        yield key | tables.failure_row(key, "scan", error)
        return
    for model in wanted:
        key["model"] = model
        yield key | (_summary(source, model) or _scan_model(source, key, policy))


def _summary(source: Source, model: int | None) -> dict | None:
    """A row's columns as the native library reads a model; None if that takes more care."""
    try:
        with reasoned(source.path):
            return _plain_row(source, model) if model else None
    except StructureError:
        return None


def _plain_row(source: Source, model: int) -> dict | None:
    try:
        row = heavy_atoms.summary(*read_plain(source, model))
    except native.NotPlain:
        return None
    row |= {"sha256": source.sha256, "unrecognized": "", "missing_atoms": ""}
    return row | {"notes": format_notes(row["notes"])}


def _scan_model(source: Source, key: dict, policy: Policy) -> dict:
    found = {"sha256": source.sha256}
    try:
        structure = read_structure(source, key["model"], policy)
    except StructureError as error:
        return found | tables.failure_row(key, "scan", error)
    missing = (
        f"{structure.residues[index].label}: {' '.join(atoms)}"
        for index, atoms in structure.missing.items()
    )
    return found | {
        "n_residues": len(structure.residues),
        "n_heavy_atoms": structure.n_heavy_atoms,
        "n_atoms": structure.n_atoms,
        "n_chains": len(set(structure.chain_of)),
        "chemistry": structure.chemistry,
        "unrecognized": ",".join(structure.unrecognized),
        "missing_atoms": "; ".join(missing),
        "notes": format_notes(structure.notes),
    }


def format_notes(notes) -> str:
    """What was dropped, renamed, built or chosen: name=value, sorted by name, zeros left out."""
    return " ".join(f"{name}={value}" for name, value in sorted(notes.items()) if value)

"""Stage `merge`: the chunks' tables into the final ones, after checking that nothing is lost.

Only what the plan names is merged, only if its done.json vouches for it, and only if all
of it has one fingerprint. Every input row must end in exactly one of scores and failures.
"""

import json
from pathlib import Path

import pandas as pd

from tmol_plugin import per_residue, provenance, tables
from tmol_plugin.errors import RunError
from tmol_plugin.inputs import read_manifest

_KEY = ["structure_id", "model"]


def run(
    manifest: str, index_files: list[str], plan_folder: str, chunks_folder: str, output: str
) -> dict[str, int]:
    """Merge a run's chunks into the tables of `output`; returns how many were scored and failed.

    Raises:
        RunError: if a chunk is missing, altered or of another run, or a row is lost or twice.
    """
    plan_path, out = Path(plan_folder), Path(output)
    plan = json.loads((plan_path / "run.json").read_text(encoding="utf-8"))
    chunks = tables.read_tsv(plan_path / "chunks.tsv", tables.CHUNKS)
    folders = [Path(chunks_folder) / chunk for chunk in chunks["chunk"]]
    wants_residues = plan["config"]["outputs"]["per_residue"]
    extra_tables = (tables.PER_RESIDUE,) if wants_residues else ()
    done = [_verified(folder, (*tables.CHUNK_TABLES, *extra_tables)) for folder in folders]
    _check_fingerprints(done, plan["fingerprint"])

    frames = {}
    for table in tables.CHUNK_TABLES:
        parts = [tables.read_parquet(f / f"{table.name}.parquet", table) for f in folders]
        frames[table.name] = _concatenated(table, parts)
    planned = tables.read_parquet(plan_path / "failures.parquet", tables.FAILURES)
    frames["failures"] = _concatenated(tables.FAILURES, [planned, frames["failures"]])

    index = _concatenated(
        tables.INDEX, [tables.read_parquet(path, tables.INDEX) for path in index_files]
    )
    order = _input_order(manifest, index)
    _check_nothing_lost(order, frames)
    extra = _extra_columns(index)
    for name in ("scores", "scores_unweighted", "failures"):
        # The path is the index's: a file that was moved keeps its score, not its old place.
        frame = _in_order(frames[name].drop(columns="path"), order)
        frames[name] = frame.merge(extra, how="left", on=_KEY)
    for name in ("memory", "timing"):
        frames[name] = frames[name].sort_values(
            ["chunk", "batch", "split"] if name == "memory" else ["chunk"], kind="stable"
        )
    if wants_residues:
        per_residue.merge(folders, out / per_residue.FILE)
    else:  # one of a run before is not of this one
        (out / per_residue.FILE).unlink(missing_ok=True)
    for table in tables.CHUNK_TABLES:
        _write(out, table, frames[table.name], extra)
    counts = {"scored": len(frames["scores"]), "failed": len(frames["failures"])}
    described = plan | {
        "counts": counts,
        "machines": _machines(done),
        "merged_on": provenance.machine(),
    }
    described["devices"] = sorted(set(frames["timing"]["device"]))
    tables.write_json(out / "run.json", described)
    return counts


def _verified(folder: Path, expected: tuple[tables.Table, ...]) -> dict:
    """The done.json of a chunk whose files are as it says."""
    path = folder / "done.json"
    try:
        done = json.loads(path.read_text(encoding="utf-8"))
        if done["chunk"] != folder.name:
            raise ValueError(f"done.json is that of chunk {done['chunk']}")
        if not {"fingerprint", "machine"} <= set(done):
            raise ValueError("done.json lacks the fingerprint or the machine")
        for table in expected:
            file = folder / f"{table.name}.parquet"
            if tables.file_sha256(file) != done["sha256"][table.name]:
                raise ValueError(f"{file.name} is not the file that done.json vouches for")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"chunk {folder.name}: {error}; remove {folder} and run again") from error
    return done


def _check_fingerprints(done: list[dict], expected: str) -> None:
    strangers = [d["chunk"] for d in done if d["fingerprint"] != expected]
    if strangers:
        raise RunError(
            "chunks scored with other versions, settings or parameters than the plan's:"
            f" {', '.join(strangers)}; remove their folders and run again in one environment"
        )


def _concatenated(table: tables.Table, parts: list[pd.DataFrame]) -> pd.DataFrame:
    parts = [part for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else table.frame([])


def _input_order(manifest: str, index: pd.DataFrame) -> pd.DataFrame:
    """Keys of all index rows in the input's order, models of one file by number."""
    position = {}
    for number, row in enumerate(read_manifest(manifest)):
        position[tables.escape(row.structure_id), row.model] = number
    keys = index[_KEY].copy()
    keys["position"] = [
        position.get((name, model), position.get((name, None), -1))
        for name, model in zip(keys["structure_id"], keys["model"], strict=True)
    ]
    if (keys["position"] < 0).any():
        stranger = keys.loc[keys["position"] < 0, "structure_id"].iloc[0]
        raise RunError(f"the index holds {stranger!r}, which the input does not; scan again")
    lost = set(position.values()).difference(keys["position"])
    if lost:
        name = next(name for (name, _), number in position.items() if number in lost)
        raise RunError(f"the index lacks {len(lost)} inputs, first {name!r}; scan again")
    keys = keys.sort_values(["position", "model"], kind="stable", ignore_index=True)
    return keys.drop(columns="position").reset_index(names="row")


def _check_nothing_lost(order: pd.DataFrame, frames: dict[str, pd.DataFrame]) -> None:
    """Every input row is in exactly one of scores and failures; scores in both scores tables."""
    ended = pd.concat([frames["scores"][_KEY], frames["failures"][_KEY]], ignore_index=True)
    for what, keys in (("in the input", order[_KEY]), ("among scores and failures", ended)):
        twice = keys[keys.duplicated()]
        if len(twice):
            raise RunError(f"{_named(twice.iloc[0])} is {what} more than once")
    joined = order[_KEY].merge(ended, how="outer", on=_KEY, indicator=True)
    astray = joined[joined["_merge"] != "both"]
    if len(astray):
        row = astray.iloc[0]
        where = "the input only" if row["_merge"] == "left_only" else "the results only"
        raise RunError(f"{len(astray)} rows are astray; first {_named(row)}, in {where}")
    scores, unweighted = frames["scores"], frames["scores_unweighted"]
    if not scores[_KEY].equals(unweighted[_KEY]):
        raise RunError("scores and scores_unweighted hold different rows")


def _named(row: pd.Series) -> str:
    return f"{row['structure_id']!r} model {int(row['model'])}"


def _extra_columns(index: pd.DataFrame) -> pd.DataFrame:
    """Path and the sheet's further columns, one row per index row, as strings."""
    extra = pd.DataFrame([json.loads(text) for text in index["extra"]], index=index.index)
    extra = extra.astype(pd.StringDtype()) if len(extra.columns) else extra
    return pd.concat([index[[*_KEY, "path"]], extra], axis=1)


def _in_order(frame: pd.DataFrame, order: pd.DataFrame) -> pd.DataFrame:
    ordered = frame.merge(order, how="left", on=_KEY).sort_values("row", kind="stable")
    return ordered.drop(columns="row").reset_index(drop=True)


def _write(out: Path, table: tables.Table, frame: pd.DataFrame, extra: pd.DataFrame) -> None:
    columns = dict(table.columns)
    if table in (tables.SCORES, tables.SCORES_UNWEIGHTED, tables.FAILURES):
        for name in extra.columns.drop([*_KEY, "path"]):
            columns[name] = (tables.INDEX.columns["extra"][0], "from the sheet")
    whole = tables.Table(table.name, columns)
    frame = frame[list(columns)]
    tables.write_parquet(out / f"{table.name}.parquet", whole, frame)
    tables.write_tsv(out / f"{table.name}.tsv", frame)


def _machines(done: list[dict]) -> list[dict]:
    machines = {json.dumps(d["machine"], sort_keys=True) for d in done}
    return [json.loads(text) for text in sorted(machines)]

"""The plan: from the index of structures to size buckets, chunks and batches.

The plan follows from the content of the index and the settings, not from the order of its
rows. It is local: what is added to or taken from the index changes the chunks that must
change, and the others keep their ids, so that a run that grows scores little again.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd

from tmol_plugin import memory, provenance, tables
from tmol_plugin.config import scoring_settings
from tmol_plugin.errors import REASONS, RunError, StructureError
from tmol_plugin.memory_model import Model
from tmol_plugin.parameters import load_parameters

# A bucket expected to take less than this is not worth a process of its own: TMol needs 20
# to 30 s for its imports and its database before the first structure.
START_UP_MINUTES = 2.0

# Cost of a structure, measured on one CPU core at 218 to 11992 atoms (2026-11-30, TMol 0.2.0,
# torch 2.13.0). TMol's preparation took 0.16 s at 1231 atoms, 0.33 at 3039 and 1.16 at 11992
# with `hydrogens: keep`, and 1.4 to 1.9 times that with `optimize`; native preparation takes
# 0.4 us per atom (tests/benchmarks/prepare.py); TMol's scoring 4.2 to 5.6 us per atom, the
# native one 0.43 to 0.56 us (2026-12-01). All are whole microseconds: plans know no rounding.
PREPARATION_SECONDS = {"native": 2e-4, "tmol": 0.05}
PREPARATION_SECONDS_PER_ATOM = {"native": 4e-7, "tmol": 1e-4}
PREPARATION_FACTOR = {"keep": 1.0, "optimize": 1.6}
SCORING_SECONDS_PER_ATOM = {"native": 6e-7, "tmol": 6e-6}

_IDENTITY = ["structure_id", "model", "sha256"]
_NEEDED = ["structure_id", "path", "model", "sha256", "n_residues", "n_atoms", "chemistry"]
_USED = [*_NEEDED, "missing_atoms", "stage", "reason", "message", "remedy"]


@dataclass(frozen=True)
class Plan:
    """What to score and what not to.

    chunks: tables.CHUNKS, by engine, bucket and hash.
    members: `chunk` and the columns of tables.MEMBERS, by chunk, batch, atoms and hash.
    failures: tables.FAILURES, the rows of the index that have a reason, in its order.
    """

    chunks: pd.DataFrame
    members: pd.DataFrame
    failures: pd.DataFrame


def can_prepare(rows: pd.DataFrame, hydrogens: str = "keep") -> np.ndarray:
    """Whether the native engine takes structures: str [n], empty, or the reason why not.

    Args:
        rows: of tables.INDEX (at least `chemistry` and `missing_atoms`), none of them failed.
    """
    if hydrogens != "keep":
        return np.full(len(rows), f"hydrogens: {hydrogens}", object)
    chemistry = rows["chemistry"].fillna("").to_numpy(object)
    beyond = chemistry != "protein"
    incomplete = rows["missing_atoms"].fillna("").ne("").to_numpy(bool)
    reasons = np.where(incomplete, "heavy atoms to rebuild", "").astype(object)
    reasons[beyond] = chemistry[beyond]
    return reasons


def estimate_microseconds(n_atoms: np.ndarray, engines: np.ndarray, hydrogens: str) -> np.ndarray:
    """Time to prepare and score structures with their engines on one CPU core, int64 [n]."""
    seconds = np.zeros(len(n_atoms))
    for engine, start in PREPARATION_SECONDS.items():
        preparation = start + PREPARATION_SECONDS_PER_ATOM[engine] * n_atoms
        preparation *= PREPARATION_FACTOR[hydrogens]
        scoring = SCORING_SECONDS_PER_ATOM[engine] * n_atoms
        seconds += (engines == engine) * (preparation + scoring)
    return np.rint(seconds * 1e6).astype(np.int64)  # whole, so that sums know no order


def make_plan(
    index: pd.DataFrame,
    *,
    bucket_ratio: float,
    max_structures: int,
    target_minutes: float,
    budget_bytes: int,
    native_budget_bytes: int | None = None,
    model: Model,
    device: str,
    hydrogens: str,
    engine: str = "auto",
    settings_id: str,
    start_up_minutes: float = START_UP_MINUTES,
    is_to_retry: Callable[[str], bool] = lambda chunk: False,
) -> Plan:
    """Divide the structures of an index into chunks, one process each, and their batches.

    Per engine, structures are bucketed by atoms, small buckets are merged with the next, and
    each bucket's space of hashes is halved until every piece, a chunk, is within both limits.

    Args:
        index: rows of tables.INDEX (at least its keys, sizes, chemistry and failure).
        bucket_ratio: a bucket ends at this many times the atoms it starts at; more than 1.
        max_structures: structures of a chunk, at most.
        target_minutes: expected minutes of a chunk of several structures, at most.
        budget_bytes: memory that a batch may be predicted to take where TMol scores it.
        native_budget_bytes: where native scores it; None if TMol scores all.
        model: the memory model.
        device: kind of device where TMol scores, cpu or cuda.
        hydrogens: keep or optimize.
        engine: auto (native where it can) or tmol (for all).
        settings_id: digest of what decides energies; part of each chunk's id.
        start_up_minutes: a bucket expected to take less is merged.
        is_to_retry: whether a chunk was scored with failures that may not come again; it is
            given another id, and so scored again.

    Raises:
        RunError: a setting out of range; a structure that occurs twice; a row without a
            reason and without a size, hash or chemistry; a reason that is not in errors.REASONS.
    """
    _check_settings(bucket_ratio, max_structures, target_minutes, hydrogens)
    index = index.reset_index(drop=True)
    _check_index(index)
    failed = index["reason"].notna().to_numpy(bool)
    failures = index.loc[failed, list(tables.FAILURES.columns)].reset_index(drop=True)
    rows = index.loc[~failed, [*_NEEDED, "missing_atoms"]].reset_index(drop=True)
    del index
    why = can_prepare(rows, hydrogens) if engine == "auto" else np.full(len(rows), "engine: tmol")
    rows["engine_reason"] = pd.array(why, dtype=pd.StringDtype())
    engines = np.where(rows["engine_reason"].eq(""), "native", "tmol").astype(object)

    atoms, residues = (rows[name].to_numpy(np.int64) for name in ("n_atoms", "n_residues"))
    costs, keys = estimate_microseconds(atoms, engines, hydrogens), _hash_keys(rows)
    limits = (max_structures, target_minutes * 60e6)
    chunks, members_of, batches_of = [], {}, {}
    for engine, bucket, within in _buckets(engines, atoms, costs, bucket_ratio, start_up_minutes):
        within = within[np.argsort(keys[within], kind="stable")]
        for piece in _halve(keys[within], costs[within], *limits):
            members = within[piece]
            members = members[np.argsort(atoms[members], kind="stable")]
            sizes = atoms[members], residues[members]
            if engine == "native" and native_budget_bytes is not None:
                scored_by = "native", "cpu"
                terms = model.peak(*scored_by)
                batches = memory.pack_native_batches(terms, *sizes, native_budget_bytes)
            else:
                scored_by = "tmol", device
                terms = model.peak(*scored_by)
                batches = memory.pack_batches(terms, *sizes, budget_bytes, ratio=bucket_ratio)
            row = {"engine": engine, "bucket": bucket}
            chunk = _chunk_id(engine, settings_id, rows, members)
            while is_to_retry(chunk):
                chunk = tables.digest([chunk, "again"])
            row["chunk"] = chunk
            members_of[chunk], batches_of[chunk] = members, batches
            row |= {"n_structures": len(members), "n_batches": int(batches[-1]) + 1}
            row["estimated_minutes"] = int(costs[members].sum()) / 60e6
            row["estimated_bytes"] = model.largest_batch_bytes(*scored_by, *sizes, batches)
            chunks.append(row)

    names = sorted(members_of)
    order = np.concatenate([np.empty(0, np.int64), *map(members_of.get, names)])
    if not np.array_equal(np.sort(order), np.arange(len(rows))):
        raise RunError("a structure is not in exactly one chunk: report this, with the index")
    batches = np.concatenate([np.empty(0, np.int32), *map(batches_of.get, names)])
    of_row = np.repeat(np.asarray(names, object), [len(members_of[name]) for name in names])
    members = rows.take(order).reset_index(drop=True)
    members["batch"] = pd.array(batches, dtype="Int32")
    members = members[list(tables.MEMBERS.columns)]
    members.insert(0, "chunk", pd.array(of_row, dtype=pd.StringDtype()))
    return Plan(tables.CHUNKS.frame(chunks), members, failures)


def write_plan(plan: Plan, folder: str | Path) -> None:
    """Write `members/<chunk>.tsv`, `failures.parquet` and then `chunks.tsv` into `folder`.

    Files in `members` that are not of this plan are removed.
    """
    (members := Path(folder) / "members").mkdir(parents=True, exist_ok=True)
    for chunk, rows in plan.members.groupby("chunk", sort=False):
        tables.write_tsv(members / f"{chunk}.tsv", rows[list(tables.MEMBERS.columns)])
    tables.write_parquet(Path(folder) / "failures.parquet", tables.FAILURES, plan.failures)
    tables.write_tsv(Path(folder) / "chunks.tsv", plan.chunks)
    expected = {f"{chunk}.tsv" for chunk in plan.chunks["chunk"]}
    for path in members.iterdir():
        if path.name not in expected and not path.is_dir():
            path.unlink()


def run(index_files: Iterable[str], parameters_file: str, config: Mapping, folder: Path) -> Plan:
    """Read the index, plan, and write the plan and run.json, which describes it, into `folder`.

    Args:
        index_files: Parquet files of tables.INDEX; none is an empty index.
        parameters_file: compiled parameters of the run.
        config: the complete configuration.

    Raises:
        RunError: a file cannot be read, and as `make_plan`.
    """
    parameters, settings = load_parameters(parameters_file), scoring_settings(config)
    fingerprint = provenance.fingerprint(settings, parameters.id)
    fraction, device_gib = (config["memory"][name] for name in ("fraction", "device_gib"))
    use, share = config["device"]["use"], config["device"]["share"]
    budget = memory.device_budget_bytes(fraction, device_gib, use, share)
    # Native scoring is on the CPU, unless a GPU is insisted on: then TMol scores there.
    on_gpu = use == "cuda"
    host = None if on_gpu else memory.device_budget_bytes(fraction, 0, "cpu")
    # What is dropped needs no parameters.
    unprepared = parameters.failed if settings["on_unrecognized"] == "fail" else {}
    frames = [_read_index(path, unprepared) for path in index_files]
    index = pd.concat(frames or [tables.INDEX.frame([])[_USED]], ignore_index=True)
    del frames
    plan = make_plan(
        index,
        bucket_ratio=config["bucket"]["ratio"],
        **config["chunk"],
        budget_bytes=budget.bytes,
        native_budget_bytes=host and host.bytes,
        model=Model.load(config["memory"]["model"]),
        device=budget.device,
        hydrogens=config["hydrogens"],
        engine=config["engine"],
        settings_id=fingerprint,
        is_to_retry=lambda chunk: _is_to_retry(Path(folder).parent / "chunks" / chunk),
    )
    write_plan(plan, folder)
    described = {"config": dict(config), "settings": settings, "parameters_id": parameters.id}
    described |= {"fingerprint": fingerprint, "versions": provenance.versions()}
    described["plan"] = tables.digest(sorted(plan.chunks["chunk"]), 16)
    described |= {"batch_budget": budget._asdict(), "planned_on": provenance.machine()}
    described["native_batch_budget"] = host and host._asdict()
    tables.write_json(Path(folder) / "run.json", described)
    return plan


def _is_to_retry(chunk_folder: Path) -> bool:
    try:
        done = json.loads((chunk_folder / "done.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(done, dict) and bool(done.get("retry"))


def _read_index(path: str | Path, unprepared: Mapping[str, str]) -> pd.DataFrame:
    """The columns used of an index; structures with residues of no parameters have failed.

    Args:
        unprepared: residue names that no parameters could be generated for, and why.
    """
    index = tables.read_parquet(path, tables.INDEX)
    for position in np.flatnonzero(index["unrecognized"].fillna("") != "") if unprepared else ():
        names = index["unrecognized"].iloc[position].split(",")
        if lacking := [name for name in names if name in unprepared]:
            words = "; ".join(f"{name}: {unprepared[name]}" for name in lacking)
            path = index["path"].iloc[position]
            error = StructureError("ligand_preparation", f"{path}: no parameters for {words}")
            row = tables.failure_row(index.iloc[position], "plan", error)
            for name in ("stage", "reason", "message", "remedy"):
                index.loc[position, name] = row[name]
    return index[_USED]


def _check_settings(bucket_ratio, max_structures, target_minutes, hydrogens) -> None:
    for name, value, valid, hint in (
        ("bucket.ratio", bucket_ratio, bucket_ratio > 1, "a number above 1, such as 1.5"),
        ("chunk.max_structures", max_structures, max_structures >= 1, "at least 1"),
        ("chunk.target_minutes", target_minutes, target_minutes > 0, "more than 0"),
        ("hydrogens", hydrogens, hydrogens in PREPARATION_FACTOR, "keep or optimize"),
    ):
        if not valid:
            raise RunError(f"{name} is {value!r}: give {hint}")


def _check_index(index: pd.DataFrame) -> None:
    if absent := [name for name in _USED if name not in index]:
        raise RunError(f"the index lacks the columns {', '.join(absent)}: run the scan again")
    repeated = index.duplicated(["structure_id", "model"])
    if repeated.any():
        names = _named(index[repeated])
        raise RunError(f"the index repeats {names}: give each structure an id of its own")
    failed = index["reason"].notna()
    if unknown := set(index.loc[failed, "reason"].unique()) - set(REASONS):
        raise RunError(f"the index holds reasons that are not known: {sorted(unknown)}")
    incomplete = index[_NEEDED].isna().any(axis=1) | index["chemistry"].eq("").fillna(True)
    incomplete |= (index[["n_atoms", "n_residues"]] < 1).any(axis=1)
    if (incomplete & ~failed).any():
        raise RunError(
            f"the index has neither a reason nor all of {', '.join(_NEEDED)} for"
            f" {_named(index[incomplete & ~failed])}: run the scan again"
        )


def _named(rows: pd.DataFrame, most: int = 5) -> str:
    """The first rows by id and model, and how many more there are."""
    names = [f"{i!r} (model {m})" for i, m in rows[["structure_id", "model"]].head(most).values]
    return ", ".join(names) + (f" and {len(rows) - most} more" if len(rows) > most else "")


def _hash_keys(rows: pd.DataFrame) -> np.ndarray:
    """A hash of each row's id, model and content: uint64 [n], the same everywhere."""
    keys = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), 65536):  # bounds the Python strings held at a time
        part = rows[_IDENTITY].iloc[start : start + 65536]
        names = zip(*(part[name].tolist() for name in _IDENTITY), strict=True)
        # The id comes last: it may hold any character, the others hold no space.
        digests = (blake2b(f"{s} {m} {i}".encode(), digest_size=8).digest() for i, m, s in names)
        keys[start : start + 65536] = np.frombuffer(b"".join(digests), ">u8")
    return keys


def _chunk_id(engine: str, settings_id: str, rows: pd.DataFrame, members: np.ndarray) -> str:
    """The id of a chunk, from what it scores and how: its batches and paths are no part of it."""
    part = rows[_IDENTITY].take(members)
    identities = sorted(zip(*(part[name].tolist() for name in _IDENTITY), strict=True))
    return tables.digest([engine, settings_id, identities])


def _buckets(engines, atoms, costs, ratio: float, start_up_minutes: float) -> list[tuple]:
    """The buckets of each engine, small ones merged: [(engine, "low-high" atoms, positions)]."""
    edges = _bucket_edges(ratio, int(atoms.max(initial=1)))
    buckets = []
    for engine, of_engine in _groups(engines):
        present = _groups(np.searchsorted(edges, atoms[of_engine], side="right") - 1)
        totals = [int(costs[of_engine[within]].sum()) for _, within in present]
        for _, merged in _groups(_merge_small(totals, start_up_minutes * 60e6)):
            first, last = present[merged[0]][0], present[merged[-1]][0]
            within = np.concatenate([present[i][1] for i in merged])
            buckets.append((engine, f"{edges[first]}-{edges[last + 1] - 1}", of_engine[within]))
    return buckets


def _groups(values) -> list[tuple]:
    """Each distinct value, ascending, with the positions where it stands."""
    return sorted(pd.Series(values).groupby(values).indices.items())


def _bucket_edges(ratio: float, largest: int) -> np.ndarray:
    """Smallest atom counts of the buckets: ratio**k rounded up, for k from 0 to above `largest`."""
    edges, power = [1], 0
    while edges[-1] <= largest:
        power += 1
        edge = math.ceil(ratio**power * (1 - 1e-12))  # 3**5 is 243, however pow rounds
        edges += [edge] if edge > edges[-1] else []
    return np.asarray(edges, np.int64)


def _merge_small(totals: list[int], minimum: float) -> list[int]:
    """Each bucket's group, from 0: neighbours, such that each group's total reaches the minimum.

    From the smallest up, a bucket joins those before it until their total is at least the
    minimum; the rest at the end joins the last complete group. A bucket that reaches it alone
    ends a group whatever comes before, so a change moves groups no further than to there.
    """
    groups, group, total = [], 0, 0
    for bucket_total in totals:
        groups.append(group)
        total += bucket_total
        if total >= minimum:
            group, total = group + 1, 0
    return [min(g, max(group - 1, 0)) for g in groups]


def _halve(keys: np.ndarray, costs: np.ndarray, most: int, most_cost: float) -> list[slice]:
    """Halve the space of keys (uint64 [n], ascending) until each piece is within the limits.

    A piece has at most `most` members of at most `most_cost` in total, or one member, or (which
    64-bit hashes let us neglect) members with the same key.

    Returns slices into `keys`, ascending, none empty.
    """
    total = np.concatenate([[0], np.cumsum(costs)])
    pieces, parts = [], [(0, len(keys), 0, 64)]  # start, end, smallest key and bits of its space
    while parts:
        start, end, low, bits = parts.pop()
        within = end - start <= most and total[end] - total[start] <= most_cost
        if within or end - start <= 1 or bits == 0:
            pieces += [slice(start, end)] if end > start else []
            continue
        middle_key = low + (1 << (bits - 1))
        middle = start + int(np.searchsorted(keys[start:end], np.uint64(middle_key)))
        parts.append((middle, end, middle_key, bits - 1))
        parts.append((start, middle, low, bits - 1))
    return pieces

"""Step `fit-memory`: a memory model from the memory tables of past runs.

Whatever was measured is predicted: the coefficients are those of the smallest sum of
predictions, each relative to what was needed, among all that are at least 0 and predict no row
below MARGIN times its need (a linear program). A term that the rows cannot tell from others
keeps the coefficient of the model at hand. That of `block_pair` is known from the source and only
shows with large poses: it is never fitted below what it was, nor at all where it was 0.
"""

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tmol_plugin import tables
from tmol_plugin.errors import RunError
from tmol_plugin.memory_model import COVERED, Model, Terms, counted

# Other machines and more threads need a little more.
MARGIN = 1.1
LEAST_ROWS = 10
# The largest batch must hold at least this many times the atoms of the smallest.
LEAST_RANGE = 4
# A ratio (atoms of a structure, of a block; pairs of a block) is told if it varies this much.
LEAST_RATIO = 1.5
# Batches that need less than this share of the largest count as if they needed that.
SMALL = 0.1
# Rows that need less say little of how far predictions are above.
LEAST_BYTES = 10_000_000

_SIZES = ("n_structures", "n_atoms", "max_atoms", "n_blocks", "max_blocks", "n_block_pairs")
_REMEDY = (
    "score structures of several sizes in batches of several numbers first, or make a table with"
    " `python tests/benchmarks/memory.py`"
)


def run(files: Sequence[str], output: str) -> pd.DataFrame:
    """Fit a model to memory tables and write its file.

    Args:
        files: Parquet files of tables.MEMORY, of chunks or merged.

    Returns:
        What there is of each engine and kind of device, with the residuals, for people.

    Raises:
        RunError: a file that is no such table, or rows that tell nothing of any engine.
    """
    if not files:
        raise RunError(f"no memory tables are given; {_REMEDY}")
    frames = []
    for number, path in enumerate(files):
        frame = tables.read_parquet(path, tables.MEMORY)
        # Numbered within a chunk; and the same chunk may be of two runs.
        name = (
            f"{number} "
            + frame["chunk"].fillna("")
            + " "
            + frame["process"].astype("string").fillna("")
        )
        frames.append(frame.assign(process=name))
    content, report = fit(needs(pd.concat(frames, ignore_index=True)), Model.load(""))
    tables.write_json(output, content)
    return report


def needs(rows: pd.DataFrame) -> pd.DataFrame:
    """What scored batches of one engine took above what their process held.

    Args:
        rows: of tables.MEMORY in the order of each process, and `process`, which names it.

    Returns:
        `engine`, `device`, the sizes, `live` and `peak`: int64 bytes. Above the floor of the
        batch on CUDA. On the CPU, where freed memory stays in the process and so
        in later floors, above the lowest floor before. Processes that scored natively and with
        TMol are left out: loading TMol there was no batch's need.
    """
    rows = rows.copy()
    lowest = rows["floor_bytes"].groupby(rows["process"], sort=False).cummin()
    rows["floor"] = rows["floor_bytes"].where(rows["device"].eq("cuda"), lowest)
    mixed = rows.loc[rows["engine"].eq("native+tmol"), "process"]
    measured = rows[["floor", "live_bytes", "peak_bytes", *_SIZES]].notna().all(axis=1)
    rows = rows[measured & rows["outcome"].eq("scored") & ~rows["process"].isin(mixed)]
    if (rows[list(_SIZES)] < 1).any(axis=None):
        raise RunError("the memory tables hold batches without structures, atoms or blocks")
    found = rows[["engine", "device", *_SIZES]].astype(dict.fromkeys(_SIZES, np.int64))
    for moment in ("live", "peak"):
        found[moment] = (rows[f"{moment}_bytes"] - rows["floor"]).clip(0).astype(np.int64)
    return found.reset_index(drop=True)


def fit(found: pd.DataFrame, base: Model) -> tuple[dict, pd.DataFrame]:
    """The content of a model fitted to what `needs` gives, and the residuals.

    Engines that the rows tell nothing of keep what `base` has, and the content says so.

    Raises:
        RunError: nothing could be fitted; says why of each engine and kind of device.
    """
    content, report = copy.deepcopy(base.content), []
    for engine, kind in COVERED:
        rows = found[found["engine"].eq(engine) & found["device"].eq(kind)]
        entry = content[engine][kind]
        if why_not := _why_not(engine, rows):
            entry["fit"] = {**entry.get("fit", {}), "kept": f"as it was: {why_not}"}
            report.append({"engine": engine, "device": kind, "rows": len(rows), "": why_not})
            continue
        held = np.stack(counted(engine, rows), axis=1)
        kept = _not_told(held)
        entry["fit"] = {"rows": len(rows), "margin": MARGIN, "terms_kept": kept}
        for name in ("n_structures", "max_atoms", "max_blocks"):
            entry["fit"][name] = [int(rows[name].min()), int(rows[name].max())]
        for moment in ("live", "peak"):
            known = getattr(base, moment)(engine, kind)
            need = rows[moment].to_numpy()
            terms = fit_terms(held, need, known, kept)
            entry[moment] = terms._asdict()
            residuals = _residuals(terms.bytes(held.T), need)
            entry["fit"][moment] = residuals
            of = {"engine": engine, "device": kind, "rows": len(rows), "of": moment}
            report.append({**of, **residuals, "": f"kept {', '.join(kept)}" if kept else ""})
    report = pd.DataFrame(report)
    if "of" not in report:
        words = "; ".join(f"{r.engine} on {r.device}: {r[-1]}" for r in report.itertuples())
        raise RunError(f"no memory model can be fitted: {words}; {_REMEDY}")
    return content, report


def fit_terms(held: np.ndarray, need: np.ndarray, known: Terms, kept: Sequence[str]) -> Terms:
    """Coefficients that predict no row below MARGIN times its need; see the module.

    Args:
        held: what `counted` gives, [n_rows, 4].
        need: bytes, [n_rows].
        known: the terms at hand.
        kept: those of them to keep.
    """
    from scipy.optimize import linprog  # slow to import; only this step needs it

    columns = np.column_stack([np.ones(len(held)), held]).astype(np.float64)
    wanted = MARGIN * need
    scale, unit = columns.max(axis=0).clip(1), max(float(wanted.max()), 1.0)
    columns = columns / scale  # all of about 1, as the solver's tolerances are
    bounds = []
    for name, value, size in zip(Terms._fields, known, scale, strict=True):
        scaled = value * size / unit
        is_kept = name in kept or (name == "block_pair" and value == 0)
        lowest = scaled if is_kept or name == "block_pair" else 0
        bounds.append((lowest, scaled if is_kept else None))
    weights = 1 / (wanted / unit).clip(SMALL)
    solved = linprog(
        weights @ columns, A_ub=-columns, b_ub=-wanted / unit, bounds=bounds, method="highs"
    )
    if not solved.success:
        raise RunError(f"no coefficients can be found, report this: {solved.message}")
    found = solved.x * unit / scale
    # Whole bytes, upwards; less than rounding of the solver is none.
    terms = Terms(*(int(np.ceil(value - 1e-6)) for value in found))
    lacking = int(np.ceil((wanted - terms.bytes(held.T)).max()))
    return terms._replace(batch=terms.batch + max(0, lacking))


def _why_not(engine: str, rows: pd.DataFrame) -> str:
    """Why nothing can be fitted to an engine's rows; empty if it can."""
    if len(rows) < LEAST_ROWS:
        return f"{len(rows)} rows of scored batches, {LEAST_ROWS} are needed"
    atoms = counted(engine, rows).n_atoms
    if atoms.max() < LEAST_RANGE * atoms.min():
        return (
            f"batches hold {atoms.min()} to {atoms.max()} atoms, the largest must hold"
            f" {LEAST_RANGE} times those of the smallest"
        )
    return ""


def _not_told(held: np.ndarray) -> list[str]:
    """Terms that cannot be told from the others by rows of [n, 4] sizes."""
    structures, atoms, blocks, pairs = held.T.astype(np.float64)

    def varies(ratio):
        return ratio.max() >= LEAST_RATIO * ratio.min()

    told = {
        "structure": varies(structures) and varies(atoms / structures),
        "block": varies(atoms / blocks),
        "block_pair": varies(pairs / blocks),
    }
    return [name for name, is_told in told.items() if not is_told]


def _residuals(predicted: np.ndarray, need: np.ndarray) -> dict[str, float | None]:
    """How far predictions are off: the worst below, and of larger rows median and worst above."""
    above = predicted / need.clip(1)
    large = above[need >= LEAST_BYTES]
    return {
        "largest_need_bytes": int(need.max()),
        "need_per_predicted_max": round(float((need / predicted.clip(1)).max()), 3),
        "predicted_per_need_median": round(float(np.median(large)), 3) if len(large) else None,
        "predicted_per_need_max": round(float(large.max()), 3) if len(large) else None,
    }


def describe(report: pd.DataFrame, output: str | Path) -> str:
    """The residuals as a table, and where the model is."""
    table = report.fillna("").to_string(index=False)
    return f"{table}\n{output}: set `memory: {{model: {output}}}` to plan with it"

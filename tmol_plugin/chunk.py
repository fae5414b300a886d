"""Stage `score_chunk`: one process scores one chunk on one device.

The loop: read and prepare a batch, put its poses into one stack, score it in one call,
bring the energies to the host, let go of the batch, go on. Where the engine can, a thread
prepares the next batch meanwhile. Whatever goes wrong with one structure is a row of the
chunk's failures and costs no other structure its score.
"""

import json
import logging
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from tmol_plugin import device as devices
from tmol_plugin import memory, per_residue, provenance, tables
from tmol_plugin.engine import Engine, Prepared, TmolEngine
from tmol_plugin.errors import RETRIED, RunError, StructureError
from tmol_plugin.parameters import Parameters, load_parameters
from tmol_plugin.policy import Policy
from tmol_plugin.reading import Source
from tmol_plugin.scan import format_notes

log = logging.getLogger(__name__)


class Stopwatch:
    """Seconds spent in named parts of the work."""

    def __init__(self):
        self.seconds = Counter()
        self._last = time.perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last lap to `part`."""
        now = time.perf_counter()
        self.seconds[part] += now - self._last
        self._last = now


def run(
    members_file: str,
    plan_file: str,
    parameters_file: str,
    output: str,
    device: str | None,
    threads: int,
    started_at: float,
) -> None:
    """Score a chunk and write its tables and, last, done.json; `device` None is the config's."""
    watch = Stopwatch()
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    members = tables.read_tsv(members_file, tables.MEMBERS)
    parameters = load_parameters(parameters_file)
    if parameters.id != plan["parameters_id"]:
        raise RunError(
            f"{parameters_file} has parameters {parameters.id}, the plan is for"
            f" {plan['parameters_id']}; plan again"
        )
    make_engine, where = _engine(members, device or plan["config"]["device"], threads)
    log.info("chunk %s on %s", Path(output).name, devices.describe(where))
    chunk_id = Path(output).name
    watch.lap("startup")
    engine = make_engine(parameters, plan["settings"])
    watch.lap("parameters")
    chunk = Chunk(chunk_id, engine, plan["settings"], parameters, where, watch)
    chunk.wants_residues = plan["config"]["outputs"]["per_residue"]
    chunk.score(members)
    chunk.timing = {
        "device": devices.describe(where),
        "threads": threads,
        "started_at": started_at,
        "startup_seconds": watch.seconds["startup"] + max(0.0, _imports_seconds(started_at, watch)),
    }
    chunk.write(Path(output))


def _engine(members: pd.DataFrame, device: str, threads: int):
    """What makes the engine that the plan chose, of parameters and settings, and its device.

    A chunk's members are all of one engine. Native scoring needs neither torch nor TMol.
    """
    is_native = members["engine_reason"].fillna("").eq("").all()
    if is_native and device != "cuda":
        from tmol_plugin.native_engine import NativeEngine

        return partial(NativeEngine, threads=threads), devices.Host()
    import tmol  # noqa: F401 - here, so that its seconds count as start-up
    import torch

    torch.set_num_threads(threads)
    where = devices.resolve(device)
    if is_native:
        from tmol_plugin.native_engine import NativeTmolEngine

        return partial(NativeTmolEngine, device=where), where
    return partial(TmolEngine, device=where), where


def _imports_seconds(started_at: float, watch: Stopwatch) -> float:
    """Time of the process before the stopwatch was started: the interpreter and imports."""
    return time.time() - started_at - sum(watch.seconds.values())


class Chunk:
    """The state of a chunk being scored: its engine, and the rows so far."""

    def __init__(
        self,
        chunk_id: str,
        engine: Engine,
        settings: dict,
        parameters: Parameters,
        device,
        watch: Stopwatch,
    ):
        self.id = chunk_id
        self.engine = engine
        self.settings = settings
        self.parameters = parameters
        self.device = device
        self.watch = watch
        self.timing: dict = {}
        self.wants_residues = False
        self.residues: list = []  # tables of per_residue, one for each structure
        self.rows: dict[str, list[dict]] = {table.name: [] for table in tables.CHUNK_TABLES}
        self._policy = Policy(
            on_unrecognized=settings["on_unrecognized"],
            missing_side_chains=settings["missing_side_chains"],
            parametrized=frozenset(parameters.residues),
        )

    def score(self, members: pd.DataFrame) -> None:
        """Score the members (tables.MEMBERS), batch after batch."""
        batches = [(int(batch), rows) for batch, rows in members.groupby("batch", sort=True)]
        groups = [rows.to_dict("records") for _, rows in batches]
        for (batch, _), outcomes in zip(batches, self._outcomes(groups), strict=True):
            prepared = []
            for row, outcome in outcomes:
                if isinstance(outcome, StructureError):
                    self._fail(row, "prepare", outcome)
                else:
                    prepared.append((row, outcome))
            self.watch.lap("preparation")
            if prepared:
                self._score_batch(batch, prepared, split=0)
            self.watch.lap("scoring")
            log.info(
                "batch %d: %d prepared, %d scored and %d failed so far",
                *(batch, len(prepared), len(self.rows["scores"]), len(self.rows["failures"])),
            )
            del outcomes, prepared, outcome  # before the next batch is there

    def _outcomes(self, groups: list[list[dict]]) -> Iterator[list[tuple]]:
        """For each group its rows, each with its Prepared or the error that it ended in.

        An engine that reads ahead prepares a group while the one before is being scored.
        """
        if not self.engine.reads_ahead:
            yield from map(self._prepare_all, groups)
            return
        with ThreadPoolExecutor(1, "prepare") as thread:
            under_way = deque()
            for position, group in enumerate([*groups, None]):
                if group is not None:
                    under_way.append(thread.submit(self._prepare_all, group))
                if position > 0:
                    yield under_way.popleft().result()

    def _prepare_all(self, rows: list[dict]) -> list[tuple]:
        outcomes = []
        for row in rows:
            try:
                outcomes.append((row, self._prepare(row)))
            except StructureError as error:
                outcomes.append((row, error))
        return outcomes

    def _prepare(self, row: dict) -> Prepared:
        path = tables.unescape(row["path"])
        source = Source(path)
        if source.sha256 != row["sha256"]:
            raise StructureError("changed", f"{path}: its content is not what was scanned")
        return self.engine.read(source, row["model"], self._policy)

    def _score_batch(self, batch: int, prepared: list, split: int) -> None:
        """Score prepared structures; in halves if they do not fit or one of them fails."""
        measured = self._measure_start(batch, prepared, split)
        try:
            stacked = self.engine.stack([pose for _, pose in prepared])
            self._measure_stacked(measured)
            energies = self.engine.score(stacked)
            residues = self._score_residues(prepared)
            why_not = None
        # Anything may be raised by the device, torch or TMol; what it is, is told apart below.
        except Exception as error:
            why_not = self._scoring_failure(error, prepared)
            energies = residues = None
        # Out of the handler, so that no traceback keeps the batch's tensors alive.
        stacked = None
        measured["outcome"] = why_not.reason if why_not else "scored"
        self._measure_end(measured)
        if why_not is None:
            for (row, pose), values, of_residues in zip(prepared, energies, residues, strict=True):
                self._add_scores(row, pose, values, of_residues)
        elif len(prepared) == 1:
            self._fail(prepared[0][0], "score", why_not)
        else:
            self._empty_cache()
            middle = len(prepared) // 2
            self._score_batch(batch, prepared[:middle], split + 1)
            self._score_batch(batch, prepared[middle:], split + 1)

    def _scoring_failure(self, error: Exception, prepared: list) -> StructureError:
        """What a batch's failure amounts to for a structure that is alone in it."""
        if isinstance(error, RunError):
            raise error
        log.warning("batch of %d: %s", len(prepared), error, exc_info=error)
        path = tables.unescape(prepared[0][0]["path"])
        if memory.is_out_of_memory(error):
            need = self._predicted_bytes(prepared)
            have = memory.device_bytes(self.device)
            return StructureError(
                "too_large",
                f"{path}: out of memory even alone: about {need:,} bytes needed by the memory"
                f" model, {have:,} on the device: {error}",
            )
        if devices.is_fault(error):
            raise error
        return StructureError("engine_error", f"{path}: {type(error).__name__}: {error}")

    def _score_residues(self, prepared: list) -> list:
        """For each structure its rows of per_residue; None if they are not asked for."""
        if not self.wants_residues:
            return [None] * len(prepared)
        how = self.engine.score_types, self.engine.weights
        return [
            per_residue.rows_of(row, self.engine.score_residues(pose), *how)
            for row, pose in prepared
        ]

    def _add_scores(self, row: dict, pose: Prepared, energies, residues) -> None:
        if not np.isfinite(energies).all():
            names = [n for n, e in zip(self.engine.score_types, energies) if not np.isfinite(e)]
            path = tables.unescape(row["path"])
            words = f"{path}: {', '.join(names)} not finite"
            self._fail(row, "score", StructureError("not_finite", words))
            return
        common = {name: row[name] for name in ("structure_id", "path", "model")} | {
            "n_residues": pose.n_residues,
            "n_atoms": pose.n_atoms,
            "engine": pose.engine,
            "hydrogens": self.settings["hydrogens"],
            "parameters_id": self.parameters.id,
            "chunk": self.id,
            "notes": format_notes(pose.notes),
        }
        weighted = energies * self.engine.weights
        for table, values in (("scores", weighted), ("scores_unweighted", energies)):
            columns = dict.fromkeys(tables.SCORE_TYPES, 0.0)
            columns |= dict(zip(self.engine.score_types, values.tolist(), strict=True))
            self.rows[table].append(common | {"total": float(weighted.sum())} | columns)
        if residues is not None:
            self.residues.append(residues)

    def _fail(self, row: dict, stage: str, error: StructureError) -> None:
        log.warning("%s model %d: %s: %s", row["structure_id"], row["model"], error.reason, error)
        self.rows["failures"].append(tables.failure_row(row, stage, error))

    def _predicted_bytes(self, prepared: list) -> int:
        return self.engine.predict_bytes([pose for _, pose in prepared])

    def _measure_start(self, batch: int, prepared: list, split: int) -> dict:
        if self.device.type == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(self.device)
        return {
            "chunk": self.id,
            "batch": batch,
            "split": split,
            "engine": self.engine.name,
            "device": self.device.type,
            "n_structures": len(prepared),
            "max_atoms": max(pose.n_atoms for _, pose in prepared),
            "predicted_bytes": self._predicted_bytes(prepared),
        }

    def _measure_stacked(self, measured: dict) -> None:
        if self.device.type == "cuda":
            import torch

            measured["live_bytes"] = torch.cuda.memory_allocated(self.device)

    def _measure_end(self, measured: dict) -> None:
        if self.device.type == "cuda":
            import torch

            peak = torch.cuda.max_memory_allocated(self.device)
            measured["peak_bytes"] = peak
            measured["reserved_bytes"] = torch.cuda.memory_reserved(self.device)
            if "live_bytes" in measured:
                measured["incremental_peak_bytes"] = peak - measured["live_bytes"]
        measured["host_rss_bytes"] = memory.host_rss_bytes()
        measured["host_peak_rss_bytes"] = memory.host_peak_rss_bytes()
        self.rows["memory"].append(measured)

    def _empty_cache(self) -> None:
        if self.device.type == "cuda":
            import torch

            torch.cuda.empty_cache()

    def write(self, folder: Path) -> None:
        """Write the chunk's tables, then done.json, which vouches for them."""
        for name in ("done.json", per_residue.FILE):
            (folder / name).unlink(missing_ok=True)
        for table in tables.CHUNK_TABLES:
            if table is not tables.TIMING:
                rows = self.rows[table.name]
                tables.write_parquet(folder / f"{table.name}.parquet", table, table.frame(rows))
        if self.wants_residues:
            rows = per_residue.joined(self.residues)
            tables.write_parquet(folder / per_residue.FILE, tables.PER_RESIDUE, rows)
        self.watch.lap("writing")
        self.rows["timing"] = [
            {
                "chunk": self.id,
                "engine": self.engine.name,
                "hostname": socket.gethostname(),
                "n_scored": len(self.rows["scores"]),
                "n_failed": len(self.rows["failures"]),
                "ended_at": time.time(),
            }
            | {f"{part}_seconds": seconds for part, seconds in self.watch.seconds.items()}
            | self.timing
        ]
        timing = tables.TIMING.frame(self.rows["timing"])
        tables.write_parquet(folder / "timing.parquet", tables.TIMING, timing)
        files = {table.name: folder / f"{table.name}.parquet" for table in tables.CHUNK_TABLES}
        n_rows = {name: len(rows) for name, rows in self.rows.items()}
        if self.wants_residues:
            files[tables.PER_RESIDUE.name] = folder / per_residue.FILE
            n_rows[tables.PER_RESIDUE.name] = sum(len(rows) for rows in self.residues)
        done = {
            "chunk": self.id,
            "retry": any(row["reason"] in RETRIED for row in self.rows["failures"]),
            "fingerprint": provenance.fingerprint(self.settings, self.parameters.id),
            "rows": n_rows,
            "sha256": {name: tables.file_sha256(path) for name, path in files.items()},
            "machine": provenance.machine(),
            "process": os.getpid(),
        }
        tables.write_json(folder / "done.json", done)

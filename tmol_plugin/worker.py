"""The process that scores a chunk's structures on one device; `chunk` starts it and its successors.

The loop: read and prepare a batch, put its poses into one stack, score it in one call,
bring the energies to the host, append them to the part file, let go of the batch, go on.
Where the engine can, a thread prepares the next batch meanwhile. Whatever goes wrong with one
structure is a row of the chunk's failures and costs no other structure its score; what loses
the device to all of them ends the process.
"""

import ctypes
import json
import logging
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from tmol_plugin import device as devices
from tmol_plugin import memory, parts, per_residue, tables
from tmol_plugin.engine import Engine, Prepared, TmolEngine
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.memory_leak import rising_floor
from tmol_plugin.memory_meter import Meter
from tmol_plugin.memory_model import Model, batch_columns
from tmol_plugin.parameters import Parameters, load_parameters
from tmol_plugin.policy import Policy
from tmol_plugin.reading import Source
from tmol_plugin.scan import format_notes

log = logging.getLogger(__name__)

# Exit codes. ERROR concerns the run; with FAULT the process is lost, by a structure it had in
# hand or by the device.
ERROR, FAULT = 1, 70


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

    def take(self) -> dict[str, float]:
        """The seconds so far, and begin to count from nothing."""
        seconds, self.seconds = dict(self.seconds), Counter()
        return seconds


def main() -> int:
    """Do what the order on the standard input says; returns the exit code.

    The order is a JSON object: `chunk`, `members`, `plan` and `parameters` (files), `part` (file
    to append to), `where` (cpu or cuda), `threads`, `alone` (members to score first, each by
    itself), `lease` (its file descriptors), `supervisor` (process id), `started_at` (UTC seconds).
    """
    order = json.load(sys.stdin)
    _die_with(order["supervisor"])
    for fd in order["lease"]:  # held by this process, and by no program that it may start
        os.set_inheritable(fd, False)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s"
    )
    writer = None
    try:
        plan = json.loads(Path(order["plan"]).read_text(encoding="utf-8"))
        identity = parts.identity_of(plan)
        writer = parts.PartWriter(Path(order["part"]), identity)
        ended = parts.read(Path(order["part"]).parent, identity).ended
        run(order, plan, ended, writer)
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR
    # Whatever it is, a successor finds out which structure it comes with.
    except Exception as error:
        log.exception("this process cannot go on")
        if writer is not None:
            writer.fault(f"{type(error).__name__}: {error}")
        logging.shutdown()
        os._exit(FAULT)  # a lost CUDA context may hang whoever tidies up
    return 0


def _die_with(supervisor: int) -> None:
    """Have the kernel kill this process when its supervisor dies, however that dies."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:  # it died before
            os.kill(os.getpid(), signal.SIGKILL)


def run(order: dict, plan: dict, ended: set[parts.Key], writer: parts.PartWriter) -> None:
    """Score the members of a chunk that have not `ended`; appends to `writer`."""
    watch = Stopwatch()
    members = tables.read_tsv(order["members"], tables.MEMBERS)
    parameters = load_parameters(order["parameters"])
    if parameters.id != plan["parameters_id"]:
        raise RunError(
            f"{order['parameters']} has parameters {parameters.id}, the plan is for"
            f" {plan['parameters_id']}; plan again"
        )
    make_engine, device = _engine(members, order["where"], order["threads"])
    log.info("chunk %s on %s", order["chunk"], devices.describe(device))
    watch.lap("startup")
    engine = make_engine(parameters, plan["settings"])
    watch.lap("parameters")
    # The interpreter and imports: the time of the process before the stopwatch was started.
    watch.seconds["startup"] += max(0.0, time.time() - order["started_at"] - watch.seconds.total())
    writer.finish({}, seconds=watch.take())
    model = Model.load(plan["config"]["memory"]["model"])
    loop = Loop(order["chunk"], engine, plan["settings"], parameters, device, model, writer, watch)
    loop.process = int(Path(order["part"]).stem)
    loop.wants_residues = plan["config"]["outputs"]["per_residue"]
    loop.score(members, ended, map(tuple, order["alone"]))


def _engine(members: pd.DataFrame, where: str, threads: int):
    """What makes the engine that the plan chose, of parameters and settings, and its device.

    A chunk's members are all of one engine. Native scoring needs neither torch nor TMol.
    """
    is_native = members["engine_reason"].fillna("").eq("").all()
    if is_native and where != "cuda":
        from tmol_plugin.native_engine import NativeEngine

        return partial(NativeEngine, threads=threads), devices.Host()
    import tmol  # noqa: F401 - here, so that its seconds count as start-up
    import torch

    torch.set_num_threads(threads)
    device = devices.resolve(where)
    if is_native:
        from tmol_plugin.native_engine import NativeTmolEngine

        return partial(NativeTmolEngine, device=device), device
    return partial(TmolEngine, device=device), device


class Loop:
    """Scores batches of a chunk with an engine; what is finished goes to `writer`."""

    def __init__(
        self,
        chunk_id: str,
        engine: Engine,
        settings: dict,
        parameters: Parameters,
        device,
        model: Model,
        writer: parts.PartWriter,
        watch: Stopwatch,
    ):
        self.id = chunk_id
        self.engine = engine
        self.settings = settings
        self.parameters = parameters
        self.device = device
        self.model = model
        self.writer = writer
        self.watch = watch
        self.process = 1  # of those that score the chunk, one after the other
        self.wants_residues = False
        self._meter = Meter(device)
        self._measured: list[dict] = []  # rows of memory, of all batches
        self._clear()
        self._counts = Counter()
        self._policy = Policy(
            on_unrecognized=settings["on_unrecognized"],
            missing_side_chains=settings["missing_side_chains"],
            parametrized=frozenset(parameters.residues),
        )

    def _clear(self) -> None:
        """Forget the rows of the batch before."""
        self.rows: dict[str, list[dict]] = {name: [] for name in parts.TABLES}
        self.residues: list = []  # tables of per_residue, one for each structure

    def score(self, members: pd.DataFrame, ended: Iterable = (), alone: Iterable = ()) -> None:
        """Score the members (tables.MEMBERS) that are not in `ended`, batch after batch.

        Those in `alone` come first, each prepared and scored by itself, with nothing else in
        hand: who dies of one leaves no doubt of which.
        """
        ended, alone = set(ended), set(alone)
        rows = sorted(members.to_dict("records"), key=lambda row: row["batch"])  # stable
        rows = [row for row in rows if parts.key_of(row) not in ended]
        singles = [[row] for row in rows if parts.key_of(row) in alone]
        groups: dict[int, list[dict]] = {}
        for row in rows:
            if parts.key_of(row) not in alone:
                groups.setdefault(row["batch"], []).append(row)
        self._score_groups(singles, ahead=False)
        self._score_groups(list(groups.values()), ahead=self.engine.reads_ahead)
        if words := rising_floor(self._measured):
            log.warning("%s", words)

    def _score_groups(self, groups: list[list[dict]], ahead: bool) -> None:
        for outcomes in self._outcomes(groups, ahead):
            batch = int(outcomes[0][0]["batch"])
            prepared = []
            for row, outcome in outcomes:
                if isinstance(outcome, StructureError):
                    self._fail(row, "prepare", outcome)
                else:
                    prepared.append((row, outcome))
            self.watch.lap("preparation")
            n_prepared = len(prepared)
            if prepared:
                self._score_batch(batch, prepared, split=0)
            del outcomes, prepared, outcome  # before the next batch is there
            self.watch.lap("scoring")
            self._counts.update({name: len(rows) for name, rows in self.rows.items()})
            self.writer.finish(self.rows, self.residues, self.watch.take())
            self._clear()
            self.watch.lap("writing")
            log.info(
                "batch %d: %d prepared, %d scored and %d failed so far",
                *(batch, n_prepared, self._counts["scores"], self._counts["failures"]),
            )

    def _outcomes(self, groups: list[list[dict]], ahead: bool) -> Iterator[list[tuple]]:
        """For each group its rows, each with its Prepared or the error that it ended in.

        With `ahead` a group is prepared while the one before is being scored.
        """
        if not ahead:
            for group in groups:
                self.writer.begin(group)
                yield self._prepare_all(group)
            return
        with ThreadPoolExecutor(1, "prepare") as thread:
            under_way = deque()
            for position, group in enumerate([*groups, None]):
                if group is not None:
                    self.writer.begin(group)
                    under_way.append(thread.submit(self._prepare_all, group))
                if position > 0:
                    yield under_way.popleft().result()

    def _prepare_all(self, rows: list[dict]) -> list[tuple]:
        outcomes = []
        for row in rows:
            try:
                outcomes.append((row, self._prepare(row)))
            except RunError:
                raise
            except StructureError as error:
                outcomes.append((row, error))
            # A file that no reader was written for costs no other structure its score.
            except Exception as error:
                if devices.is_fault(error) and not memory.is_out_of_memory(error):
                    raise
                log.warning("%s: %s", row["path"], error, exc_info=error)
                reason = "too_large" if memory.is_out_of_memory(error) else "engine_error"
                path = tables.unescape(row["path"])
                words = f"{path}: preparing it: {type(error).__name__}: {error}"
                outcomes.append((row, StructureError(reason, words)))
        return outcomes

    def _prepare(self, row: dict) -> Prepared:
        path = tables.unescape(row["path"])
        source = Source(path)
        if source.sha256 != row["sha256"]:
            raise StructureError("changed", f"{path}: its content is not what was scanned")
        return self.engine.read(source, row["model"], self._policy)

    def _score_batch(self, batch: int, prepared: list, split: int) -> None:
        """Score prepared structures; in halves if they do not fit or one of them fails."""
        poses = [pose for _, pose in prepared]
        live, peak = self.model.predict(self.device.type, poses)
        self._meter.start()
        try:
            stacked = self.engine.stack(poses)
            self._meter.stacked()
            energies = self.engine.score(stacked)
            residues = self._score_residues(prepared)
            why_not = None
        # Anything may be raised by the device, torch or TMol; what it is, is told apart below.
        except Exception as error:
            why_not = self._scoring_failure(error, prepared, peak)
            energies = residues = None
        # Out of the handler, so that no traceback keeps the batch's tensors alive.
        stacked = None
        measured = {
            **{"chunk": self.id, "process": self.process, "batch": batch, "split": split},
            **{"outcome": why_not.reason if why_not else "scored", "device": self.device.type},
            **batch_columns(poses),
            **{"predicted_live_bytes": live, "predicted_peak_bytes": peak},
            **self._meter.end(),
        }
        self.rows["memory"].append(measured)
        self._measured.append(measured)
        if why_not is None:
            for (row, pose), values, of_residues in zip(prepared, energies, residues, strict=True):
                self._add_scores(row, pose, values, of_residues)
        elif len(prepared) == 1:
            self._fail(prepared[0][0], "score", why_not)
        else:
            self._meter.release()
            middle = len(prepared) // 2
            self._score_batch(batch, prepared[:middle], split + 1)
            self._score_batch(batch, prepared[middle:], split + 1)

    def _scoring_failure(self, error, prepared: list, predicted_bytes: int) -> StructureError:
        """What a batch's failure amounts to for a structure that is alone in it."""
        if isinstance(error, RunError):
            raise error
        log.warning("batch of %d: %s", len(prepared), error, exc_info=error)
        path = tables.unescape(prepared[0][0]["path"])
        if memory.is_out_of_memory(error):
            have = memory.device_bytes(self.device)
            return StructureError(
                "too_large",
                f"{path}: out of memory even alone: about {predicted_bytes:,} bytes needed by the"
                f" memory model, {have:,} on the device: {error}",
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


if __name__ == "__main__":
    sys.exit(main())

"""The command line: one sub-command per stage, as the workflow's rules call them."""

import argparse
import json
import logging
import sys
import time
from pathlib import Path

from tmol_plugin.errors import RunError

STARTED_AT = time.time()


def main(arguments: list[str] | None = None) -> int:
    """Run a sub-command; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s"
    )
    try:
        options.run(options)
    except RunError as error:
        logging.getLogger(__name__).debug("", exc_info=error)
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tmol_plugin", description=__doc__)
    steps = parser.add_subparsers(required=True, metavar="step")

    def step(name: str, run, explanation: str) -> argparse.ArgumentParser:
        sub = steps.add_parser(name, help=explanation, description=explanation)
        sub.set_defaults(run=run)
        return sub

    sub = step("inputs", _inputs, "list what `structures` names, in order, as a manifest")
    sub.add_argument("structures", help="folder, glob, text file of paths, or TSV sheet")
    sub.add_argument("--output", required=True, help="manifest (TSV)")

    sub = step("scan", _scan, "size and chemistry of each structure, or why it cannot be scored")
    sub.add_argument("--manifest", required=True, help="TSV of inputs, as `inputs` writes it")
    sub.add_argument("--output", required=True, help="index (Parquet)")
    sub.add_argument("--models", choices=("first", "all"), default="first")
    sub.add_argument("--on-unrecognized", choices=("fail", "drop"), default="fail")
    sub.add_argument("--missing-side-chains", choices=("fail", "rebuild"), default="fail")
    sub.add_argument("--ligand-params", nargs="*", default=[], help="TMol parameter files")
    sub.add_argument("--prepare-ligands", action="store_true", help="list them only, for later")

    sub = step("parameters", _parameters, "one parameter database for the run, and its id")
    sub.add_argument("--output", required=True, help="compiled parameters")
    sub.add_argument("--score-function", default="beta2016")
    sub.add_argument("--ligand-params", nargs="*", default=[], help="TMol parameter files")
    sub.add_argument("--ligand-seed", type=int, default=0)
    sub.add_argument("--prepare-from", nargs="*", default=[], help="indexes (Parquet) of the scan")

    sub = step("plan", _plan, "buckets, chunks and batches of what the scan found")
    sub.add_argument("--index", nargs="+", required=True, help="indexes (Parquet) of the scan")
    sub.add_argument("--parameters", required=True, help="compiled parameters")
    sub.add_argument("--config", required=True, help="the run's whole configuration, as JSON")
    sub.add_argument("--output", required=True, help="folder of the plan")

    sub = step("score_chunk", _score_chunk, "score one chunk on one device")
    sub.add_argument("--members", required=True, help="members/<chunk>.tsv of the plan")
    sub.add_argument("--plan", required=True, help="run.json of the plan")
    sub.add_argument("--parameters", required=True, help="compiled parameters")
    sub.add_argument("--output", required=True, help="folder of the chunk; its name is the id")
    sub.add_argument("--device", choices=("auto", "cpu", "cuda"), help="instead of the config's")
    sub.add_argument("--threads", type=int, default=1)

    step("devices", _devices, "the GPUs that this process sees, and who holds a lease on them")

    sub = step("merge", _merge, "the chunks' tables into the final ones, with nothing lost")
    sub.add_argument("--manifest", required=True, help="TSV of all inputs")
    sub.add_argument("--index", nargs="+", required=True, help="indexes (Parquet) of the scan")
    sub.add_argument("--plan", required=True, help="folder of the plan")
    sub.add_argument("--chunks", required=True, help="folder of the chunks")
    sub.add_argument("--output", required=True, help="folder of the tables")

    sub = step("fit-memory", _fit_memory, "a memory model from memory tables of past runs")
    sub.add_argument("tables", nargs="+", help="memory.parquet of runs or chunks")
    sub.add_argument("--output", required=True, help="file (JSON), for the config's memory.model")

    sub = step("summary", _summary, "how many structures of a run were scored and failed")
    sub.add_argument("results", help="folder of the tables")
    return parser


# What a step imports, it imports when it is run: the others need not wait for it.


def _inputs(options) -> None:
    from tmol_plugin.inputs import list_structures, write_manifest

    write_manifest(options.output, list_structures(options.structures))


def _scan(options) -> None:
    from tmol_plugin import scan
    from tmol_plugin.ligands import residue_names
    from tmol_plugin.policy import Policy

    policy = Policy(
        on_unrecognized=options.on_unrecognized,
        missing_side_chains=options.missing_side_chains,
        parametrized=frozenset(residue_names(options.ligand_params)),
        defer_unrecognized=options.prepare_ligands,
    )
    scan.run(options.manifest, options.output, options.models, policy)


def _parameters(options) -> None:
    from tmol_plugin import parameters

    parameters.run(
        options.output,
        options.score_function,
        options.ligand_params,
        options.prepare_from,
        options.ligand_seed,
    )


def _plan(options) -> None:
    from tmol_plugin import plan

    plan.run(options.index, options.parameters, json.loads(options.config), Path(options.output))


def _score_chunk(options) -> None:
    from tmol_plugin import chunk

    chunk.run(
        options.members,
        options.plan,
        options.parameters,
        options.output,
        options.device,
        options.threads,
        STARTED_AT,
    )


def _devices(options) -> None:
    from tmol_plugin import lease

    print(lease.report())


def _merge(options) -> None:
    from tmol_plugin import merge

    merge.run(options.manifest, options.index, options.plan, options.chunks, options.output)


def _fit_memory(options) -> None:
    from tmol_plugin import memory_fit

    report = memory_fit.run(options.tables, options.output)
    print(memory_fit.describe(report, options.output))


def _summary(options) -> None:
    from tmol_plugin.provenance import summary

    print(summary(options.results))

# The checked configuration, the inputs, and what several rules share.
import json
import os
import shlex
import sys

import yaml
from snakemake.exceptions import WorkflowError

from tmol_plugin import config as configuration
from tmol_plugin import device, inputs, provenance, tables
from tmol_plugin.errors import RunError
from tmol_plugin.memory_model import Model


def checked_config():
    """The configuration with every key, or an error that says what is wrong with which."""
    with open(workflow.source_path("../../config/config.yaml"), encoding="utf-8") as file:
        defaults = yaml.safe_load(file)
    schema = workflow.source_path("../schemas/config.schema.json")
    try:
        completed = configuration.complete(config, defaults, schema)
        # What the file holds, not its name: another content makes another plan.
        model = Model.load(completed["memory"]["model"])
        completed["memory"]["model"] = model.content
        return completed
    except RunError as error:
        raise WorkflowError(str(error)) from error


def list_inputs():
    """Manifests of the inputs; their names say their content, so they trigger the scans."""
    per_job = CONFIG["scan"]["structures_per_job"]
    key = tables.digest([CONFIG["structures"], RESULTS, per_job])
    folder = Path(".snakemake/tmol_plugin") / key
    # The jobs of a run on a cluster parse this file too. They take the list that their main
    # process made, whatever else was listed since (by a dry run, say).
    handed_down = f"TMOL_PLUGIN_MANIFESTS_{key}"
    try:
        if not workflow.is_main_process and handed_down in os.environ:
            return inputs.load_manifests(os.environ.get(handed_down))
        rows = inputs.list_structures(CONFIG["structures"], reserved=tables.RESERVED_COLUMNS)
        listed = inputs.prepare_manifests(rows, per_job, folder)
        os.environ.update({handed_down: listed.record})
        return listed
    except RunError as error:
        raise WorkflowError(str(error)) from error


def option(name, value):
    """A command line option with its values quoted; nothing if there is no value."""
    values = value if isinstance(value, list) else [value]
    return " ".join([f"--{name}", *map(shlex.quote, values)]) if values else ""


def attempts(retries):
    """Retries of a rule. A job of a cluster has none: its main process retries it."""
    return retries if workflow.is_main_process else 0


def planned_chunks(wildcards):
    """What merge needs of every chunk of the plan."""
    with open(checkpoints.plan.get().output.chunks, encoding="utf-8") as file:
        ids = [line.split("\t")[0] for line in file][1:]
    names = ["done.json", *if_per_residue("per_residue.parquet")]
    return [f"{RESULTS}/chunks/{chunk}/{name}" for chunk in ids for name in names]


def if_per_residue(path):
    """A file of a rule that is there if the config asks for energies of residues."""
    return [path] if CONFIG["outputs"]["per_residue"] else []


CONFIG = checked_config()
RESULTS = CONFIG["results"].rstrip("/")
INPUTS = list_inputs()
# Rules call `python`: that of the environment which runs Snakemake, activated or not.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
INDEX = [f"{RESULTS}/index/{shard}.parquet" for shard in INPUTS.shards]


wildcard_constraints:
    shard=r"\d+of\d+",
    chunk=r"[0-9a-f]{12}",

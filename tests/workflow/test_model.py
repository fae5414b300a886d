"""The memory model of a run: its content decides the plan, wherever its file lies."""

import copy
import json

import pandas as pd
import pytest

from tmol_plugin.memory_model import Model

SHIPPED = Model.load("").content


def hungry(atom):
    """A model by which each atom takes so many bytes."""
    content = copy.deepcopy(SHIPPED)
    for kinds in content.values():
        for entry in kinds.values():
            entry["peak"]["atom"] = atom
    return content


@pytest.fixture(scope="module")
def planned(new_project):
    """Two structures, planned with a model in the project's folder, started from another."""
    project = new_project("memory")
    for name in ("1fas.cif", "1ejg.pdb"):
        project.add(name)
    project.write("my model.json", json.dumps(hungry(10**10)))
    project.configure(memory={"model": "my model.json"})
    (project.folder / "other").mkdir()
    return project


def plan(project, *arguments):
    config = str(project.folder / "config.yaml")
    places = ["--snakefile", str(project.snakefile), "--directory", str(project.folder)]
    until = ["--cores", "2", "--until", "plan", *arguments]
    return project.run(
        "snakemake", *places, "--configfile", config, *until, cwd=project.folder / "other"
    )


def test_a_changed_model_makes_the_plan_anew_and_keeps_the_chunks(planned):
    plan(planned)
    folder = planned.results / "plan"
    described = json.loads((folder / "run.json").read_text())
    assert described["config"]["memory"]["model"] == hungry(10**10)
    first = pd.read_csv(folder / "chunks.tsv", sep="\t")
    assert first["n_batches"].tolist() == [2]  # each alone is beyond any memory
    assert first["estimated_bytes"].iloc[0] > 9 * 10**12  # 913 atoms
    assert "Nothing to be done" in plan(planned, "--dry-run").output

    planned.write("my model.json", json.dumps(SHIPPED))
    assert plan(planned).jobs["plan"] == 1
    second = pd.read_csv(folder / "chunks.tsv", sep="\t")
    assert second["chunk"].tolist() == first["chunk"].tolist()
    assert second["n_batches"].tolist() == [1]
    # By another name the same model is no change, and neither is the shipped one.
    planned.configure()
    assert "Nothing to be done" in plan(planned, "--dry-run").output


def test_the_step_alone_takes_a_models_content_and_none_as_the_shipped(planned):
    parameters = planned.results / "parameters" / "parameters.safetensors"
    if not parameters.exists():
        plan(planned)
    index = [str(path) for path in (planned.results / "index").iterdir()]
    config = planned.complete_config()
    assert config["memory"]["model"] == ""
    for model, batches in (("", 1), (SHIPPED, 1), (hungry(10**10), 2)):
        config["memory"]["model"] = model
        given = ["--index", *index, "--parameters", str(parameters), "--output", "by_hand"]
        planned.step("plan", *given, "--config", json.dumps(config))
        chunks = pd.read_csv(planned.folder / "by_hand" / "chunks.tsv", sep="\t")
        assert chunks["n_batches"].tolist() == [batches]

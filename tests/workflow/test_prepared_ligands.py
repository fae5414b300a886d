"""Residues that TMol has no parameters for are prepared once per run, alike in every run."""

import pandas as pd
import pytest

from tmol_plugin.parameters import load_parameters


@pytest.fixture(scope="module")
def prepared(new_project, at_once):
    """Two runs of their own on a kinase with phosphorylated residues and a plain protein."""
    projects = [new_project("prepared"), new_project("prepared again")]
    for project in projects:
        for structure in ("1ajj.pdb", "1fmo.pdb"):
            project.add(structure)
        project.configure(prepare_ligands=True)
    return at_once(*(project.score for project in projects))


def test_phosphorylated_residues_are_prepared_and_scored(prepared):
    for project in prepared:
        assert project.failures() == {}
        scores = project.table("scores").set_index("structure_id")
        assert list(scores.index) == ["1ajj.pdb", "1fmo.pdb"]
        assert scores.loc["1fmo.pdb", "n_residues"] == 338
        path = project.results / "parameters" / "parameters.safetensors"
        parameters = load_parameters(path)
        assert parameters.residues == ["SEP", "TPO"]
        assert parameters.failed == {}
        assert set(scores["parameters_id"]) == {parameters.id}


def test_two_runs_have_identical_energies(prepared, energies):
    first, second = (project.table("scores") for project in prepared)
    pd.testing.assert_frame_equal(first[energies], second[energies], check_exact=True)
    assert first["parameters_id"].equals(second["parameters_id"])
    assert first["chunk"].equals(second["chunk"])


def test_preparing_residues_changes_no_other_score(prepared, together, differences):
    scores, others = prepared[0].table("scores"), together.table("scores")
    of_protein = [rows[rows["structure_id"] == "1ajj.pdb"] for rows in (scores, others)]
    assert not differences(*of_protein)
    assert not set(scores["parameters_id"]) & set(others["parameters_id"])

"""Energies of residues, asked for later and then no more."""

import numpy as np


def test_they_may_be_asked_for_later_and_no_more(project):
    for name in ("1ejg.pdb", "1fas.cif", "1ubi_ca.pdb"):
        project.add(name)
    project.configure()
    assert project.score().ended.jobs["score_chunk"] == 1
    assert not (project.results / "per_residue.parquet").exists()
    scores = project.table("scores")

    project.configure(outputs={"per_residue": True})
    jobs = project.score().ended.jobs
    assert (jobs["scan"], jobs["score_chunk"], jobs["merge"]) == (0, 1, 1)
    assert project.table("scores").equals(scores)
    rows = project.table("per_residue")
    assert rows["structure_id"].tolist() == [
        name for name, n in zip(scores["structure_id"], scores["n_residues"]) for _ in range(n)
    ]
    totals = rows.groupby("structure_id")["total"].sum()
    assert np.allclose(totals[scores["structure_id"]], scores["total"], rtol=1e-5, atol=1e-3)
    assert "per_residue.parquet" in project.ended.output.split("Finished")[-1]

    project.configure()
    jobs = project.score().ended.jobs
    assert (jobs["scan"], jobs["score_chunk"], jobs["merge"]) == (0, 0, 1)
    assert not (project.results / "per_residue.parquet").exists()
    assert project.table("scores").equals(scores)

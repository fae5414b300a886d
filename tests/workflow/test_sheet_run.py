"""A sheet's ids, models and further columns reach the tables; all models of a file are scored."""

import gzip

import pandas as pd
import pytest

SHEET = """\
structure_id\tpath\tmodel\tgroup\tweight in kDa
NA\tstructures/2k39.pdb.gz\t2\tNMR\t8.50
007\tstructures/2k39.pdb.gz\t3\tNA\t8.50
1e5\tstructures/second model.pdb\t\t\t1e3
ensemble\tstructures/2ofg.cif.gz\t\tmodèle\t007
None\tstructures/2k39.pdb.gz\t9\tNMR\t8.50
null\tstructures/1ubi_ca.pdb\t\t\t
"""
EXTRA = ["group", "weight in kDa"]


@pytest.fixture(scope="module")
def sheet(new_project):
    """A sheet with ids that look like numbers or like nothing, models and more columns."""
    project = new_project("sheet")
    for name in ("2k39.pdb.gz", "2ofg.cif.gz", "1ubi_ca.pdb"):
        project.add(name)
    text = gzip.decompress((project.folder / "structures/2k39.pdb.gz").read_bytes()).decode()
    second = text.partition("MODEL        2")[2].partition("ENDMDL")[0]
    assert second.count("\nATOM") == 1231
    project.write("structures/second model.pdb", second + "END\n")
    project.write("sheet.tsv", SHEET)
    project.configure(structures="sheet.tsv", models="all")
    project.ended = project.snakemake()
    return project


def test_ids_models_and_columns_are_as_in_the_sheet(sheet):
    scores = sheet.tsv("scores")
    names = ["structure_id", "model", "n_residues", *EXTRA]
    assert scores[names].values.tolist() == [
        ["NA", "2", "76", "NMR", "8.50"],
        ["007", "3", "76", "NA", "8.50"],
        ["1e5", "1", "76", "", "1e3"],
        ["ensemble", "1", "106", "modèle", "007"],  # lengths: tests/structures/README.md
        ["ensemble", "2", "76", "modèle", "007"],
        ["ensemble", "3", "71", "modèle", "007"],
    ]
    unweighted = sheet.tsv("scores_unweighted")
    pd.testing.assert_frame_equal(unweighted[names], scores[names])
    assert sheet.table("scores")[["structure_id", *EXTRA]].astype(str).values.tolist() == (
        scores[["structure_id", *EXTRA]].values.tolist()
    )


def test_failures_have_the_sheets_columns_too(sheet):
    failures = sheet.tsv("failures")
    assert failures[["structure_id", "model", "reason", *EXTRA]].values.tolist() == [
        ["None", "9", "no_such_model", "NMR", "8.50"],
        ["null", "1", "incomplete_backbone", "", ""],
    ]
    assert "it has 4: 1, 2, 3, 4" in failures.loc[0, "message"]


def test_the_model_named_is_the_model_scored(sheet, differences, energies):
    scores = sheet.table("scores").set_index("structure_id")
    of_file = scores.loc[["NA"]].reset_index().replace({"NA": "1e5"})
    assert not differences(of_file, scores.loc[["1e5"]].reset_index())
    assert abs(scores.loc["007", "total"] - scores.loc["NA", "total"]) > 1
    ensemble = scores.loc["ensemble", energies]
    assert ensemble["total"].nunique() == 3


def test_a_moved_file_keeps_its_score_under_its_new_path(sheet, tmp_path):
    moved = sheet.copy(tmp_path / "moved")
    moved.write("archive/2ofg.cif.gz", (moved.folder / "structures/2ofg.cif.gz").read_bytes())
    (moved.folder / "structures/2ofg.cif.gz").unlink()
    text = SHEET.replace("structures/2ofg", "archive/2ofg").replace("modèle", "moved")
    moved.write("sheet.tsv", text)
    jobs = moved.snakemake().jobs
    assert (jobs["scan"], jobs["merge"], jobs["score_chunk"]) == (1, 1, 0)
    before, after = sheet.table("scores"), moved.table("scores")
    rows = after["structure_id"] == "ensemble"
    assert set(after.loc[rows, "path"]) == {"archive/2ofg.cif.gz"}
    assert set(after.loc[rows, "group"]) == {"moved"}
    pd.testing.assert_frame_equal(
        after.drop(columns=["path", "group"]), before.drop(columns=["path", "group"])
    )

"""The merge takes what the plan names, whole, of one fingerprint, and refuses all else."""

import json
import shutil

import pandas as pd
import pytest


@pytest.fixture
def finished(grown, tmp_path):
    """A copy of a finished run, and the ids of its three chunks."""
    project = grown.copy(tmp_path / "finished")
    chunks = project.tsv("timing")["chunk"].tolist()
    assert len(chunks) == 3
    return project, chunks


def refused(project, *words: str) -> None:
    """Merge; it must fail, say the words and write nothing."""
    merged = project.merge("merged")
    assert merged.code == 1
    assert "Traceback" not in merged.output
    for word in words:
        assert word in merged.output
    assert not (project.folder / "merged").exists()


def test_untouched_chunks_merge_into_the_same_tables(finished):
    project, _ = finished
    assert project.merge("merged").code == 0
    for name in ("scores", "scores_unweighted", "failures", "memory", "timing"):
        for ending in ("tsv", "parquet"):
            merged = project.folder / "merged" / f"{name}.{ending}"
            assert merged.read_bytes() == (project.results / f"{name}.{ending}").read_bytes()


def test_chunk_of_another_fingerprint_is_refused(finished):
    project, chunks = finished
    path = project.results / "chunks" / chunks[1] / "done.json"
    done = json.loads(path.read_text())
    done["fingerprint"] = "0" * 16
    path.write_text(json.dumps(done))
    refused(project, chunks[1], "other versions, settings or parameters", "remove")


@pytest.mark.parametrize("table", ["scores", "failures", "timing"])
def test_altered_table_is_refused(finished, table):
    project, chunks = finished
    path = project.results / "chunks" / chunks[2] / f"{table}.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(project, chunks[2], f"{table}.parquet", "remove")


@pytest.mark.parametrize("lost", ["", "done.json", "scores_unweighted.parquet"])
def test_missing_chunk_or_file_is_refused(finished, lost):
    project, chunks = finished
    path = project.results / "chunks" / chunks[0] / lost
    if lost:
        path.unlink()
    else:
        shutil.rmtree(path)
    refused(project, chunks[0], "run again")


def test_chunk_that_the_plan_does_not_name_is_left_out(finished):
    project, chunks = finished
    folder = project.results / "chunks"
    shutil.copytree(folder / chunks[0], folder / ("0" * 12))
    assert project.merge("merged").code == 0
    merged = pd.read_parquet(project.folder / "merged" / "scores.parquet")
    pd.testing.assert_frame_equal(merged, project.table("scores"))


def test_inputs_that_no_index_holds_are_refused(finished):
    project, _ = finished
    project.add("1ubi.pdb")
    refused(project, "lacks 1 inputs", "1ubi.pdb", "scan again")


def test_chunk_removed_after_a_failed_merge_will_be_scored_again(finished):
    project, chunks = finished
    shutil.rmtree(project.results / "chunks" / chunks[0])
    (project.results / "scores.tsv").unlink()  # Snakemake removes the tables of a failed merge
    dry = project.snakemake("-n").output
    assert f"Score chunk {chunks[0]}" in dry
    assert not any(f"Score chunk {chunk}" in dry for chunk in chunks[1:])

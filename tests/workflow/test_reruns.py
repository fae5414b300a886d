"""Chunks and the order of the inputs change no score; what is there is not scored again."""

import pandas as pd

NAMES = ["1ajj.pdb", "1ejg.pdb", "1fas.cif"]


def test_chunks_of_one_score_as_chunks_of_many(grown, together, differences):
    # One of each engine: 1ajj holds a calcium.
    assert together.ended.jobs["score_chunk"] == 2
    scores = grown.table("scores")
    assert list(scores["structure_id"]) == NAMES
    assert scores["chunk"].nunique() == 3
    assert list(scores["n_residues"]) == [38, 46, 61]  # tests/structures/README.md
    assert list(scores["n_atoms"]) == [514, 642, 913]
    for name in ("scores", "scores_unweighted"):
        assert not differences(grown.table(name), together.table(name))
    pd.testing.assert_frame_equal(grown.table("failures"), together.table("failures"))
    assert grown.failures() == {"1ubi_ca.pdb": "incomplete_backbone"}


def test_rows_stand_in_the_inputs_order(together):
    for name in ("scores", "scores_unweighted"):
        rows = together.table(name)
        assert list(rows["structure_id"]) == ["1fas.cif", "1ajj.pdb", "1ejg.pdb"]
        assert rows["chunk"].nunique() == 2


def test_total_is_the_sum_of_the_weighted_terms(together, energies):
    scores = together.table("scores")
    # Both are float64; only the order of 25 additions may differ.
    assert (scores[energies[1:]].sum(axis=1) - scores["total"]).abs().max() < 1e-6
    assert (scores["total"] == together.table("scores_unweighted")["total"]).all()


def test_tables_hold_the_same_rows_as_parquet_and_tsv(together, energies):
    for name in ("scores", "failures", "memory", "timing"):
        parquet, tsv = together.table(name), together.tsv(name)
        assert list(parquet.columns) == list(tsv.columns)
        assert len(parquet) == len(tsv) > 0
    scores, written = together.table("scores"), together.tsv("scores")
    assert list(written["structure_id"]) == list(scores["structure_id"])
    # TSV has six decimals.
    assert (written[energies].astype(float) - scores[energies]).abs().max().max() <= 5.1e-7


def test_timing_and_memory_have_a_row_for_each_chunk(grown):
    chunks = set(grown.table("scores")["chunk"])
    timing, memory = grown.table("timing"), grown.table("memory")
    assert set(timing["chunk"]) == set(memory["chunk"]) == chunks
    assert len(timing) == len(memory) == 3
    assert list(timing["n_scored"]) == [1, 1, 1]
    assert set(memory["outcome"]) == {"scored"}
    seconds = timing[[name for name in timing if name.endswith("_seconds")]]
    assert timing["lease_wait_seconds"].isna().all()  # on the CPU
    assert (seconds.drop(columns="lease_wait_seconds") >= 0).all(axis=None)
    # The parts are parts of the whole; two clocks are read, at most some milliseconds apart.
    assert (seconds.sum(axis=1) <= timing["ended_at"] - timing["started_at"] + 0.5).all()
    assert grown.described()["counts"] == {"scored": 3, "failed": 1}


def test_second_run_does_nothing(grown, tmp_path):
    again = grown.copy(tmp_path / "again").snakemake()
    assert not again.jobs
    assert "Nothing to be done" in again.output


def test_new_structure_alone_is_scored(separate, grown):
    assert separate.ended.jobs["score_chunk"] == 2
    assert grown.ended.jobs["score_chunk"] == 1
    before = separate.table("scores").set_index("structure_id")
    after = grown.table("scores").set_index("structure_id")
    assert list(after.index) == NAMES
    pd.testing.assert_frame_equal(after.drop(index="1ejg.pdb"), before)
    assert grown.failures() == separate.failures()


def test_removed_and_replaced_structures_cost_no_scoring(grown, tmp_path):
    shrunk = grown.copy(tmp_path / "shrunk")
    (shrunk.folder / "structures" / "1fas.cif").unlink()
    shrunk.add("1ajj.pdb")  # the same content at another time
    jobs = shrunk.snakemake().jobs
    assert (jobs["scan"], jobs["merge"], jobs["score_chunk"]) == (1, 1, 0)
    before = grown.table("scores").set_index("structure_id")
    after = shrunk.table("scores").set_index("structure_id")
    pd.testing.assert_frame_equal(after, before.drop(index="1fas.cif"))


def test_keys_that_decide_no_score_cost_no_scoring(separate, tmp_path):
    changed = separate.copy(tmp_path / "changed")
    others = {"threads": 2, "device": "auto", "memory": {"fraction": 0.5}}
    changed.configure(chunk={"max_structures": 1, "target_minutes": 10}, **others)
    jobs = changed.snakemake().jobs
    assert jobs == {"plan": 1, "merge": 1, "all": 1}
    pd.testing.assert_frame_equal(changed.table("scores"), separate.table("scores"))
    before, after = separate.described()["config"], changed.described()["config"]
    assert {name for name in after if after[name] != before[name]} == {*others, "chunk"}
    assert changed.described()["settings"] == separate.described()["settings"]


def test_key_that_decides_scores_scores_everything_again(together, soft):
    assert soft.ended.jobs["score_chunk"] == 2
    before, after = together.table("scores"), soft.table("scores")
    assert list(after["structure_id"]) == list(before["structure_id"])
    for name in ("chunk", "parameters_id"):
        assert not set(after[name]) & set(before[name])
    # What beta_soft makes softer is repulsion: the same overlaps cost less.
    hard, softer = (project.table("scores_unweighted")["fa_ljrep"] for project in (together, soft))
    assert (softer < 0.9 * hard).all()
    assert soft.described()["settings"]["score_function"] == "beta_soft"
    assert soft.failures() == together.failures()

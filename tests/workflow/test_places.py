"""Where a run happens and what paths are called changes nothing; it can be a module."""

import pandas as pd
import pytest

NAMES = (
    *("plain.pdb", "with space.pdb", "[1] (2) {3}.pdb", 'it\'s "quoted" & $HOME;.pdb'),
    *("né-β-構造.PDB", "{shard}.pdb", "50%s #2.pdb", "sub folder/*.ent", "-dash.pdb"),
    "tab\tand\\back.pdb",
)


MODULE = """
configfile: "config.yaml"


module tmol:
    snakefile: "{snakefile}"
    config: config["tmol"]
    prefix: "scoring"


use rule * from tmol as tmol_*


rule best:
    default_target: True
    input:
        "scoring/results/scores.tsv",
    output:
        "best.tsv",
    shell:
        "cut -f 1 {{input}} > {{output}}"
"""


@pytest.fixture(scope="module")
def runs(new_project, at_once):
    """Projects scored from another folder and as a module."""
    elsewhere = new_project("else where", results="résultats d'été [1]")
    for name in NAMES:
        elsewhere.add("1ajj.pdb", f"mes [structures]/{name}")
    elsewhere.configure(structures="structures/mes [structures]", results=elsewhere.results.name)
    other = elsewhere.folder / "other"
    other.mkdir()

    module = new_project("module", results="scoring/results")
    for name in ("1ajj.pdb", "1ubi_ca.pdb"):
        module.add(name)
    module.write("Snakefile", MODULE.format(snakefile=module.snakefile))
    keys = '{"structures": "structures", "device": "cpu"}'
    module.write("config.yaml", f'{{"tmol": {keys}, "mine": 1}}\n')

    ended = at_once(lambda: elsewhere.run_from(other), lambda: module.run("snakemake", "-c", "2"))
    elsewhere.ended, module.ended = ended
    return elsewhere, module


@pytest.fixture(scope="module")
def elsewhere(runs):
    """One structure under names of many kinds, scored from another folder."""
    return runs[0]


@pytest.fixture(scope="module")
def module(runs):
    """A workflow of its own that takes ours as a module, and goes on from the scores."""
    return runs[1]


def test_ids_are_the_paths_whatever_they_hold(elsewhere, energies):
    scores = elsewhere.table("scores")
    escaped = sorted(name.replace("\\", "\\\\").replace("\t", "\\t") for name in NAMES)
    assert sorted(scores["structure_id"]) == escaped
    assert list(elsewhere.tsv("scores")["structure_id"]) == list(scores["structure_id"])
    assert list(scores["path"]) == [
        f"structures/mes [structures]/{name}" for name in scores["structure_id"]
    ]
    assert len(elsewhere.table("failures")) == 0
    assert (scores[energies].nunique() == 1).all()  # one content, one batch: the same sums


def test_score_is_that_of_a_plain_run(elsewhere, together, differences):
    scores = elsewhere.table("scores")
    row = scores[scores["structure_id"] == "plain.pdb"].replace({"plain.pdb": "1ajj.pdb"})
    others = together.table("scores")
    assert not differences(row, others[others["structure_id"] == "1ajj.pdb"])


def test_nothing_is_written_where_the_command_was_given(elsewhere):
    assert not list((elsewhere.folder / "other").iterdir())


def test_second_run_from_another_folder_does_nothing(elsewhere):
    again = elsewhere.run_from(elsewhere.folder / "other")
    assert "Nothing to be done" in again.output
    assert not again.jobs


def test_workflow_as_a_module_of_another(module, together, differences):
    jobs = module.ended.jobs
    assert jobs["tmol_score_chunk"] == jobs["best"] == 1
    assert (module.folder / "best.tsv").read_text() == "structure_id\n1ajj.pdb\n"
    others = together.table("scores")
    assert not differences(module.table("scores"), others[others["structure_id"] == "1ajj.pdb"])
    pd.testing.assert_frame_equal(module.table("failures"), together.table("failures"))
    assert not (module.folder / "results").exists()


def test_second_run_as_a_module_does_nothing(module):
    assert "Nothing to be done" in module.run("snakemake", "-c", "2").output

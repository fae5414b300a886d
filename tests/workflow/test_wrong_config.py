"""A wrong configuration ends the run at once and is explained; a dry run needs no engine."""

import re

import pytest

SHEET = "structure_id\tpath\na\tx.pdb\nb\ty.pdb\na\tz.pdb\n"

WRONG = {
    "misspelt key": ({"scorefunction": "x"}, "unknown key scorefunction; allowed: .*score_func"),
    "misspelt key of a section": (
        {"chunk": {"max_structure": 1}},
        "chunk: unknown key max_structure; allowed: max_structures, target_minutes",
    ),
    "value not allowed": (
        {"hydrogens": "maybe"},
        'hydrogens: is "maybe", must be one of keep, optimize',
    ),
    "type": ({"threads": "two"}, 'threads: is "two", must be a whole number'),
    "too small": (
        {"chunk": {"max_structures": 0}},
        "chunk.max_structures: is 0, must be at least 1",
    ),
    "too large": ({"memory": {"fraction": 80}}, "memory.fraction: is 80, must be at most 1"),
    "two at once": ({"models": "last", "device": "tpu"}, 'device: is "tpu".*models: is "last"'),
    "no score function": (
        {"score_function": "beta_hard"},
        "'beta_hard' is not a file; .*score_function is beta2016, beta_soft or a .sfxn file",
    ),
    "no parameter file": (
        {"ligand_params": ["nowhere.tmol"]},
        "'nowhere.tmol' is not a file; ligand_params are",
    ),
    "no memory model": (
        {"memory": {"model": "nowhere.json"}},
        "memory.model: nowhere.json: cannot be read as JSON: .*No such file",
    ),
    "file that is no memory model": (
        {"memory": {"model": "bare.tsv"}},
        "memory.model: bare.tsv: cannot be read as JSON",
    ),
    "braces": ({"results": "a {b}"}, r'results: is "a \{b\}", must be a text that matches'),
    "no such folder": ({"structures": "nowhere"}, "structures: 'nowhere' is not in .*; correct"),
    "empty folder": ({"structures": "empty"}, "structures: 'empty': the folder holds no .pdb"),
    "glob of nothing": ({"structures": "*/*.ent"}, r"structures: '\*/\*.ent': the glob matches no"),
    "id twice": ({"structures": "twice.tsv"}, "'twice.tsv' line 4: structure_id 'a' is also on l"),
    "no header": ({"structures": "bare.tsv"}, "'bare.tsv': the header 'a\\\\tx.pdb' is no sheet's"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_configuration_is_refused_and_explained(project, case):
    keys, explained = WRONG[case]
    project.add("1ajj.pdb")
    (project.folder / "empty").mkdir()
    project.write("twice.tsv", SHEET)
    project.write("bare.tsv", "a\tx.pdb\n")
    project.configure(**keys)
    refused = project.snakemake("-n", check=False)
    assert refused.code != 0
    assert re.search(explained, refused.output), refused.output
    assert "Traceback" not in refused.output
    assert not project.results.exists()


def test_dry_run_lists_the_work_and_imports_no_engine(project):
    for name in ("1ajj.pdb", "1fas.cif", "2k39.pdb.gz"):
        project.add(name)
    project.configure(prepare_ligands=True, scan={"structures_per_job": 1})
    dry = project.snakemake("-n", python=["-X", "importtime"])
    counts = dict(re.findall(r"^(\w+) +(\d+)$", dry.output, re.MULTILINE))
    # Three structures at one a job: the next power of two.
    assert counts == {"scan": "4", "parameters": "1", "plan": "1", "merge": "1", "all": "1"} | {
        "total": "8"
    }
    imported = set(re.findall(r"^import time: .*\| +([\w.]+)$", dry.output, re.MULTILINE))
    assert {"snakemake.dag", "tmol_plugin.config", "tmol_plugin.inputs"} <= imported
    heavy = {"torch", "tmol", "gemmi", "rdkit", "biotite", "scipy", "atomworks", "openbabel"}
    assert not heavy & {name.partition(".")[0] for name in imported}
    assert not project.results.exists()

"""One bad file never costs another its score: each input ends in scores or failures."""

import gzip
import json

import pytest

# Columns of a PDB file's atoms.
RESIDUE_NAME, RESIDUE_NUMBER, XYZ = slice(17, 20), slice(22, 26), slice(30, 54)


def edited(lines: list[str], numbers: list[int], columns: slice, text: str) -> str:
    """A PDB file with `text` in some columns of some lines."""
    assert columns.stop - columns.start == len(text)
    lines = list(lines)
    for i in numbers:
        lines[i] = lines[i][: columns.start] + text + lines[i][columns.stop :]
    return "\n".join([*lines, ""])


def lay_out_bad_files(project) -> None:
    """Good files, and one of each kind of bad file."""
    for name in ("1ajj.pdb", "1fas.cif", "1fmo.pdb", "1ubi_ca.pdb"):
        project.add(name)
    project.add("1ajj.pdb", "again/copy of 1ajj.pdb")
    project.add("1ejg.pdb", "1ejg.cif")  # the content decides the format
    lines = (project.folder / "structures/1ajj.pdb").read_text().splitlines()
    atoms = [i for i, line in enumerate(lines) if line.startswith("ATOM")]
    waters = [line for line in lines if line[RESIDUE_NAME] == "HOH"]
    assert len(waters) > 10
    first, second = lines[atoms[0]], atoms[1:2]
    number = lines[atoms[40]][RESIDUE_NUMBER]
    residue = [i for i in atoms if lines[i][RESIDUE_NUMBER] == number]
    overflown = "********" + lines[atoms[1]][38:54]
    crambin = gzip.compress((project.folder / "structures/1ejg.cif").read_bytes())
    files = {
        "empty.pdb": "",
        "binary.pdb": bytes(range(256)) * 40,
        "truncated.pdb.gz": crambin[: len(crambin) // 2],
        "page.pdb": "<!DOCTYPE html>\n<html><body>404 Not Found</body></html>\n",
        "text.cif": "data_nothing\n_entry.id nothing\n",
        "waters.pdb": "\n".join([*waters, "END", ""]),
        "unknown.pdb": edited(lines, residue, RESIDUE_NAME, "UNK"),
        "not a number.pdb": edited(lines, second, XYZ, f"{'nan':>8}{'nan':>8}{'nan':>8}"),
        "overflow.pdb": edited(lines, second, XYZ, overflown),
        "one point.pdb": edited(lines, second, XYZ, first[XYZ]),
    }
    for name, content in files.items():
        project.write(f"structures/{name}", content)
    (project.folder / "structures" / "gone.pdb").symlink_to("nowhere.pdb")
    project.configure()


def score_by_hand(project) -> None:
    """Score a list step by step, with files removed and changed between plan and scoring."""
    for name in ("1ajj.pdb", "1ejg.pdb", "1fas.cif"):
        project.add(name)
    names = ["1fas.cif", "never there.pdb", "1ajj.pdb", ".", "1ejg.pdb"]
    project.write("listed.txt", "".join(f"structures/{name}\n" for name in names))
    project.step("inputs", "listed.txt", "--output", "inputs.tsv")
    project.step("scan", "--manifest", "inputs.tsv", "--output", "index.parquet")
    project.step("parameters", "--output", "parameters.safetensors")
    shared = ["--parameters", "parameters.safetensors"]
    config = json.dumps(project.complete_config())
    project.step("plan", "--index", "index.parquet", *shared, "--config", config, "--output", "p")
    (project.folder / "structures" / "1ejg.pdb").unlink()
    with open(project.folder / "structures" / "1fas.cif", "a") as file:
        file.write("# a comment more\n")
    plan = ["--plan", "p/run.json"]
    for members in (project.folder / "p" / "members").iterdir():
        chunk = ["--members", f"p/members/{members.name}", "--output", f"chunks/{members.stem}"]
        project.step("score_chunk", *chunk, *plan, *shared, "--device", "cpu")
    places = ["--plan", "p", "--chunks", "chunks", "--output", "results"]
    project.step("merge", "--manifest", "inputs.tsv", "--index", "index.parquet", *places)


@pytest.fixture(scope="module")
def runs(new_project, at_once):
    """Projects scored by the workflow and by hand."""
    folder, listed = new_project("dirty"), new_project("by hand")
    lay_out_bad_files(folder)
    at_once(folder.score, lambda: score_by_hand(listed))
    return folder, listed


@pytest.fixture(scope="module")
def dirty(runs):
    """A folder of good and bad files, scored."""
    return runs[0]


@pytest.fixture(scope="module")
def by_hand(runs):
    """A list of which files were removed and changed between plan and scoring, scored."""
    return runs[1]


REASONS = {
    "1fmo.pdb": "unrecognized_residue",
    "1ubi_ca.pdb": "incomplete_backbone",
    "binary.pdb": "unreadable",
    "empty.pdb": "unreadable",
    "gone.pdb": "unreadable",
    "not a number.pdb": "bad_coordinates",
    "one point.pdb": "bad_coordinates",
    "overflow.pdb": "bad_coordinates",
    "page.pdb": "unreadable",
    "text.cif": "unreadable",
    "truncated.pdb.gz": "unreadable",
    "unknown.pdb": "unrecognized_residue",
    "waters.pdb": "no_polymer",
}
SCORED = ["1ajj.pdb", "1ejg.cif", "1fas.cif", "again/copy of 1ajj.pdb"]


def test_each_input_ends_in_scores_or_failures(dirty):
    assert dirty.failures() == REASONS
    assert list(dirty.table("failures")["structure_id"]) == sorted(REASONS)
    assert list(dirty.table("scores")["structure_id"]) == SCORED
    assert dirty.described()["counts"] == {"scored": len(SCORED), "failed": len(REASONS)}
    assert "4 structures scored, 13 failed." in dirty.ended.output


def test_failures_say_where_what_and_what_to_do(dirty):
    failures = dirty.table("failures").set_index("structure_id")
    assert set(failures["stage"]) == {"scan"}
    assert failures["remedy"].str.len().min() > 10
    for name, message in failures["message"].items():
        assert message.startswith(f"structures/{name}: "), message
    for name, words in {
        "1fmo.pdb": ["E:197 TPO", "E:338 SEP"],
        "gone.pdb": ["No such file"],
        "truncated.pdb.gz": ["gzip"],
        "page.pdb": ["HTML"],
        "waters.pdb": ["waters"],
        "unknown.pdb": ["UNK"],
        "1ubi_ca.pdb": ["A:1 MET lacks N C", "56 more"],
        "not a number.pdb": ["line ", "nan"],
        "overflow.pdb": ["line ", "********"],
        "one point.pdb": ["atoms N and CA"],
    }.items():
        for word in words:
            assert word in failures.loc[name, "message"]
    assert "prepare_ligands: true" in failures.loc["1fmo.pdb", "remedy"]


def test_bad_files_change_no_score(dirty, together, differences):
    scores = dirty.table("scores").replace({"structure_id": {"1ejg.cif": "1ejg.pdb"}})
    assert not differences(scores.iloc[:3], together.table("scores"))


def test_copies_of_a_file_have_equal_scores(dirty, energies):
    rows = dirty.table("scores").set_index("structure_id")
    first, copy = rows.loc["1ajj.pdb"], rows.loc["again/copy of 1ajj.pdb"]
    # Of one size, they are in one batch: TMol does the same sums for both.
    assert first[energies].tolist() == copy[energies].tolist()
    assert first["path"] != copy["path"]


def test_files_removed_and_changed_after_the_plan_fail_alone(by_hand):
    failures = by_hand.table("failures").set_index("structure_id")
    assert failures[["stage", "reason"]].agg(" ".join, axis=1).to_dict() == {
        "structures/1fas.cif": "prepare changed",
        "structures/never there.pdb": "scan unreadable",
        "structures": "scan unreadable",
        "structures/1ejg.pdb": "prepare unreadable",
    }
    assert "No such file" in failures.loc["structures/1ejg.pdb", "message"]
    assert by_hand.described()["counts"] == {"scored": 1, "failed": 4}
    assert "1 structures scored, 4 failed." in by_hand.step("summary", "results").output


def test_steps_by_hand_score_as_the_workflow(by_hand, together, differences):
    scores = by_hand.table("scores")
    scores["structure_id"] = scores["structure_id"].str.removeprefix("structures/")
    others = together.table("scores")
    assert not differences(scores, others[others["structure_id"] == "1ajj.pdb"])
    assert set(scores["parameters_id"]) == set(others["parameters_id"])

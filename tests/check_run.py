"""Check a run on the shipped structures, value by value: `python tests/check_run.py results`.

Every scored row must agree, score type by score type, with TMol alone in another process
on the file itself, within 1e-3 + 1e-5 x |value|: TMol's float32 sums over a batch and over
one pose differ in order, and their terms are up to some thousand units.
"""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd

SHIPPED = 13
EXPECTED_FAILURES = {"1fmo.pdb": "unrecognized_residue", "1ubi_ca.pdb": "incomplete_backbone"}


def direct_energies(rows: pd.DataFrame, hydrogens: str, seed: int) -> dict[str, dict[str, float]]:
    """Path:model -> score type -> weighted energy, by TMol alone in another process."""
    structures = [f"{row.path}:{row.model}" for row in rows.itertuples()]
    command = [sys.executable, str(Path(__file__).with_name("direct_tmol.py"))]
    done = subprocess.run(
        [*command, hydrogens, str(seed), *structures], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def disagreements(rows: pd.DataFrame, direct: dict[str, dict[str, float]]) -> list[str]:
    """What differs by more than the tolerance, in words."""
    wrong = []
    for row in rows.to_dict("records"):
        for name, expected in direct[f"{row['path']}:{row['model']}"].items():
            if not abs(row[name] - expected) <= 1e-3 + 1e-5 * abs(expected):
                wrong.append(
                    f"{row['structure_id']} model {row['model']} {name}: {row[name]},"
                    f" TMol alone {expected}"
                )
    return wrong


def main() -> None:
    results = Path(sys.argv[1])
    scores = pd.read_csv(results / "scores.tsv", sep="\t", keep_default_na=False)
    failures = pd.read_csv(results / "failures.tsv", sep="\t", keep_default_na=False)
    run = json.loads((results / "run.json").read_text())
    problems = []
    ended = {*scores["structure_id"], *failures["structure_id"]}
    if len(ended) != SHIPPED:
        problems.append(f"{len(ended)} of {SHIPPED} structures are in the tables")
    found = dict(zip(failures["structure_id"], failures["reason"], strict=True))
    if found != EXPECTED_FAILURES:
        problems.append(f"failures are {found}, expected {EXPECTED_FAILURES}")
    settings = run["settings"]
    direct = direct_energies(scores, settings["hydrogens"], settings["packer_seed"])
    problems += disagreements(scores, direct)
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(scores)} structures agree with TMol alone in every score type")


if __name__ == "__main__":
    main()

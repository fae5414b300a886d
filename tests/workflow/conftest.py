"""Helpers of the workflow tests: projects, runs of the real Snakefile, and shared results.

Every test runs Snakemake, or a step of the command line, as a process of its own in a folder
of its own. A run that scores costs 10 to 20 s, nearly all of it TMol's start: what several
tests look at is run once, two runs at a time, and who changes a project takes a copy of it.
"""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tmol_plugin.tables import SCORE_TYPES

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "tests" / "structures"
ENERGIES = ["total", *SCORE_TYPES]


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, all it printed, and its finished jobs by rule."""

    code: int
    output: str

    @property
    def jobs(self) -> Counter:
        return Counter(re.findall(r"Finished jobid: \d+ \(Rule: (\w+)\)", self.output))


class Project:
    """A working folder with structures, a config.yaml and, after a run, results."""

    snakefile = ROOT / "Snakefile"

    def __init__(self, folder: Path, results: str = "results"):
        self.folder = folder
        self.results = folder / results
        self.ended: Ended | None = None  # how `score` ended
        self.folder.mkdir(parents=True, exist_ok=True)

    def add(self, source: str, name: str | None = None) -> Path:
        """Copy a shipped structure into the folder `structures`."""
        path = self.folder / "structures" / (name or source)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # in a copied project it is a link
        shutil.copy(SHIPPED / source, path)
        return path

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file below the project's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def configure(self, **keys) -> None:
        """Write config.yaml; the device is the CPU, so that every machine tests the same."""
        keys = {"structures": "structures", "device": "cpu"} | keys
        self.write("config.yaml", yaml.safe_dump(keys, allow_unicode=True))

    def complete_config(self, **keys) -> dict:
        """Every key of the configuration, as the workflow hands it to the plan."""
        defaults = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
        device = defaults["device"] | {"use": "cpu"}
        return defaults | {"structures": "structures", "device": device} | keys

    def snakemake(self, *arguments: str, **how) -> Ended:
        """Run the Snakefile in this folder with its config.yaml."""
        fixed = ["--snakefile", str(self.snakefile), "--configfile", "config.yaml"]
        return self.run("snakemake", *fixed, "--cores", "2", *arguments, **how)

    def score(self) -> "Project":
        """Run the Snakefile and remember how that ended."""
        self.ended = self.snakemake()
        return self

    def run_from(self, cwd: Path) -> Ended:
        """Run the Snakefile for this folder, the command being given in another."""
        config = str(self.folder / "config.yaml")
        places = ["--snakefile", str(self.snakefile), "--directory", str(self.folder)]
        return self.run("snakemake", *places, "--configfile", config, "--cores", "2", cwd=cwd)

    def step(self, *arguments: str, check: bool = True) -> Ended:
        """Run a step of the command line in this folder."""
        return self.run("tmol_plugin", *arguments, check=check)

    def run(
        self,
        module: str,
        *arguments: str,
        cwd: Path | None = None,
        check: bool = True,
        python: Iterable[str] = (),
    ) -> Ended:
        """Run `python -m module ...`; with `check`, a failure of it fails the test."""
        done = subprocess.run(
            [sys.executable, *python, "-m", module, *arguments],
            cwd=cwd or self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        ended = Ended(done.returncode, done.stdout)
        if check and ended.code != 0:
            pytest.fail(f"{module} {' '.join(arguments)}\n{ended.output}{self.logs()}")
        return ended

    def logs(self) -> str:
        """The logs of the rules, for the message of a failed run."""
        paths = sorted(path for path in self.results.rglob("*.log") if path.stat().st_size)
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')}" for path in paths)

    def table(self, name: str) -> pd.DataFrame:
        """A final table, from its Parquet file."""
        return pd.read_parquet(self.results / f"{name}.parquet")

    def tsv(self, name: str) -> pd.DataFrame:
        """A final table, from its TSV file, every value as the string that stands there."""
        path = self.results / f"{name}.tsv"
        return pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)

    def described(self) -> dict:
        """run.json of the results."""
        return json.loads((self.results / "run.json").read_text(encoding="utf-8"))

    def failures(self) -> dict[str, str]:
        """Reason by id, from the failures table."""
        table = self.table("failures")
        return dict(zip(table["structure_id"], table["reason"], strict=True))

    def copy(self, folder: Path) -> "Project":
        """This project, its results and Snakemake's records of them, in another folder.

        Its structures are links to this project's, so that they are as old as these: a copied
        file is a changed one, which is scanned again.
        """
        here = str(self.folder)
        structures = self.folder / "structures"
        shutil.copytree(
            here, folder, symlinks=True, ignore=lambda at, _: ["structures"] if at == here else []
        )
        for path in structures.rglob("*"):
            if path.is_file():
                link = folder / path.relative_to(self.folder)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path.resolve())
        return Project(folder, self.results.relative_to(self.folder).as_posix())

    def merge(self, output: str) -> Ended:
        """Merge the results of a run by hand into another folder."""
        self.step("inputs", self.described()["config"]["structures"], "--output", "inputs.tsv")
        index = sorted(str(path) for path in self.results.glob("index/*.parquet"))
        places = ["--plan", f"{self.results}/plan", "--chunks", f"{self.results}/chunks"]
        given = ["--manifest", "inputs.tsv", "--index", *index, *places, "--output", output]
        return self.step("merge", *given, check=False)


def _differences(rows: pd.DataFrame, others: pd.DataFrame, key: str = "structure_id") -> list[str]:
    """Energies of two tables that differ by more than the tolerance, in words.

    1e-3 + 1e-5 x |value|, as in tests/check_run.py: TMol sums in float32, in an order that
    depends on what else is in the batch, and terms are up to some thousand units.
    """
    rows, others = rows.set_index(key), others.set_index(key)
    if sorted(rows.index) != sorted(others.index):
        return [f"rows {sorted(rows.index)} against {sorted(others.index)}"]
    return [
        f"{name} {term}: {value} against {expected}"
        for name in rows.index
        for term in ENERGIES
        for value, expected in [(rows.loc[name, term], others.loc[name, term])]
        if not abs(value - expected) <= 1e-3 + 1e-5 * abs(expected)
    ]


@pytest.fixture(scope="session")
def differences():
    """The function that says in words where two tables' energies differ."""
    return _differences


@pytest.fixture(scope="session")
def energies() -> list[str]:
    """The columns of the scores that hold energies."""
    return ENERGIES


@pytest.fixture
def project(tmp_path) -> Project:
    """A new, empty project for one test."""
    return Project(tmp_path / "project")


@pytest.fixture(scope="session")
def new_project(tmp_path_factory):
    """A function that makes an empty project for fixtures that tests share."""
    return lambda name, results="results": Project(tmp_path_factory.mktemp(name), results)


def _at_once(*functions):
    """Results of functions without arguments, two at a time; the tests' machine has two cores."""
    with ThreadPoolExecutor(2) as executor:
        return list(executor.map(lambda function: function(), functions))


@pytest.fixture(scope="session")
def at_once():
    """The function that runs functions two at a time."""
    return _at_once


@pytest.fixture(scope="session")
def first_runs(new_project) -> list[Project]:
    """Runs of their own on three structures each, of which `separate` and `together` tell."""
    separate, together = new_project("separate"), new_project("together")
    for name in ("1ajj.pdb", "1fas.cif", "1ubi_ca.pdb"):
        separate.add(name)
    separate.configure(chunk={"max_structures": 1})
    names = ["1fas.cif", "1ubi_ca.pdb", "1ajj.pdb", "1ejg.pdb"]
    for name in names:
        together.add(name)
    together.write("listed.txt", "".join(f"structures/{name}\n" for name in names))
    together.configure(structures="listed.txt")
    _at_once(separate.score, together.score)
    return [separate, together]


@pytest.fixture(scope="session")
def separate(first_runs) -> Project:
    """A folder of two small structures, each in a chunk of its own, and one that fails."""
    return first_runs[0]


@pytest.fixture(scope="session")
def together(first_runs) -> Project:
    """The structures of `grown`, from a text file in another order, in a chunk per engine."""
    return first_runs[1]


@pytest.fixture(scope="session")
def second_runs(separate, together, tmp_path_factory) -> list[Project]:
    """Copies of both, changed and run again, of which `grown` and `soft` tell."""
    grown = separate.copy(tmp_path_factory.mktemp("grown") / "project")
    grown.add("1ejg.pdb")
    soft = together.copy(tmp_path_factory.mktemp("soft") / "project")
    soft.configure(structures="listed.txt", score_function="beta_soft")
    _at_once(grown.score, soft.score)
    return [grown, soft]


@pytest.fixture(scope="session")
def grown(second_runs) -> Project:
    """`separate`, run again with one structure more."""
    return second_runs[0]


@pytest.fixture(scope="session")
def soft(second_runs) -> Project:
    """`together`, run again with another score function."""
    return second_runs[1]

"""The scan's fast way against its careful one: the same rows, the same failures."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
from file_cases import CASES
from mutants import mutants

from tmol_plugin import heavy_atoms, scan
from tmol_plugin.inputs import Row
from tmol_plugin.policy import Policy
from tmol_plugin.reading import Source
from tmol_plugin.structure import read_plain

STRUCTURES = Path(__file__).parent / "structures"
SHIPPED = sorted(p.name for p in STRUCTURES.iterdir() if p.suffix != ".md")


@pytest.fixture
def both(monkeypatch):
    """A file's rows by the scan, and by the careful reader alone."""

    def both(path, models="first"):
        row = Row("id", str(path), None, {}, 0, 0)
        fast = list(scan.scan_rows(row, models, Policy()))
        with monkeypatch.context() as patched:
            patched.setattr(scan, "_summary", lambda source, model: None)
            careful = list(scan.scan_rows(row, models, Policy()))
        return fast, careful

    return both


def is_plain(path):
    return scan._summary(Source(str(path)), Source(str(path)).first_model) is not None


@pytest.mark.parametrize("models", ["first", "all"])
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_have_the_same_rows(name, models, both):
    fast, careful = both(STRUCTURES / name, models)
    assert fast == careful
    # All but those with a calcium, DNA, phosphorylated residues, two names at one position, or
    # nothing but CA.
    others = ["1ajj.pdb", "1lcd.pdb", "1fmo.pdb", "1ejg.pdb", "1ubi_ca.pdb"]
    assert is_plain(STRUCTURES / name) == (name not in others)


@pytest.mark.parametrize("name", CASES)
def test_hand_made_cases_have_the_same_rows(name, both, tmp_path):
    path = tmp_path / CASES[name].file
    path.write_bytes(CASES[name].content)
    for models in ("first", "all"):
        fast, careful = both(path, models)
        assert fast == careful


@pytest.mark.parametrize("name", ["1ubi.pdb", "2k39.pdb.gz", "1a8o.cif"])
def test_damaged_files_have_the_same_rows(name, both, tmp_path):
    data = (STRUCTURES / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    plain = 0
    for mutant in mutants(data, 60, seed=7):
        path = tmp_path / name
        path.write_bytes(mutant)
        fast, careful = both(path)
        assert fast == careful, mutant
        plain += careful[0].get("reason") is None
    assert plain


def test_columns_are_counted_from_the_file():
    """By hand, from tests/structures/README.md and the file's own lines."""
    path = STRUCTURES / "1k1i.pdb"
    lines = [s for s in path.read_text().splitlines() if s.startswith("ATOM")]
    row = heavy_atoms.summary(*read_plain(Source(str(path)), 1))
    assert (row["n_residues"], row["n_chains"], row["chemistry"]) == (223, 1, "protein")
    assert row["n_heavy_atoms"] == len(lines)


def test_a_scan_imports_neither_torch_nor_tmol(tmp_path):
    code = (
        "import sys; from tmol_plugin import scan; from tmol_plugin.inputs import Row; "
        "from tmol_plugin.policy import Policy; "
        f"row = Row('id', {str(STRUCTURES / '1ubi.pdb')!r}, None, {{}}, 0, 0); "
        "(row,) = scan.scan_rows(row, 'first', Policy()); "
        "assert row['n_residues'] == 76; print(sorted({'torch', 'tmol'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

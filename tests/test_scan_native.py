"""The scan's native reading: a hydrogen that comes twice under two names, and many models."""

import gzip
from pathlib import Path

import pieces as p
import pytest
from mutants import mutants

from tmol_plugin import chemistry, scan, structure
from tmol_plugin.inputs import Row
from tmol_plugin.policy import Policy
from tmol_plugin.reading import Source

STRUCTURES = Path(__file__).parent / "structures"
_UBIQUITIN = p.nmr(1, 76)
# Residue name -> its first in ubiquitin, which has no CYS and no TRP.
_NUMBERS = {s[17:20]: p.number_of(s) for s in reversed(_UBIQUITIN)}


def rows(path, models="first", careful=False):
    row = Row("id", str(path), None, {}, 0, 0)
    with pytest.MonkeyPatch.context() as patched:
        if careful:
            patched.setattr(scan, "_summary", lambda source, model: None)
        return list(scan.scan_rows(row, models, Policy()))


def check_same(path, models="first"):
    """The rows, which both ways must give."""
    found = rows(path, models)
    assert found == rows(path, models, careful=True)
    return found


def written_with(residue, atoms):
    """A residue with its neighbours, heavy atoms only, and hydrogens by these names more."""
    number = _NUMBERS[residue]
    lines = p.heavy(p.nmr(max(1, number - 1), number + 1))
    base = p.find(lines, number, "N")
    at = 1 + max(i for i, s in enumerate(lines) if p.number_of(s) == number)
    lines[at:at] = [
        p.moved(p.renamed_atom(base, atom), p.position(base) + 0.6 * k)
        for k, atom in enumerate(atoms, 1)
    ]
    return p.text_of(p.with_serials(lines))


def pairs():
    """(residue, two names of one of its hydrogens), by the rules of `chemistry`."""
    for residue in _NUMBERS:
        names = {
            *chemistry.atom_aliases(residue, residue),
            "H",
            "D",
            "H1",
            "HB2",
            "DB2",
            "HX",
            "DX",
        }
        names |= {"1HX", "1DX", "DN", "DT1", "1D", "HD11", "DD11"}
        meant = {}
        for name in sorted(names):
            letter = name.lstrip("0123456789")[0]
            if letter in "HD":
                atom = chemistry.atom_name(residue, name, letter, residue)
                meant.setdefault(atom, []).append(name)
        yield from ((residue, (same[0], other)) for same in meant.values() for other in same[1:])


def test_a_hydrogen_under_two_names_is_there_twice(tmp_path):
    path = tmp_path / "twice.pdb"
    tried = list(pairs())
    assert len(tried) > 200
    for residue, names in tried:
        path.write_bytes(written_with(residue, names))
        (row,) = check_same(path)
        assert row["reason"] == "duplicate_atom", (residue, names)


def test_hydrogens_under_one_name_each_are_read_natively(tmp_path):
    path = tmp_path / "once.pdb"
    for residue in _NUMBERS:
        for names in (("H1", "HT2", "3H"), ("DN", "DB2", "HX")):
            path.write_bytes(written_with(residue, names))
            (row,) = check_same(path)
            assert "reason" not in row
            assert scan._summary(Source(str(path)), 1), (residue, names)


def test_neutral_lysine_of_another_program(tmp_path):
    """AMBER's LYN has HZ2 and HZ3, which are HZ1 and HZ2."""
    path = tmp_path / "lyn.pdb"
    for names, reason in ((("HZ2", "HZ3"), None), (("HZ1", "HZ3"), "duplicate_atom")):
        text = written_with("LYS", names).replace(b"LYS A   6", b"LYN A   6")
        path.write_bytes(text)
        (row,) = check_same(path)
        assert row.get("reason") == reason
        assert (scan._summary(Source(str(path)), 1) is None) == (reason is not None)


@pytest.mark.parametrize("name", ["2k39.pdb.gz", "2ofg.cif.gz", "1ubi.pdb", "1qbs.pdb", "1fas.cif"])
def test_damaged_files_of_many_models_have_the_same_rows(name, tmp_path):
    data = (STRUCTURES / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    path = tmp_path / name
    reasons = set()
    for mutant in mutants(data, 60, seed=31):
        path.write_bytes(mutant)
        reasons |= {row.get("reason") for row in check_same(path, "all")}
    assert None in reasons
    assert len(reasons) > 2


@pytest.mark.parametrize("numbers", ["12", "73", "-1 2", "0 1", "1 -1", "12 interleaved", "1 1"])
def test_numbers_of_models_in_mmcif(numbers, tmp_path):
    """Also where only the careful reader knows which model a number means."""
    values = list(numbers[:2]) if numbers[:2].isdigit() else numbers.split()
    lines = (STRUCTURES / "1fas.cif").read_text().split("\n")
    tags = [s.strip() for s in lines if s.startswith("_atom_site.")]
    column = tags.index("_atom_site.pdbx_PDB_model_num")
    atoms = [s.split() for s in lines if s.startswith(("ATOM", "HETATM"))]
    first = next(i for i, s in enumerate(lines) if s.startswith("ATOM"))
    models = [
        [" ".join([*a[:column], value, *a[column + 1 :]]) for a in atoms[: len(atoms) - 10 * k]]
        for k, value in enumerate(values)
    ]
    rest = [s for s in lines[first:] if not s.startswith(("ATOM", "HETATM"))]
    if "interleaved" in numbers:
        mixed = [s for pair in zip(*models, strict=False) for s in pair]
    else:
        mixed = [s for model in models for s in model]
    path = tmp_path / "models.cif"
    path.write_text("\n".join([*lines[:first], *mixed, *rest]))
    check_same(path)
    found = check_same(path, "all")
    for model in {-1, 0, 1, 2, 3, 7}:
        row = Row("id", str(path), model, {}, 0, 0)
        fast = list(scan.scan_rows(row, "first", Policy()))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(scan, "_summary", lambda source, model: None)
            assert fast == list(scan.scan_rows(row, "first", Policy()))
    assert len(found) == len(set(values))


def test_models_are_told_apart_once(monkeypatch):
    """Neither the lines nor the atoms of other models are gone through for each."""
    sizes, parsed = [], []
    scan_pdb, parse_cif = structure.native.scan_pdb, structure._parse_cif
    monkeypatch.setattr(
        structure.native, "scan_pdb", lambda d, m: sizes.append(len(d)) or scan_pdb(d, m)
    )
    monkeypatch.setattr(structure, "_parse_cif", lambda s: parsed.append(s) or parse_cif(s))
    found = rows(STRUCTURES / "2k39.pdb.gz", "all")
    assert [row["model"] for row in found] == [1, 2, 3, 4]
    whole = len(gzip.decompress((STRUCTURES / "2k39.pdb.gz").read_bytes()))
    assert len(sizes) == 4
    assert all(size < 0.3 * whole for size in sizes)
    assert len(rows(STRUCTURES / "2ofg.cif.gz", "all")) == 3
    assert len(parsed) == 1
    del parsed[:]
    assert not structure._CIFS  # a file that is closed leaves nothing

"""Reading files as programs of many years wrote them, and files damaged at random."""

from pathlib import Path

import numpy as np
import pytest
from mutants import mutants

from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source

STRUCTURES = Path(__file__).parent / "structures"


def read(path, data):
    path.write_bytes(data)
    source = Source(str(path))
    return [read_structure(source, model, Policy()) for model in source.models]


@pytest.fixture(scope="module")
def plain():
    """1ubi without its header: lines of exactly 80 columns."""
    lines = (STRUCTURES / "1ubi.pdb").read_text().splitlines()
    return [line for line in lines if line.startswith("ATOM")]


@pytest.mark.parametrize(
    "change",
    [
        lambda line: f"{line[:72]}1UBI 103",  # ids and serials of files before 1996
        lambda line: f"{line[:72]}PROA    ",  # CHARMM's segment
        lambda line: f"{line[:76]}    ",
        lambda line: f"{line[:76]}XX  ",
        lambda line: f"{line[:60]}",
        lambda line: f"{line[:21]} {line[22:]}",  # no chain
        lambda line: f"{line[:78]}2-",
    ],
)
def test_old_and_odd_lines_are_the_same_structure(tmp_path, plain, change):
    (expected,) = read(tmp_path / "plain.pdb", "\n".join(plain).encode())
    (found,) = read(tmp_path / "odd.pdb", "\n".join(map(change, plain)).encode())
    for one, other in zip(expected.residues, found.residues, strict=True):
        assert (one.name, one.atoms, one.elements) == (other.name, other.atoms, other.elements)
        np.testing.assert_array_equal(one.coords, other.coords)


def test_a_byte_that_is_not_ascii_moves_no_column(tmp_path, plain):
    text = "\n".join(plain).encode().replace(b" GLN A   2", b"\x84GLN A   2")
    (found,) = read(tmp_path / "byte.pdb", b"REMARK \xe9\xff\n" + text)
    assert len(found.residues) == 76


@pytest.mark.parametrize("name", ["1ajj.pdb", "1a8o.cif"])
def test_damaged_files_end_in_a_structure_or_a_reason(tmp_path, name):
    text = (STRUCTURES / name).read_bytes()
    ended = {"structure": 0}
    for mutant in mutants(text, 200):
        try:
            for structure in read(tmp_path / name, mutant):
                assert structure.to_cif()
            ended["structure"] += 1
        except StructureError as error:
            ended[error.reason] = ended.get(error.reason, 0) + 1
    # Both ways out are taken, and more reasons than one: the damage reaches the policy.
    assert ended["structure"] >= 20
    assert len(ended) >= 4, ended


def test_an_error_that_nobody_thought_of_is_the_failure_of_its_file(tmp_path, plain, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("tmol_plugin.policy._check_atoms", fail)
    with pytest.raises(StructureError, match=r"x\.pdb: ZeroDivisionError: odd") as caught:
        read(tmp_path / "x.pdb", "\n".join(plain).encode())
    assert caught.value.reason == "unreadable"


def test_what_concerns_the_run_is_no_failure_of_a_file(tmp_path, plain, monkeypatch):
    def fail(*_):
        raise RunError("the library is not installed")

    monkeypatch.setattr("tmol_plugin.policy._check_atoms", fail)
    with pytest.raises(RunError, match="not installed"):
        read(tmp_path / "x.pdb", "\n".join(plain).encode())

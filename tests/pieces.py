"""Small structures cut from the shipped ones and changed: lines of PDB, for hand-made cases."""

import gzip
from pathlib import Path

import numpy as np

STRUCTURES = Path(__file__).parent / "structures"


def atom_lines(name, first, last, altloc=" A"):
    """ATOM lines of residues first to last of the first model, conformers that `altloc` names."""
    data = (STRUCTURES / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    lines = [s for s in text.partition("\nENDMDL")[0].split("\n") if s.startswith("ATOM")]
    kept = [s for s in lines if first <= int(s[22:26]) <= last and (not altloc or s[16] in altloc)]
    return [with_field(s, 16, " ") for s in kept] if altloc else kept


def ubiquitin(first, last):
    """Residues of 1ubi: heavy atoms only."""
    return atom_lines("1ubi.pdb", first, last)


def nmr(first, last):
    """Residues of 2k39, which is ubiquitin too: all hydrogens."""
    return atom_lines("2k39.pdb.gz", first, last)


def crambin(first, last):
    """Residues of 1ejg, conformer A: deposited hydrogens, three disulfides."""
    return atom_lines("1ejg.pdb", first, last)


def with_field(line, start, text):
    return line[:start] + text + line[start + len(text) :]


def atom_of(line):
    return line[12:16].strip()


def number_of(line):
    return int(line[22:26])


def is_atom(line, number, atom):
    return (number_of(line), atom_of(line)) == (number, atom)


def is_hydrogen(line):
    return atom_of(line).lstrip("0123456789")[:1] in ("H", "D")


def position(line):
    return np.array([float(line[k : k + 8]) for k in (30, 38, 46)])


def moved(line, xyz):
    return with_field(line, 30, "".join(f"{value:8.3f}" for value in xyz))


def renamed_atom(line, name):
    """Columns as the format has them: four letters begin a column earlier."""
    line = with_field(line, 12, name if len(name) == 4 else f" {name:<3}")
    return with_field(line, 76, f" {name.lstrip('0123456789')[0]}")


def find(lines, number, atom):
    return next(s for s in lines if number_of(s) == number and atom_of(s) == atom)


def without(lines, *atoms, number=None):
    """Lines without these atoms, of one residue or of all."""
    return [
        s
        for s in lines
        if atom_of(s) not in atoms or (number is not None and number_of(s) != number)
    ]


def heavy(lines, number=None):
    """Lines without hydrogens, of one residue or of all."""
    return [
        s for s in lines if not is_hydrogen(s) or (number is not None and number_of(s) != number)
    ]


def renamed(lines, atoms, number=None):
    """Lines with atoms renamed by a dict, of one residue or of all."""
    return [
        renamed_atom(s, atoms[atom_of(s)])
        if atom_of(s) in atoms and number in (None, number_of(s))
        else s
        for s in lines
    ]


def with_residue(lines, number, name):
    """Lines with a residue's name changed; of three or four letters."""
    return [with_field(s, 17, name) if number_of(s) == number else s for s in lines]


def planted(lines, number, name, parent, *others, length=1.0):
    """Lines with an atom more: on its parent, away from the middle of the parent's others."""
    base = find(lines, number, parent)
    middle = np.mean([position(find(lines, number, other)) for other in others], axis=0)
    away = position(base) - middle
    line = moved(renamed_atom(base, name), position(base) + length * away / np.linalg.norm(away))
    last = max(i for i, s in enumerate(lines) if number_of(s) == number)
    return [*lines[: last + 1], line, *lines[last + 1 :]]


def shifted(lines, by):
    return [moved(s, position(s) + by) for s in lines]


def with_atom_moved(lines, number, atom, by):
    at = find(lines, number, atom)
    return [moved(s, position(s) + by) if s == at else s for s in lines]


def apart(lines, still, moving, distance, numbers=()):
    """Lines with two (number, atom) at a distance: the second moves, and residues with it."""
    start, end = (position(find(lines, *at)) for at in (still, moving))
    by = (end - start) * (distance / np.linalg.norm(end - start) - 1)
    return [
        moved(s, position(s) + by) if number_of(s) in numbers or is_atom(s, *moving) else s
        for s in lines
    ]


def in_chain(lines, letter):
    return [with_field(s, 21, letter) for s in lines]


def with_serials(lines, first=1):
    """Serials counted anew, TER and bonds of the header left as they are."""
    out = []
    for line in lines:
        if line[:6] in ("ATOM  ", "HETATM"):
            line = with_field(line, 6, f"{first:5d}")
            first += 1
        out.append(line)
    return out


def text_of(lines):
    return ("\n".join(lines) + "\n").encode("latin-1")


def conect(lines, *pairs):
    serials = {(number_of(s), atom_of(s)): s[6:11] for s in with_serials(lines)}
    return [f"CONECT{serials[a]}{serials[b]}" for a, b in pairs]


def ssbond(first, second, symmetry="  1555   1555"):
    line = f"SSBOND   1 CYS A{first:5d}    CYS A{second:5d}"
    return f"{line:<59}{symmetry}"

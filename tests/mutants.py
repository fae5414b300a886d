"""Files damaged at random, from a fixed seed: as disks, editors and scripts damage them."""

import random
from collections.abc import Iterator

SEED = 20160
_ODD_NUMBERS = [
    b"     nan",
    b"     inf",
    b"********",
    b"99999999",
    b" 1.0e+03",
    b"-0.00000",
    b"   1_0.0",
]
# Values of mmCIF that mean nothing, are quoted, or are no numbers.
_ODD_VALUES = [b"?", b".", b"nan", b"-1", b"0", b"1e3", b"1.5(2)", b"'A B'", b'"C"', b"HOH", b"CA"]
# Columns of PDB that make a residue: name, chain, number, insertion code; a conformer's letter.
_RESIDUE_FIELDS = {
    17: [b"HOH", b"MSE", b"HID", b"CYX", b"ALA", b"UNK", b" DA", b"DAL"],
    21: [b"A", b"B", b" ", b"1"],
    22: [b"   1", b"   2", b"  -1", b"   0", b"9999", b"A000"],
    26: [b"A", b"B", b" "],
    16: [b"A", b"B", b" "],
    54: [b"  0.00", b"  0.50", b"  1.00", b"      ", b" -1.00"],
}


def mutants(text: bytes, count: int, seed: int = SEED) -> Iterator[bytes]:
    """Copies with one to four faults each.

    Bytes flipped, lines cut, columns shifted, fields blanked, lines dropped, repeated or
    swapped, numbers that are none or too large, carriage returns, fields of one line in another;
    fields of a whole residue changed, and values and columns of mmCIF: a file that still reads.
    """
    chance = random.Random(seed)
    damage = _damage_cif if text.lstrip()[:5].lower() == b"data_" else _damage_residue
    for _ in range(count):
        lines = text.split(b"\n")
        # Few bytes may change anywhere in mmCIF without an end to the reading of it.
        share = 0.2 if damage is _damage_cif else 0.7
        for _ in range(chance.randint(1, 4)):
            (_damage if chance.random() < share else damage)(lines, chance)
        yield b"\n".join(lines)


def _damage_residue(lines: list[bytes], chance: random.Random) -> None:
    """Change a column of all lines of a residue; or list the residue elsewhere, or again."""
    atoms = [i for i, line in enumerate(lines) if line[:6] in (b"ATOM  ", b"HETATM")]
    if not atoms:
        return
    site = lines[chance.choice(atoms)][21:27]
    own = [i for i in atoms if lines[i][21:27] == site]
    match chance.randrange(4):
        case 0 | 1:
            column = chance.choice(list(_RESIDUE_FIELDS))
            value = chance.choice(_RESIDUE_FIELDS[column])
            for i in own:
                lines[i] = lines[i][:column] + value + lines[i][column + len(value) :]
        case 2:
            moved = [lines[i] for i in own]
            if chance.random() < 0.5:
                for i in reversed(own):
                    del lines[i]
            at = chance.randrange(len(lines) + 1)
            lines[at:at] = moved
        case 3:
            lines.insert(chance.choice(own), chance.choice([b"TER", b"END", b"ENDMDL", b"MODEL 2"]))


def _damage_cif(lines: list[bytes], chance: random.Random) -> None:
    """Change a value of a row, a value of all rows of a residue, or the name of a column."""
    rows = [i for i, line in enumerate(lines) if line[:6] in (b"ATOM  ", b"HETATM")]
    tags = [
        i for i, line in enumerate(lines) if line.startswith((b"_atom_site.", b"_struct_conn."))
    ]
    if not rows or not tags:
        return
    row = chance.choice(rows)
    k = chance.randrange(len(lines[row].split()))
    match chance.randrange(5):
        case 0:
            _set_value(lines, row, k, chance.choice(_ODD_VALUES))
        case 1:
            other = lines[chance.choice(rows)].split()
            _set_value(lines, row, k, other[k] if k < len(other) else b"?")
        case 2:
            # All rows with one value in a column: a residue, a chain, an element.
            value, new = lines[row].split()[k], chance.choice(_ODD_VALUES)
            first = chance.choice(rows)
            for i in rows:
                if i >= first and lines[i].split()[k : k + 1] == [value]:
                    _set_value(lines, i, k, new)
        case 3:
            at = chance.randrange(len(rows))
            some = [lines[i] for i in rows[at : at + chance.randint(1, 20)]]
            where = chance.choice(rows)
            lines[where:where] = some
        case 4:
            tag = chance.choice(tags)
            lines[tag] = lines[tag].rstrip() + b"_x"


def _set_value(lines: list[bytes], row: int, k: int, value: bytes) -> None:
    values = lines[row].split()
    values[k : k + 1] = [value]
    lines[row] = b" ".join(values)


def _damage(lines: list[bytes], chance: random.Random) -> None:
    i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
    line = lines[i]
    k = chance.randrange(len(line) or 1)
    match chance.randrange(11):
        case 0:
            lines[i] = line[:k] + bytes([chance.randrange(256)]) + line[k + 1 :]
        case 1:
            lines[i] = line[:k]
        case 2:
            lines[i] = line[:k] + b" " * chance.randint(1, 3) + line[k:]
        case 3:
            lines[i] = line[:k] + b" " * 8 + line[k + 8 :]
        case 4:
            del lines[i : i + chance.randint(1, 5)]
            lines[:] = lines or [b""]
        case 5:
            lines[i:i] = lines[j : j + chance.randint(1, 30)]
        case 6:
            lines[i], lines[j] = lines[j], line
        case 7:
            k = chance.choice([k, 22, 30, 38, 46, 54])
            lines[i] = line[:k] + chance.choice(_ODD_NUMBERS) + line[k + 8 :]
        case 8:
            lines[i] = line + chance.choice([b"\r", b"\t", b"\x00", b" " * 40])
        case 9:
            # The columns of another line: its name, number, chain or coordinates.
            width = chance.randint(1, 30)
            lines[i] = line[:k] + lines[j][k : k + width] + line[k + width :]
        case 10:
            # An altloc, a chain, an insertion code: one letter where there was another.
            k = chance.choice([16, 20, 21, 26])
            lines[i] = line[:k] + chance.choice([b"A", b"B", b" ", b"1"]) + line[k + 1 :]

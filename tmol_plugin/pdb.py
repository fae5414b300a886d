"""Reading the models of a PDB file: columns made safe for gemmi, numbers made unique."""

import gemmi

from tmol_plugin import chemistry
from tmol_plugin.errors import StructureError
from tmol_plugin.models import (
    Model,
    Site,
    Sites,
    check_coordinates,
    is_number,
    make_model,
    model_numbers,
)

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def models_of(lines: list[str]) -> dict[int, list[tuple[int, str]]]:
    """Model number -> its (line number, line) of atoms, TER and the bonds of the header."""
    shared, models, current = [], [], None  # models: [its number as written, its lines]
    for number, line in enumerate(lines, 1):
        record = line[:6]
        if record in ("ATOM  ", "HETATM"):
            if current is None:
                current = ["" if models else "1", []]
                models.append(current)
            current[1].append((number, line))
        elif line[:3] == "TER" and current is not None:
            current[1].append((number, line))
        elif record == "MODEL ":
            current = [line[6:].strip(), []]
            models.append(current)
        elif record == "ENDMDL" or line.rstrip() == "END":
            current = None
        elif record in ("SSBOND", "LINK  ", "CONECT"):
            shared.append((number, line))
    models = [model for model in models if model[1]]
    numbers = model_numbers([number for number, _ in models])
    return {n: shared + atoms for n, (_, atoms) in zip(numbers, models, strict=True)}


def read_pdb(path: str, lines: list[tuple[int, str]]) -> Model:
    numbered = Sites(path)
    segment, chain_before = 0, None
    waters, out, conect, names = set(), [], [], {}
    atom_of: dict[str, tuple[int, str] | None] = {}
    for number, line in lines:
        record = line[:6]
        if record in ("SSBOND", "LINK  "):
            out.append(line)
            continue
        if record == "CONECT":
            fields = [line[k : k + 5].strip() for k in range(6, 31, 5)]
            conect += [(fields[0], other) for other in fields[1:] if other]
            continue
        if line[:3] == "TER":
            segment, chain_before = segment + 1, None
            continue
        if len(line.rstrip()) < 54:
            raise StructureError(
                "bad_coordinates", f"{path}: line {number} ends within the coordinates"
            )
        check_coordinates(path, f"line {number}", (line[30:38], line[38:46], line[46:54]))
        # Programs that leave the chain blank name it in the old segment field.
        residue, chain = line[17:20].strip(), line[20:22].strip()
        if chemistry.is_four_letters(line[17:21]):
            residue, chain = line[17:21], line[21].strip()
        chain = chain or line[72:76].strip()
        if chain_before not in (None, chain):
            segment += 1
        chain_before = chain
        site = Site(segment, chain, line[22:27].strip())
        if residue in chemistry.WATERS:
            waters.add((site, segment))
            continue
        index = numbered.place(site, residue, line[16].strip(), line[12:16])
        # A serial that is there twice says nothing about which atom is bonded.
        serial, atom = line[6:11].strip(), (index, line[12:16].strip())
        atom_of[serial] = atom if atom_of.setdefault(serial, atom) == atom else None
        # Behind column 66 old files have serials and ids where the element now is.
        element = line[76:78] if line[76:78].strip().isalpha() else ""
        occupancy = line[54:60] if is_number(line[54:60]) else "  1.00"
        numbers = f"{_base36(index + 1)} {line[27:54]}{occupancy}"
        out.append(f"{record}{'1':>5}{line[11:17]}{residue[:3]:>3} A{numbers:<54}{element}")
        names[index] = residue
    # One byte a character, or the columns after it would shift.
    text = "\n".join([*out, "END", ""]).encode("ascii", "replace")
    try:
        structure = gemmi.read_pdb_string(text)
    except (ValueError, RuntimeError) as error:
        raise StructureError("unreadable", f"{path}: {error}") from error
    bonds = []
    for pair in conect:
        first, second = (atom_of.get(serial) for serial in pair)
        if first and second and first[0] != second[0]:
            bonds.append((first, second))
    model = make_model(structure, numbered, bonds, len(waters), None)
    long_names = {index: name for index, name in names.items() if len(name) > 3}
    for position, index in enumerate(numbered.order if long_names else ()):
        for part in model.parts[position]:
            part.name = long_names.get(index, part.name)
    return model


def _base36(number: int) -> str:
    """A PDB residue number as gemmi reads it: decimal to 9999, then base 36 from A000."""
    if number <= 9999:
        return f"{number:4d}"
    number += 10 * 36**3 - 10_000
    return "".join(_DIGITS[number // 36**power % 36] for power in (3, 2, 1, 0))

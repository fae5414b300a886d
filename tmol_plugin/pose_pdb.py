"""A pose as a PDB file that people can look at and TMol reads back as the same pose."""

import re
from functools import lru_cache
from itertools import chain, product
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits
from typing import TYPE_CHECKING

import gemmi
import numpy as np

from tmol_plugin import tables
from tmol_plugin.errors import RunError, StructureError

if TYPE_CHECKING:
    from tmol_plugin.pose import Pose

_CHARACTERS = ascii_uppercase + ascii_lowercase + digits
_N_CHAIN_NAMES = len(_CHARACTERS) + len(_CHARACTERS) ** 2

# Columns of PDB's fixed format hold 4 characters of residue number, 8 of coordinate.
_NUMBER_RANGE = range(-999, 10000)
_COORD_RANGE = (-999.9995, 9999.9995)


def write_pdb(pose: "Pose", path: str | Path) -> None:
    """`Pose.write_pdb`: writes whole or not at all.

    A chain keeps its name if that is one letter or digit and no chain before has it; other
    chains get the first free one, of two characters when those of one are used up. Residues
    keep their numbers if these fit the format, ascend and name each residue of the chain
    once; else they are numbered from 1. Disulfides are declared, whatever their length.
    """
    low, high = _COORD_RANGE
    if not ((pose.coords > low) & (pose.coords < high)).all():
        raise StructureError(
            "bad_coordinates", f"{path}: the PDB format holds coordinates from -999.999 to 9999.999"
        )
    structure = gemmi.Structure()
    model = gemmi.Model(1)
    starts = [0, *(np.flatnonzero(np.diff(pose.chain_of_block)) + 1).tolist()]
    names = _chain_names([pose.labels[start][0] for start in starts])
    residues = _residues(pose)
    for name, start, stop in zip(names, starts, [*starts[1:], pose.n_blocks], strict=True):
        numbers = _numbers([number for _, number in pose.labels[start:stop]])
        made = gemmi.Chain(name)
        for residue, (number, code) in zip(residues[start:stop], numbers, strict=True):
            residue.seqid = gemmi.SeqId(number, code or " ")
            made.add_residue(residue)
        model.add_chain(made)
    structure.add_model(model)
    structure.assign_serial_numbers(numbered_ter=True)
    _declare_disulfides(structure, pose)
    options = gemmi.PdbWriteOptions(cryst1_record=False, preserve_serial=True, conect_records=True)
    tables.write_atomically(path, lambda temporary: structure.write_pdb(temporary, options))


@lru_cache(maxsize=10_000)  # every structure has the same few
def split_number(number: str) -> tuple[int, str]:
    """Residue number and insertion code of a label: 184A -> (184, "A"); (0, "") if it is none."""
    found = re.fullmatch(r"(-?[0-9]{1,9})([A-Za-z]?)", number)
    return (int(found[1]), found[2]) if found else (0, "")


def _residues(pose: "Pose") -> list[gemmi.Residue]:
    """A residue for each block, with its atoms, without its number."""
    tensors, rows = pose.parameters.tensors, pose.atom_rows
    elements = [gemmi.Element(number) for number in range(int(tensors["atom.element"].max()) + 1)]
    numbers = tensors["atom.element"][rows].tolist()
    atoms = []
    for name, number, xyz in zip(pose.atom_names.tolist(), numbers, pose.coords.tolist()):
        atom = gemmi.Atom()
        atom.name, atom.element, atom.pos = name, elements[number], gemmi.Position(*xyz)
        atom.occ, atom.b_iso = 1, 0
        atoms.append(atom)
    polymer = tensors["class.is_polymer"][tensors["block_type.class"][pose.block_types]].tolist()
    residues = []
    for block, name in enumerate(pose.residue_names.tolist()):
        residue = gemmi.Residue()
        residue.name = name
        kind = gemmi.EntityType.Polymer if polymer[block] else gemmi.EntityType.NonPolymer
        residue.entity_type, residue.het_flag = kind, "A" if polymer[block] else "H"
        first, end = pose.block_atom_offsets[block : block + 2]
        for at in range(first, end):
            if numbers[at]:  # virtual atoms serve the scoring, and are not part of the structure
                residue.add_atom(atoms[at])
        residues.append(residue)
    return residues


def _declare_disulfides(structure: gemmi.Structure, pose: "Pose") -> None:
    """SSBOND for people, CONECT for TMol, which bonds by that or by distance."""
    connection = pose.parameters.tensors["block_type.disulfide_connection"][pose.block_types]
    blocks = np.flatnonzero(connection >= 0)
    partners = pose.connections[pose.block_connection_offsets[blocks] + connection[blocks], 0]
    placed = [(chain.name, residue) for chain in structure[0] for residue in chain]
    sulfurs = [gemmi.AtomAddress(name, r.seqid, r.name, "SG") for name, r in placed]
    serials = {block: placed[block][1]["SG"][0].serial for block in blocks.tolist()}
    for first, second in zip(blocks.tolist(), partners.tolist(), strict=True):
        if first < second:
            bond = gemmi.Connection()
            bond.type = gemmi.ConnectionType.Disulf
            bond.partner1, bond.partner2 = sulfurs[first], sulfurs[second]
            structure.connections.append(bond)
            structure.add_conect(serials[first], serials[second], 1)


def _chain_names(wanted: list[str]) -> list[str]:
    """A name for each chain, no two the same."""
    # What no chain wants is free: a later chain keeps its own name.
    taken = set(wanted)
    every = chain(_CHARACTERS, map("".join, product(_CHARACTERS, repeat=2)))
    free = (name for name in every if name not in taken)
    names: list[str] = []
    for name in wanted:
        if len(name) != 1 or name not in _CHARACTERS or name in names:
            name = next(free, "")
        if not name:
            raise RunError(f"the PDB format names {_N_CHAIN_NAMES} chains; this pose has more")
        names.append(name)
    return names


def _numbers(wanted: list[str]) -> list[tuple[int, str]]:
    """Residue numbers of a chain and their insertion codes."""
    split = [split_number(number) for number in wanted]
    values = [value for value, _ in split]
    fit = all(value in _NUMBER_RANGE for value in values) and values == sorted(values)
    # To gemmi, codes that differ in case are one residue.
    if fit and len({(value, code.lower()) for value, code in split}) == len(split):
        return split
    return [(number, "") for number in range(1, len(wanted) + 1)]

"""From a file to the residues that are scored: one policy, whatever engine scores them.

What a file may hold and what becomes of it is decided here: conformers, names, missing
and unknown atoms, residues that cannot be scored. Nothing is dropped in silence: every
decision is counted in `Structure.notes` or ends in a StructureError.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

import gemmi
import numpy as np

from tmol_plugin import chemistry
from tmol_plugin.errors import StructureError
from tmol_plugin.models import Model
from tmol_plugin.reading import Source, reasoned
from tmol_plugin.residues import Residue, Structure

SAME_POINT_ANGSTROM = 0.01  # two atoms nearer than this are at one point
BREAK_ANGSTROM = 2.4  # TMol: polymer residues further apart than this are not bonded
OXT_BOND_ANGSTROM = (1.0, 2.0)  # where OXT may stand from C; the bond is 1.25
_ACROSS_PHOSPHATE_ANGSTROM = 3.5  # O3' to O5' through one phosphorus; it is 2.5 there
_DECLARED_ANGSTROM = 3.0  # a covalent bond declared over more than this is none; S-S is 2.05
_BONDED_ANGSTROM = 2.0  # a residue of unknown chemistry nearer than this is bonded


@dataclass(frozen=True)
class Policy:
    """The keys of the config that decide what becomes of a structure's residues.

    `parametrized` are residue names beyond TMol's own that have parameters, given or
    generated. With `defer_unrecognized` names without parameters are only listed: those
    that `prepare_ligands` is to generate are not known before the scan has seen them.
    """

    on_unrecognized: str = "fail"
    missing_side_chains: str = "fail"
    parametrized: frozenset[str] = frozenset()
    defer_unrecognized: bool = False


def read_structure(source: Source, model: int, policy: Policy) -> Structure:
    """Read one model under a policy.

    Raises:
        StructureError: with a reason of `errors.REASONS` and a message that names the file
            and the residues, if the structure cannot be scored under the policy.
    """
    read = source.read(model)
    with reasoned(source.path):
        return _under_policy(source, read, policy)


def _under_policy(source: Source, read: Model, policy: Policy) -> Structure:
    notes = Counter(waters_dropped=read.n_waters)
    residues, unrecognized = [], {}
    for site in range(len(read.sites)):
        residue = _residue(source.path, read, site, notes)
        if residue.name in chemistry.RECOGNIZED or residue.name in policy.parametrized:
            residues.append(residue)
            continue
        unrecognized.setdefault(residue.name, []).append(residue.label)
        if policy.defer_unrecognized:
            residues.append(residue)
        elif policy.on_unrecognized == "drop":
            notes["unrecognized_residues_dropped"] += 1
    if unrecognized and not policy.defer_unrecognized and policy.on_unrecognized == "fail":
        every = [label for labels in unrecognized.values() for label in labels]
        raise StructureError(
            "unrecognized_residue", f"{source.path}: no parameters for {_list(every)}"
        )
    if not any(
        r.name in chemistry.BACKBONE_ATOMS or r.name not in chemistry.RECOGNIZED for r in residues
    ):
        what = f"only {read.n_waters} waters" if read.n_waters and not residues else "none"
        raise StructureError(
            "no_polymer",
            f"{source.path}: no protein or nucleic acid residue among what it holds ({what})",
        )
    _check_atoms(source.path, residues, notes)
    missing = _missing_atoms(source.path, residues, policy, notes)
    chain_of, number_of = _chains(residues, notes)
    _check_oxt(source.path, residues, chain_of)
    bonds = _declared_bonds(read, residues, chain_of, notes)
    return Structure(
        *(source.path, source.sha256, residues, chain_of, number_of, bonds, missing),
        unrecognized=sorted(unrecognized) if policy.defer_unrecognized else [],
        notes=+notes,
        components=read.components,
    )


def _residue(path: str, read: Model, site: int, notes: Counter) -> Residue:
    """One conformer of the residue at a site, with the wwPDB's names."""
    part, atoms, letter = _conformer(read.parts[site], notes)
    where = read.sites[site]
    name = chemistry.RESIDUE_ALIASES.get(part.name, part.name)
    if name != part.name:
        notes["mse_as_met" if part.name == "MSE" else "residues_renamed"] += 1
    place = where.chain or "_", where.number
    label = f"{':'.join(place)} {part.name}"
    label += f" conformer {letter}" if letter else ""
    residue = Residue(name, label, place, where.segment, [], [], None, site)
    positions = {}
    for atom in atoms:
        element = atom.element.name.upper()
        if name in chemistry.HEAVY_ATOMS:
            # Their names tell, whatever a file has or lacks in its element column.
            element = atom.name.lstrip("0123456789")[:1] or "X"
        atom_name = chemistry.atom_name(name, atom.name, element, part.name)
        if element == "D":
            notes["deuterium_as_hydrogen"] += 1
        xyz = atom.pos.tolist()
        if atom_name in positions:
            if positions[atom_name] != xyz:
                raise StructureError(
                    "duplicate_atom",
                    f"{path}: {residue.label} has atom {atom.name} twice, at different places",
                )
            notes["repeated_atoms_dropped"] += 1
            continue
        positions[atom_name] = xyz
        notes["zero_occupancy_atoms"] += atom.occ == 0
        residue.atoms.append(atom_name)
        residue.elements.append("H" if element == "D" else element)
    residue.coords = np.array(list(positions.values()), dtype=np.float64).reshape(-1, 3)
    return residue


def _conformer(parts: list[gemmi.Residue], notes: Counter):
    """Residue, atoms and letter of the conformer with the highest mean occupancy.

    One letter is chosen for the whole residue, the first of equals; atoms without a letter
    belong to all.
    """
    letters = defaultdict(list)
    for part in parts:
        for atom in part:
            if atom.has_altloc():
                letters[atom.altloc].append((part, atom))
    if not letters:
        return parts[0], list(parts[0]), ""
    notes["residues_with_altlocs"] += 1

    def rank(letter):
        occupancies = [atom.occ for _, atom in letters[letter]]
        # Rounded: the mean of ten times 0.35 must not beat the mean of nine times 0.35.
        return -round(sum(occupancies) / len(occupancies), 4), letter

    chosen = min(letters, key=rank)
    part = letters[chosen][0][0]
    atoms = [atom for atom in part if not atom.has_altloc() or atom.altloc == chosen]
    return part, atoms, chosen


def _list(items: list[str], limit: int = 20) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def _check_atoms(path: str, residues: list[Residue], notes: Counter) -> None:
    for residue in residues:
        expected = chemistry.HEAVY_ATOMS.get(residue.name)
        if expected is not None:
            known = {*expected, *chemistry.OPTIONAL_ATOMS[residue.name]}
            strange = [atom for atom in residue.heavy if atom not in known]
            if strange:
                raise StructureError(
                    "unrecognized_atom",
                    f"{path}: {residue.label} has atoms that {residue.name} does not have:"
                    f" {_list(strange)}",
                )
        if len(residue.atoms) > 1:
            _check_apart(path, residue)


def _check_apart(path: str, residue: Residue) -> None:
    # Sorted along x, atoms at one point are neighbours or nearly so; a full distance
    # matrix is small for residues, so take it.
    delta = residue.coords[:, None] - residue.coords[None]
    near = np.einsum("ijk,ijk->ij", delta, delta) < SAME_POINT_ANGSTROM**2
    np.fill_diagonal(near, False)
    if near.any():
        first, second = np.argwhere(near)[0]
        raise StructureError(
            "bad_coordinates",
            f"{path}: {residue.label}: atoms {residue.atoms[first]} and"
            f" {residue.atoms[second]} are at one point {residue.coords[first].tolist()}",
        )


def _missing_atoms(path, residues, policy: Policy, notes: Counter) -> dict[int, list[str]]:
    missing, backbone = {}, []
    for index, residue in enumerate(residues):
        expected = chemistry.HEAVY_ATOMS.get(residue.name)
        if expected is None:
            continue
        expected += _phosphate_expected(residues, index)
        absent = set(expected).difference(residue.atoms)
        lost = [a for a in chemistry.BACKBONE_ATOMS[residue.name] if a in absent]
        if lost:
            backbone.append(f"{residue.label} lacks {' '.join(lost)}")
        elif absent:
            missing[index] = [atom for atom in expected if atom in absent]
    if backbone:
        raise StructureError("incomplete_backbone", f"{path}: {_list(backbone)}")
    if missing and policy.missing_side_chains == "fail":
        items = [f"{residues[i].label} lacks {' '.join(atoms)}" for i, atoms in missing.items()]
        raise StructureError("missing_atoms", f"{path}: {_list(items)}")
    notes["heavy_atoms_rebuilt"] += sum(map(len, missing.values()))
    return missing


def _phosphate_expected(residues: list[Residue], index: int) -> tuple[str, ...]:
    """The phosphate's atoms, if a nucleotide has any of them or is bonded to the one before.

    Without them it may begin a chain, or follow a gap: O5' is then far from the O3' before.
    """
    residue = residues[index]
    if residue.name not in chemistry.NUCLEOTIDES:
        return ()
    if not set(chemistry.PHOSPHATE).isdisjoint(residue.atoms):
        return chemistry.PHOSPHATE
    before = residues[index - 1] if index else None
    if before is None or before.segment != residue.segment:
        return ()
    end, start = before.position("O3'"), residue.position("O5'")
    if end is None or start is None or np.linalg.norm(start - end) > _ACROSS_PHOSPHATE_ANGSTROM:
        return ()
    return chemistry.PHOSPHATE


def _chains(residues: list[Residue], notes: Counter) -> tuple[list[int], list[int]]:
    """Chain and number of each residue; a residue that no polymer holds has its own chain."""
    chain_of, number_of, chain, number = [], [], -1, 0
    polymer = None  # the last residue that is one of a polymer for certain
    for index, residue in enumerate(residues):
        before = residues[index - 1] if index else None
        joined = before is not None and before.segment == residue.segment
        if before is None:
            pass
        elif _is_loose(before) or _is_loose(residue):
            metal = residue.name in chemistry.METALS
            joined = joined and not metal and _touch(before, residue)
        else:
            gap = _link_distance(before, residue)
            if joined and gap is not None and gap > BREAK_ANGSTROM:
                notes["chain_breaks"] += 1
                number += 1
        if not _is_loose(residue):
            gap = _link_distance(polymer, residue) if polymer and not joined else None
            if gap is not None and gap <= BREAK_ANGSTROM:
                notes["chain_ends_within_bonding_distance"] += 1
            polymer = residue
        chain += not joined
        number += 1
        chain_of.append(chain)
        number_of.append(number)
    return chain_of, number_of


def _is_loose(residue: Residue) -> bool:
    """Whether only its geometry can tell if it is part of a polymer."""
    return residue.name not in chemistry.BACKBONE_ATOMS


def _touch(first: Residue, second: Residue) -> bool:
    if first.name in chemistry.METALS:
        return False
    delta = first.coords[:, None] - second.coords[None]
    return bool((np.einsum("ijk,ijk->ij", delta, delta) < _BONDED_ANGSTROM**2).any())


def _link_distance(first: Residue, second: Residue) -> float | None:
    up = first.position(chemistry.LINK_ATOMS[first.name][0])
    down = second.position(chemistry.LINK_ATOMS[second.name][1])
    if up is None or down is None:
        return None
    return float(np.linalg.norm(up - down))


def _check_oxt(path: str, residues: list[Residue], chain_of: list[int]) -> None:
    for index, residue in enumerate(residues):
        oxt = residue.position("OXT")
        if oxt is None or residue.name not in chemistry.PROTEIN:
            continue
        distance = float(np.linalg.norm(oxt - residue.position("C")))
        low, high = OXT_BOND_ANGSTROM
        if not low <= distance <= high:
            raise StructureError(
                "bad_geometry",
                f"{path}: {residue.label}: OXT is {distance:.2f} angstrom from C, not bonded to it",
            )
        following = index + 1 < len(residues) and chain_of[index + 1] == chain_of[index]
        if following and not _is_loose(residues[index + 1]):
            gap = _link_distance(residue, residues[index + 1])
            if gap is not None and gap <= BREAK_ANGSTROM:
                raise StructureError(
                    "bad_geometry",
                    f"{path}: {residue.label} has OXT and is bonded to the next residue,"
                    f" {residues[index + 1].label}",
                )


def _declared_bonds(read: Model, residues: list[Residue], chain_of: list[int], notes: Counter):
    """Declared bonds between residues that are scored, except those along the polymer."""
    index_of = {residue.site: index for index, residue in enumerate(residues)}
    bonds = {}
    for pair in read.bonds:
        ends = []
        for site, name in pair:
            index = index_of.get(site)
            atom = name if index is None else chemistry.atom_name(residues[index].name, name, "")
            if index is not None and atom in residues[index].atoms:
                ends.append((index, atom))
        if len(ends) < 2:
            continue
        first, second = sorted(ends)
        names = {residues[index].name for index, _ in ends}
        if names & chemistry.METALS:
            kind = "metalc"
        elif _distance(residues, first, second) > _DECLARED_ANGSTROM:
            # Designs keep headers of the numbering they had.
            notes["declared_bonds_ignored"] += 1
            continue
        elif names == {"CYS"} and first[1] == second[1] == "SG":
            kind = "disulf"
        else:
            kind = "covale"
            if _is_along_the_polymer(residues, chain_of, first, second):
                continue
        bonds[first, second] = kind
    return [(first, second, kind) for (first, second), kind in bonds.items()]


def _is_along_the_polymer(residues, chain_of, first: tuple[int, str], second: tuple[int, str]):
    """Whether a bond is the one that joins a residue of a polymer to the next."""
    (i, up), (j, down) = first, second
    links = [chemistry.LINK_ATOMS.get(residues[k].name, ("C", "N")) for k in (i, j)]
    return j == i + 1 and chain_of[i] == chain_of[j] and (up, down) == (links[0][0], links[1][1])


def _distance(residues: list[Residue], first: tuple[int, str], second: tuple[int, str]) -> float:
    ends = [residues[index].position(atom) for index, atom in (first, second)]
    return float(np.linalg.norm(ends[0] - ends[1]))

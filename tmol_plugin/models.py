"""A model of a file as it is read: its residues in order, whatever numbers they have."""

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

import gemmi

from tmol_plugin.errors import StructureError

MAX_COORDINATE = 9999.999  # angstrom; what a PDB coordinate field can hold
MAX_RESIDUES = 1_000_000  # of one model; a PDB residue field counts to 1.2 million in base 36


class Site(NamedTuple):
    """A residue's place in the file: what decides which atoms belong together."""

    segment: int  # counts chains as TER and changes of the chain id divide them
    chain: str
    number: str  # with the insertion code


@dataclass
class Model:
    """One model as gemmi reads it.

    `parts[i]` are the gemmi residues at `sites[i]`: several where alternatives differ in
    residue name. `n_waters` were left out. `bonds` are those that the file declares between
    residues, as pairs of (site, atom name), names as in the file.
    """

    sites: list[Site]
    parts: list[list[gemmi.Residue]]
    bonds: list[tuple[tuple[int, str], tuple[int, str]]]
    n_waters: int
    components: gemmi.cif.Block | None  # the mmCIF block, for the chemistry it declares


def model_numbers(written: list[str]) -> list[int]:
    """Numbers of models as written; counted from 1 if they are not, or not positive numbers."""
    if all(re.fullmatch("[0-9]{1,9}", number) for number in written):
        numbers = [int(number) for number in written]
        if len(set(numbers)) == len(numbers) and 0 not in numbers:
            return numbers
    return list(range(1, len(written) + 1))


class Sites:
    """Numbers the residues of a model in file order, by their chain and number.

    `order` are the numbers sorted by where a residue's middle atom (CA or C1') is in the
    file: one atom astray does not take its residue with it.
    """

    def __init__(self, path: str):
        self.path = path
        self.sites: list[Site] = []
        self._anchors: list[int] = []
        self._n_atoms = 0
        self._atoms: list[set] = []
        self._names: list[str] = []
        self._seen: dict[Site, int] = {}
        self._last: int | None = None

    def place(self, site: Site, residue: str, altloc: str, atom: str) -> int:
        """The running number, from 0, of the residue that this atom belongs to."""
        last = self._last
        if last is None or self.sites[last] != site or self._begins(last, residue, altloc):
            # The number was there before: atoms listed apart (hydrogens at the end of a
            # chain) belong to that residue, a whole residue of the same number does not.
            last = self._seen.get(site)
            if (
                last is None
                or (atom, altloc) in self._atoms[last]
                or self._begins(last, residue, altloc)
            ):
                last = self._new(site, residue)
        self._last = last
        self._atoms[last].add((atom, altloc))
        self._n_atoms += 1
        if atom.strip() in ("CA", "C1'"):
            self._anchors[last] = self._n_atoms
        return last

    @property
    def order(self) -> list[int]:
        return sorted(range(len(self.sites)), key=self._anchors.__getitem__)

    def _begins(self, last: int, residue: str, altloc: str) -> bool:
        return not altloc and self._names[last] != residue

    def _new(self, site: Site, residue: str) -> int:
        if len(self.sites) >= MAX_RESIDUES:
            raise StructureError(
                "too_large", f"{self.path}: more than {MAX_RESIDUES:,} residues in a model"
            )
        self.sites.append(site)
        self._names.append(residue)
        self._anchors.append(self._n_atoms)
        self._atoms.append(set())
        self._seen[site] = len(self.sites) - 1
        return len(self.sites) - 1


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def make_model(structure, numbered: Sites, bonds, n_waters: int, components) -> Model:
    """What gemmi read, in the order of `numbered`; `bonds` are those known besides gemmi's."""
    parts: list[list[gemmi.Residue]] = [[] for _ in numbered.sites]
    for model in structure:
        for chain in model:
            for residue in chain:
                # The residue refers to memory of the structure; it is needed after it.
                parts[residue.seqid.num - 1].append(residue.clone())
    bonds = bonds + _declared_bonds(structure.connections, numbered.sites, parts)
    order = numbered.order
    position = {index: place for place, index in enumerate(order)}
    return Model(
        [numbered.sites[index] for index in order],
        [parts[index] for index in order],
        [((position[i], first), (position[j], second)) for (i, first), (j, second) in bonds],
        n_waters,
        components,
    )


def _declared_bonds(connections, sites: list[Site], parts):
    """SSBOND, LINK and struct_conn within the asymmetric unit, hydrogen bonds left out."""
    sites_of: dict[tuple[str, str], list[int]] = {}
    for index, site in enumerate(sites):
        sites_of.setdefault((site.chain, site.number), []).append(index)
    bonds = []
    for connection in connections:
        if connection.type == gemmi.ConnectionType.Hydrog or connection.asu == gemmi.Asu.Different:
            continue
        ends = []
        for partner in (connection.partner1, connection.partner2):
            # A number may be there twice: the bond is that of the first residue with the atom.
            for index in sites_of.get((partner.chain_name, str(partner.res_id.seqid)), ()):
                if any(partner.atom_name in (a.name for a in part) for part in parts[index]):
                    ends.append((index, partner.atom_name))
                    break
        if len(ends) == 2 and ends[0][0] != ends[1][0]:
            bonds.append(tuple(ends))
    return bonds


def check_coordinates(path: str, where: str, fields) -> None:
    for field in fields:
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        if not abs(value) <= MAX_COORDINATE or "_" in field:
            raise StructureError(
                "bad_coordinates",
                f"{path}: {where}: coordinate {field.strip() or 'missing'} is not a number"
                f" between -{MAX_COORDINATE} and {MAX_COORDINATE}",
            )

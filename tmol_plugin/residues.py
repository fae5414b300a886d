"""The residues of one structure that are scored, and their hand-over as clean mmCIF."""

from collections import Counter
from dataclasses import dataclass, field

import gemmi
import numpy as np

from tmol_plugin import chemistry
from tmol_plugin.mmcif import copy_category


@dataclass
class Residue:
    """A residue that will be scored: names by the wwPDB, coordinates in angstrom [n, 3]."""

    name: str
    label: str  # as the file calls it, for messages: chain:number name
    place: tuple[str, str]  # chain and number of the label
    segment: int
    atoms: list[str]
    elements: list[str]
    coords: np.ndarray
    site: int

    def position(self, atom: str) -> np.ndarray | None:
        return self.coords[self.atoms.index(atom)] if atom in self.atoms else None

    @property
    def heavy(self) -> list[str]:
        return [a for a, e in zip(self.atoms, self.elements, strict=True) if e != "H"]


@dataclass
class Structure:
    """The residues of one model in file order, divided into chains.

    `chain_of[i]` numbers the chain of residue i; residues that are not part of a polymer
    have chains of their own. `number_of[i]` is its number in `to_cif`; there is a gap where
    the chain is broken. `bonds` are declared bonds beyond the polymer's, as pairs of
    (residue index, atom name). `missing` are heavy atoms to rebuild, by residue index.
    """

    path: str
    sha256: str
    residues: list[Residue]
    chain_of: list[int]
    number_of: list[int]
    bonds: list[tuple[tuple[int, str], tuple[int, str], str]]
    missing: dict[int, list[str]]
    unrecognized: list[str]
    notes: Counter = field(default_factory=Counter)
    components: gemmi.cif.Block | None = None

    @property
    def n_heavy_atoms(self) -> int:
        return sum(len(r.heavy) for r in self.residues)

    @property
    def n_atoms(self) -> int:
        """Estimate of the pose's atoms: heavy atoms, hydrogens built, terminal atoms."""
        total = 0
        for residue in self.residues:
            heavy = chemistry.HEAVY_ATOMS.get(residue.name)
            if heavy is None:
                total += 2 * len(residue.heavy) if len(residue.heavy) > 1 else 1
            else:
                phosphate = sum(a in chemistry.PHOSPHATE for a in residue.atoms)
                total += len(heavy) + chemistry.HYDROGENS[residue.name] + phosphate
        return total + 3 * len(set(self.chain_of))

    @property
    def chemistry(self) -> str:
        """Classes of the residues, joined by +, in a fixed order."""
        names = {residue.name for residue in self.residues}
        known = chemistry.RECOGNIZED
        classes = {
            "protein": names & chemistry.AMINO_ACIDS,
            "modified protein": names & (chemistry.PROTEIN - chemistry.AMINO_ACIDS),
            "nucleic acid": names & chemistry.NUCLEOTIDES,
            "metal": names & chemistry.METALS,
            "ligand": names - known,
        }
        return "+".join(name for name, members in classes.items() if members)

    def names_in_cif(self) -> list[tuple[str, int]]:
        """(chain, number) of each residue in `to_cif`."""
        return [(chain_name(c), n) for c, n in zip(self.chain_of, self.number_of, strict=True)]

    def to_cif(self) -> str:
        """This structure as an mmCIF that any reader takes as it is meant here.

        Chains and residues are numbered anew, so that a reader's handling of numbering
        cannot change a score; the chemistry that the input declares is carried along.
        """
        block = gemmi.cif.Document().add_new_block("structure")
        polymers = self._polymer_chains()
        chains = sorted(set(self.chain_of))
        loop = block.init_loop("_entity.", ["id", "type"])
        for chain in chains:
            kind = "polymer" if chain in polymers else "non-polymer"
            loop.add_row([str(chain + 1), kind])
        loop = block.init_loop("_struct_asym.", ["id", "entity_id"])
        for chain in chains:
            loop.add_row([chain_name(chain), str(chain + 1)])
        self._add_atoms(block, polymers)
        self._add_bonds(block)
        if self.components is not None:
            for category in ("_chem_comp.", "_chem_comp_atom.", "_chem_comp_bond."):
                copy_category(self.components, block, category)
        return block.as_string()

    def _polymer_chains(self) -> set[int]:
        sizes = Counter(self.chain_of)
        return {
            chain
            for chain, residue in zip(self.chain_of, self.residues, strict=True)
            if sizes[chain] > 1 or residue.name in chemistry.BACKBONE_ATOMS
        }

    def _add_atoms(self, block, polymers) -> None:
        names = "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id"
        names += " label_asym_id label_entity_id label_seq_id pdbx_PDB_ins_code Cartn_x Cartn_y"
        names += " Cartn_z occupancy B_iso_or_equiv auth_seq_id auth_comp_id auth_asym_id"
        names += " auth_atom_id pdbx_PDB_model_num"
        rows = []
        quote = gemmi.cif.quote
        for index, residue in enumerate(self.residues):
            chain = self.chain_of[index]
            polymer = chain in polymers
            name, asym, entity = quote(residue.name), chain_name(chain), str(chain + 1)
            group, number = ("ATOM" if polymer else "HETATM"), str(self.number_of[index])
            for atom, element, xyz in zip(residue.atoms, residue.elements, residue.coords.tolist()):
                xyz = (f"{value:.6f}".rstrip("0") for value in xyz)
                rows.append(
                    (
                        *(group, str(len(rows) + 1), element, quote(atom), ".", name, asym),
                        *(entity, number if polymer else ".", "?", *xyz, "1.00", "0.00"),
                        *(number, name, asym, quote(atom), "1"),
                    )
                )
        loop = block.init_loop("_atom_site.", names.split())
        loop.set_all_values([list(column) for column in zip(*rows, strict=True)])

    def _add_bonds(self, block) -> None:
        if not self.bonds:
            return
        names = ["id", "conn_type_id"]
        fields = ("auth_asym_id", "auth_comp_id", "auth_seq_id")
        labels = ("label_asym_id", "label_comp_id", "label_seq_id", "label_atom_id")
        names += [f"ptnr{p}_{name}" for p in (1, 2) for name in (*fields, *labels)]
        loop = block.init_loop("_struct_conn.", names)
        polymers = self._polymer_chains()
        for number, (first, second, kind) in enumerate(self.bonds, 1):
            row = [str(number), kind]
            for index, atom in (first, second):
                chain = self.chain_of[index]
                name, asym = gemmi.cif.quote(self.residues[index].name), chain_name(chain)
                sequence = str(self.number_of[index])
                row += [asym, name, sequence, asym, name]
                row += [sequence if chain in polymers else ".", gemmi.cif.quote(atom)]
            loop.add_row(row)


def chain_name(chain: int) -> str:
    """A chain's name in `to_cif`: A, B, ... Z, AA, AB, ..."""
    name = ""
    while chain >= 0:
        name = chr(ord("A") + chain % 26) + name
        chain = chain // 26 - 1
    return name

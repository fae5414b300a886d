"""The residue tables against TMol's own database, which they stand in for."""

import pytest

from tmol_plugin import chemistry


@pytest.fixture(scope="module")
def residues():
    """(io class) -> (heavy atoms, hydrogens) of TMol's first residue type of the class."""
    from tmol import ParameterDatabase

    chemical = ParameterDatabase.get_default().chemical
    element = {kind.name: kind.element.upper() for kind in chemical.atom_types}
    found = {}
    for residue in chemical.residues:
        atoms = [(atom.name, element[atom.atom_type]) for atom in residue.atoms]
        heavy = {name for name, kind in atoms if kind != "H"}
        found.setdefault(residue.io_equiv_class, (heavy, len(atoms) - len(heavy)))
    return found


def test_recognized_residues_are_tmols(residues):
    assert set(residues) - {"HOH", "VRT"} == chemistry.RECOGNIZED


def test_atoms_are_tmols(residues):
    for name, atoms in chemistry.HEAVY_ATOMS.items():
        phosphate = chemistry.PHOSPHATE if name in chemistry.NUCLEOTIDES else ()
        assert residues[name] == ({*atoms, *phosphate}, chemistry.HYDROGENS[name]), name


@pytest.mark.parametrize(
    ("residue", "name", "element", "expected"),
    [
        ("ALA", "D", "D", "H"),
        ("ALA", "DB2", "D", "HB2"),
        ("ALA", "1DB", "D", "1HB"),
        ("MET", "SE", "SE", "SD"),
        ("ILE", "CD", "C", "CD1"),
        ("VAL", "CD", "C", "CD"),
        ("GLY", "OT2", "O", "OXT"),
        ("DA", "O1P", "O", "OP1"),
        ("DC", "C5*", "C", "C5'"),
        ("LIG", "C5*", "C", "C5*"),
        ("ASP", "CD", "C", "CD"),
    ],
)
def test_atom_names(residue, name, element, expected):
    assert chemistry.atom_name(residue, name, element) == expected

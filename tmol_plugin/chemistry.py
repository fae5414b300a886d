"""Residue names and heavy atoms that TMol 0.2 has parameters for, and names read as others.

The scan must tell what can be scored without importing TMol (seconds), so what it needs
stands here; tests/test_chemistry.py compares it with TMol's own database.
"""

_BACKBONE = "N CA C O"
_SIDE_CHAINS = {
    "ALA": "CB",
    "ARG": "CB CG CD NE CZ NH1 NH2",
    "ASN": "CB CG OD1 ND2",
    "ASP": "CB CG OD1 OD2",
    "CYS": "CB SG",
    "GLN": "CB CG CD OE1 NE2",
    "GLU": "CB CG CD OE1 OE2",
    "GLY": "",
    "HIS": "CB CG ND1 CD2 CE1 NE2",
    "ILE": "CB CG1 CG2 CD1",
    "LEU": "CB CG CD1 CD2",
    "LYS": "CB CG CD CE NZ",
    "MET": "CB CG SD CE",
    "PHE": "CB CG CD1 CD2 CE1 CE2 CZ",
    "PRO": "CB CG CD",
    "SER": "CB OG",
    "THR": "CB OG1 CG2",
    "TRP": "CB CG CD1 CD2 NE1 CE2 CE3 CZ2 CZ3 CH2",
    "TYR": "CB CG CD1 CD2 CE1 CE2 CZ OH",
    "VAL": "CB CG1 CG2",
}
# wwPDB name of each D-amino acid -> its mirror image.
_MIRRORED = {
    **{"DAL": "ALA", "DAR": "ARG", "DSG": "ASN", "DAS": "ASP", "DCY": "CYS", "DGN": "GLN"},
    **{"DGL": "GLU", "DHI": "HIS", "DIL": "ILE", "DLE": "LEU", "DLY": "LYS", "MED": "MET"},
    **{"DPN": "PHE", "DPR": "PRO", "DSN": "SER", "DTH": "THR", "DTR": "TRP", "DTY": "TYR"},
    **{"DVA": "VAL"},
}
_SUGAR = "O5' C5' C4' O4' C3' O3' C2' C1'"
_BASES = {
    "A": "N9 C4 N3 C2 N1 C6 C5 N7 C8 N6",
    "C": "N1 C2 O2 N3 C4 N4 C5 C6",
    "G": "N9 C4 N3 C2 N1 C6 C5 N7 C8 N2 O6",
    "U": "N1 C2 O2 N3 C4 O4 C5 C6",
}
_BASES |= {"DA": _BASES["A"], "DC": _BASES["C"], "DG": _BASES["G"]}
_BASES |= {"DT": "N1 C2 O2 N3 C4 O4 C5 C7 C6"}

AMINO_ACIDS = frozenset(_SIDE_CHAINS)
D_AMINO_ACIDS = frozenset(_MIRRORED)
NUCLEOTIDES = frozenset(_BASES)
METALS = frozenset(
    {
        *("MG", "CA", "NA", "K", "MN", "FE2", "FE", "CO", "3CO", "NI", "CU1", "CU", "ZN", "CD"),
        *("HG", "SF4", "FES", "F3S", "CLF", "1CL", "SF3", "F4S", "9S8", "MGF", "MF4", "NCO"),
        *("FEO", "C2O", "CUA", "XCC", "OEX", "OEY"),
    }
)
WATERS = frozenset({"HOH", "DOD", "WAT", "H2O", "TIP", "TP3", "TIP3", "SOL", "SPC", "OH2"})

# Heavy atoms that every residue of the name has; a terminus may have more (see OPTIONAL).
HEAVY_ATOMS: dict[str, tuple[str, ...]] = {
    **{name: tuple(f"{_BACKBONE} {atoms}".split()) for name, atoms in _SIDE_CHAINS.items()},
    **{
        name: tuple(f"{_BACKBONE} {_SIDE_CHAINS[mirror]}".split())
        for name, mirror in _MIRRORED.items()
    },
    "AIB": tuple(f"{_BACKBONE} CB1 CB2".split()),
    **{name: tuple(f"{_SUGAR} {atoms}".split()) for name, atoms in _BASES.items()},
}
for _name in "ACGU":
    HEAVY_ATOMS[_name] += ("O2'",)

PROTEIN = AMINO_ACIDS | D_AMINO_ACIDS | {"AIB"}
# Heavy atoms that a residue may have besides: the C-terminal oxygen, the 5' phosphate.
PHOSPHATE = ("P", "OP1", "OP2")
OPTIONAL_ATOMS = {
    **dict.fromkeys(PROTEIN, frozenset({"OXT"})),
    **dict.fromkeys(NUCLEOTIDES, frozenset(PHOSPHATE)),
}
BACKBONE_ATOMS = {
    **dict.fromkeys(PROTEIN, ("N", "CA", "C")),
    # O5' and the sugar; TMol builds a pose only from nucleotides that have them.
    **dict.fromkeys(NUCLEOTIDES, ("O5'", "C5'", "C4'", "C3'", "O3'")),
}
# The atoms that bond to the next and to the previous residue.
LINK_ATOMS = {
    **dict.fromkeys(PROTEIN, ("C", "N")),
    **dict.fromkeys(NUCLEOTIDES, ("O3'", "P")),
}
RECOGNIZED = PROTEIN | NUCLEOTIDES | METALS

# Hydrogens of a whole residue within a chain, at the usual protonation (TMol's types).
HYDROGENS = {
    **{"ALA": 5, "ARG": 13, "ASN": 6, "ASP": 4, "CYS": 5, "GLN": 8, "GLU": 6, "GLY": 3},
    **{"HIS": 7, "ILE": 11, "LEU": 11, "LYS": 13, "MET": 9, "PHE": 9, "PRO": 7, "SER": 5},
    **{"THR": 7, "TRP": 10, "TYR": 9, "VAL": 9, "AIB": 7},
    **{"A": 11, "C": 11, "G": 11, "U": 10, "DA": 11, "DC": 11, "DG": 11, "DT": 12},
}
HYDROGENS |= {name: HYDROGENS[mirror] for name, mirror in _MIRRORED.items()}

# Names that force fields and programs give to residues of the wwPDB, by protonation or
# bonding that TMol decides from the hydrogens and sulfurs present.
RESIDUE_ALIASES = {
    "MSE": "MET",
    **dict.fromkeys(("HID", "HIE", "HIP", "HSD", "HSE", "HSP"), "HIS"),
    **dict.fromkeys(("CYX", "CYM"), "CYS"),
    **{"ASH": "ASP", "GLH": "GLU", "LYN": "LYS"},
}
# Four letters, as GROMACS and AMBER write them where the chain would begin.
_FOUR_LETTERS = {
    **dict.fromkeys(("HISA", "HISB", "HISD", "HISE", "HISH", "HIS1", "HIS2"), "HIS"),
    **{"LYSH": "LYS", "LYSN": "LYS", "ARGN": "ARG", "ASPH": "ASP", "GLUH": "GLU"},
    **{"CYSH": "CYS", "CYS1": "CYS", "CYS2": "CYS"},
    **{f"{end}{name}": name for end in "NC" for name in sorted(AMINO_ACIDS)},
    **{f"{end}{name}": other for end in "NC" for name, other in RESIDUE_ALIASES.items()},
}
RESIDUE_ALIASES |= _FOUR_LETTERS
# (residue name or None for any amino acid, atom name) -> the wwPDB's atom name.
_ATOM_ALIASES = {
    ("MET", "SE"): "SD",
    # AMBER's neutral lysine has HZ2 and HZ3, TMol's HZ1 and HZ2.
    ("LYN", "HZ3"): "HZ1",
    ("ILE", "CD"): "CD1",
    ("ILE", "HD1"): "HD11",
    ("ILE", "HD2"): "HD12",
    ("ILE", "HD3"): "HD13",
    (None, "OT1"): "O",
    (None, "OT2"): "OXT",
    (None, "HN"): "H",
    (None, "HT1"): "H1",
    (None, "HT2"): "H2",
    (None, "HT3"): "H3",
    (None, "1H"): "H1",
    (None, "2H"): "H2",
    (None, "3H"): "H3",
}


def is_four_letters(name: str) -> bool:
    """Whether the columns of a residue name and the first of a chain hold one name."""
    return name in _FOUR_LETTERS or name in WATERS


def atom_name(residue_name: str, name: str, element: str, written: str = "") -> str:
    """The wwPDB's name of an atom that a program wrote as `name` in a residue `written`.

    Deuterium is read as hydrogen (D -> H, DB2 -> HB2, 1DB -> 1HB), the asterisk of old
    nucleotides as a prime. TMol reads the old hydrogen names (1HB) itself.
    """
    if element == "D":
        digit = name[:1] if name[:1].isdigit() else ""
        if name[len(digit) :].startswith("D"):
            name = f"{digit}H{name[len(digit) + 1 :]}"
    if residue_name in NUCLEOTIDES:
        name = name.replace("*", "'")
        return {"O1P": "OP1", "O2P": "OP2", "C5M": "C7"}.get(name, name)
    if residue_name in PROTEIN:
        alias = _ATOM_ALIASES.get((written, name)) or _ATOM_ALIASES.get((residue_name, name))
        return alias or _ATOM_ALIASES.get((None, name), name)
    return name


def atom_aliases(residue_name: str, written: str) -> list[str]:
    """Names that `atom_name` reads as others in a residue that a program called `written`."""
    return [atom for residue, atom in _ATOM_ALIASES if residue in (None, residue_name, written)]

"""Hand-made structures and what must become of each: protonation, chain ends, names."""

from dataclasses import dataclass

import pieces as p

POSE, NOT_COVERED = "pose", "not covered"


@dataclass
class Case:
    """One file. `outcome` is POSE, NOT_COVERED, or the reason of a failure.

    `careful` says that only the careful reader takes such a file; `alone` is why TMol, reading
    the file itself, makes another pose of it or none.
    """

    content: bytes
    outcome: str = POSE
    careful: bool = False
    alone: str = ""
    file: str = "case.pdb"


CASES: dict[str, Case] = {}


def case(name, lines, outcome=POSE, **options):
    content = lines if isinstance(lines, bytes) else p.text_of(p.with_serials(lines))
    assert name not in CASES
    CASES[name] = Case(content, outcome, **options)


# Histidine 68 of ubiquitin has HE2; HD1 is planted. With other hydrogens, and with none.
_HIS = p.nmr(66, 70)
_HIS = {
    "epsilon": _HIS,
    "delta": p.without(p.planted(_HIS, 68, "HD1", "ND1", "CG", "CE1"), "HE2"),
    "both": p.planted(_HIS, 68, "HD1", "ND1", "CG", "CE1"),
    "neither": p.without(_HIS, "HE2"),
}
for _name, _lines in _HIS.items():
    case(f"histidine-{_name}", _lines)
    _bare = [s for s in _lines if not p.is_hydrogen(s) or p.atom_of(s) in ("HD1", "HE2")]
    case(f"histidine-{_name}-without-other-hydrogens", _bare)

# Lysine 6, tyrosine 59, and the acids' protons.
_LYS, _TYR = p.nmr(4, 8), p.nmr(57, 61)
case("lysine-3", _LYS)
for _absent in ("HZ1", "HZ2", "HZ3"):
    case(f"lysine-without-{_absent}", p.without(_LYS, _absent))
case("lysine-1", p.without(_LYS, "HZ1", "HZ2"))
case("lysine-0", p.without(_LYS, "HZ1", "HZ2", "HZ3"))
case("lysine-bare-among-hydrogens", p.heavy(_LYS, 6))
case("lysine-only-HZ", [s for s in _LYS if not p.is_hydrogen(s) or p.atom_of(s)[:2] == "HZ"])
case("tyrosine-deprotonated", p.without(_TYR, "HH"))
case("tyrosine-only-HH", [s for s in _TYR if not p.is_hydrogen(s) or p.atom_of(s) == "HH"])
_ASP, _GLU, _ARG = p.nmr(20, 23), p.nmr(15, 17), p.nmr(41, 43)
case("aspartic-acid", p.planted(_ASP, 21, "HD2", "OD2", "CG"))
case("aspartic-acid-HD1", p.planted(_ASP, 21, "HD1", "OD1", "CG"))
case("aspartic-acid-only-HD2", p.planted(p.heavy(_ASP), 21, "HD2", "OD2", "CG"))
case("glutamic-acid", p.planted(_GLU, 16, "HE2", "OE2", "CD"))
case("glutamic-acid-only-HE2", p.planted(p.heavy(_GLU), 16, "HE2", "OE2", "CD"))
case("arginine", _ARG)
case("arginine-without-HE", p.without(_ARG, "HE"))
case("arginine-without-HH12-HH22", p.without(_ARG, "HH12", "HH22"))

# Cysteine 26 of crambin, its partner 16 there or cut off.
_CYS, _BRIDGE = p.crambin(25, 27), p.crambin(15, 27)
case("cysteine", p.planted(_CYS, 26, "HG", "SG", "CB", length=1.3))
case("cysteine-deprotonated", _CYS)
case("cysteine-bare", p.heavy(_CYS))
case("cysteine-only-HG", p.planted(p.heavy(_CYS), 26, "HG", "SG", "CB", length=1.3))
case("cysteine-without-H", p.without(_CYS, "H"))
case("disulfide", _BRIDGE)
case("disulfide-bare", p.heavy(_BRIDGE))
case("disulfide-with-HG", p.planted(_BRIDGE, 26, "HG", "SG", "CB", length=1.3))
_far = p.apart(p.heavy(_BRIDGE), (16, "SG"), (26, "SG"), 3.5)
case("disulfide-too-far", _far)

# Partial hydrogens.
_PIECE = p.nmr(1, 9)
_POLAR = {*("H", "H1", "H2", "H3", "HZ1", "HZ2", "HZ3", "HE21", "HE22", "HG1", "HE", "HH")}
case("hydrogens-polar", [s for s in _PIECE if not p.is_hydrogen(s) or p.atom_of(s) in _POLAR])
case("hydrogens-aliphatic", p.without(_PIECE, *_POLAR))
case("hydrogens-none", p.heavy(_PIECE))
case("hydrogens-all", _PIECE)
case("hydrogens-only-HA", [s for s in _PIECE if not p.is_hydrogen(s) or p.atom_of(s) == "HA"])
case(
    "hydrogens-last",
    p.heavy(_PIECE) + [s for s in _PIECE if p.is_hydrogen(s)],
    careful=True,
    alone="order",
)

# Amino ends: of MET 1 and of PRO 19, whose N has CD where others have H.
case("n-terminus-2", p.without(_PIECE, "H3"), NOT_COVERED)
case("n-terminus-1", p.without(_PIECE, "H2", "H3"))
case("n-terminus-1-called-H", p.renamed(p.without(_PIECE, "H2", "H3"), {"H1": "H"}))
case("n-terminus-0", p.without(_PIECE, "H1", "H2", "H3"))
case("n-terminus-4", p.planted(_PIECE, 1, "H", "N", "CA"), NOT_COVERED)
_PRO = p.nmr(19, 23)
case("proline-first-0", _PRO)
_pro1 = p.planted(_PRO, 19, "H2", "N", "CA", "CD")
case("proline-first-1", _pro1)
case("proline-first-2", p.planted(_pro1, 19, "H3", "N", "CA", "H2"))
case("proline-first-bare", p.heavy(_PRO))
case("proline-within-with-H", p.planted(p.nmr(18, 20), 19, "H", "N", "CA", "CD"))
for _name in ("H1", "H2", "H3"):  # of an amine, by their names
    case(f"amide-called-{_name}", p.renamed(_PIECE, {"H": _name}, 4), NOT_COVERED)
case("amine-within-the-chain", p.planted(_PIECE, 4, "H2", "N", "CA", "H"), NOT_COVERED)

# Carboxyl ends, and OXT astray.
_END = p.nmr(72, 76)
_OXT = p.planted(_PIECE, 9, "OXT", "C", "CA", "O", length=1.25)
case("oxt-there", _END)
case("oxt-absent", p.without(_END, "OXT"))
case("oxt-planted", _OXT)
case("oxt-OT2", p.renamed(_OXT, {"OXT": "OT2"}))
case("oxt-OT1-OT2", p.renamed(_OXT, {"OXT": "OT2", "O": "OT1"}, 9))
case("oxt-far", p.planted(_PIECE, 9, "OXT", "C", "CA", "O", length=3.0), "bad_geometry")
case("oxt-near", p.planted(_PIECE, 9, "OXT", "C", "CA", "O", length=0.5), "bad_geometry")
case("oxt-within", p.planted(_PIECE, 4, "OXT", "C", "CA", length=1.25), "bad_geometry")
case("oxt-without-O", p.without(_END, "O", number=76), "missing_atoms")
case("one-residue", p.nmr(10, 10))
case("one-residue-bare", p.ubiquitin(10, 10))
case("one-residue-histidine", p.nmr(68, 68))
# LYS_DEP has no type that is both ends of a chain.
case("one-residue-lysine-2", p.without(p.nmr(6, 6), "HG2", "HZ2"), NOT_COVERED)

# A gap: residue 5 left out; with hydrogens, without, and with an end's atoms beside it.
_GAP = p.nmr(1, 4) + p.nmr(6, 9)
_amine = p.planted(p.renamed(_GAP, {"H": "H1"}, 6), 6, "H2", "N", "CA", "H1")
_amine = p.planted(_amine, 6, "H3", "N", "CA", "H2")
case("gap", _GAP)
case("gap-bare", p.heavy(_GAP))
case("gap-oxt", p.planted(_GAP, 4, "OXT", "C", "CA", "O", length=1.25))
case("gap-oxt-bare", p.planted(p.heavy(_GAP), 4, "OXT", "C", "CA", "O", length=1.25))
case("gap-amine", _amine)
case("gap-oxt-amine", p.planted(_amine, 4, "OXT", "C", "CA", "O", length=1.25))
case("gap-amine-2", p.without(_amine, "H3", number=6), NOT_COVERED)
case("gap-before-one-residue", p.nmr(1, 4) + p.nmr(6, 6))
case("gap-twice", p.nmr(1, 2) + p.nmr(4, 4) + p.nmr(6, 9))
case("gap-proline", p.nmr(15, 17) + p.nmr(19, 21))
case("no-gap-but-numbers", [p.with_field(s, 22, f"{3 * p.number_of(s):4d}") for s in _PIECE])

# Chains.
_LEFT, _RIGHT = p.nmr(1, 4), p.in_chain(p.shifted(p.nmr(5, 9), 20.0), "B")
case("two-chains", _LEFT + _RIGHT)
case("two-chains-ter", [*_LEFT, "TER", *_RIGHT, "TER"])
case("two-chains-one-letter", [*_LEFT, "TER", *p.in_chain(_RIGHT, "A"), "TER"], alone="TER")
case("two-chains-no-letter", p.in_chain([*_LEFT, "TER", *_RIGHT], " "), alone="TER")
case("two-chains-one-residue", p.nmr(1, 1) + p.in_chain(p.shifted(p.nmr(10, 10), 20.0), "B"))
case("chain-ends-nearby", p.nmr(1, 4) + p.in_chain(p.nmr(5, 9), "B"))
case("ter-within", [*_LEFT, "TER", *p.nmr(5, 9)], alone="TER")
case("letter-again", p.nmr(1, 2) + p.in_chain(p.nmr(4, 5), "B") + p.nmr(7, 9))

# Names of programs.
_SE = p.with_residue(p.nmr(1, 5), 1, "MSE")
_SE = [p.with_field(p.with_field(s, 12, "SE  "), 76, "SE") if "SD" in s[12:16] else s for s in _SE]
case("selenomethionine", [p.with_field(s, 0, "HETATM") if "MSE" in s else s for s in _SE])
for _number, _piece, _names in (
    (68, _HIS["epsilon"], ("HIE", "HSE", "HID", "HIP", "HSD", "HSP")),
    (26, _CYS, ("CYX", "CYM")),
    (26, _BRIDGE, ("CYX",)),
    (21, _ASP, ("ASH",)),
    (16, _GLU, ("GLH",)),
):
    for _name in _names:
        _suffix = "-bridge" if _piece is _BRIDGE else ""
        case(f"called-{_name}{_suffix}", p.with_residue(_piece, _number, _name), alone="names")
_lyn = p.with_residue(p.without(_LYS, "HZ1"), 6, "LYN")
case("called-LYN-2", _lyn, alone="names")
# Its HZ2 and HZ3 are TMol's HZ1 and HZ2.
case("called-LYN-3", p.with_residue(_LYS, 6, "LYN"), "duplicate_atom")
case(
    "called-ASH-HD2",
    p.with_residue(p.planted(_ASP, 21, "HD2", "OD2", "CG"), 21, "ASH"),
    alone="names",
)
case("called-NMET", p.with_residue(_PIECE, 1, "NMET"), careful=True, alone="names")
case("called-HISE", p.with_residue(_HIS["epsilon"], 68, "HISE"), careful=True)
case("called-HN", p.renamed(_PIECE, {"H": "HN"}), alone="names")
case("called-HT1", p.renamed(_PIECE, {"H1": "HT1", "H2": "HT2", "H3": "HT3"}), alone="names")
case("called-CD", p.renamed(p.heavy(p.nmr(3, 5)), {"CD1": "CD"}, 3), alone="names")
_OLD = {
    f"H{a}{n}": f"{n}H{a}" for a in ("A", "B", "G", "D", "E", "Z", "G1", "G2", "D1") for n in "123"
}
case("called-1HB", p.renamed(_PIECE, _OLD))
case("called-1H", p.renamed(_PIECE, {"H1": "1H", "H2": "2H", "H3": "3H"}))
_D = [
    p.with_field(p.renamed_atom(s, "D" + p.atom_of(s)[1:]), 76, " D") if p.is_hydrogen(s) else s
    for s in _PIECE
]
case("deuterium", _D, alone="names")
case("hydrogen-of-no-name", p.planted(_PIECE, 4, "HXX", "CB", "CA"))
_TWICE = p.planted(_PIECE, 4, "HXX", "CB", "CA")
_TWICE = p.planted(_TWICE, 4, "HXX", "CG", "CB")
case("hydrogen-of-no-name-twice", _TWICE, "duplicate_atom")
case("deuterium-of-no-name", p.planted(_PIECE, 4, "DXX", "CB", "CA"))

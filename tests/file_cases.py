"""Hand-made files and what must become of each: columns, numbers, conformers, declared bonds."""

import gzip

import pieces as p
from structure_cases import CASES, NOT_COVERED, Case, case

__all__ = ["CASES", "Case"]

_PIECE, _HEAVY = p.nmr(1, 9), p.ubiquitin(1, 9)
_TEXT = p.text_of(p.with_serials(_PIECE))


def _altlocs(lines, number, letters, occupancies, step=0.1):
    """A residue's atoms once per letter, each copy `step` angstrom further."""
    out = []
    for line in lines:
        if p.number_of(line) != number:
            out.append(line)
            continue
        for k, (letter, occupancy) in enumerate(zip(letters, occupancies, strict=True)):
            copy = p.with_field(p.with_field(line, 16, letter), 54, f"{occupancy:6.2f}")
            out.append(p.moved(copy, p.position(line) + step * k))
    return out


def _link(first, second, symmetry="  1555   1555"):
    (one, name, number), (other, its, second_number) = first, second
    line = f"LINK        {one:<4} {name} A{number:4d}                "
    return f"{line}{other:<4} {its} A{second_number:4d}  {symmetry}"


# Lines and containers.
case("crlf", _TEXT.replace(b"\n", b"\r\n"))
case("cr", _TEXT.replace(b"\n", b"\r"))
case("gzipped", gzip.compress(_TEXT), file="case.pdb.gz")
case("gzipped-without-saying", gzip.compress(_TEXT), alone="gzip")
case("byte-order-mark", b"\xef\xbb\xbf" + _TEXT, alone="byte-order mark")
case("no-last-line-feed", _TEXT.rstrip())
case("columns-54", [s[:54] for s in _PIECE], alone="elements")
case("columns-66", [s[:66] for s in _PIECE])
case("columns-60", [s[:60] for s in _PIECE], alone="elements")
case("columns-57", [s[:57] for s in _PIECE], careful=True, alone="occupancy")
case("columns-53", [s[:53] for s in _PIECE], "bad_coordinates")
case("elements-wrong", [p.with_field(s, 76, "XX") for s in _PIECE])
case(
    "elements-of-calcium",
    [p.with_field(s, 76, "CA") if " CA " in s else s for s in _PIECE],
)
case("segment-names", [f"{s[:72]}PROA    " for s in _PIECE])
case(
    "segment-for-chain",
    [f"{s[:21]} {s[22:72]}PROA    " for s in _PIECE],
    careful=True,
)
case("charges", [s[:78] + "1+" if p.atom_of(s) in ("N", "NZ") else s for s in _PIECE])
case(
    "header-and-master", ["HEADER    X", "REMARK  99 \xe9", *_PIECE, "MASTER", "END"], alone="\xe9"
)
case("anisou", [t for s in _PIECE for t in (s, "ANISOU" + s[6:27] + "      1" * 6)])
case("tabs", [s.replace("     ", "\t", 1) for s in _PIECE], "bad_coordinates")
case("hetatm", [p.with_field(s, 0, "HETATM") for s in _PIECE])
case("lower-case", _TEXT.replace(b"ATOM", b"atom"), "unreadable")

# Serials and residue numbers.
case(
    "serials-again",
    p.text_of([p.with_field(s, 6, "    1") for s in _PIECE]),
    careful=True,
)
case(
    "serials-asterisks",
    p.text_of([p.with_field(s, 6, "*****") for s in _PIECE]),
    careful=True,
    alone="serials",
)
case(
    "serials-falling",
    p.text_of([p.with_field(s, 6, f"{999 - i:5d}") for i, s in enumerate(_PIECE)]),
    alone="serials",
)
case(
    "serials-with-gaps",
    p.text_of([p.with_field(s, 6, f"{3 * i + 7:5d}") for i, s in enumerate(_PIECE)]),
)
case(
    "insertion-codes",
    [p.with_field(s, 22, f"   5{'ABCDEFGHI'[p.number_of(s) - 1]}") for s in _PIECE],
)
case("numbers-negative", [p.with_field(s, 22, f"{p.number_of(s) - 5:4d}") for s in _PIECE])
case(
    "numbers-falling",
    [p.with_field(s, 22, f"{99 - p.number_of(s):4d}") for s in _PIECE],
)
case(
    "numbers-again",
    [p.with_field(s, 22, f"{(p.number_of(s) - 1) % 3 + 1:4d}") for s in _PIECE],
    careful=True,
)
case(
    "numbers-blank",
    [p.with_field(s, 22, "    ") for s in p.nmr(4, 4)],
    careful=True,
    alone="numbers",
)
case(
    "numbers-in-hex",
    [p.with_field(s, 22, f"{p.number_of(s) + 0xA000:4X}") for s in _PIECE],
    careful=True,
)

# Conformers.
for _name, _occupancies in (("first", (0.6, 0.4)), ("second", (0.4, 0.6)), ("equal", (0.5, 0.5))):
    _alone = "conformers" if _name == "second" else ""
    case(f"altlocs-{_name}", _altlocs(_PIECE, 4, "AB", _occupancies), alone=_alone)
case("altlocs-three", _altlocs(_PIECE, 4, "BCA", (0.2, 0.5, 0.3)), alone="conformers")
case("altlocs-digits", _altlocs(_PIECE, 4, "12", (0.5, 0.5)), alone="conformers")
case(
    "altlocs-at-ends",
    _altlocs(_altlocs(_PIECE, 1, "AB", (0.3, 0.7)), 9, "AB", (0.7, 0.3)),
    alone="conformers",
)
_SOME = _altlocs(_HEAVY, 4, "AB", (0.35, 0.65))
_SOME = [s for s in _SOME if s[16] != "B" or p.atom_of(s) in ("CD1", "CD2", "CE1", "CE2", "CZ")]
_SOME = [
    p.with_field(s, 16, " ") if p.atom_of(s) in ("N", "CA", "C", "O", "CB", "CG") else s
    for s in _SOME
]
case("altlocs-of-the-ring", _SOME, alone="conformers")
# Means that are equal but for the rounding of 32 bits: of 0.35, and of 0.3 and 0.4 by turns.
_MEANS = _altlocs(_HEAVY, 3, "AB", (0.35, 0.3))
for _i in [i for i, s in enumerate(_MEANS) if s[16] == "B"][1::2]:
    _MEANS[_i] = p.with_field(_MEANS[_i], 54, "  0.40")
case("altlocs-of-one-mean", _MEANS)
_MIXED = _altlocs(p.heavy(_PIECE), 2, "AB", (0.3, 0.7))
_MIXED = [p.with_field(s, 17, "GLU") if s[16] == "B" else s for s in _MIXED]
_MIXED = [p.renamed_atom(s, "OE2") if p.atom_of(s) == "NE2" and s[16] == "B" else s for s in _MIXED]
case("microheterogeneity", _MIXED, careful=True, alone="conformers")
case("zero-occupancy", [p.with_field(s, 54, "  0.00") for s in _PIECE])
case(
    "occupancy-blank",
    [p.with_field(s, 54, "      ") for s in _PIECE],
    careful=True,
    alone="occupancy",
)
case("atom-repeated", [*p.nmr(1, 3), p.nmr(3, 3)[-1]], careful=True)
_twice = p.moved(p.nmr(3, 3)[-1], [1, 1, 1])
case("atom-twice", [*p.nmr(1, 3), _twice], "duplicate_atom")
case(
    "atoms-at-one-point",
    [p.moved(s, [9, 9, 9]) if p.atom_of(s) in ("CB", "CG") else s for s in _HEAVY],
    "bad_coordinates",
)
case("atom-unknown", p.renamed(_HEAVY, {"CG": "CX"}, 4), "unrecognized_atom")
case("atom-missing", p.without(_HEAVY, "CG", number=4), "missing_atoms")
case("backbone-missing", p.without(_HEAVY, "CA", number=4), "incomplete_backbone")
case(
    "nan",
    [p.with_field(s, 30, "     nan") if p.atom_of(s) == "CG" else s for s in _HEAVY],
    "bad_coordinates",
)
case(
    "coordinate-large",
    [p.with_field(s, 30, "99999.99") if p.atom_of(s) == "CG" else s for s in _HEAVY],
    "bad_coordinates",
)

# Waters, ions, ligands, nucleic acids, other amino acids.
_WATER = f"HETATM    1  O   HOH A 101    {40:8.3f}{40:8.3f}{40:8.3f}  1.00  0.00           O"
_ION = _WATER.replace(" O   HOH", "CA    CA").replace("          O", "         CA")
case("waters", [*_PIECE, _WATER, p.with_field(_WATER, 22, " 102")])
case("waters-of-one-number", [*_PIECE, _WATER, _WATER])
case("waters-between", [*p.nmr(1, 4), _WATER, *p.nmr(5, 9)], alone="order")
case("waters-in-segments", [*_PIECE, "TER", p.with_field(_WATER, 17, "DOD"), "TER", _WATER])
case("only-water", [_WATER], "no_polymer")
case("calcium", [*_PIECE, _ION], NOT_COVERED)
case("ligand", [*_PIECE, _WATER.replace("HOH", "XYZ")], "unrecognized_residue")
case("unknown-residue", p.with_residue(_PIECE, 4, "UNK"), "unrecognized_residue")
case("d-amino-acid", p.with_residue(p.heavy(_PIECE), 4, "DPN"), NOT_COVERED)
_DNA = [s for s in p.atom_lines("1lcd.pdb", 1, 4) if s[17:20].strip() in ("DA", "DC", "DG", "DT")]
case("nucleic-acid", _DNA, NOT_COVERED)
case("nucleic-acid-beside", [*_PIECE, "TER", *p.in_chain(_DNA, "Z")], NOT_COVERED)

# Declared bonds.
_BRIDGE = p.crambin(15, 27)
# Further apart than TMol looks for disulfides, so that only what is declared joins them.
_FAR = p.apart(p.heavy(_BRIDGE), (16, "SG"), (26, "SG"), 2.7)
case("ssbond-absent", _FAR)
case("ssbond", [p.ssbond(16, 26), *_BRIDGE])
case("ssbond-of-another-cell", [p.ssbond(16, 26, "  1555   4555"), *_BRIDGE])
_ONE_POINT = p.apart(p.heavy(_BRIDGE), (16, "SG"), (26, "SG"), 0.0)
case("ssbond-at-one-point", [p.ssbond(16, 26), *_ONE_POINT], NOT_COVERED)
case("ssbond-false", [p.ssbond(16, 20), *_BRIDGE])
case("ssbond-long", [p.ssbond(16, 26), *_FAR], alone="SSBOND")
case("ssbond-long-of-another-cell", [p.ssbond(16, 26, "  1555   4555"), *_FAR])
# In two chains, and where a number comes again behind a TER: the first with the atom is meant.
_ENDS = [p.with_field(s, 21, "B") if p.number_of(s) > 19 else s for s in _FAR]
_ACROSS = p.with_field(p.ssbond(16, 26), 29, "B")
case("ssbond-between-chains", [_ACROSS, *_ENDS], alone="SSBOND")
_first = next(i for i, s in enumerate(_ENDS) if s[21] == "B")
_DIVIDED = [*_ENDS[:_first], "TER", *_ENDS[_first:]]
case("ssbond-between-chains-ter", [_ACROSS, *_DIVIDED], alone="SSBOND")
_AGAIN = p.in_chain(p.shifted(p.heavy(p.crambin(26, 26)), 30.0), "B")
case("ssbond-number-again", [_ACROSS, *_DIVIDED, "TER", *_AGAIN], careful=True, alone="SSBOND")
_SHORT = [s for s in _DIVIDED if s == "TER" or p.number_of(s) < 27]
case("ssbond-number-again-at-once", [_ACROSS, *_SHORT, "TER", *_AGAIN], alone="SSBOND")
case("conect-disulfide", [*_FAR, *p.conect(_FAR, ((16, "SG"), (26, "SG")))])
case("conect-peptide", [*_PIECE, *p.conect(_PIECE, ((2, "C"), (3, "N")), ((2, "CA"), (2, "C")))])
case("conect-false", [*_PIECE, *p.conect(_PIECE, ((1, "SD"), (6, "NZ")))], alone="false bond")
case(
    "conect-of-nothing",
    [*_PIECE, "CONECT 9000 9001", "CONECT", "CONECT    x    y"],
    alone="false bond",
)
case("link-peptide", [_link((" C", "MET", 1), (" N", "GLN", 2)), *_PIECE])
case("link-far", [_link((" SD", "MET", 1), (" NE2", "GLN", 2)), *_PIECE])
case("link-of-nothing", [_link((" SD", "MET", 901), (" NE2", "GLN", 2)), *_PIECE])
case("link-beside", [_link((" O", "MET", 1), (" N", "GLN", 2)), *_PIECE], NOT_COVERED)

# To an atom that only the conformer has which is left out: nothing to be counted.
_LEFT_OUT = p.planted(_altlocs(_HEAVY, 6, "AB", (0.6, 0.4)), 6, "HZ1", "NZ", "CE")
_LEFT_OUT = [p.with_field(s, 16, "B") if p.is_atom(s, 6, "HZ1") else s for s in _LEFT_OUT]
_LEFT_OUT += p.conect(_LEFT_OUT, ((6, "HZ1"), (1, "SD")))
case("conect-left-out", _LEFT_OUT)

# Models.
_OTHER = p.shifted(_PIECE, 1.0)
case("models", ["MODEL        1", *_PIECE, "ENDMDL", "MODEL        2", *_OTHER, "ENDMDL"])
case("models-numbered-0", ["MODEL        0", *_PIECE, "ENDMDL"], careful=True)
case(
    "models-of-one-number",
    ["MODEL        1", *_PIECE, "ENDMDL", "MODEL        1", *_OTHER, "ENDMDL"],
    careful=True,
)
case("models-without-endmdl", ["MODEL        1", *_PIECE, "MODEL        2", *_OTHER])
case("models-divided-by-end", [*_PIECE, "END", *_OTHER, "END"], careful=True, alone="models")

"""Hand-made structures a hundredth of an angstrom to either side of each distance that decides."""

import numpy as np
import pieces as p
from cif_cases import CASES
from structure_cases import NOT_COVERED, POSE, case

__all__ = ["CASES"]

# Three decimals in PDB put a distance wrong by up to 0.001.
_STEP = 0.01
_PIECE, _BRIDGE = p.nmr(1, 9), p.heavy(p.crambin(15, 27))


def _around(threshold):
    return ("below", threshold - _STEP), ("above", threshold + _STEP)


# C and N of neighbours are bonded up to 2.4; at a chain's end they are only counted.
for _side, _distance in _around(2.4):
    _pulled = p.apart(_PIECE, (4, "C"), (5, "N"), _distance, range(5, 10))
    case(f"peptide-bond-{_side}", _pulled)
    case(f"peptide-bond-{_side}-bare", p.heavy(_pulled))
    _divided = [p.with_field(s, 21, "B") if p.number_of(s) > 4 else s for s in _pulled]
    case(f"chain-ends-{_side}", _divided)
    # Two residues the wrong way round: only as near as a bond they are a chain from C to N.
    _pair = p.apart(p.nmr(4, 5), (4, "C"), (5, "N"), _distance, [5])
    _reversed = [s for n in (5, 4) for s in _pair if p.number_of(s) == n]
    _outcome = NOT_COVERED if _side == "below" else POSE
    case(f"chain-reversed-{_side}", _reversed, _outcome)

# Two SG within 2.5 are bonded without a word, within 3.0 if the file says so.
for _side, _distance in _around(2.5):
    _pulled = p.apart(_BRIDGE, (16, "SG"), (26, "SG"), _distance, range(20, 28))
    case(f"disulfide-{_side}", _pulled)
for _side, _distance in _around(3.0):
    _pulled = p.apart(_BRIDGE, (16, "SG"), (26, "SG"), _distance, range(20, 28))
    _alone = "SSBOND" if _side == "below" else ""  # TMol does not read it
    case(f"declared-disulfide-{_side}", [p.ssbond(16, 26), *_pulled], alone=_alone)
    _pulled = p.apart(_PIECE, (1, "SD"), (6, "NZ"), _distance, [6, 7, 8, 9])
    _outcome = NOT_COVERED if _side == "below" else POSE
    _declared = p.conect(_pulled, ((1, "SD"), (6, "NZ")))
    case(f"declared-bond-{_side}", [*_pulled, *_declared], _outcome, alone="false bond")

# A chain whose end is nearer to its start than 2.0 is a ring.
for _side, _distance in _around(2.0):
    _ring = p.ubiquitin(1, 6)
    _end, _start = (p.position(p.find(_ring, *at)) for at in ((6, "C"), (1, "N")))
    _ring = p.with_atom_moved(_ring, 1, "N", _end - _start + [0, 0, _distance])
    case(f"ring-{_side}", _ring, NOT_COVERED if _side == "below" else POSE)

# OXT is an atom of C from 1.0 to 2.0.
for _low, _high, _threshold in (("bad_geometry", POSE, 1.0), (POSE, "bad_geometry", 2.0)):
    for (_side, _distance), _outcome in zip(_around(_threshold), (_low, _high), strict=True):
        _oxt = p.planted(_PIECE, 9, "OXT", "C", "CA", "O", length=_distance)
        case(f"oxt-{_side}-{_threshold:.0f}", _oxt, _outcome)

# Nearer than 0.01 two atoms are one point.
for _name, _lines, _still, _moving in (
    ("peptide", _PIECE, (4, "C"), (5, "N")),
    ("disulfide", _BRIDGE, (16, "SG"), (26, "SG")),
):
    _numbers = range(_moving[0], 28)
    case(f"{_name}-at-one-point", p.apart(_lines, _still, _moving, 0.0, _numbers), NOT_COVERED)
for _distance, _outcome in ((0.008, "bad_coordinates"), (0.012, POSE)):
    _near = p.apart(_PIECE, (4, "CD1"), (4, "HD1"), _distance)
    case(f"atoms-apart-{_distance}", _near, _outcome)
# Exactly on a line, so that no plane turns what is built upon them.
_line = p.heavy(p.nmr(27, 29))
_n = p.position(p.find(_line, 28, "N"))
for _atom, _x in (("CA", 1.5), ("CB", 3.0)):
    _line = p.with_atom_moved(
        _line, 28, _atom, _n + np.array([_x, 0, 0]) - p.position(p.find(_line, 28, _atom))
    )
case("atoms-on-a-line", _line, NOT_COVERED)

# One sulfur between two others: the nearer is its partner; two declared ones are too many.
_pulled = p.apart(_BRIDGE, (16, "SG"), (26, "SG"), 2.2, range(20, 28))
_third = [p.with_field(s, 22, " 126") for s in p.in_chain(p.heavy(p.crambin(26, 26)), "B")]
_by = p.position(p.find(_pulled, 16, "SG")) - p.position(p.find(_third, 126, "SG"))
_three = [*_pulled, *p.shifted(_third, _by + np.array([0, 2.0, 0]))]
_PAIRS = ((16, "SG"), (26, "SG")), ((16, "SG"), (126, "SG"))
case("three-sulfurs", _three)
case("three-sulfurs-one-declared", [*_three, *p.conect(_three, _PAIRS[0])])
case("three-sulfurs-two-declared", [*_three, *p.conect(_three, *_PAIRS)], NOT_COVERED)

# Declared too long for a peptide bond, and short enough for a bond: the chain has a gap.
_pulled = p.apart(_PIECE, (4, "C"), (5, "N"), 2.7, range(5, 10))
_declared = p.conect(_pulled, ((4, "C"), (5, "N")))
case("peptide-bond-declared", [*_pulled, *_declared], alone="false bond")

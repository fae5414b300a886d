"""rama, omega and dunbrack, native against TMol: every block type, and torsions at every edge.

DESIGN.md allows `excess` < 1. TMol's float arithmetic alone takes up to 0.05 of it, mostly in
the means of omega: hundreds of degrees, of which only the difference from omega counts. A
torsion that is measured in another way takes all of it where atoms are in a plane.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_poses import bonded_pose
from score_parity import native_energies, score_function_of, worst

from tmol_plugin import native
from tmol_plugin.structure import read_pose

STRUCTURES = Path(__file__).parent / "structures"
FILES = ("1ejg.pdb", "1k1i.pdb", "1qbs.pdb", "1ubi.pdb", "1a8o.cif")
TYPES = ("rama", "omega", "dunbrack_rot", "dunbrack_rotdev", "dunbrack_semirot")
PEPTIDES = (((0, "up"), (1, "down")), ((1, "up"), (2, "down")))
# Edges of wells (0, 120, -120) and of omega's forms (90), both ends of the turn, points of the
# grids (multiples of 5 and 10), and angles between them.
ANGLES = (0, 120, -120, 180, -180, 179.99, -179.99, 90, -90, 60, -65, -175, 33.3, -142.7)


@pytest.fixture(scope="module")
def score_function(context):
    return score_function_of(TYPES, context)


@pytest.fixture(scope="module")
def assert_equal(context, score_function, scorer):
    """Assert that native energies of poses are TMol's, and of which types not all are 0."""

    def check(poses, present=TYPES):
        for name, over, *at in worst(poses, context, score_function, scorer, TYPES):
            assert over < 0.1, f"{name}: native, TMol, pose: {at}"
        energies = native_energies(poses, scorer)
        assert {name for name in TYPES if energies[name].any()} == set(present)

    return check


def amino_acids(parameters):
    """Names of all block types that one of the terms knows."""
    tensors = parameters.tensors
    known = (tensors["rama.table"] >= 0).any(1) | (tensors["dunbrack.library"] >= 0)
    return parameters.block_type_names[known].tolist()


def tripeptide(parameters, names, rng):
    """Atoms anywhere; bonds where the block types have connections for them."""
    tensors = parameters.tensors
    index = {str(name): at for at, name in enumerate(parameters.block_type_names)}
    types = [index[name] for name in names]
    bonds = [
        (up, down)
        for up, down in PEPTIDES
        if tensors["block_type.up_connection"][types[up[0]]] >= 0
        and tensors["block_type.down_connection"][types[down[0]]] >= 0
    ]
    return bonded_pose(parameters, names, bonds, lambda n: rng.normal(0, 2, (n, 3)))


class Turner:
    """Turns a pose about bonds, to torsions of a block."""

    def __init__(self, pose):
        self.pose = pose
        self.coords = pose.coords.astype(np.float64)
        self.tensors = tensors = pose.parameters.tensors
        self.bonded = {atom: set() for atom in range(pose.n_atoms)}
        for block, kind in enumerate(pose.block_types):
            first = pose.block_atom_offsets[block]
            rows = slice(*tensors["block_type.bond_offset"][kind : kind + 2])
            for a, b in first + tensors["bond.atoms"][rows]:
                self.join(a, b)
            for here, (other, there) in enumerate(self.connections(block)):
                if other >= 0:
                    self.join(self.end(block, here), self.end(other, there))

    def join(self, a, b):
        self.bonded[int(a)].add(int(b))
        self.bonded[int(b)].add(int(a))

    def connections(self, block):
        return self.pose.connections[slice(*self.pose.block_connection_offsets[block:][:2])]

    def row(self, block, connection):
        first = self.tensors["block_type.connection_offset"][self.pose.block_types[block]]
        return first + connection

    def end(self, block, connection):
        atom = self.tensors["connection.atom"][self.row(block, connection)]
        return self.pose.block_atom_offsets[block] + atom

    def atom(self, block, uaid):
        atom, connection, depth = uaid
        if atom < 0:
            block, back = self.connections(block)[connection]
            atom = self.tensors["connection.downstream"][self.row(block, back)][depth]
        return int(self.pose.block_atom_offsets[block] + atom)

    def turn(self, block, torsion, degrees):
        """Nothing for torsions that are not there, or in rings."""
        if (torsion[:, 0] < 0).any() and (torsion[torsion[:, 0] < 0, 1] < 0).any():
            return
        a, b, c, d = (self.atom(block, uaid) for uaid in torsion)
        moved, to_visit = {c}, [c]
        while to_visit:
            new = self.bonded[to_visit.pop()] - moved - {b}
            moved |= new
            to_visit += new
        if b in set().union(*(self.bonded[atom] for atom in moved - {c})):
            return
        x = self.coords
        axis = (x[c] - x[b]) / np.linalg.norm(x[c] - x[b])
        m, n = np.cross(x[a] - x[b], axis), np.cross(x[d] - x[c], axis)
        now = np.arctan2(np.cross(m, n) @ axis, m @ n)
        by = np.radians(degrees) - now
        own = sorted(moved)
        arms = x[own] - x[c]
        along = np.outer(arms @ axis, axis)
        across = arms - along
        turned = across * np.cos(by) + np.cross(axis, across) * np.sin(by)
        self.coords[own] = x[c] + along + turned

    def turned(self):
        return replace(self.pose, coords=self.coords.astype(np.float32))


def at_angles(pose, block, rng, angles):
    turner = Turner(pose)
    kind, tensors = pose.block_types[block], pose.parameters.tensors
    both = (*tensors["rama.torsions"][kind], *tensors["dunbrack.torsions"][kind][2:])
    for torsion in both:
        turner.turn(block, torsion, rng.choice(angles))
    return turner.turned()


def test_turner_turns_to_the_angle(compiled):
    rng = np.random.default_rng(1)
    pose = tripeptide(compiled, ("ALA", "LYS", "SER"), rng)
    turner = Turner(pose)
    kind = pose.block_types[1]
    chi2, phi = compiled.tensors["dunbrack.torsions"][kind][[3, 0]]
    turner.turn(1, chi2, 120)
    turner.turn(1, phi, -60)
    for torsion, wanted in ((chi2, 120), (phi, -60)):
        a, b, c, d = turner.coords[[turner.atom(1, uaid) for uaid in torsion]]
        m, n = np.cross(a - b, c - b), np.cross(d - c, c - b)
        sign = np.sign(np.cross(m, n) @ (c - b))
        angle = sign * np.degrees(np.arccos(m @ n / np.linalg.norm(m) / np.linalg.norm(n)))
        assert angle == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("sigma", [0, 0.02, 0.1, 0.3, 1.0])
def test_shipped_structures_as_they_are_and_shaken(compiled, assert_equal, sigma):
    rng = np.random.default_rng(int(100 * sigma))
    poses = [read_pose(STRUCTURES / name, compiled) for name in FILES]
    assert_equal(
        [
            replace(pose, coords=pose.coords + rng.normal(0, sigma, pose.coords.shape).astype("f4"))
            for pose in poses
            for _ in range(3 if sigma else 1)
        ]
    )


def test_every_block_type_within_a_chain_and_at_its_ends(compiled, assert_equal):
    rng = np.random.default_rng(2)
    names = amino_acids(compiled)
    assert {"PRO", "DPRO", "HIS", "HIS_D", "HIS_POS", "CYD", "LYS:nterm", "DTYR:cterm"} <= set(
        names
    )
    chains = itertools.product(("GLY", "ALA"), names, ("ALA", "PRO", "DPRO"))
    assert_equal([tripeptide(compiled, chain, rng) for chain in chains])


def test_torsions_at_the_edges(compiled, assert_equal):
    rng = np.random.default_rng(3)
    names = [name for name in amino_acids(compiled) if ":" not in name]
    after = ("SER", "PRO", "DPRO")
    poses = [
        at_angles(tripeptide(compiled, ("ALA", name, after[i % 3]), rng), 1, rng, ANGLES)
        for name in names
        for i in range(18)
    ]
    assert_equal(poses)


@pytest.mark.parametrize("angle", [0, 180])
def test_planar_atoms(compiled, assert_equal, angle):
    """Torsions of exactly 0 and 180, where a cosine's last bit and a sign of chance decide."""
    rng = np.random.default_rng(4)
    names = [name for name in amino_acids(compiled) if ":" not in name]
    chains = itertools.product(("ALA",), names, ("GLY", "PRO"))
    poses = [tripeptide(compiled, chain, rng) for chain in chains]
    flat = [replace(pose, coords=np.round(pose.coords * [8, 8, 0]).astype("f4")) for pose in poses]
    nearly = [at_angles(pose, 1, rng, (angle,)) for pose in poses for _ in range(4)]
    assert_equal(flat + nearly)


def test_atoms_on_a_line_and_in_one_place(compiled, assert_equal):
    rng = np.random.default_rng(5)
    names = [name for name in amino_acids(compiled) if ":" not in name]
    poses = [tripeptide(compiled, ("ALA", name, "PRO"), rng) for name in names]
    on_axis = [replace(p, coords=(p.coords * [1, 0, 0]).astype("f4")) for p in poses]
    in_place = [replace(p, coords=0 * p.coords + 1) for p in poses]
    assert_equal(on_axis + in_place, set(TYPES) - {"omega"})
    # Here rounding decides what the torsions are.
    assert_equal([replace(p, coords=p.coords[:, :1] * np.float32([1, 0.7, -0.3])) for p in poses])


def test_a_gap_and_a_ring(compiled, assert_equal):
    rng = np.random.default_rng(6)
    names = ("TRP", "ILE", "PRO", "GLN")
    gap = [((0, "up"), (1, "down")), ((2, "up"), (3, "down"))]
    ring = [((i, "up"), ((i + 1) % 4, "down")) for i in range(4)]
    poses = [
        bonded_pose(compiled, names, bonds, lambda n: rng.normal(0, 2, (n, 3)))
        for bonds in (gap, ring)
        for _ in range(10)
    ]
    assert_equal(poses)


def test_a_mirror_image_of_the_other_hand_has_the_same_energies(compiled, scorer):
    """Independent of TMol. Chi that are exactly 0 or 120 degrees do not occur here."""
    rng = np.random.default_rng(7)
    hands = [n for n in amino_acids(compiled) if "D" + n in compiled.block_type_names]
    assert len(hands) >= 19 * 4
    for name in hands:
        left = tripeptide(compiled, ("ALA", name, "PRO"), rng)
        right = tripeptide(compiled, ("DALA", "D" + name, "DPRO"), rng)
        assert left.atom_names.tolist() == right.atom_names.tolist()
        right = replace(right, coords=left.coords * np.float32([-1, 1, 1]))
        found = native_energies([left, right], scorer)
        for kind in TYPES:
            assert found[kind][1] == pytest.approx(found[kind][0], rel=1e-4, abs=1e-3), name


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("rama.torsions", lambda a: a + 1000, "rama.torsions"),
        ("rama.table", lambda a: a + 100, "rama.table"),
        ("omega.deviations", lambda a: a[1:], "omega.deviations"),
        ("omega.step", lambda a: a / 2, "omega.step"),
        ("dunbrack.library", lambda a: a + 100, "dunbrack.library"),
        ("dunbrack.rotamer_offset", lambda a: a[::-1], "dunbrack.rotamer_offset"),
        ("dunbrack.well_rotamer", lambda a: a + 1000, "dunbrack.well_rotamer"),
        ("dunbrack.well_semirotameric", lambda a: a - 1, "dunbrack.well_semirotameric"),
        ("dunbrack.means", lambda a: a[1:], "dunbrack.deviations"),
        ("dunbrack.n_chi", lambda a: a + 4, "dunbrack.n_chi"),
    ],
)
def test_arrays_that_do_not_fit_are_named(compiled, name, change, named):
    changed = np.ascontiguousarray(change(compiled.tensors[name]))
    with pytest.raises(Exception, match=f"'{named}' does not fit"):
        native.Scorer(compiled.tensors | {name: changed})

"""Poses on which energies are compared: of structures, cut from them, and made up."""

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from random_poses import bonded_pose
from test_score_torsions import ANGLES, Turner, tripeptide

from tmol_plugin.pose import Pose

SIGMAS = np.geomspace(0.02, 1.0, 12)  # angstrom
Named = list[tuple[str, Pose]]


def shaken(poses: Named, n_copies: int, rng) -> Named:
    """Copies in turn of poses of up to 300 residues; each gets other sigmas each time."""
    small = [(name, pose) for name, pose in poses if pose.n_blocks <= 310]
    copies = []
    for i in range(n_copies):
        name, pose = small[i % len(small)]
        sigma = SIGMAS[(i + i // len(small)) % len(SIGMAS)]
        coords = pose.coords + rng.normal(0, sigma, pose.coords.shape)
        copies.append((f"{name} +{sigma:.2f} A #{i}", moved(pose, coords)))
    return copies


def moved(pose: Pose, coords) -> Pose:
    return replace(pose, coords=np.asarray(coords).astype(np.float32))


def cut(pose: Pose, blocks, broken=()) -> Pose:
    """Some blocks of a pose and the bonds between them, but for those of pairs in `broken`."""
    at = {block: i for i, block in enumerate(blocks)}
    bonds = []
    for block in blocks:
        first, last = pose.block_connection_offsets[block : block + 2]
        for port, (other, back) in enumerate(pose.connections[first:last].tolist()):
            if other in at and (block, other) not in broken and (block, port) < (other, back):
                bonds.append(((at[block], port), (at[other], back)))
    atoms = [np.arange(*pose.block_atom_offsets[b : b + 2]) for b in blocks]
    names = pose.block_type_names[blocks].tolist()
    return bonded_pose(pose.parameters, names, bonds, pose.coords[np.concatenate(atoms)])


def pieces(poses: Named) -> Named:
    """Both ends of each structure, its first five blocks with a break, and its disulfides."""
    found = []
    for name, pose in poses:
        n = pose.n_blocks
        if n >= 5:
            found.append((f"{name} start", cut(pose, range(3))))
            found.append((f"{name} end", cut(pose, range(n - 3, n))))
            found.append((f"{name} break", cut(pose, range(5), {(1, 2), (2, 1)})))
        ports = pose.parameters.tensors["block_type.disulfide_connection"][pose.block_types]
        for block in np.flatnonzero(ports >= 0):
            other = pose.connections[pose.block_connection_offsets[block] + ports[block]][0]
            if block < other:
                near = {b + i for b in (block, other) for i in (-1, 0, 1)} & set(range(n))
                found.append((f"{name} disulfide {block}", cut(pose, sorted(near))))
    return found


def _residues(poses: Named) -> dict[str, list[dict]]:
    """Coordinates by atom name of up to 60 residues of each name."""
    found = {}
    for _, pose in poses:
        for block, name in enumerate(pose.residue_names.tolist()):
            atoms = slice(*pose.block_atom_offsets[block : block + 2])
            if len(found.setdefault(name, [])) < 60:
                names = pose.atom_names[atoms].tolist()
                found[name].append(dict(zip(names, pose.coords[atoms])))
    return found


def amino_acids(poses: Named, parameters, rng, n_each: int = 4) -> Named:
    """Each block type of the 20 amino acids alone and within a tripeptide, torsions turned."""
    cut_out, made = _residues(poses), []
    known = parameters.tensors["block_type.is_canonical_protein"].astype(bool)
    for name in parameters.block_type_names[known].tolist():
        for i in range(n_each):
            alone = bonded_pose(parameters, [name], [], lambda n: rng.normal(0, 2, (n, 3)))
            examples = cut_out.get(str(alone.residue_names[0]))
            if examples:
                alone = of_residue(alone, examples[rng.integers(len(examples))], rng)
            made.append((f"{name} alone #{i}", turned(alone, 0, rng)))
            neighbors = rng.choice(["ALA", "GLY", "PRO", "SER", "HIS_D", "TRP"], 2)
            three = tripeptide(parameters, (neighbors[0], name, neighbors[1]), rng)
            flat = moved(three, np.round(three.coords * [8, 8, 0]))
            made.append((f"{name} in a plane #{i}", moved(flat, flat.coords / 4)))
            made.append((f"{name} scattered #{i}", turned(three, 1, rng)))
    return made


def of_residue(pose: Pose, atoms: dict, rng) -> Pose:
    """A block alone with a residue's atoms; those that it lacks near its middle."""
    middle = np.mean(list(atoms.values()), axis=0)
    return moved(pose, [atoms.get(a, middle + rng.normal(0, 1, 3)) for a in pose.atom_names])


def tripeptides(poses: Named, rng, n_each: int = 10) -> Named:
    """Three residues in a row about each type that the structures hold, torsions turned."""
    made, count = [], Counter()
    for name, pose in poses:
        for block in rng.permutation(np.arange(1, pose.n_blocks - 1)).tolist():
            kind = str(pose.block_type_names[block])
            if count[kind] < n_each:
                count[kind] += 1
                three = cut(pose, range(block - 1, block + 2))
                made.append((f"{name} {kind} {block} turned", turned(three, 1, rng)))
    return made


def turned(pose: Pose, block: int, rng) -> Pose:
    """Torsions of a block: each at an edge (0, 180, ..), anywhere, or as it is."""
    turner, tensors, kind = Turner(pose), pose.parameters.tensors, pose.block_types[block]
    bonded = turner.connections(block)[:, 0] >= 0
    for torsion in (*tensors["rama.torsions"][kind], *tensors["dunbrack.torsions"][kind][2:]):
        beyond = torsion[torsion[:, 0] < 0, 1]
        # -1: the block type has no such torsion.
        if (beyond >= 0).all() and bonded[beyond].all() and rng.random() < 0.8:
            edge = rng.random() < 0.5
            turner.turn(block, torsion, rng.choice(ANGLES) if edge else rng.uniform(-180, 180))
    return turner.turned()

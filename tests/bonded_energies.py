"""Bonded energies from compiled parameters: plain Python, to test that they hold all it takes."""

import numpy as np


class Cart:
    """Bonded energies of a pose from the compiled parameters, term by term, in float64."""

    def __init__(self, compiled, pose):
        tensors = self.tensors = compiled.tensors
        index = {name: at for at, name in enumerate(compiled.block_type_names)}
        kinds = pose.packed_block_types.active_block_types
        self.block_types = [index[kinds[i].name] for i in pose.block_type_ind[0].tolist()]
        self.offsets = pose.block_coord_offset[0].tolist()
        self.coords = pose.coords[0].numpy().astype(np.float64)
        self.connections = pose.inter_residue_connections[0].tolist()
        keys = tensors["cart.connection_key"].tolist()
        self.of_key = dict(zip(map(tuple, keys), tensors["cart.connection_parameter"].tolist()))
        self.energies = np.zeros(5)

    def total(self):
        """Energies of lengths, angles, torsions, impropers and hydroxyl torsions."""
        tensors = self.tensors
        for block, kind in enumerate(self.block_types):
            for at in range(*tensors["cart.offset"][kind : kind + 2]):
                atoms = [self.offsets[block] + i for i in tensors["cart.atoms"][at] if i >= 0]
                self.add(atoms, tensors["cart.parameter"][at])
            for mine, (other, theirs) in enumerate(self.connections[block]):
                if other >= 0:
                    # From both sides: TMol looks each path up in both directions.
                    self.cross((block, mine), (other, theirs))
        return self.energies

    def paths(self, block, connection):
        kind = self.block_types[block]
        at = self.tensors["block_type.connection_offset"][kind] + connection
        return [[i for i in path if i >= 0] for path in self.tensors["connection.paths"][at]]

    def ids(self, which, block, atoms):
        start = self.tensors["block_type.atom_offset"][self.block_types[block]]
        return [int(self.tensors[f"cart.{which}_id"][start + i]) for i in atoms]

    def cross(self, first, second):
        near, far = self.paths(*first), self.paths(*second)
        for path in near:
            for other in far:
                if path and other and len(path) + len(other) <= 4:
                    self.look_up(first[0], path[::-1], second[0], other)
        neighbors = [path[1] for path in near[1:4] if len(path) > 1]
        if len(neighbors) == 2:
            centre, partner = near[0][0], far[0][0]
            for order in ORDERS:
                self.improper(first[0], second[0], neighbors, centre, partner, order)

    def improper(self, block, other, neighbors, centre, partner, order):
        items = [(block, neighbors[0]), (block, neighbors[1]), (other, partner)]
        one, two, four = (items[i] for i in order)
        quad = [one, two, (block, centre), four]
        for which in ("unique", "wildcard"):
            key = tuple(
                self.ids("cross" if owner != block else which, owner, [atom])[0]
                for owner, atom in quad
            )
            if key in self.of_key:
                self.add([self.offsets[o] + a for o, a in quad], self.of_key[key])
                return

    def look_up(self, block, atoms, other, others):
        for which in ("unique", "wildcard"):
            key = self.ids(which, block, atoms) + self.ids("cross", other, others)
            key = tuple(key + [-1] * (4 - len(key)))
            if key in self.of_key:
                atoms = [self.offsets[block] + i for i in atoms]
                self.add(atoms + [self.offsets[other] + i for i in others], self.of_key[key])
                return

    def add(self, atoms, row):
        kind = self.tensors["cart.parameter_type"][row]
        values = self.tensors["cart.parameter_values"][row].astype(np.float64)
        points = self.coords[atoms]
        if len(atoms) < 4:
            measured = distance(*points) if len(atoms) == 2 else angle(*points)
            self.energies[kind] += 0.5 * values[1] * (measured - values[0]) ** 2
        else:
            turns = np.arange(1, 4) * torsion(*points) - values[3:]
            self.energies[kind] += (values[:3] * (np.cos(turns) + 1)).sum()


ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))


def distance(a, b):
    return np.linalg.norm(a - b)


def angle(a, b, c):
    u, v = (a - b) / distance(a, b), (c - b) / distance(c, b)
    return np.arccos(np.clip(u @ v, -1, 1))


def torsion(a, b, c, d):
    first, second = np.cross(b - a, c - b), np.cross(c - b, d - c)
    return np.arctan2(distance(c, b) * ((b - a) @ second), first @ second)

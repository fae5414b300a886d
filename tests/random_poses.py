"""Poses no file would give: blocks of any types, bonded at random, atoms anywhere or shaken."""

from dataclasses import replace

import numpy as np

from tmol_plugin.pose import Pose


def bonded_pose(parameters, block_types, bonds, coords) -> Pose:
    """A pose of blocks in one chain.

    Args:
        block_types: names.
        bonds: pairs of (block, connection), connections by name or index.
        coords: [n_atoms, 3], or a function from n_atoms to them.
    """
    tensors = parameters.tensors
    index = {str(name): at for at, name in enumerate(parameters.block_type_names)}
    types = np.array([index[name] for name in block_types], np.int32)

    def offsets(tensor):
        counts = np.diff(tensors[f"block_type.{tensor}_offset"])[types]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    atom_offsets, connection_offsets = offsets("atom"), offsets("connection")
    first_connection = tensors["block_type.connection_offset"][types]

    def end(block, connection):
        if isinstance(connection, str):
            rows = tensors["connection.name"][first_connection[block] :]
            names = [bytes(row).rstrip(b"\0").decode() for row in rows[:4]]
            connection = names.index(connection)
        return block, connection

    connections = np.full((connection_offsets[-1], 2), -1, np.int32)
    for first, second in bonds:
        first, second = end(*first), end(*second)
        connections[connection_offsets[first[0]] + first[1]] = second
        connections[connection_offsets[second[0]] + second[1]] = first
    return Pose(
        parameters=parameters,
        coords=np.asarray(coords(atom_offsets[-1]) if callable(coords) else coords, np.float32),
        block_types=types,
        block_atom_offsets=atom_offsets,
        connections=connections,
        chain_of_block=np.zeros(len(types), np.int32),
        labels=[("A", str(i + 1)) for i in range(len(types))],
    )


def random_pose(parameters, rng, block_types, n_blocks, share_bonded=0.8, spread=1.0) -> Pose:
    """Types drawn from names, most connections bonded to any other, also of the same block."""
    names = rng.choice(block_types, n_blocks).tolist()
    index = {str(name): at for at, name in enumerate(parameters.block_type_names)}
    counts = np.diff(parameters.tensors["block_type.connection_offset"])
    ends = [(block, c) for block, name in enumerate(names) for c in range(counts[index[name]])]
    rng.shuffle(ends)
    bonds = [pair for pair in zip(ends[::2], ends[1::2]) if rng.random() < share_bonded]
    bonds = [tuple((int(block), int(c)) for block, c in pair) for pair in bonds]
    return bonded_pose(parameters, names, bonds, lambda n: rng.normal(0, spread, (n, 3)))


def names_where(parameters, flag):
    return parameters.block_type_names[parameters.tensors[flag] != 0].tolist()


def shaken(pose, sigma, seed):
    noise = np.random.default_rng(seed).normal(0, sigma, pose.coords.shape)
    return replace(pose, coords=(pose.coords + noise).astype(np.float32))


def on_a_line(n, rng):
    return np.arange(n)[:, None] * [[1.25, 0, 0]]


def on_a_line_in_any_order(n, rng):
    return rng.permutation(n)[:, None] * [[0, 1.5, 0]]


def in_a_plane(n, rng):
    return np.round(rng.normal(0, 2, (n, 3)), 1) * [1, 1, 0]


def at_right_angles(n, rng):
    return rng.integers(-1, 2, (n, 3)) * 1.5


def at_one_point(n, rng):
    return np.full((n, 3), 7.0)


DEGENERATE_PLACES = (on_a_line, on_a_line_in_any_order, in_a_plane, at_right_angles, at_one_point)

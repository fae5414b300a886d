"""Comparing natively prepared poses: the two ways of `read_pose` with each other, and with TMol."""

import numpy as np

from tmol_plugin import native, structure
from tmol_plugin.errors import StructureError
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source
from tmol_plugin.structure import DEFAULT, NotCoveredError, Result, tables_of

ARRAYS = ("coords", "block_types", "block_atom_offsets", "connections", "chain_of_block")


def prepare_fast(source: Source, parameters, model: int = 1) -> Result | native.NotPlain:
    """The fast path alone: its result, or why the careful reader has to take over."""
    try:
        atoms, bonds, partners = structure.read_plain(source, model)
        prepared = native.prepare(tables_of(parameters), atoms, bonds, partners)
    except native.NotPlain as why:
        return why
    return Result(prepared, structure._labels(atoms, prepared.first_atoms), prepared.counts)


def prepare_careful(
    source: Source, parameters, model: int = 1, policy: Policy = DEFAULT
) -> Result | StructureError:
    """The careful reader and the policy alone: the result, or the failure."""
    try:
        read = read_structure(source, model, policy)
        return structure._prepare_structure(read, tables_of(parameters))
    except StructureError as failure:
        return failure


def counted(notes: dict) -> dict:
    """Notes without those that count nothing."""
    return {name: value for name, value in notes.items() if value}


def check_same_result(found: Result, expected: Result) -> None:
    """Two results that must be one pose: every bit, every label, every count."""
    assert found.labels == expected.labels
    for name in ARRAYS:
        one, other = getattr(found.prepared, name), getattr(expected.prepared, name)
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)
    pairs = [sorted(map(tuple, r.prepared.disulfides.tolist())) for r in (found, expected)]
    assert pairs[0] == pairs[1]
    assert counted(found.notes) == counted(expected.notes)


def check_both_ways(source: Source, parameters, model: int = 1) -> Result | StructureError:
    """The careful way's outcome; the fast way has no other, or leaves it to the careful one.

    The reason of a failure is compared by whoever calls `read_pose`.
    """
    careful = prepare_careful(source, parameters, model)
    fast = prepare_fast(source, parameters, model)
    if isinstance(fast, Result):
        assert isinstance(careful, Result), f"fast path took what fails: {careful!r}"
        check_same_result(fast, careful)
    return careful


def reason_of(failure: StructureError) -> str:
    return "not covered" if isinstance(failure, NotCoveredError) else failure.reason


def tmol_blocks(stack, index: int = 0) -> dict:
    """What a TMol PoseStack holds of one pose, as plain arrays and names."""
    real = (stack.block_type_ind[index] >= 0).numpy()
    types = [stack.packed_block_types.active_block_types[i] for i in stack.block_type_ind[index]]
    types = [kind for kind, kept in zip(types, real, strict=True) if kept]
    connections = stack.inter_residue_connections[index].numpy()[real]
    used = [own[: len(kind.connections)] for own, kind in zip(connections, types, strict=True)]
    return {
        "blocks": [kind.name for kind in types],
        "atoms": [atom.name for kind in types for atom in kind.atoms],
        "connections": np.concatenate(used).tolist(),
        "chains": stack.chain_id[index].numpy()[real].tolist(),
        "coords": stack.coords[index][stack.real_atoms[index]].numpy(),
    }


# What DESIGN.md allows of built atoms; those that a file has are exact but for the rounding
# of 32 bits, 5e-4 at the largest coordinate that PDB can hold.
COORDS_ANGSTROM = 1e-3


def check_same_as_tmol(pose, stack) -> None:
    """Block types, atoms, connections, chains and coordinates of a pose are TMol's."""
    expected = tmol_blocks(stack)
    assert pose.block_type_names.tolist() == expected["blocks"]
    assert pose.atom_names.tolist() == expected["atoms"]
    assert pose.connections.tolist() == expected["connections"]
    assert pose.chain_of_block.tolist() == expected["chains"]
    blocks = np.repeat(np.arange(pose.n_blocks), np.diff(pose.block_atom_offsets)).tolist()
    names = zip(blocks, expected["atoms"], strict=True)
    distance = np.linalg.norm(pose.coords - expected["coords"], axis=1)
    far = [(*at, float(d)) for at, d in zip(names, distance, strict=True) if d > COORDS_ANGSTROM]
    assert not far

"""Poses as a PoseStack of upstream TMol, for its scorer."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.pose import Pose, check_parameters
from tmol_plugin.pose_pdb import split_number

if TYPE_CHECKING:
    import tmol.pose
    from tmol.io import PoseBuildContext


def tmol_pose_stack(poses: Sequence[Pose], context: "PoseBuildContext") -> "tmol.pose.PoseStack":
    """One TMol PoseStack of the poses, in their order, on the context's device.

    TMol pads: coordinates with 0, everything else with -1, to the largest pose. Block types
    are found by name: a context holds those that its chemistry needs, in an order of its own.

    Raises:
        RunError: if there are no poses, if they are of different parameters, or if these and
            the context are of different databases.
        StructureError: `unsupported_chemistry` if the context lacks a block type.
    """
    import torch
    from tmol.pose import PoseStack, PoseStackBuilder

    if not poses:
        raise RunError("TMol has no PoseStack of no poses; give at least one")
    check_parameters(poses[0].parameters_id, poses)
    packed = context.packed_block_types
    n_blocks = np.array([pose.n_blocks for pose in poses])
    real = np.arange(n_blocks.max()) < n_blocks[:, None]
    block_types = np.full(real.shape, -1, dtype=np.int64)
    block_types[real] = _tmol_block_types(poses, packed)

    coords = np.zeros((len(poses), max(pose.n_atoms for pose in poses), 3), dtype=np.float32)
    for own, pose in zip(coords, poses):
        own[: pose.n_atoms] = pose.coords
    block_offsets = np.zeros(real.shape, dtype=np.int32)
    block_offsets[real] = np.concatenate([pose.block_atom_offsets[:-1] for pose in poses])
    chains = np.full(real.shape, -1, dtype=np.int32)
    chains[real] = np.concatenate([pose.chain_of_block for pose in poses])
    n_connections = np.zeros(real.shape, dtype=np.int64)
    n_connections[real] = np.concatenate([np.diff(p.block_connection_offsets) for p in poses])
    connections = np.full((*real.shape, packed.max_n_conn, 2), -1, dtype=np.int64)
    # A mask takes values in the order of its axes: pose, block, connection, as poses have them.
    used = np.arange(packed.max_n_conn) < n_connections[..., None]
    connections[used] = np.concatenate([pose.connections for pose in poses])

    def on_device(array):
        return torch.from_numpy(array).to(packed.device)

    block_types, connections = on_device(block_types), on_device(connections)
    block_offsets, chains = on_device(block_offsets), on_device(chains)
    return PoseStack(
        packed_block_types=packed,
        coords=on_device(coords),
        block_coord_offset=block_offsets,
        block_coord_offset64=block_offsets.to(torch.int64),
        inter_residue_connections=connections.to(torch.int32),
        inter_residue_connections64=connections,
        inter_block_bondsep=PoseStackBuilder._inter_block_bondsep_from_connections(
            packed, block_types, on_device(real), connections
        ),
        block_type_ind=block_types.to(torch.int32),
        block_type_ind64=block_types,
        chain_id=chains,
        chain_id64=chains.to(torch.int64),
        pdb_info=_pdb_info(poses, real, coords.shape[1]),
        constraint_set=None,
        device=packed.device,
    )


def _tmol_block_types(poses: Sequence[Pose], packed) -> np.ndarray:
    """Index in TMol's packed block types of each block, pose after pose, int64."""
    parameters = poses[0].parameters
    kinds, kind_of_block = np.unique(
        np.concatenate([pose.block_types for pose in poses]), return_inverse=True
    )
    names = parameters.block_type_names[kinds]
    found = packed.restype_index.get_indexer(names)
    if (found < 0).any():
        raise StructureError(
            "unsupported_chemistry",
            f"TMol's context has no block type {', '.join(names[found < 0])}",
        )
    # Offsets of another database's block types would read beyond the atoms.
    for sizes, tensor in ((packed.n_atoms, "atom"), (packed.n_conn, "connection")):
        counts = np.diff(parameters.tensors[f"block_type.{tensor}_offset"])[kinds]
        wrong = sizes.cpu().numpy()[found] != counts
        if wrong.any():
            raise RunError(
                f"block type {', '.join(names[wrong])} of parameters {parameters.id} is not the"
                " one of TMol's context; build the context from the same parameters"
            )
    return found[kind_of_block]


def _pdb_info(poses: Sequence[Pose], real: np.ndarray, max_atoms: int):
    """Names of residues and chains, as TMol's reader gives them."""
    from tmol.pose import DEFAULT_ATOM_B_FACTOR, DEFAULT_ATOM_OCCUPANCY, PDBInfo

    numbers = np.zeros(real.shape, dtype=np.int64)
    codes = np.full(real.shape, "", dtype=object)
    chains = np.full(real.shape, "", dtype=object)
    labels = [label for pose in poses for label in pose.labels]
    split = [split_number(number) for _, number in labels]
    numbers[real] = [number for number, _ in split]
    codes[real] = [code for _, code in split]
    chains[real] = [chain for chain, _ in labels]
    shape = (len(poses), max_atoms)
    return PDBInfo(
        residue_labels=numbers,
        residue_insertion_codes=codes,
        chain_labels=chains,
        atom_occupancy=np.full(shape, DEFAULT_ATOM_OCCUPANCY, dtype=np.float32),
        atom_b_factor=np.full(shape, DEFAULT_ATOM_B_FACTOR, dtype=np.float32),
    )

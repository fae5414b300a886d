"""`Pose`: one structure prepared for scoring. `PoseStack`: poses of any sizes laid end to end."""

from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tmol_plugin.errors import RunError, StructureError

if TYPE_CHECKING:
    import torch

    from tmol_plugin.parameters import Parameters

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Pose:
    """One prepared structure: its blocks, their atoms in block type order, and their bonds.

    Raises:
        StructureError: `engine_error` if the arrays contradict each other or the parameters:
            a scorer reads memory by them unchecked.

    Attributes:
        parameters: the compiled parameters that block types and atoms are indices into.
        coords: float32 [n_atoms, 3], angstrom, finite.
        block_types: int32 [n_blocks], index into `parameters.block_type_names`.
        block_atom_offsets: int32 [n_blocks + 1]; block b has atoms [b] to [b + 1] of these.
        connections: int32 [n_connections, 2]; block after block, for each connection of its
            type: the partner block and the connection of that, or (-1, -1).
        chain_of_block: int32 [n_blocks], TMol's chain_id.
        labels: (chain, residue number with insertion code) of each block, as the file had
            them; for people, never for scoring.
        notes: what was built, dropped and chosen; goes into the tables.
        trusted: the arrays are the native library's own; do not check them again.
    """

    parameters: "Parameters"
    coords: np.ndarray
    block_types: np.ndarray
    block_atom_offsets: np.ndarray
    connections: np.ndarray
    chain_of_block: np.ndarray
    labels: Sequence[tuple[str, str]]
    notes: dict[str, int | str] = field(default_factory=dict)
    trusted: InitVar[bool] = False

    def __post_init__(self, trusted: bool):
        if not trusted:
            _check(self)

    def __repr__(self) -> str:
        return f"Pose({self.n_blocks} blocks, {self.n_atoms} atoms, {self.parameters_id})"

    @property
    def parameters_id(self) -> str:
        return self.parameters.id

    @property
    def n_atoms(self) -> int:
        return len(self.coords)

    @property
    def n_blocks(self) -> int:
        return len(self.block_types)

    @cached_property
    def block_connection_offsets(self) -> np.ndarray:
        """int32 [n_blocks + 1]; block b has connections [b] to [b + 1] of these."""
        return self._offsets("block_type.connection_offset")

    @property
    def atom_rows(self) -> np.ndarray:
        """Each atom's row in the parameters' `atom.*` tensors, int64 [n_atoms]."""
        first = self.parameters.tensors["block_type.atom_offset"][self.block_types]
        shift = first.astype(np.int64) - self.block_atom_offsets[:-1]
        return np.repeat(shift, np.diff(self.block_atom_offsets)) + np.arange(self.n_atoms)

    @property
    def block_type_names(self) -> np.ndarray:
        """TMol's names of the block types, str [n_blocks]."""
        return self.parameters.block_type_names[self.block_types]

    @property
    def atom_names(self) -> np.ndarray:
        """str [n_atoms]"""
        return _text(self.parameters.tensors["atom.name"][self.atom_rows])

    @property
    def residue_names(self) -> np.ndarray:
        """The residues' names in files (HIS for each form of histidine), str [n_blocks]."""
        tensors = self.parameters.tensors
        return _text(tensors["class.name"][tensors["block_type.class"][self.block_types]])

    def write_pdb(self, path: str | Path) -> None:
        """Write the pose as a PDB file, so that what was scored can be looked at.

        Chains and residues are named as in the input where PDB can hold it and it names each
        residue once; see `pose_pdb`.

        Raises:
            StructureError: `bad_coordinates` if they do not fit the format's columns.
            RunError: if the chains are more than the format has names for.
        """
        from tmol_plugin.pose_pdb import write_pdb  # gemmi is for those who write

        write_pdb(self, path)

    def _offsets(self, tensor: str) -> np.ndarray:
        """What CSR offsets by block type are for the blocks, int32 [n_blocks + 1]."""
        counts = np.diff(self.parameters.tensors[tensor])[self.block_types]
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)


def _text(names: np.ndarray) -> np.ndarray:
    """uint8 [n, 8], padded with NUL -> str [n]"""
    return np.ascontiguousarray(names).view("S8")[:, 0].astype("U8")


def _check(pose: Pose) -> None:
    """Raise StructureError unless a scorer may trust the pose's arrays as indices."""
    n_blocks = len(pose.block_types)
    _check_array(pose, "coords", np.float32, (None, 3))
    _check_array(pose, "block_types", np.int32, (None,))
    _check_array(pose, "block_atom_offsets", np.int32, (n_blocks + 1,))
    _check_array(pose, "connections", np.int32, (None, 2))
    _check_array(pose, "chain_of_block", np.int32, (n_blocks,))
    if n_blocks == 0 or len(pose.labels) != n_blocks:
        raise _wrong(f"{len(pose.labels)} labels for {n_blocks} blocks; at least 1 of each")
    if not np.isfinite(pose.coords).all():
        raise _wrong("coords: not all finite")
    n_types = len(pose.parameters.tensors["block_type.atom_offset"]) - 1
    if pose.block_types.min() < 0 or pose.block_types.max() >= n_types:
        raise _wrong(f"block_types: not all from 0 to {n_types - 1}")
    offsets = pose._offsets("block_type.atom_offset")
    if not np.array_equal(pose.block_atom_offsets, offsets) or offsets[-1] != pose.n_atoms:
        raise _wrong("block_atom_offsets and coords: not the atoms that the block types have")
    _check_connections(pose)


def _check_connections(pose: Pose) -> None:
    """Each connection's partner must exist and name it as its own partner."""
    offsets, connections = pose.block_connection_offsets, pose.connections
    if len(connections) != offsets[-1]:
        raise _wrong(f"connections: {len(connections)}, the block types have {offsets[-1]}")
    if not are_mutual(connections, offsets, np.array([0, pose.n_blocks])):
        raise _wrong("connections: not each partner names the other, or is (-1, -1)")


def are_mutual(connections: np.ndarray, offsets: np.ndarray, pose_offsets: np.ndarray) -> bool:
    """Whether each connection's partner is in its pose and names it back, or is (-1, -1).

    Args:
        connections: int32 [n_connections, 2], blocks counted from the pose's own first.
        offsets: int32 [n_blocks + 1]; block b has connections [b] to [b + 1] of these.
        pose_offsets: int32 [n_poses + 1]; pose p has blocks [p] to [p + 1] of these.
    """
    n_ports, n_blocks = np.diff(offsets), np.diff(pose_offsets)
    own_block = np.repeat(np.arange(len(n_ports)), n_ports)
    own_port = np.arange(len(connections)) - offsets[own_block]
    first, size = (np.repeat(x, n_blocks)[own_block] for x in (pose_offsets[:-1], n_blocks))
    bonded = connections[:, 0] != -1
    block, port = connections[bonded].T
    inside = (block >= 0) & (block < size[bonded]) & (port >= 0)
    partner = np.where(inside, block + first[bonded], 0)
    inside &= port < n_ports[partner]
    back = connections[np.where(inside, offsets[partner] + port, 0)]
    own = np.stack([own_block - first, own_port], axis=1)[bonded]
    return bool(inside.all() and (back == own).all() and (connections[~bonded] == -1).all())


def _check_array(pose: Pose, name: str, dtype, shape: tuple[int | None, ...]) -> None:
    array = getattr(pose, name)
    fits = len(shape) == array.ndim and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        wanted = f"{np.dtype(dtype)} {[size or 'n' for size in shape]}"
        raise _wrong(f"{name}: {array.dtype} {list(array.shape)}, must be {wanted}")


def _wrong(message: str) -> StructureError:
    return StructureError("engine_error", f"pose: {message}")


def check_parameters(parameters_id: str, poses: Iterable) -> None:
    """Refuse poses that were built from another parameter database; names both.

    Args:
        poses: anything with a `parameters_id`.
    """
    for pose in poses:
        if pose.parameters_id != parameters_id:
            raise RunError(
                f"a pose built from parameters {pose.parameters_id} cannot be scored with"
                f" parameters {parameters_id}; prepare it again"
            )


@dataclass(frozen=True, eq=False, repr=False)
class PoseStack:
    """Poses end to end on one device, nothing padded. Offsets are n + 1, the first is 0.

    What says where something lies in these arrays (the offsets) counts through the stack.
    What says how a pose is bonded (`connections`) counts from the pose's own first block: a
    pose then is the same bytes wherever it lies in whatever stack, stacking is copying, and
    a kernel, which has its pose's first block at hand anyway, adds it.

    Attributes:
        parameters_id: of all the poses; None if there are none.
        coords: float32 [n_atoms, 3], angstrom.
        block_types: int32 [n_blocks].
        connections: int32 [n_connections, 2], as in `Pose`.
        pose_atom_offsets: int32 [n_poses + 1], into coords.
        pose_block_offsets: int32 [n_poses + 1], into block_types.
        block_atom_offsets: int32 [n_blocks + 1], into coords.
        block_connection_offsets: int32 [n_blocks + 1], into connections.
    """

    parameters_id: str | None
    coords: "torch.Tensor"
    block_types: "torch.Tensor"
    connections: "torch.Tensor"
    pose_atom_offsets: "torch.Tensor"
    pose_block_offsets: "torch.Tensor"
    block_atom_offsets: "torch.Tensor"
    block_connection_offsets: "torch.Tensor"

    def __repr__(self) -> str:
        return f"PoseStack({self.n_poses} poses, {self.n_atoms} atoms, {self.device})"

    def __len__(self) -> int:
        return self.n_poses

    @property
    def n_poses(self) -> int:
        return len(self.pose_atom_offsets) - 1

    @property
    def n_blocks(self) -> int:
        return len(self.block_types)

    @property
    def n_atoms(self) -> int:
        return len(self.coords)

    @property
    def device(self) -> "torch.device":
        return self.coords.device


class PoseStackBuilder:
    """Puts poses into a `PoseStack`."""

    @staticmethod
    def from_poses(poses: Sequence[Pose], device) -> PoseStack:
        """Copy poses, in their order, into one stack on a device; none make an empty stack.

        Raises:
            RunError: if two poses are of different parameters (names both), or the poses
                have more atoms than int32 offsets can count.
        """
        import torch

        parameters_id = poses[0].parameters_id if poses else None
        arrays = stack_arrays(poses)
        tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        return PoseStack(parameters_id, **tensors)


def stack_arrays(poses: Sequence[Pose]) -> dict[str, np.ndarray]:
    """The arrays of a `PoseStack` by name, without torch; raises as `from_poses`."""
    check_parameters(poses[0].parameters_id if poses else None, poses)
    return {
        "coords": _joined([p.coords for p in poses], (0, 3), np.float32),
        "block_types": _joined([p.block_types for p in poses], (0,), np.int32),
        "connections": _joined([p.connections for p in poses], (0, 2), np.int32),
        "pose_atom_offsets": _stacked([[0, p.n_atoms] for p in poses]),
        "pose_block_offsets": _stacked([[0, p.n_blocks] for p in poses]),
        "block_atom_offsets": _stacked([p.block_atom_offsets for p in poses]),
        "block_connection_offsets": _stacked([p.block_connection_offsets for p in poses]),
    }


def _joined(arrays: list[np.ndarray], empty: tuple[int, ...], dtype) -> np.ndarray:
    """Arrays end to end, always copied: poses do not see what is done to the stack."""
    return np.concatenate(arrays) if arrays else np.empty(empty, dtype)


def _stacked(offsets: list) -> np.ndarray:
    """Offsets of each pose, starting at 0 -> offsets through the stack, int32."""
    ends = np.cumsum([0, *(int(own[-1]) for own in offsets)])
    if ends[-1] > INT32_MAX:
        raise RunError(
            f"a stack of {ends[-1]:,} atoms or connections is more than int32 offsets count"
            f" ({INT32_MAX:,}); make it of fewer poses"
        )
    shifted = [np.asarray(own[1:]) + start for own, start in zip(offsets, ends)]
    return np.concatenate([[0], *shifted]).astype(np.int32)

"""Native scoring with TMol's interface: a `ScoreFunction` renders a scorer of a `PoseStack`.

    score_function = ScoreFunction.from_parameters(parameters, "cpu")
    scorer = score_function.render_whole_pose_scoring_module(batch)
    totals = scorer(batch.coords)

Below it are two operators of torch, `tmol_plugin::score` and `tmol_plugin::score_blocks`,
which give unweighted energies as float64. They trust the tensors that they are given but for
the coordinates: a rendered scorer has checked its batch. There are no gradients.
"""

import enum
import math
import weakref

import numpy as np
import torch

from tmol_plugin import native, tables
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.parameters import Parameters
from tmol_plugin.pose import PoseStack, are_mutual, check_parameters

ScoreType = enum.Enum("ScoreType", [(name, row) for row, name in enumerate(tables.SCORE_TYPES)])
ScoreType.__doc__ = "TMol's score types by their names; the value is the row in what scorers give."

# By the id of the parameters, as operators are given them. Who scores keeps its scorer alive.
_SCORERS: "weakref.WeakValueDictionary[str, native.Scorer]" = weakref.WeakValueDictionary()
# Tensors of a batch, in the order of the operators' arguments.
_TOPOLOGY = (
    *("block_types", "connections", "pose_block_offsets", "block_atom_offsets"),
    "block_connection_offsets",
)


class ScoreFunction:
    """Weights of TMol's score types, and the energy function of compiled parameters.

    What the library does not compute (gen_torsions, na_torsion, na_torsion_well and
    metal_coordination) is 0 for what it prepares: proteins without ligands.
    """

    def __init__(self, parameters: Parameters, device):
        self.device = torch.device(device)
        if self.device.type != "cpu":
            raise RunError(
                f"native scoring runs on the CPU only, not on {self.device}; give the device"
                ' "cpu", or score with upstream TMol (see upstream.tmol_pose_stack)'
            )
        self.device = torch.device("cpu")  # whatever its index, by which devices compare
        self.parameters = parameters
        self._scorer = _SCORERS.get(parameters.id)
        if self._scorer is None:
            self._scorer = _SCORERS[parameters.id] = native.Scorer(parameters.tensors)
        self._weights = [parameters.metadata["weights"].get(kind.name, 0.0) for kind in ScoreType]

    @classmethod
    def from_parameters(cls, parameters: Parameters, device="cpu") -> "ScoreFunction":
        """The score function that the parameters were compiled with.

        Raises:
            RunError: if the device is not the CPU.
        """
        return cls(parameters, device)

    def set_weight(self, score_type: ScoreType, weight: float) -> None:
        """Set a weight, for the scorers that are rendered from now on.

        Args:
            score_type: one of these, one of TMol's, or a name; it goes by the name.
        """
        row = _row_of(score_type)
        if not math.isfinite(weight):
            raise RunError(f"{score_type}: the weight is {weight}; give a finite number")
        self._weights[row] = float(weight)

    def get_weight(self, score_type: ScoreType) -> float:
        """The weight of a score type; 0 if the score function was made without it."""
        return self._weights[_row_of(score_type)]

    def all_score_types(self) -> list[ScoreType]:
        """The rows of what scorers give, whatever the weights."""
        return list(ScoreType)

    def render_whole_pose_scoring_module(
        self, batch: PoseStack, n_threads: int | None = None
    ) -> "WholePoseScoringModule":
        """A scorer of the batch's poses, for any coordinates of theirs.

        Args:
            n_threads: threads to score on; None takes torch.get_num_threads() at each call.

        Raises:
            RunError: if the batch is of other parameters, on another device, or holds
                anything but what `PoseStackBuilder` makes of poses.
        """
        if n_threads is not None and n_threads < 1:
            raise RunError(f"n_threads is {n_threads}: give at least 1, or None for torch's")
        if batch.parameters_id is not None:
            check_parameters(self.parameters.id, [batch])
        if batch.device != self.device:
            raise RunError(f"a batch on {batch.device} for a score function on {self.device}")
        # Copies, so that nobody changes what was checked.
        topology = {name: getattr(batch, name).detach().clone() for name in _TOPOLOGY}
        _check_batch(batch, {name: one.numpy() for name, one in topology.items()}, self.parameters)
        shape = batch.coords.shape
        return WholePoseScoringModule(self, shape, tuple(topology.values()), n_threads)


def _row_of(score_type) -> int:
    """The row of a score type by its name: TMol numbers its own otherwise."""
    name = getattr(score_type, "name", score_type)
    if not isinstance(name, str) or name not in ScoreType.__members__:
        known = ", ".join(ScoreType.__members__)
        raise RunError(f"{score_type!r} is no score type; give one of {known}")
    return ScoreType[name].value


class WholePoseScoringModule:
    """Scores the poses of one batch; made by `ScoreFunction.render_whole_pose_scoring_module`."""

    def __init__(self, score_function: ScoreFunction, shape, topology, n_threads: int | None):
        self._scorer = score_function._scorer  # keeps it alive
        self._parameters_id = score_function.parameters.id
        self._wanted = f"{torch.float32} {list(shape)} on {score_function.device}"
        self._weights = torch.tensor(score_function._weights, dtype=torch.float64)[:, None]
        self._rows = torch.tensor([ScoreType[name].value for name in native.score_types()])
        self._topology, self._n_threads = topology, n_threads

    def __call__(
        self, coords: torch.Tensor, sum_terms: bool = True, apply_weights: bool = True
    ) -> torch.Tensor:
        """Energies of the poses, as TMol's scorer gives them.

        Args:
            coords: float32 [n_atoms, 3] in angstrom, of the batch's atoms.
            sum_terms: add the score types up.
            apply_weights: multiply each by its weight, as it was when this was rendered.

        Returns:
            float32 [n_poses], or [n_score_types, n_poses] if they are not added up.

        Raises:
            RunError: coordinates of another shape, type or device, or that want gradients.
            StructureError: `bad_coordinates` if they are not all finite; says of which pose.
        """
        energies = self._all_rows(torch.ops.tmol_plugin.score(*self._arguments(coords)))
        energies = energies * self._weights if apply_weights else energies
        return (energies.sum(0) if sum_terms else energies).float()

    def per_block(self, coords: torch.Tensor, apply_weights: bool = False) -> torch.Tensor:
        """Energies of the blocks, a pair's halved between its two: they sum to the poses'.

        Returns:
            float32 [n_score_types, n_blocks], the blocks of all poses end to end.

        Raises:
            RunError, StructureError: as when called.
        """
        energies = self._all_rows(torch.ops.tmol_plugin.score_blocks(*self._arguments(coords)))
        return (energies * self._weights if apply_weights else energies).float()

    def _arguments(self, coords: torch.Tensor) -> tuple:
        """Those of the operators."""
        found = type(coords).__name__
        if torch.is_tensor(coords):
            found = f"{coords.dtype} {list(coords.shape)} on {coords.device}"
        if found != self._wanted:
            raise RunError(
                f"coordinates are {found}, the batch was rendered for {self._wanted}; convert"
                " them, or render a scorer for their batch"
            )
        if coords.requires_grad and torch.is_grad_enabled():
            raise RunError(
                "coordinates require gradients, and native scoring has none; score under"
                " torch.no_grad(), or coords.detach(), or with upstream TMol"
            )
        n_threads = self._n_threads or torch.get_num_threads()
        return coords.detach(), *self._topology, self._parameters_id, n_threads

    def _all_rows(self, computed: torch.Tensor) -> torch.Tensor:
        """A row for each score type: 0 for those that the library does not compute."""
        energies = computed.new_zeros((len(ScoreType), computed.shape[1]))
        return energies.index_copy_(0, self._rows, computed)


def _check_batch(batch: PoseStack, arrays: dict[str, np.ndarray], parameters: Parameters) -> None:
    """Raise RunError unless the arrays are those of poses of the parameters: they are indices."""
    types, poses = arrays["block_types"], arrays["pose_block_offsets"]
    if any(array.dtype != np.int32 for array in arrays.values()):
        raise RunError(f"{batch}: its tensors are not all int32; {_REMEDY}")
    n_types = len(parameters.block_type_names)
    sound = types.ndim == poses.ndim == 1 and poses[:1].tolist() == [0]
    sound = sound and poses[-1] == len(types) and (np.diff(poses) > 0).all()
    sound = sound and ((types >= 0) & (types < n_types)).all()
    for what, rows in (("atom", len(batch.coords)), ("connection", len(arrays["connections"]))):
        if sound:
            counts = np.diff(parameters.tensors[f"block_type.{what}_offset"])[types]
            offsets = np.concatenate([[0], np.cumsum(counts)])
            sound = np.array_equal(arrays[f"block_{what}_offsets"], offsets) and offsets[-1] == rows
    connections = arrays["connections"]
    sound = sound and connections.shape[1:] == (2,)
    sound = sound and batch.coords.dtype == torch.float32 and batch.coords.shape[1:] == (3,)
    if not sound or not are_mutual(connections, arrays["block_connection_offsets"], poses):
        raise RunError(f"{batch}: its tensors contradict each other or the parameters; {_REMEDY}")
    covered = parameters.tensors["block_type.is_canonical_protein"][types] != 0
    if not covered.all():
        name = parameters.block_type_names[types[~covered][0]]
        raise RunError(
            f"block type {name} is not one of the amino acids that are scored natively; score"
            " its pose with upstream TMol (see upstream.tmol_pose_stack)"
        )


_REMEDY = "make it with PoseStackBuilder.from_poses, and do not change its tensors but for coords"


@torch.library.custom_op("tmol_plugin::score", mutates_args=())
def _score(
    coords: torch.Tensor,
    block_types: torch.Tensor,
    connections: torch.Tensor,
    pose_block_offsets: torch.Tensor,
    block_atom_offsets: torch.Tensor,
    block_connection_offsets: torch.Tensor,
    parameters_id: str,
    n_threads: int,
) -> torch.Tensor:
    """Unweighted energies of poses, float64 [n native score types, n_poses]."""
    topology = (block_types, connections, pose_block_offsets, block_atom_offsets)
    return _computed(coords, (*topology, block_connection_offsets), parameters_id, n_threads)[0]


@torch.library.custom_op("tmol_plugin::score_blocks", mutates_args=())
def _score_blocks(
    coords: torch.Tensor,
    block_types: torch.Tensor,
    connections: torch.Tensor,
    pose_block_offsets: torch.Tensor,
    block_atom_offsets: torch.Tensor,
    block_connection_offsets: torch.Tensor,
    parameters_id: str,
    n_threads: int,
) -> torch.Tensor:
    """Unweighted energies of blocks, float64 [n native score types, n_blocks]."""
    topology = (block_types, connections, pose_block_offsets, block_atom_offsets)
    topology = (*topology, block_connection_offsets)
    return _computed(coords, topology, parameters_id, n_threads, by_block=True)[1]


@_score.register_fake
def _(coords, block_types, connections, pose_block_offsets, *_):
    n_poses = pose_block_offsets.shape[0] - 1
    return coords.new_empty((len(native.score_types()), n_poses), dtype=torch.float64)


@_score_blocks.register_fake
def _(coords, block_types, *_):
    shape = len(native.score_types()), block_types.shape[0]
    return coords.new_empty(shape, dtype=torch.float64)


def _computed(coords, topology, parameters_id, n_threads, by_block=False):
    scorer = _SCORERS.get(parameters_id)
    if scorer is None:
        raise RunError(
            f"no score function of parameters {parameters_id} is in use here; make one with"
            " ScoreFunction.from_parameters and keep it"
        )
    given = zip(("coords", *_TOPOLOGY), (coords, *topology), strict=True)
    arrays = {name: one.detach().contiguous().numpy() for name, one in given}
    shape = (int(arrays["block_atom_offsets"][-1]), 3)
    if coords.dtype != torch.float32 or tuple(coords.shape) != shape:
        raise RunError(
            f"coordinates are {coords.dtype} {list(coords.shape)}, the blocks have"
            f" {torch.float32} {list(shape)}"
        )
    _check_finite(arrays)
    found = native.score(scorer, arrays, n_threads, by_block)
    return [None if one is None else torch.from_numpy(one) for one in found]


def _check_finite(arrays: dict[str, np.ndarray]) -> None:
    finite = np.isfinite(arrays["coords"])
    if finite.all():
        return
    bad = np.flatnonzero(~finite.all(axis=1))
    starts = arrays["block_atom_offsets"][arrays["pose_block_offsets"]]
    poses = np.unique(np.searchsorted(starts, bad, side="right") - 1).tolist()
    atom = bad[0] - starts[poses[0]]
    more = f" (and of {len(poses) - 1} poses more)" if len(poses) > 1 else ""
    raise StructureError(
        "bad_coordinates",
        f"coordinates of pose {poses[0]}{more} are not finite, first of its atom {atom}; both"
        " count from 0. Correct or leave out the pose",
    )

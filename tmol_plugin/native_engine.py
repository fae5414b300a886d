"""The `native` engine: the compiled library prepares and scores, without torch and TMol.

Where the config asks for a GPU, which the library does not use, TMol scores what it prepared.
"""

import logging
import threading
from dataclasses import dataclass, replace

import numpy as np

from tmol_plugin import native, tables
from tmol_plugin.engine import Prepared, Residues, TmolEngine
from tmol_plugin.parameters import Parameters
from tmol_plugin.policy import Policy
from tmol_plugin.pose import Pose, check_parameters, stack_arrays
from tmol_plugin.reading import Source
from tmol_plugin.structure import NotCoveredError, read_pose
from tmol_plugin.upstream import tmol_pose_stack

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Batch:
    """Poses of the library as arrays of a `PoseStack`, and those of TMol as its PoseStack.

    `is_tmol` says of each pose of the batch, in its order, which of the two it is in.
    """

    arrays: dict[str, np.ndarray]
    tmol: object | None
    is_tmol: np.ndarray


class NativeEngine:
    """Native preparation and scoring on the CPU.

    What turns out to be beyond native preparation, TMol prepares and scores; it is imported
    then, and its calls come one at a time.
    """

    name = "native"
    reads_ahead = True

    def __init__(self, parameters: Parameters, settings: dict, threads: int):
        self.parameters_id = parameters.id
        self._parameters, self._settings, self._threads = parameters, settings, threads
        self._scorer = native.Scorer(parameters.tensors)
        weights = parameters.metadata["weights"]
        # What the score function does not weigh is not scored, as TMol has it.
        self.score_types = tuple(name for name in tables.SCORE_TYPES if name in weights)
        self.weights = np.array([weights[name] for name in self.score_types], dtype=np.float64)
        computed = native.score_types()
        self._columns = [n for n, name in enumerate(self.score_types) if name in computed]
        self._rows = [computed.index(self.score_types[n]) for n in self._columns]
        self._tmol_lock = threading.Lock()
        self._tmol: TmolEngine | None = None

    def read(self, source: Source, model: int, policy: Policy) -> Prepared:
        try:
            pose = read_pose(source, self._parameters, model=model, policy=policy)
        except NotCoveredError as why:
            log.info("%s; TMol prepares and scores it", why)
            with self._tmol_lock:
                return self._upstream().prepare(why.structure)
        return prepared_pose(pose, NativeEngine.name)

    def _upstream(self) -> TmolEngine:
        if self._tmol is None:
            import torch

            torch.set_num_threads(self._threads)
            self._tmol = TmolEngine(self._parameters, self._settings, torch.device("cpu"))
        return self._tmol

    def stack(self, batch: list[Prepared]) -> Batch:
        check_parameters(self.parameters_id, batch)
        is_tmol = np.array([not isinstance(one.pose, Pose) for one in batch])
        arrays = stack_arrays([one.pose for one, other in zip(batch, is_tmol) if not other])
        of_tmol = [one for one, other in zip(batch, is_tmol) if other]
        if not of_tmol:
            return Batch(arrays, None, is_tmol)
        with self._tmol_lock:
            return Batch(arrays, self._upstream().stack(of_tmol), is_tmol)

    def score(self, stacked: Batch) -> np.ndarray:
        energies = np.zeros((len(stacked.is_tmol), len(self.score_types)))
        computed, _ = native.score(self._scorer, stacked.arrays, self._threads)
        energies[np.ix_(~stacked.is_tmol, self._columns)] = computed[self._rows].T
        if stacked.tmol is not None:
            with self._tmol_lock:
                energies[stacked.is_tmol] = self._ordered(self._upstream().score(stacked.tmol))
        return energies

    def score_residues(self, prepared: Prepared) -> Residues:
        pose = prepared.pose
        if not isinstance(pose, Pose):
            with self._tmol_lock:
                found = self._upstream().score_residues(prepared)
            return replace(found, energies=self._ordered(found.energies))
        _, blocks = native.score(self._scorer, stack_arrays([pose]), self._threads, by_block=True)
        energies = np.zeros((pose.n_blocks, len(self.score_types)))
        energies[:, self._columns] = blocks[self._rows].T
        return Residues(*names_of(pose), energies)

    def _ordered(self, of_tmol: np.ndarray) -> np.ndarray:
        """TMol's energies [n, its score types] in the order of the score types here."""
        return of_tmol[:, [self._tmol.score_types.index(name) for name in self.score_types]]


class NativeTmolEngine(TmolEngine):
    """Native preparation and TMol's whole-pose scorer, from one database: for a GPU."""

    name = "native"

    def __init__(self, parameters: Parameters, settings: dict, device):
        from biotite.structure import AtomArray
        from tmol.io import build_context_from_atom_array

        super().__init__(parameters, settings, device)
        self._parameters = parameters
        if self._context is None:
            # TMol's own, for structures without metals: the one that its reader takes too.
            self._packing_context = build_context_from_atom_array(AtomArray(0), device)
        else:
            self._packing_context = self._context

    def read(self, source: Source, model: int, policy: Policy) -> Prepared:
        try:
            pose = read_pose(source, self._parameters, model=model, policy=policy)
        except NotCoveredError as why:
            log.info("%s; TMol prepares it", why)
            return self.prepare(why.structure)
        return prepared_pose(pose, TmolEngine.name)

    def stack(self, batch: list[Prepared]):
        check_parameters(self.parameters_id, batch)
        poses = [one.pose for one in batch]
        if all(isinstance(pose, Pose) for pose in poses):
            return tmol_pose_stack(poses, self._packing_context)
        return super().stack([replace(one, pose=self._of_tmol(one.pose)) for one in batch])

    def _of_tmol(self, pose):
        return tmol_pose_stack([pose], self._packing_context) if isinstance(pose, Pose) else pose

    def score_residues(self, prepared: Prepared) -> Residues:
        pose = prepared.pose
        if isinstance(pose, Pose):
            residues = list(zip(*names_of(pose)[:3]))
            prepared = replace(prepared, pose=self._of_tmol(pose), residues=residues)
        return super().score_residues(prepared)


def prepared_pose(pose: Pose, scored_by: str) -> Prepared:
    sizes = pose.n_blocks, pose.n_atoms
    return Prepared(pose, pose.parameters_id, *sizes, pose.notes, scored_by)


def names_of(pose: Pose) -> tuple[list[str], ...]:
    """Chain, number, name and block type of each block."""
    chains, numbers = map(list, zip(*pose.labels, strict=True))
    return chains, numbers, pose.residue_names.tolist(), pose.block_type_names.tolist()

"""The `native` engine: the compiled library prepares, upstream TMol scores."""

import logging
from dataclasses import replace

from tmol_plugin.engine import Prepared, TmolEngine
from tmol_plugin.parameters import Parameters
from tmol_plugin.policy import Policy
from tmol_plugin.pose import Pose, check_parameters
from tmol_plugin.reading import Source
from tmol_plugin.structure import NotCoveredError, read_pose
from tmol_plugin.upstream import tmol_pose_stack

log = logging.getLogger(__name__)


class NativeEngine(TmolEngine):
    """Native preparation and TMol's whole-pose scorer, from one database.

    What turns out to be beyond native preparation, TMol prepares.
    """

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
        return Prepared(
            pose, pose.parameters_id, pose.n_blocks, pose.n_atoms, pose.notes, self.name
        )

    def stack(self, batch: list[Prepared]):
        check_parameters(self.parameters_id, batch)
        poses = [one.pose for one in batch]
        if all(isinstance(pose, Pose) for pose in poses):
            return tmol_pose_stack(poses, self._packing_context)
        of_tmol = [
            tmol_pose_stack([pose], self._packing_context) if isinstance(pose, Pose) else pose
            for pose in poses
        ]
        return super().stack([replace(one, pose=pose) for one, pose in zip(batch, of_tmol)])

"""What a chunk asks of a scorer, and the `tmol` engine: upstream TMol, unchanged."""

import logging
import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tmol_plugin import tables
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.parameters import Parameters, load_database, score_function_file
from tmol_plugin.structure import Structure, chain_name


@dataclass
class Prepared:
    """A structure ready to be scored: the engine's pose, its size, what was built for it."""

    pose: object
    parameters_id: str
    n_residues: int
    n_atoms: int
    notes: dict[str, int]


class Engine(Protocol):
    """A scorer. Energies are unweighted, float64 [n_poses, len(score_types)]."""

    name: str
    parameters_id: str
    score_types: tuple[str, ...]
    weights: np.ndarray

    def prepare(self, structure: Structure) -> Prepared:
        """Build a pose; raises StructureError."""

    def stack(self, batch: list[Prepared]):
        """Put poses into one batch on the device."""

    def score(self, stacked) -> np.ndarray:
        """Score a batch in one call."""


class TmolEngine:
    """Upstream TMol: its reader, builder, and whole-pose scorer, from one database."""

    name = "tmol"

    def __init__(self, parameters: Parameters, settings: dict, device):
        import tmol
        from biotite.structure import AtomArray
        from tmol.io import build_context_from_atom_array
        from tmol.score import ScoreFunction

        self.parameters_id = parameters.id
        self._device = device
        self._settings = settings
        self._tmol = tmol
        database = load_database(parameters)
        path = score_function_file(parameters.score_function)
        try:
            self._score_function = ScoreFunction.from_sfxn_file(str(path), database, device)
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise RunError(f"score_function: TMol refuses {path}: {error}") from error
        types = self._score_function.all_score_types()
        self.score_types = tuple(kind.name for kind in types)
        strange = sorted(set(self.score_types) - set(tables.SCORE_TYPES))
        if strange:
            raise RunError(
                f"score_function: {path} weights {', '.join(strange)}, which no table column"
                " holds; remove them"
            )
        self.weights = np.array(
            [float(self._score_function.get_weight(kind)) for kind in types], dtype=np.float64
        )
        # TMol keeps contexts of its own database, as wide as a structure's chemistry needs;
        # that of an extended database is built once, for there TMol would build one each time.
        self._context = None
        if parameters.database is not None:
            self._context = build_context_from_atom_array(AtomArray(0), device, database)

    def prepare(self, structure: Structure) -> Prepared:
        settings = self._settings
        try:
            array = self._tmol.atom_array_from_file(structure.to_cif(), "cif")
            pose = self._tmol.pose_stack_from_atom_array(
                array,
                self._device,
                context=self._context,
                no_optH=settings["hydrogens"] == "keep",
                packer_seed=settings["packer_seed"],
            )
        except StructureError:
            raise
        # TMol and the readers below it raise errors of every kind on odd input; each is the
        # failure of this structure alone. MemoryError and the device's errors are not.
        except (MemoryError, self._out_of_memory()) as error:
            raise StructureError("too_large", f"{structure.path}: {error}") from error
        except Exception as error:
            raise explain(error, structure) from error
        self._check_nothing_lost(structure, pose)
        n_atoms = int(pose.real_atoms.sum())
        n_residues = int((pose.block_type_ind >= 0).sum())
        given, unused = self._atoms_used(structure, pose)
        notes = {"atoms_built": n_atoms - given, "hydrogens_rebuilt": unused}
        return Prepared(pose, self.parameters_id, n_residues, n_atoms, notes)

    def _out_of_memory(self):
        import torch

        return torch.OutOfMemoryError

    @staticmethod
    def _blocks(pose) -> dict[tuple[str, int], object]:
        """(chain, number) of `Structure.to_cif` -> block type, for each block of the pose."""
        types = pose.packed_block_types.active_block_types
        chains, numbers = pose.pdb_info.chain_labels[0], pose.pdb_info.residue_labels[0]
        return {
            (str(chains[i]), int(numbers[i])): types[kind]
            for i, kind in enumerate(pose.block_type_ind[0].tolist())
            if kind >= 0
        }

    def _check_nothing_lost(self, structure: Structure, pose) -> None:
        """TMol leaves residues out with a log line only; here that is a failure."""
        blocks = self._blocks(pose)
        lost = [
            residue.label
            for residue, chain, number in zip(
                structure.residues, structure.chain_of, structure.number_of, strict=True
            )
            if (chain_name(chain), number) not in blocks
        ]
        if lost:
            raise StructureError(
                "unsupported_chemistry",
                f"{structure.path}: TMol left out {', '.join(lost[:20])}"
                f"{f' and {len(lost) - 20} more' if len(lost) > 20 else ''}",
            )

    def _atoms_used(self, structure: Structure, pose) -> tuple[int, int]:
        """Atoms of the pose that the file gave, and hydrogens of the file that have no place
        in it (TMol builds its own instead, at an amide that it makes a terminus for one)."""
        blocks, given, unused = self._blocks(pose), 0, 0
        for residue, chain, number in zip(
            structure.residues, structure.chain_of, structure.number_of, strict=True
        ):
            kind = blocks[chain_name(chain), number]
            alias = {a.alt_name: a.name for a in kind.atom_aliases}
            names = {atom.name for atom in kind.atoms}
            for atom, element in zip(residue.atoms, residue.elements, strict=True):
                used = alias.get(atom, atom) in names
                given += used
                unused += not used and element == "H"
        return given, unused

    def stack(self, batch: list[Prepared]):
        from tmol.pose import PoseStackBuilder

        check_parameters(self.parameters_id, batch)
        return PoseStackBuilder.from_poses([one.pose for one in batch], self._device)

    def score(self, stacked) -> np.ndarray:
        import torch

        with torch.no_grad():
            scorer = self._score_function.render_whole_pose_scoring_module(stacked)
            energies = scorer(stacked.coords, sum_terms=False, apply_weights=False)
            return energies.to("cpu", torch.float64).numpy().T


def check_parameters(parameters_id: str, batch: list[Prepared]) -> None:
    """Refuse poses that were built from another parameter database; names both."""
    for one in batch:
        if one.parameters_id != parameters_id:
            raise RunError(
                f"a pose built from parameters {one.parameters_id} cannot be scored with"
                f" parameters {parameters_id}; prepare it again"
            )


# TMol's words -> the reason they amount to. First match counts.
_EXPLANATIONS = (
    (r"Heavy atoms are absent", "unrecognized_atom"),
    (r"Multiple input atoms map", "duplicate_atom"),
    (r"missing mainchain|No residue remains", "incomplete_backbone"),
    (r"would be lost|no recognized residues|Unrecognized", "unrecognized_residue"),
    (r"missing heavy atoms", "missing_atoms"),
    (r"coincident|geometry gap|Stated terminus conflicts", "bad_geometry"),
    (r"NaN coordinates", "bad_coordinates"),
    (r"out of memory|can't allocate memory", "too_large"),
)


def explain(error: Exception, structure: Structure) -> StructureError:
    """The failure that an exception of TMol amounts to, with TMol's words as detail."""
    words = f"{type(error).__name__}: {error}"
    logging.getLogger(__name__).info("%s", words, exc_info=error)
    reason = "unsupported_chemistry"
    for pattern, candidate in _EXPLANATIONS:
        if re.search(pattern, words):
            reason = candidate
            break
    return StructureError(
        reason, f"{structure.path}: TMol cannot build a pose: {_original_names(words, structure)}"
    )


def _original_names(words: str, structure: Structure) -> str:
    """TMol's words with the residues named as in the file (A:57 -> B:112A)."""
    labels = {
        f"{chain_name(chain)}:{number}": residue.label.split(" ")[0]
        for residue, chain, number in zip(
            structure.residues, structure.chain_of, structure.number_of, strict=True
        )
    }
    return re.sub(r"\b([A-Z]+:\d+)\b", lambda found: labels.get(found[1], found[1]), words[:2000])

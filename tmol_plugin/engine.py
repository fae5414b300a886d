"""What a chunk asks of a scorer, and the `tmol` engine: upstream TMol, unchanged."""

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tmol_plugin import chemistry, memory
from tmol_plugin.device import is_fault
from tmol_plugin.errors import StructureError
from tmol_plugin.parameters import Parameters, load_database, load_score_function
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.pose import check_parameters
from tmol_plugin.reading import Source
from tmol_plugin.residues import Residue, Structure


@dataclass
class Prepared:
    """A structure ready to be scored: its pose, its size, what was dropped, built and chosen.

    `engine` names what scores it: `native` or `tmol`. `residues` are chain, number and name
    of each block of a pose that does not know them itself.
    """

    pose: object
    parameters_id: str
    n_residues: int
    n_atoms: int
    notes: dict[str, int | str]
    engine: str
    residues: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True)
class Residues:
    """The residues of a pose in its order, and their energies.

    Chain and number are those of the file, the name is that of the residue's block type in
    files. Energies are unweighted, float64 [n_residues, len(score_types)]; a pair's is halved
    between its two residues.
    """

    chains: Sequence[str]
    numbers: Sequence[str]
    names: Sequence[str]
    block_types: Sequence[str]
    energies: np.ndarray


class Engine(Protocol):
    """A scorer. Energies are unweighted, float64 [n_poses, len(score_types)].

    `reads_ahead` says whether one thread may read a batch while another scores one.
    """

    name: str
    reads_ahead: bool
    parameters_id: str
    score_types: tuple[str, ...]
    weights: np.ndarray

    def read(self, source: Source, model: int, policy: Policy) -> Prepared:
        """Build a pose of one model of a file; raises StructureError."""

    def stack(self, batch: list[Prepared]):
        """Put poses into one batch on the device."""

    def score(self, stacked) -> np.ndarray:
        """Score a batch in one call."""

    def score_residues(self, prepared: Prepared) -> Residues:
        """Score a pose residue by residue."""


class TmolEngine:
    """Upstream TMol: its reader, builder, and whole-pose scorer, from one database."""

    name = "tmol"
    reads_ahead = False

    def __init__(self, parameters: Parameters, settings: dict, device):
        import tmol
        from biotite.structure import AtomArray
        from tmol.io import build_context_from_atom_array

        self.parameters_id = parameters.id
        self._device = device
        self._settings = settings
        self._tmol = tmol
        database = load_database(parameters)
        self._score_function = load_score_function(parameters.score_function, database, device)
        types = self._score_function.all_score_types()
        self.score_types = tuple(kind.name for kind in types)
        self.weights = np.array(
            [float(self._score_function.get_weight(kind)) for kind in types], dtype=np.float64
        )
        # TMol keeps contexts of its own database, as wide as a structure's chemistry needs;
        # that of an extended database is built once, for there TMol would build one each time.
        self._context = None
        if parameters.database is not None:
            self._context = build_context_from_atom_array(AtomArray(0), device, database)

    def read(self, source: Source, model: int, policy: Policy) -> Prepared:
        return self.prepare(read_structure(source, model, policy))

    def prepare(self, structure: Structure) -> Prepared:
        """Build a pose of residues that went through the policy; raises StructureError."""
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
        # TMol and the readers below it raise errors of every kind on odd input; each is the
        # failure of this structure alone, unless the device is lost to all that follow.
        except Exception as error:
            if is_fault(error) and not memory.is_out_of_memory(error):
                raise
            raise explain(error, structure) from error
        placed = _placed(structure, pose)
        n_atoms = int(pose.real_atoms.sum())
        n_residues = int((pose.block_type_ind >= 0).sum())
        notes = _notes(placed, pose, n_atoms)
        notes["ligand_heavy_atoms_built"] = _ligand_heavy_atoms_built(placed, pose)
        notes = {**structure.notes, **notes}
        residues = [(*one.place, one.name) for _, one in sorted(placed.items())]
        made = Prepared(pose, self.parameters_id, n_residues, n_atoms, notes, TmolEngine.name)
        return replace(made, residues=residues)

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

    def score_residues(self, prepared: Prepared) -> Residues:
        import torch

        pose = prepared.pose
        with torch.no_grad():
            scorer = self._score_function.render_block_pair_scoring_module(pose)
            # TMol has a pair's energy at either of its places, or parts of it at both.
            pairs = scorer(pose.coords, sum_terms=False, apply_weights=False)[:, 0]
            energies = (pairs.sum(1, dtype=torch.float64) + pairs.sum(2, dtype=torch.float64)) / 2
        types = pose.packed_block_types.active_block_types
        blocks = pose.block_type_ind[0]
        block_types = [types[index].name for index in blocks[blocks >= 0].tolist()]
        chains, numbers, names = zip(*prepared.residues, strict=True)
        return Residues(chains, numbers, names, block_types, energies.cpu().numpy().T)


def _placed(structure: Structure, pose) -> dict[int, Residue]:
    """Block of the pose -> the structure's residue that it is.

    TMol leaves residues out with a log line only; here that is a failure.
    """
    chains, numbers = pose.pdb_info.chain_labels[0], pose.pdb_info.residue_labels[0]
    blocks = (pose.block_type_ind[0] >= 0).nonzero().flatten().tolist()
    block_of = {(str(chains[block]), int(numbers[block])): block for block in blocks}
    placed, lost = {}, []
    for residue, name in zip(structure.residues, structure.names_in_cif(), strict=True):
        if name in block_of:
            placed[block_of[name]] = residue
        else:
            lost.append(residue.label)
    if lost:
        more = f" and {len(lost) - 20} more" if len(lost) > 20 else ""
        raise StructureError(
            "unsupported_chemistry",
            f"{structure.path}: TMol left out {', '.join(lost[:20])}{more}",
        )
    return placed


def _ligand_heavy_atoms_built(placed: dict[int, Residue], pose) -> int:
    """Heavy atoms that TMol built in residues beyond its own (OXT, at any chain's end, apart).

    The scan knows no atoms of these; their parameters do, and a component of the same name
    may have more than the file.
    """
    types = pose.packed_block_types.active_block_types
    element = {kind.name: kind.element for kind in pose.packed_block_types.chem_db.atom_types}
    built = 0
    for block, residue in placed.items():
        if residue.name in chemistry.RECOGNIZED:
            continue
        kind = types[int(pose.block_type_ind[0, block])]
        alias = {atom.alt_name: atom.name for atom in kind.atom_aliases}
        given = {alias.get(atom, atom) for atom in residue.atoms} | {"OXT"}
        heavy = (a.name for a in kind.atoms if element[a.atom_type].upper() != "H")
        built += sum(name not in given for name in heavy)
    return built


def _notes(placed: dict[int, Residue], pose, n_atoms: int) -> dict[str, int | str]:
    """What TMol built and decided: atoms, histidine tautomers, disulfides.

    `hydrogens_unused` are those of the file that have no place in the pose: at an amide that
    TMol makes a terminus, or of a protonation that TMol has no block type for.
    """
    types = pose.packed_block_types.active_block_types
    given, notes, disulfides = 0, Counter(), []
    for block, residue in sorted(placed.items()):
        kind = types[int(pose.block_type_ind[0, block])]
        alias = {atom.alt_name: atom.name for atom in kind.atom_aliases}
        names = {atom.name for atom in kind.atoms}
        for atom, element in zip(residue.atoms, residue.elements, strict=True):
            used = alias.get(atom, atom) in names
            given += used
            notes["hydrogens_unused"] += not used and element == "H"
        if residue.name == "HIS":
            notes[kind.base_name] += 1
        # The connection of the sulfur to its partner's.
        for connection, bond in enumerate(kind.connections):
            if bond.name == "dslf":
                partner = int(pose.inter_residue_connections[0, block, connection, 0])
                if block < partner and partner in placed:
                    pair = residue.place, placed[partner].place
                    disulfides.append("-".join(":".join(place) for place in pair))
    notes["atoms_built"] = n_atoms - given
    return notes | {"disulfides": ",".join(disulfides)}


# TMol's words -> the reason they amount to. First match counts.
_EXPLANATIONS = (
    (r"Heavy atoms are absent", "unrecognized_atom"),
    (r"Multiple input atoms map", "duplicate_atom"),
    (r"missing mainchain|No residue remains", "incomplete_backbone"),
    (r"would be lost|no recognized residues|Unrecognized", "unrecognized_residue"),
    (r"missing heavy atoms", "missing_atoms"),
    (r"(?i)coincident|geometry gap|Stated terminus conflicts", "bad_geometry"),
    (r"NaN coordinates", "bad_coordinates"),
    (r"(?i)out of memory|can't allocate memory", "too_large"),
)


def explain(error: Exception, structure: Structure) -> StructureError:
    """The failure that an exception of TMol amounts to, with TMol's words as detail."""
    words = f"{type(error).__name__}: {error}"
    logging.getLogger(__name__).info("%s", words, exc_info=error)
    found = (reason for pattern, reason in _EXPLANATIONS if re.search(pattern, words))
    reason = next(found, "unsupported_chemistry")
    cause: BaseException | None = error
    while cause is not None:  # a reader may have wrapped the error of memory that ran out
        if memory.is_out_of_memory(cause):
            reason = "too_large"
        cause = cause.__cause__ or cause.__context__
    return StructureError(
        reason, f"{structure.path}: TMol cannot build a pose: {_original_names(words, structure)}"
    )


def _original_names(words: str, structure: Structure) -> str:
    """TMol's words with the residues named as in the file: A:57, or chain A, resid 57."""
    labels = {
        f"{chain}:{number}": ":".join(residue.place)
        for residue, (chain, number) in zip(
            structure.residues, structure.names_in_cif(), strict=True
        )
    }
    words = re.sub(r"\bchain[= ]([A-Z]+),?\s+resid[= ](\d+)\b", r"\1:\2", words[:2000])
    return re.sub(r"\b([A-Z]+:\d+)\b", lambda found: labels.get(found[1], found[1]), words)

"""An engine of numpy for tests of the loop that scores a chunk, and the members of a chunk.

The files are pieces of ubiquitin (1ubi), read as in a run; the fake energies are functions
of the coordinates read, so that a score given to the wrong structure is seen.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import torch

from tmol_plugin import assembly, parts, per_residue, tables
from tmol_plugin.engine import Prepared, Residues, check_parameters
from tmol_plugin.parameters import Parameters
from tmol_plugin.policy import read_structure
from tmol_plugin.worker import Loop, Stopwatch

UBIQUITIN = (Path(__file__).parent / "structures" / "1ubi.pdb").read_text().splitlines(True)
PARAMETERS = Parameters({}, {"score_function": "beta2016", "residues": [], "failed": {}})
SETTINGS = {"on_unrecognized": "fail", "missing_side_chains": "fail", "hydrogens": "keep"}
ID = "ba9876543210"


def energies_of(coords):
    """Fake unweighted energies of a structure: float64 [3]."""
    return np.array([coords.sum(), coords[0, 0] * 3, -len(coords)], dtype=np.float64)


class Stack(list):
    """A batch; a class of its own, so that weak references can watch it."""


class FakeEngine:
    """An Engine whose `faults` are functions of the names in a batch that may raise."""

    name = "fake"
    reads_ahead = False
    parameters_id = PARAMETERS.id
    # Not TMol's order, and most score types are lacking.
    score_types = ("hbond", "fa_ljatr", "ref")
    weights = np.array([2.0, 1.0, 0.25])

    def __init__(self, on_prepare=None, on_stack=None, on_score=None, on_residues=None):
        self.faults = {"prepare": on_prepare, "stack": on_stack, "score": on_score}
        self.faults["residues"] = on_residues
        self.not_finite = {}
        self.batches = []

    def _at(self, moment, names):
        if self.faults[moment]:
            self.faults[moment](names)

    def read(self, source, model, policy):
        structure = read_structure(source, model, policy)
        name = Path(structure.path).stem
        self._at("prepare", [name])
        coords = np.concatenate([residue.coords for residue in structure.residues])
        n_residues = len(structure.residues)
        pose = (name, coords)
        notes = {**structure.notes, "atoms_built": n_residues}
        return Prepared(pose, PARAMETERS.id, n_residues, len(coords), notes, self.name)

    def stack(self, batch):
        check_parameters(self.parameters_id, batch)
        self._at("stack", [one.pose[0] for one in batch])
        return Stack(one.pose for one in batch)

    def score(self, stacked):
        names = [name for name, _ in stacked]
        self.batches.append(names)
        self._at("score", names)
        energies = np.array([energies_of(coords) for _, coords in stacked])
        for name, (position, value) in self.not_finite.items():
            if name in names:
                energies[names.index(name), position] = value
        return energies

    def score_residues(self, prepared):
        """The later a residue, the larger its share."""
        name, coords = prepared.pose
        self._at("residues", [name])
        shares = np.arange(1, prepared.n_residues + 1)
        energies = np.outer(shares / shares.sum(), energies_of(coords))
        numbers = [str(number) for number in shares]
        chains, kinds = ["A"] * len(numbers), [f"{name}{number}" for number in numbers]
        return Residues(chains, numbers, kinds, [f"{kind}:x" for kind in kinds], energies)


class FakeModel:
    """A memory model of the fake engine."""

    def predict(self, kind, prepared):
        n_atoms = sum(one.n_atoms for one in prepared)
        return 600 * n_atoms, 1000 * n_atoms


def raising(error, when):
    def fault(names):
        if when(names):
            raise error

    return fault


def write_members(folder, n, batches=None):
    """Files of 2, 3, 4 ... residues of 1ubi, named a, b, c ..., as rows of a plan."""
    rows = []
    for i in range(n):
        path = folder / "in" / f"{chr(ord('a') + i)}.pdb"
        path.parent.mkdir(exist_ok=True)
        last = i + 2
        piece = [s for s in UBIQUITIN if s.startswith("ATOM") and int(s[22:26]) <= last]
        path.write_text("".join(piece))
        row = {"structure_id": f"in/{path.stem}", "path": str(path), "model": 1}
        row |= {"sha256": tables.file_sha256(path), "n_residues": last, "n_atoms": 16 * last}
        row |= {"batch": batches[i] if batches else 0, "engine_reason": "engine: tmol"}
        rows.append(row)
    return tables.MEMBERS.frame(rows)


class Scored:
    """What a loop finished: takes the place of a part file, and writes the chunk of it."""

    def __init__(self, members, wants_residues):
        self.members = members
        self.rows = {name: [] for name in parts.TABLES}
        self.residues, self.seconds = [], Counter()
        self.steps = []  # names of what was begun and finished, in order
        self.plan = {"settings": SETTINGS, "parameters_id": PARAMETERS.id}
        self.plan["config"] = {"outputs": {"per_residue": wants_residues}}

    def begin(self, rows):
        self.steps.append(("begin", names_of(rows)))

    def finish(self, rows, residues, seconds):
        for name, of_table in rows.items():
            self.rows[name] += of_table
        self.residues += residues
        self.seconds.update(seconds)
        done = [*rows["scores"], *rows["failures"]]
        self.steps.append(("finish", sorted(names_of(done))))

    def found(self):
        made = {name: parts.TABLES[name].arrow(rows) for name, rows in self.rows.items()}
        made["per_residue"] = per_residue.joined(self.residues)
        ended = {parts.key_of(row) for row in self.rows["scores"] + self.rows["failures"]}
        return parts.Found(made, ended, seconds=self.seconds, n_processes=1)

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        assembly.write(folder, self.members, self.found(), self.plan, {"device": "cpu"})


def scored(engine, members, wants_residues=False, ended=(), alone=()):
    """What a loop finished of the members."""
    made = Scored(members, wants_residues)
    device = torch.device("cpu")
    loop = Loop(ID, engine, SETTINGS, PARAMETERS, device, FakeModel(), made, Stopwatch())
    loop.wants_residues = wants_residues
    loop.score(members, ended, alone)
    return made


def names_of(rows):
    return [Path(row["path"]).stem for row in rows]


def failed(made):
    return {Path(r["path"]).stem: (r["stage"], r["reason"]) for r in made.rows["failures"]}

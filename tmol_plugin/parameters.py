"""Stage `parameters`: one parameter database for the whole run, compiled, and its id.

TMol's rule is that poses and score function use the same database. A run therefore has
one: TMol's own, extended once by the parameter files given and the ligands prepared. What
preparation and scoring need of it is written as one file that loads in a fraction of a
second, without TMol; docs/parameters.md says what it holds.
"""

import hashlib
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tmol_plugin import tables
from tmol_plugin.config import SCORE_FUNCTIONS
from tmol_plugin.errors import RunError
from tmol_plugin.provenance import versions

# Number of the layout of tensors and lists; a file of another is made anew.
FORMAT = 1
# Metadata that changes no energy: not part of the id.
_DESCRIPTION = ("score_function", "failed")


@dataclass(frozen=True, eq=False)
class Parameters:
    """What a run prepares and scores with: tensors by name (docs/parameters.md) and lists.

    `database` is TMol's database where it is not TMol's own: the object, or its file.
    """

    tensors: dict[str, np.ndarray]
    metadata: dict
    database: object | Path | None = field(default=None, repr=False)

    @cached_property
    def id(self) -> str:
        """Hash of the content: tensors with their names, types and shapes, and metadata."""
        kept = {key: value for key, value in self.metadata.items() if key not in _DESCRIPTION}
        content = hashlib.sha256(json.dumps([FORMAT, kept], sort_keys=True).encode())
        for name, tensor in sorted(self.tensors.items()):
            content.update(f"{name} {tensor.dtype.str} {tensor.shape}".encode())
            content.update(tensor)
        return content.hexdigest()[:12]

    @property
    def score_function(self) -> str:
        """Name of TMol's score function, or path of one's own."""
        return self.metadata["score_function"]

    @property
    def residues(self) -> list[str]:
        """Residue names beyond TMol's own, sorted."""
        return self.metadata["residues"]

    @property
    def failed(self) -> dict[str, str]:
        """Residue name -> why no parameters could be generated for it."""
        return self.metadata["failed"]

    @cached_property
    def block_type_names(self) -> np.ndarray:
        """Names of the block types, [T], in the order of the tensors `block_type.*`."""
        return np.array(self.metadata["block_types"])

    @property
    def class_names(self) -> list[str]:
        """Residue names as files have them, in the order of the tensors `class.*`."""
        return self.metadata["classes"]

    def save(self, path: str | Path) -> None:
        """Write the file, and beside it TMol's database if it is not TMol's own."""
        from safetensors.numpy import save_file

        metadata = self.metadata | {"id": self.id, "format": FORMAT}
        metadata |= {"database": None, "database_sha256": None}
        if self.database is not None:
            data = pickle.dumps(load_database(self), protocol=5)
            metadata["database_sha256"] = sha256 = hashlib.sha256(data).hexdigest()
            metadata["database"] = f"database-{sha256[:12]}.pickle"
            file = Path(path).parent / metadata["database"]
            tables.write_atomically(file, lambda temporary: Path(temporary).write_bytes(data))
        # One entry: safetensors writes several in an order that differs from run to run.
        header = {"parameters": json.dumps(metadata, sort_keys=True)}
        tables.write_atomically(path, lambda temporary: save_file(self.tensors, temporary, header))


def load_parameters(path: str | Path) -> Parameters:
    """Read a file that `Parameters.save` wrote, without importing TMol or torch.

    Raises:
        RunError: if it is no such file, was changed, or its database is not there.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = json.loads(file.metadata()["parameters"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        known, written = metadata.pop("id"), metadata.pop("format")
    except (OSError, SafetensorError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{path}: is no parameters file ({error}); remove it, run again") from error
    if written != FORMAT:
        raise RunError(f"{path}: is of another version of tmol_plugin; remove it, run again")
    database, sha256 = metadata.pop("database"), metadata.pop("database_sha256")
    if database is not None:
        database = Path(path).parent / database
        if not database.is_file() or tables.file_sha256(database) != sha256:
            raise RunError(f"{database}: missing or changed; remove {path} and run again")
    parameters = Parameters(tensors, metadata, database)
    if parameters.id != known:
        raise RunError(f"{path}: its content is not what was written; remove it, run again")
    return parameters


def load_database(parameters: Parameters):
    """TMol's ParameterDatabase of a run."""
    from tmol import ParameterDatabase

    if parameters.database is None:
        return ParameterDatabase.get_default()
    if not isinstance(parameters.database, Path):
        return parameters.database
    # The file was written by this run and its hash was verified by load_parameters.
    with open(parameters.database, "rb") as file:
        return pickle.load(file)  # noqa: S301


def tmol_folder() -> Path:
    """Where TMol is installed, without importing it (seconds)."""
    spec = find_spec("tmol")
    if spec is None:
        raise RunError("tmol is not installed in this environment; `pip install tmol`")
    return Path(spec.submodule_search_locations[0])


def score_function_file(name: str) -> Path:
    """The .sfxn file of a score function: TMol's own by name, or a path."""
    if name in SCORE_FUNCTIONS:
        return tmol_folder() / "database" / "score_functions" / f"{name}.sfxn"
    path = Path(name)
    if not path.is_file():
        allowed = ", ".join(SCORE_FUNCTIONS)
        raise RunError(f"score_function: {name!r} is neither {allowed} nor an existing .sfxn file")
    return path


def load_score_function(name: str, database, device):
    """TMol's ScoreFunction of a .sfxn file; raises RunError if TMol or a table refuses it."""
    from tmol.score import ScoreFunction

    path = score_function_file(name)
    try:
        found = ScoreFunction.from_sfxn_file(str(path), database, device)
    # Its YAML, its version, its score types: TMol raises errors of many kinds.
    except Exception as error:
        raise RunError(f"score_function: TMol refuses {path}: {error}") from error
    strange = sorted({kind.name for kind in found.all_score_types()} - set(tables.SCORE_TYPES))
    if strange:
        raise RunError(
            f"score_function: {path} weights {', '.join(strange)}, which no table column"
            " holds; remove them"
        )
    return found


def compile_parameters(
    score_function: str = "beta2016",
    ligand_params: Sequence[str] = (),
    index_files: Sequence[str] = (),
    ligand_seed: int = 0,
) -> Parameters:
    """Compile TMol's database, extended by what is asked for.

    Args:
        score_function: name of one of TMol's, or path of a .sfxn file.
        ligand_params: TMol parameter files to add to the database.
        index_files: the scan's index, to generate parameters for the residues that it
            lists as unrecognized; empty to generate none.
        ligand_seed: of the conformers that generated parameters are built from.

    Raises:
        RunError: if a file is not there or TMol refuses it.
    """
    import torch

    from tmol_plugin import ligands

    file = score_function_file(score_function)
    names = ligands.residue_names(ligand_params)
    wanted = ligands.examples(index_files)
    base, extended, failed = ligands.extended_database(ligand_params, wanted, ligand_seed)
    residues = sorted({*names, *wanted}.difference(failed))
    function = load_score_function(score_function, extended, torch.device("cpu"))
    try:
        tensors, lists = _compiled(extended, function)
    # Incomplete residues fail anywhere in TMol, with errors of many kinds.
    except Exception as error:
        if extended is base:
            raise
        raise RunError(
            f"TMol cannot use the parameters given or generated for {', '.join(residues)}:"
            f" {_words(error)}; remove these residues from ligand_params or from the input"
        ) from error
    given = [tables.file_sha256(path) for path in (file, *ligand_params)]
    # What is compiled makes the id, and so does what TMol itself scores beside it.
    sources = {
        "tmol": versions()["tmol"],
        "database": _tree_sha256(tmol_folder() / "database" / "default"),
        "files": given,
        "added": ligands.added_sha256(base, extended),
    }
    described = {
        "score_function": score_function,
        "residues": residues,
        "failed": failed,
        "sources": sources,
    }
    return Parameters(tensors, lists | described, None if extended is base else extended)


def _compiled(database, score_function) -> tuple[dict[str, np.ndarray], dict]:
    from tmol_plugin import compiled_chemistry, compiled_scoring

    context = compiled_chemistry.build_context(database)
    tensors, lists = compiled_chemistry.chemistry(context)
    scored, scored_lists = compiled_scoring.scoring(context, score_function)
    # safetensors writes memory as it lies, whatever an array's strides.
    stored = {name: np.ascontiguousarray(array) for name, array in (tensors | scored).items()}
    return stored, lists | scored_lists


def _words(error: BaseException) -> str:
    """What went wrong, also where it is wrapped in groups of exceptions, as cattrs does."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def run(
    output: str,
    score_function: str,
    ligand_params: Sequence[str],
    index_files: Sequence[str],
    ligand_seed: int,
) -> None:
    """Write what `compile_parameters` makes of its arguments to a file."""
    compile_parameters(score_function, ligand_params, index_files, ligand_seed).save(output)


def _tree_sha256(folder: Path) -> str:
    """Hash of the files under a folder, by their relative paths."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    listed = [(p.relative_to(folder).as_posix(), tables.file_sha256(p)) for p in files]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

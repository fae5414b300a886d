"""Stage `parameters`: one parameter database for the whole run, and its id.

TMol's rule is that poses and score function use the same database. A run therefore has
one: TMol's own, extended once by the parameter files given and the ligands prepared.
"""

import hashlib
import json
import pickle
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from tmol_plugin import tables
from tmol_plugin.config import SCORE_FUNCTIONS
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.provenance import versions

# Structures to try for one residue name, before it is given up: one copy may be damaged.
MAX_EXAMPLES = 3


@dataclass(frozen=True)
class Parameters:
    """A run's parameters as parameters.json describes them.

    `database` is the file of an extended database (None: TMol's own) and its hash;
    `failed` says of residue names why no parameters could be generated.
    """

    id: str
    score_function: str
    residues: list[str]
    failed: dict[str, str]
    database: str | None
    database_sha256: str | None

    @classmethod
    def load(cls, path: str | Path) -> "Parameters":
        """Read parameters.json; raises RunError if it is none or its database is not there."""
        try:
            found = cls(**json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise RunError(
                f"{path}: is no parameters file ({error}); remove it, run again"
            ) from error
        if found.database is None:
            return found
        file = Path(path).parent / found.database
        if not file.is_file() or tables.file_sha256(file) != found.database_sha256:
            raise RunError(f"{file}: missing or changed; remove {path} and run again")
        return cls(**(found.__dict__ | {"database": str(file)}))


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


def residue_names(ligand_params: list[str]) -> list[str]:
    """The residue names that TMol parameter files define, sorted; without importing TMol."""
    import yaml

    names = set()
    for path in ligand_params:
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
            residues = content["chemical"]["residues"]
            names.update(
                str(r.get("io_equiv_class") or r.get("name3") or r["name"]) for r in residues
            )
        except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"ligand_params: {path!r} is not a TMol parameter file with `chemical: residues:`"
                f" ({type(error).__name__}: {error})"
            ) from error
    return sorted(names)


def run(
    output: str,
    score_function: str,
    ligand_params: list[str],
    index_files: list[str],
    ligand_seed: int,
) -> None:
    """Write parameters.json, and beside it the extended database if there is one.

    Args:
        index_files: the scan's index, to generate parameters for the residues that it
            lists as unrecognized; empty to generate none.
    """
    content = [versions()["tmol"], _tree_sha256(tmol_folder() / "database" / "default")]
    content.append(score_function_file(score_function).read_text(encoding="utf-8"))
    names, failed, database, database_sha256 = residue_names(ligand_params), {}, None, None
    content += [Path(path).read_text(encoding="utf-8") for path in ligand_params]
    wanted = _examples(index_files)
    if ligand_params or wanted:
        base, extended, failed = _extended_database(ligand_params, wanted, ligand_seed)
        names = sorted({*names, *wanted}.difference(failed))
        if extended is not base:
            content.append(_added(base, extended))
            database, database_sha256 = _write_database(Path(output).parent, extended)
    parameters_id = tables.digest(content)
    described = Parameters(parameters_id, score_function, names, failed, database, database_sha256)
    tables.write_json(output, described.__dict__)


def _tree_sha256(folder: Path) -> str:
    """Hash of the files under a folder, by their relative paths."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    listed = [(p.relative_to(folder).as_posix(), tables.file_sha256(p)) for p in files]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def _examples(index_files: list[str]) -> dict[str, list[tuple[str, int]]]:
    """Unrecognized residue name -> (path, model) of structures that hold it.

    The first few by id: which structures a name is prepared from may not depend on the
    order of the input.
    """
    frames = [tables.read_parquet(path, tables.INDEX) for path in index_files]
    if not frames:
        return {}
    index = pd.concat(frames, ignore_index=True)
    index = index[index["unrecognized"].fillna("") != ""]
    examples: dict[str, list[tuple[str, int]]] = {}
    for row in index.sort_values(["structure_id", "model"]).itertuples():
        for name in row.unrecognized.split(","):
            known = examples.setdefault(name, [])
            if len(known) < MAX_EXAMPLES:
                known.append((tables.unescape(row.path), int(row.model)))
    return dict(sorted(examples.items()))


def _extended_database(ligand_params, wanted, seed):
    """TMol's database, and it with the files' and generated residues; why names failed."""
    from tmol import ParameterDatabase
    from tmol.ligand import inject_params_files

    base = ParameterDatabase.get_default()
    database, failed = base, {}
    if ligand_params:
        try:
            database = inject_params_files(base, list(ligand_params))
        # Its YAML, its version, its fields: TMol raises errors of many kinds.
        except Exception as error:
            raise RunError(f"ligand_params: TMol refuses {ligand_params}: {error}") from error
    for name, examples in wanted.items():
        failed[name] = "no structure that holds it could be read"
        # From each, also once the name is known: they may be bonded to other residues.
        for path, model in examples:
            database, failed[name] = _prepare(database, name, path, model, seed)
        if name in _classes(database):
            del failed[name]
    return base, database, failed


def _classes(database) -> set[str]:
    return {residue.io_equiv_class for residue in database.chemical.residues}


def _prepare(database, name: str, path: str, model: int, seed: int):
    """The database with parameters for a structure's unknown residues, or why not."""
    import torch
    from tmol.io import atom_array_from_file, build_context_from_atom_array

    from tmol_plugin.policy import Policy, read_structure
    from tmol_plugin.reading import Source

    policy = Policy(missing_side_chains="rebuild", defer_unrecognized=True)
    try:
        structure = read_structure(Source(path), model, policy)
    except StructureError as error:
        return database, error.message
    try:
        array = atom_array_from_file(structure.to_cif(), "cif")
        # What else in the structure cannot be prepared must not stop this residue.
        context = build_context_from_atom_array(
            array,
            torch.device("cpu"),
            param_db=database,
            prepare_ligands=True,
            strict_ligands=False,
            ligand_seed=seed,
        )
        if name in _classes(context.parameter_database):
            return context.parameter_database, ""
        # It was skipped with a warning; asked strictly, TMol says why.
        build_context_from_atom_array(
            array[array.res_name == name],
            torch.device("cpu"),
            param_db=database,
            prepare_ligands=True,
            ligand_seed=seed,
        )
        return database, f"{path}: TMol prepares {name} alone, but not in this structure"
    # TMol, RDKit and Open Babel raise errors of many kinds for chemistry they cannot treat.
    except Exception as error:
        return database, f"{path}: {type(error).__name__}: {error}"


def _added(base, extended) -> str:
    """What a database holds beyond another, as text that is the same on every machine."""
    known = set(map(id, base.chemical.residues))
    residues = [r for r in extended.chemical.residues if id(r) not in known]
    names = {r.name for r in residues} | {r.base_name for r in residues}
    charges = [c for c in extended.scoring.elec.atom_charge_parameters if c.res in names]
    cart = extended.scoring.cartbonded.residue_params
    return repr([residues, charges, {n: cart[n] for n in sorted(names) if n in cart}])


def _write_database(folder: Path, database) -> tuple[str, str]:
    data = pickle.dumps(database, protocol=5)
    sha256 = hashlib.sha256(data).hexdigest()
    name = f"database-{sha256[:12]}.pickle"
    tables.write_atomically(folder / name, lambda temporary: Path(temporary).write_bytes(data))
    return name, sha256


def load_database(parameters: Parameters):
    """TMol's ParameterDatabase of a run."""
    from tmol import ParameterDatabase

    if parameters.database is None:
        return ParameterDatabase.get_default()
    # The file was written by this run and its hash was verified by Parameters.load.
    with open(parameters.database, "rb") as file:
        return pickle.load(file)  # noqa: S301

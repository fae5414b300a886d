"""Residues that TMol does not know: its database extended by them, once per run."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tmol_plugin import tables
from tmol_plugin.errors import RunError, StructureError

# Structures to try for one residue name, before it is given up: one copy may be damaged.
MAX_EXAMPLES = 3


def residue_names(ligand_params: Sequence[str]) -> list[str]:
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


def examples(index_files: Sequence[str]) -> dict[str, list[tuple[str, int]]]:
    """Unrecognized residue name -> (path, model) of structures that hold it.

    The first few by id: which structures a name is prepared from may not depend on the
    order of the input.
    """
    frames = [tables.read_parquet(path, tables.INDEX) for path in index_files]
    if not frames:
        return {}
    index = pd.concat(frames, ignore_index=True)
    index = index[index["unrecognized"].fillna("") != ""]
    found: dict[str, list[tuple[str, int]]] = {}
    for row in index.sort_values(["structure_id", "model"]).itertuples():
        for name in row.unrecognized.split(","):
            known = found.setdefault(name, [])
            if len(known) < MAX_EXAMPLES:
                known.append((tables.unescape(row.path), int(row.model)))
    return dict(sorted(found.items()))


def extended_database(ligand_params, wanted, seed):
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
    for name, sources in wanted.items():
        failed[name] = "no structure that holds it could be read"
        # From each, also once the name is known: they may be bonded to other residues.
        for path, model in sources:
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


def added_sha256(base, extended) -> str:
    """Hash of what a database holds beyond another: the same on every machine."""
    known = set(map(id, base.chemical.residues))
    residues = [r for r in extended.chemical.residues if id(r) not in known]
    names = {r.name for r in residues} | {r.base_name for r in residues}
    charges = [c for c in extended.scoring.elec.atom_charge_parameters if c.res in names]
    cart = extended.scoring.cartbonded.residue_params
    text = repr([residues, charges, {n: cart[n] for n in sorted(names) if n in cart}])
    return hashlib.sha256(text.encode()).hexdigest()

"""From a file to a `Pose`, natively: gemmi reads, the compiled library does the rest.

Plain files go straight from gemmi's arrays to the library. What is not plain (numbers that
come again, odd columns, whatever the policy refuses) goes through the careful reader and the
policy, which tells what is wrong, or hands the residues over as they are meant.
"""

import logging
import weakref
from dataclasses import dataclass
from pathlib import Path

import gemmi
import numpy as np

from tmol_plugin import native
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.naming import padded_names, preparation_arrays
from tmol_plugin.parameters import Parameters
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.pose import Pose
from tmol_plugin.reading import Source, reasoned
from tmol_plugin.residues import Structure

# Columns of an mmCIF file that make gemmi's reading of it the one that is meant.
_COLUMNS = frozenset(
    f"_atom_site.{name}"
    for name in (
        *("id", "type_symbol", "label_atom_id", "label_alt_id", "label_comp_id"),
        *("label_asym_id", "auth_seq_id", "auth_asym_id", "Cartn_x", "Cartn_y", "Cartn_z"),
        "occupancy",
    )
)
DEFAULT = Policy()
log = logging.getLogger(__name__)
# Of an mmCIF file: atoms of all models, each model's rows of them, and declared bonds.
_Cif = tuple[native.Atoms, dict[int, slice], bytes]
# What was parsed of files of several models, as long as a file is open.
_CIFS: "weakref.WeakKeyDictionary[Source, _Cif]" = weakref.WeakKeyDictionary()
_NO_BONDS = np.empty((0, 2), np.int32)
# Counts of the library that hold for residues that went through the policy before.
_SEEN_LAST = ("atoms_built", "hydrogens_unused")


class NotCoveredError(StructureError):
    """A structure that is sound, and whose chemistry only upstream TMol prepares.

    `structure` are its residues under the policy, if it was read in this process.
    """

    def __init__(self, message: str, structure: Structure | None):
        super().__init__("unsupported_chemistry", message)
        self.structure = structure


def read_pose(
    source: Source | str | Path,
    parameters: Parameters,
    hydrogens: str = "keep",
    model: int | None = None,
    policy: Policy = DEFAULT,
) -> Pose:
    """Prepare one model of a PDB or mmCIF file.

    Args:
        source: a path, or a file that was opened already.
        parameters: what the block types are taken from.
        hydrogens: keep (missing ones are built), or optimize, which is not covered.
        model: number of the model, as the file counts; None for its first.
        policy: what becomes of residues and atoms that cannot be scored.

    Returns:
        Pose: with `notes` of what was dropped, built and chosen.

    Raises:
        NotCoveredError: if only upstream TMol prepares such a structure.
        StructureError: with a reason of `errors.REASONS` and a message that names the file
            and the residues, if the structure cannot be scored.
        RunError: `hydrogens` is neither of its values.
    """
    if hydrogens not in ("keep", "optimize"):
        raise RunError(f"hydrogens is {hydrogens!r}: give 'keep' or 'optimize'")
    source = source if isinstance(source, Source) else Source(str(source))
    if hydrogens != "keep":
        structure = read_structure(source, _number_of(source, model), policy)
        raise NotCoveredError(f"{source.path}: hydrogens: {hydrogens}", structure)
    return make_pose(prepare_file(source, tables_of(parameters), model, policy), parameters)


def _number_of(source: Source, model: int | None) -> int:
    return model or source.first_model or next(iter(source.models), 1)


def prepare_file(
    source: Source, tables: native.Tables, model: int | None, policy: Policy
) -> "Result":
    """What `read_pose` makes a pose of; needs no Parameters, so that any process can do it."""
    model = _number_of(source, model)
    with reasoned(source.path):
        try:
            atoms, bonds, partners = read_plain(source, model)
            prepared = native.prepare(tables, atoms, bonds, partners)
            return Result(prepared, _labels(atoms, prepared.first_atoms), prepared.counts)
        except native.NotPlain as why:
            log.debug("%s: read with care: %s", source.path, why)
    structure = read_structure(source, model, policy)
    with reasoned(source.path):
        return _prepare_structure(structure, tables)


@dataclass(frozen=True)
class Result:
    """A structure prepared, as plain arrays: `labels` are (chain, number) of the blocks."""

    prepared: native.Prepared
    labels: list[tuple[str, str]]
    notes: dict[str, int]


def _prepare_structure(structure: Structure, tables: native.Tables) -> Result:
    try:
        atoms, bonds = _atoms_of(structure)
        prepared = native.prepare(tables, atoms, bonds, b"")
    except native.NotPlain as why:
        raise NotCoveredError(f"{structure.path}: {why}", structure) from why
    labels = [residue.place for residue in structure.residues]
    # Names, conformers and waters were the reader's; the library saw what came of them.
    notes = structure.notes | {name: prepared.counts[name] for name in _SEEN_LAST}
    return Result(prepared, labels, notes)


def make_pose(result: Result, parameters: Parameters) -> Pose:
    """The pose of what was prepared with these parameters' tables."""
    prepared, notes = result.prepared, dict(result.notes)
    histidine = parameters.class_names.index("HIS")
    kinds = parameters.tensors["block_type.class"][prepared.block_types]
    for block_type in prepared.block_types[kinds == histidine].tolist():
        name = parameters.metadata["base_names"][block_type]
        notes[name] = notes.get(name, 0) + 1
    # By the first block, not the declared ones before those found.
    pairs = sorted(prepared.disulfides.tolist())
    named = [[":".join(result.labels[b]) for b in pair] for pair in pairs]
    notes["disulfides"] = ",".join("-".join(pair) for pair in named)
    return Pose(
        parameters,
        prepared.coords,
        prepared.block_types,
        prepared.block_atom_offsets,
        prepared.connections,
        prepared.chain_of_block,
        result.labels,
        notes,
        trusted=True,
    )


def read_plain(source: Source, model: int) -> tuple[native.Atoms, np.ndarray, bytes]:
    """The atoms of a model as gemmi reads them, and declared bonds as `native.prepare` takes them.

    Raises:
        NotPlain: if gemmi refuses the file, or would not read it as it is meant.
    """
    try:
        return (_read_cif if source.is_cif else _read_pdb)(source, model)
    except (ValueError, RuntimeError, IndexError) as error:  # gemmi's
        raise native.NotPlain(str(error)) from error


def _read_pdb(source: Source, model: int):
    scan = native.scan_pdb(source.text_with(model), model)
    flat = gemmi.FlatStructure(gemmi.read_pdb_string(scan.text))
    if len(flat.serials) != len(scan.segments):
        raise native.NotPlain("atoms that the parser left out")
    atoms = _atoms(flat, None, scan.segments, scan.serials)
    return atoms, scan.bonds, scan.partners


def _read_cif(source: Source, model: int):
    atoms, rows, partners = _CIFS.get(source) or _parse_cif(source)
    if len(rows) > 1 or model not in rows:
        # The next model is asked for next: the file is parsed once for all.
        _CIFS[source] = atoms, rows, partners
        if model not in rows or sorted(source.models) != sorted(rows):
            raise native.NotPlain("models without numbers of their own")
        arrays = {name: getattr(atoms, name) for name in atoms.__dataclass_fields__}
        atoms = native.Atoms(**{n: a if a is None else a[rows[model]] for n, a in arrays.items()})
    return atoms, _NO_BONDS, partners


def _parse_cif(source: Source) -> _Cif:
    block = source.block
    tags = set(block.find_mmcif_category("_atom_site.").tags)
    if not tags >= _COLUMNS:
        raise native.NotPlain("columns that are missing")
    for name in ("atom_id", "comp_id"):
        author = block.find_values(f"_atom_site.auth_{name}")
        if author and list(author) != list(block.find_values(f"_atom_site.label_{name}")):
            raise native.NotPlain("names by the author besides the wwPDB's")
    block.find_mmcif_category("_struct_conn.")  # refuses a loop that mixes categories
    read = gemmi.make_structure_from_block(block)
    flat = gemmi.FlatStructure(read)
    numbers = flat.model_num
    if len(numbers) != len(block.find_values("_atom_site.Cartn_x")):
        raise native.NotPlain("atoms that the parser left out")
    # gemmi takes a residue's from its first atom; where it changes, a chain ends.
    labels = block.find_values("_atom_site.label_asym_id")
    if not np.array_equal(np.array(labels, "S8"), flat.subchains.view("S8")[:, 0]):
        raise native.NotPlain("a residue in two chains, or atoms in another order")
    partners = b"".join(
        native.partner(end.chain_name, end.res_id.seqid.num, end.res_id.seqid.icode, end.atom_name)
        for connection in read.connections
        if connection.type != gemmi.ConnectionType.Hydrog
        and connection.asu != gemmi.Asu.Different
        and None not in (c.res_id.seqid.num for c in (connection.partner1, connection.partner2))
        for end in (connection.partner1, connection.partner2)
    )
    # gemmi lists a model's atoms in one piece.
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
    ends = [*starts[1:].tolist(), len(numbers)]
    rows = {int(numbers[start]): slice(start, end) for start, end in zip(starts, ends, strict=True)}
    return _atoms(flat, flat.subchains, None, None), rows, partners


def _atoms(flat: gemmi.FlatStructure, subchains, segments, serials) -> native.Atoms:
    return native.Atoms(
        flat.atom_names,
        flat.residue_names,
        flat.chain_ids,
        subchains,
        segments,
        flat.resnums,
        flat.icodes,
        flat.altlocs,
        flat.serials,
        serials,
        flat.occ,
        flat.pos,
    )


def _atoms_of(structure: Structure) -> tuple[native.Atoms, np.ndarray]:
    """The arrays of residues that went through the policy: one conformer, the wwPDB's names."""
    residues = structure.residues
    sizes = [len(residue.atoms) for residue in residues]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    names = [atom for residue in residues for atom in residue.atoms]
    longest = max(map(len, [*names, *(residue.name for residue in residues)]), default=0)
    if longest > 8 or not all(map(str.isascii, names)):
        raise native.NotCovered("a name of more than eight letters")
    numbers = np.repeat(np.arange(len(residues), dtype=np.int32), sizes)
    n_atoms = len(names)
    atoms = native.Atoms(
        padded_names(names),
        padded_names([residue.name for residue in residues])[numbers],
        np.zeros((n_atoms, 8), np.uint8),
        None,
        np.repeat(np.array(structure.chain_of, np.int32), sizes),
        numbers,
        np.full(n_atoms, ord(" "), np.uint8),
        np.zeros(n_atoms, np.uint8),
        None,
        None,
        np.ones(n_atoms, np.float32),
        np.concatenate([residue.coords for residue in residues]),
    )
    bonds = [
        [starts[index] + residues[index].atoms.index(atom) for index, atom in (first, second)]
        for first, second, _ in structure.bonds
    ]
    return atoms, np.array(bonds, np.int32).reshape(-1, 2)


def _labels(atoms: native.Atoms, first: np.ndarray) -> list[tuple[str, str]]:
    """(chain, number with insertion code) of each residue, as messages have them."""
    chains = np.ascontiguousarray(atoms.chain_ids[first]).view("S8")[:, 0].tolist()
    numbers = atoms.residue_numbers[first].tolist()
    codes = atoms.insertion_codes[first].tobytes().decode("latin-1")
    return [
        (chain.decode("latin-1") or "_", f"{number}{code.strip()}")
        for chain, number, code in zip(chains, numbers, codes, strict=True)
    ]


_TABLES: "weakref.WeakKeyDictionary[Parameters, native.Tables]" = weakref.WeakKeyDictionary()


def tables_of(parameters: Parameters) -> native.Tables:
    """The library's copy of the parameters; made once."""
    tables = _TABLES.get(parameters)
    if tables is None:
        tables = _TABLES[parameters] = native.Tables(preparation_arrays(parameters))
    return tables

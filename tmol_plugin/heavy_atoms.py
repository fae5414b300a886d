"""A chemistry of heavy atoms alone, with which the native library reads files for the scan.

What a file holds (residues, chains, conformers, what is missing) does not hang on hydrogens,
nor on TMol: this is made from `chemistry` in milliseconds, and the scan waits for nothing.
"""

from functools import cache

import numpy as np

from tmol_plugin import chemistry, native
from tmol_plugin.naming import name_arrays, padded_names

_CLASSES = sorted(chemistry.AMINO_ACIDS)
_DOWN, _MID, _UP, _BOTH = range(4)  # termini in TMol's order
_N_VARIANTS = 2  # a cysteine is plain, or of a disulfide
# Names that the library looks up in any chemistry; no file's atoms are read as these here.
_OF_HISTIDINE = ("HD1", "HE2")


@cache
def tables() -> native.Tables:
    """The library's tables of this chemistry."""
    return native.Tables(_arrays())


def summary(atoms: native.Atoms, bonds: np.ndarray, partners: bytes) -> dict:
    """What a scan says of a model, as columns of tables.INDEX; `notes` as the policy counts.

    Raises:
        NotPlain: if only the careful reader can tell.
    """
    found = native.prepare(tables(), atoms, bonds, partners)
    notes = found.counts
    # The pose has the file's heavy atoms, and the terminal oxygens that were built.
    n_heavy_atoms = len(found.coords) - notes.pop("atoms_built")
    del notes["hydrogens_unused"]
    n_chains = int(found.chain_of_block[-1]) + 1
    sizes = np.array(
        [len(chemistry.HEAVY_ATOMS[name]) + chemistry.HYDROGENS[name] for name in _CLASSES]
    )
    classes = _block_types()[0][found.block_types]
    return {
        "n_residues": len(found.block_types),
        "n_heavy_atoms": n_heavy_atoms,
        "n_atoms": int(sizes[classes].sum()) + 3 * n_chains,
        "n_chains": n_chains,
        "chemistry": "protein",
        "notes": notes,
    }


def _atoms_of(name: str) -> list[str]:
    return [*chemistry.HEAVY_ATOMS[name], "OXT"]


@cache
def _block_types() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class, terminus and variant of each block type, int32 [T]; by class, terminus, variant."""
    rows = [
        (index, terminus, variant)
        for index, name in enumerate(_CLASSES)
        for terminus in (_DOWN, _MID, _UP, _BOTH)
        for variant in range(_N_VARIANTS if name == "CYS" else 1)
    ]
    return tuple(map(_int32, zip(*rows, strict=True)))


def _hydrogens_of(name: str) -> list[str]:
    """Hydrogens that files call by several names: one that comes twice must be noticed."""
    aliases = [alias for alias, meant in chemistry.RESIDUE_ALIASES.items() if meant == name]
    atoms = {
        chemistry.atom_name(name, atom, "", written)
        for written in (name, *aliases)
        for atom in chemistry.atom_aliases(name, written)
    }
    return sorted(atoms.difference(_atoms_of(name)))


def _arrays() -> dict[str, np.ndarray]:
    """The arrays that `native.Tables` takes."""
    canonical = {
        name: {a: i for i, a in enumerate([*_atoms_of(name), *_hydrogens_of(name)])}
        for name in _CLASSES
    }
    width = max(map(len, canonical.values())) + len(_OF_HISTIDINE)
    cells = (len(_CLASSES), width)
    arrays = name_arrays(_CLASSES, canonical, cells)
    extra = {"HIS": dict(zip(_OF_HISTIDINE, range(width - len(_OF_HISTIDINE), width)))}
    aliases = {name: canonical[name] | extra.get(name, {}) for name in _CLASSES}
    arrays |= {
        "class.name": padded_names(_CLASSES),
        "class.alias_offset": _offsets([len(aliases[name]) for name in _CLASSES]),
        "alias.name": padded_names([atom for name in _CLASSES for atom in aliases[name]]),
        "alias.canonical": _int32([i for name in _CLASSES for i in aliases[name].values()]),
        "class.is_canonical_protein": np.ones(len(_CLASSES), np.uint8),
        "class.amine_atom": np.full(len(_CLASSES), -1, np.int32),
        "class.has_deprotonated": np.zeros(len(_CLASSES), np.uint8),
        "class.expects_titratable": np.zeros((len(_CLASSES), _N_VARIANTS), np.uint8),
        "class.fixed_hydrogens": np.full(cells, -1, np.int8),
        "class.hydrogen_parent": np.full(cells, -1, np.int32),
        "policy.deprotonated_variant": _int32([-1]),
    }
    for name in ("any_hydrogen", "titratable", "shared_hydrogen", "varying_atom"):
        arrays[f"class.{name}"] = np.zeros(cells, np.uint8)
    return arrays | _block_type_arrays(width)


def _block_type_arrays(width: int) -> dict[str, np.ndarray]:
    classes, termini, variants = _block_types()
    candidates = [[] for _ in range(len(_CLASSES) * 4 * _N_VARIANTS)]
    present = np.zeros((len(classes), width), np.uint8)
    n_atoms, n_connections, parents = [], [], []
    connections = {"down": [], "up": [], "disulfide": []}
    for block_type, (index, terminus, variant) in enumerate(
        zip(classes.tolist(), termini.tolist(), variants.tolist(), strict=True)
    ):
        atoms = _atoms_of(_CLASSES[index])
        atoms = atoms if terminus in (_UP, _BOTH) else atoms[:-1]
        present[block_type, : len(atoms)] = 1
        # Every form takes all hydrogens: none tells forms apart here.
        present[block_type, len(_atoms_of(_CLASSES[index])) :] = 1
        n_atoms.append(len(atoms))
        # OXT stands where O would, turned about the bond from CA to C.
        parents += [[atoms.index(parent) for parent in ("C", "CA", "O")]] * len(atoms)
        own = ["down"] * (terminus in (_MID, _UP)) + ["up"] * (terminus in (_MID, _DOWN))
        own += ["disulfide"] * variant
        for name, numbers in connections.items():
            numbers.append(own.index(name) if name in own else -1)
        n_connections.append(len(own))
        candidates[(index * 4 + terminus) * _N_VARIANTS + variant].append(block_type)
    total = sum(n_atoms)
    frame = np.full((total, 3, 3), -1, np.int32)
    frame[:, :, 0] = parents
    nonterminal = present.copy()
    for block_type, index in enumerate(classes.tolist()):
        nonterminal[block_type, len(_atoms_of(_CLASSES[index])) - 1 :] = 0
    starts = np.repeat(_offsets(n_atoms)[:-1], n_atoms)
    return {
        "block_type.class": classes,
        "block_type.terminus": termini,
        "block_type.variant": variants,
        "block_type.atom_offset": _offsets(n_atoms),
        "block_type.connection_offset": _offsets(n_connections),
        **{f"block_type.{name}_connection": _int32(n) for name, n in connections.items()},
        "block_type.is_non_default_terminus": np.zeros(len(classes), np.uint8),
        "block_type.canonical_absent": 1 - present,
        "block_type.canonical_nonterm_present": nonterminal,
        "candidate.offset": _offsets([len(row) for row in candidates]),
        "candidate.block_type": _int32([kind for row in candidates for kind in row]),
        "atom.canonical": np.arange(total, dtype=np.int32) - starts.astype(np.int32),
        "atom.is_leaf": np.ones(total, np.uint8),
        "atom.frame": frame,
        "atom.frame_geometry": np.tile(np.array([np.pi, 1.0, 1.25], np.float32), (total, 1)),
        "atom.backup_frame": frame,
        "atom.backup_frame_geometry": np.tile(np.array([np.pi, 1.0, 1.25], np.float32), (total, 1)),
        "connection.downstream": np.full((sum(n_connections), width), -1, np.int32),
    }


def _int32(values) -> np.ndarray:
    return np.array(values, np.int32)


def _offsets(counts: list[int]) -> np.ndarray:
    return _int32([0, *np.cumsum(counts)])

"""What files may call residues and atoms, as tables for the native library.

The rules are those of `chemistry`; here they are applied to every name that TMol knows, so
that the library finds by one look-up what a name means.
"""

import numpy as np

from tmol_plugin import chemistry
from tmol_plugin.parameters import Parameters


def preparation_arrays(parameters: Parameters) -> dict[str, np.ndarray]:
    """The arrays that `native.Tables` takes: the parameters' chemistry and the names."""
    tensors = parameters.tensors
    shape = tensors["class.any_hydrogen"].shape
    deprotonated = np.flatnonzero(parameters.block_type_names == "CYS_DEP")
    return (
        tensors
        | name_arrays(parameters.class_names, _canonical_atoms(parameters), shape)
        | {"policy.deprotonated_variant": tensors["block_type.variant"][deprotonated]}
    )


def name_arrays(
    classes: list[str],
    canonical: dict[str, dict[str, int]],
    shape: tuple[int, int],
) -> dict[str, np.ndarray]:
    """What files may call the residues of classes, and their atoms.

    - written.residue uint8 [W, 8], written.class int32 [W], written.flags uint8 [W]: names
      of residues, the class that each means, 1 if that has another name, 2 if it is MSE;
    - written.atom_offset int32 [W + 1], written.atom_name uint8 [n, 8],
      written.atom_canonical int32 [n], written.is_deuterium uint8 [n]: names of their atoms;
    - policy.required uint8 [K, M]: heavy atoms that a residue of a class must have;
    - policy.water uint8 [n, 8].

    Args:
        classes: names of the K classes; those of the amino acids are used.
        canonical: class name -> name of an atom -> the atom's number in the class, below M.
        shape: (K, M)
    """
    class_of = {name: index for index, name in enumerate(classes)}
    residues, means, flags, offsets = [], [], [], [0]
    names, atoms, deuterium = [], [], []
    aliases = [a for a, name in chemistry.RESIDUE_ALIASES.items() if name in chemistry.AMINO_ACIDS]
    for written in sorted({*chemistry.AMINO_ACIDS, *aliases}):
        name = chemistry.RESIDUE_ALIASES.get(written, written)
        residues.append(written)
        means.append(class_of[name])
        flags.append((written != name) + 2 * (written == "MSE"))
        for raw, atom, element in _written_atoms(name, written, canonical[name]):
            names.append(raw)
            atoms.append(atom)
            deuterium.append(element == "D")
        offsets.append(len(names))
    required = np.zeros(shape, np.uint8)
    for name in chemistry.AMINO_ACIDS:
        for atom in chemistry.HEAVY_ATOMS[name]:
            required[class_of[name], canonical[name][atom]] = 1
    return {
        "written.residue": padded_names(residues),
        "written.class": np.array(means, np.int32),
        "written.flags": np.array(flags, np.uint8),
        "written.atom_offset": np.array(offsets, np.int32),
        "written.atom_name": padded_names(names),
        "written.atom_canonical": np.array(atoms, np.int32),
        "written.is_deuterium": np.array(deuterium, np.uint8),
        "policy.required": required,
        "policy.water": padded_names(sorted(chemistry.WATERS)),
    }


def padded_names(names: list[str]) -> np.ndarray:
    """uint8 [n, 8], padded with NUL"""
    return np.array(names, dtype="S8").view(np.uint8).reshape(-1, 8)


def _canonical_atoms(parameters: Parameters) -> dict[str, dict[str, int]]:
    """Class name -> each name that TMol has for an atom -> the atom's canonical index."""
    tensors = parameters.tensors
    names = np.ascontiguousarray(tensors["alias.name"]).view("S8")[:, 0].astype("U8").tolist()
    offsets, canonical = tensors["class.alias_offset"].tolist(), tensors["alias.canonical"].tolist()
    return {
        name: dict(zip(names[begin:end], canonical[begin:end], strict=True))
        for name, begin, end in zip(parameters.class_names, offsets, offsets[1:], strict=False)
    }


def _written_atoms(name: str, written: str, canonical: dict[str, int]):
    """(name in a file, canonical atom, element's letter) of a residue that is called `written`."""
    known = {*chemistry.HEAVY_ATOMS[name], *chemistry.OPTIONAL_ATOMS[name]}
    raw_names = {*canonical, *chemistry.atom_aliases(name, written)}
    for raw in sorted(raw_names | {_deuterium(raw) for raw in raw_names}):
        element = raw.lstrip("0123456789")[:1]
        atom = chemistry.atom_name(name, raw, element, written)
        # A heavy atom must have its own name; hydrogens may have any that TMol takes.
        if atom in canonical and (element in "HD" or atom in known):
            yield raw, canonical[atom], element


def _deuterium(hydrogen: str) -> str:
    letters = hydrogen.lstrip("0123456789")
    if not letters.startswith("H"):
        return hydrogen
    return f"{hydrogen[: -len(letters)]}D{letters[1:]}"

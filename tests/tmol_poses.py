"""From TMol's objects: parameters of its block types, and a `Pose` of its PoseStack.

An oracle for what this package compiles and prepares itself: nothing here is shared with it.
"""

from types import SimpleNamespace

import numpy as np
import torch
from tmol import pose_stack_from_file

from tmol_plugin.pose import Pose

CPU = torch.device("cpu")


def read_tmol(path, **options):
    """TMol's pose of a file, hydrogens kept."""
    return pose_stack_from_file(str(path), CPU, no_optH=True, **options)


def parameters_of(packed, identity="0123456789ab", order=None):
    """What a pose needs of the compiled parameters, from TMol's packed block types.

    Args:
        order: indices of the block types, in the order that they are to have; TMol's if None.
    """
    types = packed.active_block_types
    types = [types[i] for i in (range(len(types)) if order is None else order)]
    elements = {kind.name: kind.element for kind in packed.chem_db.atom_types}
    classes = sorted({kind.io_equiv_class for kind in types})
    polymers = {kind.io_equiv_class for kind in types if kind.properties.polymer.is_polymer}
    atoms = [atom for kind in types for atom in kind.atoms]
    disulfide = [kind.connection_to_cidx.get("dslf", -1) for kind in types]
    tensors = {
        "block_type.class": _int32([classes.index(kind.io_equiv_class) for kind in types]),
        "block_type.atom_offset": _offsets([len(kind.atoms) for kind in types]),
        "block_type.connection_offset": _offsets([len(kind.connections) for kind in types]),
        "block_type.disulfide_connection": _int32(disulfide),
        "atom.name": _names([atom.name for atom in atoms]),
        "atom.element": np.array(
            [_atomic_number(elements[atom.atom_type]) for atom in atoms], dtype=np.uint8
        ),
        "class.name": _names(classes),
        "class.is_polymer": np.array([name in polymers for name in classes], dtype=np.uint8),
    }
    names = np.array([kind.name for kind in types])
    return SimpleNamespace(id=identity, block_type_names=names, tensors=tensors)


def pose_from_tmol(stack, index, parameters, notes=None):
    """Pose `index` of a TMol PoseStack."""
    real = (stack.block_type_ind[index] >= 0).numpy()
    types = [stack.packed_block_types.active_block_types[i] for i in stack.block_type_ind[index]]
    types = [kind for kind, kept in zip(types, real, strict=True) if kept]
    of_name = {name: i for i, name in enumerate(parameters.block_type_names.tolist())}
    info = stack.pdb_info
    numbers = [
        f"{n}{c}" for n, c in zip(info.residue_labels[index], info.residue_insertion_codes[index])
    ]
    labels = zip(info.chain_labels[index], numbers, strict=True)
    connections = stack.inter_residue_connections[index].numpy()[real]
    return Pose(
        parameters=parameters,
        coords=stack.coords[index][stack.real_atoms[index]].numpy().copy(),
        block_types=_int32([of_name[kind.name] for kind in types]),
        block_atom_offsets=_offsets([len(kind.atoms) for kind in types]),
        connections=np.concatenate(
            [own[: len(kind.connections)] for own, kind in zip(connections, types, strict=True)]
        ),
        chain_of_block=stack.chain_id[index].numpy()[real],
        labels=[(str(c), n) for (c, n), kept in zip(labels, real, strict=True) if kept],
        notes=notes or {},
    )


def _int32(values):
    return np.array(values, dtype=np.int32)


def _offsets(counts):
    return _int32([0, *np.cumsum(counts)])


def _names(names):
    return np.array(names, dtype="S8").view(np.uint8).reshape(len(names), 8)


def _atomic_number(element):
    import gemmi

    return gemmi.Element(element).atomic_number

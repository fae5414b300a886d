"""TMol's residue types as arrays: atoms, bonds, connections, and how input becomes them.

The order of the block types is that of the context which TMol builds from an empty atom
array and a database given to it, `build_context_from_atom_array(AtomArray(0), device,
database)`: all residue types, those of metals among them. TMol's own context for structures
without metals (no database given) leaves the metals' out, so an index into it differs from
an index here: convert by name, `block_type_names`.

`docs/parameters.md` lists the tensors. All values are TMol's own, or sums and differences
of them in TMol's order, so that they are the same bits on every machine.
"""

from collections import defaultdict

import numpy as np

NAME_LENGTH = 8  # bytes of a name, as gemmi.FlatStructure has them

Tensors = dict[str, np.ndarray]


def build_context(database):
    """TMol's context of a database with the annotations that this module reads."""
    import torch
    from biotite.structure import AtomArray
    from tmol.io import build_context_from_atom_array
    from tmol.io.details import _build_missing_leaf_atoms as leaves
    from tmol.io.details import _select_from_canonical as selection
    from tmol.pose._packed_block_types import annotate_packed_block_types_w_dslf_conn_inds

    context = build_context_from_atom_array(AtomArray(0), torch.device("cpu"), database)
    packed = context.packed_block_types
    selection._annotate_packed_block_types_w_canonical_res_order(context.canonical_ordering, packed)
    leaves._annotate_packed_block_types_atom_is_leaf_atom(packed)
    leaves._annotate_packed_block_types_w_leaf_atom_icoors(packed)
    annotate_packed_block_types_w_dslf_conn_inds(packed)
    return context


def chemistry(context) -> tuple[Tensors, dict]:
    """Tensors and metadata of a context's residue types and canonical ordering."""
    types = context.packed_block_types.active_block_types
    tensors = {
        **_block_types(context),
        **_atoms(context),
        **_bonds(types),
        **_connections(context),
        **_torsions(types),
        **_candidates(context),
        **_classes(context),
        **_protonation(context),
    }
    ordering = context.canonical_ordering
    histidine, cysteine = ordering.his_inds, ordering.cys_inds
    places = ("ND1", "NE2", "HD1", "HE2", "HN", "NH", "NN", "CG")
    classes = ordering.restype_io_equiv_classes
    metadata = {
        "block_types": [kind.name for kind in types],
        "base_names": [kind.base_name for kind in types],
        "classes": list(classes),
        "class_aliases": dict(sorted(ordering.name3_aliases.items())),
        "atom_types": [kind.name for kind in _chemical(context).atom_types],
        "histidine": {"classes": list(histidine.his_co_aa_inds)}
        | {place: getattr(histidine, f"his_{place}_in_co") for place in places},
        "cysteine": {
            "classes": list(cysteine.cys_co_aa_inds),
            "SG": cysteine.sg_atom_for_co_cys,
        },
    }
    if "HIS" in classes:
        metadata["histidine"]["class"] = classes.index("HIS")
    return tensors, metadata


def names(texts) -> np.ndarray:
    """Names as uint8 [n, 8], padded with NUL.

    Only residues that were prepared for the run have longer ones; these are cut.
    """
    cut = [text.encode("ascii")[:NAME_LENGTH] for text in texts]
    return np.array(cut, dtype=f"S{NAME_LENGTH}").view(np.uint8).reshape(len(cut), NAME_LENGTH)


def offsets(counts) -> np.ndarray:
    """Where the items of each of n groups begin, int32 [n + 1], from the groups' sizes."""
    return np.concatenate([[0], np.cumsum(list(counts), dtype=np.int64)]).astype(np.int32)


def _chemical(context):
    return context.parameter_database.chemical


def _packed(rows, counts, kind=np.int32) -> np.ndarray:
    """The first `counts[i]` items of each row i of a padded tensor, end to end."""
    array = np.asarray(rows)
    return np.concatenate([array[i, :count] for i, count in enumerate(counts)]).astype(kind)


def _is_canonical_protein(kind) -> bool:
    """One of the 20 amino acids in L form, or a variant of it."""
    polymer = kind.properties.polymer
    return (
        kind.properties.is_canonical
        and polymer.polymer_type == "amino_acid"
        and polymer.sidechain_chirality != "d"
    )


def _block_types(context) -> Tensors:
    from tmol.database.chemical import special_case_variant_index
    from tmol.io.details._select_from_canonical import _assign_var_inds_for_bt

    packed, ordering = context.packed_block_types, context.canonical_ordering
    canonical = packed.canonical_ordering_annotation
    types = packed.active_block_types
    return {
        "block_type.class": np.array(
            [ordering.restype_io_equiv_classes.index(kind.io_equiv_class) for kind in types],
            np.int32,
        ),
        "block_type.atom_offset": offsets(kind.n_atoms for kind in types),
        "block_type.down_connection": packed.down_conn_inds.numpy().astype(np.int32),
        "block_type.up_connection": packed.up_conn_inds.numpy().astype(np.int32),
        "block_type.disulfide_connection": packed.canonical_dslf_conn_ind.numpy().astype(np.int32),
        "block_type.is_non_default_terminus": (
            canonical.bt_is_non_default_terminus.numpy().astype(np.uint8)
        ),
        "block_type.is_polymer": np.array(
            [kind.properties.polymer.is_polymer for kind in types], np.uint8
        ),
        "block_type.is_canonical_protein": np.array(
            [_is_canonical_protein(kind) for kind in types], np.uint8
        ),
        "block_type.variant": np.array(
            [special_case_variant_index(kind) for kind in types], np.int32
        ),
        "block_type.terminus": np.array(
            [_assign_var_inds_for_bt(ordering, kind)[0] for kind in types], np.int32
        ),
        "block_type.canonical_absent": canonical.bt_canonical_atom_is_absent.numpy().astype(
            np.uint8
        ),
        "block_type.canonical_nonterm_present": (
            canonical.bt_non_term_patch_added_canonical_atom_is_present.numpy().astype(np.uint8)
        ),
    }


def _atoms(context) -> Tensors:
    packed, chemical = context.packed_block_types, _chemical(context)
    types = packed.active_block_types
    counts = [kind.n_atoms for kind in types]
    index = {kind.name: at for at, kind in enumerate(chemical.atom_types)}
    number = {element.name: element.atomic_number for element in chemical.element_types}
    type_of = np.array([index[atom.atom_type] for kind in types for atom in kind.atoms], np.int32)
    elements = np.array([number[kind.element] for kind in chemical.atom_types], np.uint8)
    built = packed.build_missing_leaf_atom_icoor_ann
    canonical = packed.canonical_ordering_annotation
    return {
        "atom.name": names(atom.name for kind in types for atom in kind.atoms),
        "atom.type": type_of,
        "atom.element": elements[type_of],
        "atom.is_hydrogen": _packed(packed.atom_is_hydrogen, counts, np.uint8),
        "atom.canonical": _packed(canonical.bt_canonical_atom_ind_map, counts),
        "atom.is_leaf": _packed(packed.is_leaf_atom, counts, np.uint8),
        "atom.frame": _packed(built.anc_uaids, counts),
        "atom.frame_geometry": _packed(built.geom, counts, np.float32),
        "atom.backup_frame": _packed(built.anc_uaids_backup, counts),
        "atom.backup_frame_geometry": _packed(built.geom_backup, counts, np.float32),
    }


def _bonds(types) -> Tensors:
    # TMol lists a bond from both its ends.
    bonds = [kind.bond_indices[kind.bond_indices[:, 0] < kind.bond_indices[:, 1]] for kind in types]
    pairs = [(kind, tuple(pair.tolist())) for kind, listed in zip(types, bonds) for pair in listed]
    # An atom's neighbours: those of its own block in order, then those across connections.
    ranges = [kind.atom_all_bond_ranges for kind in types]
    neighbors = np.concatenate([kind.all_bonds for kind in types]).astype(np.int32)
    return {
        "atom.neighbor_offset": offsets(end - begin for rows in ranges for begin, end in rows),
        "neighbor.atom": neighbors[:, 1].copy(),
        "neighbor.connection": neighbors[:, 2].copy(),
        "block_type.bond_offset": offsets(map(len, bonds)),
        "bond.atoms": np.concatenate(bonds).astype(np.int32),
        "bond.order": np.array([kind.bond_to_type[pair] for kind, pair in pairs], np.uint8),
        "bond.is_ring": np.array([kind.bond_to_ringness[pair] for kind, pair in pairs], np.uint8),
        "block_type.path_offset": offsets(kind.n_atoms**2 for kind in types),
        "block_type.path_distance": np.concatenate(
            [kind.path_distance.ravel() for kind in types]
        ).astype(np.uint8),
    }


def _connections(context) -> Tensors:
    packed = context.packed_block_types
    types = packed.active_block_types
    counts = [len(kind.connections) for kind in types]
    connections = [connection for kind in types for connection in kind.connections]
    return {
        "block_type.connection_offset": offsets(counts),
        "connection.name": names(connection.name for connection in connections),
        "connection.atom": _packed(packed.conn_atom, counts),
        "connection.order": np.concatenate([kind.connection_bond_types for kind in types]).astype(
            np.uint8
        ),
        "connection.is_ring": np.array([c.in_ring for c in connections], np.uint8),
        "connection.is_kinematic": np.array([c.kinematic for c in connections], np.uint8),
        "connection.downstream": _packed(packed.atom_downstream_of_conn, counts),
        "connection.paths": _packed(packed.atom_paths_from_conn, counts),
    }


def _torsions(types) -> Tensors:
    return {
        "block_type.torsion_offset": offsets(len(kind.torsions) for kind in types),
        "torsion.name": names(torsion.name for kind in types for torsion in kind.torsions),
        "torsion.atoms": np.concatenate([kind.ordered_torsions for kind in types]).astype(np.int32),
        "torsion.is_mainchain": np.concatenate([kind.is_torsion_mc for kind in types]).astype(
            np.uint8
        ),
    }


def _candidates(context) -> Tensors:
    canonical = context.packed_block_types.canonical_ordering_annotation
    real = canonical.var_combo_is_real_candidate.numpy()
    found = canonical.var_combo_candidate_bt_index.numpy()
    return {
        "candidate.offset": offsets(real.sum(-1).ravel()),
        "candidate.block_type": found[real].astype(np.int32),
    }


def _classes(context) -> Tensors:
    packed, ordering = context.packed_block_types, context.canonical_ordering
    classes = ordering.restype_io_equiv_classes
    protein = {kind.io_equiv_class: True for kind in packed.active_block_types}
    for kind in packed.active_block_types:
        protein[kind.io_equiv_class] &= _is_canonical_protein(kind)
    listed = [ordering.restypes_ordered_atom_names[name] for name in classes]
    # The names that a class accepts: its own in their order, then aliases in theirs.
    accepted = [ordering.restypes_atom_index_mapping[name] for name in classes]
    required = np.zeros((len(classes), ordering.max_n_canonical_atoms), np.uint8)
    for at, (name, index) in enumerate(zip(classes, accepted)):
        mainchain = ordering.restypes_required_mainchain_atoms[name] or ()
        required[at, [index[atom] for atom in mainchain]] = 1
    return {
        "class.name": names(classes),
        "class.is_polymer": (
            packed.canonical_ordering_annotation.co_equiv_class_is_polymeric.numpy().astype(
                np.uint8
            )
        ),
        "class.is_canonical_protein": np.array([protein[name] for name in classes], np.uint8),
        "class.down_atom": np.array(ordering.polymer_conn_inds.down_atom_for_co_restype, np.int32),
        "class.up_atom": np.array(ordering.polymer_conn_inds.up_atom_for_co_restype, np.int32),
        "class.canonical_offset": offsets(map(len, listed)),
        "canonical.name": names(atom for atoms in listed for atom in atoms),
        "class.alias_offset": offsets(map(len, accepted)),
        "alias.name": names(atom for atoms in accepted for atom in atoms),
        "alias.canonical": np.array([at for atoms in accepted for at in atoms.values()], np.int32),
        "class.required_mainchain": required,
    }


def _protonation(context) -> Tensors:
    """How hydrogens tell the forms of a class apart.

    Two rules of TMol, tabulated per class: io/details/_protonation_variants.py, which makes
    a residue without its titratable hydrogens the deprotonated form, and io/_protonation.py,
    which says how many hydrogens each heavy atom must have for those given to be believed.
    """
    import torch
    from tmol.database.chemical import DEPROTONATED_VAR_IND, N_VARIANT_INDICES
    from tmol.io._protonation import database_forms
    from tmol.io.details._protonation_variants import _variant_atoms

    ordering, chemical = context.canonical_ordering, _chemical(context)
    classes = ordering.restype_io_equiv_classes
    shape = (len(classes), ordering.max_n_canonical_atoms)
    every_class = torch.arange(len(classes), dtype=torch.int32)[None]
    hydrogens, _, parent, linked = _variant_atoms(ordering, chemical, every_class)
    bits = ("any_hydrogen", "titratable", "titratable_parent", "shared_hydrogen", "varying_atom")
    masks = {f"class.{bit}": np.zeros(shape, np.uint8) for bit in bits}
    expects = np.zeros((len(classes), N_VARIANT_INDICES), np.uint8)
    deprotonated = np.zeros(len(classes), np.uint8)
    for at, forms in hydrogens.items():
        masks["class.any_hydrogen"][at, sorted(set().union(*forms.values()))] = 1
        if DEPROTONATED_VAR_IND not in forms:
            continue
        deprotonated[at] = 1
        protonated = {v: atoms for v, atoms in forms.items() if v != DEPROTONATED_VAR_IND}
        lost = set().union(*protonated.values()) - forms[DEPROTONATED_VAR_IND]
        expects[at, [v for v, atoms in protonated.items() if atoms & lost]] = 1
        masks["class.titratable"][at, sorted(lost)] = 1
        parents = sorted({parent[at][h] for h in lost if h in parent[at]})
        masks["class.titratable_parent"][at, parents] = 1
        # A hydrogen where another residue binds may be absent from any form.
        shared = set.intersection(*map(set, forms.values()))
        shared = [h for h in sorted(shared) if parent[at].get(h) not in linked[at]]
        masks["class.shared_hydrogen"][at, shared] = 1

    fixed = np.full(shape, -1, np.int8)
    amine = np.full(len(classes), -1, np.int32)
    states, state_counts = [], []
    forms_of = database_forms(chemical)
    for at, name in enumerate(classes):
        varying, table, counts, amine_atom = forms_of.get(name, ((), {}, {}, None))
        index = ordering.restypes_atom_index_mapping[name]
        masks["class.varying_atom"][at, [index[atom] for atom in varying]] = 1
        for atom, count in counts.items():
            fixed[at, index[atom]] = count
        if amine_atom is not None:
            amine[at] = index[amine_atom]
        for counted, variant in table.items():
            found = np.full(shape[1], -1, np.int8)
            found[[index[atom] for atom in varying]] = counted
            states.append((variant, found))
        state_counts.append(len(table))
    return {
        **masks,
        "class.expects_titratable": expects,
        "class.has_deprotonated": deprotonated,
        "class.fixed_hydrogens": fixed,
        "class.amine_atom": amine,
        "class.hydrogen_parent": _hydrogen_parents(context),
        "class.form_offset": offsets(state_counts),
        "form.variant": np.array([variant for variant, _ in states], np.int32),
        "form.hydrogens": np.array([found for _, found in states], np.int8),
    }


def _hydrogen_parents(context) -> np.ndarray:
    """int32 [classes, canonical atoms]: the heavy atom of a hydrogen in every form that has it."""
    ordering = context.canonical_ordering
    classes = ordering.restype_io_equiv_classes
    element = {kind.name: kind.element for kind in _chemical(context).atom_types}
    found = defaultdict(set)
    for kind in context.packed_block_types.active_block_types:
        at = classes.index(kind.io_equiv_class)
        index = ordering.restypes_atom_index_mapping[kind.io_equiv_class]
        is_hydrogen = [element[atom.atom_type] == "H" for atom in kind.atoms]
        for heavy, hydrogen in kind.bond_indices:
            if is_hydrogen[hydrogen] and not is_hydrogen[heavy]:
                pair = index[kind.atoms[hydrogen].name], index[kind.atoms[heavy].name]
                found[at, pair[0]].add(pair[1])
    parents = np.full((len(classes), ordering.max_n_canonical_atoms), -1, np.int32)
    for (at, hydrogen), heavy in found.items():
        if len(heavy) == 1:
            parents[at, hydrogen] = heavy.pop()
    return parents

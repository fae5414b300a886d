"""What TMol's energy terms score a protein with, as arrays: one function per term.

`docs/parameters.md` lists the tensors. Tables are stored as TMol's database has them; what
a term derives with logarithms, angles or splines is left to the code that scores, for its
last bits differ from machine to machine.
"""

import numpy as np

from tmol_plugin.compiled_chemistry import Tensors, offsets

CPU = "cpu"
MAX_CHI = 4


def scoring(context, score_function) -> tuple[Tensors, dict]:
    """Tensors and metadata of all terms that can occur in a protein.

    Args:
        context: of the database, as compiled_chemistry.build_context makes it.
        score_function: TMol's, of the same database; its weights and options are compiled.
    """
    tensors, globals_of = {}, {}
    for term in (_lj_lk, _elec, _hbond, _backbone, _dunbrack, _disulfide, _cart, _ref):
        made = term(context, score_function.term_options)
        for name, values in list(made.items()):
            if name.endswith(".global"):
                globals_of[name] = list(values)
                made[name] = np.array(list(values.values()), np.float64)
        tensors |= made
    libraries, names = _libraries(_database(context).scoring.dun)
    types = score_function.all_score_types()
    weights = {kind.name: float(score_function.get_weight(kind)) for kind in types}
    metadata = {"globals": globals_of, "dunbrack_libraries": names, "weights": weights}
    return tensors | libraries, metadata


def _database(context):
    return context.parameter_database


def _types(context):
    return context.packed_block_types.active_block_types


def _term(kind, context, options=None):
    """One of TMol's terms on the CPU, with the options of the score function."""
    import torch

    term = kind(param_db=_database(context), device=torch.device(CPU))
    if options is not None:
        term.set_options(options)
    return term


def _lj_lk(context, options) -> Tensors:
    """Lennard-Jones, implicit solvation, and the properties of atom types that these ask for."""
    from tmol.score.ljlk._ljlk_energy_term import LJLKEnergyTerm

    database = _database(context)
    term = _term(LJLKEnergyTerm, context, options)
    # The last row is TMol's sentinel of no type. Types without parameters are NaN.
    of_type = {
        field: getattr(term.type_params, field).numpy()[:-1]
        for field in (
            *("lj_radius", "lj_wdepth", "lk_dgfree", "lk_lambda", "lk_volume"),
            *("is_donor", "is_acceptor", "is_hydroxyl", "is_polarh", "is_hydrogen"),
            *("is_carbon_lk", "acceptor_hybridization"),
        )
    }
    found = database.scoring.ljlk.global_parameters
    soft = "_soft" if term.soft_repulsive else ""
    names = (
        *("max_dis", "lj_hbond_dis", "lj_hbond_OH_donor_dis", "lj_hbond_hdis"),
        *("lk_min_dis2sigma", "lkb_water_dist", "lkb_water_angle_sp2", "lkb_water_angle_sp3"),
        "lkb_water_angle_ring",
    )
    return {
        "lj.radius": of_type["lj_radius"],
        "lj.well_depth": of_type["lj_wdepth"],
        "lk.free_energy": of_type["lk_dgfree"],
        "lk.lambda": of_type["lk_lambda"],
        "lk.volume": of_type["lk_volume"],
        "atom_type.is_donor": of_type["is_donor"].astype(np.uint8),
        "atom_type.is_acceptor": of_type["is_acceptor"].astype(np.uint8),
        "atom_type.is_hydroxyl": of_type["is_hydroxyl"].astype(np.uint8),
        "atom_type.is_polar_hydrogen": of_type["is_polarh"].astype(np.uint8),
        "atom_type.is_hydrogen": of_type["is_hydrogen"].astype(np.uint8),
        "atom_type.is_carbon_lk": of_type["is_carbon_lk"].astype(np.uint8),
        "atom_type.acceptor_hybridization": of_type["acceptor_hybridization"].astype(np.int32),
        "atom_type.is_rosetta": np.array(
            [kind.name in term.rosetta_typed for kind in database.chemical.atom_types], np.uint8
        ),
        "lj.global": {name: getattr(found, name) for name in names}
        | {"lj_dlin_sigma_factor": getattr(found, f"lj_dlin_sigma_factor{soft}")},
        "lk.water_torsions_sp2": np.array(found.lkb_water_tors_sp2, np.float64),
        "lk.water_torsions_sp3": np.array(found.lkb_water_tors_sp3, np.float64),
        "lk.water_torsions_ring": np.array(found.lkb_water_tors_ring, np.float64),
    }


def _elec(context, options) -> Tensors:
    """Charges, and the atom whose bonds count instead of an atom's own."""
    import attr
    import torch
    from tmol.score.elec import ElecParamResolver

    database = _database(context).scoring.elec
    resolver = ElecParamResolver.from_database(database, torch.device(CPU))
    types = _types(context)

    def charges(kind):
        try:
            return resolver.get_partial_charges_for_block(kind)
        except (KeyError, ValueError):
            # TMol refuses to score such a block type, if a pose ever has it.
            return np.full(kind.n_atoms, np.nan, np.float32)

    return {
        "elec.charge": np.concatenate([charges(kind) for kind in types]),
        "elec.representative": np.concatenate(
            [resolver.get_bonded_path_length_mapping_for_block(kind) for kind in types]
        ),
        "elec.global": attr.asdict(database.global_parameters),
    }


def _hbond(context, options) -> Tensors:
    """Donor hydrogens and acceptors of each block type; polynomials of each pair of types."""
    import attr
    from tmol.score.hbond._hbond_dependent_term import HBondDependentTerm
    from tmol.score.hbond._hbond_energy_term import HBondEnergyTerm

    term = _term(HBondEnergyTerm, context)
    blocks = [HBondDependentTerm.setup_block_type(term, kind) for kind in _types(context)]
    donors = [block.donH_inds for block in blocks]
    acceptors = [block.acc_inds for block in blocks]

    def listed(name):
        # TMol lays what belongs to the sorted atoms out in tiles, padded with -1.
        index = "tile_acc_inds" if "acc" in name else "tile_donH_inds"
        rows = [getattr(block, name)[getattr(block, index) >= 0] for block in blocks]
        return np.concatenate(rows).astype(np.int32)

    database = term.hbond_database
    pair = term.hbond_resolver.pair_params
    longest = max(p.xmax for p in database.polynomial_parameters if p.dimension == "hbgd_AHdist")
    made = {
        "hbond.donor_offset": offsets(map(len, donors)),
        "hbond.donor_hydrogen": np.concatenate(donors).astype(np.int32),
        "hbond.donor_heavy": listed("tile_donH_hvy_inds"),
        "hbond.donor_ordinal": listed("tile_which_donH_of_donH_hvy"),
        "hbond.donor_type": listed("tile_donorH_type"),
        "hbond.is_donor": _flags(context, [block.don_hvy_inds for block in blocks]),
        "hbond.acceptor_offset": offsets(map(len, acceptors)),
        "hbond.acceptor_atom": np.concatenate(acceptors).astype(np.int32),
        "hbond.acceptor_type": listed("tile_acceptor_type"),
        "hbond.acceptor_hybridization": listed("tile_acceptor_hybridization"),
        "hbond.acceptor_hydrogens": listed("tile_acceptor_n_attached_H"),
        "hbond.donor_weight": pair.donor_weight[:, 0].numpy(),
        "hbond.acceptor_weight": pair.acceptor_weight[0].numpy(),
        "hbond.global": attr.asdict(database.global_parameters) | {"max_AHdist": longest},
    }
    for name in ("AHdist", "cosBAH", "cosAHD"):
        polynomial = getattr(pair, name)
        made[f"hbond.{name}_coefficients"] = polynomial.coeffs.numpy()
        made[f"hbond.{name}_range"] = polynomial.range.numpy()
        made[f"hbond.{name}_bound"] = polynomial.bound.numpy()
    return made


def _flags(context, atoms) -> np.ndarray:
    """uint8 [atoms], 1 for the atoms listed for each block type."""
    flags = [np.zeros(kind.n_atoms, np.uint8) for kind in _types(context)]
    for flag, listed in zip(flags, atoms):
        flag[listed] = 1
    return np.concatenate(flags)


def _backbone(context, options) -> Tensors:
    """Ramachandran and omega tables, and which of them a block type reads."""
    from tmol.score.backbone_torsion._bb_torsion_energy_term import BackboneTorsionEnergyTerm

    scoring_database = _database(context).scoring
    rama = scoring_database.rama.rama_tables
    omega = scoring_database.omega_bbdep.bbdep_omega_tables
    term = _term(BackboneTorsionEnergyTerm, context)
    blocks = [term.setup_block_type(kind) for kind in _types(context)]

    def table_of(name, count):
        found = np.array([getattr(block, name) for block in blocks], np.int32)
        # TMol keeps the mirror images of n tables after them.
        mirrored = found >= count
        return np.where(mirrored, found - count, found).astype(np.int32), mirrored.astype(np.uint8)

    rama_table, rama_mirrored = table_of("rama_table_inds", len(rama))
    omega_table, omega_mirrored = table_of("omega_table_inds", len(omega))
    torsions = [block.backbone_torsion_atoms.view(np.int32) for block in blocks]
    return {
        "rama.tables": np.stack([table.table.numpy() for table in rama]).astype(np.float32),
        "rama.start": np.array([table.bbstart for table in rama], np.float32),
        "rama.step": np.array([table.bbstep for table in rama], np.float32),
        "rama.table": rama_table,
        "rama.is_mirrored": rama_mirrored,
        "rama.is_proline": np.array([block.is_pro[0] for block in blocks], np.uint8),
        "rama.torsions": np.stack(torsions).reshape(-1, 3, 4, 3).astype(np.int32),
        "omega.means": np.stack([table.mu.numpy() for table in omega]).astype(np.float32),
        "omega.deviations": np.stack([table.sigma.numpy() for table in omega]).astype(np.float32),
        "omega.start": np.array([table.bbstart for table in omega], np.float32),
        "omega.step": np.array([table.bbstep for table in omega], np.float32),
        "omega.table": omega_table,
        "omega.is_mirrored": omega_mirrored,
    }


def _own_libraries(dunbrack) -> list:
    """The libraries that are not mirror images of others, rotameric ones first."""
    libraries = (*dunbrack.rotameric_libraries, *dunbrack.semi_rotameric_libraries)
    return [one for one in libraries if not one.rotameric_data.backbone_is_mirrored]


def _dunbrack(context, options) -> Tensors:
    """Which rotamer library a block type reads, with which torsions.

    TMol reads the library of a D amino acid from a mirrored copy; here it is the library
    that was mirrored, and `is_mirrored`.
    """
    from tmol.database.scoring._mirrored_dunbrack import d_table_name

    dunbrack = _database(context).scoring.dun
    index = {}
    for at, library in enumerate(_own_libraries(dunbrack)):
        index[library.table_name] = at, 0
        index[d_table_name(library.table_name)] = at, 1
    library_of = {row.residue_name: index[row.dun_table_name] for row in dunbrack.dun_lookup}
    types = _types(context)
    found = np.full((len(types), 2), (-1, 0), np.int32)
    torsions = np.full((len(types), 2 + MAX_CHI, 4, 3), -1, np.int32)
    names = ("phi", "psi", *(f"chi{at + 1}" for at in range(MAX_CHI)))
    for at, kind in enumerate(types):
        polymer = kind.properties.polymer
        is_alpha = polymer.polymer_type == "amino_acid" and polymer.backbone_type == "alpha_aa"
        if not is_alpha or kind.base_name not in library_of:
            continue
        found[at] = library_of[kind.base_name]
        for which, name in enumerate(names):
            if name in kind.torsion_to_uaids:
                torsions[at, which] = kind.torsion_to_uaids[name]
    return {
        "dunbrack.library": found[:, 0].copy(),
        "dunbrack.is_mirrored": found[:, 1].astype(np.uint8),
        "dunbrack.torsions": torsions,
    }


def _libraries(dunbrack) -> tuple[Tensors, list[str]]:
    """The rotamer libraries themselves, end to end, and their names."""
    import attr
    import torch
    from tmol.score.dunbrack import DunbrackParamResolver

    libraries = _own_libraries(dunbrack)
    rotameric = [one for one in libraries if not hasattr(one, "rotameric_chi_rotamers")]
    semi = libraries[len(rotameric) :]
    data = [one.rotameric_data for one in libraries]
    own = attr.evolve(
        dunbrack, rotameric_libraries=tuple(rotameric), semi_rotameric_libraries=tuple(semi)
    )
    # Which rotamer each combination of wells is, absent combinations resolved as TMol does.
    wells = DunbrackParamResolver._create_rotind2tableinds(own, torch.device(CPU))
    n_rotameric_chi = [one.nchi() for one in data[: len(rotameric)]]
    n_rotameric_chi += [one.rotameric_chi_rotamers.shape[1] for one in semi]
    grids = [(one.non_rot_chi_start, one.non_rot_chi_step, one.non_rot_chi_period) for one in semi]
    tables = [one.nonrotameric_chi_probabilities.numpy() for one in semi]

    def per_chi(name):
        # Rotamers and chi in the order of TMol's tables: the chi of a rotamer are neighbours.
        listed = [getattr(one, name).permute(0, 3, 1, 2) for one in data]
        return np.concatenate([table.reshape(-1, *table.shape[2:]).numpy() for table in listed])

    tensors = {
        "dunbrack.n_chi": np.array([one.nchi() for one in data], np.int32),
        "dunbrack.n_rotameric_chi": np.array(n_rotameric_chi, np.int32),
        "dunbrack.rotamer_offset": offsets(one.nrotamers() for one in data),
        "dunbrack.probabilities": np.concatenate(
            [one.rotamer_probabilities.numpy() for one in data]
        ),
        "dunbrack.chi_offset": offsets(one.nrotamers() * one.nchi() for one in data),
        "dunbrack.means": per_chi("rotamer_means"),
        "dunbrack.deviations": per_chi("rotamer_stdvs"),
        "dunbrack.start": np.stack([one.backbone_dihedral_start.numpy() for one in data]),
        "dunbrack.step": np.stack([one.backbone_dihedral_step.numpy() for one in data]),
        "dunbrack.well_offset": offsets(3**count for count in n_rotameric_chi),
        "dunbrack.well_rotamer": wells[0].numpy().astype(np.int32),
        "dunbrack.well_semirotameric": wells[1].numpy().astype(np.int32),
        "dunbrack.semirotameric_offset": offsets([0] * len(rotameric) + [len(t) for t in tables]),
        "dunbrack.semirotameric_probabilities": np.concatenate(tables),
        "dunbrack.semirotameric_grid": np.array([(0, 0, 0)] * len(rotameric) + grids, np.float32),
    }
    return tensors, [one.table_name for one in libraries]


def _disulfide(context, options) -> Tensors:
    import attr

    database = _database(context)
    chirality = [kind.properties.polymer.sidechain_chirality for kind in _types(context)]
    return {
        "disulfide.global": attr.asdict(database.scoring.disulfide.global_parameters),
        "disulfide.is_mirrored": np.array([sense == "d" for sense in chirality], np.uint8),
    }


def _ref(context, options) -> Tensors:
    from tmol.score.ref._ref_energy_term import RefEnergyTerm

    term = _term(RefEnergyTerm, context, options)
    weights = [term.setup_block_type(kind) for kind in _types(context)]
    return {"ref.weight": np.array(weights, np.float32)}


def _cart(context, options) -> Tensors:
    """Bonded parameters: resolved within block types, and by atom ids across connections.

    TMol looks a path that crosses a connection up by the ids of its atoms: those of the
    first block by residue, else by name, those of the second by name.
    """
    from tmol.score.cartbonded._cartbonded_energy_term import CartBondedEnergyTerm

    packed = context.packed_block_types
    term = _term(CartBondedEnergyTerm, context)
    found = term.setup_packed_block_types(packed)
    values = found.cartbonded_params_hash_values.numpy()
    keys = found.cartbonded_params_hash_keys.numpy()
    keys = keys[keys[:, 0] >= 0]
    keys = keys[np.argsort(keys[:, 4], kind="stable")]

    crossing = [
        at
        for name, at in found.cartbonded_atom_unique_id_index.items()
        if name.startswith("CROSS_ID:")
    ]
    keys = keys[np.isin(keys[:, :4], crossing).any(1)]
    ids = np.unique(keys[:, :4][keys[:, :4] >= 0])

    def renumbered(padded):
        at = np.searchsorted(ids, padded)
        known = ids[np.minimum(at, len(ids) - 1)] == padded
        # An atom in no key has an id beyond all of them; -1 stays the padding of a key.
        return np.where(known, at, np.where(padded < 0, -1, len(ids))).astype(np.int32)

    def per_atom(table):
        rows = [table[at, : kind.n_atoms].numpy() for at, kind in enumerate(_types(context))]
        return renumbered(np.concatenate(rows))

    rows = found.cartbonded_subgraph_param_indices.numpy()
    atoms = found.cartbonded_subgraphs.numpy()
    starts = [*found.cartbonded_subgraph_offsets.tolist(), len(atoms)]
    blocks = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    kept = rows >= 0
    blocks, atoms, rows = blocks[kept], atoms[kept], rows[kept]
    # TMol lists impropers in the order of a set of names, which differs from run to run.
    order = np.lexsort((rows, *atoms.T[::-1], values[rows, 0], blocks))
    used = np.unique(np.concatenate([rows, keys[:, 4]]))
    return {
        "cart.offset": offsets(np.bincount(blocks, minlength=len(starts) - 1)),
        "cart.atoms": atoms[order].astype(np.int32),
        "cart.parameter": np.searchsorted(used, rows[order]).astype(np.int32),
        "cart.parameter_type": values[used, 0].astype(np.uint8),
        "cart.parameter_values": values[used, 1:].astype(np.float32),
        "cart.connection_key": renumbered(keys[:, :4]),
        "cart.connection_parameter": np.searchsorted(used, keys[:, 4]).astype(np.int32),
        "cart.unique_id": per_atom(found.atom_unique_ids),
        "cart.wildcard_id": per_atom(found.atom_wildcard_ids),
        "cart.cross_id": per_atom(found.atom_cross_ids),
    }

"""Compiled scoring parameters against what TMol hands to its kernels, and its energies."""

from pathlib import Path

import attr
import numpy as np
import pytest
import tmol
import torch
from bonded_energies import Cart
from compiled_blocks import Block
from tmol.score import ScoreFunction
from tmol.score.dunbrack._dunbrack_energy_term import DunbrackEnergyTerm
from tmol.score.elec._elec_energy_term import ElecEnergyTerm
from tmol.score.hbond._hbond_energy_term import HBondEnergyTerm
from tmol.score.ljlk import LJLKParamResolver
from tmol.score.ref._ref_energy_term import RefEnergyTerm

from tmol_plugin.parameters import compile_parameters, score_function_file

STRUCTURES = Path(__file__).parent / "structures"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def packed(context):
    return context.packed_block_types


@pytest.fixture(scope="module")
def database(context):
    return context.parameter_database


@pytest.fixture(scope="module")
def blocks(compiled, packed):
    return [(Block(compiled, i), kind) for i, kind in enumerate(packed.active_block_types)]


def globals_of(compiled, term):
    return dict(zip(compiled.metadata["globals"][term], compiled.tensors[term].tolist()))


def test_weights_are_those_of_the_file(compiled):
    weights = compiled.metadata["weights"]
    assert len(weights) == 25
    # TMol's weights are float32.
    assert weights["fa_ljrep"] == np.float32(0.55)
    assert weights["lk_ball_iso"] == np.float32(-0.38)


def test_the_options_of_a_score_function_are_compiled(compiled, blocks):
    soft = compile_parameters("beta_soft")
    sigma = "lj_dlin_sigma_factor"
    assert globals_of(compiled, "lj.global")[sigma] == 0.6
    assert globals_of(soft, "lj.global")[sigma] == 0.91
    for made, alanine in ((compiled, 2.3386), (soft, 1.3535)):
        found = {kind.name: w for (_, kind), w in zip(blocks, made.tensors["ref.weight"])}
        for name in ("ALA", "ALA:nterm", "ALA:cterm:nterm", "DALA"):
            assert found[name] == np.float32(alanine)
        assert found["HOH"] == 0


def test_lj_and_lk_are_those_of_tmol(compiled, database):
    resolver = LJLKParamResolver.from_database(database.chemical, database.scoring.ljlk, CPU)
    given = {kind.name: kind for kind in database.scoring.ljlk.atom_type_parameters}
    tensors = compiled.tensors
    fields = {
        **{"lj.radius": "lj_radius", "lj.well_depth": "lj_wdepth", "lk.lambda": "lk_lambda"},
        **{"lk.free_energy": "lk_dgfree", "lk.volume": "lk_volume"},
    }
    names = compiled.metadata["atom_types"]
    for tensor, field in fields.items():
        expected = [getattr(given[name], field) if name in given else np.nan for name in names]
        np.testing.assert_array_equal(tensors[tensor], np.float32(expected))
    flags = ("is_donor", "is_acceptor", "is_hydroxyl", "is_hydrogen", "is_carbon_lk")
    for flag in flags:
        expected = getattr(resolver.type_params, flag).numpy()[:-1]
        np.testing.assert_array_equal(tensors[f"atom_type.{flag}"].astype(bool), expected)
    types = {kind.name: kind for kind in database.chemical.atom_types}
    for name, polar, hybrid, rosetta in zip(
        names,
        tensors["atom_type.is_polar_hydrogen"],
        tensors["atom_type.acceptor_hybridization"],
        tensors["atom_type.is_rosetta"],
    ):
        assert polar == types[name].is_polarh
        hybrids = (None, "sp2", "sp3", "ring")
        assert hybrids[hybrid] == types[name].acceptor_hybridization
        assert rosetta == (name in database.scoring.genbonded.rosetta_typed)
    found = globals_of(compiled, "lj.global")
    assert (found["max_dis"], found["lkb_water_dist"]) == (6.0, 2.828)
    assert found["lkb_water_angle_sp2"] == pytest.approx(np.radians(134.5))
    assert tensors["lk.water_torsions_sp3"] == pytest.approx(np.radians([120, 240]))
    # What can be scored has parameters.
    used = np.unique(tensors["atom.type"][protein_atoms(compiled)])
    assert all(np.isfinite(tensors[tensor][used]).all() for tensor in fields)


def protein_atoms(compiled):
    counts = np.diff(compiled.tensors["block_type.atom_offset"])
    return np.repeat(compiled.tensors["block_type.is_canonical_protein"], counts).astype(bool)


def test_charges_and_counted_paths_are_those_of_tmol(compiled, blocks, packed, database):
    annotated = ElecEnergyTerm(database, CPU).setup_packed_block_types(packed)
    is_rosetta = compiled.tensors["atom_type.is_rosetta"].astype(bool)
    for at, (block, _) in enumerate(blocks):
        n = len(block.names)
        np.testing.assert_array_equal(block.of_atoms("elec.charge"), annotated.charges[at, :n])
        start = compiled.tensors["block_type.path_offset"][at]
        paths = compiled.tensors["block_type.path_distance"][start : start + n * n].reshape(n, n)
        stand_in = block.of_atoms("elec.representative")
        np.testing.assert_array_equal(paths[:, stand_in], annotated.inter[at, :n, :n])
        intra = paths[np.ix_(stand_in, stand_in)].copy()
        generic = ~is_rosetta[block.of("atom", "type")]
        intra[np.outer(generic, generic) & ((intra == 3) | (intra == 4))] = 5
        np.testing.assert_array_equal(intra, annotated.intra[at, :n, :n])
    assert np.isfinite(compiled.tensors["elec.charge"]).all()
    found = globals_of(compiled, "elec.global")
    assert found == attr.asdict(database.scoring.elec.global_parameters)


def test_donors_and_acceptors_are_told_by_atom_type(compiled, blocks, database):
    given = database.scoring.hbond
    donors = {row.d: row.donor_type for row in given.donor_atom_types}
    acceptors = {row.a: row.acceptor_type for row in given.acceptor_atom_types}
    donor_types = [row.name for row in given.donor_type_params]
    acceptor_types = [row.name for row in given.acceptor_type_params]
    hydrogen = {k.name for k in database.chemical.atom_types if k.element == "H"}
    for block, kind in blocks:
        type_of = {atom.name: atom.atom_type for atom in kind.atoms}
        bonded = {name: [] for name in block.names}
        for first, second, *_ in kind.bonds:
            bonded[first].append(second)
            bonded[second].append(first)
        hydrogens = {
            name: sorted((h for h in others if type_of[h] in hydrogen), key=block.names.index)
            for name, others in bonded.items()
        }
        assert block.of_atoms("hbond.is_donor").astype(bool).tolist() == [
            type_of[name] in donors for name in block.names
        ]
        rows = zip(*(block.of("hbond", f"donor_{w}", "donor") for w in DONOR))
        found = {(block.names[h], block.names[d], o, donor_types[kind]) for h, d, o, kind in rows}
        expected = {
            (h, name, ordinal, donors[type_of[name]])
            for name in block.names
            if type_of[name] in donors
            for ordinal, h in enumerate(hydrogens[name])
        }
        assert found == expected
        rows = zip(*(block.of("hbond", f"acceptor_{w}", "acceptor") for w in ACCEPTOR))
        found = {(block.names[a], acceptor_types[kind], n) for a, kind, n in rows}
        # TMol counts hydrogens only of acceptors that are donors too.
        expected = {
            (name, acceptors[type_of[name]], len(hydrogens[name]) * (type_of[name] in donors))
            for name in block.names
            if type_of[name] in acceptors
        }
        assert found == expected
        types = [compiled.metadata["atom_types"].index(type_of[name]) for name in block.names]
        at = block.of("hbond", "acceptor_atom", "acceptor")
        hybrid = compiled.tensors["atom_type.acceptor_hybridization"][np.array(types)[at]]
        assert block.of("hbond", "acceptor_hybridization", "acceptor").tolist() == hybrid.tolist()


DONOR = ("hydrogen", "heavy", "ordinal", "type")
ACCEPTOR = ("atom", "type", "hydrogens")


def test_polynomials_are_those_of_tmol(compiled, database):
    tensors, table = compiled.tensors, HBondEnergyTerm(database, CPU).hb_param_db
    np.testing.assert_array_equal(
        table.pair_param_table[..., 1:].numpy(),
        np.stack(
            np.broadcast_arrays(
                tensors["hbond.acceptor_weight"][None], tensors["hbond.donor_weight"][:, None]
            ),
            -1,
        ),
    )
    found = []
    for name in ("AHdist", "cosBAH", "cosAHD"):
        coefficients = tensors[f"hbond.{name}_coefficients"]
        # TMol's kernel reads a padded row.
        found += [coefficients, np.zeros_like(coefficients[..., :1])]
        found += [tensors[f"hbond.{name}_range"], tensors[f"hbond.{name}_bound"]]
    np.testing.assert_array_equal(table.pair_poly_table.numpy(), np.concatenate(found, -1))
    order = (
        *("hb_sp2_range_span", "hb_sp2_BAH180_rise", "hb_sp2_outer_width"),
        *("hb_sp3_softmax_fade", "threshold_distance", "max_AHdist"),
    )
    values = globals_of(compiled, "hbond.global")
    expected = table.global_param_table[0].numpy()
    np.testing.assert_array_equal(np.float32([values[name] for name in order]), expected)


@pytest.mark.parametrize("term", ["rama", "omega"])
def test_backbone_tables_are_chosen_by_residue(compiled, blocks, database, term):
    if term == "rama":
        given = database.scoring.rama.rama_tables
        lookup = database.scoring.rama.rama_lookup
        tables = [compiled.tensors["rama.tables"]]
        expected = [np.stack([table.table for table in given])]
    else:
        given = database.scoring.omega_bbdep.bbdep_omega_tables
        lookup = database.scoring.omega_bbdep.bbdep_omega_lookup
        tables = [compiled.tensors["omega.means"], compiled.tensors["omega.deviations"]]
        expected = [np.stack([getattr(t, of) for t in given]) for of in ("mu", "sigma")]
    for found, values in zip(tables, expected):
        np.testing.assert_array_equal(found, values)
    steps = np.float32([table.bbstep for table in given])
    np.testing.assert_array_equal(compiled.tensors[f"{term}.step"], steps)
    starts = np.float32([table.bbstart for table in given])
    np.testing.assert_array_equal(compiled.tensors[f"{term}.start"], starts)
    names = [table.table_id for table in given]
    wanted = {(row.res_middle, row.res_upper): names.index(row.table_id) for row in lookup}
    for at, (_, kind) in enumerate(blocks):
        reference = kind.rama_reference
        rows = [wanted.get((reference, upper), -1) for upper in ("_", "PRO")]
        assert compiled.tensors[f"{term}.table"][at].tolist() == rows
        mirrored = [int(row >= 0 and kind.base_name.startswith("D")) for row in rows]
        assert compiled.tensors[f"{term}.is_mirrored"][at].tolist() == mirrored
        assert compiled.tensors["rama.is_proline"][at] == (reference == "PRO")


def test_backbone_torsions_are_those_of_the_residue(compiled, blocks):
    torsions = compiled.tensors["rama.torsions"]
    for at, (_, kind) in enumerate(blocks):
        named = kind.torsion_to_uaids if compiled.tensors["rama.table"][at, 0] >= 0 else {}
        for found, name in zip(torsions[at], ("phi", "psi", "omega")):
            assert found.tolist() == [list(uaid) for uaid in named.get(name, [(-1, -1, -1)] * 4)]


def library_of(compiled, name):
    return compiled.metadata["dunbrack_libraries"].index(name)


def test_rotamer_libraries_are_those_of_tmol(compiled, database):
    tensors, given = compiled.tensors, database.scoring.dun
    libraries = {one.table_name: one for one in given.rotameric_libraries}
    libraries |= {one.table_name: one for one in given.semi_rotameric_libraries}
    assert len(compiled.metadata["dunbrack_libraries"]) == 18
    for at, name in enumerate(compiled.metadata["dunbrack_libraries"]):
        library, data = libraries[name], libraries[name].rotameric_data
        n_chi, wells = data.rotamers.shape[1], getattr(library, "rotameric_chi_rotamers", None)
        assert tensors["dunbrack.n_chi"][at] == n_chi
        mine = slice(*tensors["dunbrack.rotamer_offset"][at : at + 2])
        np.testing.assert_array_equal(
            tensors["dunbrack.probabilities"][mine], data.rotamer_probabilities
        )
        mine = slice(*tensors["dunbrack.chi_offset"][at : at + 2])
        for what, expected in (("means", data.rotamer_means), ("deviations", data.rotamer_stdvs)):
            found = tensors[f"dunbrack.{what}"][mine].reshape(-1, n_chi, 36, 36)
            np.testing.assert_array_equal(np.moveaxis(found, 1, 3), expected)
        assert tensors["dunbrack.start"][at].tolist() == [-180, -180]
        assert tensors["dunbrack.step"][at].tolist() == [10, 10]

        mine = slice(*tensors["dunbrack.well_offset"][at : at + 2])
        rotamer = tensors["dunbrack.well_rotamer"][mine]
        tables = slice(*tensors["dunbrack.semirotameric_offset"][at : at + 2])
        table = tensors["dunbrack.semirotameric_probabilities"][tables]
        if wells is None:
            assert tensors["dunbrack.n_rotameric_chi"][at] == n_chi
            assert len(table) == 0
            assert len(rotamer) == 3**n_chi
            for row, well in enumerate(data.rotamers.numpy()):
                assert rotamer[number(well)] == row
            assert ((rotamer >= 0) & (rotamer < len(data.rotamers))).all()
        else:
            assert tensors["dunbrack.n_rotameric_chi"][at] == n_chi - 1
            np.testing.assert_array_equal(table, library.nonrotameric_chi_probabilities)
            grid = (library.non_rot_chi_start, library.non_rot_chi_step, library.non_rot_chi_period)
            assert tensors["dunbrack.semirotameric_grid"][at].tolist() == list(grid)
            semi = tensors["dunbrack.well_semirotameric"][mine]
            for row, well in enumerate(wells.numpy()):
                assert semi[number(well)] == row
                # The first of the rotamers with these wells.
                same = (data.rotamers[:, :-1].numpy() == well).all(1)
                assert rotamer[number(well)] == np.flatnonzero(same)[0]
    well = number([2, 1, 1])  # of proline, which its library has as another
    mine = tensors["dunbrack.well_offset"][library_of(compiled, "pro")]
    assert 0 <= tensors["dunbrack.well_rotamer"][mine + well] < 2


def number(wells):
    """The place of a combination of wells, each 1 to 3, the last chi fastest."""
    place = 0
    for well in wells:
        place = 3 * place + int(well) - 1
    return place


def test_block_types_read_the_library_that_tmol_reads(compiled, blocks, packed, database):
    tensors, names = compiled.tensors, compiled.metadata["dunbrack_libraries"]
    rows = {row.residue_name: row.dun_table_name for row in database.scoring.dun.dun_lookup}
    term = DunbrackEnergyTerm(database, CPU)
    for at, (_, kind) in enumerate(blocks):
        library, annotated = tensors["dunbrack.library"][at], term.setup_block_type(kind)
        mirrored = tensors["dunbrack.is_mirrored"][at]
        assert mirrored == annotated.is_mirrored
        if annotated.rotamer_table_set < 0:
            assert library < 0
            continue
        assert ("d" if mirrored else "") + names[library] == rows[kind.base_name]
        assert tensors["dunbrack.n_chi"][library] == annotated.n_chi
        assert tensors["dunbrack.n_rotameric_chi"][library] == annotated.n_rotameric_chi
        torsions = tensors["dunbrack.torsions"][at]
        n = len(annotated.dih_uaids)
        np.testing.assert_array_equal(torsions[:n], annotated.dih_uaids)
        assert (torsions[n:] == -1).all()


def test_a_mirrored_library_is_read_from_its_source(compiled, database):
    """-phi, -psi of the L form: what TMol stores for the D form, without its copy."""
    given = {one.table_name: one for one in database.scoring.dun.rotameric_libraries}
    at = library_of(compiled, "met")
    mine = slice(*compiled.tensors["dunbrack.rotamer_offset"][at : at + 2])
    opposite = -np.arange(36) % 36
    found = compiled.tensors["dunbrack.probabilities"][mine][:, opposite][:, :, opposite]
    np.testing.assert_array_equal(found, given["dmet"].rotameric_data.rotamer_probabilities)


def test_disulfides_and_reference_energies(compiled, blocks, packed, database):
    given = database.scoring.disulfide.global_parameters
    assert globals_of(compiled, "disulfide.global") == attr.asdict(given)
    weights = RefEnergyTerm(database, CPU).setup_packed_block_types(packed)
    np.testing.assert_array_equal(compiled.tensors["ref.weight"], weights)
    for at, (_, kind) in enumerate(blocks):
        is_d = kind.properties.polymer.sidechain_chirality == "d"
        assert compiled.tensors["disulfide.is_mirrored"][at] == is_d


@pytest.mark.parametrize("name", ["1ubi.pdb", "1ejg.pdb"])
def test_bonded_energies_are_those_of_tmol(compiled, database, name):
    """Within residues, across peptide bonds and disulfides: the tables hold all that is needed."""
    pose = tmol.pose_stack_from_file(str(STRUCTURES / name), CPU, no_optH=True)
    function = ScoreFunction.from_sfxn_file(str(score_function_file("beta2016")), database, CPU)
    scorer = function.render_whole_pose_scoring_module(pose)
    names = [kind.name for kind in function.all_score_types()]
    values = scorer(pose.coords, sum_terms=False, apply_weights=False)[:, 0]
    scores = dict(zip(names, values.tolist()))
    order = ("lengths", "angles", "torsions", "impropers", "hxltorsions")
    expected = [scores[f"cart_{term}"] for term in order]
    assert min(expected) > 0
    cart = Cart(compiled, pose)
    assert cart.total() == pytest.approx(expected, rel=1e-4, abs=1e-3)
    reference = compiled.tensors["ref.weight"][cart.block_types].sum()
    assert reference == pytest.approx(scores["ref"], rel=1e-5)

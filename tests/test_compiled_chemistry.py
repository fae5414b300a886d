"""Compiled residue types against TMol's objects, read by name and not by annotation."""

import re
from collections import defaultdict, deque

import numpy as np
import pytest
import torch
from compiled_blocks import Block, texts
from tmol.database.chemical import N_VARIANT_INDICES
from tmol.io._protonation import database_forms
from tmol.io.details._protonation_variants import select_protonation_variants
from tmol.io.details._select_from_canonical import (
    _annotate_packed_block_types_w_canonical_res_order,
)

AMINO_ACIDS = "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL"
N_TERMINI = 4


@pytest.fixture(scope="module")
def blocks(compiled, context):
    """(compiled, TMol's) of every block type."""
    types = context.packed_block_types.active_block_types
    assert compiled.block_type_names.tolist() == [kind.name for kind in types]
    assert compiled.metadata["base_names"] == [kind.base_name for kind in types]
    assert len(types) == 312  # of TMol 0.2.0
    return [(Block(compiled, index), kind) for index, kind in enumerate(types)]


def test_atoms_are_those_of_tmol(blocks, compiled, context):
    chemical = context.parameter_database.chemical
    kinds = {kind.name: kind for kind in chemical.atom_types}
    numbers = {element.name: element.atomic_number for element in chemical.element_types}
    for block, kind in blocks:
        assert block.names == [atom.name for atom in kind.atoms]
        types = [compiled.metadata["atom_types"][i] for i in block.of("atom", "type")]
        assert types == [atom.atom_type for atom in kind.atoms]
        elements = [kinds[name].element for name in types]
        assert block.of("atom", "element").tolist() == [numbers[name] for name in elements]
        is_hydrogen = [name == "H" for name in elements]
        assert block.of("atom", "is_hydrogen").astype(bool).tolist() == is_hydrogen
        polymer = kind.properties.polymer
        assert block.value("is_polymer") == polymer.is_polymer
        amino_acid = kind.name3 in AMINO_ACIDS.split()
        assert block.value("is_canonical_protein") == amino_acid


def test_bonds_and_connections_are_those_of_tmol(blocks):
    for block, kind in blocks:
        order = {frozenset(bond[:2]): bond[2] for bond in kind.bonds}
        found = [frozenset(block.names[i] for i in pair) for pair in block.of("bond", "atoms")]
        assert len(found) == len(set(found)) == len(order)
        assert set(found) == set(order)
        assert (np.diff(block.of("bond", "atoms")) > 0).all()
        orders = dict(zip(("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC"), range(1, 5)))
        # Some of TMol's residues write 2 for a double bond, which TMol reads as a single one.
        assert block.of("bond", "order").tolist() == [orders.get(order[pair], 1) for pair in found]

        names = texts(block.of("connection", "name"))
        atoms = [block.names[i] for i in block.of("connection", "atom")]
        assert [*zip(names, atoms)] == [(c.name, c.atom) for c in kind.connections]
        ends = (("down", "down"), ("up", "up"), ("disulfide", "dslf"))
        for end, name in ends:
            index = int(block.value(f"{end}_connection"))
            assert index == (names.index(name) if name in names else -1)


def test_neighbors_and_path_lengths_follow_the_bonds(blocks, compiled):
    offset = compiled.tensors["atom.neighbor_offset"]
    neighbor_atom = compiled.tensors["neighbor.atom"]
    across = compiled.tensors["neighbor.connection"]
    for block, kind in blocks:
        bonded = defaultdict(set)
        for first, second, *_ in kind.bonds:
            bonded[first].add(second)
            bonded[second].add(first)
        for at, name in enumerate(block.names, block.atoms.start):
            mine = slice(offset[at], offset[at + 1])
            own, connections = neighbor_atom[mine], across[mine]
            # Neighbours in the block first, by index; then connections, by theirs.
            inside = sorted(block.names.index(other) for other in bonded[name])
            outside = [i for i, c in enumerate(kind.connections) if c.atom == name]
            assert own.tolist() == inside + [-1] * len(outside)
            assert connections.tolist() == [-1] * len(inside) + outside
        n = len(block.names)
        start = compiled.tensors["block_type.path_offset"][block.index]
        paths = compiled.tensors["block_type.path_distance"][start : start + n * n].reshape(n, n)
        for at, name in enumerate(block.names):
            assert paths[at].tolist() == [path_length(bonded, name, to) for to in block.names]


def path_length(bonded, start, end, longest=6):
    """Bonds between two atoms, breadth first; TMol counts to 6 and takes 6 for all beyond."""
    seen, waiting = {start}, deque([(start, 0)])
    while waiting:
        atom, length = waiting.popleft()
        if atom == end or length == longest:
            return length if atom == end else longest
        for other in bonded[atom] - seen:
            seen.add(other)
            waiting.append((other, length + 1))
    return longest


def test_torsions_and_downstream_atoms_are_those_of_tmol(blocks):
    for block, kind in blocks:
        found = dict(zip(texts(block.of("torsion", "name")), block.of("torsion", "atoms")))
        assert list(found) == [torsion.name for torsion in kind.torsions]
        for torsion in kind.torsions:
            for uaid, atom in zip(found[torsion.name], (getattr(torsion, at) for at in "abcd")):
                expected = atom.atom or (atom.connection, atom.bond_sep_from_conn)
                assert block.named(uaid) == expected
        mainchain = kind.properties.polymer.mainchain_atoms or ()
        for connection, row, paths in zip(
            kind.connections, block.of("connection", "downstream"), block.of("connection", "paths")
        ):
            assert [*paths[0]] == [block.names.index(connection.atom), -1, -1]
            row = row[: len(block.names)]
            if connection.name in ("down", "up") and len(mainchain) > 1:
                walk = mainchain if connection.name == "down" else mainchain[::-1]
                assert [block.names[i] for i in row[: len(walk)]] == list(walk)


def place(parent, grand_parent, great_grand_parent, phi, theta, d):
    """A point d from parent, at angle theta to the line from grand parent, torsion phi."""
    z = (parent - grand_parent) / np.linalg.norm(parent - grand_parent)
    y = great_grand_parent - grand_parent
    y = y - z * (y @ z)
    y /= np.linalg.norm(y)
    x = np.cross(z, y)
    across = np.cos(phi) * y + np.sin(phi) * x
    return parent + d * (np.sin(theta) * across - np.cos(theta) * z)


@pytest.mark.parametrize("backup", ["", "backup_"])
def test_frames_put_atoms_where_the_ideal_residue_has_them(blocks, backup):
    placed = 0
    for block, kind in blocks:
        frames = block.of("atom", f"{backup}frame")
        geometry = block.of("atom", f"{backup}frame_geometry")
        leaves = block.of("atom", "is_leaf")
        ideal = kind.ideal_coords[kind.at_to_icoor_ind]
        for at, (frame, (phi, theta, d)) in enumerate(zip(frames, geometry)):
            inside = (frame[:, 0] >= 0).all() and len({at, *frame[:, 0]}) == 4
            if leaves[at] and inside:
                found = place(*ideal[frame[:, 0]], phi, theta, d)
                assert found == pytest.approx(ideal[at], abs=1e-4), (kind.name, block.names[at])
                placed += 1
    assert placed > (2000 if not backup else 50)


def test_frames_across_connections_are_those_of_the_residue(blocks):
    """The amide hydrogen: from the residue before; without it, from the atom that TMol names."""
    for block, kind in blocks:
        if "H" in block.names and kind.down_connection_ind >= 0 and kind.base_name == "ALA":
            frame = block.of("atom", "frame")[block.names.index("H")]
            assert [block.named(uaid) for uaid in frame] == ["N", "CA", ("down", 0)]
            backup = block.of("atom", "backup_frame")[block.names.index("H")]
            names = [block.named(uaid) for uaid in backup]
            assert names[:2] == ["N", "CA"]
            assert names[2] in block.names


def test_candidates_are_told_by_name(blocks, compiled):
    """Termini and variants of the proteins, from TMol's names of block types alone."""
    offset, listed = compiled.tensors["candidate.offset"], compiled.tensors["candidate.block_type"]
    expected = defaultdict(list)
    variants = {"CYD": 1, "HIS_D": 1, "HIS_POS": 2}
    for block, kind in blocks:
        base, *patches = kind.name.split(":")
        if kind.properties.polymer.polymer_type == "amino_acid":
            down, up = "nterm" in patches, "cterm" in patches
            terminus = {(1, 0): 0, (0, 0): 1, (0, 1): 2, (1, 1): 3}[down, up]
            base = base.removeprefix("D") if base[1:4] in AMINO_ACIDS + " CYD" else base
            variant = 4 if base.endswith("_DEP") else variants.get(base, 0)
            assert (block.value("terminus"), block.value("variant")) == (terminus, variant)
            assert block.value("is_non_default_terminus") == 0
            expected[compiled.class_names.index(kind.name3), terminus, variant].append(block.index)
    assert compiled.tensors["class.expects_titratable"].shape[1] == N_VARIANT_INDICES
    proteins = {key[0] for key in expected}
    for at in sorted(proteins):
        for terminus in range(N_TERMINI):
            for variant in range(N_VARIANT_INDICES):
                row = (at * N_TERMINI + terminus) * N_VARIANT_INDICES + variant
                found = listed[offset[row] : offset[row + 1]].tolist()
                assert found == expected[at, terminus, variant]
    assert len(offset) == len(compiled.class_names) * N_TERMINI * N_VARIANT_INDICES + 1


def test_canonical_atoms_are_told_by_name(blocks, compiled):
    tensors = compiled.tensors
    starts = tensors["class.canonical_offset"]
    aliases = tensors["class.alias_offset"]
    accepted = []
    for at, name in enumerate(compiled.class_names):
        assert texts(tensors["class.name"][[at]]) == [name]
        mine = slice(aliases[at], aliases[at + 1])
        pairs = zip(texts(tensors["alias.name"][mine]), tensors["alias.canonical"][mine].tolist())
        accepted.append(dict(pairs))
    for block, kind in blocks:
        at = int(block.value("class"))
        assert compiled.class_names[at] == kind.io_equiv_class
        canonical = texts(tensors["canonical.name"][starts[at] : starts[at + 1]])
        found = block.of("atom", "canonical")
        assert [canonical[i] for i in found] == block.names
        for alias in kind.atom_aliases:
            assert canonical[accepted[at][alias.alt_name]] == alias.name
        assert all(accepted[at][name] == i for name, i in zip(block.names, found))
        absent = {canonical[i] for i in range(len(canonical)) if block.value("canonical_absent")[i]}
        assert absent == set(canonical) - set(block.names)
        present = {canonical[i] for i in np.flatnonzero(block.value("canonical_nonterm_present"))}
        # What a terminus patch adds or types anew, does not count as missing.
        patched = set()
        if kind.properties.polymer.polymer_type == "amino_acid":
            patched |= {"H1", "H2", "H3"} if ":nterm" in kind.name else set()
            patched |= {"O", "OXT"} if ":cterm" in kind.name else set()
            assert present == set(block.names) - patched


def test_special_classes(compiled, context):
    ordering, metadata = context.canonical_ordering, compiled.metadata
    histidine, cysteine = metadata["histidine"], metadata["cysteine"]
    names = ordering.restypes_ordered_atom_names
    for atom in ("ND1", "NE2", "HD1", "HE2", "HN", "NH", "NN", "CG"):
        assert names["HIS"][histidine[atom]] == names["DHI"][histidine[atom]] == atom
    assert compiled.class_names[histidine["class"]] == "HIS"
    assert [compiled.class_names[i] for i in histidine["classes"]] == ["HIS", "DHI"]
    assert [compiled.class_names[i] for i in cysteine["classes"]] == ["CYS", "DCY"]
    assert names["CYS"][cysteine["SG"]] == "SG"
    assert metadata["class_aliases"] == {"MSE": "MET"}
    tensors = compiled.tensors
    for at, name in enumerate(compiled.class_names):
        amino_acid = name in AMINO_ACIDS.split()
        assert tensors["class.is_canonical_protein"][at] == amino_acid
        ends = tensors["class.down_atom"][at], tensors["class.up_atom"][at]
        if amino_acid:
            assert [names[name][i] for i in ends] == ["N", "C"]
            required = np.flatnonzero(tensors["class.required_mainchain"][at])
            assert [names[name][i] for i in required] == ["N", "CA", "C"]
        if re.fullmatch("D?[ACGTU]", name):
            assert tensors["class.is_polymer"][at]
            assert names[name][ends[1]] == "O3'"


def test_protonation_tables_choose_what_tmol_chooses(compiled, context):
    """TMol's own function on random hydrogens, against the rule as the tables state it."""
    tensors, ordering = compiled.tensors, context.canonical_ordering
    rng = np.random.default_rng(20160)
    classes = np.repeat(np.flatnonzero(tensors["class.is_canonical_protein"]), 200)
    n, width = len(classes), ordering.max_n_canonical_atoms
    variants = rng.integers(0, 5, n)
    # Most atoms are present, so that also rules that ask for all hydrogens apply.
    present = rng.random((n, width)) < rng.choice([0.3, 0.9, 0.98], n)[:, None]
    titratable = tensors["class.titratable"][classes].astype(bool)
    present &= ~(titratable & (rng.random(n) < 0.5)[:, None])
    expected = select_protonation_variants(
        ordering,
        context.parameter_database.chemical,
        torch.tensor(classes[None]),
        torch.tensor(variants[None]),
        torch.tensor(present[None]),
        [],
    )[0].numpy()

    def of_class(name):
        return tensors[f"class.{name}"][classes].astype(bool)

    moved = (
        of_class("has_deprotonated")
        & of_class("expects_titratable")[np.arange(n), variants]
        & (present & of_class("any_hydrogen")).any(1)
        & ~(~present & of_class("shared_hydrogen")).any(1)
        & ~(present & titratable).any(1)
    )
    assert 50 < moved.sum() < n - 50
    assert np.where(moved, 4, variants).tolist() == expected.tolist()


def test_forms_are_those_of_tmol(compiled, context):
    tensors, ordering = compiled.tensors, context.canonical_ordering
    forms = database_forms(context.parameter_database.chemical)
    for at, name in enumerate(compiled.class_names):
        names = ordering.restypes_ordered_atom_names[name]
        varying, table, fixed, amine = forms.get(name, ((), {}, {}, None))
        found = np.flatnonzero(tensors["class.varying_atom"][at])
        assert {names[i] for i in found} == set(varying)
        counts = tensors["class.fixed_hydrogens"][at]
        assert {names[i]: counts[i] for i in np.flatnonzero(counts >= 0)} == fixed
        assert tensors["class.amine_atom"][at] == (names.index(amine) if amine else -1)
        mine = slice(*tensors["class.form_offset"][at : at + 2])
        rows = zip(tensors["form.hydrogens"][mine], tensors["form.variant"][mine])
        given = {tuple(row[names.index(atom)] for atom in varying): v for row, v in rows}
        assert given == table


def test_hydrogen_parents(compiled, context):
    names = context.canonical_ordering.restypes_ordered_atom_names["HIS"]
    found = compiled.tensors["class.hydrogen_parent"][compiled.class_names.index("HIS")]
    parents = {names[h]: names[found[h]] for h in np.flatnonzero(found >= 0)}
    assert parents == {
        **{"H": "N", "H1": "N", "H2": "N", "H3": "N", "HA": "CA", "HB2": "CB", "HB3": "CB"},
        **{"HE1": "CE1", "HD2": "CD2", "HE2": "NE2", "HD1": "ND1"},
    }


def test_candidates_of_all_classes_are_those_of_tmol(compiled, context):
    """Also of classes whose rules are not in their names, from TMol's own table."""
    packed = context.packed_block_types
    _annotate_packed_block_types_w_canonical_res_order(context.canonical_ordering, packed)
    table = packed.canonical_ordering_annotation.var_combo_candidate_bt_index.numpy()
    offset = compiled.tensors["candidate.offset"]
    rows = np.split(compiled.tensors["candidate.block_type"], offset[1:-1])
    padded = [[*row, *[-1] * (table.shape[-1] - len(row))] for row in rows]
    assert padded == table.reshape(-1, table.shape[-1]).tolist()

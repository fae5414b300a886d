"""Poses as TMol's PoseStack (0.2.0): every tensor, and so every energy, is TMol's own."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from biotite.structure import AtomArray
from tmol.io import build_context_from_atom_array
from tmol.pose import PoseStackBuilder
from tmol.score import beta2016_score_function
from tmol_poses import CPU, parameters_of, pose_from_tmol, read_tmol

from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.upstream import tmol_pose_stack

STRUCTURES = Path(__file__).parent / "structures"
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
TENSORS = ("coords", "block_coord_offset", "inter_residue_connections", "block_type_ind")
TENSORS += ("chain_id",)

# A plain chain; two chains, insertion codes, disulfides; MSE in mmCIF; altlocs and disulfides.
FILES = ("1ubi.pdb", "4zhl.cif.gz", "1a8o.cif", "1ejg.pdb")


@pytest.fixture(scope="module", params=DEVICES)
def context(request):
    return build_context_from_atom_array(AtomArray(0), torch.device(request.param))


@pytest.fixture(scope="module")
def parameters():
    """Those of TMol's context without metals, in the reverse order: no index is TMol's."""
    packed = build_context_from_atom_array(AtomArray(0), CPU).packed_block_types
    return parameters_of(packed, order=reversed(range(packed.n_types)))


@pytest.fixture(scope="module")
def by_tmol(tmp_path_factory):
    """TMol's own poses, of the files and of one residue."""
    path = tmp_path_factory.mktemp("gly") / "gly.pdb"
    lines = (STRUCTURES / "1ubi.pdb").read_text().splitlines(True)
    path.write_text("".join(x for x in lines if x.startswith("ATOM") and x[22:26] == "  10"))
    paths = {name: STRUCTURES / name for name in FILES} | {"gly": path}
    return {name: read_tmol(path) for name, path in paths.items()}


def check_same(found, expected):
    """Two TMol PoseStacks: the same tensors of the same types, the same names."""
    names = [kind.name for kind in found.packed_block_types.active_block_types]
    assert names == [kind.name for kind in expected.packed_block_types.active_block_types]
    pairs = {name: (getattr(found, name), getattr(expected, name)) for name in TENSORS}
    wide = (f"{name}64" for name in TENSORS if name != "coords")
    pairs |= {name: (getattr(found, name), getattr(expected, name)) for name in wide}
    for name in ("near_blocks", "bondsep"):
        tables = found.inter_block_bondsep, expected.inter_block_bondsep
        pairs[name] = tuple(getattr(table, name) for table in tables)
    for name, (one, other) in pairs.items():
        assert (one.dtype, one.device) == (other.dtype, other.device), name
        assert torch.equal(one, other), name
    for name in ("residue_labels", "residue_insertion_codes", "chain_labels"):
        one, other = getattr(found.pdb_info, name), getattr(expected.pdb_info, name)
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other), name
    for name in ("atom_occupancy", "atom_b_factor"):
        one, other = getattr(found.pdb_info, name), getattr(expected.pdb_info, name)
        assert (one.dtype, one.shape) == (other.dtype, other.shape), name


def energies(stack):
    """Every score type of every pose, unweighted."""
    score_function = beta2016_score_function(stack.device)
    scorer = score_function.render_whole_pose_scoring_module(stack)
    with torch.no_grad():
        return scorer(stack.coords, sum_terms=False, apply_weights=False)


BATCHES = [
    *([name] for name in (*FILES, "gly")),
    ["gly", "1ubi.pdb", "4zhl.cif.gz", "gly", "1a8o.cif", "1ejg.pdb", "1ubi.pdb"],
]


@pytest.mark.parametrize("names", BATCHES, ids=lambda names: "+".join(names))
def test_every_tensor_and_energy_is_tmols(context, parameters, by_tmol, names):
    given = [by_tmol[name] for name in names]
    poses = [pose_from_tmol(stack, 0, parameters) for stack in given]
    found = tmol_pose_stack(poses, context)
    expected = PoseStackBuilder.from_poses(given, context.packed_block_types.device)
    check_same(found, expected)
    # The inputs are the same bits; so are the energies on a CPU. On CUDA TMol adds floats in
    # the order that threads come: 1e-5 of the largest is some hundred times their precision.
    one, other = energies(found), energies(expected)
    assert one.shape[1] == len(names)
    if one.device.type == "cpu":
        assert torch.equal(one, other)
    assert torch.allclose(one, other, rtol=1e-5, atol=1e-3)
    assert ((one != 0).sum(dim=0) >= (4 if names == ["gly"] else 10)).any()


def test_poses_come_back(context, parameters, by_tmol):
    names = ["4zhl.cif.gz", "gly", "1ubi.pdb"]
    poses = [pose_from_tmol(by_tmol[name], 0, parameters) for name in names]
    stack = tmol_pose_stack(poses, context)
    for index, pose in enumerate(poses):
        again = pose_from_tmol(stack, index, parameters)
        for name in ("coords", "block_types", "connections", "chain_of_block"):
            assert np.array_equal(getattr(again, name), getattr(pose, name)), name
        assert again.labels == pose.labels


@pytest.fixture(scope="module")
def calcium():
    """1ajj in TMol's context of its own: more block types, of up to 12 connections."""
    return read_tmol(STRUCTURES / "1ajj.pdb")


def test_a_context_may_hold_more_block_types(by_tmol, calcium):
    packed = calcium.packed_block_types
    given = [calcium, by_tmol["1ubi.pdb"]]
    parameters = parameters_of(packed)
    assert packed.max_n_conn > by_tmol["1ubi.pdb"].packed_block_types.max_n_conn
    poses = [pose_from_tmol(stack, 0, parameters) for stack in given]
    found = tmol_pose_stack(poses, SimpleNamespace(packed_block_types=packed))
    expected = PoseStackBuilder.from_poses(given, CPU)
    check_same(found, expected)
    assert torch.equal(energies(found), energies(expected))


def test_a_block_type_that_the_context_lacks_is_named(context, calcium):
    pose = pose_from_tmol(calcium, 0, parameters_of(calcium.packed_block_types))
    with pytest.raises(StructureError, match=r"no block type .*CA") as caught:
        tmol_pose_stack([pose], context)
    assert caught.value.reason == "unsupported_chemistry"


@pytest.mark.parametrize("tensor", ["atom", "connection"])
def test_block_types_of_another_database_are_refused(context, parameters, by_tmol, tensor):
    """GLU has 15 atoms and 2 connections, GLN 17 and 2, GLU:cterm 16 and 1."""
    other = {"atom": "GLN", "connection": "GLU:cterm"}[tensor]
    names = parameters.block_type_names.copy()
    at, of = (names.tolist().index(name) for name in ("GLU", other))
    names[[at, of]] = names[[of, at]]
    strange = SimpleNamespace(id="f" * 12, block_type_names=names, tensors=parameters.tensors)
    pose = replace(pose_from_tmol(by_tmol["1ubi.pdb"], 0, parameters), parameters=strange)
    with pytest.raises(RunError, match=f"{other}.*{'f' * 12}"):
        tmol_pose_stack([pose], context)


def test_poses_of_two_parameters_are_refused(context, parameters, by_tmol):
    pose = pose_from_tmol(by_tmol["gly"], 0, parameters)
    other = SimpleNamespace(**(vars(parameters) | {"id": "f" * 12}))
    with pytest.raises(RunError, match=f"{'f' * 12}.*{parameters.id}"):
        tmol_pose_stack([pose, replace(pose, parameters=other)], context)


def test_no_poses_are_refused(context):
    with pytest.raises(RunError, match="at least one"):
        tmol_pose_stack([], context)

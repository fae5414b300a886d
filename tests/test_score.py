"""The interface of native scoring: TMol's contract, what it refuses, and its operators.

The energies themselves are compared with TMol's term by term in test_score_*.py; here they
are compared with what `native.score` gives, summed and weighted by hand.
"""

import gc
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from random_poses import bonded_pose
from score_parity import excess, tmol_energies

from tmol_plugin import native, score, tables
from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.pose import PoseStackBuilder
from tmol_plugin.score import ScoreFunction, ScoreType
from tmol_plugin.structure import read_pose

STRUCTURES = Path(__file__).parent / "structures"
CPU = torch.device("cpu")
NAMES = ("1ubi.pdb", "1ejg.pdb", "1qbs.pdb")
NOT_NATIVE = ("gen_torsions", "na_torsion", "na_torsion_well", "metal_coordination")


@pytest.fixture(scope="module")
def poses(compiled):
    return [read_pose(STRUCTURES / name, compiled) for name in NAMES]


@pytest.fixture(scope="module")
def batch(poses):
    return PoseStackBuilder.from_poses(poses, CPU)


@pytest.fixture
def score_function(compiled):
    return ScoreFunction.from_parameters(compiled, "cpu")


@pytest.fixture
def scorer(score_function, batch):
    return score_function.render_whole_pose_scoring_module(batch)


def by_hand(compiled, batch):
    """Unweighted energies of poses and of blocks, a row for each of SCORE_TYPES."""
    arrays = {name: one.numpy() for name, one in vars(batch).items() if torch.is_tensor(one)}
    found = native.score(native.Scorer(compiled.tensors), arrays, 1, by_block=True)
    rows = [tables.SCORE_TYPES.index(name) for name in native.score_types()]
    whole = [np.zeros((len(tables.SCORE_TYPES), one.shape[1])) for one in found]
    for one, values in zip(whole, found, strict=True):
        one[rows] = values
    return whole


def close(found, expected):
    """Equal but for the rounding to 32 bits."""
    assert found.dtype == torch.float32
    assert tuple(found.shape) == expected.shape
    return np.allclose(found.numpy(), expected, rtol=2e-7, atol=1e-6)


def test_score_types_are_the_columns_of_tables():
    assert tuple(kind.name for kind in ScoreType) == tables.SCORE_TYPES
    assert [kind.value for kind in ScoreType] == list(range(25))
    assert {*native.score_types(), *NOT_NATIVE} == {*tables.SCORE_TYPES}


def test_rows_weights_and_energies_are_those_of_tmol(compiled, context, poses, scorer, batch):
    from tmol import beta2016_score_function

    by_tmol = beta2016_score_function(CPU)
    score_function = ScoreFunction.from_parameters(compiled)
    kinds = by_tmol.all_score_types()
    assert [kind.name for kind in kinds] == [k.name for k in score_function.all_score_types()]
    weights = [float(by_tmol.get_weight(kind)) for kind in kinds]
    assert weights == [score_function.get_weight(kind) for kind in ScoreType]
    expected = tmol_energies(poses, context, by_tmol)
    found = dict(zip(tables.SCORE_TYPES, scorer(batch.coords, sum_terms=False), strict=True))
    for name in tables.SCORE_TYPES:
        weighted = expected[name] * weights[tables.SCORE_TYPES.index(name)]
        assert excess(found[name].numpy(), weighted).max() < 1


@pytest.mark.parametrize("apply_weights", [True, False])
def test_terms_sums_and_blocks_are_those_of_the_library(
    compiled, score_function, scorer, batch, apply_weights
):
    poses, blocks = by_hand(compiled, batch)
    assert (poses[tables.SCORE_TYPES.index("ref")] != 0).all()
    if apply_weights:
        weights = np.array([[score_function.get_weight(kind)] for kind in ScoreType])
        assert len(np.unique(weights)) > 5
        poses, blocks = poses * weights, blocks * weights
    coords = batch.coords
    found = scorer(coords, sum_terms=False, apply_weights=apply_weights)
    assert close(found, poses)
    assert close(scorer(coords, apply_weights=apply_weights), poses.sum(0))
    of_blocks = scorer.per_block(coords, apply_weights=apply_weights)
    assert close(of_blocks, blocks)
    # Blocks add up to their pose: what is lost is the rounding of each block's value.
    of_pose = np.repeat(np.arange(batch.n_poses), np.diff(batch.pose_block_offsets))
    for row, expected in zip(of_blocks.double().numpy(), poses, strict=True):
        sums = np.bincount(of_pose, row, minlength=batch.n_poses)
        assert np.allclose(sums, expected, rtol=1e-6, atol=1e-4)


def test_defaults_are_those_of_tmol(scorer, batch):
    coords = batch.coords
    assert torch.equal(scorer(coords), scorer(coords, sum_terms=True, apply_weights=True))
    assert torch.equal(scorer.per_block(coords), scorer.per_block(coords, apply_weights=False))


def test_a_pose_has_the_same_bits_in_any_batch_and_on_any_threads(score_function, poses, scorer):
    batch = PoseStackBuilder.from_poses(poses, CPU)
    expected = scorer(batch.coords, sum_terms=False)
    for n_threads in (1, 2, 5):
        found = score_function.render_whole_pose_scoring_module(batch, n_threads)
        assert torch.equal(found(batch.coords, sum_terms=False), expected)
    for number, pose in enumerate(poses):
        alone = PoseStackBuilder.from_poses([pose], CPU)
        found = score_function.render_whole_pose_scoring_module(alone)
        assert torch.equal(found(alone.coords, sum_terms=False)[:, 0], expected[:, number])


def test_weights_are_those_when_it_was_rendered(score_function, batch):
    before = score_function.render_whole_pose_scoring_module(batch)
    first = before(batch.coords)
    score_function.set_weight(ScoreType.ref, 3)
    assert score_function.get_weight(ScoreType.ref) == 3
    after = score_function.render_whole_pose_scoring_module(batch)
    ref = before(batch.coords, sum_terms=False)[ScoreType.ref.value]
    assert torch.allclose(after(batch.coords), first + 2 * ref)
    assert torch.equal(before(batch.coords), first)
    assert after(batch.coords, sum_terms=False).shape[0] == 25
    with pytest.raises(RunError, match="ref: the weight is nan"):
        score_function.set_weight(ScoreType.ref, math.nan)


def test_coordinates_may_change_and_are_left_alone(scorer, batch, compiled):
    moved = batch.coords + torch.linspace(0, 1, len(batch.coords))[:, None] * torch.eye(3)[0]
    before = moved.clone()
    found = scorer(moved, sum_terms=False, apply_weights=False)
    assert torch.equal(moved, before)
    assert close(found, by_hand(compiled, replace(batch, coords=moved))[0])
    # Not contiguous: a column of something wider.
    wide = torch.zeros((len(moved), 5))
    wide[:, 1:4] = moved
    assert torch.equal(scorer(wide[:, 1:4], sum_terms=False, apply_weights=False), found)


@pytest.mark.parametrize("context_of", [torch.no_grad, torch.inference_mode])
def test_it_scores_without_gradients(scorer, batch, context_of):
    expected = scorer(batch.coords)
    wanting = batch.coords.clone().requires_grad_()
    with context_of():
        for coords in (batch.coords, batch.coords.clone(), wanting):
            assert torch.equal(scorer(coords), expected)
            assert not scorer(coords).requires_grad
    with pytest.raises(RunError, match=r"require gradients.*no_grad"):
        scorer(wanting)


def test_no_poses_give_no_energies(score_function):
    empty = PoseStackBuilder.from_poses([], CPU)
    scorer = score_function.render_whole_pose_scoring_module(empty)
    assert scorer(empty.coords).shape == (0,)
    assert scorer(empty.coords, sum_terms=False).shape == (25, 0)
    assert scorer.per_block(empty.coords).shape == (25, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda coords: coords[1:], r"\[\d+, 3\] on cpu, .* rendered for torch.float32 \[\d+, 3\]"),
        (lambda coords: coords[None], r"\[1, \d+, 3\]"),
        (torch.Tensor.double, r"torch\.float64 .* rendered for torch\.float32 .*convert"),
        (lambda coords: coords.to("meta"), "on meta, .* on cpu"),
        (torch.Tensor.numpy, "are ndarray, .* rendered for"),
    ],
)
def test_other_coordinates_are_refused(scorer, batch, change, words):
    for call in (scorer, scorer.per_block):
        with pytest.raises(RunError, match=words):
            call(change(batch.coords))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_coordinates_that_are_not_finite_are_refused(scorer, batch, value):
    coords = batch.coords.clone()
    coords[batch.pose_atom_offsets[1] + 7, 2] = value
    for call in (scorer, scorer.per_block):
        with pytest.raises(StructureError, match=r"of pose 1 are not finite.* atom 7;") as caught:
            call(coords)
        assert caught.value.reason == "bad_coordinates"
    coords[batch.pose_atom_offsets[2]] = value
    with pytest.raises(StructureError, match=r"of pose 1 .and of 1 poses more. are"):
        scorer(coords)


def test_other_parameters_devices_and_threads_are_refused(score_function, compiled, poses):
    other = SimpleNamespace(**(vars(compiled) | {"id": "f" * 12}))
    strangers = PoseStackBuilder.from_poses([replace(poses[0], parameters=other)], CPU)
    render = score_function.render_whole_pose_scoring_module
    with pytest.raises(RunError, match=f"{'f' * 12}.*{compiled.id}"):
        render(strangers)
    batch = PoseStackBuilder.from_poses(poses, CPU)
    with pytest.raises(RunError, match=r"on meta .* on cpu"):
        render(replace(batch, coords=batch.coords.to("meta")))
    with pytest.raises(RunError, match="n_threads is 0"):
        render(batch, 0)
    for device in ("cuda", torch.device("cuda:1")):
        with pytest.raises(RunError, match=f"CPU only, not on {device}"):
            ScoreFunction.from_parameters(compiled, device)


def set_to(name, index, value):
    def change(batch):
        getattr(batch, name)[index] = value

    return change


DAMAGE = [
    *(set_to("block_types", 3, value) for value in (-1, 10**6, 0)),
    *(set_to("connections", (4, 0), value) for value in (-1, 7, 10**6, -2)),
    *(set_to("connections", (4, 1), value) for value in (-1, 5, -2)),
    *(set_to(name, 1, -1) for name in ("pose_block_offsets", "block_atom_offsets")),
    *(set_to("pose_block_offsets", -1, value) for value in (1, 10**6)),
    set_to("pose_block_offsets", 0, 1),
    set_to("block_connection_offsets", 2, 0),
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_tensors_that_would_lead_astray_are_refused(score_function, poses, damage):
    batch = PoseStackBuilder.from_poses(poses, CPU)
    damage(batch)
    with pytest.raises(RunError, match=r"contradict each other.*from_poses"):
        score_function.render_whole_pose_scoring_module(batch)


def test_a_partner_in_another_pose_is_refused(score_function, poses):
    """Two of ubiquitin: the last block of the first bonded to the first of the second."""
    batch = PoseStackBuilder.from_poses([poses[0]] * 2, CPU)
    n_blocks, ports = poses[0].n_blocks, batch.block_connection_offsets
    assert batch.connections[-1].tolist() != [-1, -1]
    up, down = int(ports[n_blocks - 1]), int(ports[n_blocks])
    batch.connections[up] = torch.tensor([n_blocks, 0])
    batch.connections[down] = torch.tensor([-1, 0])
    with pytest.raises(RunError, match="contradict"):
        score_function.render_whole_pose_scoring_module(batch)


def test_a_wrong_type_is_refused(score_function, batch):
    wide = replace(batch, connections=batch.connections.long())
    with pytest.raises(RunError, match="not all int32"):
        score_function.render_whole_pose_scoring_module(wide)


def test_a_scorer_keeps_what_it_was_rendered_for(score_function, poses):
    batch = PoseStackBuilder.from_poses(poses, CPU)
    scorer = score_function.render_whole_pose_scoring_module(batch)
    coords, expected = batch.coords.clone(), scorer(batch.coords)
    batch.block_types.fill_(10**6)
    assert torch.equal(scorer(coords), expected)


OPERATORS = [torch.ops.tmol_plugin.score.default, torch.ops.tmol_plugin.score_blocks.default]


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_operators_are_sound(operator, scorer, batch):
    torch.library.opcheck(operator, scorer._arguments(batch.coords))
    empty = PoseStackBuilder.from_poses([], CPU)
    topology = (getattr(empty, name) for name in score._TOPOLOGY)
    options = scorer._arguments(batch.coords)[-2:]
    torch.library.opcheck(operator, (empty.coords, *topology, *options))


def test_scorers_of_one_database_share_the_librarys(compiled, batch):
    score._SCORERS.pop(compiled.id, None)
    first = ScoreFunction.from_parameters(compiled)
    again = ScoreFunction.from_parameters(compiled)
    assert first._scorer is again._scorer is score._SCORERS[compiled.id]
    scorer = first.render_whole_pose_scoring_module(batch)
    del first, again
    gc.collect()
    assert scorer(batch.coords).shape == (3,)
    arguments = scorer._arguments(batch.coords)
    del scorer
    gc.collect()
    with pytest.raises(RunError, match=f"no score function of parameters {compiled.id}"):
        torch.ops.tmol_plugin.score(*arguments)


def test_preparing_imports_no_torch(compiled, tmp_path):
    compiled.save(tmp_path / "p.safetensors")
    code = (
        "import sys; from tmol_plugin.parameters import load_parameters;"
        "from tmol_plugin.structure import read_pose;"
        "read_pose(sys.argv[1], load_parameters(sys.argv[2]));"
        "print({'torch', 'tmol'} & {*sys.modules})"
    )
    files = str(STRUCTURES / "1ejg.pdb"), str(tmp_path / "p.safetensors")
    words = subprocess.check_output([sys.executable, "-c", code, *files], text=True)
    assert words == "set()\n"


def test_score_types_go_by_name_also_those_that_tmol_numbers(score_function):
    from tmol.score import ScoreType as TmolScoreType

    for kind in (TmolScoreType.disulfide, ScoreType.disulfide, "disulfide"):
        score_function.set_weight(kind, 7.0)
        assert score_function.get_weight(ScoreType.disulfide) == 7.0
        score_function.set_weight(ScoreType.disulfide, 1.25)
    assert score_function.get_weight(TmolScoreType.rama) == 1.0
    for unknown in ("fa_dun", 3, None):
        with pytest.raises(RunError, match="is no score type; give one of fa_ljatr"):
            score_function.set_weight(unknown, 1.0)


def test_nothing_is_read_beyond_coordinates(score_function, batch):
    flat = replace(batch, coords=batch.coords[:, :2].contiguous())
    with pytest.raises(RunError, match="contradict each other"):
        score_function.render_whole_pose_scoring_module(flat)
    topology = [getattr(batch, name) for name in score._TOPOLOGY]
    for short in (batch.coords[:100], batch.coords[:, :1], batch.coords.double()):
        with pytest.raises(RunError, match=r"coordinates are .* the blocks have"):
            torch.ops.tmol_plugin.score(short, *topology, score_function.parameters.id, 1)


def test_blocks_that_are_no_amino_acids_are_refused(score_function, compiled):
    dna = bonded_pose(compiled, ["ALA", "DA"], [], lambda n: np.zeros((n, 3)))
    with pytest.raises(RunError, match="block type DA is not one of the amino acids"):
        score_function.render_whole_pose_scoring_module(PoseStackBuilder.from_poses([dna], CPU))


def test_coordinates_as_far_as_floats_go_end_in_some_result(scorer, batch):
    for far in (2e38, -3e38):
        coords = batch.coords.clone()
        coords[:100] += far
        assert scorer(coords).shape == (len(NAMES),)

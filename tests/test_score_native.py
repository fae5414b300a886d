"""Native scoring as a whole: TMol's energies, and the same bits however the work is shared out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from score_parity import CPU, excess, native_energies, tmol_energies

from tmol_plugin import native
from tmol_plugin.errors import RunError
from tmol_plugin.pose import PoseStackBuilder
from tmol_plugin.structure import read_pose

STRUCTURES = Path(__file__).parent / "structures"
FILES = ("1ejg.pdb", "1k1i.pdb", "1qbs.pdb", "1ubi.pdb", "1a8o.cif", "1fas.cif")
FILES += ("2k39.pdb.gz", "2ofg.cif.gz", "4zhl.cif.gz")


@pytest.fixture(scope="module")
def poses(compiled):
    return [read_pose(STRUCTURES / name, compiled) for name in FILES]


@pytest.fixture(scope="module")
def scorer(compiled):
    return native.Scorer(compiled.tensors)


def shaken(pose, sigma, seed):
    noise = np.random.default_rng(seed).normal(0, sigma, pose.coords.shape)
    return replace(pose, coords=(pose.coords + noise).astype(np.float32))


def arrays_of(poses):
    stack = PoseStackBuilder.from_poses(poses, CPU)
    return {name: v.numpy() for name, v in vars(stack).items() if name != "parameters_id"}


def score(scorer, poses, n_threads=1):
    return native.score(scorer, arrays_of(poses), n_threads)[0]


@pytest.mark.parametrize("sigma", [0, 0.02, 0.3, 1.0])
def test_energies_are_those_of_tmol(poses, context, score_function, scorer, sigma):
    moved = [shaken(pose, sigma, seed) for seed, pose in enumerate(poses)]
    expected = tmol_energies(moved, context, score_function)
    found = native_energies(moved, scorer)
    for name in native.score_types():
        assert (excess(found[name], expected[name]) < 1).all(), name
        assert (found[name] != 0).any(), name
    # What native scoring does not compute cannot occur.
    for name in expected.keys() - found.keys():
        assert not expected[name].any(), name


def test_weighted_totals_are_those_of_tmol(poses, compiled, context, score_function, scorer):
    weights = compiled.metadata["weights"]
    total = [
        sum(weights[name] * values for name, values in energies.items())
        for energies in (
            native_energies(poses, scorer),
            tmol_energies(poses, context, score_function),
        )
    ]
    assert (np.abs(total[0] - total[1]) < 0.01 + 1e-5 * np.abs(total[1])).all()


def test_atoms_at_one_point_have_large_finite_energies_as_tmol(
    poses, context, score_function, scorer
):
    pose = poses[FILES.index("1ubi.pdb")]
    coords = pose.coords.copy()
    # Two atoms of one block, two of blocks far apart, and a whole block on another.
    first, second, third = pose.block_atom_offsets[[3, 40, 60]]
    coords[first + 7] = coords[first + 9]
    coords[second + 4] = coords[third + 2]
    size = min(np.diff(pose.block_atom_offsets)[[10, 30]])
    at = pose.block_atom_offsets[[10, 30]]
    coords[at[0] : at[0] + size] = coords[at[1] : at[1] + size]
    clash = [replace(pose, coords=coords)]
    expected = tmol_energies(clash, context, score_function)
    found = native_energies(clash, scorer)
    assert expected["fa_ljrep"] > 1000
    for name, energies in found.items():
        assert np.isfinite(energies).all(), name
        if np.isfinite(expected[name]).all():
            assert (excess(energies, expected[name]) < 1).all(), name


def test_same_bits_alone_in_a_batch_at_any_place_on_any_threads(poses, scorer):
    others = [shaken(pose, 0.1, seed) for seed in range(8) for pose in poses[:8]]
    alone = np.concatenate([score(scorer, [pose]) for pose in poses], axis=1)
    for repeat in range(20):
        n_threads = 1 + repeat % 3
        place = (7 * repeat) % len(others)
        batch = [*others[:place], *poses, *others[place:]]
        found = score(scorer, batch, n_threads)[:, place : place + len(poses)]
        np.testing.assert_array_equal(found, alone)
        shared = np.concatenate([score(scorer, [pose], n_threads) for pose in poses], axis=1)
        np.testing.assert_array_equal(shared, alone)


def test_blocks_have_the_energies_of_the_whole(poses, scorer):
    arrays = arrays_of(poses)
    whole, blocks = native.score(scorer, arrays, 1, by_block=True)
    starts = arrays["pose_block_offsets"][:-1]
    sums = np.add.reduceat(blocks, starts, axis=1)
    # Pairs are summed in single precision in another order.
    np.testing.assert_allclose(sums, whole, rtol=2e-6, atol=1e-4)
    plain, nothing = native.score(scorer, arrays, 2)
    assert nothing is None
    np.testing.assert_allclose(plain, whole, rtol=2e-6, atol=1e-4)
    for n_threads in (2, 3):
        again = native.score(scorer, arrays, n_threads, by_block=True)
        np.testing.assert_array_equal(again[1], blocks)
        np.testing.assert_array_equal(again[0], whole)


def test_pairs_are_halved_between_their_blocks(compiled, scorer, poses):
    """A block's energy, twice its pairs' halves: what is lost when the block is moved away."""
    pose = poses[FILES.index("1ubi.pdb")]
    types = native.score_types()
    moved = pose.coords.copy()
    block = 30
    atoms = slice(*pose.block_atom_offsets[block : block + 2])
    moved[atoms] += 1000
    pairs = [types.index(name) for name in ("fa_ljatr", "fa_ljrep", "fa_lk", "fa_elec", "hbond")]
    pairs += [types.index(name) for name in ("lk_ball_iso", "lk_ball", "lk_bridge_uncpl")]
    here = native.score(scorer, arrays_of([pose]), 1, by_block=True)
    away = native.score(scorer, arrays_of([replace(pose, coords=moved)]), 1, by_block=True)
    lost = here[0][pairs, 0] - away[0][pairs, 0]
    halves = here[1][pairs, block] - away[1][pairs, block]
    # Waters and hydrogen bonds of the block before depend on where the next block is.
    np.testing.assert_allclose(lost[:4], 2 * halves[:4], rtol=1e-4, atol=1e-3)
    assert (np.abs(halves) > 0).all()


def test_instruction_sets_agree_within_the_accuracy_promised(compiled, poses):
    """Each is tested that this machine runs; the bits are each one's own."""
    known = native.instruction_sets()
    assert known[-1] == "baseline"
    energies = [score(native.Scorer(compiled.tensors, name), poses) for name in known]
    for other in energies[1:]:
        assert (excess(other, energies[0]) < 0.1).all()
    with pytest.raises(RunError, match="'mmx': this machine has"):
        native.Scorer(compiled.tensors, "mmx")


def test_no_poses_have_no_energies(scorer):
    assert score(scorer, []).shape == (len(native.score_types()), 0)

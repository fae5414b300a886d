"""The same bits however native scoring is shared out; without TMol and torch, so under sanitizers.

Makefile's `test-sanitized` runs this file under AddressSanitizer and ThreadSanitizer too.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from random_poses import shaken

from tmol_plugin import native
from tmol_plugin.errors import RunError
from tmol_plugin.pose import stack_arrays
from tmol_plugin.structure import read_pose

STRUCTURES = Path(__file__).parent / "structures"
FILES = ("1ejg.pdb", "1k1i.pdb", "1qbs.pdb", "1ubi.pdb", "1a8o.cif", "1fas.cif")
FILES += ("2k39.pdb.gz", "2ofg.cif.gz", "4zhl.cif.gz")


@pytest.fixture(scope="module")
def poses(parameters):
    return [read_pose(STRUCTURES / name, parameters) for name in FILES]


@pytest.fixture(scope="module")
def scorer(parameters):
    return native.Scorer(parameters.tensors)


def score(scorer, poses, n_threads=1):
    return native.score(scorer, stack_arrays(poses), n_threads)[0]


def test_several_threads_of_python_score_at_once_with_one_scorer(poses, scorer):
    expected = [score(scorer, [pose]) for pose in poses]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pose: score(scorer, [pose], 2), [*poses, *poses]))
    for one, other in zip(found, [*expected, *expected], strict=True):
        np.testing.assert_array_equal(one, other)


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
    arrays = stack_arrays(poses)
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


def test_pairs_are_halved_between_their_blocks(scorer, poses):
    """A block's energy, twice its pairs' halves: what is lost when the block is moved away."""
    pose = poses[FILES.index("1ubi.pdb")]
    types = native.score_types()
    moved = pose.coords.copy()
    block = 30
    atoms = slice(*pose.block_atom_offsets[block : block + 2])
    moved[atoms] += 1000
    pairs = [types.index(name) for name in ("fa_ljatr", "fa_ljrep", "fa_lk", "fa_elec", "hbond")]
    pairs += [types.index(name) for name in ("lk_ball_iso", "lk_ball", "lk_bridge_uncpl")]
    here = native.score(scorer, stack_arrays([pose]), 1, by_block=True)
    away = native.score(scorer, stack_arrays([replace(pose, coords=moved)]), 1, by_block=True)
    lost = here[0][pairs, 0] - away[0][pairs, 0]
    halves = here[1][pairs, block] - away[1][pairs, block]
    # Waters and hydrogen bonds of the block before depend on where the next block is.
    np.testing.assert_allclose(lost[:4], 2 * halves[:4], rtol=1e-4, atol=1e-3)
    assert (np.abs(halves) > 0).all()


def test_instruction_sets_agree_within_the_accuracy_promised(parameters, poses):
    """Each is tested that this machine runs; the bits are each one's own."""
    known = native.instruction_sets()
    assert known[-1] == "baseline"
    energies = [score(native.Scorer(parameters.tensors, name), poses) for name in known]
    for other in energies[1:]:
        # A tenth of what DESIGN.md allows between native and TMol.
        assert (np.abs(other - energies[0]) < 1e-4 + 1e-5 * np.abs(energies[0])).all()
    with pytest.raises(RunError, match="'mmx': this machine has"):
        native.Scorer(parameters.tensors, "mmx")


def test_no_poses_have_no_energies(scorer):
    assert score(scorer, []).shape == (len(native.score_types()), 0)

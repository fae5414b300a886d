"""Energies of native scoring beside TMol's own, term by term, on identical coordinates."""

import numpy as np
import torch
from tmol.score import ScoreFunction, ScoreType

from tmol_plugin import native, tables
from tmol_plugin.pose import PoseStackBuilder
from tmol_plugin.upstream import tmol_pose_stack

CPU = torch.device("cpu")


def score_function_of(types, context):
    """TMol's score function of some score types, each with weight 1."""
    function = ScoreFunction(context.parameter_database, CPU)
    for name in types:
        function.set_weight(ScoreType[name], 1.0)
    return function


def tmol_energies(poses, context, score_function) -> dict[str, np.ndarray]:
    """TMol's unweighted energies of poses by score type, float64 [n_poses]."""
    stack = tmol_pose_stack(poses, context)
    scorer = score_function.render_whole_pose_scoring_module(stack)
    with torch.no_grad():
        values = scorer(stack.coords, sum_terms=False, apply_weights=False)
    names = [kind.name for kind in score_function.all_score_types()]
    return dict(zip(names, values.double().numpy(), strict=True))


def native_energies(poses, scorer, n_threads: int = 1) -> dict[str, np.ndarray]:
    """Native unweighted energies of poses by score type, float64 [n_poses]."""
    stack = PoseStackBuilder.from_poses(poses, CPU)
    arrays = {name: value.numpy() for name, value in vars(stack).items() if torch.is_tensor(value)}
    energies, _ = native.score(scorer, arrays, n_threads)
    return dict(zip(native.score_types(), energies, strict=True))


def excess(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|found - expected| as a share of what DESIGN.md allows: 1e-3 + 1e-4 * |expected|."""
    return np.abs(found - expected) / (1e-3 + 1e-4 * np.abs(expected))


def worst(poses, context, score_function, scorer, types=tables.SCORE_TYPES) -> list[tuple]:
    """For each score type: its name, worst excess, native and TMol's energy there, which pose."""
    expected = tmol_energies(poses, context, score_function)
    found = native_energies(poses, scorer)
    rows = []
    for name in types:
        if name in found:
            over = excess(found[name], expected[name])
            at = int(np.argmax(over))
            rows.append((name, over[at], found[name][at], expected[name][at], at))
    return rows

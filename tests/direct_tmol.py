"""Energies by TMol alone: read a file, build the pose, score it unbatched. Imports nothing of
tmol_plugin; run as its own process to compare with what the pipeline wrote.

    python tests/direct_tmol.py HYDROGENS SEED PATH:MODEL ... > energies.json
"""

import json
import sys
import warnings

import torch
from tmol import beta2016_score_function, pose_stack_from_file


def energies(path: str, model: int, hydrogens: str, seed: int) -> dict[str, float]:
    """Weighted score types of one model, in TMol's units."""
    device = torch.device("cpu")
    pose = pose_stack_from_file(
        path, device, model=model, no_optH=hydrogens == "keep", packer_seed=seed
    )
    score_function = beta2016_score_function(device)
    with torch.no_grad():
        scorer = score_function.render_whole_pose_scoring_module(pose)
        terms = scorer(pose.coords, sum_terms=False, apply_weights=True)[:, 0]
    names = [kind.name for kind in score_function.all_score_types()]
    return dict(zip(names, terms.tolist(), strict=True))


def main() -> None:
    hydrogens, seed, *structures = sys.argv[1:]
    warnings.simplefilter("ignore")
    found = {}
    for structure in structures:
        path, _, model = structure.rpartition(":")
        found[structure] = energies(path, int(model), hydrogens, int(seed))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    # TMol prints to standard output too; the answer is the last line.
    main()

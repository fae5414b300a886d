"""Damaged files end as the careful reader says: in the same pose, or for the same reason.

`TMOL_PLUGIN_MUTANTS=2000 pytest tests/test_mutations.py` tries more than by default. It loads
neither TMol nor torch, so that it can run under sanitizers: see the Makefile.
"""

import gzip
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from mutants import mutants

from tmol_plugin import native
from tmol_plugin.errors import StructureError
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source
from tmol_plugin.structure import (
    NotCoveredError,
    _prepare_structure,
    make_pose,
    read_plain,
    read_pose,
    tables_of,
)

STRUCTURES = Path(__file__).parent / "structures"
COUNT = int(os.environ.get("TMOL_PLUGIN_MUTANTS", "240"))
# Plain files: PDB without hydrogens and with them in four models; mmCIF with MSE, with altlocs,
# with other chain ids by the author. And two that are read with care: two residue names at one
# position, a calcium.
NAMES = ["1ubi.pdb", "2k39.pdb.gz", "1a8o.cif", "1fas.cif", "4zhl.cif.gz"]
CAREFUL = ["1ejg.pdb", "1ajj.pdb"]


def outcome(prepare):
    """(pose, "") or (None, the reason and what is said)."""
    try:
        return prepare(), ""
    except NotCoveredError:
        return None, "not covered"
    except StructureError as error:
        return None, f"{error.reason}: {error.message}"


def carefully(path, parameters):
    source = Source(path)
    structure = read_structure(source, 1, Policy())
    return make_pose(_prepare_structure(structure, tables_of(parameters)), parameters)


def is_plain(path, parameters):
    try:
        source = Source(path)
        native.prepare(tables_of(parameters), *read_plain(source, 1))
    except (StructureError, native.NotPlain):
        return False
    return True


@pytest.mark.parametrize("name", [*NAMES, *CAREFUL])
def test_damaged_files_end_as_the_careful_reader_says(name, parameters, tmp_path):
    path, data = str(tmp_path / name), (STRUCTURES / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    ends = Counter()
    for mutant in mutants(data, COUNT // len([*NAMES, *CAREFUL])):
        Path(path).write_bytes(mutant)
        pose, why = outcome(lambda: read_pose(path, parameters))
        expected, why_expected = outcome(lambda: carefully(path, parameters))
        assert why == why_expected, mutant
        ends[why.split(":")[0]] += 1
        if pose is None:
            continue
        ends["plain"] += is_plain(path, parameters)
        for array in ("coords", "block_types", "block_atom_offsets", "connections"):
            assert np.array_equal(getattr(pose, array), getattr(expected, array)), mutant
        assert np.array_equal(pose.chain_of_block, expected.chain_of_block), mutant
        assert list(pose.labels) == list(expected.labels), mutant
        noted = [{k: v for k, v in one.notes.items() if v} for one in (pose, expected)]
        assert noted[0] == noted[1], mutant
    print(name, dict(ends))
    # Several ways out are taken: the damage is neither too little nor too much.
    assert len(ends) >= 4
    assert ends["plain"] or name in CAREFUL

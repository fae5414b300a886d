"""Compiled parameters that are not whole are refused by the library, by name."""

import re
from pathlib import Path

import numpy as np
import pytest

from tmol_plugin.errors import RunError
from tmol_plugin.naming import preparation_arrays
from tmol_plugin.native import Tables

SOURCE = Path(__file__).parents[1] / "csrc" / "prepare" / "tables.cpp"
# Arrays that the library reads, as its source names them.
NAMES = sorted(set(re.findall(r'\(\s*arrays, "([\w.]+)"', SOURCE.read_text())))
OFFSETS = [name for name in NAMES if name.endswith("offset")]


@pytest.fixture(scope="module")
def arrays(parameters):
    return preparation_arrays(parameters)


def test_the_source_names_its_arrays(arrays):
    assert len(NAMES) > 40
    assert set(NAMES) <= set(arrays)
    assert len(OFFSETS) == 5
    Tables({name: arrays[name] for name in NAMES})  # and needs no other


@pytest.mark.parametrize("name", NAMES)
def test_an_array_that_is_missing(name, arrays):
    given = {other: array for other, array in arrays.items() if other != name}
    with pytest.raises(RunError, match=f"'{name}' is missing; compile them again"):
        Tables(given)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "policy.water"])
@pytest.mark.parametrize("change", [lambda a: a[:-1], lambda a: a[:0], lambda a: a[: len(a) // 2]])
def test_an_array_that_is_short(name, change, arrays):
    """Of some the length decides the number of classes: then another one does not fit."""
    shorter = np.ascontiguousarray(change(arrays[name]))
    if len(shorter) < len(arrays[name]):
        with pytest.raises(RunError, match="compile them again"):
            Tables(arrays | {name: shorter})


@pytest.mark.parametrize("name", OFFSETS)
@pytest.mark.parametrize("change", ["falling", "negative", "late"])
def test_offsets_that_do_not_ascend(name, change, arrays):
    offsets = arrays[name].copy()
    middle = len(offsets) // 2
    if change == "falling":
        offsets[middle] = offsets[-1] + 1
    elif change == "negative":
        offsets[middle] = -1
    else:
        offsets[0] = 1
    with pytest.raises(RunError, match=f"'{name}' do not ascend from 0"):
        Tables(arrays | {name: offsets})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("block_type.class", value) for value in (-1, 1000)),
        *(("candidate.block_type", value) for value in (-1, 1_000_000)),
        *(("written.class", value) for value in (-1, 1000)),
        *(("written.atom_canonical", value) for value in (-1, 64)),
        *(("alias.canonical", value) for value in (-1, 64)),
        *(("atom.canonical", value) for value in (-1, 64)),
        *((f"atom.{frame}", 1000) for frame in ("frame", "backup_frame")),
        *((f"block_type.{name}_connection", 1000) for name in ("down", "up", "disulfide")),
        ("connection.downstream", 1000),
    ],
)
def test_indices_out_of_range(name, value, arrays, parameters):
    array = arrays[name].copy()
    # Of an amino acid: of others the library keeps nothing.
    offset = {"alias.canonical": parameters.tensors["class.alias_offset"]}.get(name)
    first = 0 if offset is None else int(offset[parameters.class_names.index("ALA")])
    array.flat[first] = value
    with pytest.raises(RunError, match="compile them again"):
        Tables(arrays | {name: array})

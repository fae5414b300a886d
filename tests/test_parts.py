"""Part files: what is read is what was finished, wherever a process or a disk ended the file."""

import errno
import os
import resource
import signal
from collections import Counter

import numpy as np
import pytest
from fake_engine import PARAMETERS, SETTINGS

from tmol_plugin import parts, per_residue, tables
from tmol_plugin.engine import Residues
from tmol_plugin.errors import RunError

IDENTITY = {"fingerprint": "abc", "per_residue": True}
ODD = "tab\\there é 'quoted'"


def member(name, model=1):
    return {"structure_id": name, "path": f"in/{name}.pdb", "model": model}


def score(name, model=1):
    energies = dict.fromkeys(tables.SCORE_TYPES, 0.1) | {"fa_elec": -1 / 3, "total": 1e-300}
    return member(name, model) | energies | {"n_residues": 2, "n_atoms": 40, "engine": "native"}


def failure(name):
    return member(name) | {"stage": "score", "reason": "not_finite", "message": ODD}


def residues_of(name):
    found = Residues("AA", ["1", "2A"], ["GLY"] * 2, ["GLY"] * 2, np.array([[1.0], [3.0]]))
    return per_residue.rows_of(member(name), found, ["fa_elec"], np.ones(1))


def write_batch(writer, scored, failed=(), **seconds):
    writer.begin([member(name) for name in (*scored, *failed)])
    rows = {"scores": [score(name) for name in scored]}
    rows["scores_unweighted"] = [score(name) for name in scored]
    rows["failures"] = [failure(name) for name in failed]
    rows["memory"] = [{"chunk": "c", "batch": 0, "n_structures": len(scored)}]
    writer.finish(rows, map(residues_of, scored), seconds)


def names(table):
    return [name for name, _ in parts.keys_in(table)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "parts"


def test_what_is_read_is_what_was_written(folder):
    writer = parts.PartWriter(folder / "1.part", IDENTITY)
    writer.finish({}, seconds={"startup": 2.0})
    write_batch(writer, ["a", "b"], [ODD], scoring=1.5)
    writer.begin([member("c"), member("c", 2)])
    other = parts.PartWriter(folder / "2.part", IDENTITY)
    other.finish({}, seconds={"startup": 1.0})
    write_batch(other, ["d"], scoring=0.25)
    other.begin([member("e"), member("a")])
    other.fault("RuntimeError: odd")
    found = parts.read(folder, IDENTITY)
    for name, table in parts.TABLES.items():
        assert found.tables[name].schema == table.schema
    scores = found.tables["scores"].to_pylist()
    filled = [dict.fromkeys(tables.SCORES.columns) | score(name) for name in "abd"]
    assert scores == filled == found.tables["scores_unweighted"].to_pylist()
    assert found.tables["failures"].to_pylist() == [dict(failure(ODD), remedy=None)]
    assert names(found.tables["per_residue"]) == ["a", "a", "b", "b", "d", "d"]
    assert found.tables["memory"]["n_structures"].to_pylist() == [2, 1]
    assert found.ended == {("a", 1), ("b", 1), (ODD, 1), ("d", 1)}
    assert found.in_hand == {"1.part": [("c", 1), ("c", 2)], "2.part": [("e", 1)]}
    assert found.words == {"2.part": "RuntimeError: odd"}
    assert found.seconds == Counter(startup=3.0, scoring=1.75)
    assert found.n_processes == 2


def test_nothing_at_all(folder):
    for made in (False, True):
        found = parts.read(folder, IDENTITY)
        assert (found.ended, found.in_hand, found.n_processes) == (set(), {}, 0)
        assert [table.num_rows for table in found.tables.values()] == [0] * len(parts.TABLES)
        folder.mkdir(exist_ok=made)


def test_a_file_counts_up_to_where_it_was_cut(folder):
    """At every byte: a killed process may have written any part of its last frame."""
    writer = parts.PartWriter(folder / "1.part", IDENTITY)
    whole = [0, os.path.getsize(folder / "1.part")]
    for name in "ab":
        write_batch(writer, [name])
        whole.append(os.path.getsize(folder / "1.part"))
    written = (folder / "1.part").read_bytes()
    steps = {*range(0, len(written), 13), *whole, *(n - 1 for n in whole[1:])}
    for size in sorted(steps):
        (folder / "1.part").write_bytes(written[:size])
        found = parts.read(folder, IDENTITY)
        expected = list("ab")[: sum(size >= end for end in whole[2:])]
        assert names(found.tables["scores"]) == expected, size
        assert found.ended == {(name, 1) for name in expected}


def test_a_frame_that_was_altered_ends_the_file(folder):
    writer = parts.PartWriter(folder / "1.part", IDENTITY)
    write_batch(writer, ["a"])
    end = os.path.getsize(folder / "1.part")
    write_batch(writer, ["b"])
    written = bytearray((folder / "1.part").read_bytes())
    for position in range(end, len(written), 97):
        altered = bytearray(written)
        altered[position] ^= 0x10
        (folder / "1.part").write_bytes(altered)
        assert parts.read(folder, IDENTITY).ended <= {("a", 1), ("b", 1)}
        assert names(parts.read(folder, IDENTITY).tables["scores"])[:1] == ["a"]
    # A length beyond the file, as an altered one may have it, is not allocated.
    written[end : end + 8] = (2**63).to_bytes(8, "little")
    (folder / "1.part").write_bytes(written)
    assert parts.read(folder, IDENTITY).ended == {("a", 1)}


def test_what_two_processes_finished_is_there_once(folder):
    for number, batch in enumerate((["a", "b"], ["b", "c"])):
        write_batch(parts.PartWriter(folder / f"{number}.part", IDENTITY), batch)
    found = parts.read(folder, IDENTITY)
    for name in ("scores", "scores_unweighted"):
        assert names(found.tables[name]) == ["a", "b", "c"]
    assert names(found.tables["per_residue"]) == ["a", "a", "b", "b", "c", "c"]


def test_parts_of_another_identity_do_not_count(folder):
    write_batch(parts.PartWriter(folder / "1.part", IDENTITY), ["a"])
    write_batch(parts.PartWriter(folder / "2.part", IDENTITY | {"fingerprint": "x"}), ["b"])
    assert parts.read(folder, IDENTITY).ended == {("a", 1)}
    plan = {"settings": SETTINGS, "parameters_id": PARAMETERS.id}
    plan["config"] = {"outputs": {"per_residue": False}}
    changed = [plan | {"settings": SETTINGS | {"hydrogens": "optimize"}}]
    changed += [plan | {"parameters_id": "f" * 12}]
    changed += [plan | {"config": {"outputs": {"per_residue": True}}}]
    assert all(parts.identity_of(one) != parts.identity_of(plan) for one in changed)


def test_a_file_is_of_one_process(folder):
    parts.PartWriter(folder / "1.part", IDENTITY)
    with pytest.raises(RunError, match=r"1\.part: cannot be written: File exists"):
        parts.PartWriter(folder / "1.part", IDENTITY)


def test_a_full_disk_says_so_and_keeps_what_is_finished(folder):
    writer = parts.PartWriter(folder / "1.part", IDENTITY)
    write_batch(writer, ["a"])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:  # a file that may not grow is what comes nearest to a disk without room
        room = os.path.getsize(folder / "1.part") + 100
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
        with pytest.raises(RunError, match=os.strerror(errno.EFBIG)):
            write_batch(writer, ["b"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert parts.read(folder, IDENTITY).ended == {("a", 1)}

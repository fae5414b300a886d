"""Plans against a slow and plain planner, and what a plan promises about changes."""

import hashlib
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tmol_plugin import plan, provenance, tables
from tmol_plugin.config import scoring_settings
from tmol_plugin.errors import RunError
from tmol_plugin.memory_model import Model
from tmol_plugin.parameters import Parameters
from tmol_plugin.plan import estimate_microseconds, make_plan, write_plan

SETTINGS = {"bucket_ratio": 1.5, "max_structures": 4, "target_minutes": 0.1}
SETTINGS |= {"budget_bytes": 200_000_000, "hydrogens": "keep", "settings_id": "abc123"}
SETTINGS |= {"start_up_minutes": 0.02, "model": Model.load(""), "device": "cuda"}


# What a row must be of for an engine to be chosen.
CHEMISTRY = {"native": "protein", "tmol": "protein+ligand"}


def structure(i, n_atoms, engine="tmol", **more):
    sha256 = hashlib.sha256(f"{i} {n_atoms}".encode()).hexdigest()
    row = {"structure_id": f"s{i}", "path": f"in/s{i}.pdb", "model": 1, "sha256": sha256}
    row |= {"n_atoms": n_atoms, "n_residues": max(1, n_atoms // 16)}
    return row | {"chemistry": CHEMISTRY[engine]} | more


def failure(i, reason="missing_atoms"):
    why = {"stage": "scan", "reason": reason, "message": f"message {i}", "remedy": f"remedy {i}"}
    return {"structure_id": f"s{i}", "path": f"in/s{i}.pdb", "model": 1} | why


index_of = tables.INDEX.frame


def plan_of(rows, **changes):
    return make_plan(index_of(rows), **(SETTINGS | changes))


def chunks_of(made):
    """{chunk id: ids of its members}, and nothing else."""
    ids = made.members.groupby("chunk")["structure_id"].agg(frozenset).to_dict()
    assert set(ids) == set(made.chunks["chunk"])
    return ids


def slow_chunks(rows, settings):
    """The members of each chunk, by exact arithmetic and recursion over the bits of the hash."""
    keep = settings["hydrogens"] == "keep"
    most_cost = settings["target_minutes"] * 60e6
    minimum = settings["start_up_minutes"] * 60e6

    def engine_of(row):
        return "native" if keep and row["chemistry"] == "protein" else "tmol"

    def cost(part):
        return sum(map(cost_of, part))

    def cost_of(row):
        n_atoms = row["n_atoms"]
        if engine_of(row) == "native":
            return 200 + n_atoms
        return (10 if keep else 16) * (5000 + 10 * n_atoms) + 6 * n_atoms

    def bits(row):
        text = f"{row['sha256']} {row['model']} {row['structure_id']}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return format(int.from_bytes(digest, "big"), "064b")

    def halve(part, depth=0):
        if len(part) <= 1 or (len(part) <= settings["max_structures"] and cost(part) <= most_cost):
            return [frozenset(row["structure_id"] for row in part)] if part else []
        halves = [[row for row in part if bits(row)[depth] == bit] for bit in "01"]
        return halve(halves[0], depth + 1) + halve(halves[1], depth + 1)

    def bucket(row):
        k = 0
        while math.ceil(Fraction(settings["bucket_ratio"]) ** (k + 1)) <= row["n_atoms"]:
            k += 1
        return k

    chunks = []
    for engine in {engine_of(row) for row in rows}:
        buckets = {}
        for row in rows:
            if engine_of(row) == engine:
                buckets.setdefault(bucket(row), []).append(row)
        groups = [[]]
        for _, part in sorted(buckets.items()):
            if groups[-1] and cost(groups[-1]) >= minimum:
                groups.append([])
            groups[-1] += part
        if len(groups) > 1 and cost(groups[-1]) < minimum:
            last = groups.pop()
            groups[-1] += last
        chunks += [chunk for group in groups for chunk in halve(group)]
    return set(chunks)


indexes = st.lists(st.integers(1, 30_000), max_size=60)
limits = {
    "bucket_ratio": st.sampled_from([1.1, 1.5, 2, 10]),
    "max_structures": st.integers(1, 20),
    "target_minutes": st.sampled_from([1e-3, 0.01, 0.03, 0.1, 10]),
    "budget_bytes": st.sampled_from([1, 60_000_000, 100_000_000, 10**12]),
    "hydrogens": st.sampled_from(["keep", "optimize"]),
    "start_up_minutes": st.sampled_from([0, 0.01, 0.05, 2]),
}


@given(sizes=indexes, engines=st.integers(1, 2), changes=st.fixed_dictionaries(limits))
def test_chunks_are_those_of_the_slow_planner_and_within_limits(sizes, engines, changes):
    rows = [structure(i, n, ("tmol", "native")[i % engines]) for i, n in enumerate(sizes)]
    made = plan_of(rows, **changes)
    chunks = chunks_of(made)
    assert set(chunks.values()) == slow_chunks(rows, SETTINGS | changes)
    # Every structure is in one chunk, once, with what the index says of it.
    by_id = made.members.set_index("structure_id").sort_index()
    expected = index_of(rows).set_index("structure_id").sort_index()
    columns = ["path", "model", "sha256", "n_residues", "n_atoms"]
    pd.testing.assert_frame_equal(by_id[columns], expected[columns])
    for row in made.chunks.itertuples():
        members = made.members[made.members["chunk"] == row.chunk]
        chemistry = expected.loc[members["structure_id"], "chemistry"]
        natives = chemistry.eq("protein") & (changes["hydrogens"] == "keep")
        assert set(natives.map({True: "native", False: "tmol"})) == {row.engine}
        atoms = members["n_atoms"].to_numpy(int)
        engines = np.full(len(atoms), row.engine, object)
        minutes = estimate_microseconds(atoms, engines, changes["hydrogens"]).sum() / 60e6
        assert row.estimated_minutes == pytest.approx(minutes)
        assert row.n_structures == len(members)
        if len(members) > 1:
            assert len(members) <= changes["max_structures"]
            assert minutes <= changes["target_minutes"] * (1 + 1e-12)
        low, high = map(int, row.bucket.split("-"))
        assert low <= atoms.min() <= atoms.max() <= high
        batches = members["batch"].to_numpy(int)
        assert sorted(set(batches)) == list(range(row.n_batches))
        bytes_of = []
        for batch in range(row.n_batches):
            n, n_residues = atoms[batches == batch], members["n_residues"][batches == batch]
            blocks = int(n_residues.max())
            held = (1, int(n.max()), blocks, blocks * (blocks + 1) // 2)
            terms = SETTINGS["model"].peak("tmol", "cuda")
            bytes_of.append(terms.batch + len(n) * (terms.bytes(held) - terms.batch))
            if len(n) > 1:
                assert bytes_of[-1] <= changes["budget_bytes"]
                assert n.max() <= n.min() * changes["bucket_ratio"]
        assert row.estimated_bytes == max(bytes_of)


@given(sizes=indexes, data=st.data())
def test_the_order_of_the_index_does_not_matter(sizes, data):
    rows = [structure(i, n) for i, n in enumerate(sizes)]
    made, shuffled = plan_of(rows), plan_of(data.draw(st.permutations(rows)))
    pd.testing.assert_frame_equal(made.chunks, shuffled.chunks)
    pd.testing.assert_frame_equal(made.members, shuffled.members)


@given(sizes=indexes.filter(len), most=st.integers(1, 8))
def test_a_structure_more_or_less_changes_only_the_chunk_that_takes_it(sizes, most):
    rows = [structure(i, n) for i, n in enumerate(sizes)]
    changes = {"max_structures": most, "start_up_minutes": 0}  # 0: every bucket is a group
    less = chunks_of(plan_of(rows[:-1], **changes))
    more = chunks_of(plan_of(rows, **changes))
    gone, new = less.keys() - more.keys(), more.keys() - less.keys()
    assert len(gone) <= 1
    assert all(more[chunk] == less[chunk] for chunk in less.keys() & more.keys())
    before = frozenset().union(*(less[chunk] for chunk in gone))
    assert frozenset().union(*(more[chunk] for chunk in new)) == before | {f"s{len(sizes) - 1}"}


def test_members_stand_by_chunk_batch_and_atoms():
    members = plan_of([structure(i, 100 + 37 * i % 900) for i in range(100)]).members
    order = list(zip(members["chunk"], members["batch"], members["n_atoms"], strict=True))
    assert order == sorted(order)
    assert list(members.columns) == ["chunk", *tables.MEMBERS.columns]


def test_the_id_of_a_chunk_is_a_digest_of_its_members_and_of_what_decides_energies():
    rows = [structure(2, 500), structure(1, 510)]
    made = plan_of(rows)
    identities = sorted([row["structure_id"], 1, row["sha256"]] for row in rows)
    expected = tables.digest(["tmol", "abc123", identities])
    assert made.chunks["chunk"].tolist() == [expected]

    same = [plan_of(rows, budget_bytes=1), plan_of(rows, bucket_ratio=3, max_structures=2)]
    same += [plan_of([rows[0], rows[1] | {"path": "elsewhere.pdb", "n_atoms": 520}])]
    assert all(other.chunks["chunk"].tolist() == [expected] for other in same)
    changed = [plan_of(rows, settings_id="other")]
    for change in ({"sha256": "0" * 64}, {"model": 2}, {"structure_id": "x"}):
        changed.append(plan_of([rows[0], rows[1] | change]))
    changed.append(plan_of([row | {"chemistry": "protein"} for row in rows]))
    found = [made.chunks["chunk"].tolist() for made in changed]
    assert [expected] not in found
    assert len({tuple(ids) for ids in found}) == len(found)


def test_a_chunk_to_retry_gets_another_id_and_the_others_keep_theirs():
    rows = [structure(i, 1000) for i in range(40)]
    before = plan_of(rows, max_structures=10)
    first, *others = before.chunks["chunk"]
    again = plan_of(rows, max_structures=10, is_to_retry={first}.__contains__)
    assert list(again.chunks["chunk"])[1:] == others
    second = again.chunks["chunk"][0]
    assert second != first
    assert set(again.members.query("chunk == @second")["structure_id"]) == set(
        before.members.query("chunk == @first")["structure_id"]
    )
    third = plan_of(rows, max_structures=10, is_to_retry={first, second}.__contains__)
    assert third.chunks["chunk"][0] not in (first, second)


def test_edges_are_rounded_powers_that_do_not_move():
    assert plan._bucket_edges(1.5, 26).tolist() == [1, 2, 3, 4, 6, 8, 12, 18, 26, 39]
    assert plan._bucket_edges(3, 242).tolist() == [1, 3, 9, 27, 81, 243]
    assert plan._bucket_edges(3, 243).tolist() == [1, 3, 9, 27, 81, 243, 729]
    few, many = plan._bucket_edges(1.1, 500), plan._bucket_edges(1.1, 50_000)
    assert many[: len(few)].tolist() == few.tolist()


def test_small_buckets_join_the_next_larger_and_the_last_the_one_before():
    def groups(*totals):
        return plan._merge_small(totals, 3)

    assert (groups(), groups(1), groups(9, 9)) == ([], [0], [0, 1])
    assert groups(1, 1, 1, 1, 1) == [0, 0, 0, 0, 0]
    assert groups(1, 1, 9, 9) == [0, 0, 0, 1]
    assert groups(9, 1, 1) == [0, 0, 0]
    assert groups(9, 1, 2, 1) == [0, 1, 1, 1]
    assert groups(2, 2, 2, 1) == [0, 0, 1, 1]


def test_labels_span_the_buckets_merged():
    rows = [structure(i, n) for i, n in enumerate([100, 400, 1000, 1000])]
    # Edges at 87, 130, 195, 292, 438, 657, 986, 1478; costs of 61, 92 and 312 ms.
    buckets = plan_of(rows, start_up_minutes=0.15 / 60).chunks["bucket"].unique()
    assert buckets.tolist() == ["87-437", "986-1477"]
    buckets = plan_of(rows, start_up_minutes=2).chunks["bucket"].unique()
    assert buckets.tolist() == ["87-1477"]


def test_estimates_are_near_what_was_measured():
    # Seconds on one core, 2026-11-30, TMol 0.2.0: 1ubq, 5mm8, 6azu and 5opj to a pose, plus
    # 4.2 to 5.6 us of scoring per atom.
    atoms, tmol = np.array([1231, 3039, 5899, 11992], np.int32), np.full(4, "tmol", object)
    keep, optimize = [0.166, 0.345, 0.62, 1.22], [0.255, 0.525, 0.88, 1.96]
    assert estimate_microseconds(atoms, tmol, "keep") / 1e6 == pytest.approx(keep, rel=0.1)
    assert estimate_microseconds(atoms, tmol, "optimize") / 1e6 == pytest.approx(optimize, rel=0.25)


def test_failures_keep_their_order_and_are_in_no_chunk():
    rows = [failure(3), structure(1, 500), failure(0, "unreadable") | {"model": None}]
    made = plan_of(rows)
    assert made.members["structure_id"].tolist() == ["s1"]
    expected = [{k: v for k, v in row.items() if k in tables.FAILURES.columns} for row in rows]
    pd.testing.assert_frame_equal(made.failures, tables.FAILURES.frame([expected[0], expected[2]]))


@pytest.mark.parametrize("failures", [[], [failure(1), failure(2)]])
def test_an_index_with_nothing_to_score_gives_an_empty_plan(tmp_path, failures):
    made = plan_of(failures)
    assert (len(made.chunks), len(made.members), len(made.failures)) == (0, 0, len(failures))
    write_plan(made, tmp_path)
    assert len(tables.read_tsv(tmp_path / "chunks.tsv", tables.CHUNKS)) == 0
    assert len(tables.read_parquet(tmp_path / "failures.parquet", tables.FAILURES)) == len(failures)
    assert list((tmp_path / "members").iterdir()) == []


@pytest.mark.parametrize(
    ("row", "changes", "reason"),
    [
        ({}, {}, ""),
        ({"missing_atoms": "A:4 LYS: CE NZ"}, {}, "heavy atoms to rebuild"),
        ({"chemistry": "protein+nucleic acid"}, {}, "protein+nucleic acid"),
        ({}, {"hydrogens": "optimize"}, "hydrogens: optimize"),
        ({}, {"engine": "tmol"}, "engine: tmol"),
    ],
)
def test_the_plan_says_why_upstream_prepares(row, changes, reason):
    made = plan_of([structure(1, 500, "native", **row)], **changes)
    assert made.members["engine_reason"].tolist() == [reason]
    assert made.chunks["engine"].tolist() == ["tmol" if reason else "native"]


def test_structures_of_one_size_are_halved_evenly():
    sizes = plan_of([structure(i, 1000) for i in range(4000)], max_structures=100).chunks
    assert sizes["n_structures"].sum() == 4000
    assert set(sizes["bucket"]) == {"986-1477"}
    one = plan_of([structure(1, 1000)]).chunks.to_dict("records")[0]
    expected = {"engine": "tmol", "bucket": "986-1477", "n_structures": 1, "n_batches": 1}
    expected |= {"estimated_minutes": 0.156 / 60}
    assert {name: one[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([structure(1, 50), structure(1, 60)], r"repeats 's1' \(model 1\): give each"),
        ([structure(i % 9, 50) for i in range(18)], r"'s4' \(model 1\) and 4 more"),
        ([failure(1), structure(1, 60)], r"repeats 's1' \(model 1\)"),
        ([failure(1, "bad_luck")], "bad_luck"),
        *(
            ([structure(1, 50) | change], r"neither a reason nor .* for 's1' \(model 1\)")
            for change in (
                *({"n_atoms": None}, {"n_atoms": 0}, {"n_residues": 0}),
                *({"chemistry": None}, {"chemistry": ""}, {"sha256": None}),
            )
        ),
    ],
)
def test_an_index_that_contradicts_itself_is_refused(rows, message):
    with pytest.raises(RunError, match=message):
        plan_of(rows)
    with pytest.raises(RunError, match="lacks the columns sha256"):
        make_plan(index_of(rows).drop(columns="sha256"), **SETTINGS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("bucket_ratio", 1), ("bucket_ratio", math.nan), ("max_structures", 0)),
        *(("target_minutes", 0), ("target_minutes", math.nan), ("hydrogens", "guess")),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(RunError, match=rf"{name.split('_')[-1]} is {value!r}: give"):
        plan_of([], **{name: value})


ODD = ["NA", "007", "1e5", "", "a\tb", "a\nb", "a\rb", 'a"b', '"', "a\\nb", " a ", "\udce9"]


def test_odd_ids_and_paths_come_back_as_they_are(tmp_path):
    keys = [{"structure_id": tables.escape(x), "path": tables.escape(f"in/{x}")} for x in ODD]
    rows = [structure(i, 500, **key) for i, key in enumerate(keys)]
    write_plan(plan_of(rows, max_structures=100), tmp_path)
    (chunk,) = tables.read_tsv(tmp_path / "chunks.tsv", tables.CHUNKS)["chunk"]
    members = tables.read_tsv(tmp_path / "members" / f"{chunk}.tsv", tables.MEMBERS)
    assert sorted(map(tables.unescape, members["structure_id"])) == sorted(ODD)
    assert sorted(map(tables.unescape, members["path"])) == sorted("in/" + odd for odd in ODD)


def test_a_run_reads_plans_and_writes(tmp_path):
    config = yaml.safe_load((Path(__file__).parents[1] / "config" / "config.yaml").read_text())
    config["memory"]["device_gib"] = 0.25
    config["chunk"] = {"max_structures": 4, "target_minutes": 0.1}
    described = {"score_function": "beta2016", "residues": ["ABC"], "failed": {"XYZ": "no bonds"}}
    parameters = Parameters({}, described)
    parameters.save(tmp_path / "parameters.safetensors")
    rows = [structure(i, 100 + 50 * i) for i in range(60)] + [failure(i) for i in range(60, 63)]
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, part in zip(parts, (rows[:20], rows[20:]), strict=True):
        tables.write_parquet(path, tables.INDEX, index_of(part))
    lacking = structure(70, 500, unrecognized="ABC,XYZ")
    prepared = structure(71, 500, unrecognized="ABC")
    parts.append(tmp_path / "c.parquet")
    tables.write_parquet(parts[-1], tables.INDEX, index_of([lacking, prepared]))
    folder, members = tmp_path / "plan", tmp_path / "plan" / "members"
    members.mkdir(parents=True)
    (members / "0123456789ab.tsv").write_text("of an older plan")

    made = plan.run(parts, tmp_path / "parameters.safetensors", config, folder)
    described = json.loads((folder / "run.json").read_text())
    fingerprint = provenance.fingerprint(scoring_settings(config), parameters.id)
    assert described["fingerprint"] == fingerprint
    assert described["parameters_id"] == parameters.id
    assert described["settings"] == scoring_settings(config)
    assert described["batch_budget"]["bytes"] == int(0.8 * 2**28)
    assert described["batch_budget"]["device"] == "cuda"
    changes = config["chunk"] | {"settings_id": fingerprint, "budget_bytes": int(0.8 * 2**28)}
    expected = plan_of([*rows, prepared], **changes, start_up_minutes=2)
    pd.testing.assert_frame_equal(made.members, expected.members)
    chunks = tables.read_tsv(folder / "chunks.tsv", tables.CHUNKS)
    assert chunks["chunk"].tolist() == expected.chunks["chunk"].tolist()
    assert {path.stem for path in members.iterdir()} == set(chunks["chunk"])
    for chunk, rows_of in made.members.groupby("chunk"):
        found = tables.read_tsv(members / f"{chunk}.tsv", tables.MEMBERS)
        assert found.to_dict("list") == rows_of.drop(columns="chunk").to_dict("list")
    failures = tables.read_parquet(folder / "failures.parquet", tables.FAILURES)
    pd.testing.assert_frame_equal(failures, made.failures)
    pd.testing.assert_frame_equal(failures[:3], expected.failures)
    message = "in/s70.pdb: no parameters for XYZ: no bonds"
    assert failures.loc[3, ["structure_id", "stage", "reason", "message"]].tolist() == [
        *("s70", "plan", "ligand_preparation", message)
    ]

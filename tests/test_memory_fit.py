"""Fitting the memory model: known coefficients come back, nothing measured is underrated."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_memory_model import pose

from tmol_plugin import memory_fit, tables
from tmol_plugin.cli import main
from tmol_plugin.errors import RunError
from tmol_plugin.memory_fit import LEAST_BYTES, MARGIN, fit, fit_terms, needs
from tmol_plugin.memory_model import Model, Terms, batch_columns
from tmol_plugin.memory_model import counted as counted_by

SHIPPED = Model.load("")
FLOOR = 200_000_000


def plain_bytes(terms, engine, poses):
    """What a batch takes, pose by pose; `tmol` pads each to the largest."""
    if engine == "tmol":
        poses = [(max(a for a, _ in poses), max(b for _, b in poses))] * len(poses)
    batch, structure, atom, block, block_pair = terms
    return batch + sum(
        structure + atom * a + block * b + block_pair * (b * b + b) // 2 for a, b in poses
    )


def row_of(engine, poses, live, peak, kind="cpu", **more):
    batch = [pose(*sizes, engine) for sizes in poses]
    predicted = SHIPPED.predict(kind, batch)
    row = {"chunk": "a", "batch": 0, "split": 0, "outcome": "scored", "device": kind}
    row |= dict(zip(("predicted_live_bytes", "predicted_peak_bytes"), predicted))
    row |= {"floor_bytes": FLOOR, "live_bytes": FLOOR + live, "peak_bytes": FLOOR + peak}
    return row | {"host_rss_bytes": FLOOR} | batch_columns(batch) | more


# Sizes that tell all terms apart: atoms of a block from 8 to 32, poses from 1 to 300.
GRID = [
    [(atoms, blocks)] * n
    for n in (1, 7, 40, 300)
    for atoms, blocks in ((160, 20), (640, 20), (4000, 250), (2000, 250), (30_000, 900))
]
LIVE = Terms(1_000_000, 3000, 40, 150, 1)
PEAK = Terms(24_000_000, 20_000, 420, 1900, 6)


def base():
    """The shipped model, with pairs of blocks that cost something everywhere."""
    content = copy.deepcopy(SHIPPED.content)
    for kinds in content.values():
        for entry in kinds.values():
            for moment in ("live", "peak"):
                entry[moment]["block_pair"] = 1
    return Model(content)


def rows_of(engine, kind="cpu", grid=GRID, noise=0.0, seed=0):
    rng, rows = np.random.default_rng(seed), []
    for i, poses in enumerate(grid):
        needed = (plain_bytes(terms, engine, poses) for terms in (LIVE, PEAK))
        live, peak = (int(x * rng.uniform(1 - noise, 1)) for x in needed)
        rows.append(row_of(engine, poses, live, peak, kind, chunk=f"{i:x}"))
    return rows


def needs_of(rows):
    return needs(tables.MEMORY.frame(rows).assign(process=[row["chunk"] for row in rows]))


def with_margin(terms):
    return [pytest.approx(MARGIN * value, rel=1e-6, abs=1) for value in terms]


@pytest.mark.parametrize(("engine", "kind"), [("native", "cpu"), ("tmol", "cpu"), ("tmol", "cuda")])
def test_known_coefficients_are_recovered(engine, kind):
    content, _ = fit(needs_of(rows_of(engine, kind)), base())
    model = Model(content)
    assert list(model.peak(engine, kind)) == with_margin(PEAK)
    assert list(model.live(engine, kind)) == with_margin(LIVE)
    found = content[engine][kind]["fit"]
    assert found["rows"] == len(GRID)
    assert found["terms_kept"] == []
    assert (found["n_structures"], found["max_blocks"]) == ([1, 300], [20, 900])
    expected = pytest.approx(1 / MARGIN, abs=0.001)
    assert found["peak"]["need_per_predicted_max"] == expected
    # Whole bytes, upwards: a pair's 6.6 is 7 in the largest poses.
    assert MARGIN <= found["peak"]["predicted_per_need_max"] <= MARGIN * 7 / 6.6


@given(
    seed=st.integers(0, 1000), noise=st.floats(0, 0.9), engine=st.sampled_from(["native", "tmol"])
)
def test_whatever_the_noise_no_row_is_underrated(seed, noise, engine):
    rows = rows_of(engine, noise=noise, seed=seed)
    content, report = fit(needs_of(rows), SHIPPED)
    for row, poses in zip(rows, GRID, strict=True):
        for moment in ("live", "peak"):
            terms = content[engine]["cpu"][moment]
            assert min(terms.values()) >= 0
            predicted = plain_bytes([terms[n] for n in Terms._fields], engine, poses)
            assert predicted >= MARGIN * (row[f"{moment}_bytes"] - FLOOR)
    assert report[report["engine"].eq(engine)]["need_per_predicted_max"].max() <= 1 / MARGIN


def test_what_the_rows_do_not_tell_is_kept():
    # One protein in batches of several numbers: its atoms tell nothing of its blocks.
    grid = [[(1600, 100)] * n for n in range(1, 60, 5)]
    known = Terms(0, 100, 0, 2800, 4)
    content = copy.deepcopy(SHIPPED.content)
    content["tmol"]["cpu"]["peak"] = known._asdict()
    found, report = fit(needs_of(rows_of("tmol", grid=grid)), Model(content))
    terms = found["tmol"]["cpu"]["peak"]
    assert [terms[name] for name in ("structure", "block", "block_pair")] == [100, 2800, 4]
    # What the others need is left for atoms: 1.1 times the true sum, less what is kept.
    each = MARGIN * plain_bytes(PEAK._replace(batch=0), "tmol", [(1600, 100)])
    expected = (each - 100 - 280_000 - 4 * 5050) / 1600
    assert terms["atom"] == pytest.approx(expected, abs=1)
    assert found["tmol"]["cpu"]["fit"]["terms_kept"] == ["structure", "block", "block_pair"]
    assert report[report["engine"].eq("tmol")][""].iloc[0] == "kept structure, block, block_pair"


def test_a_pair_of_blocks_is_never_fitted_below_what_is_known():
    rows = rows_of("tmol", "cuda")
    for row in rows:
        row["peak_bytes"] = FLOOR + 50_000_000 + 500 * row["n_atoms"]
    content, _ = fit(needs_of(rows), SHIPPED)
    known = SHIPPED.peak("tmol", "cuda").block_pair
    assert known == 4
    assert content["tmol"]["cuda"]["peak"]["block_pair"] == known
    # Where pairs are known to cost nothing, what they seem to cost goes to other terms.
    content, _ = fit(needs_of(rows_of("native")), SHIPPED)
    assert SHIPPED.peak("native", "cpu").block_pair == 0
    terms = content["native"]["cpu"]["peak"]
    assert terms["block_pair"] == 0
    assert terms["block"] + 17 * terms["atom"] > PEAK.block + 17 * PEAK.atom


def test_one_batch_that_needs_more_raises_predictions_and_no_others_lower_them():
    rows = rows_of("native")
    before, _ = fit(needs_of(rows), SHIPPED)
    quiet = [row | {"peak_bytes": FLOOR, "live_bytes": FLOOR, "chunk": "b"} for row in rows]
    same, _ = fit(needs_of([*rows, *quiet]), SHIPPED)
    assert same["native"]["cpu"]["peak"] == before["native"]["cpu"]["peak"]
    high = rows[7] | {"peak_bytes": FLOOR + 10**11, "chunk": "c"}
    more, _ = fit(needs_of([*rows, high]), SHIPPED)
    terms = Terms(**more["native"]["cpu"]["peak"])
    assert plain_bytes(terms, "native", GRID[7]) >= MARGIN * 10**11


def test_needs_on_the_cpu_are_above_the_lowest_floor_of_the_process():
    def row(batch, floor, peak, **more):
        changed = {"batch": batch, "floor_bytes": floor, "live_bytes": floor + 5}
        return row_of("native", [(100, 6)], 0, 0, **changed, peak_bytes=peak, **more)

    first = [row(0, 100, 140), row(1, 130, 150), row(2, 90, 160), row(3, 120, 125)]
    second = [row(0, 1000, 1007, chunk="b"), row(1, 1001, 1009, chunk="b")]
    found = needs_of([*first, *second])
    assert found["peak"].tolist() == [40, 50, 70, 35, 7, 9]
    assert found["live"].tolist() == [5, 35, 5, 35, 5, 6]
    on_gpu = needs_of([row | {"device": "cuda"} for row in first])
    assert on_gpu["peak"].tolist() == [40, 20, 70, 5]


def test_only_what_was_scored_and_measured_counts():
    good = row_of("native", [(100, 6)], 5, 9)
    bad = [
        *(good | {"outcome": "too_large"}, good | {"peak_bytes": None}),
        *(good | {"live_bytes": None}, good | {"floor_bytes": None, "chunk": "b"}),
        *(good | {"n_blocks": None}, good | {"chunk": "c"}),
        good | {"chunk": "c", "engine": "native+tmol"},
    ]
    found = needs_of([good, *bad])
    assert found[["live", "peak"]].values.tolist() == [[5, 9]]
    with pytest.raises(RunError, match="batches without structures, atoms or blocks"):
        needs_of([good | {"max_blocks": 0}])


@given(data=st.data(), n=st.integers(1, 30))
def test_odd_sizes_and_needs_are_still_covered(data, n):
    """Any rows at all: one size, sizes without order, needs that have nothing to do with them."""
    sizes = st.tuples(*[st.integers(1, 10**k) for k in (3, 6, 5, 9)])
    held = np.array(data.draw(st.lists(sizes, min_size=n, max_size=n)))
    need = np.array(data.draw(st.lists(st.integers(0, 10**11), min_size=n, max_size=n)))
    terms = fit_terms(held, need, Terms(0, 0, 0, 0, 0), [])
    assert all(type(value) is int and value >= 0 for value in terms)
    predicted = [
        terms[0] + sum(c * int(x) for c, x in zip(terms[1:], row, strict=True)) for row in held
    ]
    assert all(10 * p >= 11 * int(x) for p, x in zip(predicted, need, strict=True))


def write(path, rows):
    tables.write_parquet(path, tables.MEMORY, tables.MEMORY.frame(rows))
    return str(path)


def test_the_step_reads_tables_prints_residuals_and_writes_a_model(tmp_path, capsys):
    rows = rows_of("native")
    # The same chunk of two runs is two processes, whose floors are no others' business.
    other = [row | {k: row[k] - 10**8 for k in ("floor_bytes", "live_bytes", "peak_bytes")}
             for row in rows]  # fmt: skip
    given = [write(tmp_path / "a.parquet", rows), write(tmp_path / "b.parquet", other)]
    output = tmp_path / "folder" / "my model.json"
    assert main(["fit-memory", *given, "--output", str(output)]) == 0
    content = json.loads(output.read_text())
    assert content == Model.load(str(output)).content
    expected, _ = fit(needs_of(rows), SHIPPED)
    for moment in ("live", "peak"):
        assert content["native"]["cpu"][moment] == expected["native"]["cpu"][moment]
    assert content["native"]["cpu"] != SHIPPED.content["native"]["cpu"]
    for kind in ("cpu", "cuda"):
        for moment in ("live", "peak"):
            assert content["tmol"][kind][moment] == SHIPPED.content["tmol"][kind][moment]
        kept = content["tmol"][kind]["fit"]["kept"]
        assert kept == "as it was: 0 rows of scored batches, 10 are needed"
    printed = capsys.readouterr().out
    words = [line.split() for line in printed.splitlines()]
    assert ["native", "cpu", str(2 * len(GRID)), "peak"] in [line[:4] for line in words]
    assert "need_per_predicted_max" in words[0]
    assert f"model: {output}" in printed


def no_spread():
    return rows_of("tmol", grid=[[(1000, 60)] * n for n in (10, 20, 39) for _ in range(5)])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "native on cpu: 0 rows of scored batches, 10 are needed"),
        ([r | {"outcome": "too_large"} for r in rows_of("tmol")], "tmol on cpu: 0 rows"),
        ([r | {"peak_bytes": None} for r in rows_of("native")], "native on cpu: 0 rows"),
        (rows_of("tmol", "cuda")[:9], "tmol on cuda: 9 rows of scored batches, 10 are needed"),
        (no_spread(), "batches hold 10000 to 39000 atoms, the largest must hold 4 times"),
    ],
)
def test_rows_that_tell_nothing_are_an_error_that_says_what_to_run(tmp_path, capsys, rows, words):
    output = tmp_path / "model.json"
    given = write(tmp_path / "a.parquet", rows)
    assert main(["fit-memory", given, "--output", str(output)]) == 1
    printed = capsys.readouterr().err
    assert words in printed
    assert "tests/benchmarks/memory.py" in printed
    assert not output.exists()


def test_files_that_are_no_memory_tables_are_refused(tmp_path, capsys):
    good, output = write(tmp_path / "good.parquet", rows_of("native")), tmp_path / "model.json"
    text = tmp_path / "text.parquet"
    text.write_text("not Parquet")
    old = tmp_path / "old.parquet"
    frame = pd.read_parquet(good).rename(columns={"predicted_peak_bytes": "predicted_bytes"})
    frame.to_parquet(old)
    for path, words in (
        (text, "cannot be read as a memory table"),
        (old, "it comes from another version"),
        (tmp_path / "absent.parquet", "cannot be read as a memory table"),
    ):
        assert main(["fit-memory", good, str(path), "--output", str(output)]) == 1
        printed = capsys.readouterr().err
        assert str(path) in printed
        assert words in printed
        assert not output.exists()
    with pytest.raises(RunError, match="no memory tables are given"):
        memory_fit.run([], str(output))


def test_what_is_held_is_counted_alike_for_tables_and_batches():
    poses = [[(100, 6), (200, 9)], [(50, 3)]]
    frame = tables.MEMORY.frame([row_of("tmol", batch, 0, 0) for batch in poses])
    for engine in ("native", "tmol"):
        rows = np.stack(counted_by(engine, frame), axis=1).tolist()
        one = [list(counted_by(engine, row)) for row in frame.to_dict("records")]
        assert rows == one
    assert one == [[2, 400, 18, 90], [1, 50, 3, 6]]


def test_small_needs_do_not_tell_how_far_predictions_are_above():
    rows = [row | {"peak_bytes": row["floor_bytes"] + 1} for row in rows_of("native")]
    content, _ = fit(needs_of(rows), SHIPPED)
    found = content["native"]["cpu"]["fit"]["peak"]
    assert found["largest_need_bytes"] == 1 < LEAST_BYTES
    assert found["predicted_per_need_max"] is None

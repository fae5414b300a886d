"""Whether what a process holds rises from batch to batch: a leak."""

from collections.abc import Mapping, Sequence

import numpy as np

# Batches at the start of a process whose floors still rise: caches fill, libraries are loaded.
WARM_UP_BATCHES = 3
# A rise is looked for in at least this many batches after those.
LEAST_BATCHES = 9
# Share of the floor that a third of the batches must add to the third before.
LEAST_RISE = 0.005


def floor_rise_bytes(rows: Sequence[Mapping]) -> int | None:
    """Bytes by which each batch of a process raises what it holds; 0 if they do not.

    The batches, without the first fifth and at least WARM_UP_BATCHES, are cut in three. The floor
    rises if the median of each third is above that of the third before by more than LEAST_RISE
    of the floor and twice the median deviation within the thirds: so neither a single step
    nor single batches that stand out count. What larger batches may leave behind (poses, and
    what the C library keeps) is no rise: the largest peak predicted so far is taken off.

    Args:
        rows: of tables.MEMORY, of one process in its order.

    Returns:
        The larger of the device's (`floor_bytes`) and the process's (`host_rss_bytes`); None if
        the rows are too few or hold no such values.
    """
    rises = [rise for name in _FLOORS if (rise := _rise(rows, name)) is not None]
    return max(rises, default=None)


def rising_floor(rows: Sequence[Mapping]) -> str | None:
    """What `floor_rise_bytes` says of a process's rows, in words; None if nothing rises."""
    for name, what in _FLOORS.items():
        if rise := _rise(rows, name):
            held = [row[name] for row in rows if row.get(name) is not None]
            return (
                f"{what} rises by about {rise:,} bytes with each batch, from {held[0]:,} to"
                f" {held[-1]:,} bytes over {len(held)} batches: report this, with the memory table"
            )
    return None


_FLOORS = {"floor_bytes": "memory held before a batch", "host_rss_bytes": "host memory"}


def _rise(rows: Sequence[Mapping], name: str) -> int | None:
    rows = [row for row in rows if row.get(name) is not None]
    if len(rows) < WARM_UP_BATCHES + LEAST_BATCHES:
        return None
    floors = np.array([row[name] for row in rows], np.float64)
    expected = np.array([row.get("predicted_peak_bytes") or 0 for row in rows], np.float64)
    floors -= np.maximum.accumulate(expected)
    warm_up = max(WARM_UP_BATCHES, len(rows) // 5)
    thirds = np.array_split(floors[warm_up:], 3)
    middles = np.array([np.median(third) for third in thirds])
    spread = max(np.median(np.abs(third - m)) for third, m in zip(thirds, middles, strict=True))
    held = float(np.median([row[name] for row in rows[warm_up:]]))
    if np.diff(middles).min() <= max(LEAST_RISE * held, 2 * spread):
        return 0
    apart = len(floors[warm_up:]) - (len(thirds[0]) + len(thirds[2])) / 2
    return round((middles[2] - middles[0]) / apart)

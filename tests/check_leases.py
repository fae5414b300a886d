"""What the timing table of a run says of leases: no two at a time on a device, first come first."""

import sys

import pandas as pd

# Clocks of the processes are one clock; it is read after the lock is taken and before it is
# let go, so leases of one device never overlap at all. Waits are counted from when a process
# is told to take a lease, a moment before it stands in line; and of several that are served at
# once, each looks when it next does. On a busy machine a moment is long.
MOMENT_SECONDS = 1.0


def check_leases(timing: pd.DataFrame) -> dict[str, int]:
    """Number of leases by device, after checking that none overlaps another on its device."""
    counts = {}
    for device, rows in timing.groupby("device_uuid"):
        rows = rows.sort_values("lease_started_at")
        for before, after in zip(rows.itertuples(), list(rows.itertuples())[1:]):
            if before.lease_ended_at > after.lease_started_at:
                raise ValueError(f"{device}: {before.chunk} and {after.chunk} had it at once")
        counts[device] = len(rows)
    return counts


def check_waits(timing: pd.DataFrame) -> None:
    """That of two processes the one which came first had its lease first."""
    came = timing["lease_started_at"] - timing["lease_wait_seconds"]
    rows = timing.assign(came=came).sort_values("came")
    for first in rows.itertuples():
        for other in rows.itertuples():
            came_later = other.came > first.came + MOMENT_SECONDS
            if came_later and other.lease_started_at + MOMENT_SECONDS < first.lease_started_at:
                raise ValueError(f"{other.chunk} came after {first.chunk} and was served before")


if __name__ == "__main__":
    table = pd.read_parquet(f"{sys.argv[1]}/timing.parquet")
    print(check_leases(table))
    check_waits(table)

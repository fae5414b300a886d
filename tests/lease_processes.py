"""Processes that take leases, for tests between real ones."""

import os
import subprocess
import sys

# A process that takes a lease, prints the device's index, start, end and waited seconds, and
# ends when its input does: arguments are holder, share and how long to wait.
TAKE = """
import sys, time
from tmol_plugin import lease
from tmol_plugin.errors import RunError
try:
    taken = lease.take(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
except RunError as error:
    sys.exit(str(error))
print("took", taken.device.index, taken.started_at, taken.waited_seconds, flush=True)
"""
HOLD = TAKE + "sys.stdin.read(); print(taken.release(), flush=True)\n"


def start_process(holder, share=1, wait_seconds=60, visible=None, code=HOLD):
    """Start a process of `code`; `visible` is its CUDA_VISIBLE_DEVICES."""
    environment = dict(os.environ) | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    return subprocess.Popen(
        [sys.executable, "-c", code, holder, str(share), str(wait_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def took(process):
    """The index of the device that a process has taken, which is waited for."""
    words = process.stdout.readline().split()
    assert words[:1] == ["took"], process.stderr.read()
    return int(words[1])

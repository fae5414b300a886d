"""Leases in a run: pretend GPUs, more jobs than there are of them, and processes that are killed.

What is checked is read from the final tables: who had which device from when to when.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from check_leases import check_leases, check_waits

N_CHUNKS = 16
N_KILLS = 6


def environment(folder):
    pretend = {"TMOL_PLUGIN_PRETEND_GPUS": "4", "TMOL_PLUGIN_LEASES": str(folder / "leases")}
    return os.environ | pretend


def write_project(project, n_chunks):
    for number in range(n_chunks):
        project.add("1ubi.pdb", f"{number:02d}.pdb")  # scored natively
    project.configure(device="cuda", chunk={"max_structures": 1})


def snakemake(project, *arguments):
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(project.snakefile)]
    command += ["--configfile", "config.yaml", "--cores", "8", *arguments]
    how = {"cwd": project.folder, "env": environment(project.folder)}
    with open(project.folder / "snakemake.log", "w") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, **how)


def test_jobs_wait_for_devices_and_never_share_one(project):
    """Without --resources gpu=4 twice as many jobs as devices run at once."""
    write_project(project, N_CHUNKS)
    assert snakemake(project).wait() == 0, project.logs()
    timing = project.table("timing")
    assert len(timing) == N_CHUNKS
    assert timing["n_scored"].sum() == N_CHUNKS
    assert len(check_leases(timing)) == 4
    check_waits(timing)
    assert (timing["lease_wait_seconds"] > 0.5).any()


def scoring_processes(folder):
    """(process, chunk) of supervisors and workers that run in `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode().split("\0")
            here = (entry / "cwd").resolve() == folder.resolve()
        except OSError:  # it ended meanwhile
            continue
        if here and "tmol_plugin" in command and "score_chunk" in command:
            chunk = Path(command[command.index("--output") + 1]).name
            found.append((int(entry.name), chunk))
            children = (entry / "task" / entry.name / "children").read_text().split()
            found += [(int(child), chunk) for child in children]
    return sorted(found)


@pytest.mark.parametrize("seed", [1])
def test_a_run_completes_though_processes_are_killed(project, seed):
    write_project(project, N_CHUNKS)
    running = snakemake(project)
    choice, killed = random.Random(seed), set()
    while running.poll() is None:
        time.sleep(choice.uniform(0.1, 1.0))
        # Snakemake tries a job three times; each chunk is hit once.
        alive = [one for one in scoring_processes(project.folder) if one[1] not in killed]
        if alive and len(killed) < N_KILLS:
            process, chunk = choice.choice(alive)
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.add(chunk)
    assert running.returncode == 0, project.logs()
    assert len(killed) == N_KILLS
    timing = project.table("timing")
    assert timing["n_scored"].sum() == N_CHUNKS
    assert len(project.table("failures")) == 0
    check_leases(timing)

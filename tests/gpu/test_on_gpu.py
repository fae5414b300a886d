"""Leases, memory and faults on a real GPU, against what NVML and torch say of it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fake_engine import SETTINGS, write_members

from tmol_plugin import chunk, lease, memory_meter, tables
from tmol_plugin.errors import RunError

MIB = 2**20
SCORES = [*tables.SCORE_TYPES, "total"]


def used_bytes(uuid):
    """Memory used on a device by all processes, by NVML."""
    pynvml, handle = memory_meter.nvml_handle(uuid)
    return pynvml.nvmlDeviceGetMemoryInfo(handle).used


def test_cuda_shows_a_process_the_device_that_nvml_leased_it(gpu):
    code = (
        "import torch; p = torch.cuda.get_device_properties(0); kept = torch.empty("
        f"{512 * MIB}, dtype=torch.uint8, device='cuda'); torch.cuda.synchronize();"
        " print(torch.cuda.device_count(), p.uuid, p.total_memory, p.name, sep='|', flush=True);"
        " input()"
    )
    before = used_bytes(gpu.device.uuid)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = os.environ | gpu.environment
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes)
    count, uuid, total_bytes, name = process.stdout.readline().strip().split("|")
    risen = used_bytes(gpu.device.uuid) - before
    process.communicate("\n")
    assert (count, name) == ("1", gpu.device.name)
    assert gpu.device.uuid.removeprefix("GPU-").removeprefix("MIG-") == uuid
    # NVML counts what the driver keeps for itself, at most some percent.
    assert 0.9 * gpu.device.total_bytes <= int(total_bytes) <= gpu.device.total_bytes
    assert risen >= 512 * MIB  # it is there, and nowhere else


def test_a_leased_device_is_leased_to_nobody_else(gpu, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpu.device.uuid)
    with pytest.raises(RunError, match=rf"no GPU became free.*pid {os.getpid()}.*tests/gpu"):
        lease.take("another", share=1, wait_seconds=0)
    assert "tests/gpu" in lease.report()
    gpu.release()
    other = lease.take("another", share=1, wait_seconds=0)
    assert other.device == gpu.device
    other.release()


def test_the_meter_tells_what_torch_allocates(gpu):
    code = "import json, sys; sys.path.insert(0, sys.argv[1]); import test_on_gpu as t; t.meter()"
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    environment = os.environ | gpu.environment
    paths = [str(Path(__file__).parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    for number, row in enumerate(rows):
        assert row["floor_bytes"] == 8 * MIB
        assert row["live_bytes"] == 8 * MIB + (number + 1) * 64 * MIB
        assert row["incremental_peak_bytes"] == 32 * MIB
        assert row["peak_bytes"] <= row["reserved_bytes"] < row["device_used_bytes"]
    # Freed between the batches, and given back at the end.
    assert rows[-1]["reserved_after_bytes"] <= 16 * MIB


def meter():
    """Batches of known sizes under the meter; run in a process of its own."""
    import torch

    device = torch.device("cuda", 0)

    def tensor(mib):
        return torch.zeros(mib * MIB, dtype=torch.uint8, device=device)

    kept, measured, rows = tensor(8), memory_meter.Meter(device), []
    for number in range(3):
        measured.start()
        batch = tensor(64 * (number + 1))
        measured.stacked()
        temporary = tensor(32)
        del temporary
        rows.append(measured.end())
        del batch
    measured.release()
    rows[-1]["reserved_after_bytes"] = torch.cuda.memory_reserved(device)
    print(json.dumps(rows), len(kept) and "", sep="")


class Made:
    """A chunk of pieces of ubiquitin for a GPU, and runs of it."""

    def __init__(self, folder, compiled, monkeypatch, batches):
        self._folder, self._monkeypatch = folder, monkeypatch
        members = write_members(folder, len(batches), batches).assign(engine_reason="")
        wanted = {"use": "cuda", "share": 1, "wait_minutes": 1}
        plan = {"parameters_id": compiled.id, "settings": SETTINGS | {"seed": 1}}
        plan["settings"] |= {"packer_seed": 1}
        plan["config"] = {"device": wanted, "memory": {"model": ""}}
        plan["config"]["outputs"] = {"per_residue": False}
        compiled.save(folder / "parameters.safetensors")
        tables.write_tsv(folder / "m.tsv", members)
        tables.write_json(folder / "run.json", plan)
        monkeypatch.setenv("TMOL_PLUGIN_LEASES", str(folder / "leases"))
        monkeypatch.setattr(
            chunk, "WORKER", [sys.executable, str(Path(__file__).with_name("gpu_worker.py"))]
        )

    def run(self, name, **told):
        """Score the chunk under a name of its own; returns its tables by name."""
        log = self._folder / f"{name}.log"
        self._monkeypatch.setenv("GPU_TEST", json.dumps({"log": str(log), **told}))
        files = [self._folder / file for file in ("m.tsv", "run.json", "parameters.safetensors")]
        folder = self._folder / "chunks" / name
        chunk.run(*map(str, files), str(folder), None, threads=1, started_at=time.time())
        made = {
            table.name: tables.read_parquet(folder / f"{table.name}.parquet", table)
            for table in tables.CHUNK_TABLES
        }
        made["batches"] = [line.split() for line in log.read_text().splitlines()]
        return made


def check_scores(found, expected):
    """Same structures, and energies as close as DESIGN.md asks, for TMol sums in any order."""
    assert found["structure_id"].tolist() == expected["structure_id"].tolist()
    expected = expected[SCORES].to_numpy()
    assert np.abs(found[SCORES].to_numpy() - expected).max() <= (
        1e-3 + 1e-4 * np.abs(expected).max()
    )


@pytest.fixture
def make(compiled, tmp_path, monkeypatch):
    return lambda batches: Made(tmp_path, compiled, monkeypatch, batches)


def test_memory_that_runs_out_on_the_device_costs_halves_and_no_score(make):
    made = make([0] * 16)
    free = made.run("free")
    (row,) = free["memory"].to_dict("records")
    assert (row["outcome"], row["device"]) == ("scored", "cuda")
    limit_bytes = row["floor_bytes"] + int(0.7 * (row["peak_bytes"] - row["floor_bytes"]))
    limited = made.run("limited", limit_bytes=limit_bytes)
    outcomes = limited["memory"][["split", "n_structures", "outcome"]].values.tolist()
    assert outcomes[0] == [0, 16, "too_large"]
    assert len(outcomes) > 2
    assert limited["memory"]["peak_bytes"].max() <= limit_bytes
    assert len(limited["failures"]) == 0
    check_scores(limited["scores"], free["scores"])


def test_a_fault_on_the_device_is_narrowed_down_to_its_structure(make):
    made = make([0, 0, 1, 1, 1, 1, 2, 2])
    sound, found = made.run("sound"), made.run("faulty", faulty="d")
    failures = found["failures"]
    assert [Path(path).stem for path in failures["path"]] == ["d"]
    assert failures["reason"].tolist() == ["device_fault"]
    assert "CUDA error" in failures["message"][0]
    names = [name for batch in found["batches"] for name in batch]
    assert sorted(names) == [*"abcefgh"]  # each once: what was finished is not scored again
    expected = sound["scores"]
    check_scores(found["scores"], expected[expected["structure_id"] != "in/d"])
    assert found["timing"]["n_processes"][0] == 3
    assert found["timing"]["device_uuid"][0] is not None

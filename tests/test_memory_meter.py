"""The meter of a batch's memory, against allocations of known sizes."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tmol_plugin import memory_meter, tables
from tmol_plugin.device import Host
from tmol_plugin.memory_meter import MEASURED, Meter

MB = 1_000_000
# The kernel counts resident pages per processor and sums them up now and then (up to 64 pages
# each behind), and Python's own objects come and go meanwhile.
TOLERANCE = 3 * MB


def filled(megabytes):
    """Resident bytes: of more than malloc's largest threshold (32 MiB), so that they go at once."""
    return np.ones(megabytes * MB, np.uint8)


def test_live_and_peak_are_what_was_allocated():
    meter = Meter(Host())
    kept = filled(50)
    meter.start()
    batch = filled(120)
    meter.stacked()
    work = filled(200)
    del work
    found = meter.end()
    assert list(found) == list(MEASURED)
    assert found["live_bytes"] - found["floor_bytes"] == pytest.approx(120 * MB, abs=TOLERANCE)
    assert found["incremental_peak_bytes"] == pytest.approx(200 * MB, abs=TOLERANCE)
    assert found["peak_bytes"] == found["live_bytes"] + found["incremental_peak_bytes"]
    # What was freed before the end is in the peak and not in what is resident after.
    assert found["host_rss_bytes"] == pytest.approx(found["live_bytes"], abs=TOLERANCE)
    assert found["reserved_bytes"] is found["device_used_bytes"] is None
    del batch, kept


def test_each_batch_has_a_peak_of_its_own_and_the_process_the_largest():
    meter = Meter(Host())
    found = []
    for megabytes in (300, 60, 100):
        meter.start()
        meter.stacked()
        work = filled(megabytes)
        del work
        found.append(meter.end())
    peaks = [one["incremental_peak_bytes"] for one in found]
    assert peaks == pytest.approx([300 * MB, 60 * MB, 100 * MB], abs=TOLERANCE)
    largest = [one["host_peak_rss_bytes"] for one in found]
    assert largest[0] == largest[1] == largest[2] >= found[0]["peak_bytes"]


def test_a_batch_that_was_never_stacked_has_a_peak_and_is_not_live():
    meter = Meter(Host())
    meter.start()
    meter.stacked()
    meter.end()
    meter.start()
    work = filled(80)
    del work
    found = meter.end()
    assert found["live_bytes"] is found["incremental_peak_bytes"] is None
    assert found["peak_bytes"] - found["floor_bytes"] == pytest.approx(80 * MB, abs=TOLERANCE)


@pytest.fixture
def refused(monkeypatch):
    """Linux that lets nobody reset VmHWM; a function of the peaks that it tells instead."""
    values = iter(())
    write = Path.write_bytes

    def write_bytes(self, data):
        if str(self) == "/proc/self/clear_refs":
            raise PermissionError(str(self))
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)

    def tell(*peaks):
        nonlocal values
        values = iter(peaks)
        monkeypatch.setattr(memory_meter, "host_memory", lambda: (500, next(values)))

    return tell


@pytest.mark.parametrize(("after", "expected"), [(1000, None), (1001, 1001)])
def test_where_peaks_are_not_reset_only_a_new_largest_is_one(refused, after, expected):
    refused(1000, 1000, after)
    meter = Meter(Host())
    meter.start()
    meter.stacked()
    found = meter.end()
    assert found["peak_bytes"] == expected
    assert (found["incremental_peak_bytes"] is None) == (expected is None)
    assert found["host_peak_rss_bytes"] == after
    assert found["live_bytes"] == found["host_rss_bytes"] == 500


def test_without_proc_nothing_is_made_up(monkeypatch):
    def no_proc(self, *text):
        raise FileNotFoundError(str(self))

    monkeypatch.setattr(Path, "read_bytes", no_proc)
    monkeypatch.setattr(Path, "write_bytes", no_proc)
    unit = 1 if sys.platform == "darwin" else 1024
    meter = Meter(Host())
    meter.start()
    meter.stacked()
    found = meter.end()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    assert found["host_peak_rss_bytes"] == pytest.approx(peak, rel=0.01)
    names = ("floor_bytes", "live_bytes", "incremental_peak_bytes", "host_rss_bytes")
    assert [found[name] for name in names] == [None] * 4


def test_the_meter_of_the_cpu_needs_no_torch():
    code = (
        "import json, sys; from tmol_plugin.memory_meter import Meter;"
        " from tmol_plugin.device import Host; meter = Meter(Host()); meter.start();"
        " meter.stacked(); found = meter.end(); meter.release();"
        " print(json.dumps([found, 'torch' in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    found, has_torch = json.loads(done.stdout)
    assert not has_torch
    row = {"chunk": "a", "batch": 0} | found
    frame = tables.MEMORY.frame([row])
    assert frame.loc[0, "peak_bytes"] == found["peak_bytes"]


class FakeCuda:
    """As much of torch.cuda as is used, with an allocator that counts."""

    def __init__(self, uuid):
        self.now = self.largest = self.pending = 0
        self.emptied = self.synchronised = 0
        self.uuid = uuid

    def get_device_properties(self, device):
        return SimpleNamespace(uuid=self.uuid)

    def allocate(self, n):
        """What is under way is only counted when the device is waited for."""
        self.pending += n

    def synchronize(self, device):
        self.synchronised += 1
        self.now += self.pending
        self.largest = max(self.largest, self.now)
        self.pending = 0

    def memory_allocated(self, device):
        return self.now

    def max_memory_allocated(self, device):
        return self.largest

    def reset_peak_memory_stats(self, device):
        self.largest = self.now

    def memory_reserved(self, device):
        return 2 * self.largest

    def empty_cache(self):
        self.emptied += 1


class FakeNVML:
    class NVMLError(Exception):
        pass

    def __init__(self, *names, lost=False):
        self.names, self.lost = names, lost

    def nvmlInit(self):  # noqa: N802
        if not self.names:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetHandleByUUID(self, name):  # noqa: N802
        if name not in self.names:
            raise self.NVMLError("Not Found")
        return name

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        if self.lost:
            raise self.NVMLError("GPU is lost")
        return SimpleNamespace(used=700 + self.names.index(handle))


UUID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda(UUID)
    monkeypatch.setattr(torch, "cuda", fake)
    return fake


def test_on_cuda_it_is_torchs_allocator_that_is_read(cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNVML("GPU-other", f"GPU-{UUID}"))
    meter = Meter(torch.device("cuda", 0))
    cuda.allocate(900)
    cuda.synchronize(None)
    cuda.allocate(-850)
    meter.start()
    cuda.allocate(100)
    meter.stacked()
    cuda.allocate(400)
    cuda.synchronize(None)
    cuda.allocate(-450)
    found = meter.end()
    expected = {"floor_bytes": 50, "live_bytes": 150, "peak_bytes": 550}
    expected |= {"incremental_peak_bytes": 400, "reserved_bytes": 1100, "device_used_bytes": 701}
    assert {name: found[name] for name in expected} == expected
    assert found["host_peak_rss_bytes"] >= found["host_rss_bytes"] > 10 * MB
    meter.release()
    assert cuda.emptied == 1


@pytest.mark.parametrize(
    ("nvml", "uuid", "used"),
    [
        (FakeNVML(f"MIG-{UUID}"), UUID, 700),
        (FakeNVML("GPU-0", "GPU-1"), "GPU-1", 701),
        (FakeNVML("GPU-other"), UUID, None),
        (FakeNVML(), UUID, None),
        (FakeNVML(f"GPU-{UUID}", lost=True), UUID, None),
        (None, UUID, None),
    ],
)
def test_the_device_is_found_by_its_uuid_or_its_use_is_null(
    cuda, monkeypatch, caplog, nvml, uuid, used
):
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # None: importing it raises ImportError
    cuda.uuid = uuid
    meter = Meter(torch.device("cuda", 0))
    for _ in range(2):
        meter.start()
        assert meter.end()["device_used_bytes"] == used
    said = [r for r in caplog.records if "not known" in r.message]
    assert len(said) == (used is None)  # once, not for each batch


def test_resident_memory_follows_an_allocation_and_its_release():
    before, _ = memory_meter.host_memory()
    block = filled(100)
    during, _ = memory_meter.host_memory()
    assert during - before == pytest.approx(100 * MB, abs=TOLERANCE)
    del block
    after, peak = memory_meter.host_memory()
    assert after == pytest.approx(before, abs=TOLERANCE)
    assert peak >= during - TOLERANCE

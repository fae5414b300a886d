"""What memory a batch takes, as measured: on the device, or of the process on the CPU."""

import gc
import logging
import resource
import sys
from pathlib import Path

log = logging.getLogger(__name__)

MEASURED = (
    *("floor_bytes", "live_bytes", "peak_bytes", "incremental_peak_bytes", "reserved_bytes"),
    *("device_used_bytes", "host_rss_bytes", "host_peak_rss_bytes"),
)


class Meter:
    """Measures one batch after another: `start`, build it, `stacked`, score it, `end`.

    On CUDA it measures what torch has allocated. On the CPU it measures the resident memory of
    the process, of all its threads; the peak is VmHWM, which `start` resets (some 20 us,
    whatever the process holds). Where Linux refuses that, and on other systems, the peak is known
    only if it is the process's largest so far, and else null. Memory that was freed and kept
    by the C library is part of the floor.

    Args:
        device: a torch device, or device.Host.
    """

    def __init__(self, device):
        self._host = _Host()
        self._memory = _Cuda(device) if device.type == "cuda" else self._host
        self._floor = self._live = None

    def start(self) -> None:
        """Before a batch is stacked: what is held now is the floor, and peaks start anew."""
        self._floor = self._memory.restart()
        self._live = None

    def stacked(self) -> None:
        """After construction: what is held now is live."""
        self._live = self._memory.held()

    def end(self) -> dict[str, int | None]:
        """After scoring, or after it failed: the columns `MEASURED` of tables.MEMORY."""
        peak = self._memory.peak()
        known = self._live is not None and peak is not None
        return {
            "floor_bytes": self._floor,
            "live_bytes": self._live,
            "peak_bytes": peak,
            "incremental_peak_bytes": peak - self._live if known else None,
            "reserved_bytes": self._memory.reserved(),
            "device_used_bytes": self._memory.device_used(),
            "host_rss_bytes": host_rss_bytes(),
            "host_peak_rss_bytes": self._host.largest(),
        }

    def release(self) -> None:
        """Give back what nobody refers to any more: after memory ran out."""
        gc.collect()
        self._memory.empty_cache()


class _Host:
    """Resident memory of this process."""

    def __init__(self):
        self._largest = 0
        self._before = 0
        self._is_reset = False

    def restart(self) -> int | None:
        self._before = host_peak_rss_bytes()
        self._largest = max(self._largest, self._before)
        try:
            # 5 sets VmHWM to the VmRSS of now (Linux, Documentation/filesystems/proc.rst).
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            self._is_reset = False
        else:
            self._is_reset = True
        return self.held()

    def held(self) -> int | None:
        return host_rss_bytes()

    def peak(self) -> int | None:
        peak = host_peak_rss_bytes()
        return peak if self._is_reset or peak > self._before else None

    def largest(self) -> int:
        """Largest of the process, as far as it was not reset by others."""
        self._largest = max(self._largest, host_peak_rss_bytes())
        return self._largest

    def reserved(self) -> None:
        return None

    def device_used(self) -> None:
        return None

    def empty_cache(self) -> None:
        """There is none."""


class _Cuda:
    """Memory that torch has allocated on a device, and what all processes use there."""

    def __init__(self, device):
        import torch

        self._cuda, self._device = torch.cuda, device
        self._nvml, self._handle = nvml_handle(torch.cuda.get_device_properties(device).uuid)

    def restart(self) -> int:
        held = self.held()
        self._cuda.reset_peak_memory_stats(self._device)
        return held

    def held(self) -> int:
        self._cuda.synchronize(self._device)
        return self._cuda.memory_allocated(self._device)

    def peak(self) -> int:
        self._cuda.synchronize(self._device)
        return self._cuda.max_memory_allocated(self._device)

    def reserved(self) -> int:
        return self._cuda.memory_reserved(self._device)

    def device_used(self) -> int | None:
        if self._handle is None:
            return None
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)
        except self._nvml.NVMLError as error:
            log.warning("memory used on the device is not known any more: NVML: %s", error)
            self._handle = None
            return None

    def empty_cache(self) -> None:
        self._cuda.empty_cache()


def nvml_handle(uuid) -> tuple:
    """NVML and its handle of the device of a UUID, as torch names it; None if there is none.

    By UUID, as NVML's indices know nothing of CUDA_VISIBLE_DEVICES. NVML stays open.
    """
    names = [str(uuid)]
    if not names[0].startswith(("GPU-", "MIG-")):  # torch leaves it out
        names = [f"GPU-{uuid}", f"MIG-{uuid}"]
    try:
        import pynvml
    except ImportError as error:
        log.warning("memory used on the device is not known: %s", error)
        return None, None
    why = None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        why, names = error, []
    for name in names:
        try:
            return pynvml, pynvml.nvmlDeviceGetHandleByUUID(name)
        except pynvml.NVMLError as error:
            why = error
    log.warning("memory used on the device %s is not known: NVML: %s", uuid, why)
    return pynvml, None


def host_rss_bytes() -> int | None:
    """Resident memory of this process, in bytes; None where there is no /proc."""
    return _proc_status_bytes("VmRSS")


def host_peak_rss_bytes() -> int:
    """Largest resident memory of this process since a Meter's last `start`, in bytes."""
    return _proc_status_bytes("VmHWM") or _rusage_peak_bytes()


def _proc_status_bytes(field: str) -> int | None:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024  # "  123 kB", which are KiB
    return None


def _rusage_peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

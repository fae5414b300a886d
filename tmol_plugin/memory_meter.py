"""What memory a batch takes, as measured: on the device, or of the process on the CPU."""

import gc
import logging
import re
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
    the process, of all its threads; the peak is VmHWM, which `start` resets. Where Linux refuses
    that, and on other systems, the peak is known only if it is the process's largest so far, and
    else null. Memory that was freed and kept by the C library is part of the floor. A batch costs
    0.3 ms, of which the reset is 0.05, whether the process holds 20 MB or 2 GB.

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
        if self._memory is not self._host:
            self._host.read()
        known = self._live is not None and peak is not None
        return {
            "floor_bytes": self._floor,
            "live_bytes": self._live,
            "peak_bytes": peak,
            "incremental_peak_bytes": peak - self._live if known else None,
            "reserved_bytes": self._memory.reserved(),
            "device_used_bytes": self._memory.device_used(),
            "host_rss_bytes": self._host.rss,
            "host_peak_rss_bytes": self._host.largest,
        }

    def release(self) -> None:
        """Give back what nobody refers to any more: after memory ran out."""
        gc.collect()
        self._memory.empty_cache()


class _Host:
    """Resident memory of this process: `rss`, its peak and its `largest`, as read last."""

    def __init__(self):
        self.largest = self._before = 0
        self._is_reset = False

    def read(self) -> None:
        self.rss, self._peak = host_memory()
        # Of the process, as far as nobody else resets it.
        self.largest = max(self.largest, self._peak)

    def restart(self) -> int | None:
        self.read()
        self._before = self._peak
        try:
            # 5 sets VmHWM to the VmRSS of now (Linux, Documentation/filesystems/proc.rst).
            Path("/proc/self/clear_refs").write_bytes(b"5")
        except OSError:
            self._is_reset = False
        else:
            self._is_reset = True
        return self.rss

    def held(self) -> int | None:
        self.read()
        return self.rss

    def peak(self) -> int | None:
        self.read()
        return self._peak if self._is_reset or self._peak > self._before else None

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


def host_memory() -> tuple[int | None, int]:
    """Resident memory of this process and its peak since a Meter's last `start`, in bytes.

    Without /proc the first is None, and the second the process's.
    """
    try:
        status = Path("/proc/self/status").read_bytes()
        rss, peak = (int(re.search(name + rb":\s*(\d+) kB", status)[1]) for name in _FIELDS)
    except (OSError, TypeError):  # no file, or no such line in it
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return None, peak if sys.platform == "darwin" else peak * 1024
    return rss * 1024, peak * 1024  # kB are KiB there


_FIELDS = (b"VmRSS", b"VmHWM")

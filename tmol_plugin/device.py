"""Which GPUs there are, which of them this process may use, and why CUDA cannot be used.

Nothing here imports torch or TMol before a device is resolved: both look at
CUDA_VISIBLE_DEVICES once, so the lease (tmol_plugin.lease) comes first.
"""

import ast
import functools
import importlib.util
import logging
import os
import re
import socket
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tmol_plugin.errors import RunError

log = logging.getLogger(__name__)

DEFAULTS = {"use": "auto", "share": 1, "wait_minutes": 720}  # as in config.yaml
PRETEND_GPUS = "TMOL_PLUGIN_PRETEND_GPUS"
_MAX_PRETEND_GPUS = 64
_INSTALL = "install the extra cu12 or cu13"


@dataclass(frozen=True)
class Device:
    """A GPU, or an instance of one that MIG divides.

    `index` is NVML's, in the order of the PCI bus; the instances of a GPU share it.
    """

    uuid: str
    name: str
    index: int
    total_bytes: int
    is_pretend: bool


class Listed(NamedTuple):
    """A device that NVML lists, the GPU that it is (an instance) of, and why it is of no use."""

    device: Device
    gpu_uuid: str
    why_not: str = ""


class Host(NamedTuple):
    """The CPU, for who needs no torch; has what is asked of a torch device."""

    type: str = "cpu"


def normalized(wanted: str | Mapping, defaults: Mapping = DEFAULTS) -> dict:
    """The config's `device`, a word or a mapping, as a mapping of use, share, wait_minutes."""
    return {**defaults, **({"use": wanted} if isinstance(wanted, str) else wanted)}


def listed_devices() -> list[Listed]:
    """All devices of this machine that this process is shown; none without a driver.

    Raises:
        RunError: TMOL_PLUGIN_PRETEND_GPUS is no number of devices.
    """
    return _pretended() or list(_ask_nvml()[0])


def visible_devices() -> list[Device]:
    """The devices that this process may use: what CUDA_VISIBLE_DEVICES allows, else all.

    Raises:
        RunError: CUDA_VISIBLE_DEVICES names a device twice, or may name another than meant.
    """
    selected, ended_by = _select(listed_devices())
    if ended_by:
        log.warning("%s: what follows is ignored, as CUDA does", ended_by)
    for one in selected:
        if one.why_not:
            log.warning("GPU %d cannot be used: %s", one.device.index, one.why_not)
    return [one.device for one in selected if not one.why_not]


def why_no_cuda() -> str | None:
    """Why no GPU can be used, told before torch is imported; None if one can.

    Pretend devices can be used. What only CUDA itself can tell, `resolve` finds out.
    """
    pretended = _pretended()
    listed, why_none = (pretended, "") if pretended else _ask_nvml()
    if not listed:
        return why_none
    if not pretended and (why_not := _why_no_operators()):
        return why_not
    selected, ended_by = _select(listed)
    if any(not one.why_not for one in selected):
        return None
    if unusable := [f"GPU {one.device.index}: {one.why_not}" for one in selected]:
        return "; ".join(unusable)
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    return ended_by or f"CUDA_VISIBLE_DEVICES={value!r} allows none of {len(listed)} GPUs"


def _pretended() -> list[Listed]:
    """Pretend devices share half of the main memory; their UUIDs last, machine by machine."""
    if not (value := os.environ.get(PRETEND_GPUS, "")):
        return []
    count = int(value) if re.fullmatch(r"[0-9]{1,4}", value) else 0
    if not 1 <= count <= _MAX_PRETEND_GPUS:
        raise RunError(
            f"{PRETEND_GPUS}={value!r}: give a number from 1 to {_MAX_PRETEND_GPUS}, or unset it"
        )
    own = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2 // count
    machine = f"{zlib.crc32(socket.gethostname().encode()):08x}"
    uuids = [f"GPU-pretend-{machine}-{index}" for index in range(count)]
    return [Listed(Device(u, "pretend GPU", i, own, True), u) for i, u in enumerate(uuids)]


@functools.cache
def _ask_nvml() -> tuple[tuple[Listed, ...], str]:
    """What NVML lists, and why that is nothing; asked once, as it takes up to seconds."""
    try:
        import pynvml
    except ImportError:
        return (), "NVML cannot be asked for GPUs: nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return (), f"no GPU driver: NVML says {error}"
    try:
        count = pynvml.nvmlDeviceGetCount()
        found = tuple(one for index in range(count) for one in _of_gpu(pynvml, index))
    except pynvml.NVMLError as error:
        return (), f"the GPUs cannot be listed: NVML says {error}"
    finally:
        pynvml.nvmlShutdown()
    return found, "" if found else "the driver lists no GPU"


def _of_gpu(nvml, index: int) -> list[Listed]:
    """A GPU; or in its place, if MIG divides it, its instances, for CUDA then uses those only.

    As the two are never listed together, a GPU and its instances are never both leased.
    """
    try:
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = nvml.nvmlDeviceGetUUID(gpu)
        whole = _described(nvml, gpu, index)
        prohibited = nvml.nvmlDeviceGetComputeMode(gpu) == nvml.NVML_COMPUTEMODE_PROHIBITED
    except nvml.NVMLError as error:
        # A lost GPU keeps its index, for those after it keep theirs.
        lost = Device("", "unknown", index, 0, False)
        return [Listed(lost, "", f"NVML says {error}")]
    why_not = "its compute mode is prohibited" if prohibited else ""
    try:
        is_divided = nvml.nvmlDeviceGetMigMode(gpu)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:  # has no MIG
        is_divided = False
    if not is_divided:
        return [Listed(whole, uuid, why_not)]
    instances = []
    for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
        except nvml.NVMLError:  # no instance in this place
            continue
        instances.append(Listed(_described(nvml, instance, index), uuid, why_not))
    return instances or [Listed(whole, uuid, "MIG divides it, and it has no instance")]


def _described(nvml, handle, index: int) -> Device:
    total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    name, uuid = nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle)
    return Device(uuid, name, index, total, is_pretend=False)


def _select(listed: list[Listed]) -> tuple[list[Listed], str]:
    """What CUDA_VISIBLE_DEVICES selects, in its order, and the words on what ended it early.

    Read as CUDA reads it: indices, UUIDs or unambiguous beginnings of UUIDs; the list ends at
    the first that names nothing. Indices are in PCI order, as nvidia-smi and schedulers count
    (CUDA's own default, the fastest first, is the same where all GPUs are of one model).
    """
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return list(listed), ""
    selected = []
    for entry in map(str.strip, value.split(",")):
        one = _named(entry, listed)
        if one is None:
            means_none = entry in ("", "-1", "NoDevFiles")
            return selected, (
                "" if means_none else f"CUDA_VISIBLE_DEVICES={value!r}: {entry!r} names no one GPU"
            )
        if one in selected:
            raise RunError(
                f"CUDA_VISIBLE_DEVICES={value!r} names GPU {one.device.index} twice, and CUDA"
                " then shows none; name each once"
            )
        selected.append(one)
    return selected, ""


def _named(entry: str, listed: list[Listed]) -> Listed | None:
    """The device of an entry; of a GPU that MIG divides the first instance, as CUDA takes it."""
    if re.fullmatch(r"[0-9]+", entry):
        models = {one.device.name for one in listed}
        if os.environ.get("CUDA_DEVICE_ORDER") == "FASTEST_FIRST" and len(models) > 1:
            raise RunError(
                f"CUDA_VISIBLE_DEVICES: the index {entry} with CUDA_DEVICE_ORDER=FASTEST_FIRST"
                " and GPUs of several models is not known before CUDA starts; give UUIDs"
            )
        return next((one for one in listed if one.device.index == int(entry)), None)
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    of_gpu = entry.startswith("GPU-")
    uuids = [one.gpu_uuid if of_gpu else one.device.uuid for one in listed]
    matching = {entry} & {*uuids} or {uuid for uuid in uuids if uuid.startswith(entry)}
    return listed[uuids.index(matching.pop())] if len(matching) == 1 else None


def _why_no_operators() -> str | None:
    """Why torch or TMol cannot compute on CUDA, from what is installed; neither is imported."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:  # a folder of that name is a module, too
        return f"torch is not installed; {_INSTALL}"
    text = (Path(torch.origin).parent / "version.py").read_text(encoding="utf-8")
    cuda = re.search(r"^cuda\b[^=\n]*=\s*(.+)$", text, re.MULTILINE)
    cuda = ast.literal_eval(cuda[1]) if cuda else None
    if cuda is None:
        return f"torch is a build without CUDA; {_INSTALL}"
    extra = f"cu{cuda.partition('.')[0]}"
    if importlib.util.find_spec(f"tmol_ops_{extra}") is None and not _is_tmol_built_with_cuda():
        return f"TMol has no operators for torch's CUDA {cuda}; install the extra {extra}"
    return None


def _is_tmol_built_with_cuda() -> bool:
    """Whether TMol's own library, if it was built from source, is linked to CUDA."""
    tmol = importlib.util.find_spec("tmol")
    libraries = Path(tmol.origin).parent.glob("_C*.so") if tmol else ()
    return any(b"libcudart" in path.read_bytes() for path in libraries)


def resolve(wanted: str):
    """The torch device of a process that scores: the only one its lease lets it see, or the CPU.

    Args:
        wanted: cpu or cuda; auto is cuda where that can be used. A pretend device is the CPU.

    Raises:
        RunError: `cuda` is asked for and cannot be used, with the reason.
    """
    import torch

    if wanted == "cpu":
        return torch.device("cpu")
    why_not = why_no_cuda()
    if why_not is None and visible_devices()[0].is_pretend:
        return torch.device("cpu")
    if why_not is None:
        why_not = _why_torch_cannot()
    if why_not is None:
        return torch.device("cuda", 0)
    if wanted == "cuda":
        raise RunError(f"device: cuda cannot be used: {why_not}")
    log.warning("scoring on the CPU: %s", why_not)
    return torch.device("cpu")


def _why_torch_cannot() -> str | None:
    import tmol
    import torch

    try:
        torch.cuda.init()
    except RuntimeError as error:
        return f"torch cannot start CUDA: {error}"
    if not tmol.has_cuda():
        return f"TMol's CUDA operators are not loaded; {_INSTALL}"
    return None


def gpus_of_chunk(members_file: str, use: str) -> int:
    """GPUs that a chunk's job asks for: with `auto` none if it is scored natively."""
    if use != "auto":
        return int(use == "cuda")
    with open(members_file, encoding="utf-8") as file:
        # All members are of one engine; the first tells.
        header, first = (next(file).rstrip("\n").split("\t") for _ in range(2))
    return int(first[header.index("engine_reason")] != "")


def describe(device) -> str:
    """A device's name for the timing table: cpu, or the GPU's name."""
    if device.type != "cuda":
        return "cpu"
    import torch

    return torch.cuda.get_device_name(device)


def is_fault(error: BaseException) -> bool:
    """Whether an error lost the CUDA context: nothing more can be computed in this process."""
    return "CUDA error" in str(error)

"""Which device a scoring process uses."""

from typing import NamedTuple

from tmol_plugin.errors import RunError


class Host(NamedTuple):
    """The CPU, for who needs no torch; has what is asked of a torch device."""

    type: str = "cpu"


def resolve(wanted: str):
    """The torch device for the config's `device`: auto, cpu or cuda.

    `auto` takes CUDA where torch and TMol's operators can use it, else the CPU.

    Raises:
        RunError: if `cuda` is asked for and cannot be used, with the reason.
    """
    import torch

    if wanted == "cpu":
        return torch.device("cpu")
    why_not = _why_no_cuda()
    if why_not is None:
        return torch.device("cuda", torch.cuda.current_device())
    if wanted == "cuda":
        raise RunError(f"device: cuda cannot be used: {why_not}")
    return torch.device("cpu")


def _why_no_cuda() -> str | None:
    import torch

    if torch.version.cuda is None:
        return "torch is a build without CUDA; install the extra cu12 or cu13"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device (no driver, or none visible to this process)"
    import tmol

    if not tmol.has_cuda():
        return "TMol's CUDA operators are not installed; install the extra cu12 or cu13"
    return None


def gpus_of_chunk(members_file: str, wanted: str) -> int:
    """GPUs that a chunk's job asks for: with `auto` none if it is scored natively."""
    if wanted != "auto":
        return int(wanted == "cuda")
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


def normalized(wanted):
    return wanted if isinstance(wanted, dict) else {"use": wanted, "share": 1, "wait_minutes": 720}

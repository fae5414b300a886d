"""What produced a result: versions, settings, machine; and the fingerprint of them.

Two chunks may stand in one table only if their fingerprints are equal.
"""

import json
import os
import platform
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tmol_plugin.errors import RunError
from tmol_plugin.tables import digest

# Packages that read structures, prepare or score them.
PACKAGES = (
    *("tmol_plugin", "tmol", "torch", "gemmi", "numpy", "biotite", "atomworks", "rdkit"),
    *("openbabel-wheel", "scipy"),
)


def versions() -> dict[str, str]:
    """Versions of the packages that matter, without importing them; "" if not installed."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = ""
    return found


def fingerprint(settings: dict, parameters_id: str) -> str:
    """Id of everything that decides a score in this process, except the structure."""
    return digest([settings, parameters_id, versions()], 16)


def machine() -> dict:
    """The machine, for run.json; its instruction set decides the last bits of native scores."""
    from tmol_plugin import native  # NumPy is not for those who ask for versions only

    return {
        "hostname": socket.gethostname(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "instruction_set": native.instruction_sets()[0],
    }


def summary(results: str | Path) -> str:
    """How many structures of a finished run were scored and failed, and where its tables are."""
    results = Path(results)
    try:
        counts = json.loads((results / "run.json").read_text(encoding="utf-8"))["counts"]
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{results}: holds no finished run ({error})") from error
    lines = [f"{counts['scored']} structures scored, {counts['failed']} failed."]
    lines += [f"  {results / name}.tsv" for name in ("scores", "failures", "memory", "timing")]
    lines += [f"  {path}" for path in results.glob("per_residue.parquet")]
    return "\n".join(lines)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()

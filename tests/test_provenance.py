"""The fingerprint: the same everywhere for the same run, another for any other."""

import os
import socket
import subprocess
import sys
from importlib.metadata import version

from tmol_plugin import native, provenance
from tmol_plugin.tables import digest

SETTINGS = {"hydrogens": "keep", "packer_seed": 20160, "ligand_params": []}


def test_the_fingerprint_follows_settings_parameters_and_versions(monkeypatch):
    first = provenance.fingerprint(SETTINGS, "a" * 12)
    assert first == provenance.fingerprint(dict(reversed(SETTINGS.items())), "a" * 12)
    assert first == digest([SETTINGS, "a" * 12, provenance.versions()], 16)
    others = {
        provenance.fingerprint(SETTINGS | {"packer_seed": 1}, "a" * 12),
        provenance.fingerprint(SETTINGS | {"ligand_params": ["a"]}, "a" * 12),
        provenance.fingerprint(SETTINGS, "b" * 12),
    }
    for package in provenance.PACKAGES:
        changed = provenance.versions() | {package: "0.0.0.dev0"}
        monkeypatch.setattr(provenance, "versions", lambda changed=changed: changed)
        others.add(provenance.fingerprint(SETTINGS, "a" * 12))
        monkeypatch.undo()
    assert len(others | {first}) == 4 + len(provenance.PACKAGES)


def test_another_process_gives_the_same_and_imports_nothing_heavy():
    code = (
        "import sys; from tmol_plugin import provenance;"
        f"print(provenance.fingerprint({SETTINGS!r}, 'a' * 12));"
        "print({'torch', 'tmol', 'gemmi', 'rdkit'} & {*sys.modules})"
    )
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    words = subprocess.check_output([sys.executable, "-c", code], text=True, env=environment)
    assert words.split() == [provenance.fingerprint(SETTINGS, "a" * 12), "set()"]


def test_versions_are_those_installed(monkeypatch):
    found = provenance.versions()
    assert list(found) == list(provenance.PACKAGES)
    for package in ("tmol", "torch", "gemmi", "biotite", "tmol_plugin"):
        assert found[package] == version(package) != ""
    monkeypatch.setattr(provenance, "PACKAGES", ("gemmi", "no-such-package"))
    assert provenance.versions() == {"gemmi": version("gemmi"), "no-such-package": ""}


def test_the_machine():
    found = provenance.machine()
    assert found["hostname"] == socket.gethostname()
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["cpus"] == len(os.sched_getaffinity(0))
    assert found["instruction_set"] == native.instruction_sets()[0]
    assert set(found) == {*("hostname", "system", "python", "processor", "cpus", "instruction_set")}

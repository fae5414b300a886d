"""What several tests compare with: compiled parameters, and TMol's context of them."""

import os
import subprocess
import sys

import pytest
from hypothesis import settings
from lease_processes import start_process

from tmol_plugin.parameters import load_parameters

# The same examples in every run, so that a change fails for itself and for no other; they wait
# for disks. `--hypothesis-profile=default` draws new ones.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def compiled():
    """Parameters of beta2016, as a chunk loads them."""
    from tmol_plugin.parameters import compile_parameters

    return compile_parameters()


@pytest.fixture(scope="session")
def context():
    """TMol's context of its own database; the order of its block types is that of `compiled`."""
    import torch
    from biotite.structure import AtomArray
    from tmol import ParameterDatabase
    from tmol.io import build_context_from_atom_array

    database = ParameterDatabase.get_default()
    return build_context_from_atom_array(AtomArray(0), torch.device("cpu"), database)


@pytest.fixture(scope="session")
def score_function(context):
    """TMol's beta2016 on the CPU."""
    import torch
    from tmol import beta2016_score_function

    return beta2016_score_function(torch.device("cpu"), context.parameter_database)


@pytest.fixture(scope="session")
def scorer(compiled):
    """The native library's scorer of beta2016."""
    from tmol_plugin import native

    return native.Scorer(compiled.tensors)


# What a run under sanitizers sets: TMol is not of their kind, and only compiles here.
_OF_SANITIZERS = ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONMALLOC")
_OF_SANITIZERS += ("TMOL_PLUGIN_LIBRARY",)


@pytest.fixture(scope="session")
def parameters(tmp_path_factory):
    """Parameters of TMol's own database, compiled in a process of its own.

    So that tests of the native library run without TMol and torch, also under sanitizers.
    """
    path = tmp_path_factory.mktemp("parameters") / "parameters.safetensors"
    environment = {k: v for k, v in os.environ.items() if k not in _OF_SANITIZERS}
    code = "import sys; from tmol_plugin.parameters import compile_parameters as compiled; "
    code += "compiled().save(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=True)
    return load_parameters(path)


@pytest.fixture
def leases(tmp_path, monkeypatch):
    """A folder of leases of the test's own, on a machine with one pretend device."""
    path = tmp_path / "leases"
    monkeypatch.setenv("TMOL_PLUGIN_LEASES", str(path))
    monkeypatch.setenv("TMOL_PLUGIN_PRETEND_GPUS", "1")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return path


@pytest.fixture
def start():
    """The function that starts a process which takes a lease; they end with the test."""
    started = []

    def start(*arguments, **how):
        started.append(start_process(*arguments, **how))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()

"""The native library: found, refused where it is another one, and checked before each call."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tmol_plugin import __version__, abi, native
from tmol_plugin.errors import RunError
from tmol_plugin.naming import preparation_arrays

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def reload(monkeypatch):
    """Make the next call of `library` load anew; forget what that loads."""
    monkeypatch.setattr(native, "library", native.cache(native.library.__wrapped__))


def test_the_library_is_of_this_version():
    assert native.library().tp_version() == __version__.encode()
    assert native.library() is native.library()


@pytest.mark.parametrize("folder", [ROOT, "."])
def test_it_is_found_from_any_folder(folder, tmp_path):
    """In the repository the sources are imported; there is no library among them."""
    code = "from tmol_plugin import native; native.library(); print(native.library_path())"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == str(native.library_path())


def test_it_shows_the_c_interface_only():
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", native.library_path()],
        capture_output=True,
        text=True,
        check=True,
    )
    shown = {line.split()[0] for line in listed.stdout.splitlines()}
    assert shown == set(abi.FUNCTIONS)


@pytest.mark.usefixtures("reload")
def test_a_missing_library(monkeypatch):
    monkeypatch.delenv(native.VARIABLE, raising=False)
    monkeypatch.setattr(sys, "path", [str(ROOT)])
    with pytest.raises(RunError, match=r"not installed.*pip install"):
        native.library()


@pytest.mark.usefixtures("reload")
def test_a_library_of_another_version(monkeypatch):
    monkeypatch.setattr(native, "__version__", "0.0.1")
    with pytest.raises(RunError, match=f"of version {__version__}, the package of 0.0.1.*make"):
        native.library()


@pytest.mark.usefixtures("reload")
def test_a_file_that_is_no_library(monkeypatch, tmp_path):
    file = tmp_path / "lib.so"
    file.write_text("text")
    monkeypatch.setenv(native.VARIABLE, str(file))
    with pytest.raises(RunError, match=r"lib\.so: cannot be loaded"):
        native.library()


@pytest.mark.usefixtures("reload")
def test_a_library_that_lacks_a_function(monkeypatch):
    """An old build of the same version."""
    monkeypatch.setitem(abi.FUNCTIONS, "tp_new", (None, ()))
    with pytest.raises(RunError, match=r"cannot be loaded.*tp_new.*pip install"):
        native.library()


def test_tables_copy_what_they_need_and_are_freed_once(monkeypatch, parameters):
    freed = []
    monkeypatch.setattr(native.library(), "tp_tables_free", freed.append)
    arrays = preparation_arrays(parameters)
    holders = {name: sys.getrefcount(array) for name, array in arrays.items()}
    tables = native.Tables(arrays)
    assert {name: sys.getrefcount(array) for name, array in arrays.items()} == holders
    handle = tables._as_parameter_
    assert not freed
    del tables
    gc.collect()
    assert freed == [handle]
    monkeypatch.undo()
    native.library().tp_tables_free(handle)


@pytest.mark.parametrize(
    ("array", "error"),
    [
        ([1, 2], TypeError),
        (np.zeros(3, np.float16), TypeError),
        (np.zeros(3, ">f4"), TypeError),
        (np.array(["text"]), TypeError),
        (np.zeros((3, 4))[:, :2], ValueError),
        (np.zeros(9, np.uint8)[1:].view("f8"), ValueError),
    ],
)
def test_arrays_that_the_library_cannot_read(array, error):
    with pytest.raises(error, match="coords: is"):
        native.Tables({"coords": array})


def test_arrays_that_the_library_refuses():
    """What it throws ends in an error; names end at a NUL there, so these are one."""
    array = np.zeros(3)
    with pytest.raises(RunError, match="'coords' is there twice; compile them again"):
        native.Tables({"coords\0a": array, "coords\0b": array})

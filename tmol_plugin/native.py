"""The loader of the compiled library, and the checks of what is passed to it.

The library trusts its callers, so whatever reaches it goes through this module. ctypes
releases the interpreter lock during each call: threads of one process run native code side
by side.
"""

import ctypes
import os
import sys
import weakref
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from tmol_plugin import __version__
from tmol_plugin.errors import RunError

LIBRARY = "libtmol_plugin_cpu.so"
# Names another library to load in place of the installed one: one built with sanitizers, say.
VARIABLE = "TMOL_PLUGIN_LIBRARY"

_REMEDY = "install the package anew: `pip install .` in its repository, or `make native`"
_DTYPES = frozenset(map(np.dtype, ("u1", "i4", "i8", "f4", "f8")))


class _Array(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("n_bytes", ctypes.c_int64),
    )


# Each function of csrc/include/tmol_plugin.h: its result and its arguments.
_FUNCTIONS = {
    "tp_version": (ctypes.c_char_p, ()),
    "tp_tables_create": (
        ctypes.c_void_p,
        (ctypes.POINTER(_Array), ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64),
    ),
    "tp_tables_free": (None, (ctypes.c_void_p,)),
}


@cache
def library() -> ctypes.CDLL:
    """The library, loaded at the first call.

    Raises:
        RunError: it is missing, cannot be loaded, or was built from another version.
    """
    path = library_path()
    try:
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise RunError(f"{path}: cannot be loaded ({error}); {_REMEDY}") from error
    version = loaded.tp_version().decode()
    if version != __version__:
        raise RunError(f"{path}: is of version {version}, the package of {__version__}; {_REMEDY}")
    return loaded


def library_path() -> Path:
    """The library that `VARIABLE` names, else the one that pip installed."""
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    # Not only beside this file: in the repository's folder, and where the package is
    # installed as editable, Python takes the sources, which hold no library.
    for folder in sys.path:
        path = Path(folder, "tmol_plugin", LIBRARY).absolute()
        if path.is_file():
            return path
    raise RunError(f"{LIBRARY} is not installed; {_REMEDY}")


class Tables:
    """Compiled chemistry in the library; can be passed to its functions.

    Args:
        arrays: arrays by name, used where they lie: they must not change.

    Raises:
        TypeError, ValueError: an array that the library could not read.
        RunError: arrays that are no compiled chemistry.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = dict(arrays)  # the library reads from them for as long as this lives
        for name, array in self._arrays.items():
            _check(name, array)
        given = (_Array * len(self._arrays))(
            *((n.encode(), a.ctypes.data, a.nbytes) for n, a in self._arrays.items())
        )
        error = ctypes.create_string_buffer(1000)
        native = library()
        handle = native.tp_tables_create(given, len(given), error, len(error))
        if not handle:
            message = error.value.decode(errors="replace")
            raise RunError(f"compiled parameters: {message}; compile them again")
        self._as_parameter_ = ctypes.c_void_p(handle)
        weakref.finalize(self, native.tp_tables_free, self._as_parameter_)


def _check(name: str, array: np.ndarray) -> None:
    """Raise an error unless the library can read the array where it lies."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: is {type(array).__name__}, not a NumPy array")
    if array.dtype not in _DTYPES:
        allowed = ", ".join(sorted(map(str, _DTYPES)))
        raise TypeError(f"{name}: is of {array.dtype.str}, not of {allowed}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name}: is not contiguous and aligned; see numpy.require")

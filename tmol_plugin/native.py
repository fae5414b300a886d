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
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tmol_plugin import __version__, abi
from tmol_plugin.errors import RunError

LIBRARY = "libtmol_plugin_cpu.so"
# Names another library to load in place of the installed one: one built with sanitizers, say.
VARIABLE = "TMOL_PLUGIN_LIBRARY"

_REMEDY = "install the package anew: `pip install .` in its repository, or `make native`"
_DTYPES = frozenset(map(np.dtype, ("u1", "i1", "i4", "i8", "f4", "f8")))


@cache
def library() -> ctypes.CDLL:
    """The library, loaded at the first call.

    Raises:
        RunError: it is missing, cannot be loaded, or was built from another version.
    """
    path = library_path()
    try:
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in abi.FUNCTIONS.items():
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


class _Compiled:
    """What the library makes of arrays of compiled parameters; can be passed to its functions.

    Args:
        arrays: arrays by name; the library copies what it needs.

    Raises:
        TypeError, ValueError: an array that the library could not read.
        RunError: arrays that are no compiled parameters.
    """

    _kind: str

    def __init__(self, arrays: Mapping[str, np.ndarray], *options):
        for name, array in arrays.items():
            _check(name, array)
        given = (abi.Array * len(arrays))(
            *((n.encode(), a.ctypes.data, a.nbytes) for n, a in arrays.items())
        )
        error = ctypes.create_string_buffer(1000)
        native = library()
        create, free = (getattr(native, f"tp_{self._kind}_{do}") for do in ("create", "free"))
        handle = create(given, len(given), *options, error, len(error))
        if not handle:
            message = error.value.decode(errors="replace")
            raise RunError(f"compiled parameters: {message}; compile them again")
        self._as_parameter_ = ctypes.c_void_p(handle)
        weakref.finalize(self, free, self._as_parameter_)


class Tables(_Compiled):
    """Compiled chemistry, for preparation."""

    _kind = "tables"

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        super().__init__(arrays)


class Scorer(_Compiled):
    """The energy function, for scoring on an instruction set; the best one if none is named.

    Raises:
        RunError: also if `instruction_set` is none of `instruction_sets()`.
    """

    _kind = "scorer"

    def __init__(self, arrays: Mapping[str, np.ndarray], instruction_set: str | None = None):
        known = instruction_sets()
        self.instruction_set = instruction_set or known[0]
        if self.instruction_set not in known:
            raise RunError(
                f"instruction set {instruction_set!r}: this machine has {', '.join(known)}"
            )
        super().__init__(arrays, self.instruction_set.encode())


def _check(name: str, array: np.ndarray) -> None:
    """Raise an error unless the library can read the array where it lies."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: is {type(array).__name__}, not a NumPy array")
    if array.dtype not in _DTYPES:
        allowed = ", ".join(sorted(map(str, _DTYPES)))
        raise TypeError(f"{name}: is of {array.dtype.str}, not of {allowed}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise ValueError(f"{name}: is not contiguous and aligned; see numpy.require")


class NotPlain(Exception):  # noqa: N818 - not an error: another reader takes over
    """What cannot be read or prepared on the fast path, and why."""


class NotCovered(NotPlain):
    """Chemistry that is not prepared natively."""


@dataclass(frozen=True)
class PdbScan:
    """Where a model is in a PDB file, and what its lines say besides the atoms.

    `text` are the model's lines; `segments` int32 [n_atoms] count its chains; `serials` int32
    [n_atoms] are the atoms' in the file's order, each another; `bonds` int32
    [n, 2] are the pairs of atoms of CONECT, `partners` the pairs of SSBOND and LINK.
    """

    text: bytes
    segments: np.ndarray
    serials: np.ndarray
    bonds: np.ndarray
    partners: bytes


def scan_pdb(data: bytes, model: int) -> PdbScan:
    """Find a model in a PDB file.

    Raises:
        NotPlain: if gemmi would read its lines otherwise than they are meant.
    """
    native = library()
    found = native.tp_pdb_scan(data, len(data), model)
    if not found:
        raise MemoryError("out of memory in tp_pdb_scan")
    try:
        pdb = found.contents
        if pdb.not_plain:
            raise NotPlain(pdb.not_plain.decode())
        return PdbScan(
            data[pdb.begin : pdb.end],
            _copied(pdb.segments, np.int32, pdb.n_atoms),
            _copied(pdb.serials, np.int32, pdb.n_atoms),
            _copied(pdb.bonds, np.int32, pdb.n_bonds, 2),
            ctypes.string_at(pdb.partners, 2 * pdb.n_partner_pairs * ctypes.sizeof(abi.Partner))
            if pdb.n_partner_pairs
            else b"",
        )
    finally:
        native.tp_pdb_free(found)


def partner(chain: str, number: int, insertion_code: str, atom: str) -> bytes:
    """One end of a declared bond; two of them are a pair of `prepare`'s `partners`."""
    return bytes(
        abi.Partner(chain.encode()[:8], atom.encode()[:8], number, insertion_code.encode())
    )


@dataclass(frozen=True)
class Atoms:
    """Atoms of one model in file order; names uint8 or int8 [n, 8], padded with NUL.

    `subchains` or `segments` divide chains: one of them is None. `serials` must be
    `expected_serials`, or increase where these are None; they are not looked at where they are
    None themselves. `positions` are float64 [n, 3] in angstrom.
    """

    atom_names: np.ndarray
    residue_names: np.ndarray
    chain_ids: np.ndarray
    subchains: np.ndarray | None
    segments: np.ndarray | None
    residue_numbers: np.ndarray
    insertion_codes: np.ndarray
    altlocs: np.ndarray
    serials: np.ndarray | None
    expected_serials: np.ndarray | None
    occupancies: np.ndarray
    positions: np.ndarray


@dataclass(frozen=True)
class Prepared:
    """Arrays of a pose as `pose.Pose` has them; `first_atoms` int32 [n_blocks] are rows of
    `Atoms`, `disulfides` int32 [n, 2] blocks."""

    coords: np.ndarray
    block_types: np.ndarray
    block_atom_offsets: np.ndarray
    connections: np.ndarray
    chain_of_block: np.ndarray
    first_atoms: np.ndarray
    disulfides: np.ndarray
    counts: dict[str, int]


_NAMES, _INTEGERS, _BYTES = (1, (8,)), (4, ()), (1, ())
# Size of an item and shape behind the atoms' axis.
_LAYOUT = {
    **dict.fromkeys(("atom_names", "residue_names", "chain_ids", "subchains"), _NAMES),
    **dict.fromkeys(("segments", "residue_numbers", "serials", "expected_serials"), _INTEGERS),
    **dict.fromkeys(("insertion_codes", "altlocs"), _BYTES),
    **{"occupancies": (4, ()), "positions": (8, (3,))},
}


def prepare(tables: Tables, atoms: Atoms, bonds: np.ndarray, partners: bytes) -> Prepared:
    """Residues, block types, connections and missing atoms of a model.

    Args:
        bonds: int32 [n, 2], rows of `atoms`.
        partners: pairs of `partner`.

    Raises:
        NotPlain: if the policy would fail, or only the careful reader can tell.
        NotCovered: if the chemistry is not prepared here.
    """
    n_atoms = len(atoms.atom_names)
    given = abi.Atoms(n_atoms=n_atoms, n_bonds=len(bonds), bonds=bonds.ctypes.data)
    kept = [bonds, partners]
    for name, (size, shape) in _LAYOUT.items():
        array = getattr(atoms, name)
        if array is None:
            continue
        if array.itemsize != size or array.shape != (n_atoms, *shape):
            raise ValueError(f"{name}: {array.dtype} {array.shape} for {n_atoms} atoms")
        array = np.ascontiguousarray(array)
        kept.append(array)
        setattr(given, name, array.ctypes.data)
    if (given.subchains is None) == (given.segments is None):
        raise ValueError("either subchains or segments divide chains")
    given.n_partner_pairs = len(partners) // (2 * ctypes.sizeof(abi.Partner))
    given.partners = ctypes.cast(ctypes.c_char_p(partners), ctypes.c_void_p)
    native = library()
    found = native.tp_prepare(tables, ctypes.byref(given))
    if not found:
        raise MemoryError("out of memory in tp_prepare")
    try:
        pose = found.contents
        if pose.status:
            raise (NotPlain, NotCovered)[pose.status - 1](pose.reason.decode())
        return Prepared(
            _copied(pose.coords, np.float32, pose.n_atoms, 3),
            _copied(pose.block_types, np.int32, pose.n_blocks),
            _copied(pose.block_atom_offsets, np.int32, pose.n_blocks + 1),
            _copied(pose.connections, np.int32, pose.n_connections, 2),
            _copied(pose.chain_of_block, np.int32, pose.n_blocks),
            _copied(pose.first_atoms, np.int32, pose.n_blocks),
            _copied(pose.disulfides, np.int32, pose.n_disulfides, 2),
            dict(zip(abi.COUNTS, pose.counts, strict=True)),
        )
    finally:
        native.tp_pose_free(found)


def _copied(address: int | None, dtype, *shape: int) -> np.ndarray:
    array = np.empty(shape, dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array


def score_types() -> list[str]:
    """Names of the score types that the library computes, in the order of its results."""
    return _names(library().tp_score_type_name)


def instruction_sets() -> list[str]:
    """What the library is built for and this processor runs, the best one first."""
    return _names(library().tp_instruction_set)


def _names(function) -> list[str]:
    names = []
    while (name := function(len(names))) is not None:
        names.append(name.decode())
    return names


def score(
    scorer: Scorer, arrays: Mapping[str, np.ndarray], n_threads: int, by_block: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """Unweighted energies of poses, the same bits for any number of threads.

    Args:
        arrays: those of a `PoseStack` by its names. The caller has checked what they refer to.

    Returns:
        float64 [n_score_types, n_poses]; float64 [n_score_types, n_blocks] or None, a pair's
        energy halved between its blocks.

    Raises:
        ValueError: an array of another type or shape.
        RuntimeError: what went wrong in the library, out of memory for one.
    """
    stack = abi.PoseStack(n_poses=len(arrays["pose_block_offsets"]) - 1)
    for name, _ in abi.PoseStack._fields_[1:]:
        array = arrays[name]
        if array.dtype != (np.float32 if name == "coords" else np.int32):
            raise ValueError(f"{name}: of {array.dtype}")
        _check(name, array)
        setattr(stack, name, array.ctypes.data)
    n_types = len(score_types())
    energies = np.empty((n_types, stack.n_poses))
    blocks = np.empty((n_types, len(arrays["block_types"]))) if by_block else None
    error = ctypes.create_string_buffer(1000)
    failed = library().tp_score(
        *(scorer, ctypes.byref(stack), n_threads, energies.ctypes.data),
        *(None if blocks is None else blocks.ctypes.data, error, len(error)),
    )
    if failed:
        raise RuntimeError(f"native scoring: {error.value.decode(errors='replace')}")
    return energies, blocks

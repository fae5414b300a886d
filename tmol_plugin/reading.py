"""Reading a PDB or mmCIF file with gemmi: content decides, numbering does not matter.

Before gemmi parses the atoms, each residue is given a running number in file order, so
that repeated, descending or missing numbers and insertion codes cannot join or split
residues. What the file called a residue is kept for messages.
"""

import gzip
import hashlib
import logging
import os
import stat
import zlib
from contextlib import contextmanager

from tmol_plugin.errors import StructureError
from tmol_plugin.mmcif import AtomSite, atom_block, read_cif
from tmol_plugin.models import Model, model_numbers
from tmol_plugin.pdb import models_of, read_pdb

log = logging.getLogger(__name__)


@contextmanager
def reasoned(path: str):
    """Errors that nobody thought of become `unreadable`: one file must not cost the others."""
    try:
        yield
    except StructureError:
        raise
    except MemoryError as error:
        words = f"{path}: out of memory while reading it"
        raise StructureError("too_large", words) from error
    except Exception as error:
        log.warning("%s", path, exc_info=error)
        raise StructureError("unreadable", f"{path}: {type(error).__name__}: {error}") from error


class Source:
    """A structure file's content: its format, hash and models.

    Raises:
        StructureError: `unreadable`, with what the file holds instead of a structure.
    """

    def __init__(self, path: str):
        self.path = path
        with reasoned(path):
            self._open(path)

    def _open(self, path: str) -> None:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise StructureError("unreadable", f"{path}: not a file")
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise StructureError("unreadable", f"{path}: {error.strerror or error}") from error
        except ValueError as error:  # a NUL in the path
            raise StructureError("unreadable", f"{path!r}: {error}") from error
        self.sha256 = hashlib.sha256(data).hexdigest()
        data = _decompressed(path, data).removeprefix(b"\xef\xbb\xbf")
        if b"\0" in data:
            raise StructureError("unreadable", f"{path}: binary, not text")
        # Latin-1 keeps the columns of a PDB line, whatever its remarks are encoded in.
        text = data.decode("latin-1")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        first = next((line for line in lines if line.strip() and line[:1] != "#"), "")
        if not first:
            raise StructureError("unreadable", f"{path}: empty")
        if first.lstrip()[:1] == "<":
            raise StructureError("unreadable", f"{path}: HTML or XML, it begins {first[:40]!r}")
        self._block = None
        if first[:5].lower() == "data_":
            self._block = atom_block(path, data)
            raw = list(dict.fromkeys(AtomSite(path, self._block).models()))
            self._model_of = dict(zip(model_numbers(raw), raw, strict=True))
            self.models = list(self._model_of)
        else:
            self._lines = models_of(lines)
            if not self._lines:
                raise StructureError(
                    "unreadable", f"{path}: neither PDB nor mmCIF, it begins {first[:40]!r}"
                )
            self.models = list(self._lines)

    def read(self, number: int) -> Model:
        """The atoms of one model; raises StructureError, naming file and line or atom."""
        if number not in self.models:
            raise StructureError(
                "no_such_model",
                f"{self.path}: no model {number}; it has {len(self.models)}:"
                f" {', '.join(map(str, self.models[:10]))}",
            )
        with reasoned(self.path):
            if self._block is not None:
                return read_cif(self.path, self._block, self._model_of[number])
            return read_pdb(self.path, self._lines[number])


def _decompressed(path: str, data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, OSError) as error:
        raise StructureError("unreadable", f"{path}: damaged gzip file: {error}") from error

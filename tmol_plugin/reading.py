"""Reading a PDB or mmCIF file with gemmi: content decides, numbering does not matter.

Before gemmi parses the atoms, each residue is given a running number in file order, so
that repeated, descending or missing numbers and insertion codes cannot join or split
residues. What the file called a residue is kept for messages.
"""

import gzip
import hashlib
import logging
import os
import re
import stat
import zlib
from contextlib import contextmanager
from functools import cached_property

import gemmi

from tmol_plugin.errors import RunError, StructureError
from tmol_plugin.mmcif import AtomSite, atom_block, read_cif
from tmol_plugin.models import Model, model_numbers
from tmol_plugin.pdb import models_of, read_pdb

log = logging.getLogger(__name__)

# The first line that says something: comments of mmCIF are passed over.
_FIRST_LINE = re.compile(rb"^(?!#)[^\n]*\S[^\n]*", re.MULTILINE)
# What comes first of the first model: its number, or an atom.
_FIRST_MODEL = re.compile(rb"^(?:MODEL ([^\n]*)|ATOM  |HETATM)", re.MULTILINE)


@contextmanager
def reasoned(path: str):
    """Errors that nobody thought of become `unreadable`: one file must not cost the others."""
    try:
        yield
    except (StructureError, RunError):
        raise
    except MemoryError as error:
        words = f"{path}: out of memory while reading it"
        raise StructureError("too_large", words) from error
    except Exception as error:
        log.warning("%s", path, exc_info=error)
        raise StructureError("unreadable", f"{path}: {type(error).__name__}: {error}") from error


class Source:
    """A structure file's content: its format, hash and models.

    Attributes:
        data: the content, decompressed, lines ending in a line feed.
        is_cif: whether it is mmCIF; else it is PDB.

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
        self._file = data
        data = _decompressed(path, data).removeprefix(b"\xef\xbb\xbf")
        if b"\0" in data:
            raise StructureError("unreadable", f"{path}: binary, not text")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self.data = data
        found = _FIRST_LINE.search(data)
        if found is None:
            raise StructureError("unreadable", f"{path}: empty")
        self._first = found[0].decode("latin-1")
        if self._first.lstrip()[:1] == "<":
            begins = f"it begins {self._first[:40]!r}"
            raise StructureError("unreadable", f"{path}: HTML or XML, {begins}")
        self.is_cif = self._first[:5].lower() == "data_"

    @cached_property
    def sha256(self) -> str:
        """Hash of the file as it is."""
        return hashlib.sha256(self._file).hexdigest()

    @cached_property
    def block(self) -> gemmi.cif.Block:
        """The mmCIF block that holds atoms."""
        with reasoned(self.path):
            return atom_block(self.path, self.data)

    @property
    def first_model(self) -> int | None:
        """The number that the first model seems to have, found quickly; None if it is odd."""
        if self.is_cif:
            raw = self.block.find_values("_atom_site.pdbx_PDB_model_num")
            text = raw[0] if raw else "1"
        else:
            found = _FIRST_MODEL.search(self.data)
            text = "1" if found is None or found[1] is None else found[1].decode("latin-1").strip()
        return int(text) if re.fullmatch("[1-9][0-9]{0,8}", text) else None

    @property
    def models(self) -> list[int]:
        """Numbers of the models, in the file's order."""
        with reasoned(self.path):
            return list(self._models)

    def text_with(self, number: int) -> bytes:
        """PDB text that has a model: with others', unless the models were told apart before.

        So that a file of many models is not gone through anew for each.
        """
        models = self.__dict__.get("_models", {})
        if len(models) < 2 or number not in models:
            return self.data
        lines = [f"MODEL {number}", *(line for _, line in models[number]), ""]
        return "\n".join(lines).encode("latin-1")

    def read(self, number: int) -> Model:
        """The atoms of one model; raises StructureError, naming file and line or atom."""
        with reasoned(self.path):
            if number not in self._models:
                raise StructureError(
                    "no_such_model",
                    f"{self.path}: no model {number}; it has {len(self._models)}:"
                    f" {', '.join(map(str, self.models[:10]))}",
                )
            if self.is_cif:
                return read_cif(self.path, self.block, self._models[number])
            return read_pdb(self.path, self._models[number])

    @cached_property
    def _models(self) -> dict:
        """Number -> the model as mmCIF names it, or its lines of PDB."""
        if self.is_cif:
            raw = list(dict.fromkeys(AtomSite(self.path, self.block).models()))
            return dict(zip(model_numbers(raw), raw, strict=True))
        # Latin-1 keeps the columns of a PDB line, whatever its remarks are encoded in.
        models = models_of(self.data.decode("latin-1").split("\n"))
        if not models:
            raise StructureError(
                "unreadable",
                f"{self.path}: neither PDB nor mmCIF, it begins {self._first[:40]!r}",
            )
        return models


def _decompressed(path: str, data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, OSError) as error:
        raise StructureError("unreadable", f"{path}: damaged gzip file: {error}") from error

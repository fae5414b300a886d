"""Reading a PDB or mmCIF file with gemmi: content decides, numbering does not matter.

Before gemmi parses the atoms, each residue is given a running number in file order, so
that repeated, descending or missing numbers and insertion codes cannot join or split
residues. What the file called a residue is kept for messages.
"""

import gzip
import hashlib
import math
import os
import stat
import zlib
from dataclasses import dataclass
from typing import NamedTuple

import gemmi

from tmol_plugin import chemistry
from tmol_plugin.errors import StructureError

MAX_COORDINATE = 9999.999  # angstrom; what a PDB coordinate field can hold
MAX_RESIDUES = 1_000_000  # of one model; a PDB residue field counts to 1.2 million in base 36

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Site(NamedTuple):
    """A residue's place in the file: what decides which atoms belong together."""

    segment: int  # counts chains as TER and changes of the chain id divide them
    chain: str
    number: str  # with the insertion code


@dataclass
class Model:
    """One model as gemmi reads it.

    `parts[i]` are the gemmi residues at `sites[i]`: several where alternatives differ in
    residue name. `n_waters` were left out. `bonds` are those that the file declares between
    residues, as pairs of (site, atom name), names as in the file.
    """

    sites: list[Site]
    parts: list[list[gemmi.Residue]]
    bonds: list[tuple[tuple[int, str], tuple[int, str]]]
    n_waters: int
    components: gemmi.cif.Block | None  # the mmCIF block, for the chemistry it declares


class Source:
    """A structure file's content: its format, hash and models.

    Raises:
        StructureError: `unreadable`, with what the file holds instead of a structure.
    """

    def __init__(self, path: str):
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise StructureError("unreadable", f"{path}: not a file")
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise StructureError("unreadable", f"{path}: {error.strerror or error}") from error
        except ValueError as error:  # a NUL in the path
            raise StructureError("unreadable", f"{path!r}: {error}") from error
        self.path = path
        self.sha256 = hashlib.sha256(data).hexdigest()
        data = _decompressed(path, data)
        if b"\0" in data[:4096] or data.startswith(b"\x89PNG"):
            raise StructureError("unreadable", f"{path}: binary, not text")
        # Latin-1 keeps the columns of a PDB line, whatever its remarks are encoded in.
        text = data.decode("latin-1").lstrip("\xef\xbb\xbf")
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        first = next((line for line in lines if line.strip() and line[:1] != "#"), "")
        if not first:
            raise StructureError("unreadable", f"{path}: empty")
        if first.lstrip()[:1] == "<":
            raise StructureError("unreadable", f"{path}: HTML or XML, it begins {first[:40]!r}")
        self._block = None
        if first[:5].lower() == "data_":
            self._block = _atom_block(path, data)
            self.models = _cif_models(self._block)
        else:
            self._lines = _pdb_models(lines)
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
        if self._block is not None:
            return _read_cif(self.path, self._block, number)
        return _read_pdb(self.path, self._lines[number])


def _decompressed(path: str, data: bytes) -> bytes:
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, OSError) as error:
        raise StructureError("unreadable", f"{path}: damaged gzip file: {error}") from error


def _pdb_models(lines: list[str]) -> dict[int, list[tuple[int, str]]]:
    """Model number -> its (line number, line) of atoms, TER and the bonds of the header."""
    shared, models, current = [], [], None
    for number, line in enumerate(lines, 1):
        record = line[:6]
        if record in ("ATOM  ", "HETATM"):
            if current is None:
                current = [1 if not models else None, []]
                models.append(current)
            current[1].append((number, line))
        elif line[:3] == "TER" and current is not None:
            current[1].append((number, line))
        elif record == "MODEL ":
            current = [int(line[6:]) if line[6:].strip().isdigit() else None, []]
            models.append(current)
        elif record == "ENDMDL":
            current = None
        elif record in ("SSBOND", "LINK  ", "CONECT"):
            shared.append((number, line))
    numbers = [number for number, _ in models]
    if None in numbers or len(set(numbers)) < len(numbers):
        numbers = range(1, len(models) + 1)
    return {n: shared + atoms for n, (_, atoms) in zip(numbers, models, strict=True)}


class _Sites:
    """Numbers the residues of a model in file order, by their chain and number."""

    def __init__(self, path: str):
        self.path = path
        self.sites: list[Site] = []
        self._atoms: list[set] = []
        self._names: list[str] = []
        self._seen: dict[Site, int] = {}
        self._last: int | None = None

    def place(self, site: Site, residue: str, altloc: str, atom: str) -> int:
        """The running number, from 0, of the residue that this atom belongs to."""
        last = self._last
        if last is None or self.sites[last] != site or self._begins(last, residue, altloc):
            # The number was there before: atoms listed apart (hydrogens at the end of a
            # chain) belong to that residue, a whole residue of the same number does not.
            last = self._seen.get(site)
            if (
                last is None
                or (atom, altloc) in self._atoms[last]
                or self._begins(last, residue, altloc)
            ):
                last = self._new(site, residue)
        self._last = last
        self._atoms[last].add((atom, altloc))
        return last

    def _begins(self, last: int, residue: str, altloc: str) -> bool:
        return not altloc and self._names[last] != residue

    def _new(self, site: Site, residue: str) -> int:
        if len(self.sites) >= MAX_RESIDUES:
            raise StructureError(
                "too_large", f"{self.path}: more than {MAX_RESIDUES:,} residues in a model"
            )
        self.sites.append(site)
        self._names.append(residue)
        self._atoms.append(set())
        self._seen[site] = len(self.sites) - 1
        return len(self.sites) - 1


def _read_pdb(path: str, lines: list[tuple[int, str]]) -> Model:
    numbered = _Sites(path)
    segment, chain_before = 0, None
    waters, out, conect = set(), [], []
    atom_of: dict[str, tuple[int, str] | None] = {}
    for number, line in lines:
        record = line[:6]
        if record in ("SSBOND", "LINK  "):
            out.append(line)
            continue
        if record == "CONECT":
            fields = [line[k : k + 5].strip() for k in range(6, 31, 5)]
            conect += [(fields[0], other) for other in fields[1:] if other]
            continue
        if line[:3] == "TER":
            segment, chain_before = segment + 1, None
            continue
        if len(line.rstrip()) < 54:
            raise StructureError(
                "bad_coordinates", f"{path}: line {number} ends within the coordinates"
            )
        _check_coordinates(path, f"line {number}", (line[30:38], line[38:46], line[46:54]))
        # Programs that leave the chain blank name it in the old segment field.
        chain = line[20:22].strip() or line[72:76].strip()
        if chain_before not in (None, chain):
            segment += 1
        chain_before = chain
        residue = line[17:20].strip()
        site = Site(segment, chain, line[22:27].strip())
        if residue in chemistry.WATERS or line[17:21].strip() in chemistry.WATERS:
            waters.add((site, segment))
            continue
        index = numbered.place(site, residue, line[16].strip(), line[12:16])
        # A serial that is there twice says nothing about which atom is bonded.
        serial, atom = line[6:11].strip(), (index, line[12:16].strip())
        atom_of[serial] = atom if atom_of.setdefault(serial, atom) == atom else None
        # Behind column 66 old files have serials and ids where the element now is.
        element = line[76:78] if line[76:78].strip().isalpha() else ""
        numbers = f"{_base36(index + 1)} {line[27:66]}"
        out.append(f"{record}{'1':>5}{line[11:20]} A{numbers:<54}{element}")
    # One byte a character, or the columns after it would shift.
    text = "\n".join([*out, "END", ""]).encode("ascii", "replace")
    try:
        structure = gemmi.read_pdb_string(text)
    except (ValueError, RuntimeError) as error:
        raise StructureError("unreadable", f"{path}: {error}") from error
    model = _model(structure, numbered.sites, len(waters), None)
    for pair in conect:
        first, second = (atom_of.get(serial) for serial in pair)
        if first and second and first[0] != second[0]:
            model.bonds.append((first, second))
    return model


def _base36(number: int) -> str:
    """A PDB residue number as gemmi reads it: decimal to 9999, then base 36 from A000."""
    if number <= 9999:
        return f"{number:4d}"
    number += 10 * 36**3 - 10_000
    return "".join(_DIGITS[number // 36**power % 36] for power in (3, 2, 1, 0))


def _atom_block(path: str, data: bytes) -> gemmi.cif.Block:
    """The block of an mmCIF file that holds atoms."""
    try:
        document = gemmi.cif.read_string(data)
    except (ValueError, RuntimeError) as error:
        raise StructureError("unreadable", f"{path}: not valid mmCIF: {error}") from error
    for block in document:
        if block.find_values("_atom_site.Cartn_x"):
            return block
    raise StructureError("unreadable", f"{path}: mmCIF without atoms (no _atom_site.Cartn_x)")


class _AtomSite:
    """Columns of `_atom_site`, absent ones filled with a default."""

    def __init__(self, block: gemmi.cif.Block):
        self._block = block
        self.n_rows = len(block.find_values("_atom_site.Cartn_x"))

    def column(self, *names: str, default: str) -> list[str]:
        """The first of the named columns that is there; ? and . read as the default."""
        values = [default] * self.n_rows
        for name in reversed(names):
            column = self._block.find_values(f"_atom_site.{name}")
            if column:
                values = [
                    before if value in "?." else gemmi.cif.as_string(value)
                    for value, before in zip(column, values, strict=True)
                ]
        return values


def _cif_models(block: gemmi.cif.Block) -> list[int]:
    numbers = _AtomSite(block).column("pdbx_PDB_model_num", default="1")
    return [int(n) if n.isdigit() else 1 for n in dict.fromkeys(numbers)]


def _read_cif(path: str, block: gemmi.cif.Block, number: int) -> Model:
    table = _AtomSite(block)
    column = table.column
    models = column("pdbx_PDB_model_num", default="1")
    chains = column("auth_asym_id", "label_asym_id", default="A")
    labels = column("label_asym_id", "auth_asym_id", default="A")
    residues = column("auth_comp_id", "label_comp_id", default="UNK")
    numbers = column("auth_seq_id", "label_seq_id", default="")
    codes = column("pdbx_PDB_ins_code", default="")
    atoms = column("auth_atom_id", "label_atom_id", default="")
    altlocs = column("label_alt_id", default="")
    elements = column("type_symbol", default="")
    occupancies = column("occupancy", default="1")
    groups = column("group_PDB", default="ATOM")
    xyz = [column(f"Cartn_{axis}", default="?") for axis in "xyz"]

    numbered, quote = _Sites(path), gemmi.cif.quote
    segment, before = 0, None
    waters, rows = set(), []
    wanted = str(number)
    for i in range(table.n_rows):
        if models[i] != wanted:
            continue
        where = f"atom {atoms[i]} of {chains[i]}:{numbers[i]}{codes[i]} {residues[i]}"
        position = [axis[i] for axis in xyz]
        _check_coordinates(path, where, position)
        if before not in (None, (chains[i], labels[i])):
            segment += 1
        before = chains[i], labels[i]
        site = Site(segment, chains[i], f"{numbers[i]}{codes[i]}")
        if residues[i] in chemistry.WATERS:
            waters.add((site, labels[i]))
            continue
        index = numbered.place(site, residues[i], altlocs[i], atoms[i])
        element = elements[i] or _element(atoms[i])
        names = quote(atoms[i]), quote(altlocs[i]) if altlocs[i] else ".", quote(residues[i])
        fields = (groups[i], "1", quote(element), *names, "A", "1", ".")
        rows.append((*fields, *position, quote(occupancies[i]), str(index + 1), "A", "1"))
    names = "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id"
    names += " label_entity_id label_seq_id Cartn_x Cartn_y Cartn_z occupancy auth_seq_id"
    names += " auth_asym_id pdbx_PDB_model_num"
    clean = gemmi.cif.Document().add_new_block("model")
    loop = clean.init_loop("_atom_site.", names.split())
    if rows:
        loop.set_all_values([list(values) for values in zip(*rows, strict=True)])
    copy_category(block, clean, "_struct_conn.")
    try:
        structure = gemmi.make_structure_from_block(clean)
    except (ValueError, RuntimeError) as error:
        raise StructureError("unreadable", f"{path}: {error}") from error
    return _model(structure, numbered.sites, len(waters), block)


def _element(atom: str) -> str:
    """Element of an atom whose file does not say: the letter of the protein atom's name."""
    return atom.lstrip("0123456789")[:1] or "X"


def copy_category(source: gemmi.cif.Block, target: gemmi.cif.Block, prefix: str) -> None:
    """Copy a category's table, if it is there."""
    table = source.find_mmcif_category(prefix)
    if len(table):
        loop = target.init_loop("", list(table.tags))
        for row in table:
            loop.add_row(list(row))


def _model(structure, sites: list[Site], n_waters: int, components) -> Model:
    parts: list[list[gemmi.Residue]] = [[] for _ in sites]
    for model in structure:
        for chain in model:
            for residue in chain:
                parts[residue.seqid.num - 1].append(residue)
    # The residues refer to memory of the structure; they are needed after it.
    parts = [[residue.clone() for residue in residues] for residues in parts]
    bonds = _declared_bonds(structure.connections, sites, parts)
    return Model(sites, parts, bonds, n_waters, components)


def _declared_bonds(connections, sites: list[Site], parts):
    """SSBOND, LINK and struct_conn within the asymmetric unit, hydrogen bonds left out."""
    sites_of: dict[tuple[str, str], list[int]] = {}
    for index, site in enumerate(sites):
        sites_of.setdefault((site.chain, site.number), []).append(index)
    bonds = []
    for connection in connections:
        if connection.type == gemmi.ConnectionType.Hydrog or connection.asu == gemmi.Asu.Different:
            continue
        ends = []
        for partner in (connection.partner1, connection.partner2):
            # A number may be there twice: the bond is that of the first residue with the atom.
            for index in sites_of.get((partner.chain_name, str(partner.res_id.seqid)), ()):
                if any(partner.atom_name in (a.name for a in part) for part in parts[index]):
                    ends.append((index, partner.atom_name))
                    break
        if len(ends) == 2 and ends[0][0] != ends[1][0]:
            bonds.append(tuple(ends))
    return bonds


def _check_coordinates(path: str, where: str, fields) -> None:
    for field in fields:
        try:
            value = float(field)
        except ValueError:
            value = math.nan
        if not abs(value) <= MAX_COORDINATE or "_" in field:
            raise StructureError(
                "bad_coordinates",
                f"{path}: {where}: coordinate {field.strip() or 'missing'} is not a number"
                f" between -{MAX_COORDINATE} and {MAX_COORDINATE}",
            )

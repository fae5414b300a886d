"""Reading the models of an mmCIF file: by the columns that are there, numbers made unique."""

import gemmi

from tmol_plugin import chemistry
from tmol_plugin.errors import StructureError
from tmol_plugin.models import Model, Site, Sites, check_coordinates, is_number, make_model


def atom_block(path: str, data: bytes) -> gemmi.cif.Block:
    """The block of an mmCIF file that holds atoms."""
    try:
        document = gemmi.cif.read_string(data)
    except (ValueError, RuntimeError) as error:
        raise StructureError("unreadable", f"{path}: not valid mmCIF: {error}") from error
    for block in document:
        if block.find_values("_atom_site.Cartn_x"):
            return block
    raise StructureError("unreadable", f"{path}: mmCIF without atoms (no _atom_site.Cartn_x)")


class AtomSite:
    """Columns of `_atom_site`, absent ones filled with a default."""

    def __init__(self, path: str, block: gemmi.cif.Block):
        self._path = path
        self._block = block
        self.n_rows = len(block.find_values("_atom_site.Cartn_x"))

    def column(self, *names: str, default: str) -> list[str]:
        """The first of the named columns that is there; ? and . read as the default."""
        values = [default] * self.n_rows
        for name in reversed(names):
            column = self._block.find_values(f"_atom_site.{name}")
            if column and len(column) != self.n_rows:
                raise StructureError(
                    "unreadable",
                    f"{self._path}: _atom_site.{name} has {len(column)} values for"
                    f" {self.n_rows} atoms",
                )
            if column:
                values = [
                    before if value in "?." else gemmi.cif.as_string(value)
                    for value, before in zip(column, values, strict=True)
                ]
        return values

    def models(self) -> list[str]:
        """The model of each atom, as written."""
        return self.column("pdbx_PDB_model_num", default="1")


def read_cif(path: str, block: gemmi.cif.Block, wanted: str) -> Model:
    table = AtomSite(path, block)
    column, models = table.column, table.models()
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

    numbered, quote = Sites(path), gemmi.cif.quote
    segment, before = 0, None
    waters, rows = set(), []
    for i in range(table.n_rows):
        if models[i] != wanted:
            continue
        where = f"atom {atoms[i]} of {chains[i]}:{numbers[i]}{codes[i]} {residues[i]}"
        # A standard uncertainty may stand behind the value, as in 4.239(5).
        position = [axis[i].partition("(")[0] for axis in xyz]
        check_coordinates(path, where, position)
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
        occupancy = occupancies[i] if is_number(occupancies[i]) else "1"
        rows.append((*fields, *position, occupancy, str(index + 1), "A", "1"))
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
    return make_model(structure, numbered, [], len(waters), block)


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

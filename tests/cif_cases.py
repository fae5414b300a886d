"""Hand-made mmCIF files and what must become of each: columns, names, models, declared bonds."""

import pieces as p
from file_cases import CASES
from structure_cases import NOT_COVERED, case

__all__ = ["CASES"]

_PIECE = p.nmr(1, 9)
_NAMES = "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id"
_NAMES += " label_entity_id label_seq_id pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy"
_NAMES += " auth_seq_id auth_comp_id auth_asym_id auth_atom_id pdbx_PDB_model_num"


def rows_of(lines, **columns):
    """A dict for each atom; `columns` are values, or functions of the dict, in place of these."""
    rows = []
    for number, line in enumerate(lines, 1):
        atom, element = p.atom_of(line), line[76:78].strip()
        residue, sequence = line[17:20].strip(), str(p.number_of(line))
        xyz = (f"{value:.3f}" for value in p.position(line))
        values = [*("ATOM", str(number), element, atom, ".", residue, line[21], "1", sequence, "?")]
        values += [*xyz, "1.00", sequence, residue, line[21], atom, "1"]
        row = dict(zip(_NAMES.split(), values, strict=True))
        rows.append(row | {k: v(row) if callable(v) else v for k, v in columns.items()})
    return rows


def cif(rows, without=(), more="", before="data_piece\n"):
    names = [name for name in rows[0] if name not in without]
    lines = [" ".join(row[name] for name in names) for row in rows]
    head = ["loop_", *(f"_atom_site.{name}" for name in names)]
    return (before + "\n".join([*head, *lines]) + "\n#\n" + more).encode()


def cif_case(name, content, outcome="pose", **options):
    case(f"cif-{name}", content, outcome, file="case.cif", **options)


def both_chains(value):
    return {"auth_asym_id": value, "label_asym_id": value}


_ROWS = rows_of(_PIECE)
cif_case("plain", cif(_ROWS))
cif_case("crlf", cif(_ROWS).replace(b"\n", b"\r\n"))
cif_case("upper-case", cif(_ROWS, before="DATA_piece\n"), alone="blocks")
cif_case(
    "block-before", cif(_ROWS, before="data_other\n_cell.length_a 1\ndata_piece\n"), alone="blocks"
)
cif_case("bare", cif(rows_of(p.heavy(_PIECE))))

# Columns that may be missing, and values that say nothing.
for _name in ("occupancy", "auth_asym_id", "auth_seq_id", "label_alt_id", "id"):
    cif_case(f"without-{_name}", cif(_ROWS, (_name,)), careful=True)
cif_case("without-type_symbol", cif(_ROWS, ("type_symbol",)), careful=True, alone="columns")
cif_case("without-group_PDB", cif(_ROWS, ("group_PDB",)), alone="columns")
for _name in ("label_entity_id", "label_seq_id", "auth_comp_id", "auth_atom_id"):
    cif_case(f"without-{_name}", cif(_ROWS, (_name,)))
cif_case(
    "without-model-and-code",
    cif(_ROWS, ("pdbx_PDB_model_num", "pdbx_PDB_ins_code")),
    alone="columns",
)
cif_case("without-z", cif(_ROWS, ("Cartn_z",)), "bad_coordinates")
cif_case("occupancy-unknown", cif(rows_of(_PIECE, occupancy="?")))
cif_case("occupancy-zero", cif(rows_of(_PIECE, occupancy="0")))
cif_case("elements-unknown", cif(rows_of(_PIECE, type_symbol="?")))
cif_case("coordinate-unknown", cif(rows_of(_PIECE, Cartn_x="?")), "bad_coordinates")
cif_case(
    "coordinate-uncertain",
    cif(rows_of(_PIECE, Cartn_x=lambda r: f"{r['Cartn_x']}(5)")),
    alone="columns",
)
cif_case("coordinate-nan", cif(rows_of(_PIECE, Cartn_x="nan")), "bad_coordinates")
cif_case(
    "quoted", cif(rows_of(_PIECE, label_atom_id=lambda r: f"'{r['label_atom_id']}'")), careful=True
)

# Chains by the author and by the wwPDB; names that are more than letters.
cif_case("chains-differ", cif(rows_of(_PIECE, label_asym_id="Q")))
_HALF = {"label_asym_id": lambda r: "B" if int(r["auth_seq_id"]) > 4 else "A"}
cif_case("label-divides", cif(rows_of(_PIECE, **_HALF)), alone="chains")
_WITHIN = {"label_asym_id": lambda r: "B" if r["id"] == "30" else "A"}
cif_case("label-within-a-residue", cif(rows_of(_PIECE, **_WITHIN)), "incomplete_backbone")
cif_case("chain-space", cif(rows_of(_PIECE, **both_chains("'A B'"))), careful=True, alone="chains")
cif_case("chain-long", cif(rows_of(_PIECE, **both_chains("ASSEMBLY-1"))), careful=True)
cif_case("chain-colon", cif(rows_of(_PIECE, **both_chains("A:B"))))
cif_case("chain-prime", cif(rows_of(_PIECE, **both_chains("A'"))))
cif_case("chain-not-ascii", cif(rows_of(_PIECE, **both_chains("'\u00c9'"))), careful=True)
_TWO = rows_of(p.nmr(1, 4)) + rows_of(p.in_chain(p.shifted(p.nmr(5, 9), 20.0), "B"))
_TWO = [row | {"id": str(i)} for i, row in enumerate(_TWO, 1)]
cif_case("two-chains", cif(_TWO))
cif_case(
    "names-differ",
    cif(
        rows_of(
            _PIECE, auth_comp_id=lambda r: "MSE" if r["auth_seq_id"] == "1" else r["label_comp_id"]
        )
    ),
    careful=True,
)

# Numbers.
cif_case(
    "insertion-codes",
    cif(
        rows_of(
            _PIECE,
            auth_seq_id="5",
            pdbx_PDB_ins_code=lambda r: "ABCDEFGHI"[int(r["label_seq_id"]) - 1],
        )
    ),
    alone="numbers",
)
cif_case(
    "numbers-again",
    cif(rows_of(_PIECE, auth_seq_id=lambda r: str(int(r["label_seq_id"]) % 3))),
    careful=True,
)
cif_case(
    "ids-falling",
    cif([row | {"id": str(-i)} for i, row in enumerate(_ROWS)]),
    careful=True,
)
cif_case(
    "conformers",
    cif(
        [
            r | {"label_alt_id": a, "occupancy": o, "id": str(2 * i + k)}
            for i, r in enumerate(_ROWS)
            for k, (a, o) in enumerate((("A", "0.4"), ("B", "0.6")))
        ]
    ),
)

# Models.
_MODELS = [
    row | {"pdbx_PDB_model_num": m, "id": str(1000 * int(m) + i)}
    for m in "12"
    for i, row in enumerate(_ROWS)
]
cif_case("models", cif(_MODELS))
cif_case("models-numbered-0", cif(rows_of(_PIECE, pdbx_PDB_model_num="0")), careful=True)
cif_case(
    "models-mixed",
    cif([_MODELS[i + k * len(_ROWS)] for i in range(len(_ROWS)) for k in (0, 1)]),
    alone="models",
)


# Waters and others.
_WATER = _ROWS[-1] | {
    "label_comp_id": "HOH",
    "auth_comp_id": "HOH",
    "label_atom_id": "O",
    "auth_atom_id": "O",
    "label_asym_id": "W",
    "auth_seq_id": "99",
    "type_symbol": "O",
    "label_seq_id": ".",
    "Cartn_x": "90.0",
}
_WATER |= {"id": "999"}
cif_case("water", cif([*_ROWS, _WATER]))
cif_case(
    "calcium",
    cif([*_ROWS, {k: "CA" if v in ("HOH", "O") else v for k, v in _WATER.items()}]),
    NOT_COVERED,
)

# Declared bonds.
_BRIDGE = p.crambin(15, 27)
# Further apart than TMol looks for disulfides, so that only what is declared joins them.
_FAR = p.apart(p.heavy(_BRIDGE), (16, "SG"), (26, "SG"), 2.7)


def conn(kind, first, second, symmetry="1_555"):
    names = ["id", "conn_type_id"]
    values = ["1", kind]
    for k, (residue, number, atom) in enumerate((first, second), 1):
        fields = {"label_asym_id": "A", "label_comp_id": residue, "label_seq_id": number}
        fields |= {"label_atom_id": atom, "auth_asym_id": "A", "auth_comp_id": residue}
        fields |= {"auth_seq_id": number, "symmetry": "1_555" if k == 1 else symmetry}
        names += [f"ptnr{k}_{name}" for name in fields]
        values += fields.values()
    return "\n".join(["loop_", *(f"_struct_conn.{n}" for n in names), " ".join(values)]) + "\n"


_ENDS = ("CYS", "16", "SG"), ("CYS", "26", "SG")
cif_case("bridge", cif(rows_of(_BRIDGE)))
cif_case("conn-absent", cif(rows_of(_FAR)))
cif_case("conn-disulf", cif(rows_of(_FAR), more=conn("disulf", *_ENDS)))
cif_case("conn-covale", cif(rows_of(_FAR), more=conn("covale", *_ENDS)))
cif_case("conn-hydrog", cif(rows_of(_FAR), more=conn("hydrog", *_ENDS)))
cif_case("conn-of-another-cell", cif(rows_of(_FAR), more=conn("disulf", *_ENDS, "2_555")))
_AGAIN = rows_of(p.shifted(p.heavy(p.crambin(26, 26)), 30.0), label_asym_id="B")
_AGAIN = [row | {"id": str(900 + i)} for i, row in enumerate(_AGAIN)]
cif_case(
    "conn-number-again",
    cif([*rows_of(_FAR), *_AGAIN], more=conn("disulf", *_ENDS)),
    careful=True,
    alone="chains",
)
cif_case(
    "conn-of-nothing",
    cif(rows_of(_FAR), more=conn("disulf", _ENDS[0], ("CYS", "99", "SG"))),
)
cif_case(
    "conn-of-no-number",
    cif(rows_of(_FAR), more=conn("disulf", _ENDS[0], ("CYS", "?", "SG"))),
)
cif_case(
    "conn-beside",
    cif(_ROWS, more=conn("covale", ("MET", "1", "O"), ("GLN", "2", "N"))),
    NOT_COVERED,
)
cif_case(
    "conn-far",
    cif(_ROWS, more=conn("covale", ("MET", "1", "SD"), ("GLN", "2", "NE2"))),
    alone="false bond",
)

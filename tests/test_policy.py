"""What becomes of what a file may hold: each kind of trouble as one small file."""

# ruff: noqa: E501 - a table of one-line changes to atom lines is easiest read as lines

import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest

from tmol_plugin.errors import StructureError
from tmol_plugin.policy import Policy, read_structure
from tmol_plugin.reading import Source

STRUCTURES = Path(__file__).parent / "structures"


def ubiquitin(first=1, last=6):
    """The atom lines of residues of 1ubi, a plain entry without hydrogens or altlocs."""
    lines = (STRUCTURES / "1ubi.pdb").read_text().splitlines()
    return [s for s in lines if s.startswith("ATOM") and first <= int(s[22:26]) <= last]


def with_field(line, start, text):
    return line[:start] + text + line[start + len(text) :]


@pytest.fixture
def read(tmp_path):
    """Write lines (or text, or bytes) to a file and read it under a policy."""
    numbers = itertools.count()

    def read(content, policy=None, name=None, model=None):
        path = tmp_path / (name or f"{next(numbers)}.pdb")
        if isinstance(content, list):
            content = "\n".join(content) + "\n"
        path.write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
        source = Source(str(path))
        return read_structure(source, model or source.models[0], policy or Policy())

    return read


def failure(read, content, **options):
    with pytest.raises(StructureError) as caught:
        read(content, **options)
    return caught.value


def same(first, second):
    """Whether two structures hold the same residues, atoms and chains, wherever numbered."""
    return first.chain_of == second.chain_of and all(
        a.name == b.name and a.atoms == b.atoms and np.array_equal(a.coords, b.coords)
        for a, b in zip(first.residues, second.residues, strict=True)
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\n \n", "empty"),
        (bytes(range(256)) * 20, "binary"),
        (b"<!DOCTYPE html><html>Not found</html>", "HTML"),
        (gzip.compress(b"ATOM" * 1000)[:30], "gzip"),
        (b"just some words\n", "neither PDB nor mmCIF"),
        (b"data_x\n_cell.length_a 1\n", "without atoms"),
        (b"data_x\nloop_\n_atom_site.id\n_atom_site.Cartn_x\n1\n", "not valid mmCIF"),
    ],
)
def test_unreadable(read, content, words):
    error = failure(read, content)
    assert error.reason == "unreadable"
    assert words in error.message


def test_absent_file_and_folder_are_unreadable(tmp_path):
    for path in (tmp_path / "absent.pdb", tmp_path):
        with pytest.raises(StructureError, match=str(path)) as caught:
            Source(str(path))
        assert caught.value.reason == "unreadable"


def test_content_decides_the_format(read):
    plain = read(ubiquitin())
    text = "\n".join(ubiquitin())
    assert same(plain, read(text.replace("\n", "\r\n")))
    assert same(plain, read(gzip.compress(text.encode()), name="x.PDB"))
    assert same(plain, read(plain.to_cif(), name="really_cif.pdb"))
    assert same(plain, read([s[:54] for s in ubiquitin()]))
    assert same(plain, read([s[:66] for s in ubiquitin()]))


def test_the_cif_written_is_the_structure_read(read):
    for name in ("1ejg.pdb", "1lcd.pdb", "4zhl.cif.gz", "1ajj.pdb"):
        structure = read((STRUCTURES / name).read_bytes(), name=name)
        again = read(structure.to_cif(), name=f"{name}.cif")
        assert same(structure, again), name


def test_numbering_changes_nothing(read):
    lines, plain = ubiquitin(), read(ubiquitin())
    for number in (
        lambda n: f"{n - 10:4d} ",
        lambda n: f"{9990 - n:4d} ",
        lambda n: f"{n * 7:4d} ",
        lambda n: f"   5{'ABCDEF'[n - 1]}",
        lambda n: f"{(n - 1) % 3 + 1:4d} ",
    ):
        renumbered = [with_field(s, 22, number(int(s[22:26]))) for s in lines]
        assert same(plain, read(renumbered))
    assert same(plain, read([with_field(s, 6, "*****") for s in lines]))
    assert same(plain, read([with_field(s, 6, "A000Z") for s in lines]))


def test_atoms_listed_apart_belong_to_their_residue(read):
    lines = ubiquitin()
    late = [s for s in lines if s[12:16].strip() == "O"]
    structure = read([s for s in lines if s not in late] + late)
    assert [len(r.atoms) for r in structure.residues] == [
        len(r.atoms) for r in read(lines).residues
    ]


def test_chains_divide_at_ter_and_at_change_of_id(read):
    lines = ubiquitin()
    half = len(ubiquitin(1, 3))
    assert read(lines).chain_of == [0] * 6
    assert read([*lines[:half], "TER", *lines[half:]]).chain_of == [0] * 3 + [1] * 3
    other = [with_field(s, 21, "B") for s in lines[half:]]
    assert read(lines[:half] + other).chain_of == [0] * 3 + [1] * 3
    moved = [with_field(s, 30, f"{float(s[30:38]) + 90:8.3f}") for s in lines[:half]]
    assert read(lines[:half] + other + moved).chain_of == [0] * 3 + [1] * 3 + [2] * 3


def test_geometry_decides_breaks(read):
    broken = read(ubiquitin(1, 3) + ubiquitin(5, 6))
    assert broken.notes["chain_breaks"] == 1
    assert broken.number_of == [1, 2, 3, 5, 6]
    gap = [with_field(s, 22, f"{int(s[22:26]) * 3:4d}") for s in ubiquitin()]
    assert read(gap).notes["chain_breaks"] == 0


def altloc(lines, residue, letters, occupancies):
    """The residue's atoms once per letter, each copy shifted by 0.1 angstrom."""
    out = []
    for line in lines:
        if int(line[22:26]) != residue:
            out.append(line)
            continue
        for k, (letter, occupancy) in enumerate(zip(letters, occupancies, strict=True)):
            copy = with_field(with_field(line, 16, letter), 54, f"{occupancy:6.2f}")
            out.append(with_field(copy, 30, f"{float(line[30:38]) + 0.1 * k:8.3f}"))
    return out


@pytest.mark.parametrize(
    ("occupancies", "shift"), [((0.4, 0.6), 0.1), ((0.6, 0.4), 0.0), ((0.5, 0.5), 0.0)]
)
def test_altlocs_one_conformer_for_the_residue(read, occupancies, shift):
    structure = read(altloc(ubiquitin(), 2, "AB", occupancies))
    expected = read(ubiquitin()).residues[1].coords + np.array([shift, 0, 0])
    assert structure.residues[1].coords == pytest.approx(expected, abs=1e-9)
    assert structure.notes["residues_with_altlocs"] == 1


def test_microheterogeneity_is_as_altlocs(read):
    lines = altloc(ubiquitin(), 2, "AB", (0.3, 0.7))
    # Residue 2 is GLN; GLU has OE2 where it has NE2.
    lines = [with_field(s, 17, "GLU") if s[16] == "B" else s for s in lines]
    lines = [with_field(s, 13, "OE2") if s[12:21] == " NE2BGLU " else s for s in lines]
    lines = [with_field(s, 76, " O") if s[13:16] == "OE2" else s for s in lines]
    assert read(lines).residues[1].name == "GLU"
    assert read(lines).residues[1].label == "A:2 GLU conformer B"


def test_selenomethionine_and_force_field_names(read):
    lines = [
        with_field(with_field(s, 17, "MSE"), 0, "HETATM") if s[17:20] == "MET" else s
        for s in ubiquitin()
    ]
    lines = [with_field(s, 12, "SE  ") if s[12:16] == " SD " else s for s in lines]
    lines = [with_field(s, 76, "SE") if s[12:14] == "SE" else s for s in lines]
    structure = read(lines)
    assert structure.residues[0].name == "MET"
    assert structure.residues[0].elements[structure.residues[0].atoms.index("SD")] == "S"
    assert structure.notes["mse_as_met"] == 1


def test_unrecognized_residues_fail_or_are_dropped(read):
    lines = [with_field(s, 17, "XYZ") if int(s[22:26]) in (2, 5) else s for s in ubiquitin()]
    error = failure(read, lines)
    assert error.reason == "unrecognized_residue"
    assert "A:2 XYZ, A:5 XYZ" in error.message
    dropped = read(lines, policy=Policy(on_unrecognized="drop"))
    assert len(dropped.residues) == 4
    assert dropped.notes["unrecognized_residues_dropped"] == 2
    deferred = read(lines, policy=Policy(defer_unrecognized=True))
    assert deferred.unrecognized == ["XYZ"]
    assert len(deferred.residues) == 6


@pytest.mark.parametrize(
    ("change", "reason", "words"),
    [
        (lambda s: None if s[12:16] == " C  " and s[22:26] == "   3" else s, "incomplete_backbone", "A:3 ILE lacks C"),
        (lambda s: s if s[12:16] == " CA " else None, "incomplete_backbone", "A:1 MET lacks N C"),
        (lambda s: None if s[12:16] == " CG " and s[22:26] == "   4" else s, "missing_atoms", "A:4 PHE lacks CG"),
        (lambda s: with_field(s, 12, " XX ") if s[12:16] == " CG2" else s, "unrecognized_atom", "A:3 ILE"),
        (lambda s: with_field(s, 12, " CB ") if s[12:16] == " CG " else s, "duplicate_atom", "A:1 MET"),
        (lambda s: with_field(s, 30, "     nan") if s[12:16] == " CB " else s, "bad_coordinates", "line 5"),
        (lambda s: with_field(s, 30, "********") if s[12:16] == " CB " else s, "bad_coordinates", "********"),
        (lambda s: with_field(s, 38, "99999.99") if s[12:16] == " CB " else s, "bad_coordinates", "99999.99"),
        (lambda s: s[:40] if s[12:16] == " CB " else s, "bad_coordinates", "line 5"),
        (lambda s: with_field(s, 30, "   0.000" * 3), "bad_coordinates", "at one point"),
        (lambda s: with_field(s, 17, "HOH"), "no_polymer", "6 waters"),
        (lambda s: with_field(with_field(s, 17, " ZN"), 12, "ZN  ") if s[12:16] == " CA " else None, "no_polymer", "no protein"),
    ],
)  # fmt: skip
def test_refused_with_a_reason(read, change, reason, words):
    error = failure(read, [s for s in map(change, ubiquitin()) if s is not None])
    assert error.reason == reason
    assert words in error.message
    assert error.remedy


def test_missing_side_chains_can_be_rebuilt(read):
    lines = [s for s in ubiquitin() if s[12:16].strip() in ("N", "CA", "C", "O")]
    structure = read(lines, policy=Policy(missing_side_chains="rebuild"))
    assert structure.missing[0] == ["CB", "CG", "SD", "CE"]
    assert structure.notes["heavy_atoms_rebuilt"] == sum(map(len, structure.missing.values()))


def test_one_atom_at_the_origin_is_fine(read):
    lines = ubiquitin()
    shift = [float(lines[1][k : k + 8]) for k in (30, 38, 46)]
    moved = [
        with_field(
            s, 30, "".join(f"{float(s[30 + 8 * k :][:8]) - shift[k]:8.3f}" for k in range(3))
        )
        for s in lines
    ]
    assert len(read(moved).residues) == 6


def test_oxt_must_be_bonded_where_it_stands(read):
    lines = ubiquitin()
    last = with_field(lines[-1], 12, " OXT")
    far = with_field(last, 30, "  99.000")
    error = failure(read, [*lines, with_field(far, 76, " O")])
    assert (error.reason, "not bonded" in error.message) == ("bad_geometry", True)
    carbon = next(s for s in ubiquitin(3, 3) if s[12:16] == " C  ")
    inside = with_field(carbon, 12, " OXT")
    inside = with_field(inside, 46, f"{float(carbon[46:54]) + 1.25:8.3f}")
    lines = [*ubiquitin(1, 3), with_field(inside, 76, " O"), *ubiquitin(4, 6)]
    assert "bonded to the next residue" in failure(read, lines).message


def test_models(read, tmp_path):
    lines = ubiquitin()
    shifted = [with_field(s, 30, f"{float(s[30:38]) + 1:8.3f}") for s in lines]
    text = ["MODEL        3", *lines, "ENDMDL", "MODEL        7", *shifted, "ENDMDL"]
    first, second = read(text, model=3), read(text, model=7)
    assert second.residues[0].coords - first.residues[0].coords == pytest.approx(
        np.tile([1, 0, 0], (len(first.residues[0].atoms), 1)), abs=1e-9
    )
    error = failure(read, text, model=1)
    assert (error.reason, "3, 7" in error.message) == ("no_such_model", True)


def test_models_may_differ_in_atoms(read):
    path = STRUCTURES / "2ofg.cif.gz"
    sizes = [len(read_structure(Source(str(path)), m, Policy()).residues) for m in (1, 2, 3)]
    assert sizes == [106, 76, 71]


def test_declared_disulfides_are_carried(read):
    structure = read((STRUCTURES / "1ejg.pdb").read_bytes())
    pairs = [(first, second) for (first, _), (second, _), kind in structure.bonds]
    # SSBOND of 1ejg: 3-40, 4-32, 16-26
    assert sorted(pairs) == [(2, 39), (3, 31), (15, 25)]
    assert structure.to_cif().count("disulf") == 3


def test_a_declared_bond_beside_the_polymer_is_carried(read):
    """LINK between side chains of neighbours is a bond of its own; along the chain it is not."""

    def link(first, second):
        (one, name, number), (other, its, next_number) = first, second
        return f"LINK        {one:<4} {name} A{number:4d}                {other:<4} {its} A{next_number:4d}"

    lines = ubiquitin()
    along = link((" C", "MET", 1), (" N", "GLN", 2))
    beside = link((" O", "MET", 1), (" N", "GLN", 2))  # 2.2 angstrom apart
    far = link((" SD", "MET", 1), (" NE2", "GLN", 2))
    assert read([along, *lines]).bonds == []
    structure = read([along, beside, far, *lines])
    assert structure.bonds == [((0, "O"), (1, "N"), "covale")]
    assert structure.notes["declared_bonds_ignored"] == 1


def test_a_phosphate_is_missing_only_inside_a_chain(read):
    """1lcd: its DNA chains begin without a phosphate, and with residue 1."""
    first_model = (STRUCTURES / "1lcd.pdb").read_text().partition("ENDMDL")[0].splitlines()
    dna = [
        s for s in first_model if s[:4] == "ATOM" and s[17:20].strip() in ("DA", "DC", "DG", "DT")
    ]
    assert len(read(dna).residues) == 22
    sites = sorted({s[21:26] for s in dna})
    inside = sites[4]
    without = [
        s for s in dna if not (s[21:26] == inside and s[12:16].strip() in ("P", "OP1", "OP2"))
    ]
    error = failure(read, without)
    assert (error.reason, "lacks P OP1 OP2" in error.message) == ("missing_atoms", True)
    only_p = [s for s in dna if not (s[21:26] == inside and s[12:16].strip() == "P")]
    assert failure(read, only_p).message.endswith("lacks P")
    gap = [s for s in without if s[21:26] != sites[3]]
    assert len(read(gap).residues) == 21


def test_a_metal_inside_a_chain_is_counted_as_its_end(read):
    lines = ubiquitin()
    half = len(ubiquitin(1, 3))
    metal = f"HETATM  999 ZN    ZN A 200    {90:8.3f}{90:8.3f}{90:8.3f}  1.00  0.00          ZN"
    structure = read([*lines[:half], metal, *lines[half:]])
    assert structure.chain_of == [0] * 3 + [1] + [2] * 3
    assert structure.notes["chain_ends_within_bonding_distance"] == 1


def test_a_minimal_cif_is_enough(read):
    """No occupancy, no auth ids, no entity tables: label ids and occupancy 1."""
    plain = read(ubiquitin())
    names = "type_symbol label_atom_id label_comp_id label_asym_id label_seq_id Cartn_x Cartn_y"
    names = [*names.split(), "Cartn_z"]
    rows = [
        f"{s[76:78]} {s[12:16]} {s[17:20]} {s[21]} {s[22:26]} {s[30:38]} {s[38:46]} {s[46:54]}"
        for s in ubiquitin()
    ]
    text = ["data_minimal", "loop_", *(f"_atom_site.{name}" for name in names), *rows]
    assert same(plain, read(text))


def test_the_estimate_of_atoms_is_close(read):
    """TMol 0.2.0 makes poses of these numbers of atoms of the shipped files."""
    for name, n_atoms in (("1ubi.pdb", 1231), ("1qbs.pdb", 3120), ("4zhl.cif.gz", 4010)):
        structure = read((STRUCTURES / name).read_bytes(), name=name)
        assert structure.n_atoms == pytest.approx(n_atoms, rel=0.02)

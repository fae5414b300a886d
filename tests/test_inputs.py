"""Inputs: every form of `structures`, ids and order, and the content-addressed manifests."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmol_plugin import inputs
from tmol_plugin.errors import RunError
from tmol_plugin.inputs import Row, list_structures, prepare_manifests, read_manifest, shard_of

NOT_UTF8 = os.fsdecode(b"caf\xe9.pdb")
ODD_NAMES = ["1e5", "007", "a b", "x[1]", "é", "tab\there", "new\nline", "back\\slash", "'q\"#"]


def touch(folder: Path, *names: str, text: str = "ATOM\n") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def ids(rows: list[Row]) -> list[str]:
    return [row.structure_id for row in rows]


def paths(rows: list[Row]) -> list[str]:
    return [row.path for row in rows]


def test_import_is_light():
    code = "import sys, tmol_plugin.inputs; print({'pandas', 'numpy', 'gemmi'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


def test_folder_takes_structures_at_any_depth_sorted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = ["B.PDB", "a-b/1.ent", "a.cif", "a.pdb", "a/1.mmcif.GZ", "a/b/2.pdb.gz", "é.cif"]
    for seed in range(3):
        folder = tmp_path / f"run{seed}"
        shuffled = random.Random(seed).sample(wanted, len(wanted))
        touch(folder, *shuffled, "notes.txt", ".x.pdb", ".git/y.pdb", "a/pdb", "z.pdb.bak")
        touch(folder, "folder.pdb/readme")
        rows = list_structures(f"run{seed}//")
        assert ids(rows) == wanted  # codepoints: "B" < "a", "-" < "." < "/"
        assert paths(rows) == [f"run{seed}/{name}" for name in wanted]
    assert {(row.model, row.size) for row in rows} == {(None, 5)}
    assert rows[0].extra == {}
    assert rows[0].ctime_ns == os.stat("run2/B.PDB").st_ctime_ns
    monkeypatch.chdir(folder)
    assert paths(list_structures(".")) == wanted
    assert paths(list_structures(str(folder))) == [f"{folder}/{name}" for name in wanted]


def test_links_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path, "in/a/1.pdb", "out/2.pdb")
    folder = tmp_path / "in"
    (folder / "a/up").symlink_to(folder)
    (folder / "out").symlink_to(tmp_path / "out")
    (tmp_path / "out/back").symlink_to(folder / "a")
    (folder / "file.pdb").symlink_to(tmp_path / "out/2.pdb")
    (folder / "gone.pdb").symlink_to(tmp_path / "nowhere")
    (folder / "self.pdb").symlink_to(folder / "self.pdb")
    expected = ["a/1.pdb", "file.pdb", "gone.pdb", "out/2.pdb", "out/back/1.pdb", "self.pdb"]
    rows = list_structures(str(folder))
    assert ids(rows) == expected
    assert [row.size for row in rows] == [5, 5, -1, 5, 5, -1]
    assert ids(list_structures(f"{folder}/**/*.pdb")) == expected


def test_folder_without_permission_becomes_a_row(tmp_path, monkeypatch):
    touch(tmp_path, "a.pdb", "locked/b.pdb")
    scandir = os.scandir

    def guarded(path):  # root, under whom tests may run, is denied nothing
        if path.endswith("locked/"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    rows = list_structures(str(tmp_path))
    assert [(row.structure_id, row.size) for row in rows] == [("a.pdb", 5), ("locked", -1)]
    with pytest.raises(RunError, match="Permission denied"):
        list_structures(f"{tmp_path}/locked")


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("d/*", ["c.txt", "x1.pdb", "x2.pdb"]),
        ("d/x[!1].pdb", ["x2.pdb"]),
        ("d/**/*.pdb", ["a/b/3.pdb", "a/b/a/4.pdb", "x1.pdb", "x2.pdb"]),
        ("d/**/**/a/**/?.pdb", ["a/b/3.pdb", "a/b/a/4.pdb"]),
        ("d/**/a/*.pdb", ["a/b/a/4.pdb"]),
        ("d/a/**", ["b/3.pdb", "b/a/4.pdb"]),
        ("d/*/**", ["a/b/3.pdb", "a/b/a/4.pdb"]),
        ("d/*/b/./3.pdb", ["a/b/3.pdb"]),
        ("d/.*", [".h.pdb"]),
        ("*/x1.pdb", ["d/x1.pdb"]),
    ],
)
def test_glob(tmp_path, monkeypatch, glob, expected):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path / "d", "x2.pdb", "x1.pdb", "c.txt", ".h.pdb", "a/b/3.pdb", "a/b/a/4.pdb")
    assert ids(list_structures(glob)) == expected
    root = {"d/a/**": "d/a/", "*/x1.pdb": ""}.get(glob, "d/")
    for top in ("", f"{tmp_path}/"):
        assert paths(list_structures(top + glob)) == [top + root + name for name in expected]


def test_single_structure_and_names_that_look_like_globs(tmp_path):
    touch(tmp_path, "d/A.CIF.gz", ".a.pdb")
    row = list_structures("d/../d/A.CIF.gz", tmp_path)[0]
    assert row[:5] == ("A.CIF.gz", "d/A.CIF.gz", None, {}, 5)
    assert ids(list_structures(".a.pdb", tmp_path)) == [".a.pdb"]
    touch(tmp_path, "set[1]/a.pdb", "set1/b.pdb", "x[1].pdb", "x1.pdb")
    (tmp_path / "l[1].txt").write_text("x1.pdb\n")
    assert ids(list_structures("set[1]", tmp_path)) == ["a.pdb"]
    assert paths(list_structures("x[1].pdb", tmp_path)) == ["x[1].pdb"]
    assert paths(list_structures("l[1].txt", tmp_path)) == ["x1.pdb"]
    assert ids(list_structures("set[1]*/*", tmp_path)) == ["set1/b.pdb"]


def test_text_file_keeps_order_and_missing_files(tmp_path):
    touch(tmp_path, "data/b.pdb", "data/x/a.pdb", "data/ b [1] é.pdb")
    text = "# mine\r\n../data/x/a.pdb\r\n\r\n  \r\n../data/gone.pdb\r\n..//data/./b.pdb\r\n"
    (tmp_path / "lists").mkdir()
    # NEL splits lines for str.splitlines, but belongs to a name here.
    data = b"\xef\xbb\xbf" + (text + "../data/ b [1] é.pdb\n#c\n../data/n\x85.pdb").encode()
    (tmp_path / "lists/l.txt").write_bytes(data)
    rows = list_structures("lists/l.txt", tmp_path)
    assert ids(rows) == ["x/a.pdb", "gone.pdb", "b.pdb", " b [1] é.pdb", "n\x85.pdb"]
    assert paths(rows) == [f"data/{name}" for name in ids(rows)]
    assert [row.size for row in rows] == [5, -1, 5, 5, -1]
    assert [row.ctime_ns for row in rows if row.size == -1] == [-1, -1]
    absolute = list_structures(str(tmp_path / "lists/l.txt"))
    assert absolute == [row._replace(path=f"{tmp_path}/{row.path}") for row in rows]


def test_text_file_of_absolute_relative_and_linked_paths(tmp_path):
    touch(tmp_path, "w/a.pdb", "v/b.pdb")
    (tmp_path / "w/l.txt").write_text(f"a.pdb\n{tmp_path}/v/b.pdb\n")
    rows = list_structures("l.txt", tmp_path / "w")
    assert [row[:2] for row in rows] == [("w/a.pdb", "a.pdb"), ("v/b.pdb", f"{tmp_path}/v/b.pdb")]
    # ".." of a linked folder is not the folder that the link is in.
    touch(tmp_path, "far/data/a.pdb", "far/lists/keep")
    (tmp_path / "lists").symlink_to(tmp_path / "far/lists")
    (tmp_path / "lists/l.txt").write_text("../data/a.pdb\n")
    (row,) = list_structures("lists/l.txt", tmp_path)
    assert (row.structure_id, row.path, row.size) == ("a.pdb", "lists/../data/a.pdb", 5)


def test_path_listed_again_gets_an_id_of_its_own(tmp_path):
    (tmp_path / "l.txt").write_text("a.pdb\n./a.pdb\na.pdb#2\na.pdb\nb.pdb\na.pdb#2\n")
    rows = list_structures("l.txt", tmp_path)
    assert ids(rows) == ["a.pdb", "a.pdb#3", "a.pdb#2", "a.pdb#4", "b.pdb", "a.pdb#2#2"]
    assert paths(rows) == ["a.pdb", "a.pdb", "a.pdb#2", "a.pdb", "b.pdb", "a.pdb#2"]


def test_sheet(tmp_path):
    touch(tmp_path, "s/x.pdb")
    lines = ["group\tpath\tmodel\tstructure_id", "g 1\tx.pdb\t2\tNA", '"q\t/gone.pdb\t\t1e5', ""]
    lines += ["\t../y.pdb\t\t 007 ", "\tx.pdb\t1\tNA"]
    (tmp_path / "s/sheet.tsv").write_text("\ufeff" + "\r\n".join(lines) + "\r\n", newline="")
    rows = list_structures("s/sheet.tsv", tmp_path, frozenset({"total", "path"}))
    assert [row[:5] for row in rows] == [
        ("NA", "s/x.pdb", 2, {"group": "g 1"}, 5),
        ("1e5", "/gone.pdb", None, {"group": '"q'}, -1),
        (" 007 ", "y.pdb", None, {"group": ""}, -1),
        ("NA", "s/x.pdb", 1, {"group": ""}, 5),
    ]


H = "structure_id\tpath\tmodel\n"
MALFORMED = {
    "it lists no structure": ["", "# nothing\n\n", H, H + "\n \n"],
    "line 5: .*'a' is also on line 2": [H + "a\tx\t\n\nb\ty\t\na\tz\t\n"],
    "line 4: .*'a' is also on line 2": [H + f"a\tx\t1\na\tx\t2\na\ty\t{n}\n" for n in ("", "01")],
    "line 3: .*'a' is also on line 2": [H + "a\tx\t\na\tx\t2\n"],
    "line 2: structure_id or path is empty": [H + "\tx\t\n", H + "a\t \t\n", H + "\t\t\n"],
    "line 2: has [24] fields, the header has 3": [H + "a\tx\n", H + "a\tx\t\t\n"],
    "line 2: model '.+' is no positive integer": [
        H + f"a\tx\t{n}\n" for n in ("0", "-1", "1.0", "x", "²", " ", "9" * 10)
    ],
    "column 'total' .*; rename it": ["structure_id\tpath\ttotal\na\tx\t1\n"],
    "column 'path' is .* there twice": ["structure_id\tpath\tpath\na\tx\t1\n"],
    "column '' is unnamed": ["structure_id\tpath\t\na\tx\t1\n"],
    "header 'path.* needs structure_id and path": ["path\tgroup\nx\t1\n", "path\nx\n"],
    "separated by tabs, without quotes": ['"structure_id"\t"path"\n', "Structure_ID,Path\n"],
    r"header 'id\\tfile' is no sheet's": ["#\nid\tfile\na\tx\n"],
    "neither UTF-8 text": ["\0"],
}


@pytest.mark.parametrize(("why", "text"), [(why, t) for why in MALFORMED for t in MALFORMED[why]])
def test_malformed_list_or_sheet(tmp_path, why, text):
    (tmp_path / "s.tsv").write_text(text)
    with pytest.raises(RunError, match=f"^structures: 's.tsv'.*{why}"):
        list_structures("s.tsv", tmp_path, frozenset({"total"}))


@pytest.mark.parametrize("value", ["", " ", "gone", "gone.pdb", "empty", "*.pdb", "gone/*.pdb"])
def test_nothing_there(tmp_path, value):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=r"^structures: .*; ") as error:
        list_structures(value, tmp_path)
    assert value.removesuffix("/*.pdb") in str(error.value)


def test_odd_names_survive(tmp_path):
    names = sorted([f"{name}.pdb" for name in ODD_NAMES] + [NOT_UTF8, "NA/NA.pdb"])
    touch(tmp_path / "d", *names)
    rows = list_structures("d", tmp_path)
    assert ids(rows) == names
    assert {row.size for row in rows} == {5}
    assert read_manifest(prepare_manifests(rows, 3, tmp_path / "m").all) == rows
    listed = [name for name in names if "\n" not in name]
    (tmp_path / "l.txt").write_bytes(b"".join(b"d/" + os.fsencode(n) + b"\n" for n in listed))
    assert list_structures("l.txt", tmp_path) == [row for row in rows if "\n" not in row.path]


# What a name or a sheet can hold: any text, and bytes that are not UTF-8.
TEXT = st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape"))
MODEL, SIZE = st.none() | st.integers(1, 2**31 - 1), st.integers(-1, 2**63 - 1)


@given(st.lists(st.builds(Row, TEXT, TEXT, MODEL, st.dictionaries(TEXT, TEXT), SIZE, SIZE)))
def test_manifest_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "round.tsv"
    inputs.write_manifest(path, rows)
    assert read_manifest(path) == rows


def test_not_a_manifest(tmp_path):
    path = tmp_path / "m.tsv"
    inputs.write_manifest(path, [])
    header = path.read_bytes()
    lines = [b"\n", b"a\tb\t\t1\t2\t{}", b"a\tb\tx\t1\t2\t{}\n", b"a\\x\tb\t\t1\t2\t{}\n"]
    for data in [None, b"", b"id\tpath\n", header[:-1], *(header + line for line in lines)]:
        path.unlink() if data is None else path.write_bytes(data)
        with pytest.raises(RunError, match=r"m\.tsv: is no manifest"):
            read_manifest(path)


def test_shards(tmp_path):
    sizes = [inputs.number_of_shards(n, 10) for n in (0, 1, 10, 11, 20, 21, 40, 41, 10_000)]
    assert sizes == [1, 1, 1, 2, 2, 4, 4, 8, 1024]
    assert shard_of("123456789", 2**32) == 0xCBF43926  # the check value of CRC-32
    row = Row("a", "a.pdb", 2, {}, 1, 1)
    shards = prepare_manifests([row] * 2, 1, tmp_path).shards
    assert [read_manifest(shards[name]) for name in ("0of2", "1of2")] == [[], [row] * 2]
    with pytest.raises(RunError, match="structures_per_job"):
        inputs.number_of_shards(5, 0)


def test_manifests_change_only_where_rows_do(tmp_path):
    touch(tmp_path / "d", *[f"{i}.pdb" for i in range(100)])

    def prepare():
        return prepare_manifests(list_structures("d", tmp_path), 10, tmp_path / "m")

    def changed(old, new):
        assert old.all != new.all
        assert old.shards.keys() == new.shards.keys()
        return [name for name in old.shards if old.shards[name] != new.shards[name]]

    first = prepare()
    assert list(first.shards) == [f"{i:02}of16" for i in range(16)]
    for name, path in first.shards.items():
        own = [i for i in range(100) if shard_of(f"{i}.pdb", 16) == int(name[:2])]
        assert ids(read_manifest(path)) == sorted(f"{i}.pdb" for i in own)
    for path in first.shards.values():
        os.utime(path, (1, 1))
    assert prepare() == first
    assert {os.stat(path).st_mtime for path in first.shards.values()} == {1}
    touch(tmp_path / "d", "new.pdb")
    second = prepare()
    assert changed(first, second) == [f"{shard_of('new.pdb', 16):02}of16"]
    touch(tmp_path / "d", "7.pdb", text="longer than before")
    third = prepare()
    assert changed(second, third) == [f"{shard_of('7.pdb', 16):02}of16"]
    os.utime(tmp_path / "d/9.pdb", ns=(1, 1))
    assert changed(third, prepare()) == [f"{shard_of('9.pdb', 16):02}of16"]
    assert not [path for path in (tmp_path / "m").iterdir() if path.name.startswith(".")]


def test_many_rows(tmp_path):
    (tmp_path / "l.txt").write_text("".join(f"x/{i % 100}/{i}.pdb\n" for i in range(200_000)))
    rows = list_structures("l.txt", tmp_path)
    assert (len(set(ids(rows))), rows[199_999].structure_id) == (200_000, "99/199999.pdb")
    manifests = prepare_manifests(rows, 5000, tmp_path / "m")
    assert read_manifest(manifests.all) == rows
    assert len(manifests.shards) == 64
    spread = [row for path in manifests.shards.values() for row in read_manifest(path)]
    assert sorted(spread) == sorted(rows)

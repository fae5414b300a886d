"""From the config's `structures` to ordered rows with stable ids, and to manifests of them."""

# The Snakefile imports this module whenever it is parsed: standard library only. Text is UTF-8
# with surrogateescape, so that file names that are not UTF-8 survive.
import fnmatch
import hashlib
import itertools
import json
import os
import re
import stat
import time
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tmol_plugin.errors import RunError

_STRUCTURE_NAME = re.compile(r"(?is)(?!\.).+\.(?:pdb|ent|cif|mmcif)(?:\.gz)?\Z")
_NOT_HIDDEN = re.compile(r"(?!\.)")
_WILDCARD = re.compile(r"[*?[]")
_KEY = ("structure_id", "path", "model")
_KEEP_SECONDS = 30 * 24 * 3600
_MANIFEST_HEADER = b"structure_id\tpath\tmodel\tsize\tctime_ns\textra\n"
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {escaped: plain for plain, escaped in _ESCAPES.items()}
_TO_ESCAPE, _ESCAPED = re.compile(r"[\\\t\n\r]"), re.compile(r"\\.")
_to_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


class Row(NamedTuple):
    """One input: a file, or one model of it. `path` is as given: relative or absolute."""

    structure_id: str
    path: str
    model: int | None  # from 1; None: as the config's `models` says
    extra: dict[str, str]  # further columns of the sheet
    size: int  # bytes; -1 if the file cannot be looked at, and so is
    ctime_ns: int  # of the last change: of content, and of who may read it


@dataclass(frozen=True)
class Manifests:
    """Paths of the manifest of all rows, of each shard's by the shard's name ("03of16"), and
    of the record of them all, which `load_manifests` reads."""

    all: str
    shards: dict[str, str]
    record: str


def list_structures(
    structures: str, base: Path | None = None, reserved: frozenset[str] = frozenset()
) -> list[Row]:
    """The rows of a folder or glob, sorted by path; of a text file or sheet, in its order.

    Relative paths start from `base` (None: the working directory). Further columns of a sheet
    may not have a `reserved` name. Raises RunError if nothing is there or matches, or a list is
    malformed; a listed file that is missing is no error here, it fails later as a row.
    """
    if not structures.strip():
        raise RunError("structures: is empty; name a folder, glob, text file or TSV sheet")
    base = os.path.abspath(base or os.curdir)
    place = os.path.join(base, structures)
    # What exists is taken at its name, so that a folder named "designs[1]" is no glob.
    if os.path.isdir(place):
        rows = _find(structures, base, [(_NOT_HIDDEN, True), (_STRUCTURE_NAME, False)])
        hint = "the folder holds no .pdb, .ent, .cif or .mmcif (.gz or not); try a glob"
    elif os.path.isfile(place) and _STRUCTURE_NAME.match("x" + os.path.basename(structures)):
        return [_row(os.path.basename(structures), _normal(structures, base), base)]
    elif os.path.isfile(place):
        rows = _read_list(structures, base, reserved)
        hint = "it lists no structure; add some, one a line"
    elif wildcard := _WILDCARD.search(structures):
        root, slash, _ = structures[: wildcard.start()].rpartition("/")
        segments: list[tuple[re.Pattern, bool]] = []
        for part in structures[len(root + slash) :].split("/"):
            hidden = "" if part.startswith(".") else _NOT_HIDDEN.pattern
            if part == "**" and not (segments and segments[-1][1]):
                segments.append((_NOT_HIDDEN, True))
            elif part not in ("", ".", "**"):
                segments.append((re.compile(hidden + fnmatch.translate(part)), False))
        rows = _find(root + slash or ".", base, segments)
        hint = "the glob matches no file; end it in /**/*.pdb to enter folders; [[] stands for ["
    else:
        raise RunError(f"structures: {structures!r} is not in {base}; correct it, or give a glob")
    if not rows:
        raise RunError(f"structures: {structures!r}: {hint}")
    return rows


def _normal(path: str, base: str) -> str:
    """`path` without "//" and ".", and without ".." save after a link, which leads elsewhere."""
    if "/.." not in "/" + path:  # most paths, and much faster
        return os.path.normpath(path).replace("//", "/")
    top = "/" if path.startswith("/") else ""
    parts: list[str] = []
    for part in path.split("/"):
        if part != "..":
            parts += [part] if part not in ("", ".") else []
        elif not parts or parts[-1] == "..":
            parts += [part] if not top or parts else []
        elif os.path.islink(os.path.join(base, top + "/".join(parts))):
            parts.append(part)
        else:
            parts.pop()
    return top + "/".join(parts) or "."


def _row(structure_id: str, path: str, base: str, model: int | None = None, extra=None) -> Row:
    try:
        status = os.stat(os.path.join(base, path))
        return Row(structure_id, path, model, extra or {}, status.st_size, status.st_ctime_ns)
    except OSError:
        return Row(structure_id, path, model, extra or {}, -1, -1)


def _find(root: str, base: str, segments: list[tuple[re.Pattern, bool]]) -> list[Row]:
    """Files whose path below `root` matches `segments`, a (pattern, is it "**") per folder.

    Not glob.glob, which repeats files behind cyclic links. Each folder is read once, with the
    set of segments that may match next.
    """
    end, root = len(segments), _normal(root, base)
    # Before "**" we are also behind it, as it may stand for no folder; a last one takes a file.
    at = [{i, i + 1} if i < end - 1 and segments[i][1] else {i} for i in range(end + 1)]
    then = [{i, i + 1} if deep else at[i + 1] for i, (_, deep) in enumerate(segments)]
    found: list[tuple[str, int, int]] = []
    todo: list[tuple[str, set[int], frozenset]] = [("", at[0], frozenset())]
    while todo:
        folder, states, above = todo.pop()
        place = os.path.join(base, root, folder)
        try:
            status = os.stat(place)
            entries = list(os.scandir(place))
        except OSError as error:
            if not folder:
                raise RunError(f"structures: {root!r}: {error.strerror}; correct it") from error
            found.append((folder[:-1], -1, -1))  # not lost in silence: it fails, as unreadable
            continue
        here = (status.st_dev, status.st_ino)
        if here in above:
            continue  # a link back to a folder that we are in
        for entry in entries:
            after: set[int] = set()
            for i in states:
                if i < end and segments[i][0].match(entry.name):
                    after |= then[i]
            try:
                if not after:
                    pass
                elif entry.is_dir():
                    if after != {end}:
                        todo.append((f"{folder}{entry.name}/", after, above | {here}))
                elif end in after and stat.S_ISREG((status := entry.stat()).st_mode):
                    found.append((folder + entry.name, status.st_size, status.st_ctime_ns))
            except OSError:  # a link to nowhere, or a file just removed
                found += [(folder + entry.name, -1, -1)] if end in after else []
    prefix = "" if root == "." else root.rstrip("/") + "/"
    return [Row(name, prefix + name, None, {}, *status) for name, *status in sorted(found)]


def _read_list(structures: str, base: str, reserved: frozenset[str]) -> list[Row]:
    """Rows of a text file of paths or of a sheet, whichever its first line says it is."""
    where = f"structures: {structures!r}"
    try:
        data = Path(base, structures).read_bytes()
    except OSError as error:
        raise RunError(f"{where}: {error.strerror}; make it readable") from error
    if b"\0" in data:
        raise RunError(f"{where} is neither UTF-8 text nor named .pdb or .cif; unpack or rename it")
    # Not splitlines(), which also splits at characters that a file name may hold.
    lines = data.decode("utf-8-sig", "surrogateescape").replace("\r\n", "\n").split("\n")
    listed = [(i, line) for i, line in enumerate(lines, 1) if line.strip(" ")]
    listed = list(itertools.dropwhile(lambda numbered: numbered[1].startswith("#"), listed))
    header = listed[0][1] if listed else ""
    folder = os.path.dirname(structures)
    if {"structure_id", "path"} <= set(header.split("\t")):
        return [
            _row(structure_id, _normal(os.path.join(folder, path), base), base, model, extra)
            for structure_id, path, model, extra in _read_sheet(where, listed, reserved)
        ]
    names = {name.strip("'\" ").lower() for name in re.split("[\t,;]", header)}
    if names & {"structure_id", "path"} or ("\t" in header and structures.endswith(".tsv")):
        raise RunError(
            f"{where}: the header {header!r} is no sheet's; it needs structure_id and path,"
            " separated by tabs, without quotes"
        )
    listed_paths = [line for _, line in listed if line.strip() and line[0] != "#"]
    paths = [_normal(os.path.join(folder, path), base) for path in listed_paths]
    return [_row(name, path, base) for name, path in zip(_ids(paths, base), paths, strict=True)]


def _ids(paths: list[str], base: str) -> list[str]:
    """The paths relative to their common folder; "#2", "#3" ... end those that come again."""
    paths = [_normal(os.path.join(base, path), "/") for path in paths]
    common = os.path.commonpath({os.path.dirname(path) for path in paths}) if paths else ""
    ids = [path[len(common.rstrip("/")) + 1 :] for path in paths]
    taken, count = set(ids), dict.fromkeys(ids, 0)
    for i, name in enumerate(ids):
        count[name] += 1
        while count[name] > 1 and ids[i] in taken:  # a file may really be named "a.pdb#2"
            ids[i] = f"{name}#{count[name]}"
            count[name] += ids[i] in taken
        taken.add(ids[i])
    return ids


def _read_sheet(where: str, listed: list[tuple[int, str]], reserved: frozenset[str]) -> Iterator:
    """(structure_id, path, model, extra) of each row of a sheet, given its lines, numbered."""
    columns = listed[0][1].split("\t")
    for name in columns:
        if not name or columns.count(name) > 1 or name in reserved.difference(_KEY):
            why = "is unnamed, there twice, or named as a column of the results; rename it"
            raise RunError(f"{where}: the column {name!r} {why}")
    firsts: dict[str, tuple[int, int | None]] = {}
    line_of: dict[tuple[str, int], int] = {}
    for line, text in listed[1:]:
        at, fields = f"{where} line {line}", text.split("\t")
        if len(fields) != len(columns):
            count = f"{len(fields)} fields, the header has {len(columns)}"
            raise RunError(f"{at}: has {count}; separate them by tabs, and leave none out")
        extra = dict(zip(columns, fields, strict=True))
        name, path, number = (extra.pop(key, "") for key in _KEY)
        if not name.strip() or not path.strip():
            raise RunError(f"{at}: structure_id or path is empty; give both")
        # The tables hold model numbers as int32.
        if number and not (re.fullmatch("[0-9]{1,10}", number) and 0 < int(number) < 2**31):
            raise RunError(f"{at}: model {number!r} is no positive integer; correct or empty it")
        model = int(number) if number else None
        other = line_of.setdefault((name, model), line) if model else line
        first, first_model = firsts.setdefault(name, (line, model))
        if first != line and None in (model, first_model):
            other = first  # a row without a model may come to stand for the other row's model
        if other != line:
            why = f"structure_id {name!r} is also on line {other}, with this model or without one"
            raise RunError(f"{at}: {why}; give each row an id, or a model, of its own")
        yield name, path, model, extra


def number_of_shards(n_rows: int, per_job: int) -> int:
    """The smallest power of two that leaves a shard at most `per_job` rows on average."""
    if per_job < 1:
        raise RunError(f"scan.structures_per_job: {per_job} is too small; give 1 or more")
    return 1 << max(0, -(-n_rows // per_job) - 1).bit_length()


def shard_of(structure_id: str, n_shards: int) -> int:
    """The shard of a structure, from 0: by its id alone, so that a new one changes one shard."""
    return zlib.crc32(structure_id.encode("utf-8", "surrogateescape")) % n_shards


def prepare_manifests(rows: list[Row], per_job: int, folder: Path) -> Manifests:
    """Write the manifests of all rows and of each shard, where they are not there yet.

    They are named by their content, sizes and times of the files included: a changed file
    changes its shard's manifest and is scanned anew, others keep theirs and their time.
    Those of earlier calls are removed after a month.
    """
    n_shards = number_of_shards(len(rows), per_job)
    lines = [_line(row) for row in rows]
    shards: list[list[bytes]] = [[] for _ in range(n_shards)]
    for row, line in zip(rows, lines, strict=True):
        shards[shard_of(row.structure_id, n_shards)].append(line)

    def write(kind: str, lines: list[bytes]) -> str:
        data = _MANIFEST_HEADER + b"".join(lines)
        path = Path(folder, f"{kind}-{hashlib.sha256(data).hexdigest()[:16]}.tsv")
        if not path.is_file():
            _write(path, data)
        return path.as_posix()

    width = len(str(n_shards))
    names = [f"{i:0{width}}of{n_shards}" for i in range(n_shards)]
    listed = write("all", lines), {name: write("shard", own) for name, own in zip(names, shards)}
    data = json.dumps(listed).encode()
    record = Path(folder, f"manifests-{hashlib.sha256(data).hexdigest()[:16]}.json")
    if not record.is_file():
        _write(record, data)
    manifests = Manifests(*listed, record.as_posix())
    current = {manifests.all, *manifests.shards.values(), manifests.record}
    # Not at once: this is also done for a dry run, while a run may use what it listed.
    outdated = time.time() - _KEEP_SECONDS
    for path in Path(folder).glob("*-*.*"):
        if path.as_posix() not in current and path.stat().st_mtime < outdated:
            path.unlink(missing_ok=True)
    return manifests


def load_manifests(record: str) -> Manifests:
    """The manifests that a record is of; RunError if it is none."""
    try:
        return Manifests(*json.loads(Path(record).read_bytes()), record)
    except (OSError, ValueError, TypeError) as error:
        raise RunError(f"{record}: is no record of manifests ({error}); run again") from error


def write_manifest(path: str | Path, rows: list[Row]) -> None:
    """Write rows as a manifest (TSV; backslash escapes tab, newline, return and itself)."""
    _write(Path(path), _MANIFEST_HEADER + b"".join(_line(row) for row in rows))


def read_manifest(path: str | Path) -> list[Row]:
    """The rows of a manifest; RunError if it cannot be read or is none."""
    try:
        header, *lines = Path(path).read_bytes().split(b"\n")
        if header + b"\n" != _MANIFEST_HEADER or lines.pop():
            raise ValueError("another header, or cut short")
        return [_parse(line.decode("utf-8", "surrogateescape")) for line in lines]
    except (OSError, ValueError, LookupError) as error:
        raise RunError(f"{path}: is no manifest ({error}); remove it and run again") from error


def _line(row: Row) -> bytes:
    name, path, extra = (
        _TO_ESCAPE.sub(lambda found: _ESCAPES[found[0]], field)
        for field in (row.structure_id, row.path, _to_json(row.extra))
    )
    line = f"{name}\t{path}\t{row.model or ''}\t{row.size}\t{row.ctime_ns}\t{extra}\n"
    return line.encode("utf-8", "surrogateescape")


def _parse(line: str) -> Row:
    fields = line.split("\t")
    if "\\" in line:
        fields = [_ESCAPED.sub(lambda found: _UNESCAPES[found[0]], field) for field in fields]
    name, path, model, size, ctime_ns, extra = fields
    extra = {} if extra == "{}" else json.loads(extra)
    return Row(name, path, int(model) if model else None, extra, int(size), int(ctime_ns))


def _write(path: Path, data: bytes) -> None:
    # As tables.write_atomically, without its imports.
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)

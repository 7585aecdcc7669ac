"""Tables in files: one or several of one format, directories, patterns, and standard input.

The ending tells the format: ``.csv``, ``.tsv`` and ``.jsonl`` (or ``.ndjson``), which may be
compressed (``.gz``), ``.parquet``, and ``.arrow`` (or ``.ipc``, ``.feather``). A directory stands
for all files in it and below, but those whose names begin with ``.`` or ``_``; a name with ``*``,
``?`` or ``[`` that no file has is a pattern. What an answer looks like never depends on other rows:
values of CSV and TSV are text as it is written, and those of JSON lines the text of the value (a
number without trailing zeros, ``true``, ``false``; a missing one and ``null`` are no answer).
"""

from __future__ import annotations

import glob
import gzip
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

from shoal import checks
from shoal.errors import InvalidArgumentError

if TYPE_CHECKING:
    import polars as pl

Format = Literal["csv", "tsv", "jsonl", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = get_args(Format)
_OTHER_ENDINGS: dict[str, Format] = {"ndjson": "jsonl", "ipc": "arrow", "feather": "arrow"}
_MAGIC: dict[bytes, Format] = {b"PAR1": "parquet", b"ARROW1": "arrow"}  # how such files begin
_CALLED = {
    "csv": "CSV in UTF-8",
    "tsv": "TSV in UTF-8",
    "jsonl": "JSON lines",
    "parquet": "Parquet",
    "arrow": "Arrow",
}
# What the name of the only column has in it, if the table is read as what it is not.
_MISREAD = {
    "{": "are these JSON lines? --format jsonl",
    "\t": "are tabs between the columns? --format tsv",
    ";": "commas are between columns, not semicolons",
    "|": "commas are between columns, not |",
}
_GZIP = b"\x1f\x8b"
_TABLE = "table"  # the name of the file that standard input is copied to
_KEYS = 1000  # lines whose keys are the columns of JSON lines, if those are among them
_BLOCK = 1 << 20
_LISTED_COLUMNS = 20


@dataclass(frozen=True)
class Files:
    """Files and directories of one format; ``name`` is what they are called in messages."""

    places: tuple[str, ...]
    format: str
    name: str

    @classmethod
    def at(
        cls,
        places: Sequence[str | os.PathLike[str]],
        form: str | None = None,
        formats: Sequence[str] = FORMATS,
        *,
        elsewhere: bool = False,
    ) -> Files:
        """Those at these places, of one of the formats.

        It is told by the endings, unless it is given as ``form``. A place ``elsewhere``
        (``s3a://…``), if such are allowed, is Parquet unless its ending says otherwise.
        """
        names = [os.fspath(place) for place in places]
        checks.refuse(not names, "at least one file", data="none")
        name = ", ".join(names)
        expanded: list[str] = []
        for place in names:  # itself if it is there, or the files that the pattern describes
            if "://" in place:
                expected = "files on this machine (--engine spark reads other places)"
                checks.refuse(not elsewhere, expected, data=place)
            described = [place] if "://" in place or Path(place).exists() else []
            if not described and glob.has_magic(place):
                # Not Path.glob: a pattern may begin at the root, or with ..
                described = sorted(glob.glob(place, recursive=True))  # noqa: PTH207
            expected = "an existing file or directory, or a pattern that describes some"
            checks.refuse(not described, expected, data=place)
            expanded += described
        empty = [each for each in expanded if "://" not in each and not any(_inside(Path(each)))]
        checks.refuse(empty, "a directory with files in it", data=next(iter(empty), None))
        # Of a directory elsewhere is only known that what is below it is its own.
        away = (PurePosixPath(each.removeprefix("file://")) for each in expanded if "://" in each)
        here = (path.resolve() for path in cls(tuple(expanded), "", name).paths)
        files = Counter[PurePath]([*away, *here])
        twice = [each for each in files if files[each] > 1 or files.keys() & {*each.parents}]
        expected = f"every file once ({next(iter(twice), None)} comes again)"
        checks.refuse(twice, expected, data=name)
        if form is None:
            forms = [_format(each, formats) for each in expanded]
            mixed = f"files and directories of one format, {' or '.join(formats)}"
            checks.refuse(len(set(forms)) > 1, mixed, data=name)
            form = forms[0]
        expected = f"one of {', '.join(formats)}"
        checks.refuse(form not in formats, expected, format=form)
        return cls(tuple(expanded), form, name)

    @classmethod
    def of(cls, data: object) -> Files | None:
        """Those whose place, or list of places, this is; nothing if it is something else."""
        if isinstance(data, Files):
            return data
        places = data if isinstance(data, list | tuple) else [data]
        paths = [place for place in places if isinstance(place, str | os.PathLike)]
        return cls.at(paths) if paths and len(paths) == len(places) else None

    @property
    def paths(self) -> list[Path]:
        """All the files on this machine, those of a directory in the order of their names."""
        here = (Path(place) for place in self.places if "://" not in place)
        return [path for place in here for path in _inside(place)]

    def frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """These columns of all files, one after the other; every file has to have them.

        Directories of Parquet may be partitioned (``region=north/``): such columns are text.
        """
        import polars as pl

        frames: list[pl.LazyFrame] = []
        first: pl.Schema | None = None
        for place in map(Path, self.places):
            for path in _inside(place):
                shown = self.name if path.name == _TABLE else str(path)
                checks.refuse(not path.stat().st_size, "a file with at least one row", data=shown)
                below = path.relative_to(place).parts[:-1]
                keys = [part.partition("=")[0] for part in below if "=" in part]
                with reading(names[0], replace(self, name=shown)):
                    frame = self._scanned(path, names, keys)
                    columns = frame.collect_schema()
                require_columns(names, columns.names(), shown if first else "")
                schema = pl.Schema({name: columns[name] for name in names})
                first = first or schema
                expected = f"columns of the same type in all files, {first} as in the first one"
                checks.refuse(schema != first, expected, data=f"{shown} with {schema}")
                frames.append(frame.select(names))
        return pl.concat(frames)

    def _scanned(self, path: Path, names: Sequence[str], keys: Sequence[str]) -> pl.LazyFrame:
        import polars as pl

        if self.format == "parquet":
            texts = dict.fromkeys(keys, pl.String)
            options: dict[str, Any] = {"hive_schema": texts} if texts else {}
            return pl.scan_parquet(path, glob=False, hive_partitioning=bool(keys), **options)
        if self.format == "arrow":
            return pl.scan_ipc(path, glob=False)
        if self.format != "jsonl":
            separator = "\t" if self.format == "tsv" else ","
            return pl.scan_csv(path, glob=False, infer_schema=False, separator=separator)
        literal = glob.escape(str(path))
        for lines in (_KEYS, None):  # of all lines only if a column is not in the first ones
            known = pl.scan_ndjson(literal, infer_schema_length=lines).collect_schema().names()
            if set(names) <= set(known):
                break
        return pl.scan_ndjson(literal, schema=dict.fromkeys(known, pl.String))


@contextmanager
def spooled(stream: IO[bytes], form: str | None = None) -> Iterator[Files]:
    """A table that comes once, in a private file that is removed afterwards: it is read twice.

    The format is that of the first bytes, Parquet or Arrow, or else CSV, unless it is given. CSV
    has to end with its last line: a program that failed may have stopped in the middle of it.
    """
    with tempfile.TemporaryDirectory(prefix="shoal-") as directory:
        path = Path(directory) / _TABLE
        with path.open("wb") as file:
            shutil.copyfileobj(stream, file, _BLOCK)
        with path.open("rb") as file:
            begins = file.read(max(map(len, _MAGIC)))
        detected = next((each for magic, each in _MAGIC.items() if begins.startswith(magic)), None)
        form = form or detected or "csv"
        checks.refuse(form not in FORMATS, f"one of {', '.join(FORMATS)}", format=form)
        name = "standard input"
        checks.refuse(not begins, "a table", data=f"{name} without any data")
        if form in {"csv", "tsv"}:
            _require_whole(path, name, compressed=begins.startswith(_GZIP))
        yield Files((str(path),), form, name)


def _require_whole(path: Path, name: str, *, compressed: bool) -> None:
    """Text whose last line is complete, and whose quotes are closed."""
    quotes, last = 0, b""
    try:
        with gzip.open(path) if compressed else path.open("rb") as file:
            while block := file.read(_BLOCK):
                quotes += block.count(b'"')
                last = block[-1:]
    except (EOFError, OSError) as error:
        raise InvalidArgumentError("data", name, f"a table that can be read ({error})") from error
    early = "a table that does not end early: "
    expected = f"{early}its last line has no line break, and may be cut off"
    checks.refuse(last not in b"\r\n", expected, data=name)
    checks.refuse(quotes % 2, f'{early}a quote (") is opened and not closed', data=name)


def _inside(place: Path) -> Iterator[Path]:
    """The file, or those of a directory; what is hidden or about others is none of them."""
    if not place.is_dir():
        checks.refuse(not place.is_file(), "an existing file", data=str(place))
        yield place
        return
    for path in sorted(place.rglob("*")):
        parts = path.relative_to(place).parts
        if path.is_file() and not any(part.startswith((".", "_")) for part in parts):
            yield path


def _format(place: str, formats: Sequence[str]) -> str:
    """By the ending, or by those of the files in a directory.

    >>> _format("s3a://lake/people.csv.gz", FORMATS), _format("hdfs:///lake/people", FORMATS)
    ('csv', 'parquet')
    """
    if "://" in place:
        return _by_ending(place) or "parquet"
    kinds = {_by_ending(str(path)) for path in _inside(Path(place))}
    form = kinds.pop() if len(kinds) == 1 else None
    if form not in formats:
        endings = [*formats, *(end for end, of in _OTHER_ENDINGS.items() if of in formats)]
        listed = ", ".join(f".{ending}" for ending in endings)
        of_one = "or a directory of such files of one format (--format names that of others)"
        raise InvalidArgumentError("data", place, f"a file whose name ends in {listed}, {of_one}")
    return str(form)


def _by_ending(name: str) -> Format | None:
    """The format that an ending names; only text is compressed as a whole."""
    plain = name.lower().removesuffix(".gz")
    ending = Path(plain).suffix.removeprefix(".")
    form = _OTHER_ENDINGS.get(ending, ending if ending in FORMATS else None)
    compressed = len(plain) < len(name)
    return None if compressed and form in {"parquet", "arrow"} else form


def require_columns(wanted: Sequence[str], names: Sequence[str], where: str = "") -> None:
    """All that are wanted are among the names, or an error that lists the columns there are."""
    missing = [name for name in wanted if name not in names]
    if not missing:
        return
    name = missing[0]
    listed = ", ".join(names[:_LISTED_COLUMNS]) + ", ..." * (len(names) > _LISTED_COLUMNS)
    meant = checks.similar(name, names)
    if len(names) == 1 and (sign := next((each for each in _MISREAD if each in names[0]), None)):
        meant = f" ({_MISREAD[sign]})"
    expected = f"one of the columns {listed or 'of data'}{f' of {where}' * bool(where)}{meant}"
    raise InvalidArgumentError("column", name, expected)


@contextmanager
def reading(name: str, files: Files | None = None) -> Iterator[None]:
    """What goes wrong is about the files, or about the data of a column, not about Polars."""
    import polars as pl

    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        expected = f"readable data in it ({first_line(error)})"
        if files is None:
            raise InvalidArgumentError("column", name, expected) from error
        expected = f"a table that can be read as {_CALLED[files.format]} ({first_line(error)})"
        raise InvalidArgumentError("data", files.name, expected) from error


def first_line(error: Exception) -> str:
    """What went wrong, without advice about Polars."""
    return str(error).partition("\n")[0]

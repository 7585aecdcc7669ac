"""Edge lists as they come: text, CSV, .npz, SciPy matrices and NetworkX graphs.

Text is one edge a line, two whole numbers apart by white space, commas or semicolons; lines that
begin with # or % are comments, and a first line of names is a header. Files may be gzipped.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from shoal.errors import InvalidArgumentError

_COMMENTS = ("#", "%")
_SHOWN = 60  # characters of a line that is none


@dataclass(frozen=True, eq=False)
class Listed:
    """Edges as listed, before anything is dropped."""

    edges: npt.NDArray[np.int64]
    n: int | None = None
    labels: npt.NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()


def read_edges(path: Path) -> Listed:
    """The edges in a file."""
    if not path.is_file():
        raise InvalidArgumentError("path", str(path), "a file that exists")
    return _from_npz(path) if path.suffix == ".npz" else _from_text(path)


def listed_edges(source: Any) -> Listed:  # noqa: ANN401 - NetworkX is not a dependency
    """The edges of a sparse matrix, or of anything with ``nodes`` and ``edges`` of its own."""
    if issparse(source):
        return _from_matrix(source)
    nodes, edges = getattr(source, "nodes", None), getattr(source, "edges", None)
    if nodes is None or edges is None:
        expected = "a SciPy sparse matrix or a NetworkX graph"
        raise InvalidArgumentError("source", type(source).__name__, expected)
    numbers = {node: number for number, node in enumerate(nodes)}
    pairs = [(numbers[edge[0]], numbers[edge[1]]) for edge in edges]
    return Listed(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), len(numbers))


def _from_matrix(source: Any) -> Listed:  # noqa: ANN401 - any of SciPy's sparse formats
    matrix = source.tocoo()
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidArgumentError("matrix", matrix.shape, "a square adjacency matrix")
    # A symmetric matrix names each edge twice: that is no repetition worth a note.
    ends = np.sort(np.column_stack([matrix.row, matrix.col])[matrix.data != 0], axis=1)
    return Listed(np.unique(ends.astype(np.int64), axis=0), matrix.shape[0])


def _from_npz(path: Path) -> Listed:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            edges = np.asarray(arrays["edges"])
            n = int(arrays["n"]) if "n" in arrays else None
    except (KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise _no_graph(path, "arrays 'edges' and 'n'") from error
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise _no_graph(path, "an array 'edges' of two node numbers a row")
    return Listed(edges.astype(np.int64), n)


def _from_text(path: Path) -> Listed:
    try:
        with _opened(path) as file:
            first, lines = _first_line(path, file)
            delimiter = next((mark for mark in ",;" if mark in first), None)
            if not _is_edge(first, delimiter):  # a header
                first, lines = _first_line(path, lines)
            if not _is_edge(first, delimiter):
                raise _no_graph(path, "two whole numbers a line", first)
            columns = len(first.split(delimiter))
            edges = np.loadtxt(
                chain([first], lines),
                dtype=np.int64,
                comments=list(_COMMENTS),
                delimiter=delimiter,
                usecols=(0, 1),
                ndmin=2,
            )
    except InvalidArgumentError:
        raise
    except (OSError, EOFError, ValueError) as error:
        raise _no_graph(path, "two whole numbers a line", str(error)) from error
    if int(edges.min()) < 0:
        raise _no_graph(path, "node numbers from 0 on", str(int(edges.min())))
    labels, numbers = np.unique(edges, return_inverse=True)
    notes = ("ignored all but the first two columns",) if columns > 2 else ()
    return Listed(numbers.reshape(-1, 2).astype(np.int64), len(labels), labels, notes)


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _first_line(path: Path, lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The first line that says something, and the lines after it."""
    for line in lines:
        if line.strip() and not line.lstrip().startswith(_COMMENTS):
            return line, lines
    raise _no_graph(path, "at least one edge")


def _is_edge(line: str, delimiter: str | None) -> bool:
    fields = line.split(delimiter)
    return len(fields) >= 2 and all(_is_whole(field.strip()) for field in fields[:2])


def _is_whole(field: str) -> bool:
    return field.removeprefix("-").isascii() and field.removeprefix("-").isdigit()


def _no_graph(path: Path, expected: str, found: str | None = None) -> InvalidArgumentError:
    shown = "" if found is None else f": {found.strip()[:_SHOWN]}"
    return InvalidArgumentError("path", f"{path}{shown}", f"a graph file with {expected}")

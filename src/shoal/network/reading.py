"""Edge lists as they come: text, CSV, .npz, SciPy matrices and NetworkX graphs.

Text is one edge a line, two whole numbers apart by white space, commas or semicolons; lines that
begin with # or % are comments, and a first line of names is a header. Files may be gzipped. An edge
in a file joins both ways: lists do not say whether they mean a direction. Matrices and NetworkX
graphs do, and have weights; where either matters they are refused.
"""

from __future__ import annotations

import gzip
import math
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, issparse

from shoal.errors import InvalidArgumentError

_COMMENTS = ("#", "%")
_SHOWN = 60  # characters of a line that is none
_UNDIRECTED = "networkx.to_scipy_sparse_array(networkx.Graph(graph), weight=None)"
_ALIKE = "every neighbour is drawn with the same probability"


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
        return _from_matrix(source, "adjacency + adjacency.T > 0", "adjacency != 0")
    nodes, edges = getattr(source, "nodes", None), getattr(source, "edges", None)
    if isinstance(nodes, Iterable) and isinstance(edges, Iterable):
        return _from_matrix(_adjacency(source), _UNDIRECTED, _UNDIRECTED)
    expected = (
        "a SciPy sparse adjacency matrix (of a dense one: scipy.sparse.csr_array(adjacency)) or a "
        "NetworkX graph; Graph.from_edges takes rows of two node numbers, each an undirected edge"
    )
    raise InvalidArgumentError("source", type(source).__name__, expected)


def _adjacency(source: Any) -> coo_array:  # noqa: ANN401 - as above
    """The weights of edges, 1 where they have none; several between the same nodes add up."""
    numbers = {node: number for number, node in enumerate(source.nodes)}
    weighted = getattr(source.edges, "data", None)
    edges = [(*edge[:2], 1) for edge in source.edges] if weighted is None else weighted("weight", 1)
    directed = hasattr(source, "is_directed") and source.is_directed()
    places: list[tuple[int, int]] = []
    weights: list[float] = []
    for first, second, weight in edges:
        row, column = numbers[first], numbers[second]
        both = {(row, column)} if directed else {(row, column), (column, row)}
        places += both
        weights += [float(weight) if isinstance(weight, Real) else math.nan] * len(both)
    ends = np.asarray(places, dtype=np.int64).reshape(-1, 2).T
    shape = (len(numbers), len(numbers))
    return coo_array((np.asarray(weights, dtype=np.float64), (ends[0], ends[1])), shape=shape)


def _from_matrix(source: Any, undirected: str, unweighted: str) -> Listed:  # noqa: ANN401 - as above
    """The edges of a symmetric matrix of 0 and 1; else what makes it one, if that is meant."""
    if len(source.shape) != 2 or source.shape[0] != source.shape[1]:
        raise InvalidArgumentError("adjacency", source.shape, "a square adjacency matrix")
    n, matrix = source.shape[0], source.tocoo(copy=True)
    matrix.sum_duplicates()
    weights = matrix.data[(matrix.data != 0) & (matrix.data != 1)]
    if weights.size:
        expected = (
            f"edges of weight 1, each once, as {_ALIKE}; if that is how reports are passed on, "
            f"take {unweighted}"
        )
        raise InvalidArgumentError("weight", weights[0].item(), expected)
    first, second = (ends[matrix.data != 0].astype(np.int64) for ends in (matrix.row, matrix.col))
    one_way = np.setdiff1d(first * n + second, second * n + first)
    if one_way.size:
        expected = (
            "an undirected graph; if reports may go along every edge in both directions, take "
            f"{undirected}"
        )
        shown = f"{one_way[0] // n} -> {one_way[0] % n} without its way back"
        raise InvalidArgumentError("adjacency", shown, expected)
    return Listed(np.column_stack([first, second])[first <= second], n)


def _from_npz(path: Path) -> Listed:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            edges = np.asarray(arrays["edges"])
            n = int(arrays["n"]) if "n" in arrays else None
            others = sorted({*arrays.files} - {"edges", "n"})
    except (KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise _no_graph(path, "arrays 'edges' and 'n'") from error
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise _no_graph(path, "an array 'edges' of two node numbers a row")
    notes = (f"ignored {', '.join(others)}: {_ALIKE}",) if others else ()
    return Listed(edges.astype(np.int64), n, notes=notes)


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
    notes = (f"ignored all but the first two columns: {_ALIKE}",) if columns > 2 else ()
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

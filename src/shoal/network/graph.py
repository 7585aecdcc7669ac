"""Who passes reports to whom: an undirected graph.

A loop counts once in its node's degree: a walk takes it like any other edge, and stays.

In files, text is one edge a line, two whole numbers apart by white space, commas or semicolons;
lines that begin with # or % are comments, and a first line of names is a header. Files may be
gzipped. An edge in a file joins both ways: lists do not say whether they mean a direction. SciPy
matrices and NetworkX graphs do, and have weights; where either matters they are refused.

>>> Graph.from_edges([[0, 1], [1, 2], [2, 0], [2, 3]]).degrees.tolist()
[2, 2, 3, 1]
"""

from __future__ import annotations

import gzip
import math
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array, issparse
from scipy.sparse.csgraph import connected_components

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.explain.text import plural
from shoal.values import Array, attributes

Nodes = npt.NDArray[np.int64]

_MOST_NODES = (1 << 31) - 1  # their numbers are kept in 32 bits
_COMMENTS = ("#", "%")
_SHOWN = 60  # characters of a line that is none
_UNDIRECTED = "networkx.to_scipy_sparse_array(networkx.Graph(graph), weight=None)"
_ALIKE = "every neighbour is drawn with the same probability"
_SOURCES = (
    "a SciPy sparse adjacency matrix (of a dense one: scipy.sparse.csr_array(adjacency)) or a "
    "NetworkX graph; Graph.from_edges takes rows of two node numbers, each an undirected edge"
)


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected, unweighted graph of nodes 0, ..., n − 1, in compressed rows.

    ``from_edges``, ``read`` and ``of`` make one. Theorems about walks need both ends of an
    edge to list each other: that is checked.

    Args:
        offsets: Where each node's neighbours begin; one more entry than nodes.
        neighbours: Those of node u are ``neighbours[offsets[u]:offsets[u + 1]]``, ascending.
        labels: The nodes' numbers in the file they came from.
        notes: What was changed while reading, in words.

    Raises:
        InvalidArgumentError: The rows are not those of an undirected graph.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 0)])
        >>> graph.n, graph.edges, graph.connected
        (3, 3, True)
    """

    offsets: Nodes
    neighbours: npt.NDArray[np.int32]
    labels: Nodes
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Rows ascend strictly, and the matrix is its own transpose.
        try:
            matrix = _matrix(self.offsets, self.neighbours)
            matrix.check_format()
            columns = matrix.tocsc()
            undirected = (
                np.array_equal(columns.indptr, self.offsets)
                and np.array_equal(columns.indices, self.neighbours)
                and bool(matrix.has_canonical_format)
            )
        except ValueError:
            undirected = False
        expected = "an undirected graph: each neighbour once, in ascending order, and mutual"
        shown = f"{len(self.neighbours)} in {self.n} rows"
        checks.refuse(not undirected, expected, neighbours=shown)

    @classmethod
    def from_edges(
        cls, edges: npt.ArrayLike, *, n: int | None = None, keep_loops: bool = False
    ) -> Graph:
        """The graph of rows (u, v), edges both ways: one listed twice, or as (v, u), is one."""
        rows = np.asarray(edges)
        if rows.size == 0:
            rows = np.empty((0, 2), dtype=np.int64)
        shown = f"{rows.dtype} of shape {rows.shape}"
        checks.refuse(not _is_edge_list(rows), "two node numbers a row", edges=shown)
        return _built(rows.astype(np.int64), n, keep_loops=keep_loops)

    @classmethod
    def read(
        cls, path: str | Path, *, largest_component: bool = False, keep_loops: bool = False
    ) -> Graph:
        """The graph in a file: lines of two node numbers, CSV, or .npz with ``edges`` (and ``n``).

        Every edge joins both ways, whichever end is listed first. Node numbers of text files need
        not be contiguous: they become ``labels``.
        """
        path = Path(path)
        checks.refuse(not path.is_file(), "a file that exists", path=str(path))
        listed = _from_npz(path) if path.suffix == ".npz" else _from_text(path)
        graph = _built(*listed, keep_loops=keep_loops)
        return graph.largest_component() if largest_component else graph

    @classmethod
    def of(cls, source: object, *, keep_loops: bool = False) -> Graph:
        """The graph of a SciPy sparse adjacency matrix, symmetric and of 0 and 1, or of NetworkX.

        Directed graphs and weights other than 1 are refused: reports go along edges both ways, to
        every neighbour with the same probability, and what is proved is proved for that.
        """
        if isinstance(source, cls):
            return source
        graph: Any = source  # NetworkX is not a dependency
        nodes, edges = getattr(graph, "nodes", None), getattr(graph, "edges", None)
        if issparse(graph):
            listed = _from_matrix(graph, "adjacency + adjacency.T > 0", "adjacency != 0")
        elif isinstance(nodes, Iterable) and isinstance(edges, Iterable):
            listed = _from_matrix(_adjacency(graph), _UNDIRECTED, _UNDIRECTED)
        else:
            raise InvalidArgumentError("source", type(graph).__name__, _SOURCES)
        return _built(*listed, keep_loops=keep_loops)

    def __repr__(self) -> str:
        return f"Graph({self.n} nodes, {self.edges} edges)"

    @property
    def n(self) -> int:
        """How many nodes."""
        return len(self.offsets) - 1

    @property
    def edges(self) -> int:
        """How many edges, loops among them."""
        return (len(self.neighbours) + int(self.loops.sum())) // 2

    @cached_property
    def degrees(self) -> Nodes:
        """How many neighbours each node has."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> npt.NDArray[np.int32]:
        """The node that each entry of ``neighbours`` is a neighbour of."""
        return np.repeat(np.arange(self.n, dtype=np.int32), self.degrees)

    @cached_property
    def loops(self) -> npt.NDArray[np.bool_]:
        """Which nodes are their own neighbours."""
        return np.bincount(self.rows[self.neighbours == self.rows], minlength=self.n) > 0

    @property
    def adjacency(self) -> csr_array:
        """The symmetric 0/1 matrix."""
        return self.weighted(np.ones(len(self.neighbours)))

    def weighted(self, weights: Array) -> csr_array:
        """A matrix with these numbers in the places of the edges."""
        return _matrix(self.offsets, self.neighbours, weights)

    @cached_property
    def stationary(self) -> Array:
        """π, the law that the simple walk keeps: proportional to the degree."""
        checks.refuse(not self.neighbours.size, "a graph with edges", graph=self)
        return self.degrees / int(self.degrees.sum())

    @property
    def irregularity(self) -> float:
        """Γ = n Σ π_i², 1 for a regular graph; ⟨d²⟩/⟨d⟩² in terms of degrees."""
        return float(self.n * np.square(self.stationary).sum())

    def summary(self) -> dict[str, object]:
        """Its size and degrees, as plain values."""
        return {
            **attributes(self, "n", "edges", "irregularity", "regular"),
            "fewest_neighbours": int(self.degrees.min()),
            "most_neighbours": int(self.degrees.max()),
            "bipartite": self.bipartite,
            "notes": list(self.notes),
        }

    @property
    def regular(self) -> bool:
        """Whether all nodes have as many neighbours."""
        return bool((self.degrees == self.degrees[0]).all())

    @cached_property
    def component_of(self) -> npt.NDArray[np.int32]:
        """The number of the component that each node is in."""
        return connected_components(_matrix(self.offsets, self.neighbours), directed=False)[1]

    @property
    def components(self) -> int:
        """How many components."""
        return int(self.component_of.max()) + 1

    @property
    def connected(self) -> bool:
        """Whether every node can be reached from every other."""
        return self.components == 1

    @cached_property
    def bipartite(self) -> bool:
        """Whether the nodes have two sides such that every edge joins one to the other.

        In the double cover, (u, side) is joined to (v, other side) for every edge; a component
        falls into two there exactly if it is bipartite.
        """
        offsets = np.concatenate([self.offsets, self.offsets[-1] + self.offsets[1:]])
        covers = np.concatenate([self.neighbours.astype(np.int64) + self.n, self.neighbours])
        double, _ = connected_components(_matrix(offsets, covers), directed=False)
        return bool(double == 2 * self.components)

    def largest_component(self) -> Graph:
        """The largest component, its nodes numbered anew; ``labels`` keep their names."""
        if self.connected:
            return self
        largest = np.bincount(self.component_of).argmax()
        nodes = np.flatnonzero(self.component_of == largest)
        part = _matrix(self.offsets, self.neighbours)[nodes][:, nodes]
        offsets, neighbours = part.indptr.astype(np.int64), part.indices.astype(np.int32)
        note = f"kept the largest of {self.components} components: {len(nodes)} of {self.n} nodes"
        return Graph(offsets, neighbours, self.labels[nodes], (*self.notes, note))


def node_numbers(nodes: npt.ArrayLike, n: int, *, name: str) -> Nodes:
    """Numbers of nodes of a graph of n, or an error naming the first that is none."""
    numbers = np.asarray(nodes)
    listed = numbers.ndim == 1 and numbers.dtype.kind in "iu"
    checks.refuse(not listed, "a list of node numbers", **{name: nodes})
    inside = (numbers >= 0) & (numbers < n)
    checks.every(inside, f"nodes 0, ..., {n - 1}", **{name: numbers})
    return numbers.astype(np.int64)


def simple_graph(
    n: int, edges: npt.NDArray[np.integer], labels: Nodes | None = None, notes: tuple[str, ...] = ()
) -> Graph:
    """The graph of edges known to be distinct, one row each."""
    first, second = edges[:, 0].astype(np.int32), edges[:, 1].astype(np.int32)
    loops = first == second
    ends = np.concatenate([first, second[~loops]]), np.concatenate([second, first[~loops]])
    matrix = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(n, n))
    matrix.sort_indices()
    offsets, neighbours = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return Graph(offsets, neighbours, np.arange(n) if labels is None else labels, notes)


def _is_edge_list(rows: npt.NDArray[Any]) -> bool:
    return rows.ndim == 2 and rows.shape[1] == 2 and rows.dtype.kind in "iu"


def _built(
    edges: Nodes,
    n: int | None,
    labels: Nodes | None = None,
    notes: tuple[str, ...] = (),
    *,
    keep_loops: bool,
) -> Graph:
    """The graph of edges as listed: each once, and what had to be dropped for that in the notes."""
    lowest, least = int(edges.min(initial=0)), int(edges.max(initial=0)) + 1
    checks.refuse(lowest < 0, "node numbers from 0 on", edges=lowest)
    n = least if n is None else checks.count(1, n=n)
    fits = least <= n <= _MOST_NODES
    checks.refuse(not fits, f"{least} <= n < 2^31, for the node numbers given", n=n)
    loops = edges[:, 0] == edges[:, 1]
    if loops.any() and not keep_loops:
        notes += (f"dropped {plural(int(loops.sum()), 'loop')}",)
        edges = edges[~loops]
    keys = np.unique(edges.min(axis=1) * n + edges.max(axis=1)) if edges.size else edges[:, 0]
    if len(keys) < len(edges):
        notes += (f"dropped {plural(len(edges) - len(keys), 'repeated edge')}",)
    return simple_graph(n, np.column_stack([keys // n, keys % n]), labels, notes)


def _matrix(
    offsets: Nodes, neighbours: npt.NDArray[np.integer], weights: Array | None = None
) -> csr_array:
    n, kind = len(offsets) - 1, np.int32 if offsets[-1] <= _MOST_NODES else np.int64
    data = np.ones(len(neighbours), dtype=np.int8) if weights is None else weights
    indices = neighbours.astype(kind, copy=False)
    return csr_array((data, indices, offsets.astype(kind)), shape=(n, n))


# --------------------------------------------------------------------- edges as they are listed


Listed = tuple[Nodes, int | None, Nodes | None, tuple[str, ...]]  # edges, n, labels, notes


def _adjacency(source: Any) -> coo_array:  # noqa: ANN401 - of NetworkX or SciPy
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


def _from_matrix(source: Any, undirected: str, unweighted: str) -> Listed:  # noqa: ANN401 - of NetworkX or SciPy
    """The edges of a symmetric matrix of 0 and 1; else what makes it one, if that is meant."""
    square = len(source.shape) == 2 and source.shape[0] == source.shape[1]
    checks.refuse(not square, "a square adjacency matrix", adjacency=source.shape)
    n, matrix = source.shape[0], source.tocoo(copy=True)
    matrix.sum_duplicates()
    weights = matrix.data[(matrix.data != 0) & (matrix.data != 1)]
    if weights.size:
        meant = f"if that is how reports are passed on, take {unweighted}"
        expected = f"edges of weight 1, each once, as {_ALIKE}; {meant}"
        raise InvalidArgumentError("weight", weights[0].item(), expected)
    first, second = (ends[matrix.data != 0].astype(np.int64) for ends in (matrix.row, matrix.col))
    one_way = np.setdiff1d(first * n + second, second * n + first)
    if one_way.size:
        meant = f"if reports may go along every edge in both directions, take {undirected}"
        shown = f"{one_way[0] // n} -> {one_way[0] % n} without its way back"
        raise InvalidArgumentError("adjacency", shown, f"an undirected graph; {meant}")
    return np.column_stack([first, second])[first <= second], n, None, ()


def _from_npz(path: Path) -> Listed:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            edges = np.asarray(arrays["edges"])
            n = int(arrays["n"]) if "n" in arrays else None
            others = sorted({*arrays.files} - {"edges", "n"})
    except (KeyError, OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise _no_graph(path, "arrays 'edges' and 'n'") from error
    if not _is_edge_list(edges):
        raise _no_graph(path, "an array 'edges' of two node numbers a row")
    notes = (f"ignored {', '.join(others)}: {_ALIKE}",) if others else ()
    return edges.astype(np.int64), n, None, notes


def _from_text(path: Path) -> Listed:
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8-sig") as file:
            lines = (line for line in file if line.strip() and line.lstrip()[0] not in _COMMENTS)
            first = next(lines, "")
            delimiter = next((mark for mark in ",;" if mark in first), None)
            if not _is_edge(first, delimiter):  # a header
                first = next(lines, "")
            if not first:
                raise _no_graph(path, "at least one edge")
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
    return numbers.reshape(-1, 2).astype(np.int64), len(labels), labels, notes


def _is_edge(line: str, delimiter: str | None) -> bool:
    ends = [field.strip().removeprefix("-") for field in line.split(delimiter)[:2]]
    return len(ends) == 2 and all(end.isascii() and end.isdigit() for end in ends)


def _no_graph(path: Path, expected: str, line: str | None = None) -> InvalidArgumentError:
    shown = "" if line is None else f": {line.strip()[:_SHOWN]}"
    return InvalidArgumentError("path", f"{path}{shown}", f"a graph file with {expected}")

"""Who takes part: everybody's key and neighbours, the same list for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidArgumentError
from shoal.sealing.keys import PublicKey

SERVER = (1 << 32) - 1  # the number that no peer has

Adjacency: TypeAlias = tuple[tuple[int, ...], ...]


@runtime_checkable
class CompressedRows(Protocol):
    """A graph in compressed rows, such as :class:`shoal.network.graph.Graph`.

    ``neighbours[offsets[u]:offsets[u + 1]]`` are the neighbours of u.
    """

    @property
    def offsets(self) -> npt.NDArray[np.integer]:
        """Where each node's neighbours begin, and where the last one's end."""

    @property
    def neighbours(self) -> npt.NDArray[np.integer]:
        """Everybody's neighbours, node after node."""


Neighbours: TypeAlias = Sequence[Sequence[int]] | CompressedRows


@dataclass(frozen=True)
class Directory:
    """The public list: peer i's key and neighbours, and the server's key.

    Its digest is part of the survey's name: whoever was given another list opens nothing, so nobody
    can be singled out by a list of their own.
    """

    keys: tuple[PublicKey, ...]
    neighbours: Adjacency
    server: PublicKey

    def __post_init__(self) -> None:
        if len(self.keys) != len(self.neighbours):
            raise InvalidArgumentError("keys", len(self.keys), f"{len(self.neighbours)} keys")

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, number: int) -> PublicKey:
        """The key of a peer, or of the server."""
        return self.server if number == SERVER else self.keys[number]

    @property
    def digest(self) -> str:
        """SHA-256 of the list, in hexadecimal digits."""
        digest = sha256(self.server.to_bytes())
        for key, neighbours in zip(self.keys, self.neighbours, strict=True):
            digest.update(key.to_bytes())
            digest.update(np.array([len(neighbours), *neighbours], dtype=">u4").tobytes())
        return digest.hexdigest()


def adjacency(graph: Neighbours) -> Adjacency:
    """Everybody's neighbours in increasing order, if they are an undirected graph.

    A node may be its own neighbour (a report then stays where it is), and must have at least one.

    >>> adjacency([[1], [2, 0], [1]])
    ((1,), (0, 2), (1,))
    """
    rows = tuple(tuple(sorted(int(other) for other in row)) for row in _rows(graph))
    neighbours = [frozenset(row) for row in rows]
    for node, row in enumerate(rows):
        if not row:
            raise InvalidArgumentError("graph", f"no neighbour of {node}", "a neighbour of each")
        if any(first == second for first, second in pairwise(row)):
            raise InvalidArgumentError("graph", f"{node}: {row}", "each neighbour once")
        for other in row:
            if not 0 <= other < len(rows) or node not in neighbours[other]:
                expected = "an undirected graph: both ends list each other"
                raise InvalidArgumentError("graph", f"{node} -> {other}", expected)
    return rows


def _rows(graph: Neighbours) -> list[Sequence[int]]:
    if isinstance(graph, CompressedRows):
        ends = [int(end) for end in graph.offsets]
        return [graph.neighbours[start:end].tolist() for start, end in pairwise(ends)]
    return list(graph)

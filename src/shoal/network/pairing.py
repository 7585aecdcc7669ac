"""Random pairings of half-edges, made simple by switches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from shoal.errors import UnreachableTargetError
from shoal.randomness import Randomness

Edges = npt.NDArray[np.int64]

_PATIENCE = 10_000  # draws for one switch, of which a quarter or more should do


def paired(n: int, degree: int, source: Randomness) -> Edges:
    """Edges of a simple graph in which every node has ``degree``, at most n/2, neighbours."""
    ends = source.permutation(n * degree) // max(degree, 1)
    edges = ends.reshape(-1, 2)
    keys = _keys(edges[:, 0], edges[:, 1], n)
    order = np.argsort(keys)
    ranked = keys[order]
    wrong = np.zeros(len(edges), dtype=np.bool_)
    wrong[order[1:]] = ranked[1:] == ranked[:-1]
    wrong |= edges[:, 0] == edges[:, 1]
    switching = _Switching(n, edges, ranked, source)
    for place in np.flatnonzero(wrong).tolist():
        switching.mend(place)
    return edges


class _Switching:
    """Replaces a pair ab and a random pair cd by ac and bd, if that makes two new edges."""

    def __init__(self, n: int, edges: Edges, ranked: Edges, source: Randomness) -> None:
        self._n, self._edges, self._ranked, self._source = n, edges, ranked, source
        self._changes: Counter[int] = Counter()  # since the keys were ranked

    def mend(self, place: int) -> None:
        a, b = self._edges[place].tolist()
        key = self._key(a, b)
        if a != b and self._multiplicity(key) == 1:
            return  # its twin has been switched away
        for _ in range(_PATIENCE):
            other = int(self._source.below(len(self._edges), 1)[0])
            c, d = self._edges[other].tolist()
            if other != place and self._switch(place, other, (a, b, c, d)):
                return
        raise UnreachableTargetError("a simple graph", "no switch was found", "draw again")

    def _switch(self, place: int, other: int, ends: tuple[int, int, int, int]) -> bool:
        a, b, c, d = ends
        new = self._key(a, c), self._key(b, d)
        if a == c or b == d or new[0] == new[1] or any(map(self._multiplicity, new)):
            return False
        self._changes.subtract([self._key(a, b), self._key(c, d)])
        self._changes.update(new)
        self._edges[place], self._edges[other] = (a, c), (b, d)
        return True

    def _multiplicity(self, key: int) -> int:
        low, high = np.searchsorted(self._ranked, key), np.searchsorted(self._ranked, key, "right")
        return int(high - low) + self._changes[key]

    def _key(self, a: int, b: int) -> int:
        return min(a, b) * self._n + max(a, b)


def _keys(first: Edges, second: Edges, n: int) -> Edges:
    return np.minimum(first, second) * n + np.maximum(first, second)

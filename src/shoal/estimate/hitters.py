"""The texts that many people hold, from the shuffled cells of a prefix tree.

Level by level, all extensions of the prefixes found so far are tried; last come the whole texts.
See :mod:`shoal.protocols.detection` for how a text is told from chance, and why no assumption
about the data is needed for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.estimate.candidates import Tables, level_cells
from shoal.protocols.detection import Background, Detector
from shoal.protocols.prefix_plan import Errors, Shape
from shoal.protocols.prefixes import BETA, PrefixMechanism
from shoal.protocols.strings import Codes
from shoal.values import Array, Batch, Counts

_MOST_TRIED = 1 << 30  # extensions of prefixes on one level


@dataclass(frozen=True, eq=False)
class HeavyHitters:
    """Texts that many hold, the most frequent first, with estimated numbers of holders.

    With probability ``1 - beta`` at least, over the noise and the hash tables, both are true: every
    text with at least ``threshold`` holders is listed, and every text listed has holders.
    ``thresholds[d - 1]`` is the threshold of texts with d levels, that is of less than
    ``cuts[d - 1]`` bytes; ``threshold`` is the largest, that of the longest. If ``complete`` is
    False, more prefixes stood out than could be followed: then frequent texts may be missing.
    """

    texts: tuple[str, ...]
    counts: Array
    standard_errors: Array
    n: int
    beta: float
    thresholds: tuple[float, ...]
    cuts: tuple[int, ...]
    complete: bool = True

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def threshold(self) -> float:
        """Every text with at least so many holders is listed."""
        return max(self.thresholds)

    @property
    def frequencies(self) -> Array:
        """Estimated shares of people."""
        return self.counts / self.n

    @property
    def longest(self) -> tuple[int, ...]:
        """The most bytes of a text that each of the thresholds is for."""
        return (*(cut - 1 for cut in self.cuts[:-1]), self.cuts[-1])

    def threshold_of(self, symbols: int) -> float:
        """The threshold of texts of so many symbols (bytes)."""
        place = int(np.searchsorted(self.cuts[:-1], symbols, side="right"))
        return self.thresholds[place]

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Confidence limits of each number of holders."""
        checks.open_probability(level=level)
        reach = NormalDist().inv_cdf((1 + level) / 2) * self.standard_errors
        return np.maximum(self.counts - reach, 0.0), self.counts + reach


def heavy_hitters(
    mechanism: PrefixMechanism, batch: Batch | Counts, *, beta: float = BETA
) -> HeavyHitters:
    """Find the texts that many hold."""
    checks.open_probability(beta=beta)
    counts = mechanism.counted(batch)
    if counts.cells.shape != (mechanism.tree.k,):
        expected = f"counts of the tree's {mechanism.tree.k} cells"
        raise InvalidArgumentError("batch", counts.cells.shape, expected)
    return _Search.of(mechanism, counts, beta).result()


@dataclass(frozen=True, eq=False)
class _Search:
    mechanism: PrefixMechanism
    counts: Counts
    shape: Shape
    errors: Errors

    @classmethod
    def of(cls, mechanism: PrefixMechanism, counts: Counts, beta: float) -> _Search:
        tree = mechanism.tree
        errors = Errors(counts.n, beta, tree.levels, mechanism.keep)
        return cls(mechanism, counts, Shape(tree.alphabet, tree.cuts), errors)

    def result(self) -> HeavyHitters:
        """All levels, then the whole texts that each of them ends in."""
        tree = self.mechanism.tree
        parents = [np.zeros((1, 0), dtype=np.uint8)]
        inner: list[float] = []
        complete = True
        for level in range(tree.levels - 1):
            found, needed, whole = self._inner(level, parents[-1])
            parents.append(found)
            inner.append(needed)
            complete = complete and whole
        rows, needed_whole = [], []
        for level, prefixes in enumerate(parents):
            found, needed = self._whole(level, prefixes)
            rows.append(found)
            needed_whole.append(needed)
        return self._listed(
            np.concatenate(rows), self.errors.thresholds(inner, needed_whole), complete=complete
        )

    def _background(self, level: int) -> Background:
        tables = level_cells(self.mechanism.tree, level, self.counts.cells)
        return Background.seen(tables, noise=self.mechanism.noise(self.counts.n))

    def _inner(self, level: int, parents: Codes) -> tuple[Codes, float, bool]:
        """Prefixes of a level that stand out, the messages it takes, and whether these are all."""
        added = self.shape.added(level)
        candidates = self.shape.inner_candidates(level, len(parents))
        background = self._background(level)
        found = self.errors.inner(background, level=level, candidates=candidates)
        if found is None or not len(parents):
            return np.zeros((0, self.shape.cuts[level]), dtype=np.uint8), math.inf, True
        rows, scores = self._tables(level, found).passing(parents, added)
        following = self.shape.added(level + 1)
        most = int(_MOST_TRIED // float(self.shape.alphabet.size) ** following)
        if len(rows) > most:
            best = np.argsort(-scores, kind="stable")[:most]
            return rows[best], found.signal, False
        return rows, found.signal, True

    def _whole(self, level: int, parents: Codes) -> tuple[Codes, float]:
        """Whole texts below the prefixes of the level before, and the messages it takes."""
        tree = self.mechanism.tree
        last = tree.levels - 1
        candidates = self.shape.whole_candidates(level, max(1, len(parents)))
        background = self._background(last)
        found = self.errors.whole(background, depth=level + 1, candidates=candidates)
        if found is None:
            return np.zeros((0, tree.length), dtype=np.uint8), math.inf
        tables = self._tables(last, found)
        rows = [np.zeros((0, tree.length), dtype=np.uint8)]
        for added in self.shape.endings(level) if len(parents) else ():
            kept, _ = tables.passing(parents, added)
            rows.append(np.pad(kept, ((0, 0), (0, tree.length - kept.shape[1]))))
        return np.concatenate(rows), found.signal

    def _tables(self, level: int, found: Detector) -> Tables:
        return Tables.of(self.mechanism.tree, level, self.counts.cells, found)

    def _listed(
        self, rows: Codes, thresholds: tuple[float, ...], *, complete: bool
    ) -> HeavyHitters:
        counts, deviations = _estimates(self.mechanism, self.counts, rows)
        order = np.argsort(-counts, kind="stable")
        return HeavyHitters(
            texts=self.mechanism.tree.alphabet.texts(rows[order]),
            counts=counts[order],
            standard_errors=deviations[order],
            n=self.counts.n,
            beta=self.errors.beta,
            thresholds=thresholds,
            cuts=self.mechanism.tree.cuts,
            complete=complete,
        )


def _estimates(mechanism: PrefixMechanism, counts: Counts, rows: Codes) -> tuple[Array, Array]:
    """Numbers of holders and their standard errors, from the tables of whole texts.

    A table counts for a text unless another text listed has the same cell; if that leaves less than
    half of the tables, all of them count. The cells of no text listed say what a cell holds by
    itself and how much that varies.
    """
    tree = mechanism.tree
    tables = level_cells(tree, tree.levels - 1, counts.cells)
    first = tree.firsts[-1]
    excess = np.zeros((len(tables), len(rows)))
    spread = np.zeros(len(tables))
    shared = np.zeros((len(tables), len(rows)), dtype=bool)
    for table, cells in enumerate(tables):
        at = tree.cell_of(rows, np.full(len(rows), first + table)) - tree.starts[first + table]
        free = np.ones(cells.size, dtype=bool)
        free[at] = False
        rest = cells[free] if free.any() else cells
        excess[table] = cells[at] - rest.mean()
        spread[table] = rest.var()
        shared[table] = np.bincount(at, minlength=cells.size)[at] > 1
    used = ~shared
    used[:, used.sum(axis=0) * 2 < len(tables)] = True
    return _scaled(mechanism, rows, np.where(used, excess, 0.0).sum(axis=0), used, spread)


def _scaled(
    mechanism: PrefixMechanism, rows: Codes, seen: Array, used: npt.NDArray[np.bool_], spread: Array
) -> tuple[Array, Array]:
    tree = mechanism.tree
    share = used.sum(axis=0) / len(spread) / tree.depths(rows)  # of a text's people, sent here
    chance = share * mechanism.keep
    found = seen / chance
    sampled = np.maximum(found, 0.0) * chance * (1 - chance)
    deviations = np.sqrt(sampled + spread @ used) / chance
    return found, deviations

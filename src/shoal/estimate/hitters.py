"""The texts that many people hold, from the shuffled cells of a prefix tree.

Level by level, all extensions of the prefixes found so far are tried; last come the whole texts.
See :mod:`shoal.protocols.detection` for how a text is told from chance, whatever people hold.
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
from shoal.protocols.detection import Background, Detector, Ladder
from shoal.protocols.prefixes import BETA, PrefixMechanism, Prospect
from shoal.protocols.tree import Codes
from shoal.values import Array, Batch, Counts


@dataclass(frozen=True, eq=False)
class HeavyHitters:
    """Texts that many hold, the most frequent first, with estimated numbers of holders.

    With probability ``1 - beta`` at least, over the noise and the hash tables and whatever people
    hold, both are true: every text listed has holders, and all texts with at least ``threshold``
    holders are listed or ``complete`` is False. ``thresholds[d - 1]`` is the threshold of texts
    with d levels, that is of less than ``cuts[d - 1]`` bytes; ``threshold`` is the largest, that of
    the longest. They depend on the data, and are at most what
    :meth:`~shoal.protocols.prefixes.PrefixMechanism.thresholds` states without them.

    If ``complete`` is False, more prefixes stood out than are followed: frequent texts may be
    missing.
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
    return _Search(mechanism, counts, mechanism.prospect(counts.n, beta=beta)).result()


@dataclass(frozen=True, eq=False)
class _Search:
    mechanism: PrefixMechanism
    counts: Counts
    prospect: Prospect

    def result(self) -> HeavyHitters:
        """All levels, then the whole texts that each of them ends in."""
        tree = self.mechanism.tree
        inner, whole = self.prospect.ladders(tree)
        parents = [np.zeros((1, 0), dtype=np.uint8)]
        signals: list[float] = []
        complete = True
        for level, detectors in enumerate(inner):
            prefixes, signal, all_of_them = self._inner(level, detectors, parents[-1])
            parents.append(prefixes)
            signals.append(signal)
            complete = complete and all_of_them
        background = self._background(tree.levels - 1)
        listed = [
            self._whole(depth, detectors, background, prefixes)
            for depth, (detectors, prefixes) in enumerate(zip(whole, parents, strict=True), start=1)
        ]
        rows = np.concatenate([texts for texts, _ in listed])
        thresholds = self.prospect.thresholds(signals, [signal for _, signal in listed])
        return self._listed(rows, thresholds, complete=complete)

    def _background(self, level: int) -> Background:
        return Background.of(level_cells(self.mechanism.tree, level, self.counts.cells))

    def _inner(self, level: int, detectors: Ladder, parents: Codes) -> tuple[Codes, float, bool]:
        """Prefixes of a level that stand out, the messages it takes, and whether these are all."""
        prospect = self.prospect
        false = self.prospect.inner_false(level, max(1, len(parents)))
        detector = detectors.chosen(self._background(level), false=false)
        if detector is None:
            return np.zeros((0, prospect.cuts[level]), dtype=np.uint8), math.inf, True
        rows, scores = self._tables(level, detector).passing(parents, prospect.added(level))
        most = self.prospect.followed(level, detectors)
        best = np.argsort(-scores, kind="stable")[:most]
        return rows[best], detector.signal, len(rows) <= most

    def _whole(
        self, depth: int, detectors: Ladder, background: Background, parents: Codes
    ) -> tuple[Codes, float]:
        """Whole texts below the prefixes of the level before, and the messages it takes."""
        tree = self.mechanism.tree
        false = self.prospect.whole_false(depth, max(1, len(parents)), chosen=True)
        detector = detectors.chosen(background, false=false)
        rows = [np.zeros((0, tree.length), dtype=np.uint8)]
        if detector is None:
            return rows[0], math.inf
        tables = self._tables(tree.levels - 1, detector)
        for added in self.prospect.endings(depth - 1) if len(parents) else ():
            texts, _ = tables.passing(parents, added)
            rows.append(np.pad(texts, ((0, 0), (0, tree.length - texts.shape[1]))))
        return np.concatenate(rows), detector.signal

    def _tables(self, level: int, detector: Detector) -> Tables:
        return Tables.of(self.mechanism.tree, level, self.counts.cells, detector)

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
            beta=self.prospect.beta,
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

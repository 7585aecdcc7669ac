"""The texts that many people hold, from the shuffled cells of a prefix tree.

Level by level, all extensions of the prefixes found so far are tried; last come the whole texts.
See :mod:`shoal.mechanisms.detection` for how a text stands out from noise, whatever people hold.

Extensions are tried against the tables of a level in pieces that fit a cache: the scores of a
text's cells add up table by table, and a text is dropped as soon as even the highest scores in the
tables that are left would not let it pass: nothing that passes is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.intervals.estimates import VectorEstimate
from shoal.mechanisms.detection import Background, Detector
from shoal.mechanisms.prefixes import BETA, Codes, PrefixMechanism, PrefixTree, Words
from shoal.values import Array, Batch, Counts

Indices = npt.NDArray[np.int64]

_PIECE = 1 << 18
_MOST_TAILS = 1 << 16
_SPARSE = 4


@dataclass(frozen=True, eq=False)
class HeavyHitters:
    """Texts that many hold, the most frequent first: what ``heavy_hitters`` finds in a batch.

    With probability 1 − beta at least, over the noise and the hash tables and whatever people
    hold, both are true: every text listed has holders, and all texts with at least
    ``threshold`` holders are listed or ``complete`` is False. Thresholds depend on the data, and
    are at most what ``thresholds`` of the mechanism states without them. An example is at
    :func:`shoal.estimate.hitters.heavy_hitters`.

    Attributes:
        texts: The texts.
        counts: Estimated numbers of holders.
        standard_errors: Of the counts.
        n: How many people reported.
        beta: Probability with which the list may be wrong.
        thresholds: Those of texts with 1, 2, ... levels.
        cuts: A text with d levels has less than ``cuts[d - 1]`` bytes.
        complete: If not, more prefixes stood out than are followed: frequent texts may be
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
        """Estimated fractions of people."""
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
        low, high = VectorEstimate(self.counts, self.standard_errors, self.n).interval(level)
        return np.maximum(low, 0.0), high


def heavy_hitters(
    mechanism: PrefixMechanism, batch: Batch | Counts, *, beta: float = BETA
) -> HeavyHitters:
    """Find the texts that many hold: level by level, then the whole texts.

    Args:
        mechanism: What devices ran.
        batch: Their shuffled messages, or the counts of them.
        beta: Probability in (0, 1) with which the list may be wrong.

    Returns:
        The texts, most frequent first, and from how many holders on none is missing.

    Raises:
        InvalidArgumentError: Counts of another tree, or ``beta`` out of its range.

    Example:
        >>> from shoal.mechanisms.prefixes import PrefixDummies
        >>> from shoal.randomness import simulated
        >>> target = {"n": 5_000, "epsilon": 1.0, "delta": 1e-6}
        >>> made = PrefixDummies.calibrated(**target, length=2, alphabet="ab")
        >>> texts = ["a"] * 3_000 + ["b"] * 2_000
        >>> counts = made.tally(made.randomize(texts, randomness=simulated(1)))
        >>> heavy_hitters(made, counts).texts
        ('a', 'b')
    """
    checks.open_probability(beta=beta)
    sent, tree = mechanism.counted(batch), mechanism.tree
    shape, last = sent.cells.shape, tree.levels - 1
    checks.refuse(shape != (tree.k,), f"counts of the tree's {tree.k} cells", batch=shape)
    prospect = mechanism.prospect(sent.n, beta=beta)
    inner, whole = prospect.ladders(tree)
    parents = [np.zeros((1, 0), dtype=np.uint8)]
    signals: list[float] = []  # the messages that it takes on each level
    complete = True
    for level, detectors in enumerate(inner):
        cells = level_cells(tree, level, sent.cells)
        false = prospect.inner_false(level, max(1, len(parents[-1])))
        detector = detectors.chosen(Background.of(cells), false=false)
        rows = np.zeros((0, tree.cuts[level]), dtype=np.uint8)
        if detector is not None:
            tables = Tables(tree, level, cells, detector)
            rows, scores = tables.passing(parents[-1], prospect.added(level))
            most = prospect.followed(level, detectors)
            complete = complete and len(rows) <= most
            rows = rows[np.argsort(-scores, kind="stable")[:most]]
        parents.append(rows)
        signals.append(math.inf if detector is None else detector.signal)
    cells = level_cells(tree, last, sent.cells)
    background = Background.of(cells)
    texts = [np.zeros((0, tree.length), dtype=np.uint8)]
    ends: list[float] = []  # the messages that whole texts take, by how many levels they have
    for depth, (detectors, prefixes) in enumerate(zip(whole, parents, strict=True), start=1):
        false = prospect.whole_false(depth, max(1, len(prefixes)), chosen=True)
        detector = detectors.chosen(background, false=false)
        ends.append(math.inf if detector is None else detector.signal)
        if detector is not None and len(prefixes):
            tables = Tables(tree, last, cells, detector)
            for added in prospect.endings(depth - 1):
                rows, _ = tables.passing(prefixes, added)
                texts.append(np.pad(rows, ((0, 0), (0, tree.length - rows.shape[1]))))
    rows = np.concatenate(texts)
    counts, deviations = _estimates(mechanism, sent, rows)
    order = np.argsort(-counts, kind="stable")
    return HeavyHitters(
        texts=tree.alphabet.texts(rows[order]),
        counts=counts[order],
        standard_errors=deviations[order],
        n=sent.n,
        beta=beta,
        thresholds=prospect.thresholds(signals, ends),
        cuts=tree.cuts,
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
    fraction = used.sum(axis=0) / len(spread) / tree.depths(rows)  # of a text's people, sent here
    probability = fraction * mechanism.keep
    holders = np.where(used, excess, 0.0).sum(axis=0) / probability
    sampled = np.maximum(holders, 0.0) * probability * (1 - probability)
    return holders, np.sqrt(sampled + spread @ used) / probability


class Tables:
    """The cells of one level of a tree, scored by a detector."""

    def __init__(
        self, tree: PrefixTree, level: int, cells: list[Indices], detector: Detector
    ) -> None:
        first = tree.firsts[level]
        self.alphabet, self.shift = tree.alphabet.size, tree.shifts[first]
        self.words = tree.words[first : first + len(cells)]
        self.scores = [detector.scored(table) for table in cells]
        self.least, self.largest = detector.least, detector.largest

    def passing(self, parents: Codes, added: int) -> tuple[Codes, Indices]:
        """The extensions by ``added`` symbols that pass, as whole rows, and their scores.

        What follows the symbols added is the end of the text, or nothing if the level ends there.
        """
        size, start = self.alphabet, parents.shape[1]
        end = start + added
        while size ** (end - start) > _MOST_TAILS:  # too many at once: some count as parents
            parents = extended(parents, size)
            start += 1
        tails = np.zeros((1, 0), dtype=np.uint8)
        for _ in range(end - start):
            tails = extended(tails, size)
        bases, offsets = self._hashes(parents, 0), self._hashes(tails, start)
        offsets ^= np.bitwise_xor.reduce(self.words[:, end:, 0], axis=1)[:, None]  # the text's end
        step = max(1, _PIECE // len(tails))
        pieces = [(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))]
        for first in range(0, len(parents), step):
            numbers, scores = self._piece(bases[:, first : first + step], offsets)
            pieces.append((numbers + first * len(tails), scores))
        numbers, scores = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        rows = np.concatenate([parents[numbers // len(tails)], tails[numbers % len(tails)]], axis=1)
        return rows, scores

    def _hashes(self, rows: Codes, start: int) -> Words:
        """Each table's hash of rows that begin at a place."""
        hashed = np.zeros((len(self.scores), len(rows)), dtype=np.uint32)
        for place in range(rows.shape[1]):
            hashed ^= self.words[:, start + place, rows[:, place]]
        return hashed

    def _piece(self, bases: Words, offsets: Words) -> tuple[Indices, Indices]:
        """Numbers (parent times tails plus tail) of texts that pass, and their scores."""
        tails = offsets.shape[1]
        total = np.zeros(bases.shape[1] * tails, dtype=np.int16)
        alive: Indices | None = None
        for table, scores in enumerate(self.scores):
            if alive is None:
                hashed = (bases[table][:, None] ^ offsets[table][None, :]).ravel()
            else:
                hashed = bases[table][alive // tails] ^ offsets[table][alive % tails]
            total += scores[hashed >> self.shift]
            needed = self.least - self.largest * (len(self.scores) - 1 - table)
            possible = total >= needed
            if alive is None and np.count_nonzero(possible) * _SPARSE > possible.size:
                continue
            alive = np.flatnonzero(possible) if alive is None else alive[possible]
            total = total[possible]
        if alive is None:
            alive = np.flatnonzero(total >= self.least)
            total = total[alive]
        return alive, total.astype(np.int64)


def level_cells(tree: PrefixTree, level: int, cells: Indices) -> list[Indices]:
    """The counts of each table of a level."""
    first = tree.firsts[level]
    ends = tree.starts[first : first + tree.tables[level] + 1]
    return [cells[start:end] for start, end in pairwise(ends.tolist())]


def extended(rows: Codes, size: int) -> Codes:
    """Every row followed by every symbol."""
    symbols = np.tile(np.arange(1, size + 1, dtype=np.uint8), len(rows))
    return np.concatenate([np.repeat(rows, size, axis=0), symbols[:, None]], axis=1)

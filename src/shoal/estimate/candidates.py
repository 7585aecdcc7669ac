"""Trying out all extensions of prefixes against the tables of a level, in pieces that fit a cache.

The scores of a text's cells add up table by table, and a text is dropped as soon as even the
highest scores in the tables that are left would not let it pass: nothing that passes is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from shoal.protocols.detection import Detector
from shoal.protocols.tree import Codes, PrefixTree, Words

Indices = npt.NDArray[np.int64]

_PIECE = 1 << 18
_MOST_TAILS = 1 << 16
_SPARSE = 4


@dataclass(frozen=True, eq=False)
class Tables:
    """The cells of one level of a tree, scored by a detector."""

    tree: PrefixTree
    level: int
    scores: list[npt.NDArray[np.int16]]
    least: int
    largest: int

    @classmethod
    def of(cls, tree: PrefixTree, level: int, cells: Indices, found: Detector) -> Tables:
        """All counts of a batch, of which this level's are taken."""
        scores = [found.scored(table) for table in level_cells(tree, level, cells)]
        return cls(tree, level, scores, found.least, found.largest)

    @property
    def _words(self) -> Words:
        first = self.tree.firsts[self.level]
        return self.tree.words[first : first + len(self.scores)]

    def passing(self, parents: Codes, added: int) -> tuple[Codes, Indices]:
        """The extensions by ``added`` symbols that pass, as whole rows, and their scores.

        What follows the symbols added is the end of the text, or nothing if the level ends there.
        """
        size = self.tree.alphabet.size
        start = parents.shape[1]
        end = start + added
        while size ** (end - start) > _MOST_TAILS:  # too many at once: some count as parents
            parents = extended(parents, size)
            start += 1
        tails = _tails(size, end - start)
        bases, offsets = self._hashes(parents, 0), self._hashes(tails, start)
        offsets ^= self._rest(end)[:, None]
        kept, scores = self._search(bases, offsets)
        rows = np.concatenate([parents[kept // len(tails)], tails[kept % len(tails)]], axis=1)
        return rows, scores

    def _hashes(self, rows: Codes, start: int) -> Words:
        """Each table's hash of rows that begin at a place."""
        hashed = np.zeros((len(self.scores), len(rows)), dtype=np.uint32)
        words = self._words
        for place in range(rows.shape[1]):
            hashed ^= words[:, start + place, rows[:, place]]
        return hashed

    def _rest(self, end: int) -> Words:
        """Each table's hash of the end of a text from a place on."""
        rest: Words = np.bitwise_xor.reduce(self._words[:, end:, 0], axis=1)
        return rest

    def _search(self, bases: Words, offsets: Words) -> tuple[Indices, Indices]:
        """Numbers (parent times tails plus tail) of texts that pass, and their scores."""
        tails = offsets.shape[1]
        step = max(1, _PIECE // tails)
        kept = [np.zeros(0, dtype=np.int64)]
        scores = [np.zeros(0, dtype=np.int64)]
        for start in range(0, bases.shape[1], step):
            found, scored = self._piece(bases[:, start : start + step], offsets)
            kept.append(found + start * tails)
            scores.append(scored)
        return np.concatenate(kept), np.concatenate(scores)

    def _piece(self, bases: Words, offsets: Words) -> tuple[Indices, Indices]:
        shift = self.tree.shifts[self.tree.firsts[self.level]]
        tails = offsets.shape[1]
        total = np.zeros(bases.shape[1] * tails, dtype=np.int16)
        alive: Indices | None = None
        for table, scores in enumerate(self.scores):
            if alive is None:
                hashed = (bases[table][:, None] ^ offsets[table][None, :]).ravel()
            else:
                hashed = bases[table][alive // tails] ^ offsets[table][alive % tails]
            total += scores[hashed >> shift]
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


def _tails(size: int, symbols: int) -> Codes:
    """All texts of so many symbols."""
    tails = np.zeros((1, 0), dtype=np.uint8)
    for _ in range(symbols):
        tails = extended(tails, size)
    return tails

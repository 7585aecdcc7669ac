"""How a prefix tree is laid out: cuts, tables and cells, and what can then be found.

Messages pay for cells, for each cell has its share of noise. More tables make chance collisions
rarer and spread what a text sends more thinly; more cells per table keep texts apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shoal.errors import InvalidArgumentError
from shoal.protocols.detection import Background, Detector, detector
from shoal.protocols.strings import Alphabet
from shoal.protocols.tree import MOST_LEVELS, PrefixTree

PARENTS = 512  # prefixes that are followed at a time, in the plan
MOST_FIRST = 1 << 25  # prefixes tried on the first level
MOST_CHILDREN = 1 << 16  # prefixes tried below one
STRAYS = 64.0  # prefixes of nobody that are followed on a level, on average
_WHOLE_SHARES = (0.5, 0.65, 0.8)
_WHOLE_TABLES = (5, 20)
_INNER_TABLES = (3, 16)
_FEWEST_BUCKETS = 16
_MOST_BITS = 24

Made = Callable[[Background], Detector | None]


@dataclass(frozen=True)
class Shape:
    """What is cut from the texts, before it is said how many cells there are."""

    alphabet: Alphabet
    cuts: tuple[int, ...]

    @classmethod
    def of(cls, alphabet: Alphabet) -> Shape:
        """The longest prefixes whose extensions can all be tried.

        >>> Shape.of(Alphabet.of("abcdefghijklmnopqrstuvwxyz012345", length=12)).cuts
        (5, 8, 11, 12)
        """
        first = _most_symbols(alphabet.size, MOST_FIRST)
        step = _most_symbols(alphabet.size, MOST_CHILDREN)
        if alphabet.length > (longest := first + (MOST_LEVELS - 1) * step):
            expected = f"length <= {longest} with {alphabet.size} symbols"
            raise InvalidArgumentError("length", alphabet.length, expected)
        return cls(alphabet, (*range(first, alphabet.length, step), alphabet.length))

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return len(self.cuts)

    def added(self, level: int) -> int:
        """By how many symbols a prefix of this level is longer than that of the one before."""
        return self.cuts[level] - (self.cuts[level - 1] if level else 0)

    def endings(self, level: int) -> range:
        """By how many symbols whole texts are longer than a prefix of the level before."""
        return range(self.added(level) + (level == self.levels - 1))

    def inner_candidates(self, level: int, parents: float) -> float:
        """Prefixes to be tried on an inner level."""
        return parents * float(self.alphabet.size) ** self.added(level)

    def whole_candidates(self, level: int, parents: float) -> float:
        """Whole texts to be tried that end before this level's cut."""
        return parents * sum(float(self.alphabet.size) ** added for added in self.endings(level))


@dataclass(frozen=True)
class Errors:
    """What may go wrong: with chance ``beta`` in all, half of it that a text is missed.

    A text of c of the n people has a share c/n of that half, since all c together are n at most,
    and the same on each level that it has to pass.
    """

    n: int
    beta: float
    levels: int
    keep: float

    def inner(self, background: Background, *, level: int, candidates: float) -> Detector | None:
        """The detector of an inner level; its texts have ``level + 2`` levels at least."""
        return self._detector(background, depth=level + 2, false=STRAYS / max(candidates, 1.0))

    def whole(self, background: Background, *, depth: int, candidates: float) -> Detector | None:
        """The detector of whole texts that have ``depth`` levels."""
        false = self.beta / (2 * self.levels * max(candidates, 1.0))
        return self._detector(background, depth=depth, false=false)

    def _detector(self, background: Background, *, depth: int, false: float) -> Detector | None:
        share = self.beta / 2 / self.levels * depth / self.keep / self.n
        return detector(
            background,
            false=false,
            missed=lambda signal: share * signal,
            most=self.n * self.keep / depth,
        )

    def thresholds(self, inner: list[float], whole: list[float]) -> tuple[float, ...]:
        """In people, by the number of levels: a text's messages go to all of its levels alike."""
        return tuple(
            depth * max([last, *inner[: depth - 1]]) / self.keep
            for depth, last in enumerate(whole, start=1)
        )


@dataclass(frozen=True)
class Prospect:
    """What can be found among n people, whatever they hold.

    The other texts are taken to be groups of one size, the worst there is, and to send all their
    messages to the level in question.
    """

    shape: Shape
    errors: Errors
    noise: float

    def thresholds(self, tree: PrefixTree) -> tuple[float, ...]:
        """The number of holders from which on a text is found, by how many levels it has."""
        sizes = list(zip(tree.tables, tree.buckets, strict=True))
        inner = [self.inner(level, *size) for level, size in enumerate(sizes[:-1])]
        whole = [self.whole(depth, *sizes[-1]) for depth in range(1, tree.levels + 1)]
        return self.errors.thresholds(inner, whole)

    def inner(self, level: int, tables: int, buckets: int) -> float:
        """Messages of a prefix that passes its level."""
        candidates = self.shape.inner_candidates(level, PARENTS if level else 1)

        def made(background: Background) -> Detector | None:
            return self.errors.inner(background, level=level, candidates=candidates)

        return self._worst(made, tables, buckets, share=1 / (level + 2))

    def whole(self, depth: int, tables: int, buckets: int) -> float:
        """Messages of a whole text that passes."""
        candidates = self.shape.whole_candidates(depth - 1, PARENTS if depth > 1 else 1)

        def made(background: Background) -> Detector | None:
            return self.errors.whole(background, depth=depth, candidates=candidates)

        return self._worst(made, tables, buckets, share=1.0)

    def _worst(self, made: Made, tables: int, buckets: int, *, share: float) -> float:
        needed, group = 0.0, max(1.0, math.sqrt(self.noise))
        while group * tables <= 2 * needed or not needed:  # larger ones are frequent themselves
            background = Background.expected(
                tables=tables,
                buckets=buckets,
                noise=self.noise,
                others=self.errors.n * self.errors.keep * share / tables,
                group=group,
            )
            found = made(background)
            if found is None:
                return math.inf
            needed, group = max(needed, found.signal), 2 * group
        return needed


def planned(prospect: Prospect, *, cells: float, hash_key: int) -> tuple[PrefixTree, float] | None:
    """The layout within so many cells that finds the rarest of the longest texts, and how rare.

    None if there are too few cells for any.
    """
    shape, last = prospect.shape, prospect.shape.levels
    best: tuple[PrefixTree, float] | None = None
    for share in _WHOLE_SHARES if last > 1 else (1.0,):
        wholes = [(prospect.whole(last, *size), size) for size in _sizes(share * cells)]
        inners = [
            (_inner(prospect, tables, buckets), (tables, buckets))
            for tables, buckets in _inner_sizes(last - 1, (1 - share) * cells)
        ]
        if not wholes or not inners:
            continue
        (whole, (tables, buckets)), (inner, (each, sizes)) = min(wholes), min(inners)
        found = prospect.errors.thresholds([inner] * (last - 1), [whole] * last)[-1]
        if best is None or found < best[1]:
            tree = PrefixTree(
                alphabet=shape.alphabet,
                cuts=shape.cuts,
                tables=(*[each] * (last - 1), tables),
                buckets=(*sizes, buckets),
                hash_key=hash_key,
            )
            best = tree, found
    return best


def fewest_cells(shape: Shape) -> float:
    """The least number of cells for which there is a layout."""
    whole = _WHOLE_TABLES[0] * _FEWEST_BUCKETS
    if shape.levels == 1:
        return float(whole)
    inner = _INNER_TABLES[0] * sum(_shrinking(shape.levels - 1, _FEWEST_BUCKETS))
    return min(max(whole / share, inner / (1 - share)) for share in _WHOLE_SHARES)


def _inner(prospect: Prospect, tables: int, buckets: tuple[int, ...]) -> float:
    """Messages that pass the inner levels; the worst of them are tried."""
    tried = {0, 2, len(buckets) - 1} & set(range(len(buckets)))
    return max((prospect.inner(level, tables, buckets[level]) for level in tried), default=0.0)


def _sizes(cells: float) -> Iterator[tuple[int, int]]:
    """Tables and cells of each, for whole texts."""
    for bits in range(_FEWEST_BUCKETS.bit_length() - 1, _MOST_BITS):
        tables = int(cells / (1 << bits))
        if _WHOLE_TABLES[0] <= tables <= _WHOLE_TABLES[1]:
            yield tables, 1 << bits


def _inner_sizes(levels: int, cells: float) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Tables of each inner level, and their cells on every level."""
    if not levels:
        yield 0, ()
        return
    for bits in range(_FEWEST_BUCKETS.bit_length() - 1, _MOST_BITS):
        buckets = _shrinking(levels, 1 << bits)
        tables = int(cells / sum(buckets))
        if _INNER_TABLES[0] <= tables <= _INNER_TABLES[1]:
            yield tables, buckets


def _shrinking(levels: int, first: int) -> tuple[int, ...]:
    """Fewer cells on deeper levels, whose texts have more levels to send to."""
    halvings = (((level + 2) // 2).bit_length() - 1 for level in range(levels))
    return tuple(max(_FEWEST_BUCKETS, first >> halving) for halving in halvings)


def _most_symbols(size: int, most: int) -> int:
    return max(1, int(math.log(most + 0.5) / math.log(max(size, 2))))

"""How a prefix tree is laid out: cuts, tables and cells, and what can then be found.

Messages pay for cells, for each cell has its share of noise. More tables make chance collisions
rarer and spread what a text sends more thinly; more cells per table keep texts apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from shoal.errors import InvalidArgumentError
from shoal.protocols.detection import Background, Channel, Ladder
from shoal.protocols.strings import Alphabet
from shoal.protocols.tree import MOST_LEVELS, PrefixTree

MOST_FIRST = 1 << 25  # prefixes tried on the first level
MOST_CHILDREN = 1 << 16  # prefixes tried below one
MOST_TRIED = 1 << 30  # prefixes tried on a level
STRAYS = 64.0  # prefixes of nobody that are followed on a level, on average
_CHOSEN = 1 / 4  # of what may be listed wrongly: by detectors that the data choose
_WHOLE_SHARES = (0.65, 0.8, 0.5, 0.4)
_WHOLE_TABLES = (5, 24)
_INNER_TABLES = (3, 24)
_FEWEST_BUCKETS = 16
_MOST_BITS = 24


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
class Prospect:
    """What can be found among n people, whatever they hold.

    With probability ``beta`` at most something goes wrong: half of it that a text is missed, half
    that one is listed that nobody holds. A text of c of the n people has a share c/n of the first
    half, since all c together are n at most, and the same on each level that it has to pass. Of
    the second half, texts with each number of levels have the same share: 1/4 of it for the
    detector that the data choose, 3/4 for the one that holds whatever they are.

    ``keep`` is the chance of the truth, ``noise`` what each of ``cells`` cells has.
    """

    shape: Shape
    n: int
    beta: float
    keep: float
    noise: float
    cells: int

    def ladders(self, tree: PrefixTree) -> tuple[list[Ladder], list[Ladder]]:
        """The detectors of the inner levels, and those of whole texts with 1, 2, ... levels."""
        inner: list[Ladder] = []
        parents = [1]
        for level, size in enumerate(zip(tree.tables[:-1], tree.buckets[:-1], strict=True)):
            near = inner[-1] if inner else None
            inner.append(self.inner(level, *size, parents=parents[-1], near=near))
            parents.append(self.followed(level, inner[-1]))
        whole: list[Ladder] = []
        for depth in range(1, tree.levels + 1):
            near = whole[-1] if whole else None
            size = tree.tables[-1], tree.buckets[-1]
            whole.append(self.whole(depth, *size, parents=parents[depth - 1], near=near))
        return inner, whole

    def inner(
        self, level: int, tables: int, buckets: int, *, parents: int, near: Ladder | None = None
    ) -> Ladder:
        """The detectors of an inner level, below so many prefixes; its texts go on to the next."""
        return Ladder.built(
            self._channel(tables, buckets, depth=level + 2),
            false=self.inner_false(level, parents),
            missed=self._missed(level + 2),
            most=self.n * self.keep / (level + 2),
            near=near,
        )

    def whole(
        self, depth: int, tables: int, buckets: int, *, parents: int, near: Ladder | None = None
    ) -> Ladder:
        """The detectors of whole texts with ``depth`` levels, below so many prefixes."""
        return Ladder.built(
            self._channel(tables, buckets, depth=1),
            false=self.whole_false(depth, parents, chosen=False),
            missed=self._missed(depth),
            most=self.n * self.keep / depth,
            near=near,
        )

    def followed(self, level: int, detectors: Ladder) -> int:
        """The most prefixes of a level that are followed to the next: twice as many as expected.

        That is, as people have messages for at the top's signal, and strays.
        """
        standing_out = self.n * detectors.channel.sent / detectors.top
        most = int(MOST_TRIED / self.shape.inner_candidates(level + 1, 1))
        return min(math.ceil(2 * (STRAYS + standing_out)), max(most, 1))

    def inner_false(self, level: int, parents: int) -> float:
        """The share of prefixes of nobody that may pass: this costs time only."""
        return min(1.0, STRAYS / self.shape.inner_candidates(level, parents))

    def whole_false(self, depth: int, parents: int, *, chosen: bool) -> float:
        """The share of texts of nobody that may pass a detector that the data chose, or not."""
        candidates = self.shape.whole_candidates(depth - 1, parents)
        share = _CHOSEN if chosen else 1 - _CHOSEN
        return share * self.beta / (2 * self.shape.levels * candidates)

    def thresholds(self, inner: list[float], whole: list[float]) -> tuple[float, ...]:
        """In people, by the number of levels: a text's messages go to all of its levels alike."""
        return tuple(
            depth * max([last, *inner[: depth - 1]]) / self.keep
            for depth, last in enumerate(whole, start=1)
        )

    def _channel(self, tables: int, buckets: int, *, depth: int) -> Channel:
        """Where people whose texts have ``depth`` levels at least send a message."""
        return Channel(
            tables=tables,
            buckets=buckets,
            cells=self.cells,
            n=self.n,
            noise=self.noise,
            sent=self.keep / depth,
        )

    def _missed(self, depth: int) -> float:
        """The chance that a text of ``depth`` levels may be missed, for each of its messages."""
        return self.beta * depth / (2 * self.shape.levels * self.keep * self.n)


@dataclass(frozen=True)
class Reach:
    """The messages that it takes to pass, at worst and where no two others hold the same text.

    Fewer tables are better for the one, more for the other; real crowds are between.
    """

    worst: float
    thin: float

    @classmethod
    def of(cls, detectors: Ladder, *, false: float) -> Reach:
        """That of the detectors of one level."""
        thin = detectors.chosen(Background.thin(detectors.channel), false=false)
        return cls(detectors.signal, math.inf if thin is None else thin.signal)

    def __or__(self, other: Reach) -> Reach:
        return Reach(max(self.worst, other.worst), max(self.thin, other.thin))

    def __lt__(self, other: Reach) -> bool:
        return self.worst**2 * self.thin < other.worst**2 * other.thin


def planned(prospect: Prospect, *, cells: float, hash_key: int) -> tuple[PrefixTree, float] | None:
    """The layout within so many cells that finds the rarest of the longest texts, and how rare.

    None if there are too few cells for any.
    """
    shape, last = prospect.shape, prospect.shape.levels
    best: tuple[Reach, tuple[int, ...], tuple[int, ...]] | None = None
    for share in _WHOLE_SHARES if last > 1 else (1.0,):
        inners = [
            (*_inner(prospect, *sizes), *sizes)
            for sizes in _inner_sizes(last - 1, (1 - share) * cells)
        ]
        if not inners:
            continue
        inner, parents, each, inner_buckets = min(inners, key=itemgetter(0))
        if best is not None and not inner < best[0]:
            continue
        for tables, buckets in _sizes(share * cells):
            detectors = prospect.whole(last, tables, buckets, parents=parents)
            false = prospect.whole_false(last, parents, chosen=True)
            reach = inner | Reach.of(detectors, false=false)
            if best is None or reach < best[0]:
                best = reach, (*[each] * (last - 1), tables), (*inner_buckets, buckets)
    if best is None:
        return None
    reach, all_tables, all_buckets = best
    tree = PrefixTree(
        alphabet=shape.alphabet,
        cuts=shape.cuts,
        tables=all_tables,
        buckets=all_buckets,
        hash_key=hash_key,
    )
    return tree, last * reach.worst / prospect.keep


def fewest_cells(shape: Shape) -> float:
    """The least number of cells for which there is a layout."""
    whole = _WHOLE_TABLES[0] * _FEWEST_BUCKETS
    if shape.levels == 1:
        return float(whole)
    inner = _INNER_TABLES[0] * sum(_shrinking(shape.levels - 1, _FEWEST_BUCKETS))
    return min(max(whole / share, inner / (1 - share)) for share in _WHOLE_SHARES)


def _inner(prospect: Prospect, tables: int, buckets: tuple[int, ...]) -> tuple[Reach, int]:
    """What passes the inner levels, of which the worst are tried, and how many are followed."""
    reach, parents = Reach(0.0, 0.0), 1
    near: Ladder | None = None
    for level in sorted({0, 2, len(buckets) - 1} & set(range(len(buckets)))):
        near = prospect.inner(level, tables, buckets[level], parents=parents, near=near)
        reach |= Reach.of(near, false=prospect.inner_false(level, parents))
        parents = prospect.followed(level, near)
    return reach, parents


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

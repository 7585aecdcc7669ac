"""Messages that never repeat: which parts of them to look at, chosen by what they tell.

A text or a tuple with a random number in it is new every time, and still may begin with the truth.
So it is taken apart: parts of tuples, pieces, beginnings, endings and lengths of text, columns of
rows, low bytes of whole numbers. A part is worth what it tells about the input on messages that it
was not fitted to: the mean of

    log( p_x(code) / mean of p_x'(code) over all inputs x' )

over messages of every input x, p learned on one half of them and the mean taken on the other. That
is at most the mutual information of input and code, and a part that only fits noise is below zero.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from shoal.auditing.messages import (
    Binned,
    Coder,
    Codes,
    Raw,
    as_rows,
    binned,
    distinct,
    familiar,
    hashable,
    joined,
    number,
    numbers,
    telling_direction,
)
from shoal.values import Array

_COLUMN_CODES = 256  # of one part
_MOST_CODES = 1 << 13  # of all that are chosen
_MOST_JUDGED = 40_000  # messages of all inputs together, by which parts are judged
_LOOKED_AT = 50  # messages of each input that say which parts there are
_DEEPEST = 2  # tuples within tuples
_WIDEST = 8  # parts of a tuple, pieces of a text
_MOST_COLUMNS = 64
_REACHES = (1, 2, 4, 8)  # characters at the beginning and at the end
_MOST_CHOSEN = 3
_STANDS_OUT = 3.0  # standard errors
_PIECES = re.compile(r"[\w.+-]+")

What = Literal["kind", "number", "itself", "length", "head", "tail"]


class Part(ABC):
    """Something of each message."""

    @abstractmethod
    def __call__(self, messages: Raw) -> Raw:
        """One number, or one thing to be told apart, per message."""


@dataclass(frozen=True)
class Piece(Part):
    """What is at a place of tuples within tuples, or of a text; then something of it."""

    path: tuple[int, ...]
    what: What
    reach: int = 0

    def __call__(self, messages: Raw) -> Raw:
        """It, message by message."""
        return self.among(_at(messages, self.path))

    def among(self, items: Sequence[Any]) -> Raw:
        """The same of what is at the place."""
        found = [self._of(item) for item in items]
        if self.what in {"number", "length"}:
            return np.array(found, dtype=np.float64)
        return np.fromiter(found, dtype=object, count=len(found))

    def _of(self, item: Any) -> Hashable:  # noqa: ANN401 - somebody else's messages
        if self.what == "kind":
            size = f" of {len(item)}" if isinstance(item, tuple) else ""
            return f"{type(item).__name__}{size}"
        if self.what == "number":
            return number(item)
        if self.what == "itself":
            return item  # type: ignore[no-any-return]  # all of it is hashable
        text = _text(item)
        if self.what == "length":
            return math.nan if text is None else len(text)
        if text is None:
            return None
        return text[: self.reach] if self.what == "head" else text[-self.reach :]


@dataclass(frozen=True)
class Column(Part):
    """One column of rows of numbers; one bit of rows of bytes."""

    place: int

    def __call__(self, messages: Raw) -> Raw:
        """The column; no number where there is none."""
        if messages.dtype == np.uint8 and messages.ndim == 2 and self.place < 8 * messages.shape[1]:
            return (messages[:, self.place // 8] >> (7 - self.place % 8)) & 1
        width = math.prod(messages.shape[1:])
        if messages.dtype.kind in "biuf" and messages.ndim > 1 and self.place < width:
            return messages.reshape(len(messages), width)[:, self.place]
        return np.full(len(messages), np.nan)


@dataclass(frozen=True)
class LowByte(Part):
    """The last eight bits of whole numbers."""

    def __call__(self, messages: Raw) -> Raw:
        """From 0 to 255; no number where there is none."""
        if messages.dtype.kind in "biu" and messages.ndim == 1:
            return messages.astype(np.uint64) & np.uint64(255)
        found = [item & 255 if isinstance(item, int) else math.nan for item in messages.tolist()]
        return np.array(found, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Whole(Part):
    """The messages as they are."""

    def __call__(self, messages: Raw) -> Raw:
        """Themselves."""
        return messages


@dataclass(frozen=True, eq=False)
class Parts(Coder):
    """Several parts at once, each with a coder of its own."""

    chosen: tuple[tuple[Part, Coder], ...]

    @property
    def size(self) -> int:
        """Every combination of their codes."""
        return math.prod(coder.size for _, coder in self.chosen)

    def __call__(self, messages: Raw) -> Codes:
        """The combination, the first part's code the most significant."""
        codes = np.zeros(len(messages), dtype=np.intp)
        for part, coder in self.chosen:
            codes = codes * coder.size + coder(part(messages))
        return codes


def fitted(samples: Sequence[Raw]) -> Coder:
    """A coder for messages of which nothing is known but these samples, one for each input."""
    together = joined(samples)
    counted = Counter(hashable(together))
    if familiar(counted):
        return distinct(counted)
    found = numbers(together)
    if found is None:
        return _telling(samples, distinct(counted), _pieces(samples))
    if together.ndim > 1:
        # Rows of one kind in each sample, as they could be joined.
        usual = binned(together, telling_direction([*map(as_rows, samples)]))
        return _telling(samples, usual, _columns(samples))
    usual = binned(together, None)
    return _telling(samples, usual, [LowByte()]) if _whole(together) else usual


def _whole(messages: Raw) -> bool:
    kinds = {type(item) for item in messages.tolist()} if messages.dtype == object else set()
    return messages.dtype.kind in "iu" or kinds == {int}


def _pieces(samples: Sequence[Raw]) -> list[Part]:
    """What there is in some of the messages."""
    seen = [item for sample in samples for item in hashable(sample[:_LOOKED_AT])]
    found = dict.fromkeys(part for item in seen for part in _pieces_of(item, ()))
    return [*found]


def _pieces_of(item: Any, path: tuple[int, ...]) -> Iterator[Part]:  # noqa: ANN401
    yield Piece(path, "kind")
    if not isinstance(item, tuple):
        yield Piece(path, "itself")
    if not math.isnan(number(item)):
        yield Piece(path, "number")
    if _text(item) is not None:
        yield Piece(path, "length")
        for reach in _REACHES:
            yield Piece(path, "head", reach)
            yield Piece(path, "tail", reach)
    inside = _inside(item)
    if len(path) < _DEEPEST and (isinstance(item, tuple) or len(inside) > 1):
        for place, part in enumerate(inside):
            yield from _pieces_of(part, (*path, place))


def _inside(item: Any) -> tuple[Any, ...]:  # noqa: ANN401
    """The first parts of a tuple, or pieces of a text."""
    if isinstance(item, tuple):
        return item[:_WIDEST]
    if isinstance(item, str):
        return tuple(_PIECES.findall(item)[:_WIDEST])
    return ()


def _at(messages: Raw, path: tuple[int, ...]) -> list[Any]:
    return [_followed(item, path) for item in hashable(messages)]


def _followed(item: Any, path: tuple[int, ...]) -> Any:  # noqa: ANN401
    for step in path:
        inside = _inside(item)
        if step >= len(inside):
            return None
        item = inside[step]
    return item


def _text(item: Any) -> str | None:  # noqa: ANN401
    """Text or bytes as they are, whole numbers by their digits, other things as they show."""
    if isinstance(item, bytes):
        return item.decode("latin-1")
    if isinstance(item, int):
        return f"{item:x}"
    if item is None or isinstance(item, float | tuple):
        return None
    return item if isinstance(item, str) else repr(item)


def _columns(samples: Sequence[Raw]) -> list[Part]:
    """The columns that differ most between two inputs."""
    rows = [as_rows(sample[: _MOST_JUDGED // len(samples)]) for sample in samples]
    if rows[0].shape[1] <= _MOST_COLUMNS:
        return [Column(place) for place in range(rows[0].shape[1])]
    order = np.argsort(np.abs(telling_direction(rows)))[::-1][:_MOST_COLUMNS]
    return [Column(place) for place in order.tolist()]


def _telling(samples: Sequence[Raw], usual: Coder, parts: Sequence[Part]) -> Coder:
    """The parts that together tell most; the usual coder, if none tells more than chance."""
    judge = _Judge.of(samples)
    read = [judge.read(part) for part in parts]
    if isinstance(usual, Binned):
        read = [judge.read(Whole(), usual), *read]
    best, worth = None, np.zeros(len(judge.tested))
    for _ in range(_MOST_CHOSEN):
        tries = [one if best is None else best.and_(one) for one in read]
        judged = [(each, judge.worth(each)) for each in tries if each.size <= _MOST_CODES]
        if not judged:
            break
        found, value = max(judged, key=lambda pair: float(pair[1].mean()))
        more = value - worth
        if more.mean() <= _STANDS_OUT * more.std() / math.sqrt(more.size):
            break
        best, worth = found, value
    if best is None or (isinstance(best.chosen[0][0], Whole) and len(best.chosen) == 1):
        return usual
    return Parts(best.chosen)


def _coder(values: Raw) -> Coder:
    """For one part."""
    counted = Counter(hashable(values))
    if values.dtype.kind in "biuf" and not familiar(counted, most=_COLUMN_CODES):
        return binned(values, None)
    return distinct(counted, most=_COLUMN_CODES)


@dataclass(frozen=True, eq=False)
class _Read:
    """Some parts, and their codes of both halves."""

    chosen: tuple[tuple[Part, Coder], ...]
    size: int
    learned: Codes
    tested: Codes

    def and_(self, other: _Read) -> _Read:
        """These and others."""
        return _Read(
            (*self.chosen, *other.chosen),
            self.size * other.size,
            self.learned * other.size + other.learned,
            self.tested * other.size + other.tested,
        )


@dataclass(frozen=True, eq=False)
class _Judge:
    """Messages of every input in two halves: to learn from, and to judge by."""

    learned: Raw
    tested: Raw
    learned_from: Codes  # the input of each message
    tested_from: Codes
    inputs: int
    known: dict[tuple[int, ...], list[list[Any]]] = field(default_factory=dict)

    @classmethod
    def of(cls, samples: Sequence[Raw]) -> _Judge:
        most = _MOST_JUDGED // len(samples)
        halves = [(sample[:most][::2], sample[:most][1::2]) for sample in samples]
        sizes = [[len(half) for half in pair] for pair in halves]
        places = np.arange(len(samples))
        learned_from, tested_from = (
            np.repeat(places, [size[side] for size in sizes]) for side in (0, 1)
        )
        learned, tested = (joined([pair[side] for pair in halves]) for side in (0, 1))
        return cls(learned, tested, learned_from, tested_from, len(samples))

    def read(self, part: Part, coder: Coder | None = None) -> _Read:
        """The codes of one part, by a coder of its own if none is given."""
        learned, tested = self._values(part)
        coder = _coder(learned) if coder is None else coder
        return _Read(((part, coder),), coder.size, coder(learned), coder(tested))

    def _values(self, part: Part) -> list[Raw]:
        halves = (self.learned, self.tested)
        if not isinstance(part, Piece):
            return [part(half) for half in halves]
        # Many pieces are of the same place, and to go there takes longest.
        if part.path not in self.known:
            self.known[part.path] = [_at(half, part.path) for half in halves]
        return [part.among(items) for items in self.known[part.path]]

    def worth(self, read: _Read) -> Array:
        """What each message tells about its input, by what was learned from others."""
        codes = self.learned_from * read.size + read.learned
        counts = np.bincount(codes, minlength=self.inputs * read.size) + 0.5
        rates = counts.reshape(self.inputs, read.size)
        rates = rates / rates.sum(axis=1, keepdims=True)
        ratios = np.log(rates / rates.mean(axis=0))
        return np.asarray(ratios[self.tested_from, read.tested])

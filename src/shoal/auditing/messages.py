"""Messages of any kind as small whole numbers: what the statistics count.

A coder is fitted to messages of single devices, before anything is evaluated. It may merge
messages, which can only make the audit see less.

A text or a tuple with a random number in it is new every time, and still may begin with the truth.
So it is taken apart: parts of tuples, pieces, beginnings, endings and lengths of text, columns of
rows, low bytes of whole numbers. A part is worth what it tells about the input on messages that it
was not fitted to: the mean of

    log( p_x(code) / mean of p_x'(code) over all inputs x' )

over messages of every input x, p learned on one half of them and the mean taken on the other. That
is at most the mutual information of input and code, and a part that only fits noise is below zero.
"""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.auditing.hints import Hints
from shoal.values import Array

Raw = npt.NDArray[Any]
Codes = npt.NDArray[np.intp]
Part = Callable[[Raw], Raw]  # of each message a number, or something to be told apart

MOST_DISTINCT = 4096
_BINS = 64
_NEW = 0.2  # of the messages may be new, for the others to be told apart one by one
_CELLS_AT_ONCE = 1 << 22
_LARGEST_INTEGER = 1 << 63
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


class Coder(ABC):
    """From messages to 0, ..., size - 1; the last one may be "anything else"."""

    size: int  # how many codes there are

    @abstractmethod
    def __call__(self, messages: Raw) -> Codes:
        """One whole number per message."""


class Numbered(Coder):
    """Messages 0, ..., outputs - 1 as they are; what is none of them is one code more."""

    def __init__(self, outputs: int) -> None:
        self.outputs, self.size = outputs, outputs + 1

    def __call__(self, messages: Raw) -> Codes:
        """The messages themselves."""
        numbers = messages
        if messages.dtype.kind not in "biu" or messages.ndim > 1:
            numbers = each_number(messages)
            numbers = np.where(numbers == np.floor(numbers), numbers, -1.0)
        known = (numbers >= 0) & (numbers < self.outputs)
        if known.all():
            return numbers.astype(np.intp, copy=False)
        return np.where(known, numbers, self.outputs).astype(np.intp)


class Supports(Coder):
    """Which of a few inputs each message supports; whether as many as ``usual``, if that shows."""

    def __init__(self, hints: Hints, inputs: tuple[Hashable, ...], usual: int | None) -> None:
        self.hints, self.inputs, self.usual = hints, inputs, usual
        # Every pattern of supported inputs; fewer, as many, or more than usual, for each.
        self.size = (1 if usual is None else 3) << len(inputs)

    def __call__(self, messages: Raw) -> Codes:
        """The supports, the first input's the least, then how many there are."""
        columns = self.hints.supports(messages, self.inputs)
        sizes = self.hints.support_sizes(messages)
        codes = np.zeros(len(messages), dtype=np.intp)
        if columns is not None:
            codes = columns @ (1 << np.arange(len(self.inputs), dtype=np.intp))
        if sizes is not None and self.usual is not None:
            codes |= (np.sign(sizes - self.usual) + 1).astype(np.intp) << len(self.inputs)
        return codes


class Distinct(Coder):
    """Messages that were seen, each by itself; what was not seen is one code more.

    ``unread`` estimates the fraction of messages that are anything else: all alike to this coder.
    """

    def __init__(self, seen: Mapping[Hashable, int], unread: float = 0.0) -> None:
        self.seen, self.unread, self.size = seen, unread, len(seen) + 1

    def __call__(self, messages: Raw) -> Codes:
        """The number of each message."""
        other = len(self.seen)
        if messages.dtype.kind in "biuf" and messages.ndim == 1:
            known, places = np.unique(messages, return_inverse=True)
            codes = [self.seen.get(value, other) for value in hashable(known)]
            return np.array(codes, dtype=np.intp)[places]
        numbers = (self.seen.get(key, other) for key in hashable(messages))
        return np.fromiter(numbers, dtype=np.intp, count=len(messages))


class Binned(Coder):
    """Numbers, or rows of numbers along one direction, by where they fall between quantiles.

    Minus infinity, infinity, and what is no number have codes of their own.
    """

    def __init__(self, edges: Array, direction: Array | None = None) -> None:
        self.edges, self.direction, self.size = edges, direction, edges.size + 4

    def __call__(self, messages: Raw) -> Codes:
        """The bin of each message."""
        values = projected(messages, self.direction)
        codes = np.searchsorted(self.edges, values, side="right")
        if not np.isfinite(values).all():
            bins = self.edges.size + 1
            special = (np.isneginf(values), np.isposinf(values), np.isnan(values))
            codes = np.select(special, [bins, bins + 1, bins + 2], codes)
        return codes


class Parts(Coder):
    """Several parts at once, each with a coder of its own."""

    def __init__(self, chosen: tuple[tuple[Part, Coder], ...]) -> None:
        self.chosen, self.size = chosen, math.prod(coder.size for _, coder in chosen)

    def __call__(self, messages: Raw) -> Codes:
        """The combination, the first part's code the most significant."""
        codes = np.zeros(len(messages), dtype=np.intp)
        for part, coder in self.chosen:
            codes = codes * coder.size + coder(part(messages))
        return codes


# ------------------------------------------------------------------------------ fitting a coder


def fitted(samples: Sequence[Raw]) -> Coder:
    """A coder for messages of which nothing is known but these samples, one for each input."""
    together = joined(samples)
    counted = Counter(hashable(together))
    if familiar(counted):
        return distinct(counted)
    if not _are_numbers(together):
        seen = [item for sample in samples for item in hashable(sample[:_LOOKED_AT])]
        pieces = dict.fromkeys(piece for item in seen for piece in _pieces_of(item, ()))
        return _telling(samples, distinct(counted), [*pieces])
    if together.ndim > 1:
        # Rows of one kind in each sample, as they could be joined.
        usual = binned(together, telling_direction([*map(as_rows, samples)]))
        return _telling(samples, usual, _columns(samples))
    usual = binned(together, None)
    whole = {type(item) for item in together.tolist()} == {int}
    return _telling(samples, usual, [_low_byte]) if whole else usual


def familiar(counted: Counter[Hashable], *, most: int = MOST_DISTINCT) -> bool:
    """Whether messages repeat so much that they can be told apart one by one.

    The fraction of messages seen once estimates the probability of a new one (Good and Turing).
    """
    return len(counted) <= most and unseen(counted) <= _NEW


def unseen(counted: Counter[Hashable]) -> float:
    """The probability that the next message is a new one."""
    return sum(count == 1 for count in counted.values()) / max(1, counted.total())


def distinct(counted: Counter[Hashable], *, most: int = MOST_DISTINCT) -> Distinct:
    """The commonest messages by themselves, everything else together."""
    common = [key for key, _ in counted.most_common(most)]
    rare = 0.0 if familiar(counted, most=most) else unseen(counted)
    return Distinct({key: place for place, key in enumerate(common)}, unread=rare)


def binned(messages: Raw, direction: Array | None) -> Binned:
    """Bins of equal weight along the direction."""
    values = projected(messages, direction)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return Binned(np.zeros(0), direction)
    return Binned(np.unique(np.quantile(finite, np.arange(1, _BINS) / _BINS)), direction)


def telling_direction(samples: Sequence[Array]) -> Array:
    """By which combination of columns two inputs differ most, columns taken one by one.

    The difference of their means over the variance of each column, for the pair farthest apart.
    """
    means, variances = zip(*map(_moments, samples), strict=True)
    spread = np.mean(variances, axis=0) + 1e-12
    pairs = itertools.combinations(range(len(samples)), 2)
    a, b = max(pairs, key=lambda p: float(((means[p[0]] - means[p[1]]) ** 2 / spread).sum()))
    return np.asarray((means[a] - means[b]) / spread)


def _moments(rows: Array) -> tuple[Array, Array]:
    """Mean and variance of each column, of what is finite in it."""
    finite = np.isfinite(rows)
    if finite.all():
        return rows.mean(axis=0), rows.var(axis=0)
    counts = np.maximum(finite.sum(axis=0), 1)
    means = np.where(finite, rows, 0.0).sum(axis=0) / counts
    return means, (np.where(finite, rows - means, 0.0) ** 2).sum(axis=0) / counts


def projected(messages: Raw, direction: Array | None) -> Array:
    """Numbers as they are, rows along the direction; what is neither is no number."""
    if direction is None:
        return each_number(messages)
    values = np.full(len(messages), np.nan)
    bits = 8 if messages.dtype == np.uint8 and messages.ndim > 1 else 1
    if messages.dtype.kind not in "biuf" or bits * _cells(messages) != direction.size:
        return values
    step = max(1, _CELLS_AT_ONCE // direction.size)
    with np.errstate(invalid="ignore", over="ignore"):  # infinity less infinity is no number
        for start in range(0, len(messages), step):  # so that the unpacked bits fit into memory
            values[start : start + step] = as_rows(messages[start : start + step]) @ direction
    return values


def as_rows(messages: Raw) -> Array:
    """Rows of numbers; bytes are taken apart into bits."""
    bits = np.unpackbits(messages, axis=1) if messages.dtype == np.uint8 else messages
    return bits.reshape(len(messages), _cells(bits)).astype(np.float64)


def _cells(messages: Raw) -> int:
    """Of each message."""
    return math.prod(messages.shape[1:])


def _are_numbers(messages: Raw) -> bool:
    """Whether all of it is numbers, or text that is."""
    if messages.dtype.kind in "biuf":
        return True
    try:
        for item in messages.tolist():
            float(item)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def number(item: Any) -> float:  # noqa: ANN401 - somebody else's messages
    """A message as a number, "no number" if it is none."""
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def each_number(messages: Raw) -> Array:
    """Each message as a number by itself."""
    if messages.dtype.kind in "biuf" and messages.ndim == 1:
        return messages.astype(np.float64)
    return np.array([number(item) for item in messages.tolist()])


def hashable(messages: Raw) -> list[Hashable]:
    """Something to tell the messages apart by; rows become tuples."""
    rows = messages.ndim > 1
    listed = (messages.reshape(len(messages), _cells(messages)) if rows else messages).tolist()
    if messages.dtype.kind == "f" and np.isnan(messages).any():
        return [_frozen(item) for item in listed]
    return [tuple(row) for row in listed] if rows else listed


# ------------------------------------------------------------------------ parts of the messages


@dataclass(frozen=True)
class Piece:
    """What is at a place of tuples within tuples, or of a text; then something of it."""

    path: tuple[int, ...]
    what: Literal["kind", "number", "itself", "length", "head", "tail"]
    reach: int = 0

    def __call__(self, messages: Raw) -> Raw:
        """It, message by message."""
        return self.among(_at(messages, self.path))

    def among(self, items: Sequence[Any]) -> Raw:
        """The same of what is at the place."""
        values = [self._of(item) for item in items]
        numeric = self.what in {"number", "length"}
        return np.array(values, dtype=np.float64) if numeric else _objects(values)

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
    items: list[Any] = hashable(messages)
    for step in path:
        inside = map(_inside, items)
        items = [parts[step] if step < len(parts) else None for parts in inside]
    return items


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
    places = np.arange(rows[0].shape[1])
    if places.size > _MOST_COLUMNS:
        places = np.argsort(np.abs(telling_direction(rows)))[::-1][:_MOST_COLUMNS]
    return [partial(_column, place) for place in places.tolist()]


def _column(place: int, messages: Raw) -> Raw:
    """One column of rows of numbers, one bit of rows of bytes; no number where there is none."""
    if messages.dtype == np.uint8 and messages.ndim == 2 and place < 8 * messages.shape[1]:
        return (messages[:, place // 8] >> (7 - place % 8)) & 1
    if messages.dtype.kind in "biuf" and messages.ndim > 1 and place < _cells(messages):
        return messages.reshape(len(messages), _cells(messages))[:, place]
    return np.full(len(messages), np.nan)


def _low_byte(messages: Raw) -> Raw:
    """The last eight bits of whole numbers; no number where there is none."""
    if messages.dtype.kind in "biu" and messages.ndim == 1:
        return messages.astype(np.uint64) & np.uint64(255)
    lows = [item & 255 if isinstance(item, int) else math.nan for item in messages.tolist()]
    return np.array(lows, dtype=np.float64)


class _Reading(NamedTuple):
    """Some parts, and their codes of both halves of the messages."""

    chosen: tuple[tuple[Part, Coder], ...]
    size: int
    codes: tuple[Codes, Codes]


def _telling(samples: Sequence[Raw], usual: Coder, parts: Sequence[Part]) -> Coder:
    """The parts that together tell most; the usual coder, if none tells more than noise.

    Every other message is to learn from, the rest to judge by.
    """
    inputs, most = len(samples), _MOST_JUDGED // len(samples)
    halves = [[sample[:most][side::2] for sample in samples] for side in (0, 1)]
    learned, tested = (joined(half) for half in halves)
    learned_from, tested_from = (np.repeat(np.arange(inputs), [*map(len, half)]) for half in halves)
    at: dict[tuple[int, ...], list[list[Any]]] = {}  # many pieces are of one place: it is kept

    def read(part: Part, coder: Coder | None = None) -> _Reading:
        if isinstance(part, Piece):
            if part.path not in at:
                at[part.path] = [_at(half, part.path) for half in (learned, tested)]
            first, second = (part.among(items) for items in at[part.path])
        else:
            first, second = part(learned), part(tested)
        if coder is None:
            counted, numeric = Counter(hashable(first)), first.dtype.kind in "biuf"
            few = not numeric or familiar(counted, most=_COLUMN_CODES)
            coder = distinct(counted, most=_COLUMN_CODES) if few else binned(first, None)
        return _Reading(((part, coder),), coder.size, (coder(first), coder(second)))

    def worth(reading: _Reading) -> Array:
        """What each message tells about its input, by what was learned from others."""
        codes = learned_from * reading.size + reading.codes[0]
        counts = np.bincount(codes, minlength=inputs * reading.size) + 0.5
        rates = counts.reshape(inputs, reading.size)
        rates = rates / rates.sum(axis=1, keepdims=True)
        ratios = np.log(rates / rates.mean(axis=0))
        return np.asarray(ratios[tested_from, reading.codes[1]])

    readings = [read(part) for part in parts]
    if isinstance(usual, Binned):
        readings = [read(np.asarray, usual), *readings]
    best, gained = None, np.zeros(len(tested))
    for _ in range(_MOST_CHOSEN):
        tries = [one if best is None else _together(best, one) for one in readings]
        judged = [(each, worth(each)) for each in tries if each.size <= _MOST_CODES]
        if not judged:
            break
        reading, value = max(judged, key=lambda pair: float(pair[1].mean()))
        more = value - gained
        if more.mean() <= _STANDS_OUT * more.std() / math.sqrt(more.size):
            break
        best, gained = reading, value
    if best is None or [part for part, _ in best.chosen] == [np.asarray]:
        return usual
    return Parts(best.chosen)


def _together(one: _Reading, other: _Reading) -> _Reading:
    first, second = (one.codes[half] * other.size + other.codes[half] for half in (0, 1))
    return _Reading((*one.chosen, *other.chosen), one.size * other.size, (first, second))


# --------------------------------------------------------------------- messages as arrays of them


def as_messages(returned: object) -> Raw:
    """What somebody's code returned, as an array with one entry, or row, per message."""
    if isinstance(returned, np.ndarray) and (returned.dtype.kind in "biuf" or returned.ndim == 0):
        return returned
    listed = list(returned)  # type: ignore[call-overload]  # if it is no sequence: the caller's error
    arrays = np.generic | np.ndarray
    plain = [item.tolist() if isinstance(item, arrays) else item for item in listed]
    kinds = {type(item) for item in plain}
    if kinds and kinds <= {bool, int, float} and all(map(_plain, plain)):
        return np.array(plain, dtype=float if float in kinds else np.int64)
    even = kinds <= {list, tuple} and len({len(row) for row in plain}) == 1 and len(plain[0])
    if even and all(_plain(item) for row in plain for item in row):
        return np.array(plain)
    return _objects([_frozen(item) for item in plain])


def _plain(item: object) -> bool:
    """Whether an array of numbers can hold it."""
    return isinstance(item, float) or (
        isinstance(item, bool | int) and -_LARGEST_INTEGER <= item < _LARGEST_INTEGER
    )


def _frozen(item: Any) -> Hashable:  # noqa: ANN401 - somebody else's messages
    """The same, to be looked up: "no number" is equal to itself only if it is one object."""
    if isinstance(item, list | tuple):
        return tuple(_frozen(part) for part in item)
    if isinstance(item, float) and math.isnan(item):
        return math.nan
    try:
        hash(item)
    except TypeError:
        return repr(item)
    return item  # type: ignore[no-any-return]  # it has a hash


def _objects(items: Sequence[object]) -> Raw:
    return np.fromiter(items, dtype=object, count=len(items))


def joined(parts: Sequence[Raw]) -> Raw:
    """Several arrays of messages, one after the other."""
    if len(parts) == 1:
        return parts[0]
    kinds, shapes = ({p.dtype.kind for p in parts}, {p.shape[1:] for p in parts})
    if len(shapes) == 1 and (len(kinds) == 1 or kinds <= set("biuf")):
        return np.concatenate(parts)
    return _objects([item for part in parts for item in hashable(part)])

"""Messages of any kind as small whole numbers: what the statistics count.

A coder is fitted to messages of single devices, before anything is evaluated. It may merge
messages, which can only make the audit see less.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.randomizers.base import Auditable
from shoal.values import Array

Raw = npt.NDArray[Any]
Codes = npt.NDArray[np.intp]

MOST_DISTINCT = 4096
_BINS = 64
_NEW = 0.2  # of the messages may be new, for the others to be told apart one by one
_CELLS_AT_ONCE = 1 << 22
_WIDEST = 1 << 63


class Coder(ABC):
    """From messages to 0, ..., size - 1; the last one may be "anything else"."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many codes there are."""

    @abstractmethod
    def __call__(self, messages: Raw) -> Codes:
        """One whole number per message."""


@dataclass(frozen=True)
class Numbered(Coder):
    """Messages 0, ..., outputs - 1 as they are; what is none of them is one code more."""

    outputs: int

    @property
    def size(self) -> int:
        """One more than the outputs."""
        return self.outputs + 1

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


@dataclass(frozen=True, eq=False)
class Supports(Coder):
    """Which of a few inputs each message supports; whether as many as ``usual``, if that shows."""

    mechanism: Auditable
    inputs: tuple[Hashable, ...]
    usual: int | None

    @property
    def size(self) -> int:
        """Every pattern of supported inputs; fewer, as many, or more than usual, for each."""
        return (1 if self.usual is None else 3) << len(self.inputs)

    def __call__(self, messages: Raw) -> Codes:
        """The supports, the first input's the least, then how many there are."""
        columns = self.mechanism.supports(messages, self.inputs)
        sizes = self.mechanism.support_sizes(messages)
        codes = np.zeros(len(messages), dtype=np.intp)
        if columns is not None:
            codes = columns @ (1 << np.arange(len(self.inputs), dtype=np.intp))
        if sizes is not None and self.usual is not None:
            codes |= (np.sign(sizes - self.usual) + 1).astype(np.intp) << len(self.inputs)
        return codes


@dataclass(frozen=True, eq=False)
class Distinct(Coder):
    """Messages that were seen, each by itself; what was not seen is one code more.

    ``unread`` estimates the fraction of messages that are anything else: all alike to this coder.
    """

    seen: Mapping[Hashable, int]
    unread: float = 0.0

    @property
    def size(self) -> int:
        """One more than what was seen."""
        return len(self.seen) + 1

    def __call__(self, messages: Raw) -> Codes:
        """The number of each message."""
        other = len(self.seen)
        if messages.dtype.kind in "biuf" and messages.ndim == 1:
            known, places = np.unique(messages, return_inverse=True)
            codes = [self.seen.get(value, other) for value in hashable(known)]
            return np.array(codes, dtype=np.intp)[places]
        numbers = (self.seen.get(key, other) for key in hashable(messages))
        return np.fromiter(numbers, dtype=np.intp, count=len(messages))


@dataclass(frozen=True, eq=False)
class Binned(Coder):
    """Numbers, or rows of numbers along one direction, by where they fall between quantiles.

    Minus infinity, infinity, and what is no number have codes of their own.
    """

    edges: Array
    direction: Array | None = None

    @property
    def size(self) -> int:
        """One more than the edges, and three."""
        return self.edges.size + 4

    def __call__(self, messages: Raw) -> Codes:
        """The bin of each message."""
        values = projected(messages, self.direction)
        codes = np.searchsorted(self.edges, values, side="right")
        if not np.isfinite(values).all():
            bins = self.edges.size + 1
            special = (np.isneginf(values), np.isposinf(values), np.isnan(values))
            codes = np.select(special, [bins, bins + 1, bins + 2], codes)
        return codes


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
    a, b = max(pairs, key=lambda pair: _apart(means, spread, pair))
    return np.asarray((means[a] - means[b]) / spread)


def _moments(rows: Array) -> tuple[Array, Array]:
    """Mean and variance of each column, of what is finite in it."""
    finite = np.isfinite(rows)
    if finite.all():
        return rows.mean(axis=0), rows.var(axis=0)
    counts = np.maximum(finite.sum(axis=0), 1)
    means = np.where(finite, rows, 0.0).sum(axis=0) / counts
    return means, (np.where(finite, rows - means, 0.0) ** 2).sum(axis=0) / counts


def _apart(means: Sequence[Array], spread: Array, pair: tuple[int, int]) -> float:
    return float(((means[pair[0]] - means[pair[1]]) ** 2 / spread).sum())


def projected(messages: Raw, direction: Array | None) -> Array:
    """Numbers as they are, rows along the direction; what is neither is no number."""
    if direction is None:
        return each_number(messages)
    values = np.full(len(messages), np.nan)
    if messages.dtype.kind not in "biuf" or _width(messages) != direction.size:
        return values
    step = max(1, _CELLS_AT_ONCE // direction.size)
    with np.errstate(invalid="ignore", over="ignore"):  # infinity less infinity is no number
        for start in range(0, len(messages), step):  # so that the unpacked bits fit into memory
            values[start : start + step] = as_rows(messages[start : start + step]) @ direction
    return values


def as_rows(messages: Raw) -> Array:
    """Rows of numbers; bytes are taken apart into bits."""
    bits = np.unpackbits(messages, axis=1) if messages.dtype == np.uint8 else messages
    return bits.reshape(len(messages), math.prod(bits.shape[1:])).astype(np.float64)


def _width(messages: Raw) -> int:
    """Of the rows that they would be."""
    each = 8 if messages.dtype == np.uint8 and messages.ndim > 1 else 1
    return each * math.prod(messages.shape[1:])


def numbers(messages: Raw) -> Array | None:
    """Messages as numbers, text too if all of it is numbers; None if they are something else."""
    if messages.dtype.kind in "biuf":
        return messages.astype(np.float64)
    try:
        return np.array([float(text) for text in messages.tolist()])
    except (TypeError, ValueError, OverflowError):
        return None


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
    flat = messages
    if messages.ndim > 1:
        flat = messages.reshape(len(messages), math.prod(messages.shape[1:]))
    listed = flat.tolist()
    if messages.dtype.kind == "f" and np.isnan(messages).any():
        return [_frozen(item) for item in listed]
    return [tuple(row) for row in listed] if messages.ndim > 1 else listed


def as_messages(returned: object) -> Raw:
    """What somebody's code returned, as an array with one entry, or row, per message."""
    if isinstance(returned, np.ndarray) and (returned.dtype.kind in "biuf" or returned.ndim == 0):
        return returned
    listed = list(returned)  # type: ignore[call-overload]  # if it is no sequence: the caller's error
    plain = [
        item.tolist() if isinstance(item, np.generic | np.ndarray) else item for item in listed
    ]
    kinds = {type(item) for item in plain}
    if kinds and kinds <= {bool, int, float} and all(map(_plain, plain)):
        return np.array(plain, dtype=float if float in kinds else np.int64)
    if kinds <= {list, tuple} and _even(plain):
        return np.array(plain)
    return _objects([_frozen(item) for item in plain])


def _even(rows: Sequence[Sequence[object]]) -> bool:
    """Whether rows are equally long and hold plain numbers."""
    if len({len(row) for row in rows}) != 1 or not len(rows[0]):
        return False
    return all(_plain(item) for row in rows for item in row)


def _plain(item: object) -> bool:
    """Whether an array of numbers can hold it."""
    return isinstance(item, float) or (isinstance(item, bool | int) and -_WIDEST <= item < _WIDEST)


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
    alike = {(part.dtype.kind, part.shape[1:]) for part in parts}
    numeric = all(part.dtype.kind in "biuf" for part in parts)
    if len(alike) == 1 or (numeric and len({part.shape[1:] for part in parts}) == 1):
        return np.concatenate(parts)
    return _objects([item for part in parts for item in hashable(part)])

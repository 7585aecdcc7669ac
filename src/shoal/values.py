"""The values everybody speaks: a shuffled batch, and its counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Span = tuple[float, float]  # from the least to the largest
Messages = npt.NDArray[np.integer]
Record = dict[str, object]


@dataclass(frozen=True, eq=False)
class Batch:
    """A multiset of messages, in an order that means nothing.

    Made by :func:`shoal.shuffle`; ``tally`` and ``estimate`` of the mechanism take it.

    Args:
        messages: Whole numbers for randomizers whose message is one of few, rows of bytes or
            of numbers for the others.
        people: How many people sent them, if not one message each.

    Example:
        >>> Batch(np.array([2, 0, 1])).n
        3
    """

    messages: Messages
    people: int | None = None

    @property
    def n(self) -> int:
        """How many people sent them."""
        return len(self.messages) if self.people is None else self.people

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        sent = "" if self.people is None else f" of {self.people} people"
        return f"Batch({len(self)} messages{sent})"


@dataclass(frozen=True, eq=False)
class Envelopes:
    """Several messages of each person, before anybody has mixed them: one envelope a person.

    ``randomize`` of a protocol makes them; :func:`shoal.shuffle` takes them apart.

    Args:
        messages: Everybody's messages, person after person.
        sizes: How many messages each person sent.
        filling: What a shuffler adds to so many messages of so many people, where their
            number would tell something.

    Raises:
        InvalidArgumentError: The sizes do not add up to the number of messages.

    Example:
        >>> two = Envelopes(np.array([3, 1, 4]), np.array([1, 2]))
        >>> len(two)
        2
    """

    messages: Messages
    sizes: npt.NDArray[np.int64]
    filling: Callable[[int, int], Messages] | None = None

    def __post_init__(self) -> None:
        total, sent = int(self.sizes.sum()), len(self.messages)
        checks.refuse(total != sent, f"{total} messages, as many as the sizes say", messages=sent)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def filled(self) -> Messages:
        """The messages, and those that a shuffler adds."""
        if self.filling is None:
            return self.messages
        return np.concatenate([self.messages, self.filling(len(self.messages), len(self))])

    def __repr__(self) -> str:
        return f"Envelopes({len(self.messages)} messages of {len(self)} people)"


@dataclass(frozen=True, eq=False)
class Counts:
    """What an analyzer needs of a batch: a sum over its messages, and how many people sent them.

    Adding the counts of two batches gives the counts of both together.

    Args:
        cells: The sums, such as how often each message was sent.
        n: How many people sent them.

    Example:
        >>> both = Counts(np.array([1, 2]), n=3) + Counts(np.array([0, 1]), n=1)
        >>> both.cells.tolist(), both.n
        ([1, 3], 4)
    """

    cells: npt.NDArray[np.int64]
    n: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.cells + other.cells, self.n + other.n)


def category_codes(
    values: npt.ArrayLike, k: int, *, name: str = "value", what: str = "answers"
) -> npt.NDArray[np.int64]:
    """Answers as whole numbers 0, ..., k - 1, or an error naming the row of the first other one."""
    codes = np.asarray(values)
    shape, whole = f"{codes.dtype} of shape {codes.shape}", codes.dtype.kind in "iu"
    expected = "a one-dimensional array of whole numbers"
    checks.refuse(codes.ndim != 1 or not whole, expected, **{f"{name}s": shape})
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < k:
        checks.everybody((codes >= 0) & (codes < k), f"{what} 0, ..., {k - 1}", **{name: codes})
    return codes.astype(np.int64, copy=False)


def vector_rows(values: npt.ArrayLike, dimension: int) -> Array:
    """One row of so many numbers per person."""
    vectors = np.asarray(values, dtype=np.float64)
    wrong = vectors.ndim != 2 or vectors.shape[1] != dimension
    expected = f"one row of {dimension} numbers per person"
    checks.refuse(wrong, expected, values=f"shape {vectors.shape}")
    return vectors


def attributes(of: object, *names: str) -> dict[str, Any]:
    """The attributes of these names, in their order."""
    return {name: getattr(of, name) for name in names}

"""Domains: all that a mechanism knows of a question is which data it takes.

A question with six labels, a column in six bins and three answers in two groups are the same to a
device: one of six cells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.checks import LARGEST_RANGE, SMALLEST_RANGE
from shoal.explain.text import plain
from shoal.values import Array, category_codes, vector_rows

MOST_TRIED = 64  # answers, of many
NORM_TOLERANCE = 1e-6
_SLACK = 1e-9  # relative: a length that is longer by rounding is not longer


class Domain(ABC):
    """The data that somebody may have; ``takes`` says what they are."""

    takes: ClassVar[str]
    # The first two trial inputs are as far apart as any others.
    ends_first: ClassVar[bool] = True
    extent: float = 1.0  # how far two estimates are apart at most: a fraction, or the range

    @property
    @abstractmethod
    def spread(self) -> float:
        """The largest variance of one person's datum: it matters where who reports is chance."""

    @property
    def coordinates(self) -> int:
        """Of a vector, how many there are."""
        return 0

    @property
    def longest(self) -> float:
        """Of vectors, the largest length."""
        return math.inf

    @property
    def widest(self) -> float:
        """Of vectors, the most that the absolute values of the coordinates add up to."""
        return math.inf

    @property
    def arguments(self) -> dict[str, Any]:
        """What a mechanism for these data is made with, by the names of its parameters."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # a data class

    def accepts(self, data: Domain) -> bool:
        """Whether a mechanism for this domain takes such data."""
        return self == data

    @abstractmethod
    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Data worth trying, for an auditor."""

    @abstractmethod
    def check(self, value: Hashable) -> None:
        """Refuse what is no such datum."""

    @abstractmethod
    def read(self, values: npt.ArrayLike) -> Any:  # noqa: ANN401 - what a mechanism works on
        """Everybody's data in an array, or an error about the row of the first that is none."""


@dataclass(frozen=True)
class Cells(Domain):
    """One of k cells, by its number 0, ..., k − 1.

    Args:
        k: How many there are, at least 2.

    Raises:
        InvalidArgumentError: ``k`` is no such number.

    Example:
        >>> Cells(3) == Cells(3), Cells(3).arguments
        (True, {'k': 3})
    """

    takes = "answers"
    ends_first = False

    k: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2)

    def __str__(self) -> str:
        return f"one of {self.k:,} answers"

    @property
    def spread(self) -> float:
        """Of the indicators of all answers together, which are equally likely."""
        return 1 - 1 / self.k

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """All answers, or the first one, the last one, and some in between."""
        return some_answers(self.k)

    def check(self, value: Hashable) -> None:
        """Refuse what is no answer."""
        whole = isinstance(value, Real | np.bool_) and float(value).is_integer()
        wrong = not whole or not 0 <= float(value) < self.k  # type: ignore[arg-type]  # a number
        expected = f"answers by their numbers 0 to {self.k - 1}, as declared"
        checks.refuse(wrong, expected, inputs=value)

    def read(self, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Numbers of answers."""
        return category_codes(values, self.k)


@dataclass(frozen=True)
class Interval(Domain):
    """A number between two bounds.

    Args:
        low: The lower bound.
        high: The upper one.
        whole: Whether the number has to be a whole one.

    Raises:
        InvalidArgumentError: The bounds are not two finite numbers, the lower one first.

    Example:
        >>> str(Interval(0.0, 24.0))
        'a number from 0 to 24'
    """

    takes = "numbers"

    low: float
    high: float
    whole: bool = False

    def __post_init__(self) -> None:
        checks.bounds(self.low, self.high)

    def __str__(self) -> str:
        return f"a number from {plain(self.low)} to {plain(self.high)}"

    @property
    def spread(self) -> float:
        """Of a number that is at either bound, as often."""
        return ((self.high - self.low) / 2) ** 2

    @property
    def extent(self) -> float:  # type: ignore[override]  # of the bounds
        """The range."""
        return self.high - self.low

    @property
    def arguments(self) -> dict[str, Any]:
        """The bounds."""
        return {"low": self.low, "high": self.high}

    def accepts(self, data: Domain) -> bool:
        """Numbers between the same bounds."""
        return self.arguments == data.arguments

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Both bounds and the middle."""
        if self.whole:
            return tuple(dict.fromkeys((0, int(self.high), int(self.high) // 2)))
        return (self.low, self.high, (self.low + self.high) / 2)

    def check(self, value: Hashable) -> None:
        """Refuse what is no number between the bounds, or no whole one."""
        inside = isinstance(value, Real) and self.low <= float(value) <= self.high
        expected = f"numbers from {self.low:g} to {self.high:g}, as declared"
        checks.refuse(not inside, expected, inputs=value)
        broken = self.whole and not float(value).is_integer()  # type: ignore[arg-type]  # a number
        checks.refuse(broken, f"whole {expected}", inputs=value)

    def read(self, values: npt.ArrayLike) -> Array:
        """Numbers between the bounds, of which a mechanism may take whole ones only."""
        numbers = np.asarray(values, dtype=np.float64)
        shape = f"shape {numbers.shape}"
        checks.refuse(numbers.ndim != 1, "a one-dimensional array", values=shape)
        inside = (numbers >= self.low) & (numbers <= self.high)
        checks.everybody(inside, f"numbers from {self.low:g} to {self.high:g}", value=numbers)
        return numbers


class Vectors(Domain):
    """Vectors of so many coordinates."""

    takes = "vectors"
    dimension: int

    def __str__(self) -> str:
        return f"a vector of {self.dimension:,} coordinates, {self.long}"

    @property
    def long(self) -> str:
        """How long vectors are, in words."""
        return f"at most {plain(self.longest)} long"

    @property
    def spread(self) -> float:
        """The square of the largest length."""
        return self.longest**2

    @property
    def coordinates(self) -> int:
        """The dimension."""
        return self.dimension

    @property
    def widest(self) -> float:
        """√d times the largest length, unless less is known."""
        return math.sqrt(self.dimension) * self.longest

    @property
    def ends(self) -> float:
        """How far the first coordinate reaches, if all others are 0."""
        return min(self.longest, self.widest)

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Opposite ends, and what is across."""
        axes = np.eye(self.dimension) * self.ends
        return tuple(tuple(row.tolist()) for row in (axes[0], -axes[0], *axes[1:2]))

    def check(self, value: Hashable) -> None:
        """Refuse what is no tuple of so many numbers."""
        parts = value if isinstance(value, tuple) else ()
        numbers = all(isinstance(part, Real) and math.isfinite(part) for part in parts)
        expected = f"tuples of {self.dimension} finite numbers, as declared"
        checks.refuse(len(parts) != self.dimension or not numbers, expected, inputs=value)

    def read(self, values: npt.ArrayLike) -> Array:
        """Rows that are as long as may be; what is too long by rounding is scaled down."""
        vectors = vector_rows(values, self.dimension)
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        longest = self.longest * (1 + NORM_TOLERANCE)
        checks.everybody(norms <= longest, f"vectors {self.long}", norm=norms)
        return np.asarray(vectors / np.maximum(norms / self.longest, 1.0)[:, None])


@dataclass(frozen=True)
class Ball(Vectors):
    """A vector that is at most so long.

    Args:
        dimension: How many coordinates it has, at least 1.
        norm: The largest length, > 0.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> Ball(dimension=2, norm=5.0).accepts(Ball(dimension=2, norm=4.0))
        True
    """

    dimension: int
    norm: float

    def __post_init__(self) -> None:
        checks.counts(self, dimension=1)
        checks.positive(norm=self.norm)
        expected = f"a norm from {SMALLEST_RANGE:g} to {LARGEST_RANGE:g} (take other units)"
        checks.refuse(not SMALLEST_RANGE <= self.norm <= LARGEST_RANGE, expected, norm=self.norm)

    @property
    def longest(self) -> float:
        """The norm."""
        return self.norm

    def accepts(self, data: Domain) -> bool:
        """Vectors of as many coordinates that are no longer."""
        fits = self.norm >= data.longest * (1 - _SLACK)
        return data.coordinates == self.dimension and fits


@dataclass(frozen=True)
class Sphere(Vectors):
    """A vector whose length is 1.

    Args:
        dimension: How many coordinates it has, at least 2.

    Raises:
        InvalidArgumentError: ``dimension`` is no such number.

    Example:
        >>> str(Sphere(3))
        'a vector of 3 coordinates, of length 1'
    """

    dimension: int

    def __post_init__(self) -> None:
        checks.counts(self, dimension=2)

    @property
    def long(self) -> str:
        """As long as all others."""
        return "of length 1"

    @property
    def longest(self) -> float:
        """1."""
        return 1.0

    def read(self, values: npt.ArrayLike) -> Array:
        """Rows of that length, but for rounding."""
        vectors = vector_rows(values, self.dimension)
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        checks.everybody(np.abs(norms - 1) <= NORM_TOLERANCE, f"vectors {self.long}", norm=norms)
        return np.asarray(vectors / norms[:, None])


@dataclass(frozen=True)
class Octahedron(Vectors):
    """A vector of so many coordinates whose absolute values add up to ``bound`` at most."""

    dimension: int
    bound: float

    @property
    def long(self) -> str:
        """How much absolute values add up to, in words."""
        return f"whose absolute values add up to {plain(self.bound)} at most"

    @property
    def widest(self) -> float:
        """The bound."""
        return self.bound

    def accepts(self, data: Domain) -> bool:
        """Vectors of as many coordinates that add up to no more."""
        fits = self.bound >= data.widest * (1 - _SLACK)
        return data.coordinates == self.dimension and fits

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Opposite ends, and zero."""
        first, second = super().trial_inputs()[:2]
        return first, second, tuple([0.0] * self.dimension)

    def read(self, values: npt.ArrayLike) -> Array:
        """Rows that add up to no more than the bound."""
        vectors = vector_rows(values, self.dimension)
        lengths = np.abs(vectors).sum(axis=1)
        expected = f"absolute values that add up to at most {self.bound:g}"
        checks.everybody(lengths <= self.bound * (1 + _SLACK), expected, length=lengths)
        return vectors


@dataclass(frozen=True)
class Texts(Domain):
    """A text of at most ``length`` bytes (None: any), of these characters (None: all)."""

    takes = "texts"
    ends_first = False

    length: int | None = None
    alphabet: str | None = None

    def __post_init__(self) -> None:
        checks.counts(self, length=1)

    def __str__(self) -> str:
        return "a text" if self.length is None else f"a text of at most {self.length} bytes"

    @property
    def spread(self) -> float:
        """None is known."""
        return math.inf

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Some texts."""
        return ("a", "b", "c")

    def check(self, value: Hashable) -> None:
        """Refuse what is no text."""
        checks.refuse(not isinstance(value, str), "strings, as there is no k", inputs=value)

    def read(self, values: npt.ArrayLike) -> Any:  # noqa: ANN401 - texts, as they are
        """The texts; how long they may be, a mechanism knows."""
        return values


def some_answers(k: int) -> tuple[int, ...]:
    """All of k answers, or the first one, the last one, and some in between."""
    return tuple(np.linspace(0, k - 1, min(k, MOST_TRIED)).astype(np.int64).tolist())

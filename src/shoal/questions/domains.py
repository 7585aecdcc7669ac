"""Domains: all that a mechanism knows of a question is which data it takes.

A question with six labels, a column in six bins and three answers in two groups are the same to a
device: one of six cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal import checks


@dataclass(frozen=True)
class Cells:
    """One of k cells, by its number 0, ..., k − 1.

    >>> Cells(3) == Cells(3)
    True
    """

    k: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2)


@dataclass(frozen=True)
class Interval:
    """A number from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        checks.bounds(self.low, self.high)


@dataclass(frozen=True)
class Ball:
    """A vector of so many coordinates that is at most ``norm`` long."""

    dimension: int
    norm: float

    def __post_init__(self) -> None:
        checks.counts(self, dimension=1)
        checks.positive(norm=self.norm)

    @property
    def bound(self) -> float:
        """The most that the absolute values of the coordinates add up to."""
        return math.sqrt(self.dimension) * self.norm


@dataclass(frozen=True)
class Sphere:
    """A vector of so many coordinates whose length is 1."""

    dimension: int

    def __post_init__(self) -> None:
        checks.counts(self, dimension=2)


@dataclass(frozen=True)
class Texts:
    """A text of at most ``length`` bytes, of these characters (None: any)."""

    length: int
    alphabet: str | None = None

    def __post_init__(self) -> None:
        checks.counts(self, length=1)


Domain = Cells | Interval | Ball | Sphere | Texts

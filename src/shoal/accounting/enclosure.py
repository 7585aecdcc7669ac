"""An interval certain to contain a positive number, kept in logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal.accounting.search import log
from shoal.errors import UncertifiedError

SMALLEST_POSITIVE = math.ulp(0.0)


@dataclass(frozen=True)
class Enclosure:
    """``log_lower <= log(value) <= log_upper``; minus infinity stands for the value 0.

    What is not an interval, a NaN or an infinite upper end among its ends, cannot be made: a
    computation that overflowed proves nothing.
    """

    log_lower: float
    log_upper: float

    def __post_init__(self) -> None:
        if not self.log_lower <= self.log_upper < math.inf:
            raise UncertifiedError(self.log_lower, self.log_upper)

    @classmethod
    def between(cls, lower: float, upper: float) -> Enclosure:
        """The interval between two numbers, rounded outwards."""
        return cls(_below(log(lower)), _above(log(upper)))

    @property
    def lower(self) -> float:
        """The lower end, rounded down."""
        return max(0.0, math.exp(self.log_lower) * (1 - 1e-15)) if self.log_lower < 0 else 1.0

    @property
    def upper(self) -> float:
        """The upper end, rounded up: 0 only if the value is exactly 0."""
        if self.log_upper == -math.inf:
            return 0.0
        return max(SMALLEST_POSITIVE, min(1.0, math.exp(min(self.log_upper, 0.0)) * (1 + 1e-15)))

    @property
    def gap(self) -> float:
        """Width in logarithms (infinite if the lower end is 0 and the upper end is not)."""
        if self.log_upper == -math.inf:
            return 0.0
        return self.log_upper - self.log_lower

    def meet(self, other: Enclosure) -> Enclosure:
        """The intersection of two valid enclosures."""
        return Enclosure(max(self.log_lower, other.log_lower), min(self.log_upper, other.log_upper))

    def plus(self, other: Enclosure) -> Enclosure:
        """An interval for the sum of the two numbers."""
        if other.log_upper == -math.inf:
            return self
        return Enclosure(
            _below(_log_sum(self.log_lower, other.log_lower)),
            _above(_log_sum(self.log_upper, other.log_upper)),
        )

    def down_by(self, error: float) -> Enclosure:
        """The same interval with its lower end moved down."""
        if error == 0.0 or self.log_lower == -math.inf:
            return self
        return Enclosure(_below(log(self.lower - error)), self.log_upper)


ZERO = Enclosure(-math.inf, -math.inf)


def _log_sum(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def _above(exponent: float) -> float:
    """The logarithm rounded up by more than the error of computing it."""
    error = 4 * max(math.ulp(exponent), 2.0**-53)
    return exponent + error if math.isfinite(exponent) else exponent


def _below(exponent: float) -> float:
    return -_above(-exponent)

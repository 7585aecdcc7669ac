"""An interval certain to contain a positive number, kept in logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass

SMALLEST_POSITIVE = math.ulp(0.0)


@dataclass(frozen=True)
class Enclosure:
    """``log_lower <= log(value) <= log_upper``; minus infinity stands for the value 0."""

    log_lower: float
    log_upper: float

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

    def plus(self, constant: float) -> Enclosure:
        """The interval moved up by a known non-negative constant."""
        if constant == 0.0:
            return self
        added = math.log(constant)
        return Enclosure(_log_sum(self.log_lower, added), _log_sum(self.log_upper, added))


ZERO = Enclosure(-math.inf, -math.inf)


def _log_sum(a: float, b: float) -> float:
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))

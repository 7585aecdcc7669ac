"""Where a value lies on an axis, in percent of its length, and the round numbers along it."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TICKS = 5
_SLACK = 1e-9


@dataclass(frozen=True)
class Axis:
    """From ``low`` to ``high``, left to right."""

    low: float
    high: float

    @classmethod
    def spanning(cls, *values: float) -> Axis:
        """An axis that holds zero and all values and ends at a round number."""
        low, high = min(0.0, *values), max(0.0, *values)
        return cls(low, cls.between(low, high if high > low else low + 1.0).high)

    @classmethod
    def between(cls, low: float, high: float) -> Axis:
        """The smallest axis between round numbers that holds both."""
        step = _step(low, high)
        first, last = math.floor(low / step + _SLACK), math.ceil(high / step - _SLACK)
        return cls(step * first, step * last)

    def at(self, value: float) -> float:
        """Percent of the length, kept inside."""
        share = (value - self.low) / (self.high - self.low)
        return 100 * min(1.0, max(0.0, share))

    def ticks(self) -> list[float]:
        """Round numbers, about half a dozen."""
        step = _step(self.low, self.high)
        first = math.ceil(self.low / step - _SLACK)
        last = math.floor(self.high / step + _SLACK)
        return [step * place for place in range(first, last + 1)]

    def decimals(self) -> int:
        """How many decimals tell the ticks apart."""
        step = _step(self.low, self.high)
        return next((d for d in range(12) if math.isclose(step, round(step, d), rel_tol=1e-6)), 12)


def _step(low: float, high: float) -> float:
    rough = (high - low) / _TICKS
    scale = 10.0 ** math.floor(math.log10(rough))
    return scale * next(step for step in _STEPS if step * scale >= rough * (1 - _SLACK))

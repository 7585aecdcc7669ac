"""Probabilities as whole numbers, so that a sampler on random bits keeps epsilon exactly.

A comparison of a float with a float can break a privacy guarantee in its last digits. Here the
odds between "this output" and "that output" are ``high : low`` with whole numbers
``high <= e^epsilon low``, checked in exact arithmetic; draws are uniform integers below their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

from shoal import checks
from shoal.errors import InvalidArgumentError

LARGEST_EPSILON = 30.0
_TOTAL_BITS = 52
_EXACT = Context(prec=60)


@dataclass(frozen=True)
class Odds:
    """Whole numbers ``high : low`` with ``1 < high / low <= e^epsilon``, as close as they fit."""

    high: int
    low: int

    @property
    def epsilon(self) -> float:
        """log(high / low), rounded up: what the sampler really keeps."""
        exact = _EXACT.ln(_EXACT.divide(Decimal(self.high), Decimal(self.low)))
        return math.nextafter(float(exact), math.inf)

    @property
    def integers(self) -> dict[str, int]:
        """Both numbers by name; they are below 2^52."""
        return {"high": self.high, "low": self.low}

    @classmethod
    def of(cls, epsilon: float, *, highs: float, lows: float) -> Odds:
        """The finest odds for which ``highs * high + lows * low`` stays below 2^52."""
        checks.positive(epsilon=epsilon)
        if epsilon > LARGEST_EPSILON:
            raise InvalidArgumentError("epsilon", epsilon, f"epsilon <= {LARGEST_EPSILON:g}")
        ratio = _EXACT.exp(Decimal(epsilon))
        low = math.floor(2.0**_TOTAL_BITS / (highs * float(ratio) + lows))
        if low < 1:
            expected = "an epsilon and a number of outputs that fit into 52 bits"
            raise InvalidArgumentError("epsilon", epsilon, expected)
        product = _EXACT.multiply(ratio, Decimal(low))
        high = int(product.to_integral_value(rounding=ROUND_FLOOR, context=_EXACT))
        if high <= low:
            expected = "an epsilon large enough for odds of whole numbers below 2^52"
            raise InvalidArgumentError("epsilon", epsilon, expected)
        return cls(high, low)

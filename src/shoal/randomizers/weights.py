"""Probabilities as whole numbers, so that a sampler on random bits keeps epsilon exactly.

A comparison of a float with a float can break a privacy guarantee in its last digits. Here the
odds between "this output" and "that output" are ``high : low`` with whole numbers
``high <= e^epsilon low``, checked in exact arithmetic; draws are uniform integers below their sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

import numpy as np
import numpy.typing as npt

from shoal.accounting.law import BlanketLaw, Claim, PairLike
from shoal.errors import InvalidArgumentError
from shoal.values import Array, Counts, Estimate

LARGEST_EPSILON = 30.0
EXACT = Context(prec=60)
_TOTAL_BITS = 52


@dataclass(frozen=True)
class Odds:
    """Whole numbers ``high : low`` with ``1 < high / low <= e^epsilon``, as close as they fit.

    ``raised`` is the weight of all likelier outputs together, ``total`` that of all outputs: draws
    are below it. ``epsilon`` is what the sampler really keeps, log(high / low) rounded up, and no
    more than was asked for.
    """

    high: int
    low: int
    raised: int
    total: int
    epsilon: float

    @classmethod
    def of(cls, epsilon: float, *, highs: int, lows: int) -> Odds:
        """The finest odds for which ``highs * high + lows * low`` stays below 2^52."""
        if epsilon > LARGEST_EPSILON:
            raise InvalidArgumentError("epsilon", epsilon, f"epsilon <= {LARGEST_EPSILON:g}")
        ratio = EXACT.exp(Decimal(epsilon))
        low = math.floor(2.0**_TOTAL_BITS / (highs * float(ratio) + lows))
        if low < 1:
            expected = "an epsilon and a number of outputs that fit into 52 bits"
            raise InvalidArgumentError("epsilon", epsilon, expected)
        product = EXACT.multiply(ratio, Decimal(low))
        high = int(product.to_integral_value(rounding=ROUND_FLOOR, context=EXACT))
        if high <= low:
            expected = "an epsilon large enough for odds of whole numbers below 2^52"
            raise InvalidArgumentError("epsilon", epsilon, expected)
        exact = EXACT.ln(EXACT.divide(Decimal(high), Decimal(low)))
        above = min(math.nextafter(float(exact), math.inf), epsilon)
        return cls(high, low, highs * high, highs * high + lows * low, above)

    def law(
        self,
        alone: float,
        both: float,
        neither: float,
        *,
        witnesses: Callable[[], Iterable[PairLike]],
    ) -> BlanketLaw:
        """The law of inputs that raise some outputs by these odds, if one list serves all pairs.

        The blanket has mass ``alone`` where only the first of two inputs raises the output, and as
        much where only the second does, ``both`` and ``neither``.
        """
        e = self.high / self.low
        atoms = [(alone, e, 1.0), (alone, 1.0, e), (both, e, e), (neither, 1.0, 1.0)]
        return BlanketLaw(atoms, witnesses=witnesses, claim=Claim(local_epsilon=self.epsilon))


@dataclass(frozen=True)
class Support:
    """Estimation from supports: a message supports its own answer more often than any other.

    If a message supports the true answer with probability P and each other answer with probability
    Q < P, then ``(C/n - Q)/(P - Q)`` is an unbiased estimate of an answer's fraction, C being the
    number of messages that support it, with variance

        [f P (1 - P) + (1 - f) Q (1 - Q)] / (n (P - Q)^2)

    given the data (Wang, Blocki, Li, Jha, "Locally Differentially Private Protocols for Frequency
    Estimation", USENIX Security 2017).
    """

    true: float
    other: float

    def estimate(self, counts: Counts) -> Estimate:
        """Fractions from the numbers of supporting messages, errors from these fractions."""
        fractions = (counts.cells / counts.n - self.other) / (self.true - self.other)
        # The variance is linear in the fraction, so unbiased fractions give it without bias; an
        # answer nobody gave still has at least its noise.
        least = min(self.true * (1 - self.true), self.other * (1 - self.other)) / 2
        floor = least / (counts.n * (self.true - self.other) ** 2)
        variances = np.maximum(self.variance(fractions, n=counts.n), floor)
        nobody, everybody = self.variance([0.0, 1.0], n=counts.n).tolist()
        step = 1 / (counts.n * (self.true - self.other))
        # With few messages that lie, counts are far from normal and move in whole steps.
        lies = counts.n * self.other * (1 - self.other)
        return Estimate(
            fractions,
            np.sqrt(variances),
            counts.n,
            variance_slope=everybody - nobody,
            step=step,
            granularity=step / (1 + lies / 3),
            empty_error=math.sqrt(nobody),
        )

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        f = np.asarray(frequencies, dtype=np.float64)
        each = f * self.true * (1 - self.true) + (1 - f) * self.other * (1 - self.other)
        return each / (n * (self.true - self.other) ** 2)

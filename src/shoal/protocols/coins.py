"""One bit per person, replaced by a fair coin now and then."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import Divergence, binary_delta, binary_lambda
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.protocols import shares
from shoal.protocols.base import MultiMessageAnswers, NumberedEnvelopes
from shoal.randomizers.base import Integers
from shoal.randomizers.weights import Support
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Envelopes, Estimate, category_codes

LARGEST_FRACTION = 1 - 2.0**-20
_ROUNDING = 1e-14


@dataclass(frozen=True, kw_only=True)
class FairCoins(NumberedEnvelopes, MultiMessageAnswers):
    """Send the answer, 0 or 1, or with probability ``coins`` a fair coin instead.

    One message per person: this is randomized response that lies with probability coins/2, and the
    baseline that several messages have to beat.

    Citations: Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed Differential Privacy via
    Shuffling", EUROCRYPT 2019, arXiv:1808.01394 (binary sums, with lambda = n coins); calibrated
    here on the exact divergence up to 128 people, beyond that on the privacy blanket.
    Runtime: one draw per person; O(n) to estimate.
    Utility: the count has variance about n coins/2, for instance 42 at (1, 1e-6), whatever n.

    >>> protocol = FairCoins.calibrated(n=100_000, epsilon=1.0, delta=1e-6)
    >>> round(100_000 * protocol.coins, 1), round(protocol.local_epsilon, 2)
    (85.2, 7.76)
    """

    name: ClassVar[str] = "coins"
    theorem = "fair coins, exact divergence or privacy blanket"
    scope = "everybody sends one bit that is sometimes a coin"
    outputs = 2
    messages = 1.0
    slots = 1
    always_full = True

    coins: float
    k: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        checks.positive(coins=self.coins)
        if self.coins > LARGEST_FRACTION:
            expected = "coins < 1 by 1e-6 at least: almost nothing of the answers would be left"
            raise InvalidArgumentError("coins", self.coins, expected)
        object.__setattr__(self, "coins", shares.rounded_up(self.coins))

    @classmethod
    def calibrated(cls, *, n: int, epsilon: float, delta: float) -> Self:
        """The fewest coins that keep (epsilon, delta) among n honest people."""
        coins = binary_lambda(n=n, epsilon=epsilon, delta=delta) / n
        if coins > LARGEST_FRACTION:
            raise UnreachableTargetError(
                f"epsilon={epsilon:g} at delta={delta:g}",
                f"n={n} honest people would send nothing but coins",
                "ask for a larger epsilon or delta, or for more people",
            )
        return cls(coins=coins).kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def local_epsilon(self) -> float:
        """log((1 − q)/q) with q = coins/2, rounded up."""
        lie = self.coins / 2
        return (math.log1p(-lie) - math.log(lie)) * (1 + _ROUNDING) + _ROUNDING

    @property
    def integers(self) -> Integers:
        """The probability of a coin, of 2^52."""
        return {"coins": shares.numerator(self.coins), "bits": shares.BITS}

    @property
    def influence(self) -> float:
        """One message, where the estimate expects some coins."""
        return (1 - self.coins / 2) / (1 - self.coins)

    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        sent = category_codes(values, 2).copy()
        replaced = np.flatnonzero(shares.coins(self.coins, sent.size, bits))
        sent[replaced] = bits.bits(replaced.size)
        return Envelopes(sent, np.ones(sent.size, dtype=np.int64))

    def _divergence(self, n: int) -> Divergence:
        return Divergence.of(binary_delta, n=n, lam=self.coins * n)

    @property
    def _support(self) -> Support:
        return Support(1 - self.coins / 2, self.coins / 2)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates of both fractions: (Σy − n coins/2)/(n − n coins) of the answer 1."""
        return self._support.estimate(self.counted(batch))

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """The same for both answers, q(1 − q)/(n (1 − 2q)²) with q = coins/2."""
        return self._support.variance(frequencies, n=n)

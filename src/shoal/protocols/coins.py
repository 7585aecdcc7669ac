"""One bit per person, replaced by a fair coin now and then."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import Divergence, NoiseProfile, binary_delta, binary_lambda
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.protocols import shares
from shoal.protocols.base import AnswerProtocol, NumberedEnvelopes
from shoal.randomizers.base import Integers, source
from shoal.randomizers.support import Support
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Envelopes, Estimate, category_codes

LARGEST_SHARE = 1 - 2.0**-20
_ROUNDING = 1e-14


@dataclass(frozen=True, kw_only=True)
class FairCoins(NumberedEnvelopes, AnswerProtocol):
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

    coins: float
    k: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        checks.positive(coins=self.coins)
        if self.coins > LARGEST_SHARE:
            expected = "coins < 1 by 1e-6 at least: almost nothing of the answers would be left"
            raise InvalidArgumentError("coins", self.coins, expected)
        object.__setattr__(self, "coins", shares.rounded_up(self.coins))

    @classmethod
    def calibrated(cls, *, n: int, epsilon: float, delta: float) -> Self:
        """The fewest coins that keep (epsilon, delta) among n honest people."""
        share = binary_lambda(n=n, epsilon=epsilon, delta=delta) / n
        if share > LARGEST_SHARE:
            raise UnreachableTargetError(
                f"epsilon={epsilon:g} at delta={delta:g}",
                f"n={n} honest people would send nothing but coins",
                "ask for a larger epsilon or delta, or for more people",
            )
        return cls(coins=share).kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def local_epsilon(self) -> float:
        """log((1 − q)/q) with q = coins/2, rounded up."""
        lie = self.coins / 2
        return (math.log1p(-lie) - math.log(lie)) * (1 + _ROUNDING) + _ROUNDING

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return 2

    @property
    def messages(self) -> float:
        """One."""
        return 1.0

    @property
    def slots(self) -> int:
        """One."""
        return 1

    @property
    def integers(self) -> Integers:
        """The chance of a coin, of 2^52."""
        return {"coins": shares.numerator(self.coins), "bits": shares.BITS}

    @property
    def always_full(self) -> bool:
        """Everybody sends one message."""
        return True

    @property
    def influence(self) -> float:
        """One message, where the estimate expects some coins."""
        return (1 - self.coins / 2) / (1 - self.coins)

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """One bit of each person."""
        bits = source(randomness)
        sent = category_codes(values, 2).copy()
        replaced = shares.hits(self.coins, sent.size, bits)
        sent[replaced] = bits.bits(replaced.size)
        return Envelopes(sent, np.ones(sent.size, dtype=np.int64))

    def profile(self, n: int) -> NoiseProfile:
        """The sampler is what was analysed."""
        return NoiseProfile(
            divergence=Divergence.of(binary_delta, n=n, lam=self.coins * n),
            n=n,
            theorem="fair coins, exact divergence or privacy blanket",
            scope="everybody sends one bit that is sometimes a coin",
            local_epsilon=self.local_epsilon,
        )

    @property
    def _support(self) -> Support:
        return Support(1 - self.coins / 2, self.coins / 2)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Unbiased estimates of the shares of both answers: (Σy − n coins/2)/(n − n coins) of 1."""
        return self._support.estimate(self.counted(batch))

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """The same for both answers, q(1 − q)/(n (1 − 2q)²) with q = coins/2."""
        return self._support.variance(frequencies, n=n)

"""A sum with the error of a trusted curator: noisy numbers in random shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import Divergence
from shoal.accounting.noise.split import discrete_laplace_delta
from shoal.protocols.base import NumberProtocol
from shoal.protocols.laplace_mean import LaplaceMean
from shoal.protocols.splitting import SplitProtocol, Whole, default_levels, fitted
from shoal.randomizers.base import source
from shoal.randomizers.grid import rounded
from shoal.randomness import Randomness
from shoal.values import Batch, Counts, Envelopes, bounded_numbers


@dataclass(frozen=True, kw_only=True)
class SplitAndMixSum(SplitProtocol, NumberProtocol):
    """Round at random to 0, ..., ``levels``, add a share of the noise, split, and mix.

    The shuffled shares of all people show their noisy sum and, but for a total variation of
    ``split_distance``, nothing else.

    Citations: Ishai, Kushilevitz, Ostrovsky, Sahai, "Cryptography from Anonymity", FOCS 2006;
    Balle, Bell, Gascón, Nissim, "Private Summation in the Multi-Message Shuffle Model", CCS 2020,
    arXiv:2002.00817, and arXiv:1906.09116 for the noise. The number of shares is not theirs: it
    comes from the exact second moment, and is lower.
    Runtime: one draw per share and three per person; O(messages) to estimate.
    Utility: the sum has variance n/(4 levels²) + 2/ε² in units of the bounds' span, whatever n is.
    One missing message makes the sum worthless, and is noticed.

    >>> protocol = SplitAndMixSum.calibrated(low=0, high=1, n=10**6, epsilon=1.0, delta=1e-6)
    >>> protocol.shares, protocol.modulus_bits, protocol.envelope_bytes
    (7, 54, 49)
    """

    name: ClassVar[str] = "split-and-mix"

    low: float
    high: float
    levels: int
    shares: int
    modulus_bits: int
    people: int
    epsilon: float | None

    def __post_init__(self) -> None:
        checks.bounds(self.low, self.high)
        self._check()

    @classmethod
    def calibrated(
        cls,
        *,
        low: float,
        high: float,
        n: int,
        epsilon: float,
        delta: float,
        levels: int | None = None,
    ) -> Self:
        """Noise of epsilon from n honest people together, and the fewest shares that keep delta.

        A modulus with 24 bits to spare, 16 for very large crowds, makes an altered share show.
        """
        checks.target(epsilon=epsilon, delta=delta)
        finest = default_levels(n=n, epsilon=epsilon, delta=delta, sensitivity=1)
        chosen = finest if levels is None else levels
        make = partial(cls, low=low, high=high, levels=chosen, people=n, epsilon=epsilon)
        return fitted(make, n=n, epsilon=epsilon, delta=delta)

    @property
    def coordinates(self) -> int:
        """One sum."""
        return 1

    @property
    def sensitivity(self) -> int:
        """All levels."""
        return self.levels

    @property
    def step(self) -> float:
        """What one level is worth."""
        return (self.high - self.low) / self.levels

    @property
    def influence(self) -> float:
        """Anything that leaves the sum plausible: a person's shares may add up to any number.

        For as many people as share the noise. The crowd that makes the sum plausible, not the
        protocol, bounds it.
        """
        low, high = self.plausible(self.people)
        return self.step * (high - low)

    def _extremes(self, n: int) -> tuple[int, int]:
        return 0, n * self.levels

    def _divergence(self) -> Divergence:
        rate = self.rate or math.inf
        return Divergence.of(discrete_laplace_delta, rate=rate, sensitivity=self.levels)

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Everybody's shares, which add up to the rounded number and its noise."""
        drawn = source(randomness)
        return self._sent(self._rounded(values, drawn)[:, None], drawn)

    def _rounded(self, values: npt.ArrayLike, randomness: Randomness) -> Whole:
        numbers = bounded_numbers(values, self.low, self.high)
        return rounded((numbers - self.low) / (self.high - self.low), self.levels, randomness)

    def estimate(self, batch: Batch | Counts) -> LaplaceMean:
        """The sum in the middle of what is plausible, as a mean; worst-case rounding in its error.

        Messages that are too few, too many or do not fit together are an error.
        """
        counts = self.counted(batch)
        (total,) = self.sums(counts)
        unit = self.step / counts.n
        mean = self.low + unit * total
        return LaplaceMean.noisy(mean, n=counts.n, unit=unit, rate=self.rate, people=self.people)

    def variance(self, *, n: int) -> float:
        """Largest variance of the estimated mean of n people, over their data."""
        people = checks.count(n=n)
        return (self.step / people) ** 2 * (people / 4 + self.noise_variance(people))

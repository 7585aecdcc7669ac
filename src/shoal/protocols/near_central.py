"""Counts and sums of small numbers with almost the error of a trusted curator."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import (
    Divergence,
    NearCentralNoise,
    NoiseProfile,
    incomplete_delta,
    near_central_calibration,
    near_central_delta,
)
from shoal.accounting.noise.near_central import NegativeBinomial
from shoal.errors import InvalidArgumentError
from shoal.protocols.base import AnswerProtocol, NumberedEnvelopes, NumberProtocol, margins
from shoal.protocols.laplace_mean import LaplaceMean
from shoal.protocols.negative_binomial import Difference, SharedCount
from shoal.randomizers.base import Integers, source
from shoal.randomizers.grid import rounded
from shoal.randomness import Randomness
from shoal.values import (
    Array,
    Batch,
    Counts,
    Envelopes,
    Estimate,
    MeanEstimate,
    bounded_numbers,
    category_codes,
)

Target = tuple[int, float, float]  # honest people, epsilon, delta

_MINUS, _PLUS = 0, 1  # the numbers of the two messages, −1 and +1


@dataclass(frozen=True, kw_only=True)
class _NearCentral(NumberedEnvelopes):
    """Copies of +1, and everybody's share of the noise.

    ``central_epsilon`` is that of the discrete Laplace noise, ``shape`` and ``pairs`` describe the
    number of pairs {+1, −1}; ``people`` share all of it. Any more people add more noise.
    """

    central_epsilon: float
    shape: float
    pairs: float
    people: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "people", checks.count(people=self.people))
        _ = self._noise

    @classmethod
    def _least(
        cls, target: Target, *, inflation: float, copies: int = 1, **numbers: float | None
    ) -> Self:
        """The fewest pairs that keep the target, the rounding of the tables counted.

        At most ``copies`` messages +1 say somebody's number, which ``numbers`` describes.
        """
        n, epsilon, delta = target
        people = checks.count(n=n)
        checks.open_probability(delta=delta)
        for part in margins(delta):
            noise = near_central_calibration(
                epsilon=epsilon, delta=part, inflation=inflation, high=copies
            )
            made = cls(
                central_epsilon=noise.central_epsilon,
                shape=noise.shape,
                pairs=noise.pairs,
                people=people,
                **numbers,
            )
            if made.profile(people).delta(epsilon) <= delta:
                break
        return made.kept(n=people, epsilon=epsilon, delta=delta)

    @property
    @abstractmethod
    def _copies(self) -> int:
        """The most messages +1 that say somebody's number."""

    @cached_property
    def _noise(self) -> NearCentralNoise:
        return NearCentralNoise(
            central_epsilon=self.central_epsilon,
            shape=self.shape,
            pairs=self.pairs,
            high=self._copies,
        )

    @cached_property
    def _single(self) -> SharedCount:
        """One person's share of the messages +1, and of the messages −1."""
        return SharedCount.of(NegativeBinomial.geometric(self._noise.rate), people=self.people)

    @cached_property
    def _paired(self) -> SharedCount:
        """One person's share of the pairs."""
        law = NegativeBinomial.of_mean(self.pairs, shape=self.shape)
        return SharedCount.of(law, people=self.people)

    @property
    def integers(self) -> Integers:
        """What the shares of single messages and of pairs are drawn by."""
        return {**self._single.count.integers("single"), **self._paired.count.integers("pairs")}

    @property
    def outputs(self) -> int:
        """Two messages: −1 and +1."""
        return 2

    @property
    def messages(self) -> float:
        """Those of the largest number, and a share of the noise."""
        return self._copies + self._noise.messages / self.people

    @property
    def slots(self) -> int:
        """Room for the largest number and the largest shares of noise that are ever drawn."""
        return self._copies + 2 * self._single.largest + 2 * self._paired.largest

    def profile(self, n: int) -> NoiseProfile:
        """The exact divergence of the noise there is, and what the tables' rounding adds.

        More people than share the noise only add to it. With fewer, some of it is missing.
        """
        present = checks.count(n=n)
        counted = min(present, self.people)
        noise = {
            "central_epsilon": self.central_epsilon,
            "shape": self.shape,
            "pairs": self.pairs,
            "high": self._copies,
        }
        divergence = Divergence.of(near_central_delta, **noise)
        if counted < self.people:
            divergence = Divergence.of(incomplete_delta, **noise, present=counted / self.people)
        return NoiseProfile(
            divergence=divergence,
            n=present,
            theorem="near-central noise, exact divergence",
            scope="everybody sends copies of +1 and a share of the noise, each message by itself",
            slack=counted * (2 * self._single.error + self._paired.error),
        )

    def _envelopes(self, copies: npt.NDArray[np.int64], bits: Randomness) -> Envelopes:
        """So many messages +1 of each person, and noise."""
        plus, minus = (self._single.draw(copies.size, bits) for _ in range(2))
        pairs = self._paired.draw(copies.size, bits)
        numbers = np.stack([minus + pairs, copies + plus + pairs], axis=1)  # (people, 2)
        kinds = np.tile(np.array([_MINUS, _PLUS], dtype=np.int64), copies.size)
        return Envelopes(np.repeat(kinds, numbers.ravel()), numbers.sum(axis=1))

    def _error(self, n: int) -> Difference:
        """The law of the error of the sum over n people."""
        law = NegativeBinomial.geometric(self._noise.rate)
        return Difference(law if n == self.people else law.times(n / self.people))


@dataclass(frozen=True, kw_only=True)
class NearCentralCount(_NearCentral, AnswerProtocol):
    """Count the answers 1 among 0 and 1, with an error of O(1/epsilon) people.

    An answer 1 is sent as a message +1, an answer 0 as none. All people together add geometric
    numbers of messages +1 and −1, so that the error is discrete Laplace, and pairs {+1, −1} that
    leave the sum alone and hide how many there are of each.

    Citations: Ghazi, Kumar, Manurangsi, Pagh, Sinha, "Differentially Private Aggregation in the
    Shuffle Model: Almost Central Accuracy in Almost a Single Message", ICML 2021,
    arXiv:2109.13158; calibrated here on the exact divergence.
    Runtime: three draws per person; O(messages) to estimate.
    Utility: the count has variance 2a/(1 - a)^2, a = e^-central_epsilon, whatever n. One dishonest
    person can move it by as much as an envelope holds.

    >>> protocol = NearCentralCount.calibrated(n=100_000, epsilon=1.0, delta=1e-6)
    >>> round(protocol.messages, 4), round(10**10 * float(protocol.variance(0.5, n=100_000)), 2)
    (1.0061, 2.3)
    """

    name: ClassVar[str] = "near-central"

    k: int = field(default=2, init=False)

    @classmethod
    def calibrated(cls, *, n: int, epsilon: float, delta: float, inflation: float = 1.25) -> Self:
        """The fewest pairs that keep (epsilon, delta) among n honest people.

        ``inflation`` is the variance paid, as a multiple of the central model's: nearer to 1 takes
        more pairs.
        """
        return cls._least((n, epsilon, delta), inflation=inflation)

    @property
    def _copies(self) -> int:
        return 1

    @property
    def influence(self) -> float:
        """An envelope full of messages −1 adds itself, and its sender, to the answers 0."""
        return self.slots + 1.0

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """The messages −1 first, then the messages +1: the shuffler has to mix them."""
        return self._envelopes(category_codes(values, 2), source(randomness))

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Messages +1 less messages −1, as the share of the answer 1; the rest answered 0."""
        counts = self.counted(batch)
        ones = (int(counts.cells[_PLUS]) - int(counts.cells[_MINUS])) / counts.n
        error = self._error(counts.n)
        deviation = math.sqrt(error.variance) / counts.n
        return NearCentralShares(
            np.array([1 - ones, ones]),
            np.full(2, deviation),
            counts.n,
            step=1 / counts.n,
            empty_error=deviation,
            error=error,
        )

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """The same for both answers, whatever their shares."""
        return np.full(np.shape(frequencies), self._error(n).variance / n**2)


@dataclass(frozen=True, kw_only=True)
class NearCentralSum(_NearCentral, NumberProtocol):
    """Sum whole numbers from 0 to ``high``, at most 64, with an error of O(high/epsilon).

    A number x is sent as x messages +1; the noise is that of :class:`NearCentralCount`, for sums
    that differ by as much as ``high``.

    With ``levels``, numbers between ``low`` and ``high`` are rounded at random to one of so many
    equal steps, right on average, and the step is sent.

    Citations: Ghazi, Kumar, Manurangsi, Pagh, Sinha, arXiv:2109.13158 (who send x itself and flood
    with more kinds of messages); calibrated here on the exact divergence.
    Runtime: three draws per person; O(messages) to estimate.
    Utility: the sum has variance 2a/(1 - a)^2, a = e^-(central_epsilon/high), whatever n; of
    numbers that are rounded n/4 more at most, in steps.

    >>> protocol = NearCentralSum.calibrated(high=5, n=10_000, epsilon=1.0, delta=1e-6)
    >>> round(10_000 * protocol.variance(n=10_000) ** 0.5, 1)
    7.9
    """

    name: ClassVar[str] = "near-central-sum"

    low: float = 0.0
    high: float
    levels: int | None = None

    def __post_init__(self) -> None:
        copies = _copies(self.low, self.high, self.levels)
        object.__setattr__(self, "levels" if self.levels is not None else "high", copies)
        super().__post_init__()

    @classmethod
    def calibrated(
        cls,
        *,
        high: float,
        n: int,
        epsilon: float,
        delta: float,
        low: float = 0.0,
        levels: int | None = None,
        inflation: float = 1.25,
    ) -> Self:
        """The fewest pairs that keep (epsilon, delta) among n honest people."""
        copies = _copies(low, high, levels)
        bounds = {"low": low, "high": high, "levels": levels}
        return cls._least((n, epsilon, delta), inflation=inflation, copies=copies, **bounds)

    @property
    def _copies(self) -> int:
        return int(self.high) if self.levels is None else self.levels

    @property
    def step(self) -> float:
        """What one message is worth."""
        return (self.high - self.low) / self._copies

    @property
    def influence(self) -> float:
        """An envelope full of one message, and the lower bound that every sender counts for."""
        return self.step * self.slots + abs(self.low)

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """The messages −1 first, then the messages +1: the shuffler has to mix them."""
        numbers, drawn = bounded_numbers(values, self.low, self.high), source(randomness)
        if self.levels is not None:
            shares = (numbers - self.low) / (self.high - self.low)
            return self._envelopes(rounded(shares, self.levels, drawn), drawn)
        whole = np.floor(numbers)
        if (whole != numbers).any():
            wrong = float(numbers[whole != numbers][0])
            expected = f"whole numbers from 0 to {self.high} (levels rounds others at random)"
            raise InvalidArgumentError("value", wrong, expected)
        return self._envelopes(whole.astype(np.int64), drawn)

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Both bounds and the middle; whole numbers if nothing is rounded."""
        if self.levels is not None:
            return super().trial_inputs()
        return tuple(dict.fromkeys((0, int(self.high), int(self.high) // 2)))

    def check_input(self, value: Hashable) -> None:
        """Refuse what is not between the bounds, or not a whole number if nothing is rounded."""
        super().check_input(value)
        if self.levels is None and not float(value).is_integer():  # type: ignore[arg-type]  # a number
            expected = f"whole numbers from {self.low:g} to {self.high:g}, as declared"
            raise InvalidArgumentError("inputs", value, expected)

    def estimate(self, batch: Batch | Counts) -> MeanEstimate:
        """Messages +1 less messages −1, divided by the number of people."""
        counts = self.counted(batch)
        total = int(counts.cells[_PLUS]) - int(counts.cells[_MINUS])
        if self.levels is not None:
            unit, rate = self.step / counts.n, self._noise.rate
            mean = self.low + unit * total
            return LaplaceMean.noisy(mean, n=counts.n, unit=unit, rate=rate, people=self.people)
        error = self._error(counts.n)
        deviation = math.sqrt(error.variance) / counts.n
        return NearCentralMean(total / counts.n, deviation, counts.n, error=error)

    def variance(self, *, n: int) -> float:
        """The same whatever the numbers are, but for the rounding, which is at its worst here."""
        rounding = 0.0 if self.levels is None else n / 4
        return (self.step / n) ** 2 * (self._error(n).variance + rounding)


def _copies(low: float, high: float, levels: int | None) -> int:
    """How many messages +1 say the largest number."""
    if levels is not None:
        checks.bounds(low, high)
        return checks.count(levels=levels)
    if low != 0:
        expected = "low = 0 for whole numbers (levels rounds numbers between any bounds)"
        raise InvalidArgumentError("low", low, expected)
    return checks.count(high=high)


@dataclass(frozen=True, eq=False, kw_only=True)
class NearCentralShares(Estimate):
    """Shares whose errors are discrete Laplace: so are their confidence limits."""

    error: Difference

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Confidence limits of each share; both have the same error, so both hold together."""
        del simultaneous
        checks.open_probability(level=level)
        # Whole numbers of people first: a limit must not lose its end to rounding.
        reach, people = self.error.limit(level), np.rint(self.frequencies * self.n)
        return (people - reach) / self.n, (people + reach) / self.n


@dataclass(frozen=True, kw_only=True)
class NearCentralMean(MeanEstimate):
    """A mean whose error is discrete Laplace: so are its confidence limits."""

    error: Difference

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence limits of the mean."""
        checks.open_probability(level=level)
        reach, total = self.error.limit(level), round(self.mean * self.n)
        return (total - reach) / self.n, (total + reach) / self.n

"""Counts and sums of small numbers, with almost the error of a trusted curator; and fair coins."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise.binary import binary_delta, binary_lambda
from shoal.accounting.noise.near_central import (
    NearCentralNoise,
    NegativeBinomial,
    incomplete_delta,
    near_central_calibration,
    near_central_delta,
)
from shoal.accounting.noise.near_central_histogram import CountLaw
from shoal.accounting.noise.profile import Divergence
from shoal.errors import UnreachableTargetError
from shoal.mechanisms import shares
from shoal.mechanisms.base import Integers, NumberMechanism, Support, SupportEstimates
from shoal.mechanisms.envelopes import AnswerEnvelopes, NumberedEnvelopes, Whole, margins
from shoal.mechanisms.grid import rounded
from shoal.mechanisms.shares import Difference, KnownErrors, LaplaceMean, RareCount
from shoal.randomness import Randomness
from shoal.values import (
    Array,
    Batch,
    Counts,
    Envelopes,
    Estimate,
    Flags,
    MeanEstimate,
    Span,
    attributes,
    bounded_numbers,
    category_codes,
)

LARGEST_FRACTION = 1 - 2.0**-20
_ROUNDING = 1e-14
_NOISE = ("central_epsilon", "shape", "pairs")  # of NearCentralNoise
_MINUS, _PLUS = 0, 1  # the numbers of the two messages, −1 and +1


@dataclass(frozen=True, kw_only=True)
class _NearCentral(NumberedEnvelopes):
    """Copies of +1, and everybody's share of the noise.

    ``central_epsilon`` is that of the discrete Laplace noise, ``shape`` and ``pairs`` describe the
    number of pairs {+1, −1}; ``people`` share all of it. Any more people add more noise.
    """

    theorem = "near-central noise, exact divergence"
    scope = "everybody sends copies of +1 and a share of the noise, each message by itself"
    outputs = 2  # −1 and +1

    central_epsilon: float
    shape: float
    pairs: float
    people: int

    def __post_init__(self) -> None:
        checks.counts(self, people=1)
        _ = self._noise

    @classmethod
    def _least(
        cls,
        n: int,
        epsilon: float,
        delta: float,
        inflation: float,
        copies: int,
        **numbers: Any,  # noqa: ANN401
    ) -> Self:
        """The fewest pairs that keep the target, the rounding of the tables counted.

        At most ``copies`` messages +1 say somebody's number, which ``numbers`` describes.
        """
        people = checks.count(n=n)
        checks.open_probability(delta=delta)
        for part in margins(delta):
            noise = near_central_calibration(
                epsilon=epsilon, delta=part, inflation=inflation, high=copies
            )
            made = cls(people=people, **attributes(noise, *_NOISE), **numbers)
            if made.profile(people).delta(epsilon) <= delta:
                break
        return made.kept(n=people, epsilon=epsilon, delta=delta)

    @property
    @abstractmethod
    def _copies(self) -> int:
        """The most messages +1 that say somebody's number."""

    @cached_property
    def _noise(self) -> NearCentralNoise:
        return NearCentralNoise(**attributes(self, *_NOISE), high=self._copies)

    @cached_property
    def _single(self) -> RareCount:
        """One person's share of the messages +1, and of the messages −1."""
        law = NegativeBinomial.geometric(self._noise.rate)
        return RareCount.negative_binomial(law, people=self.people)

    @cached_property
    def _paired(self) -> RareCount:
        """One person's share of the pairs."""
        law = NegativeBinomial.of_mean(self.pairs, shape=self.shape)
        return RareCount.negative_binomial(law, people=self.people)

    @property
    def integers(self) -> Integers:
        """What the shares of single messages and of pairs are drawn by."""
        return {**self._single.integers("single"), **self._paired.integers("pairs")}

    @property
    def messages(self) -> float:
        """Those of the largest number, and a share of the noise."""
        return self._copies + self._noise.messages / self.people

    @property
    def slots(self) -> int:
        """Room for the largest number and the largest shares of noise that are ever drawn."""
        return self._copies + 2 * self._single.largest + 2 * self._paired.largest

    def _divergence(self, n: int) -> Divergence:
        """Exact, of the noise there is.

        More people than share the noise only add to it. With fewer, some of it is missing.
        """
        noise = asdict(self._noise)
        if n >= self.people:
            return Divergence.of(near_central_delta, **noise)
        return Divergence.of(incomplete_delta, **noise, present=checks.count(n=n) / self.people)

    def _slack(self, n: int) -> float:
        """What the tables round off."""
        return min(n, self.people) * (2 * self._single.error + self._paired.error)

    def _sent(self, copies: Whole, bits: Randomness) -> Envelopes:
        """So many messages +1 of each person, and noise; the messages −1 first."""
        plus, minus = (self._single.draw(copies.size, bits) for _ in range(2))
        pairs = self._paired.draw(copies.size, bits)
        numbers = np.stack([minus + pairs, copies + plus + pairs], axis=1)  # (people, 2)
        kinds = np.tile(np.array([_MINUS, _PLUS], dtype=np.int64), copies.size)
        return Envelopes(np.repeat(kinds, numbers.ravel()), numbers.sum(axis=1))

    def _error(self, n: int) -> Difference:
        """The law of the error of the sum over n people."""
        return Difference(CountLaw.geometric(self._noise.rate).times(n / self.people))


@dataclass(frozen=True, kw_only=True)
class NearCentralCount(_NearCentral, AnswerEnvelopes):
    """Count the answers 1 among 0 and 1, with an error of O(1/epsilon) people.

    An answer 1 is sent as a message +1, an answer 0 as none. All people together add geometric
    numbers of messages +1 and −1, so that the error is discrete Laplace, and pairs {+1, −1} that
    leave the sum alone and hide how many there are of each.

    Runtime: three draws per person; O(messages) to estimate.

    Utility: the count has variance 2a/(1 - a)^2, a = e^-central_epsilon, whatever n. One
    dishonest person can move it by as much as an envelope holds.

    Args:
        central_epsilon: ε > 0 of the discrete Laplace noise in the count or sum.
        shape: Shape of the negative binomial number of pairs {+1, −1}, > 0.
        pairs: Expected number of pairs that all people together add.
        people: Honest people who share the noise; more of them add more.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Ghazi, Kumar, Manurangsi, Pagh, Sinha, "Differentially Private Aggregation in the
        Shuffle Model: Almost Central Accuracy in Almost a Single Message", ICML 2021,
        arXiv:2109.13158; calibrated here on the exact divergence; :doc:`/theory/near-central`.

    Example:
        >>> protocol = NearCentralCount.calibrated(n=100_000, epsilon=1.0, delta=1e-6)
        >>> round(protocol.messages, 4), round(10**10 * float(protocol.variance(0.5, n=100_000)), 2)
        (1.0061, 2.3)
    """

    name: ClassVar[str] = "near-central"
    laplace = True
    one_error = True
    _copies = 1

    k: int = field(default=2, init=False)

    @classmethod
    def calibrated(cls, *, n: int, epsilon: float, delta: float, inflation: float = 1.25) -> Self:
        """The fewest pairs that keep (epsilon, delta) among n honest people.

        ``inflation`` is the variance paid, as a multiple of the central model's: nearer to 1 takes
        more pairs.
        """
        return cls._least(n, epsilon, delta, inflation, copies=1)

    @property
    def influence(self) -> float:
        """An envelope full of messages −1 adds itself, and its sender, to the answers 0."""
        return self.slots + 1.0

    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        return self._sent(category_codes(values, 2), bits)

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Messages +1 less messages −1, as the fraction of the answer 1; the rest answered 0."""
        counts = self.counted(batch)
        ones = (int(counts.cells[_PLUS]) - int(counts.cells[_MINUS])) / counts.n
        error = self._error(counts.n)
        deviation = math.sqrt(error.variance) / counts.n
        return NearCentralFractions(
            np.array([1 - ones, ones]),
            np.full(2, deviation),
            counts.n,
            step=1 / counts.n,
            empty_error=deviation,
            error=error,
        )

    def totals(
        self, estimate: Estimate, starts: Whole, stops: Whole, *, last: float = 0.0
    ) -> Estimate:
        """Fractions of people with an answer from a start up to a stop: both have one error."""
        zeros = ((starts <= 0) & (stops > 0)).astype(np.float64)
        ones = np.where(stops > 1, starts <= 1, last)
        ours = zeros + (ones - zeros) * estimate.frequencies[1]
        error, n = self._error(estimate.n), estimate.n
        return KnownErrors.of(ours, [error] * ours.size, n=n, scales=np.abs(ones - zeros))

    def sums(
        self,
        estimate: Estimate,
        values: Array,
        sizes: Whole,
        *,
        before: Flags | bool = False,
        last: float = 0.0,
    ) -> Estimate:
        """As of :meth:`totals`, of whichever so many answers; ``last`` is for ranges."""
        assert not np.any(before) and not last  # noqa: S101, PT018
        error, n = self._error(estimate.n), estimate.n
        scales = (sizes == 1).astype(np.float64)
        return KnownErrors.of(values, [error] * values.size, n=n, scales=scales)

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """The same for both answers, whatever their fractions."""
        return np.full(np.shape(frequencies), self._error(n).variance / n**2)


@dataclass(frozen=True, kw_only=True)
class NearCentralSum(_NearCentral, NumberMechanism):
    """Sum whole numbers from 0 to ``high``, at most 64, with an error of O(high/epsilon).

    A number x is sent as x messages +1; the noise is that of :class:`NearCentralCount`, for sums
    that differ by as much as ``high``.

    With ``levels``, numbers between ``low`` and ``high`` are rounded at random to one of so many
    equal steps, right on average, and the step is sent.

    Runtime: three draws per person; O(messages) to estimate.

    Utility: the sum has variance 2a/(1 - a)^2, a = e^-(central_epsilon/high), whatever n;
    of numbers that are rounded n/4 more at most, in steps.

    Args:
        central_epsilon: ε > 0 of the discrete Laplace noise in the count or sum.
        shape: Shape of the negative binomial number of pairs {+1, −1}, > 0.
        pairs: Expected number of pairs that all people together add.
        people: Honest people who share the noise; more of them add more.
        low: The least number, 0 unless numbers are rounded to ``levels``.
        high: The largest number: whole and at most 64, unless numbers are rounded.
        levels: Equal steps that numbers are rounded to at random; None sends whole numbers as
            they are.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Ghazi, Kumar, Manurangsi, Pagh, Sinha, arXiv:2109.13158 (who send x itself and flood
        with more kinds of messages); calibrated here on the exact divergence;
        :doc:`/theory/near-central`.

    Example:
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
        copies, bounds = _copies(low, high, levels), {"low": low, "high": high, "levels": levels}
        return cls._least(n, epsilon, delta, inflation, copies, **bounds)

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

    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        if self.levels is not None:
            return self._sent(rounded(values, self.low, self.high, self.levels, bits), bits)
        numbers = bounded_numbers(values, self.low, self.high)
        whole = np.floor(numbers)
        expected = f"whole numbers from 0 to {self.high} (levels rounds others at random)"
        checks.everybody(whole == numbers, expected, value=numbers)
        return self._sent(whole.astype(np.int64), bits)

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Both bounds and the middle; whole numbers if nothing is rounded."""
        if self.levels is not None:
            return super().trial_inputs()
        return tuple(dict.fromkeys((0, int(self.high), int(self.high) // 2)))

    def check_input(self, value: Hashable) -> None:
        """Refuse what is not between the bounds, or not a whole number if nothing is rounded."""
        super().check_input(value)
        whole = float(value).is_integer()  # type: ignore[arg-type]  # a number
        expected = f"whole numbers from {self.low:g} to {self.high:g}, as declared"
        checks.refuse(self.levels is None and not whole, expected, inputs=value)

    def estimate(self, batch: Batch | Counts) -> MeanEstimate:
        """Messages +1 less messages −1, divided by the number of people."""
        counts = self.counted(batch)
        n, total = counts.n, int(counts.cells[_PLUS]) - int(counts.cells[_MINUS])
        if self.levels is not None:
            unit = self.step / n
            return LaplaceMean.noisy(
                self.low + unit * total, n=n, unit=unit, rate=self._noise.rate, people=self.people
            )
        error = self._error(n)
        return NearCentralMean(total / n, math.sqrt(error.variance) / n, n, error=error)

    def variance(self, *, n: int) -> float:
        """The same whatever the numbers are, but for the rounding, which is at its worst here."""
        rounding = 0.0 if self.levels is None else n / 4
        return (self.step / n) ** 2 * (self._error(n).variance + rounding)


def _copies(low: float, high: float, levels: int | None) -> int:
    """How many messages +1 say the largest number."""
    if levels is not None:
        checks.bounds(low, high)
        return checks.count(levels=levels)
    expected = "low = 0 for whole numbers (levels rounds numbers between any bounds)"
    checks.refuse(low != 0, expected, low=low)
    return checks.count(high=high)


@dataclass(frozen=True, eq=False, kw_only=True)
class NearCentralFractions(Estimate):
    """Fractions whose errors are discrete Laplace: so are their confidence limits."""

    error: Difference

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:  # noqa: ARG002
        """Confidence limits of each fraction; both have the same error, so both hold together."""
        # Whole numbers of people first: a limit must not lose its end to rounding.
        reach, people = self.error.limit(level), np.rint(self.frequencies * self.n)
        return (people - reach) / self.n, (people + reach) / self.n


@dataclass(frozen=True, kw_only=True)
class NearCentralMean(MeanEstimate):
    """A mean whose error is discrete Laplace: so are its confidence limits."""

    error: Difference

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence limits of the mean."""
        reach, total = self.error.limit(level), round(self.mean * self.n)
        return (total - reach) / self.n, (total + reach) / self.n


@dataclass(frozen=True, kw_only=True)
class FairCoins(AnswerEnvelopes, SupportEstimates):
    """Send the answer, 0 or 1, or with probability ``coins`` a fair coin instead.

    One message per person: this is randomized response that lies with probability coins/2, and the
    baseline that several messages have to beat.

    Runtime: one draw per person; O(n) to estimate.

    Utility: the count has variance about n coins/2, for instance 42 at (1, 1e-6), whatever
    n.

    Args:
        coins: Probability in (0, 1) that a coin is sent in place of the answer.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed Differential Privacy via Shuffling",
        EUROCRYPT 2019, arXiv:1808.01394 (binary sums, with lambda = n coins); calibrated here
        on the exact divergence up to 128 people, beyond that on the privacy blanket;
        :doc:`/theory/blanket`.

    Example:
        >>> protocol = FairCoins.calibrated(n=100_000, epsilon=1.0, delta=1e-6)
        >>> round(100_000 * protocol.coins, 1), round(protocol.local_epsilon, 2)
        (85.2, 7.76)
    """

    name: ClassVar[str] = "coins"
    theorem = "fair coins, exact divergence or privacy blanket"
    scope = "everybody sends one bit that is sometimes a coin"
    messages = 1.0
    slots = 1
    always_full = True

    coins: float
    k: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        checks.positive(coins=self.coins)
        expected = "coins < 1 by 1e-6 at least: almost nothing of the answers would be left"
        checks.refuse(self.coins > LARGEST_FRACTION, expected, coins=self.coins)
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
        """The estimate of the answer 1 is (Σy − n coins/2)/(n − n coins)."""
        return Support(1 - self.coins / 2, self.coins / 2)

    @property
    def _joint(self) -> Span:
        return 0.0, 0.0

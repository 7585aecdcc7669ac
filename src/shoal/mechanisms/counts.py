"""Counts and sums of small numbers, with almost the error of a trusted curator; and fair coins."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

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
from shoal.accounting.noise.profile import Divergence, NoiseProfile
from shoal.errors import UnreachableTargetError
from shoal.intervals.estimates import (
    Estimate,
    KnownErrors,
    LaplaceNoise,
    MeanEstimate,
    OneError,
    WholeNoise,
)
from shoal.intervals.laws import Difference, Multiple
from shoal.mechanisms import shares
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import ByProfile, Candidate, Integers, Mechanism, Parts, Wanted, margins
from shoal.mechanisms.codec import Numbered, Whole
from shoal.mechanisms.estimators import DataFree, E_co, Means, Support, Supported
from shoal.mechanisms.grid import rounded
from shoal.mechanisms.shares import RareCount
from shoal.questions.domains import Cells, Interval
from shoal.randomness import Randomness
from shoal.values import (
    Array,
    Counts,
    Envelopes,
    Flags,
    attributes,
)

LARGEST_FRACTION = 1 - 2.0**-20
_ROUNDING = 1e-14
_NOISE = ("central_epsilon", "shape", "pairs")  # of NearCentralNoise
_MINUS, _PLUS = 0, 1  # the numbers of the two messages, −1 and +1
_FEW_LEVELS = (16, 11, 8, 6, 4, 3, 2, 1)  # more than that, and a split sum needs fewer messages
_LARGEST_ENVELOPE = 20.0  # levels over epsilon: a thousand slots for each of it


@dataclass(frozen=True, kw_only=True)
class _NearCentral(Mechanism[E_co]):
    """Copies of +1, and everybody's share of the noise.

    ``central_epsilon`` is that of the discrete Laplace noise, ``shape`` and ``pairs`` describe the
    number of pairs {+1, −1}; ``people`` share all of it. Any more people add more noise.
    """

    several = True

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

    def _profile(self, n: int) -> NoiseProfile:
        """Exact, of the noise there is; what the tables round off is slack.

        More people than share the noise only add to it. With fewer, some of it is missing.
        """
        noise, people = asdict(self._noise), checks.count(n=n)
        divergence = Divergence.of(near_central_delta, **noise)
        if people < self.people:
            divergence = Divergence.of(incomplete_delta, **noise, present=people / self.people)
        return NoiseProfile(
            divergence=divergence,
            n=people,
            theorem="near-central noise, exact divergence",
            scope="everybody sends copies of +1 and a share of the noise, each message by itself",
            slack=min(n, self.people) * (2 * self._single.error + self._paired.error),
        )

    def _sent(self, copies: Whole, bits: Randomness) -> Envelopes:
        """So many messages +1 of each person, and noise; the messages −1 first."""
        plus, minus = (self._single.draw(copies.size, bits) for _ in range(2))
        pairs = self._paired.draw(copies.size, bits)
        numbers = np.stack([minus + pairs, copies + plus + pairs], axis=1)  # (people, 2)
        kinds = np.tile(np.array([_MINUS, _PLUS], dtype=np.int64), copies.size)
        return Envelopes(np.repeat(kinds, numbers.ravel()), numbers.sum(axis=1))

    def error(self, n: int) -> Difference:
        """The law of the error of the sum over n people."""
        return Difference(CountLaw.geometric(self._noise.rate).times(n / self.people))


@dataclass(frozen=True, kw_only=True)
class NearCentralCount(_NearCentral[Estimate]):
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
    words = texts.MARK_AND_NOISE
    truthful = True
    _copies = 1

    k: int = field(default=2, init=False)

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:  # noqa: ARG003
        """Of two answers, which is nothing to be said."""
        return [Candidate(cls.name, calibrated=cls.calibrated)]

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """The messages are −1 and +1."""
        return Parts(
            domain=Cells(2),
            privacy=ByProfile(self._profile),
            codec=Numbered(2, spare=True),
            estimator=OfOnes(self),
        )

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

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """A message +1 for an answer 1, and a share of the noise."""
        return self._sent(data, bits)


class OfOnes(DataFree):
    """From messages +1 less messages −1: both answers have one error, of discrete Laplace law."""

    k = 2
    laplace = True
    one_error = True

    def __init__(self, count: NearCentralCount) -> None:
        self._law = count.error

    def estimate(self, counts: Counts) -> Estimate:
        """Messages +1 less messages −1, as the fraction of the answer 1; the rest answered 0."""
        ones = int(counts.cells[_PLUS]) - int(counts.cells[_MINUS])
        people = np.array([counts.n - ones, ones])
        return OneError.counted(people, Multiple(self._law(counts.n)), n=counts.n)

    def sums(
        self,
        estimate: Estimate,
        values: Array,
        sizes: Whole,
        *,
        before: Flags | bool = False,
        last: float = 0.0,
    ) -> Estimate:
        """Fractions of people with one of so many answers: of both there is no error."""
        scales = np.where(before, np.abs(sizes - last), sizes % 2)
        errors = [Multiple(self._law(estimate.n), scale) for scale in scales.tolist()]
        return KnownErrors.of(values, errors, n=estimate.n)

    def balanced(self, weights: Array) -> tuple[Array, Array]:
        """Whoever does not answer 1 answers 0."""
        return weights[:, 0], (weights - weights[:, :1]) * [0.0, 1.0]

    def sum_error(self, weights: Array, n: int) -> Multiple:
        """That of the answer 1."""
        return Multiple(self._law(n), abs(float(weights[-1])))


@dataclass(frozen=True, kw_only=True)
class NearCentralSum(_NearCentral[MeanEstimate]):
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
    words = texts.STEPS_AND_NOISE

    low: float = 0.0
    high: float
    levels: int | None = None

    def __post_init__(self) -> None:
        copies = _copies(self.low, self.high, self.levels)
        object.__setattr__(self, "levels" if self.levels is not None else "high", copies)
        super().__post_init__()

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """With as many levels as the messages allow: the more of them, the less rounding."""
        most = min(wanted.messages, _LARGEST_ENVELOPE * wanted.epsilon)
        few = [levels for levels in _FEW_LEVELS if levels <= most]
        if not few:
            return [Candidate(cls.name, remark="an envelope would need too many slots")]
        made = partial(cls._allowed, few, wanted.messages, **wanted.domain.arguments)
        return [Candidate(cls.name, calibrated=made)]

    @classmethod
    def _allowed(cls, few: list[int], most: float, **target: float) -> Self:
        for levels in few:
            made = cls.calibrated(levels=levels, **target)  # type: ignore[arg-type]  # n is whole
            if made.messages <= most:
                break
        return made

    @cached_property
    def parts(self) -> Parts[MeanEstimate]:
        """The messages are −1 and +1."""
        return Parts(
            domain=Interval(self.low, self.high, whole=self.levels is None),
            privacy=ByProfile(self._profile),
            codec=Numbered(2, spare=True),
            estimator=Means(self._mean, self._largest),
        )

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
    def rate(self) -> float:
        """The noise has Pr[Z = z] ∝ e^(−rate |z|), in steps."""
        return self._noise.rate

    @property
    def step(self) -> float:
        """What one message is worth."""
        return (self.high - self.low) / self._copies

    @property
    def influence(self) -> float:
        """An envelope full of one message, and the lower bound that every sender counts for."""
        return self.step * self.slots + abs(self.low)

    def draw(self, data: Array, bits: Randomness) -> Envelopes:
        """As many messages +1 as the number has steps, and a share of the noise."""
        if self.levels is not None:
            return self._sent(rounded(data, self.low, self.high, self.levels, bits), bits)
        whole = np.floor(data)
        expected = f"whole numbers from 0 to {self.high} (levels rounds others at random)"
        checks.everybody(whole == data, expected, value=data)
        return self._sent(whole.astype(np.int64), bits)

    def _mean(self, counts: Counts) -> MeanEstimate:
        """Messages +1 less messages −1, in steps, divided by the number of people."""
        n, total = counts.n, int(counts.cells[_PLUS]) - int(counts.cells[_MINUS])
        if self.levels is not None:
            unit = self.step / n
            noise = LaplaceNoise.of(n=n, unit=unit, rate=self.rate, people=self.people)
            return MeanEstimate(self.low + unit * total, noise.deviation, n, noise)
        error = self.error(n)
        return MeanEstimate(total / n, math.sqrt(error.variance) / n, n, WholeNoise(error))

    def _largest(self, n: int) -> float:
        """The same whatever the numbers are, but for the rounding, which is at its worst here."""
        rounding = 0.0 if self.levels is None else n / 4
        return (self.step / n) ** 2 * (self.error(n).variance + rounding)


def _copies(low: float, high: float, levels: int | None) -> int:
    """How many messages +1 say the largest number."""
    if levels is not None:
        checks.bounds(low, high)
        return checks.count(levels=levels)
    expected = "low = 0 for whole numbers (levels rounds numbers between any bounds)"
    checks.refuse(low != 0, expected, low=low)
    return checks.count(high=high)


@dataclass(frozen=True, kw_only=True)
class FairCoins(Mechanism[Estimate]):
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
    words = texts.COIN
    truthful = True
    several = True

    coins: float
    k: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        checks.positive(coins=self.coins)
        expected = "coins < 1 by 1e-6 at least: almost nothing of the answers would be left"
        checks.refuse(self.coins > LARGEST_FRACTION, expected, coins=self.coins)
        object.__setattr__(self, "coins", shares.rounded_up(self.coins))

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:  # noqa: ARG003
        """Of two answers, which is nothing to be said."""
        return [Candidate(cls.name, calibrated=cls.calibrated)]

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """The estimate of the answer 1 is (Σy − n coins/2)/(n − n coins)."""
        lie = self.coins / 2
        # log((1 − q)/q) with q = coins/2, rounded up.
        local = (math.log1p(-lie) - math.log(lie)) * (1 + _ROUNDING) + _ROUNDING
        return Parts(
            domain=Cells(2),
            privacy=ByProfile(self._profile, local_epsilon=local),
            codec=Numbered(2, spare=True, always_full=True),
            estimator=Supported(2, Support(1 - lie, lie), joint=(0.0, 0.0)),
            sizes={"coins": shares.numerator(self.coins), "bits": shares.BITS},
        )

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

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """The answer, or a coin."""
        sent = data.copy()
        replaced = np.flatnonzero(shares.coins(self.coins, sent.size, bits))
        sent[replaced] = bits.bits(replaced.size)
        return Envelopes(sent, np.ones(sent.size, dtype=np.int64))

    def _profile(self, n: int) -> NoiseProfile:
        return NoiseProfile(
            divergence=Divergence.of(binary_delta, n=n, lam=self.coins * n),
            n=checks.count(n=n),
            theorem="fair coins, exact divergence or privacy blanket",
            scope="everybody sends one bit that is sometimes a coin",
            local_epsilon=self.local_epsilon,
        )

"""Noise, exactly: probabilities, counts from a table, everybody's share; and its law in estimates.

A probability is a multiple of 2^-52, so that a float holds it exactly and a coin with it is one
comparison of whole numbers. Counts are drawn from whole-number weights that add up to 2^62, and how
far these are from the law they stand for is known and counted in delta.

The sum of n independent negative binomial counts of shape r/n and ratio q is one of shape r and
ratio q. So n people can make noise together that none of them knows; most shares are 0.

Estimates have the exact law of their error: limits that hold at any level, for any crowd.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.accounting import search
from shoal.accounting.noise.near_central import STEP_ERROR, NegativeBinomial
from shoal.accounting.noise.near_central_histogram import CountLaw
from shoal.mechanisms.base import EXACT, Integers
from shoal.mechanisms.codec import Whole
from shoal.randomness import Randomness
from shoal.values import Array, Estimate, Flags, MeanEstimate

Binomials = tuple[tuple[int, float], ...]  # (trials, probability) of independent binomial numbers
# Trials, in each of which at most one of several weights is drawn, and the probability of each.
Draws = tuple[tuple[int, tuple[tuple[float, float], ...]], ...]
# The law of an error, its weight, and how many independent ones have both.
Weights = tuple[tuple[CountLaw, float, int], ...]

BITS = 52  # of a probability
MOST_COUNTS = 2_000_000
TAIL = 40.0  # counts above TAIL/rate have a probability below e^-TAIL, and are never drawn
NEGLIGIBLE = 1e-3  # of a tail
_SMOOTH = 0.005  # of a standard deviation
_BAND = 8.0  # where e^(−x²/2) is nothing beside a tail
_UNIT = 1 << BITS
_TOTAL = 1 << 62
_CUT_OFF = 2.0**-123  # what a probability of 124 bits lacks
_ROUNDING = 1e-12  # relative error of the probabilities handed to a table, at most
_POLYA_ROUNDING = 1e-13  # the same, of the probability of a number other than zero
_LOST = 1e-12  # probability that any of all people's shares had to be cut off
_FIXED = 2.0**57
_FEW = 24
_REACH = 40.0  # standard deviations, and as many counts: what is beyond has no mass to speak of
_SAFE = 1e-9  # of a probability, for the rounding of tails
_FLOAT = float(np.finfo(np.float64).eps)
_DIRECT = 1 << 14  # counts whose differences are added up one by one, to full relative accuracy
_FFT = 1e-16  # error of each probability where they are not
_TIED = 1e-9  # people
_LEAST_TAIL = 1e-12  # of weighted sums of errors
_NOTHING = 50.0  # a transform below e^-50
_KNOWN = 1e-9  # people
_COARSE = 0.2  # of the largest weight: an error of less is smoothed as if it were so large
_LAST_DIGITS = 1e-12  # of a probability
_TABLES = ("_steps", "_chance")  # names of integers that may be derived from floats
_LISTED = 512  # weights that a description spells out; of more it has the hash


def rounded_up(probability: float) -> float:
    """The least multiple of 2^-52 that is not below a probability.

    >>> rounded_up(0.25), rounded_up(0.1) >= 0.1, rounded_up(0.0)
    (0.25, True, 0.0)
    """
    return math.ceil(probability * _UNIT) / _UNIT


def numerator(probability: float) -> int:
    """2^52 times a probability that is a multiple of 2^-52."""
    return round(probability * _UNIT)


def coins(probability: float, size: int, randomness: Randomness) -> Flags:
    """Independent coins that are true with exactly this probability."""
    return randomness.below(_UNIT, size) < np.uint64(numerator(probability))


@dataclass(frozen=True, eq=False)
class CountTable:
    """A law of counts 0, 1, ..., as whole-number weights; ``error`` is its total variation.

    ``steps[i]`` is the weight of all counts up to i, of 2^62. Where this is too coarse,
    ``finer[i]`` is what it lacks, in parts of 2^-62.
    """

    steps: npt.NDArray[np.uint64]
    error: float
    finer: npt.NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, probabilities: npt.ArrayLike, *, omitted: float) -> CountTable:
        """Probabilities of 0, 1, ..., right to 1e-12; the rest of ``omitted`` is never drawn.

        The omitted mass and every rounding fall on the likeliest count.
        """
        pmf = np.asarray(probabilities, dtype=np.float64)
        weights = np.floor(pmf * float(_TOTAL)).astype(np.uint64)
        likeliest = int(np.argmax(pmf))
        weights[likeliest] = 0
        weights[likeliest] = np.uint64(_TOTAL - int(weights.sum(dtype=np.uint64)))
        error = omitted + (_ROUNDING + 2.0**-50) * float(np.delete(pmf, likeliest).sum())
        return cls(np.cumsum(weights, dtype=np.uint64), error + pmf.size / float(_TOTAL))

    @classmethod
    def exact(
        cls, probabilities: Sequence[Decimal], *, omitted: float, fine: bool = False
    ) -> CountTable:
        """Probabilities of 0, 1, ..., of far more digits than 2^62 has; the rest is ``omitted``.

        Whole multiples of 2^-62, or of 2^-124 if they have to be ``fine``, from below; the
        likeliest count has what is missing to one.
        """
        total = _TOTAL**2 if fine else _TOTAL
        weights = [int(EXACT.multiply(p, total)) for p in probabilities]
        weights[weights.index(max(weights))] += total - sum(weights)
        error = omitted + len(weights) / float(total)
        if not fine:
            return cls(np.cumsum(np.array(weights, dtype=np.uint64), dtype=np.uint64), error)
        digits = [divmod(step, _TOTAL) for step in accumulate(weights)]
        steps, finer = np.array(digits, dtype=np.uint64).T.copy()
        return cls(steps, error, finer)

    @property
    def integers(self) -> str | list[str]:
        """The steps, or of very many the SHA-256 of their 64-bit (128-bit) big-endian numbers."""
        steps, size = self.steps.tolist(), 8
        if self.finer is not None:
            both = zip(steps, self.finer.tolist(), strict=True)
            steps, size = [step * _TOTAL + rest for step, rest in both], 16
        if len(steps) > _LISTED:
            numbers = b"".join(step.to_bytes(size, "big") for step in steps)
            return f"sha256:{sha256(numbers).hexdigest()}"
        return [str(step) for step in steps]

    @property
    def largest(self) -> int:
        """The largest count that is ever drawn."""
        return int(np.searchsorted(self.steps, np.uint64(_TOTAL)))

    def draw(self, size: int, randomness: Randomness) -> Whole:
        """Independent counts."""
        drawn = randomness.below(_TOTAL, size)
        if self.steps.size > _FEW:
            counts = np.searchsorted(self.steps, drawn, side="right").astype(np.int64)
        else:
            counts = np.zeros(size, dtype=np.int64)
            for step in self.steps[:-1]:  # a pass per count beats a search while there are few
                counts += drawn >= step
        if self.finer is not None:  # where a step is drawn itself, finer digits decide
            for i in np.flatnonzero(drawn == self.steps[np.maximum(counts - 1, 0)]).tolist():
                beyond = self.finer[self.steps == drawn[i]] > randomness.below(_TOTAL, 1)
                counts[i] -= np.count_nonzero(beyond)
        return counts


def alike(own: Integers, others: object) -> bool:
    """Whether the tables of another machine differ from these in the last digits at most.

    Floats are rounded in their own ways by processors and libraries: exponentials of many numbers
    at once are. Of tables that are written as a hash, only the names can be compared.

    >>> own = {"noise_steps": [str(1 << 61), str(1 << 62)], "room": 4}
    >>> alike(own, {"noise_steps": [str((1 << 61) + 512), str(1 << 62)], "room": 4})
    True
    >>> alike(own, {"noise_steps": [str((1 << 61) + (1 << 40)), str(1 << 62)], "room": 4})
    False
    """
    if not isinstance(others, Mapping) or set(own) != set(others):
        return False
    tables = {name for name in own if name.endswith(_TABLES)}
    same = all(own[name] == others[name] for name in set(own) - tables)
    return same and all(_close(_numbers(own[name]), _numbers(others[name])) for name in tables)


def _numbers(written: object) -> list[int] | None:
    """The steps of a table, or one probability of two digits; nothing of a hash."""
    if isinstance(written, str) and re.fullmatch("sha256:[0-9a-f]{64}", written):
        return []
    if not isinstance(written, list) or not written:
        return None
    if not all(isinstance(step, str) and re.fullmatch("[0-9]{1,40}", step) for step in written):
        return None
    return [int(step) for step in written]


def _close(own: list[int] | None, other: list[int] | None) -> bool:
    """Whether two lists are as long as each other, and what they hold differs by last digits."""
    if own is None or other is None or len(own) != len(other):
        return False
    if len(own) == 2:  # a probability in base 2^62, however small, or a table of two steps
        own, other = ([digits[0] * _TOTAL + digits[1]] for digits in (own, other))
    largest = max(own, default=0)
    return all(
        abs(one - two) <= _LAST_DIGITS * largest for one, two in zip(own, other, strict=True)
    )


@dataclass(frozen=True, eq=False)
class RareCount:
    """One person's share, which is nearly always 0: whether there is any, and how many then.

    What the table of the amounts rounds off is multiplied by the small ``probability`` that it is
    used. That has 124 bits, so that any number of people can have it each. ``error``
    bounds the total variation between the count drawn and the law it stands for.
    """

    probability: tuple[int, int]  # in base 2^62
    amount: CountTable  # of what is above one
    error: float

    @classmethod
    def of(cls, probability: float | Decimal, amount: CountTable, *, error: float) -> RareCount:
        """Above 0 with this probability; ``amount`` draws by how much it is above 1 then."""
        digits = divmod(int(Fraction(probability) * _TOTAL**2), _TOTAL)
        return cls(digits, amount, error + _CUT_OFF)

    @classmethod
    def negative_binomial(cls, everybody: NegativeBinomial, *, people: int) -> RareCount:
        """A share of 1/people of what everybody draws together."""
        law = everybody.times(1 / people)
        pmf, omitted = law.likely(left_out=_LOST / people)
        any_at_all = -math.expm1(law.none)
        amount = CountTable.of(pmf[1:] / any_at_all, omitted=omitted / any_at_all)
        rounding = 4 * STEP_ERROR * (law.mean + any_at_all)
        return cls.of(any_at_all, amount, error=any_at_all * amount.error + rounding)

    @classmethod
    @lru_cache(maxsize=64)
    def polya(cls, *, rate: float, people: int) -> RareCount:
        """Of shape 1/people and ratio e^−rate, for sums of so many steps that tables are long.

        A difference of two geometric numbers, Pr[Z = z] ∝ e^(−rate |z|), is infinitely divisible:
        it is the sum over n people of X − Y, both of shape 1/n. Goryczka and Xiong, "A
        Comprehensive Comparison of Multiparty Secure Additions with Differential Privacy", IEEE
        TDSC 2017; Balle, Bell, Gascón, Nissim, arXiv:1906.09116.

        The law of X − 1 given X > 0 is Pr[X = k] ∝ e^(−rate k) / k · Π_{i<k} (1 + shape/i). The
        logs of the product are added up as whole numbers, exactly but for their last bits.
        """
        checks.positive(rate=rate)
        shape = 1 / checks.count(people=people)
        expected = f"noise of at most {MOST_COUNTS / TAIL:g} steps (fewer levels need less)"
        checks.refuse(TAIL / rate > MOST_COUNTS, expected, **{"1/rate": 1 / rate})
        small = rate < math.log(2)  # log(1 − e^−rate), without cancellation
        log_first = math.log(-math.expm1(-rate)) if small else math.log1p(-math.exp(-rate))
        log_zero = shape * log_first
        any_at_all = -math.expm1(log_zero)
        last = math.ceil(TAIL / rate)
        counts = np.arange(1, last + 2, dtype=np.float64)
        steps = np.rint(np.log1p(shape / counts[:-1]) * _FIXED).astype(np.int64)
        growth = np.concatenate([[0], np.cumsum(steps)]) / _FIXED
        pmf = math.exp(log_zero) * shape / any_at_all * np.exp(growth - rate * counts) / counts
        # From one count to the next the probability falls at least by e^−rate.
        beyond = float(pmf[-1]) / -math.expm1(-rate)
        amount = CountTable.of(pmf[:-1], omitted=beyond + last / _FIXED)
        error = any_at_all * (1 + _POLYA_ROUNDING) * (_POLYA_ROUNDING + amount.error)
        return cls.of(any_at_all, amount, error=error)

    def integers(self, name: str) -> Integers:
        """The probability in base 2^62 and the steps of the amount, under this name."""
        return {
            f"{name}_chance": [str(digit) for digit in self.probability],
            f"{name}_steps": self.amount.integers,
        }

    @property
    def largest(self) -> int:
        """The largest count that is ever drawn."""
        return 1 + self.amount.largest

    def draw(self, size: int, randomness: Randomness) -> Whole:
        """Independent counts."""
        high, low = map(np.uint64, self.probability)
        drawn = randomness.below(_TOTAL, size)
        some = drawn < high
        tied = np.flatnonzero(drawn == high)
        some[tied] = randomness.below(_TOTAL, tied.size) < low
        holders = np.flatnonzero(some)
        counts = np.zeros(size, dtype=np.int64)
        counts[holders] = 1 + self.amount.draw(holders.size, randomness)
        return counts


@dataclass(frozen=True)
class Difference:
    """The difference of two independent counts of one law; discrete Laplace if it is geometric.

    >>> error = Difference(CountLaw.geometric(1.0))
    >>> error.limit(0.95), error.limits(0.95), error.times(9).limits(0.95)
    (3, (-3, 2), (-8, 8))
    """

    law: CountLaw

    def times(self, number: float) -> Difference:
        """The sum of so many independent ones."""
        return Difference(self.law.times(number))

    @property
    def variance(self) -> float:
        """Twice the variance of a count."""
        return 2 * self.law.variance

    @property
    def fourth(self) -> float:
        """Its fourth cumulant: twice shape q (1 + 4q + q²)/(1 − q)⁴."""
        q = 1 / (1 + self.law.shape / self.law.mean)
        return 2 * self.law.mean * (1 + 4 * q + q**2) / (1 - q) ** 3

    def limit(self, level: float) -> int:
        """The least t whose probability of a difference from −t to t reaches the level."""
        checks.open_probability(level=level)
        return self.quantile((1 - level) / 2)

    def limits(self, level: float, *, among: int = 1) -> tuple[int, int]:
        """The fewest whole numbers in a row that a difference is among, with this probability.

        The law is symmetric and falls on either side: they are −t, ..., t or −t, ..., t − 1. Of
        several independent differences, ``among`` so many, all are within them together.
        """
        checks.open_probability(level=level)
        outside = -math.expm1(math.log(level) / among) if among > 1 else 1 - level
        reach = self.quantile(outside / 2)
        both = self.beyond(reach) + self.beyond(reach - 1) if reach else 1.0
        return -reach, reach - (both <= outside * (1 - _SAFE))

    def quantile(self, tail: float) -> int:
        """The least t >= 0 with Pr[difference > t] <= tail."""
        checks.open_probability(tail=tail)
        tail *= 1 - _SAFE
        if self.law.shape == 1:
            log_q = -math.log1p(1 / self.law.mean)
            guess = math.floor((math.log(tail) + math.log1p(math.exp(log_q))) / log_q)
            return next(t for t in range(max(0, guess - 2), guess + 3) if self.beyond(t) <= tail)
        beyond = self._tails
        expected = f"tails of {beyond[-1]:.3g} or more"
        checks.refuse(tail < beyond[-1], expected, tail=tail)
        return int(np.searchsorted(-beyond, -tail))

    def beyond(self, reach: int) -> float:
        """Pr[difference > t] for a whole number t >= 0, from above."""
        if self.law.shape == 1:  # q^(t+1)/(1 + q)
            log_q = -math.log1p(1 / self.law.mean)
            return math.exp((reach + 1) * log_q) / (1 + math.exp(log_q))
        return float(self._tails[min(reach, self._tails.size - 1)])

    @property
    def _tails(self) -> Array:
        return _tails(self.law)


@lru_cache(maxsize=64)
def _tails(law: CountLaw) -> Array:
    """Pr[X − Y > t] for t = 0, 1, ... and independent X, Y of one law, from above."""
    window = law.window()
    pmf, rest = window.pmf, 2 * window.outside
    if pmf.size <= _DIRECT:
        both = np.convolve(pmf, pmf[::-1])[pmf.size :]  # differences 1, 2, ...
        both *= 1 + 2 * window.error + 4 * _FLOAT * pmf.size
    else:
        both = np.asarray(scipy.signal.fftconvolve(pmf, pmf[::-1]))[pmf.size :]
        rest += _FFT * pmf.size
    return np.append(np.cumsum(both[::-1])[::-1], 0.0) + rest


def reached(
    add: Callable[[Array, Array], None], *, deviation: float, furthest: float, tail: float
) -> float:
    """Hardly more than the least t with Pr[E >= t] <= tail, E being symmetric.

    ``add`` adds the logarithm of its transform at places to an array. A normal number U is added to
    E, with a small part of its deviation: then the transform ends, and a sum over a fine line is an
    integral. Pr[E >= t] is at most Pr[E + U >= t − u] + Pr[U < −u]. Outside of the line hardly
    anything is: E is beyond ``furthest`` with ``NEGLIGIBLE`` times the tail at most.
    """
    smooth = _SMOOTH * deviation
    places, logs, step = _line(smooth, furthest)
    add(places, logs)
    return _beyond(np.exp(logs), smooth, step, tail)[0]


def _line(smooth: float, furthest: float) -> tuple[Array, Array, float]:
    """Places of a transform, the logarithm of U's there, and the step of the line."""
    step = smooth * math.pi / _BAND
    half = furthest / step + _BAND**2
    size = 1 << math.ceil(math.log2(2 * half))
    places: Array = 2 * math.pi / (size * step) * np.arange(size // 2 + 1, dtype=np.float64)
    return places, np.asarray(-((smooth * places) ** 2) / 2, dtype=np.float64), step


def _beyond(
    transform: npt.NDArray[Any], smooth: float, step: float, tail: float
) -> tuple[float, float]:
    """From the transform of E + U: the least t with Pr[E >= t] <= tail, and with Pr[E <= −t]."""
    density = np.maximum(np.fft.irfft(transform), 0.0)
    half, allowed = density.size // 2, tail * (1 - 3 * NEGLIGIBLE)
    more = smooth * NormalDist().inv_cdf(1 - NEGLIGIBLE * tail)
    reaches = []
    for side in (density[:half], np.roll(density[::-1], 1)[:half]):
        beyond = np.cumsum(side[::-1])[::-1]  # Pr[E + U >= 0], Pr[E + U >= step], ...
        reaches.append(int(np.searchsorted(-beyond, -allowed)) * step + more)
    above, below = reaches
    return above, below


def magnitudes(weights: Array) -> Iterator[tuple[float, int]]:
    """The weights without signs, which change nothing, and how many there are of each."""
    sizes, numbers = np.unique(np.round(np.abs(weights), 12), return_counts=True)
    return zip(sizes.tolist(), numbers.tolist(), strict=True)


@lru_cache(maxsize=1 << 14)
def weighted_reach(weights: Weights, tail: float) -> float:
    """Hardly more than the least t with Pr[Σ weight × error >= t] <= tail.

    A count less another of its ``law`` has the transform (1 + 4 s sin²(x/2))^−shape with
    s = variance/shape. The sum is hardly ever beyond what Bernstein's inequality says, as
    log E e^(xE) <= (v x²/2)/(1 − b x), with b the largest weight over the rate and v the variance
    of continuous Laplace laws.
    """
    checks.refuse(tail <= _LEAST_TAIL, f"a level whose tails are above {_LEAST_TAIL:g}", tail=tail)
    rates = [math.log1p(law.shape / law.mean) for law, _, _ in weights]
    scale = max(weight / rate for (_, weight, _), rate in zip(weights, rates, strict=True))
    squares = [number * weight**2 for _, weight, number in weights]
    laws = [law for law, _, _ in weights]
    variance = math.fsum(2 * law.variance * w for law, w in zip(laws, squares, strict=True))
    if scale < _KNOWN:  # nobody, or everybody
        return 0.0
    above = zip(laws, rates, squares, strict=True)
    wide = math.fsum(2 * law.shape / rate**2 * square for law, rate, square in above)
    depth = -math.log(NEGLIGIBLE * tail)

    def add(places: Array, logs: Array) -> None:
        for law, weight, number in sorted(weights, key=lambda each: -(each[1] ** 2) * each[2]):
            some = np.flatnonzero(logs > -_NOTHING)
            waves = np.sin(weight / 2 * places[some]) ** 2
            logs[some] -= number * law.shape * np.log1p(4 * law.variance / law.shape * waves)

    furthest = math.sqrt(2 * depth * wide) + depth * scale
    return reached(add, deviation=math.sqrt(variance), furthest=furthest, tail=tail)


@lru_cache(maxsize=1 << 14)
def _drawn_limits(draws: Draws, tail: float) -> tuple[float, float]:
    """Between which Σ weight of all draws less its mean is, but for this tail on either side.

    A draw has the transform 1 + Σ p (e^(ixw) − 1), and is at most ``largest`` from its mean:
    Bernstein's inequality says where the sum hardly ever is.
    """
    checks.refuse(tail <= _LEAST_TAIL, f"a level whose tails are above {_LEAST_TAIL:g}", tail=tail)
    variance = _drawn_variance(draws)
    largest = max((abs(weight) for _, some in draws for weight, _ in some), default=0.0)
    largest *= 2  # from the mean
    if largest < _KNOWN or not variance:
        return 0.0, 0.0
    apart = -math.log(NEGLIGIBLE * tail) * largest / 3
    furthest = apart + math.sqrt(apart**2 + 6 * variance * apart / largest)
    smooth = _SMOOTH * max(math.sqrt(variance), _COARSE * largest)
    places, logs, step = _line(smooth, furthest)
    phases = np.zeros_like(places)
    for trials, some in sorted((each for each in draws if each[0]), reverse=True):
        near = np.flatnonzero(logs > -_NOTHING)
        at = places[near]
        real, imaginary, mean = np.ones(at.size), np.zeros(at.size), 0.0
        for weight, probability in some:
            real -= 2 * probability * np.sin(weight / 2 * at) ** 2
            imaginary += probability * np.sin(weight * at)
            mean += probability * weight
        modulus = np.maximum(np.hypot(real, imaginary), math.exp(-_NOTHING))
        logs[near] += trials * np.log(modulus)
        phases[near] += trials * (np.arctan2(imaginary, real) - mean * at)
    transform = np.where(logs > -_NOTHING, np.exp(logs - 1j * phases), 0.0)
    above, below = _beyond(transform, smooth, step, tail)
    return -below, above


def _drawn_variance(draws: Draws) -> float:
    """Of the sum of all draws."""
    return math.fsum(
        trials
        * (
            math.fsum(p * weight**2 for weight, p in some)
            - math.fsum(p * weight for weight, p in some) ** 2
        )
        for trials, some in draws
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class DrawnErrors(Estimate):
    """Fractions whose errors in people are sums of independent draws, less their means.

    The law is known, whatever the data are: so limits are exact, up to a little that they are
    wider. ``draws`` are those of each fraction.
    """

    draws: tuple[Draws, ...]

    @classmethod
    def of(cls, fractions: Array, draws: Sequence[Draws], *, n: int) -> DrawnErrors:
        """Of n people."""
        deviations = np.sqrt([_drawn_variance(each) for each in draws]) / n
        return cls(fractions, deviations, n, draws=tuple(draws))

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Limits from the law of the error, at any level; together by Bonferroni."""
        checks.open_probability(level=level)
        tail = (1 - level) / (2 * self.frequencies.size if simultaneous else 2)
        fewest, most = np.array([_drawn_limits(each, tail) for each in self.draws]).T / self.n
        return self.frequencies - most, self.frequencies - fewest


class Error(Protocol):
    """What limits need of an error that is symmetric."""

    @property
    def variance(self) -> float:
        """Its own."""

    def limit(self, level: float) -> float:
        """It is from −t to t with at least this probability."""


@dataclass(frozen=True)
class WeightedDifferences:
    """Independent differences of one law, ``parts`` saying how many there are of each weight."""

    error: Difference
    parts: tuple[tuple[float, int], ...]

    @property
    def variance(self) -> float:
        """Their sum's."""
        return self.error.variance * math.fsum(times * own**2 for own, times in self.parts)

    def limit(self, level: float) -> float:
        """Hardly more than the least t that the sum is from −t to t with, at this level."""
        weights = tuple((self.error.law, own, times) for own, times in self.parts)
        return weighted_reach(weights, (1 - level) / 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class KnownErrors(Estimate):
    """Fractions whose errors in people are multiples (``scales``) of ones of known laws."""

    scales: Array
    errors: tuple[Error, ...]

    @classmethod
    def of(cls, fractions: Array, errors: Sequence[Error], *, n: int, scales: Array) -> KnownErrors:
        """Of n people; a fraction of scale 0 is known."""
        deviations = scales * np.sqrt([error.variance for error in errors]) / n
        return cls(fractions, deviations, n, scales=scales, errors=tuple(errors))

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Limits from the laws of the errors, at any level; together by Bonferroni."""
        checks.open_probability(level=level)
        each = 1 - (1 - level) / (self.frequencies.size if simultaneous else 1)
        reach = self.scales * [error.limit(each) for error in self.errors]
        # The error may be at the limit itself, which must not be lost to rounding.
        reach = (reach + _TIED * (reach > 0)) / self.n
        return self.frequencies - reach, self.frequencies + reach


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisyCounts(Estimate):
    """Fractions from ``cells`` = true counts + noise, a sum of binomial numbers for each answer."""

    cells: Whole
    noise: Binomials

    @classmethod
    def of(cls, cells: Whole, noise: Binomials, *, n: int) -> NoisyCounts:
        """The fractions of n people's answers, less the noise expected."""
        mean = math.fsum(trials * p for trials, p in noise)
        variance = math.fsum(trials * p * (1 - p) for trials, p in noise)
        deviation = math.sqrt(variance) / n
        return cls(
            (cells - mean) / n,
            np.full(cells.shape, deviation),
            n,
            step=1 / n,
            granularity=1 / n / (1 + variance / 3),
            empty_error=deviation,
            cells=cells,
            noise=noise,
        )

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Confidence limits from quantiles of the noise, at any level; together by Bonferroni."""
        checks.open_probability(level=level)
        each = (1 - level) / (self.cells.size if simultaneous else 1)
        fewest, most = quantiles(self.noise, each / 2)
        return (self.cells - most) / self.n, (self.cells - fewest) / self.n


@lru_cache(maxsize=256)
def quantiles(noise: Binomials, tail: float) -> tuple[int, int]:
    """The narrowest limits that the noise passes with at most this probability on either side.

    >>> quantiles(((10, 0.5),), 0.05)
    (2, 8)
    """
    first, pmf = 0, np.ones(1)
    for trials, p in noise:
        mean, reach = trials * p, _REACH * (math.sqrt(trials * p * (1 - p)) + 1)
        low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
        part = scipy.stats.binom.pmf(np.arange(low, high + 1), trials, p)
        first, pmf = first + low, np.convolve(pmf, part)
    below = np.cumsum(pmf)  # Pr[noise <= z]
    above = np.cumsum(pmf[::-1])[::-1]  # Pr[noise >= z]
    fewest = int(np.count_nonzero(below <= tail))
    most = int(np.count_nonzero(above > tail)) - 1
    return first + fewest, first + most


@dataclass(frozen=True)
class LaplaceMean(MeanEstimate):
    """A mean whose error is Laplace noise of this ``scale``, and a little that is nearly normal.

    ``granularity`` is half a step of the noise, which comes in whole steps.
    """

    scale: float = 0.0
    spread: float = 0.0
    granularity: float = 0.0

    @classmethod
    def noisy(
        cls, mean: float, *, n: int, unit: float, rate: float | None, people: int
    ) -> LaplaceMean:
        """Of n people, rounded to levels worth ``unit`` each; rounding counts at its worst.

        ``people`` of them together add noise of Pr[Z = z] ∝ e^(−rate |z|), in levels.
        """
        rounding = unit * math.sqrt(n / 4)
        if rate is None:
            return cls(mean, rounding, n, spread=rounding)
        parts = n / people
        noise = unit * math.sqrt(parts / 2) / math.sinh(rate / 2)
        return cls(
            mean,
            math.hypot(rounding, noise),
            n,
            scale=unit * math.sqrt(max(1.0, parts)) / rate,
            spread=rounding,
            granularity=unit / 2,
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence limits of the mean: Laplace noise has more in its tails than normal noise."""
        checks.open_probability(level=level)
        normal = NormalDist().inv_cdf((1 + level) / 2) * self.standard_error
        reach = max(normal, self._quantile(1 - level) + self.granularity)
        return self.mean - reach, self.mean + reach

    def _quantile(self, outside: float) -> float:
        """Where |Laplace + normal| is beyond with this probability, from above."""
        most = 40 * (self.scale + self.spread) * (1 - math.log(outside))
        return search.least(lambda t: self._beyond(t) <= outside, 0.0, most, tolerance=1e-9)

    def _beyond(self, reach: float) -> float:
        """Pr[|L + N| > t] = Pr[|N| > t] + e^(κ²/2) (e^(−t/b) Φ(t/s−κ) − e^(t/b) Φ(−t/s−κ)), κ=s/b.

        Where the spread s is too small to matter, the Laplace tail alone; the normal one alone
        where it is too large.
        """
        if not self.scale and not self.spread:
            return 0.0
        ratio = self.spread / self.scale if self.scale else math.inf
        if ratio <= 1e-6:
            return math.exp(-reach / self.scale)
        at = reach / self.spread
        normal = math.erfc(at / math.sqrt(2))
        if ratio >= 30:
            return normal
        decay = reach / self.scale
        near = math.exp(ratio**2 / 2 - decay) * _normal(at - ratio)
        # The second product is a huge number times a tiny one; far out it is nothing.
        far = math.exp(ratio**2 / 2 + decay) * _normal(-at - ratio) if at + ratio < 36 else 0.0
        return normal + near - far


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2

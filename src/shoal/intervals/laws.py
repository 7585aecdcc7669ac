"""The laws of errors: how far off, in people, an estimated count is but for a probability.

Of noise whose law is known limits hold at any level and for any crowd: they are read from the
law itself, or from its Fourier transform if it is that of a weighted sum.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.accounting.binomial import BinomialWindow
from shoal.accounting.noise.near_central_histogram import CountLaw
from shoal.values import Array, Flags

# Trials, in each of which at most one of several weights is drawn, and the probability of each.
Trials = tuple[tuple[int, tuple[tuple[float, float], ...]], ...]
# The law of an error, its weight, and how many independent ones have both.
Weights = tuple[tuple[CountLaw, float, int], ...]
Groups = tuple[tuple[float, int], ...]  # weights, and of how many errors each is

NEGLIGIBLE = 1e-3  # of a tail
_SMOOTH = 0.005  # of a standard deviation
_BAND = 8.0  # where e^(−x²/2) is nothing beside a tail
_REACH = 40.0  # standard deviations, and as many counts: what is beyond has no mass to speak of
_SAFE = 1e-9  # of a probability, for the rounding of tails
_FLOAT = float(np.finfo(np.float64).eps)
_DIRECT = 1 << 14  # counts whose differences are added up one by one, to full relative accuracy
_FFT = 1e-16  # error of each probability where they are not
_LEAST_TAIL = 1e-12  # of weighted sums of errors
_NOTHING = 50.0  # a transform below e^-50
_KNOWN = 1e-9  # people
_COARSE = 0.2  # of the largest weight: an error of less is smoothed as if it were so large
_LEAST_EXACT_TAIL = 1e-8  # of sums by their places: what is left out, and roundings, are less
_UNLIKELY = 1e-12
_TIES = 1e-9
_FINE = 1e-4  # of a limit
_MANY_PLACES = 4096
_MANY_ERRORS = 2000
_BEYOND = 46.0  # -log of the mass of carried errors that wraps around, at most
_TILTS = 64
_LEAST_CARRIED_TAIL = 1e-9
_CERTAIN = 1 - 2.0**-53
_ROUNDING = 1e-12


class ErrorLaw(ABC):
    """The error, in people, of an estimated number of them."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Its own."""

    @property
    def mean(self) -> float:
        """What is expected of it."""
        return 0.0

    @abstractmethod
    def limits(self, outside: float) -> tuple[float, float]:
        """The least and the most that it is, but for this probability."""

    @abstractmethod
    def reach(self, tail: float) -> float:
        """What it reaches with this probability at most, or hardly more than the least such."""


class SymmetricLaw(ErrorLaw):
    """One whose law is the same on both sides."""

    def limits(self, outside: float) -> tuple[float, float]:
        """As far on either side."""
        reach = self.reach(outside / 2)
        return -reach, reach


# ------------------------------------------------------------------------ differences of two counts


@dataclass(frozen=True)
class Difference(ErrorLaw):
    """The difference of two independent counts of one law; discrete Laplace if it is geometric.

    >>> error = Difference(CountLaw.geometric(1.0))
    >>> error.quantile(0.025), error.limits(0.05), error.times(9).limits(0.05)
    (3, (-3, 2), (-8, 8))
    """

    law: CountLaw

    def times(self, number: float) -> Difference:
        """The sum of so many independent ones."""
        return replace(self, law=self.law.times(number))

    @property
    def variance(self) -> float:
        """Twice the variance of a count."""
        return 2 * self.law.variance

    def limits(self, outside: float) -> tuple[float, float]:
        """The fewest whole numbers in a row that it is among but for this probability.

        The law is symmetric and falls on either side: they are −t, ..., t or −t, ..., t − 1.
        """
        reach = self.quantile(outside / 2)
        both = self.beyond(reach) + self.beyond(reach - 1) if reach else 1.0
        return -reach, reach - (both <= outside * (1 - _SAFE))

    def weighted(self, groups: Groups) -> ErrorLaw:
        """The sum of independent ones, so many of each weight."""
        return WeightedSum(tuple((self.law, own, times) for own, times in groups))

    def reach(self, tail: float) -> float:
        """One more than what it exceeds so rarely."""
        return self.quantile(tail) + 1

    def quantile(self, tail: float) -> int:
        """The least t >= 0 with Pr[difference > t] <= tail."""
        checks.open_probability(tail=tail)
        tail *= 1 - _SAFE
        if self.law.shape == 1:
            log_q = -math.log1p(1 / self.law.mean)
            guess = math.floor((math.log(tail) + math.log1p(math.exp(log_q))) / log_q)
            return next(t for t in range(max(0, guess - 2), guess + 3) if self.beyond(t) <= tail)
        return _first_below(_tails(self.law), tail)

    def beyond(self, reach: int) -> float:
        """Pr[difference > t] for a whole number t >= 0, from above."""
        if self.law.shape == 1:  # q^(t+1)/(1 + q)
            log_q = -math.log1p(1 / self.law.mean)
            return math.exp((reach + 1) * log_q) / (1 + math.exp(log_q))
        tails = _tails(self.law)
        return float(tails[min(reach, tails.size - 1)])


@dataclass(frozen=True)
class Multiple(ErrorLaw):
    """A multiple of a difference: two answers may have it, one of them negative."""

    error: Difference
    times: float = 1.0

    @property
    def variance(self) -> float:
        """It grows with the square."""
        return self.times**2 * self.error.variance

    def limits(self, outside: float) -> tuple[float, float]:
        """As far on either side."""
        reach = self.times * self.error.quantile(outside / 2)
        return -reach, reach

    def reach(self, tail: float) -> float:
        """That of the difference, times as much."""
        return self.times * self.error.reach(tail)


@dataclass(frozen=True)
class CarriedDifference(Difference):
    """The error of a count: the single messages + less those −, of ``n`` people.

    A carrier adds a difference of two negative binomial numbers of one ``law``, of ratio a and
    shape s: its characteristic function is q(t)^s, q = (1−a)²/|1 − a e^it|². That of everybody
    together is (1 − c + c q(t)^s)^n, for ``carriers`` with probability c.

    Given the number of carriers, the errors of all answers are independent and of one law. So they
    are all within limits with at least the product of the probabilities (Jensen).
    """

    carriers: float
    n: int

    @property
    def variance(self) -> float:
        """That of a carrier, times the carriers expected."""
        return 2 * self.law.variance * self.n * self.carriers

    def weighted(self, groups: Groups) -> ErrorLaw:
        """The sum of the errors of different answers."""
        return CarriedSum(self, groups)

    def quantile(self, tail: float) -> int:
        """The least t >= 0 with Pr[error > t] <= tail."""
        checks.open_probability(tail=tail)
        return _first_below(_carried_tails(self), tail)

    def beyond(self, reach: int) -> float:
        """Pr[error > t] for a whole number t >= 0, from above."""
        tails = _carried_tails(self)
        return float(tails[min(reach, tails.size - 1)])


def _first_below(tails: Array, tail: float) -> int:
    """The first place of a table of tails that is at most so large."""
    checks.refuse(tail < tails[-1], f"tails of {tails[-1]:.3g} or more", tail=tail)
    return int(np.searchsorted(-tails, -tail))


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


@lru_cache(maxsize=64)
def _carried_tails(error: CarriedDifference) -> Array:
    law = error.law
    rate = math.log1p(law.shape / law.mean)
    reach = 2 * _BEYOND / rate + 40 * math.sqrt(error.variance)
    size = 1 << math.ceil(math.log2(2 * reach))
    half_angle = np.pi * np.arange(size // 2 + 1) / size
    log_q = -np.log1p(4 * law.variance / law.shape * np.sin(half_angle) ** 2)
    share = np.expm1(law.shape * log_q)
    pmf = np.fft.irfft(np.exp(error.n * np.log1p(error.carriers * share)))
    above = np.cumsum(np.maximum(pmf[size // 2 : 0 : -1], 0.0))[::-1]  # Pr[error > 0], ...
    return np.asarray(above[: size // 4] + _FFT * size)


# ---------------------------------------------------------------------------------- weighted sums


def magnitudes(weights: Array) -> Groups:
    """The weights that are not 0, without signs, and how many there are of each."""
    sizes, numbers = np.unique(np.round(np.abs(weights), 12), return_counts=True)
    groups = zip(sizes.tolist(), numbers.tolist(), strict=True)
    return tuple((size, number) for size, number in groups if size)


@dataclass(frozen=True)
class WeightedSum(SymmetricLaw):
    """A weighted sum of independent differences of two counts."""

    weights: Weights

    @property
    def variance(self) -> float:
        """Errors are independent."""
        return math.fsum(2 * law.variance * (times * own**2) for law, own, times in self.weights)

    def reach(self, tail: float) -> float:
        """Hardly more than the least t with Pr[error >= t] <= tail.

        Place by place, if there are few of them: errors of one law, with few different weights.
        """
        numbers = sorted(times for _, _, times in self.weights)
        single = numbers[:-2] in ([], [1]) and len({law for law, _, _ in self.weights}) == 1
        if single and numbers[-1] <= _MANY_ERRORS and tail > _LEAST_EXACT_TAIL:
            return _exact_reach(self.weights, tail)
        return _weighted_reach(self, tail)


@dataclass(frozen=True)
class CarriedSum(SymmetricLaw):
    """The errors of some answers; ``parts`` are weights, and of how many each is."""

    error: CarriedDifference
    parts: Groups

    @property
    def variance(self) -> float:
        """Errors of different answers are uncorrelated."""
        return self.error.variance * math.fsum(number * own**2 for own, number in self.parts)

    def reach(self, tail: float) -> float:
        """Hardly more than the least t with Pr[error >= t] <= tail."""
        _refuse_tail(tail, _LEAST_CARRIED_TAIL)
        return _carried_reach(self, tail) if self.variance else 0.0


@dataclass(frozen=True)
class Draws(ErrorLaw):
    """A sum of independent draws, less its mean."""

    trials: Trials

    @property
    def variance(self) -> float:
        """Of the sum of all draws."""
        return math.fsum(
            trials
            * (
                math.fsum(p * weight**2 for weight, p in some)
                - math.fsum(p * weight for weight, p in some) ** 2
            )
            for trials, some in self.trials
        )

    def limits(self, outside: float) -> tuple[float, float]:
        """With half of the probability on either side, or a little wider."""
        return _drawn_limits(self, outside / 2)

    def reach(self, tail: float) -> float:
        """The upper limit."""
        return _drawn_limits(self, tail)[1]


def _refuse_tail(tail: float, least: float) -> None:
    checks.refuse(tail <= least, f"a level whose tails are above {least:g}", tail=tail)


def _reached(
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


@lru_cache(maxsize=1 << 14)
def _weighted_reach(total: WeightedSum, tail: float) -> float:
    """From the transform.

    A count less another of its ``law`` has the transform (1 + 4 s sin²(x/2))^−shape with
    s = variance/shape. The sum is hardly ever beyond what Bernstein's inequality says, as
    log E e^(xE) <= (v x²/2)/(1 − b x), with b the largest weight over the rate and v the variance
    of continuous Laplace laws.
    """
    _refuse_tail(tail, _LEAST_TAIL)
    weights = total.weights
    rates = [math.log1p(law.shape / law.mean) for law, _, _ in weights]
    each = zip(weights, rates, strict=True)
    scale = max((weight / rate for (_, weight, _), rate in each), default=0.0)
    if scale < _KNOWN:  # nobody, or everybody
        return 0.0
    above = zip(weights, rates, strict=True)
    wide = math.fsum(
        2 * law.shape / rate**2 * (number * weight**2) for (law, weight, number), rate in above
    )
    depth = -math.log(NEGLIGIBLE * tail)

    def add(places: Array, logs: Array) -> None:
        for law, weight, number in sorted(weights, key=lambda each: -(each[1] ** 2) * each[2]):
            some = np.flatnonzero(logs > -_NOTHING)
            waves = np.sin(weight / 2 * places[some]) ** 2
            logs[some] -= number * law.shape * np.log1p(4 * law.variance / law.shape * waves)

    furthest = math.sqrt(2 * depth * wide) + depth * scale
    return _reached(add, deviation=math.sqrt(total.variance), furthest=furthest, tail=tail)


@lru_cache(maxsize=1 << 12)
def _carried_reach(total: CarriedSum, tail: float) -> float:
    """From the transform (1 − c + c q(x)^(ms) q(wx)^s)^n; how far it goes by Chernoff's bound."""
    error, parts = total.error, total.parts
    law, depth = error.law, -math.log(NEGLIGIBLE * tail)
    ratio = law.variance / law.shape
    steepest = math.log1p(law.shape / law.mean)  # where a count has no exponential moment
    tilts = steepest * np.arange(1, _TILTS) / _TILTS

    def transform(squares: Iterable[Array]) -> Array:
        """Its logarithm, with sin² of the half angle of each part, or −sinh² of half the tilt."""
        each = zip(parts, squares, strict=True)
        powers = sum(number * np.log1p(4 * ratio * square) for (_, number), square in each)
        return np.asarray(error.n * np.log1p(error.carriers * np.expm1(-law.shape * powers)))

    def add(places: Array, logs: Array) -> None:
        logs += transform(np.sin(weight * places / 2) ** 2 for weight, _ in parts)

    with np.errstate(over="ignore"):
        moments = transform(-(np.sinh(weight * tilts / 2) ** 2) for weight, _ in parts)
    furthest = float(np.min((moments + depth) / tilts))
    return _reached(add, deviation=math.sqrt(total.variance), furthest=furthest, tail=tail)


@lru_cache(maxsize=1 << 14)
def _drawn_limits(draws: Draws, tail: float) -> tuple[float, float]:
    """Between which Σ weight of all draws less its mean is, but for this tail on either side.

    A draw has the transform 1 + Σ p (e^(ixw) − 1), and is at most ``largest`` from its mean:
    Bernstein's inequality says where the sum hardly ever is.
    """
    _refuse_tail(tail, _LEAST_TAIL)
    variance, each = draws.variance, draws.trials
    largest = max((abs(weight) for _, some in each for weight, _ in some), default=0.0)
    largest *= 2  # from the mean
    if largest < _KNOWN or not variance:
        return 0.0, 0.0
    apart = -math.log(NEGLIGIBLE * tail) * largest / 3
    furthest = apart + math.sqrt(apart**2 + 6 * variance * apart / largest)
    smooth = _SMOOTH * max(math.sqrt(variance), _COARSE * largest)
    places, logs, step = _line(smooth, furthest)
    phases = np.zeros_like(places)
    for trials, some in sorted((own for own in each if own[0]), reverse=True):
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


@lru_cache(maxsize=1 << 14)
def _exact_reach(weights: Weights, tail: float) -> float:
    """Given the sums of the smaller groups, it is a tail of the largest one's."""
    law, groups = weights[0][0], [(own, times) for _, own, times in weights]
    *others, (weight, number) = sorted(groups, key=lambda group: group[1])
    places, pmf = np.zeros(1), np.ones(1)
    for own, times in others:
        reach, part = _sum_law(law, times)
        likely = np.flatnonzero(part > _UNLIKELY)
        places = np.add.outer(places, own * (likely - reach)).ravel()
        pmf = np.multiply.outer(pmf, part[likely]).ravel()
    reach, part = _sum_law(law, number)
    above = np.append(np.cumsum(part[::-1])[::-1], 0.0)  # Pr[sum >= -reach], ...
    lost = _LEAST_EXACT_TAIL / 2 + 1 - math.fsum(pmf)
    if places.size > _MANY_PLACES:  # rounded up to fewer places, which only makes tails larger
        low, high = float(places.min()), float(places.max())
        numbers = np.ceil((places - low) / (high - low) * _MANY_PLACES).astype(np.int64)
        pmf = np.asarray(np.bincount(numbers, weights=pmf), dtype=np.float64)
        places = low + np.arange(pmf.size) * (high - low) / _MANY_PLACES

    def beyond(t: float) -> float:
        least = np.ceil((t - places) / weight - _TIES).astype(np.int64) + reach
        return float(pmf @ above[np.clip(least, 0, above.size - 1)]) + lost

    low, high = 0.0, 2 * math.sqrt(WeightedSum(weights).variance)
    while beyond(high) > tail:
        low, high = high, 2 * high
    while high - low > _FINE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) <= tail else (middle, high)
    return high


@lru_cache(maxsize=1 << 10)
def _sum_law(law: CountLaw, number: int) -> tuple[int, Array]:
    """Probabilities of −r, ..., r for a sum of differences of two counts, and r.

    A count has the transform ((1 − q)/(1 − q e^is))^shape, so that their difference has its squared
    modulus. What is beyond r has less than 1e-12.
    """
    q = 1 / (1 + law.shape / law.mean)
    reach = math.ceil(10 * math.sqrt(2 * number * law.variance) - 60 / math.log(q))
    size = 1 << (2 * reach).bit_length()
    angles = np.cos(2 * np.pi * np.arange(size // 2 + 1) / size)
    transform = -law.shape * number * np.log1p(2 * q * (1 - angles) / (1 - q) ** 2)
    pmf = np.maximum(np.fft.irfft(np.exp(transform), size), 0.0)
    return reach, np.roll(pmf, reach)[: 2 * reach + 1]


# ------------------------------------------------------------------------------- binomial numbers


@dataclass(frozen=True)
class Binomials(ErrorLaw):
    """A sum of independent binomial numbers, its mean not taken off: (trials, probability)."""

    parts: tuple[tuple[int, float], ...]

    @property
    def mean(self) -> float:
        """What is expected of it."""
        return math.fsum(trials * p for trials, p in self.parts)

    @property
    def variance(self) -> float:
        """Of the sum."""
        return math.fsum(trials * p * (1 - p) for trials, p in self.parts)

    def limits(self, outside: float) -> tuple[float, float]:
        """The narrowest that it passes with at most half of the probability on either side.

        >>> Binomials(((10, 0.5),)).limits(0.1)
        (2, 8)
        """
        return _quantiles(self.parts, outside / 2)

    def reach(self, tail: float) -> float:
        """One more than the upper limit, and its mean taken off."""
        return _quantiles(self.parts, tail)[1] + 1 - self.mean


@lru_cache(maxsize=256)
def _quantiles(parts: tuple[tuple[int, float], ...], tail: float) -> tuple[int, int]:
    first, pmf = 0, np.ones(1)
    for trials, p in parts:
        mean, reach = trials * p, _REACH * (math.sqrt(trials * p * (1 - p)) + 1)
        low, high = max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))
        part = scipy.stats.binom.pmf(np.arange(low, high + 1), trials, p)
        first, pmf = first + low, np.convolve(pmf, part)
    below = np.cumsum(pmf)  # Pr[noise <= z]
    above = np.cumsum(pmf[::-1])[::-1]  # Pr[noise >= z]
    fewest = int(np.count_nonzero(below <= tail))
    most = int(np.count_nonzero(above > tail)) - 1
    return first + fewest, first + most


@dataclass(frozen=True, eq=False)
class Withheld(ErrorLaw):
    """B ~ Bin(n, γ), how many of n people withhold their copy of one answer."""

    window: BinomialWindow

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, n: int, gamma: float) -> Withheld:
        """The law for 0 < gamma < 1."""
        return cls(BinomialWindow(n=n, probability=gamma))

    @property
    def mean(self) -> float:
        """nγ."""
        return self.window.n * self.window.probability

    @property
    def variance(self) -> float:
        """nγ(1 − γ)."""
        return self.mean * (1 - self.window.probability)

    @property
    def above(self) -> Array:
        """Pr[B > b] at every count b of the window, rounded up."""
        tail = np.cumsum(self.window.pmf[::-1])[::-1]
        return self._rounded_up(np.append(tail[1:], 0.0))

    def _rounded_up(self, probabilities: Array) -> Array:
        larger = probabilities * (1 + 2 * self.window.error) + self.window.omitted
        return np.minimum(larger, _CERTAIN)

    def limits(self, outside: float) -> tuple[int, int]:
        """The largest b with Pr[B < b] <= outside/2, 0 if the window holds none; and the least."""
        below = self._rounded_up(np.append(0.0, np.cumsum(self.window.pmf)[:-1]))
        rare = np.flatnonzero(below <= outside / 2)
        fewest = int(self.window.counts[rare[-1]]) if rare.size else 0
        return fewest, self.largest(outside / 2)

    def reach(self, tail: float) -> float:
        """One more than the largest."""
        return self.largest(tail) + 1

    def largest(self, probability: float) -> int:
        """The least b with Pr[B > b] <= probability."""
        return self._first(self.above <= probability)

    def largest_of_all(self, beta: float) -> int:
        """The least b that, with probability 1 − beta, no frequent answer's B exceeds.

        Frequent: given by more than b people. Only these can be wrong by more than b, and there are
        at most n/(b+1) of them.
        """
        frequent = self.window.n // (self.window.counts + 1)
        failing = -np.expm1(frequent * np.log1p(-self.above)) * (1 + _ROUNDING)
        return self._first(failing <= beta)

    def _first(self, holds: Flags) -> int:
        places = np.flatnonzero(holds)
        return int(self.window.counts[places[0]]) if places.size else self.window.n

    def squared_error(self, counts: Array) -> Array:
        """E[(estimate − s)²] of answers that s people gave: bias included.

        s² where B >= s hides the answer, (nγ − B)² where it does not.
        """
        pmf, withheld = self.window.pmf, self.window.counts
        shown = np.append(0.0, np.cumsum(pmf * (withheld - self.mean) ** 2))
        hidden = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)
        place = np.searchsorted(withheld, counts)
        return np.asarray(shown[place] + hidden[place] * counts**2)

"""Sums and sums of vectors with the error of a trusted curator: noisy numbers in random shares.

All arithmetic is modulo q = 2^modulus_bits. As q divides 2^64, 64-bit numbers that wrap around are
already right modulo q, in whatever parts and order they are added up.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from shoal import checks
from shoal.accounting.noise.profile import Divergence, NoiseProfile, checked_epsilon
from shoal.accounting.noise.split import (
    LEAST_SHARES,
    MOST_SHARES,
    discrete_laplace_delta,
    pure_delta,
    split_distance,
    split_shares,
)
from shoal.errors import InvalidArgumentError, OutOfRegimeError
from shoal.intervals.estimates import LaplaceNoise, MeanEstimate, VectorEstimate
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import ByProfile, Candidate, Integers, Mechanism, Parts, Wanted
from shoal.mechanisms.codec import Numbered, Whole, message_numbers
from shoal.mechanisms.estimators import E_co, Means
from shoal.mechanisms.grid import rounded
from shoal.mechanisms.shares import MOST_COUNTS, TAIL, RareCount
from shoal.questions.domains import Interval, Octahedron
from shoal.randomness import Randomness
from shoal.values import Array, Counts, Envelopes, Messages

MOST_BITS = 62
MOST_LEVELS = 1 << 30
GUARD_BITS = 24
LEAST_GUARD_BITS = 16
_RARE = 28.0  # noise beyond what counts as plausible has a probability of about e^-28
_FRACTION_BITS = 30


class Shares(Numbered):
    """A share of one of so many sums, modulo 2^bits; no slot is empty."""

    def __init__(self, coordinates: int, modulus_bits: int) -> None:
        super().__init__(coordinates << modulus_bits)
        self._coordinates, self._modulus_bits = coordinates, modulus_bits
        # A share, and which coordinate it belongs to.
        self.message_bits = math.log2(coordinates) + modulus_bits

    def cells(self, messages: Messages) -> Whole:
        """Sums modulo 2^64, then numbers of messages, of every coordinate."""
        numbers = message_numbers(messages, self.outputs)
        if self._coordinates == 1:
            return np.array([numbers.sum(dtype=np.int64), numbers.size], dtype=np.int64)
        places = numbers >> np.int64(self._modulus_bits)
        sums = np.zeros(self._coordinates, dtype=np.int64)
        np.add.at(sums, places, numbers & np.int64((1 << self._modulus_bits) - 1))
        counts = np.bincount(places, minlength=self._coordinates)
        return np.concatenate([sums, counts.astype(np.int64)])


@dataclass(frozen=True, kw_only=True)
class SplitAndMix(Mechanism[E_co]):
    """Whole numbers plus Pólya noise, each sent as ``shares`` random shares.

    ``people`` is how many honest people share the noise of ``epsilon``; no epsilon, no noise: then
    the sum itself is shown, and only who added what to it is hidden.
    """

    several = True
    changes: ClassVar[int]  # 2 if all levels may go, and come back elsewhere or negative; else 1

    levels: int
    shares: int
    modulus_bits: int
    people: int
    epsilon: float | None

    @property
    @abstractmethod
    def coordinates(self) -> int:
        """How many sums there are."""

    @property
    def sensitivity(self) -> int:
        """By how much one person changes the sums, in levels, all coordinates together."""
        return self.changes * self.levels

    @property
    @abstractmethod
    def step(self) -> float:
        """What one level is worth."""

    def __post_init__(self) -> None:
        checks.counts(self, levels=1, people=1, modulus_bits=1, shares=LEAST_SHARES)
        checks.refuse(self.levels > MOST_LEVELS, "levels <= 2^30", levels=self.levels)
        checks.at_most(MOST_SHARES, shares=self.shares)
        if self.coordinates << self.modulus_bits > 1 << MOST_BITS:
            raise _too_long(self.modulus_bits, self.coordinates)
        if self.epsilon is not None:
            checks.positive(epsilon=self.epsilon)
            checked_epsilon(self.epsilon)

    @classmethod
    def _fitted(
        cls,
        n: int,
        epsilon: float,
        delta: float,
        levels: int | None,
        **numbers: Any,  # noqa: ANN401
    ) -> Self:
        """The fewest shares that keep (epsilon, delta) among n honest people.

        By default levels so fine that rounding adds at most an eighth of the noise's variance, and
        no finer than the noise can be drawn. A modulus with
        24 bits to spare, 16 for very large crowds, makes an altered share show.
        """
        checks.target(epsilon=epsilon, delta=delta)
        if levels is None:
            finest = math.floor(0.99 * MOST_COUNTS / TAIL * epsilon / cls.changes)
            wanted = math.ceil(math.sqrt(checks.count(n=n)) * max(1.0, epsilon))
            levels = max(1, min(wanted, finest))
        numbers |= {"levels": levels, "people": n, "epsilon": epsilon}
        first = cls(modulus_bits=1, shares=LEAST_SHARES, **numbers)
        low, high = first.plausible(n)
        needed = (high - low + 1).bit_length()
        bits = min(needed + GUARD_BITS, MOST_BITS - (first.coordinates - 1).bit_length())
        if bits < needed + LEAST_GUARD_BITS:
            raise _too_long(needed + LEAST_GUARD_BITS, first.coordinates)
        security = math.log2(first.coordinates * (1 + math.exp(epsilon)) / delta)
        fewest = split_shares(n=n, modulus_bits=bits, security=security)
        # What the sampler lacks may cost one share more.
        made = cls(modulus_bits=bits, shares=fewest, **numbers)
        if made.profile(n).delta(epsilon) > delta and fewest < MOST_SHARES:
            made = cls(modulus_bits=bits, shares=fewest + 1, **numbers)
        return made.kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def sending(self) -> dict[str, Any]:
        """What one person sends, as parts: shares of every coordinate, always the same number.

        In each sum somebody may add anything that leaves it plausible: shares may add up to any
        number. For as many people as share the noise: the crowd that makes the sum plausible, not
        the protocol, bounds it.
        """
        low, high = self.plausible(self.people)
        sent = self.coordinates * self.shares
        return {"messages": float(sent), "slots": sent, "influence": self.step * (high - low)}

    @cached_property
    def rate(self) -> float | None:
        """The noise has Pr[Z = z] ∝ e^(−rate |z|) in levels; rate · sensitivity <= epsilon."""
        if self.epsilon is None:
            return None
        return math.nextafter(self.epsilon / self.sensitivity, 0.0)

    @property
    def _noise(self) -> RareCount | None:
        """One person's share of the noise is the difference of two of these."""
        return None if self.rate is None else RareCount.polya(rate=self.rate, people=self.people)

    @property
    def integers(self) -> Integers:
        """What a person's share of the noise is drawn by, if there is noise."""
        return {} if self._noise is None else self._noise.integers("noise")

    def noise(self, n: int) -> LaplaceNoise:
        """What is in the mean of n people: rounding, and their noise."""
        return LaplaceNoise.of(n=n, unit=self.step / n, rate=self.rate, people=self.people)

    def noise_variance(self, n: int) -> float:
        """Variance of the noise of n people in one coordinate's sum, in levels."""
        if self.rate is None:
            return 0.0
        return n / self.people * 0.5 / math.sinh(self.rate / 2) ** 2

    def _profile(self, n: int) -> NoiseProfile:
        """Pure noise; what shares and sampler lack of perfection is counted as slack."""
        if self.rate is not None and checks.count(n=n) < self.people:
            people = {"n": n, "people": self.people}
            instead = f"{type(self).__name__}.calibrated with n={n}"
            raise OutOfRegimeError(f"the noise of {self.name}", "n >= people", people, instead)
        return NoiseProfile(
            divergence=self._divergence,
            n=checks.count(n=n),
            theorem="split and mix, discrete Laplace noise of all honest people together",
            scope="everybody's shares go through the shuffler one by one",
            slack=self._slack(n),
        )

    @property
    def _divergence(self) -> Divergence:
        if self.rate is None or self.epsilon is None:
            return Divergence.of(_everything)
        if self.changes == 1:
            return Divergence.of(discrete_laplace_delta, rate=self.rate, sensitivity=self.levels)
        return Divergence.of(pure_delta, central_epsilon=self.epsilon)

    def _slack(self, n: int) -> float:
        distance = split_distance(n=n, shares=self.shares, modulus_bits=self.modulus_bits)
        # Noise of more people than it was made for only adds to that of the others.
        sampling = 0.0 if self._noise is None else self.people * (2 * self._noise.error)
        return min(1.0, self.coordinates * (distance + sampling))

    def _sent(self, numbers: Whole, randomness: Randomness) -> Envelopes:
        """Noise, then shares, of rows of whole numbers, one row per person."""
        people, noise = len(numbers), self._noise
        if noise is not None:
            more, less = (noise.draw(numbers.size, randomness) for _ in range(2))
            numbers = numbers + (more - less).reshape(numbers.shape)
        modulus = 1 << self.modulus_bits
        drawn = randomness.below(modulus, numbers.size * (self.shares - 1)).view(np.int64)
        shares = np.empty((*numbers.shape, self.shares), dtype=np.int64)
        shares[..., :-1] = drawn.reshape(*numbers.shape, self.shares - 1)
        shares[..., -1] = (numbers - shares[..., :-1].sum(axis=-1)) & np.int64(modulus - 1)
        if self.coordinates > 1:
            places = np.arange(self.coordinates, dtype=np.int64) << np.int64(self.modulus_bits)
            shares += places[:, None]
        return Envelopes(shares.ravel(), np.full(people, self.slots, dtype=np.int64))

    def plausible(self, n: int) -> tuple[int, int]:
        """Least and largest sum that n honest people and their noise may have, in levels."""
        low, high = (1 - self.changes) * n * self.levels, n * self.levels
        if self.rate is None:
            return low, high
        parts = math.ceil(n / self.people)
        reach = math.ceil(parts * (math.log(2 * parts * self.coordinates) + _RARE) / self.rate)
        return low - reach, high + reach

    def undetected(self, n: int) -> float:
        """Probability that an altered share leaves one sum of n people plausible, at most."""
        low, high = self.plausible(checks.count(n=n))
        return min(1.0, (high - low + 1) / (1 << self.modulus_bits))

    def sums(self, counts: Counts) -> list[int]:
        """The sums in levels, or an error if a message is missing, added or altered."""
        sums, numbers = np.split(counts.cells, 2)
        expected = counts.n * self.shares
        reason = f"{expected} messages, {self.shares} of each of {counts.n} people"
        checks.every(numbers == expected, reason, messages=numbers)
        low, high = self.plausible(counts.n)
        modulus = 1 << self.modulus_bits
        reason = f"more than {self.modulus_bits} bits for the sum of {counts.n} people"
        checks.refuse(high - low >= modulus, reason, modulus_bits=self.modulus_bits)
        centred = [(int(total) - low) % modulus + low for total in sums]
        reason = f"a sum from {low} to {high}: a share was altered, lost or forged"
        for total in centred:
            checks.refuse(total > high, reason, sum=total)
        return centred


def _too_long(bits: int, coordinates: int) -> InvalidArgumentError:
    """The error for a modulus that does not fit a 64-bit word."""
    what = "" if coordinates == 1 else f" for a modulus and {coordinates} coordinates"
    expected = f"at most {MOST_BITS} bits{what} (take fewer levels, or fewer people at a time)"
    return InvalidArgumentError("modulus_bits", bits, expected)


def _everything(*, epsilon: float) -> float:
    """Without noise the sums are shown: no epsilon hides a person from somebody who knows all."""
    checks.non_negative(epsilon=epsilon)
    return 1.0


@dataclass(frozen=True, kw_only=True)
class SplitAndMixSum(SplitAndMix[MeanEstimate]):
    """Round at random to 0, ..., ``levels``, add a share of the noise, split, and mix.

    The shuffled shares of all people show their noisy sum and, but for a total variation of
    ``split_distance``, nothing else.

    Runtime: one draw per share and three per person; O(messages) to estimate.

    Utility: the sum has variance n/(4 levels²) + 2/ε² in units of the bounds' span,
    whatever n is. One missing message makes the sum worthless, and is noticed.

    Args:
        levels: Whole steps from the least to the largest value, at most 2^30.
        shares: Messages that one number is split into.
        modulus_bits: Shares are whole numbers modulo 2 to this power.
        people: Honest people who share the noise; more of them add more.
        epsilon: ε > 0 of the noise that ``people`` share; None adds no noise.
        low: The least number that may be reported, public.
        high: The largest one, above ``low``.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Ishai, Kushilevitz, Ostrovsky, Sahai, "Cryptography from Anonymity", FOCS 2006; Balle,
        Bell, Gascón, Nissim, "Private Summation in the Multi-Message Shuffle Model", CCS 2020,
        arXiv:2002.00817, and arXiv:1906.09116 for the noise. The number of shares is not
        theirs: it comes from the exact second moment, and is lower;
        :doc:`/theory/split-and-mix`.

    Example:
        >>> protocol = SplitAndMixSum.calibrated(low=0, high=1, n=10**6, epsilon=1.0, delta=1e-6)
        >>> protocol.shares, protocol.modulus_bits, protocol.envelope_bytes
        (7, 54, 49)
    """

    name: ClassVar[str] = "split-and-mix"
    words = texts.PIECES
    changes = 1
    coordinates = 1

    low: float
    high: float

    def __post_init__(self) -> None:
        checks.bounds(self.low, self.high)
        super().__post_init__()

    @cached_property
    def parts(self) -> Parts[MeanEstimate]:
        """Messages are shares of one sum."""
        return Parts(
            domain=Interval(self.low, self.high),
            privacy=ByProfile(self._profile),
            codec=Shares(1, self.modulus_bits),
            estimator=Means(
                self._mean, lambda n: (self.step / n) ** 2 * (n / 4 + self.noise_variance(n))
            ),
            **self.sending,
        )

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
        """Noise of epsilon from n honest people together, and the fewest shares that keep delta."""
        return cls._fitted(n, epsilon, delta, levels, low=low, high=high)

    @property
    def step(self) -> float:
        """What one level is worth."""
        return (self.high - self.low) / self.levels

    def draw(self, data: Array, bits: Randomness) -> Envelopes:
        """Everybody's shares."""
        levels = rounded(data, self.low, self.high, self.levels, bits)
        return self._sent(levels[:, None], bits)

    def _mean(self, counts: Counts) -> MeanEstimate:
        """The sum in the middle of what is plausible; worst-case rounding is in its error.

        Messages that are too few, too many or do not fit together are an error.
        """
        (total,), noise = self.sums(counts), self.noise(counts.n)
        unit = self.step / counts.n
        return MeanEstimate(self.low + unit * total, noise.deviation, counts.n, noise)


@dataclass(frozen=True, kw_only=True)
class SplitAndMixVectors(SplitAndMix[VectorEstimate]):
    """Vectors with ``|v_1| + ... + |v_d| <= bound``, every coordinate a split-and-mix sum.

    *Rounding that never lengthens.* In units of bound/levels, S_j is the sum of the first j
    absolute values, and one uniform offset u per person makes coordinate j the whole number
    ⌊S_j + u⌋ − ⌊S_{j−1} + u⌋: right on average, and all of them together at most ``levels``. So one
    person changes the sums by at most 2 levels in total, and noise of
    ``e^(−epsilon |z| / (2 levels))`` per coordinate makes them epsilon-DP.

    Runtime: one draw per share and two per coordinate; O(messages) to estimate.

    Utility: each coordinate of the sum has variance bound² (n/(4 levels²) + 8/ε²) at most.

    Args:
        levels: Whole steps from the least to the largest value, at most 2^30.
        shares: Messages that one number is split into.
        modulus_bits: Shares are whole numbers modulo 2 to this power.
        people: Honest people who share the noise; more of them add more.
        epsilon: ε > 0 of the noise that ``people`` share; None adds no noise.
        dimension: Number of coordinates.
        bound: The most that the absolute values of a vector's coordinates add up to.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        as for one sum, Balle, Bell, Gascón, Nissim, arXiv:2002.00817; per coordinate;
        :doc:`/theory/split-and-mix`.

    Example:
        >>> protocol = SplitAndMixVectors.calibrated(
        ...     dimension=10, bound=1.0, n=10**5, epsilon=1.0, delta=1e-6
        ... )
        >>> protocol.slots, protocol.message_bytes
        (80, 7)
    """

    name: ClassVar[str] = "split-and-mix-vectors"
    changes = 2

    dimension: int
    bound: float

    def __post_init__(self) -> None:
        checks.counts(self, dimension=1)
        checks.at_most(checks.LARGEST_DIMENSION, dimension=self.dimension)
        checks.positive(bound=self.bound)
        super().__post_init__()

    @cached_property
    def parts(self) -> Parts[VectorEstimate]:
        """Messages are shares of a sum for each coordinate."""
        return Parts(
            domain=Octahedron(self.dimension, self.bound),
            privacy=ByProfile(self._profile),
            codec=Shares(self.dimension, self.modulus_bits),
            estimator=Means(self._mean, self._largest),
            **self.sending,
        )

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """With the least bound that holds for all vectors."""
        d, bound = wanted.domain.coordinates, wanted.domain.widest
        made = partial(cls.calibrated, dimension=d, bound=bound)
        return [Candidate(cls.name, calibrated=made)]

    @classmethod
    def calibrated(
        cls,
        *,
        dimension: int,
        bound: float,
        n: int,
        epsilon: float,
        delta: float,
        levels: int | None = None,
    ) -> Self:
        """Noise of epsilon from n honest people together, and the fewest shares that keep delta."""
        return cls._fitted(n, epsilon, delta, levels, dimension=dimension, bound=bound)

    @property
    def coordinates(self) -> int:
        """One sum per coordinate."""
        return self.dimension

    @property
    def step(self) -> float:
        """What one level is worth."""
        return self.bound / self.levels

    def draw(self, data: Array, bits: Randomness) -> Envelopes:
        """Everybody's shares."""
        return self._sent(self._rounded(data, bits), bits)

    def _rounded(self, vectors: Array, randomness: Randomness) -> Whole:
        """Whole coordinates, right on average to 2^-30 of a level, at most ``levels`` together."""
        unit = 2.0**_FRACTION_BITS
        parts = np.floor(np.abs(vectors) / self.bound * self.levels * unit).astype(np.int64)
        # What float sums let slip over the bound is cut off: privacy rests on the whole numbers.
        lengths = np.minimum(np.cumsum(parts, axis=1), self.levels << _FRACTION_BITS)
        offsets = randomness.below(1 << _FRACTION_BITS, len(vectors)).astype(np.int64)
        floors = (lengths + offsets[:, None]) >> np.int64(_FRACTION_BITS)
        whole = np.diff(floors, axis=1, prepend=0)
        return np.where(vectors < 0, -whole, whole)

    def _mean(self, counts: Counts) -> VectorEstimate:
        """Worst-case rounding is in its errors.

        Messages that are too few, too many or do not fit together are an error.
        """
        n, sums = counts.n, np.array(self.sums(counts), dtype=np.float64)
        noise = self.noise(n)
        return VectorEstimate(self.step / n * sums, np.full(sums.shape, noise.deviation), n, noise)

    def _largest(self, n: int) -> float:
        """Largest expected squared length of the error of the estimated mean of n people."""
        rounding = n * min(self.dimension / 4, self.levels)
        return (self.step / n) ** 2 * (rounding + self.dimension * self.noise_variance(n))

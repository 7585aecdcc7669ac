"""A near-central histogram of which the shuffler may see how many messages each person sends.

Each of n honest people with answer b sends (b, +), and P pairs {(j, +), (j, −)} of uniformly random
answers j, P Poisson of mean k·pairs/people. A person is a *carrier* with a probability that depends
on nothing. Carriers alone add single messages (j, ±), for every answer and sign a negative binomial
number of ratio a and shape 1/``fewest``; and every carrier sends all slots, with messages that say
nothing in those left over. Everybody else sends 1 + 2P messages.

So the number of messages is independent of the answer, and of the single messages, given who the
carriers are. If at least ``fewest`` of them are honest, which fails with a tiny probability that is
counted in delta, the single messages of every answer hold the geometric noise of
:mod:`shoal.accounting.noise.near_central_histogram`, whoever the carriers are. The analyzer sees
the messages and no more, as every batch is filled up to :meth:`CarrierHistogram.records`: by the
service's shuffler, and by :func:`shoal.shuffle`.
The shuffler, who sees the numbers, sees no more of the answers than readers of the estimates, from
which the pairs cancel. Proofs: docs/theory/near-central-carriers.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
import scipy

from shoal import checks
from shoal.accounting.noise.near_central_histogram import (
    HistogramNoise,
    histogram_calibration,
    histogram_delta,
)
from shoal.accounting.noise.profile import Divergence, NoiseProfile
from shoal.errors import ShoalError, UnreachableTargetError
from shoal.intervals.estimates import Estimate
from shoal.intervals.laws import CarriedDifference
from shoal.mechanisms import shares
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import (
    EXACT,
    ByProfile,
    Integers,
    Mechanism,
    Parts,
    margins,
)
from shoal.mechanisms.codec import (
    Numbered,
    Rows,
    Uneven,
    Whole,
    encode_integers,
)
from shoal.mechanisms.histograms import OfBuckets
from shoal.mechanisms.shares import CountTable
from shoal.questions.domains import Cells
from shoal.randomness import Randomness
from shoal.values import Array, Envelopes, Messages

MOST_SLOTS = 1000
_RARE = 40  # the shuffler's filling falls short with probability e^-40 at most
_SPARED = 1e-4  # of delta, for too few carriers, and for noise that the slots do not hold
_SMALLEST_CARRIERS = 2.0**-16
_LEAST_INFLATION = 1.01  # of the noise itself, before there are more carriers than the fewest
_NEGLIGIBLE = Decimal(2) ** -66  # mass that a table leaves out, and counts
_ROUNDING = 1e-9  # relative, of probabilities that are added to delta
_LEAST_RATE = 2.0**-8


class Signed(Numbered):
    """k answers with +, k with −, and a message that says nothing; a slot that is not sent is none.

    Such a slot is the number after the last.
    """

    outputs: int

    def __init__(self, k: int) -> None:
        super().__init__(2 * k + 1, spare=True, always_full=True)

    def cells(self, messages: Messages) -> Whole:
        """How often each answer was sent with + and with −, in this order."""
        return super().cells(messages)[:-1]

    def used(self, rows: Rows) -> Messages:
        """The messages of single slots; one that is not sent is an error."""
        messages = self.decode(rows)
        expected = f"messages below {self.outputs}"
        checks.every(messages < self.outputs, expected, message=messages)
        return messages


@dataclass(frozen=True, kw_only=True)
class CarrierHistogram(Mechanism[Estimate]):
    """Counts of k answers with nearly the error of a trusted curator, in envelopes of a service.

    ``central_epsilon`` is the rate of the geometric noise of each answer, a = e^−rate, and
    ``pairs`` the mean number of its pairs, both of all ``people`` together. A person is a carrier
    with probability ``carriers``, a multiple of 2^-52, and the noise counts on the ``fewest`` of
    them. Carriers send ``most`` messages, and nobody sends more.

    Citations: Ghazi, Kumar, Manurangsi, Pagh, Sinha, arXiv:2109.13158, for one count; the
    divergence of the histogram is exact.
    Runtime: O(messages).
    Utility: each count has the variance 2a/(1−a)² times the ratio of the carriers expected to the
    fewest. One dishonest person can add as many messages as an envelope has slots.

    >>> protocol = CarrierHistogram(
    ...     k=100,
    ...     central_epsilon=0.4657,
    ...     pairs=2450.0,
    ...     people=10**6,
    ...     carriers=2.0**-7,
    ...     fewest=7223,
    ...     most=56,
    ... )
    >>> protocol.profile(10**6).delta(1.0) <= 1e-6
    True
    >>> protocol.records(10**6, honest=10**6)  # to be opened, of a million reports
    1960436
    """

    name: ClassVar[str] = "near-central-carriers"
    words = texts.CARRIED_NOISE
    several = True
    truthful = True

    k: int
    central_epsilon: float
    pairs: float
    people: int
    carriers: float
    fewest: int
    most: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2, people=1, fewest=1, most=3)
        checks.fraction(carriers=self.carriers)
        exact = float(self.carriers * 2.0**shares.BITS).is_integer()
        checks.refuse(not exact, "a multiple of 2^-52", carriers=self.carriers)
        expected = f"at most the {self.carriers * self.people:g} expected"
        checks.refuse(self.fewest > self.carriers * self.people, expected, fewest=self.fewest)
        checks.at_most(MOST_SLOTS, most=self.most)
        noise = self._noise
        expected = f"a central_epsilon of at least {_LEAST_RATE:g}"
        checks.refuse(noise.rate < _LEAST_RATE, expected, central_epsilon=noise.rate)
        # What does not fit into an envelope is not worth a table, which would be endless.
        expected = f"at most {self.most} messages of a person on average"
        checks.refuse(2 * self.k * self.pairs / self.people > self.most, expected, pairs=self.pairs)
        single = 2 * self.k * noise.single.mean / self.fewest
        checks.refuse(single > self.most, expected, fewest=self.fewest)

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """A message is a bucket and a sign, or says nothing."""
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(self._profile),
            codec=Signed(self.k),
            estimator=OfBuckets(self.k, self.error),
            slots=self.most,
            influence=float(self.most),  # an envelope full of one message
        )

    @property
    def uneven(self) -> Uneven:  # type: ignore[override]  # of the parameters
        """Who does not carry noise sends fewer messages than there are slots."""
        codec = self.codec
        numbers = encode_integers(np.array([self._nothing, codec.outputs]), codec.message_bytes)
        padding, absent = (row.tobytes() for row in numbers)
        return Uneven(self.people, absent, padding, self.records, codec)

    @classmethod
    def calibrated(
        cls, *, k: int, n: int, epsilon: float, delta: float, inflation: float = 1.25
    ) -> Self:
        """The fewest records to open that keep (epsilon, delta) among n honest people.

        ``inflation`` is the variance paid, as a multiple of the curator's. Fewer carriers send
        fewer messages that say nothing, but their number varies more: the noise counts on a smaller
        part of them, and more pairs have to make up for that.
        """
        checks.target(epsilon=epsilon, delta=delta)
        checks.above_one(inflation=inflation)
        people, best = checks.count(n=n), None
        probability, worse = 1.0, 0
        while probability >= _SMALLEST_CARRIERS and worse < 2:
            try:
                made = cls._with(probability, k, people, epsilon, delta, inflation)
            except ShoalError:
                if best is None:
                    raise
                break
            better = best is None or made.expected_records < best.expected_records
            best, worse = (made, 0) if better else (best, worse + 1)
            probability /= 2
        assert best is not None  # noqa: S101 - the first was made, or raised
        return best

    @classmethod
    def _with(
        cls, carriers: float, k: int, n: int, epsilon: float, delta: float, inflation: float
    ) -> Self:
        fewest = _fewest(n, carriers, _SPARED * delta)
        own = inflation * fewest / (carriers * n) if fewest else 0.0
        if own < _LEAST_INFLATION:
            raise UnreachableTargetError(
                f"a variance of {inflation:g} times the curator's",
                f"too few of {n} people carry the noise with probability {carriers:g}",
                "ask for more people",
            )
        for part in margins(delta):
            noise = histogram_calibration(epsilon=epsilon, delta=part, inflation=own, robust=True)
            made = cls(
                k=k,
                central_epsilon=noise.rate,
                pairs=noise.pairs,
                people=n,
                carriers=carriers,
                fewest=fewest,
                most=_slots(
                    k, noise, n, carriers, fewest, _SPARED * delta / (1 + math.exp(epsilon))
                ),
            )
            if made.profile(n).delta(epsilon) <= delta:
                break
        return made.kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def _nothing(self) -> int:
        """The message that says nothing: the shuffler adds such."""
        return 2 * self.k

    # How they are drawn

    @cached_property
    def _noise(self) -> HistogramNoise:
        return HistogramNoise(rate=self.central_epsilon, pairs=self.pairs)

    @cached_property
    def _pairs(self) -> CountTable:
        """How many pairs somebody sends."""
        return poisson_table(_decimal(self.k * Fraction(self.pairs) / self.people))

    @cached_property
    def _clumps(self) -> CountTable:
        """How many times a carrier adds single messages.

        A negative binomial number is the sum of a Poisson number of logarithmic ones.
        """
        parts = _decimal(Fraction(2 * self.k, self.fewest))
        return poisson_table(EXACT.multiply(parts, _clumpiness(self.central_epsilon)))

    @cached_property
    def _clump(self) -> CountTable:
        """How many single messages more than one a carrier adds at a time, all of them alike."""
        return logarithmic_table(self.central_epsilon)

    @property
    def integers(self) -> Integers:
        """What carriers, pairs and single messages are drawn by."""
        return {
            "bits": shares.BITS,
            "carriers": shares.numerator(self.carriers),
            "pairs_steps": self._pairs.integers,
            "clumps_steps": self._clumps.integers,
            "clump_steps": self._clump.integers,
        }

    @property
    def messages(self) -> float:
        """Expected messages of one person, those that say nothing among them."""
        return float(self._sent[0])

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """The answer, pairs and, of a carrier, a share of the noise, until all slots are full."""
        people, everybody = data.size, np.arange(data.size)
        carries = shares.coins(self.carriers, people, bits)
        pairs = self._pairs.draw(people, bits)
        paired = bits.below(self.k, int(pairs.sum())).astype(np.int64)
        carriers = np.flatnonzero(carries)
        clumps = self._clumps.draw(carriers.size, bits)
        kinds = bits.below(2 * self.k, int(clumps.sum())).astype(np.int64)
        sizes = 1 + self._clump.draw(kinds.size, bits)
        in_pairs = np.repeat(everybody, pairs)
        owners = [everybody, in_pairs, in_pairs, np.repeat(np.repeat(carriers, clumps), sizes)]
        parts = [data, paired, self.k + paired, np.repeat(kinds, sizes)]
        # What an envelope does not hold is left out; its probability is counted.
        left = np.maximum(self.slots - np.bincount(np.concatenate(owners), minlength=people), 0)
        filled = np.where(carries, left, 0)
        owners.append(np.repeat(everybody, filled))
        parts.append(np.full(int(filled.sum()), self._nothing))
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        numbers = np.bincount(owner, minlength=people)
        starts = np.repeat(np.cumsum(numbers) - numbers, numbers)
        fits = np.arange(owner.size) - starts < self.slots
        sizes = np.minimum(numbers, self.slots)
        return Envelopes(np.concatenate(parts)[order][fits], sizes, self.uneven.filling)

    # What the analyzer sees

    @property
    def expected_records(self) -> float:
        """Records per person in a batch of ``people``, all of them honest."""
        return self.records(self.people, honest=self.people) / self.people

    @cached_property
    def _sent(self) -> tuple[Fraction, Fraction]:
        """Mean and variance of the number of messages that one person sends, exactly."""
        steps = [0, *self._pairs.steps.tolist()]
        weights = [Fraction(after - before, steps[-1]) for before, after in pairwise(steps)]
        numbers = [min(1 + 2 * pairs, self.slots) for pairs in range(len(weights))]
        carrier = Fraction(shares.numerator(self.carriers), 1 << shares.BITS)
        mean, square = (
            carrier * self.slots**power
            + (1 - carrier) * sum(w * m**power for w, m in zip(weights, numbers, strict=True))
            for power in (1, 2)
        )
        return mean, square - mean**2

    def records(self, reports: int, *, honest: int) -> int:
        """How many records a batch of so many reports is filled up to, ``honest`` at least.

        Those of the others may have all slots. Of h honest ones the sum exceeds its mean by
        t = b L/3 + sqrt((b L/3)² + 2 h v L) with probability e^−L at most, v being the variance of
        one and b the slots (Bernstein). Whole numbers only: both services come to the same.
        """
        reports, honest = checks.count(reports=reports), checks.count(0, honest=honest)
        mean, variance = self._sent
        apart = Fraction(self.slots * _RARE, 3)
        square = apart**2 + 2 * honest * variance * _RARE
        beyond = apart + math.isqrt(math.ceil(square)) + 1
        others = (reports - honest) * self.slots
        return min(reports * self.slots, math.ceil(honest * mean + beyond) + others)

    # What that reveals

    def _profile(self, n: int) -> NoiseProfile:
        present, lost = self._present(checks.count(n=n))
        noise = {"rate": self.central_epsilon, "pairs": self.pairs, "present": present}
        return NoiseProfile(
            divergence=Divergence.of(histogram_delta, **noise),
            n=n,
            theorem="near-central histogram, exact divergence",
            scope=(
                "everybody sends the answer and pairs, some a share of the noise, each message by "
                "itself; the shuffler fills up the batch"
            ),
            slack=self._slack(n),
            lost=lost + (math.exp(-_RARE) if self.carriers < 1 else 0.0),
        )

    def _present(self, n: int) -> tuple[float, float]:
        """The part of the noise that n honest people make at least, but for a probability."""
        rare = _too_few(self.people, self.carriers, self.fewest)
        if n >= self.people:  # whatever the others add is independent of all this
            return 1.0, rare
        fewest = min(self.fewest, _fewest(n, self.carriers, 2 * rare))
        if not fewest:
            return 1.0, 1.0
        present = min(fewest / self.fewest, n / self.people)
        return present, _too_few(n, self.carriers, fewest)

    def _slack(self, n: int) -> float:
        """What the tables round off, and envelopes that are too small."""
        drawn = self._pairs.error + self.carriers * self._clump_error
        overflow = _overflow(
            self.k, self._noise, self.people, self.carriers, self.fewest, self.slots
        )
        return min(n, self.people) * (drawn + overflow)

    @property
    def _clump_error(self) -> float:
        mean = 2 * self.k * float(_clumpiness(self.central_epsilon)) / self.fewest
        return self._clumps.error + mean * self._clump.error

    def error(self, n: int) -> CarriedDifference:
        """The law of the error of one estimated count of n people."""
        share = self._noise.single.times(1 / self.fewest)
        return CarriedDifference(share, self.carriers, checks.count(n=n))


# ------------------------------------------------------------------------------------------ tables


def poisson_table(mean: Decimal) -> CountTable:
    """A Poisson number, to the last of 62 bits."""

    def terms() -> Iterator[Decimal]:
        term, count = EXACT.exp(mean.copy_negate()), 0
        # From twice the mean on every term is at most half the one before.
        while count < 2 * mean or term > _NEGLIGIBLE:
            yield term
            count += 1
            term = EXACT.divide(EXACT.multiply(term, mean), Decimal(count))

    return CountTable.exact(list(terms()), omitted=2 * float(_NEGLIGIBLE))


def logarithmic_table(rate: float) -> CountTable:
    """Pr[count] ∝ a^(count+1)/(count+1), a = e^−rate, to the last of 62 bits."""
    ratio, norm = EXACT.exp(Decimal(-rate)), _clumpiness(rate)
    stop = EXACT.subtract(Decimal(1), ratio)

    def terms() -> Iterator[Decimal]:
        power, size = ratio, Decimal(1)
        while power > EXACT.multiply(_NEGLIGIBLE, EXACT.multiply(stop, norm)):
            yield EXACT.divide(power, EXACT.multiply(norm, size))
            power, size = EXACT.multiply(power, ratio), size + 1

    return CountTable.exact(list(terms()), omitted=float(_NEGLIGIBLE))


def _decimal(value: Fraction) -> Decimal:
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _clumpiness(rate: float) -> Decimal:
    """−log(1 − e^−rate): the clumps of a geometric number."""
    return EXACT.ln(EXACT.subtract(Decimal(1), EXACT.exp(Decimal(-rate)))).copy_negate()


# -------------------------------------------------------------------- what happens hardly ever


def _too_few(n: int, probability: float, fewest: int) -> float:
    """Bounds Pr[Bin(n, p) < fewest] by Chernoff's exp(−n KL(x || p)), x = (fewest − 1)/n."""
    if probability == 1:
        return 0.0 if fewest <= n else 1.0
    if fewest < 1:
        return 0.0
    x = (fewest - 1) / n
    if x >= probability:
        return 1.0
    near = x * math.log(x / probability) if x else 0.0
    far = (1 - x) * (math.log1p(-x) - math.log1p(-probability))
    return math.exp(-n * (near + far) * (1 - _ROUNDING))


def _fewest(n: int, probability: float, rare: float) -> int:
    """The most carriers that n people have but for this probability; 0 if there may be none."""
    if probability == 1:
        return n
    low, high = 0, math.floor(n * probability)  # the former holds, the latter does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _too_few(n, probability, middle) <= rare else (low, middle)
    return low


@lru_cache(maxsize=256)
def _sizes(k: int, noise: HistogramNoise, people: int, fewest: int) -> tuple[Array, Array]:
    """Bounds on Pr[1 + 2P > s], and on Pr[1 + 2P + Z > s] of a carrier, by s up to MOST_SLOTS."""
    sizes = np.arange(MOST_SLOTS + 1)
    mean = k * noise.pairs / people
    pairs = scipy.stats.poisson.sf((sizes - 1) // 2, mean)
    pairs[0] = 1.0
    law = scipy.stats.nbinom(2 * k / fewest, -math.expm1(-noise.rate))
    exactly = scipy.stats.poisson.pmf(np.arange(MOST_SLOTS // 2 + 1), mean)
    # Pr[1 + 2P + Z > s] = Pr[1 + 2P > s] + Σ_p Pr[P = p] Pr[Z > s − 1 − 2p]
    rooms = sizes[:, None] - 1 - 2 * np.arange(exactly.size)[None, :]
    single = np.where(rooms >= 0, law.sf(np.maximum(rooms, 0)), 0.0) @ exactly
    return pairs * (1 + _ROUNDING), (pairs + single) * (1 + _ROUNDING)


def _overflow(
    k: int, noise: HistogramNoise, people: int, carriers: float, fewest: int, slots: int
) -> float:
    """Probability that one person has more messages than slots."""
    others, carrier = _sizes(k, noise, people, fewest)
    return float((1 - carriers) * others[slots] + carriers * carrier[slots])


def _slots(
    k: int, noise: HistogramNoise, people: int, carriers: float, fewest: int, rare: float
) -> int:
    """The least number that holds everybody's messages but for this probability."""
    others, carrier = _sizes(k, noise, people, fewest)
    enough = people * ((1 - carriers) * others + carriers * carrier) <= rare
    if not enough.any():
        mean = 2 * k * noise.pairs / people
        raise UnreachableTargetError(
            f"envelopes of at most {MOST_SLOTS} slots",
            f"{people} people with {k} answers send {mean:.0f} messages of noise each",
            "ask for more people, fewer answers, or more epsilon",
        )
    return max(3, int(np.argmax(enough)))

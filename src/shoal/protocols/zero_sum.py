"""Noise that nobody sees where nobody answered: the zero-sum protocols.

Balcer and Cheu, "Separating Local & Shuffled Differential Privacy via Histograms", ITC 2020,
arXiv:1911.06879. Everybody sends one copy of every answer, but withholds each with a small
probability γ, and one more copy of the true answer. Of an answer that s people gave the analyzer
gets s + n − B copies, B ~ Bin(n, γ). More than n of them prove that somebody gave the answer, and
the estimate is s − B + nγ; else it is exactly 0. So no answer that nobody gave is ever reported,
however many answers there are. Proofs are in docs/theory/zero-sum.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import (
    Divergence,
    NoiseProfile,
    one_bin_delta,
    one_bin_gamma,
    two_bin_delta,
    two_bin_gamma,
)
from shoal.accounting.noise.zero_sum import zero_sum_histogram_mean, zero_sum_mean
from shoal.errors import InvalidArgumentError, OutOfRegimeError
from shoal.protocols import shares
from shoal.protocols.base import AnswerProtocol, NumberedEnvelopes
from shoal.protocols.zero_rule import (
    Whole,
    Withheld,
    YesNoEstimate,
    ZeroRuleEstimate,
    simulation_table,
)
from shoal.randomizers.base import Integers, source
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Envelopes, category_codes

MOST_MESSAGES = 1 << 25


@dataclass(frozen=True, kw_only=True)
class ZeroSum(NumberedEnvelopes, AnswerProtocol):
    """What the two protocols share: ``gamma`` is the chance to withhold a copy."""

    gamma: float

    def __post_init__(self) -> None:
        checks.positive(gamma=self.gamma)
        if self.gamma > 0.5:
            raise InvalidArgumentError("gamma", self.gamma, "0 < gamma <= 1/2")
        object.__setattr__(self, "gamma", shares.rounded_up(self.gamma))

    @property
    def integers(self) -> Integers:
        """The chance to withhold a copy, of 2^52."""
        return {"gamma": shares.numerator(self.gamma), "bits": shares.BITS}

    @property
    def slots(self) -> int:
        """A copy of everything and one of the truth."""
        return self.outputs + 1

    @property
    def messages(self) -> float:
        """Expected number of messages of one person, at most."""
        return 1 + self.outputs * (1 - self.gamma)

    @property
    def influence(self) -> float:
        """All slots filled with one answer, where the estimate expects 1 − γ copies.

        On an estimate above 0: in crossing the zero rule it moves by another nγ, as it does for
        an honest person.
        """
        return self.slots - (1 - self.gamma)

    def _simulated(self, true: Whole, n: int, randomness: Randomness | None) -> Counts:
        """What n people's messages add up to, given how many gave each answer."""
        if not n:
            raise InvalidArgumentError("values", n, "at least one value")
        first, table = simulation_table(n, self.gamma)
        withheld = first + table.draw(true.size, source(randomness))
        return Counts(true + n - withheld, n)

    def _by_the_rule(self, counts: Counts) -> tuple[Whole, Array, Array]:
        """Copies more than people, the estimated counts and their errors."""
        noise = Withheld.of(counts.n, self.gamma)
        excess = counts.cells - counts.n
        without_rule = excess + noise.mean
        found = np.where(excess > 0, without_rule, 0.0)
        errors = np.where(excess > 0, noise.deviation, np.hypot(noise.deviation, without_rule))
        return excess, found, errors


@dataclass(frozen=True, kw_only=True)
class ZeroSumCount(ZeroSum):
    """How many answer 1 rather than 0: send x + z copies of one message, z ~ Bernoulli(1 − γ).

    Citations: Balcer and Cheu, arXiv:1911.06879, the protocol for binary sums; calibrated here on
    the exact divergence (``published`` has the paper's constant).
    Runtime: one coin per person.
    Utility: exact if nobody answers 1; else off by B ~ Bin(n, γ) less its mean, and a count that
    does not exceed B is reported as 0 (see :class:`ZeroRuleEstimate`).

    >>> protocol = ZeroSumCount.calibrated(n=100_000, epsilon=1.0, delta=1e-6)
    >>> round(100_000 * protocol.gamma, 1)
    34.1
    >>> protocol.estimate(protocol.tally(protocol.randomize([0] * 100_000))).frequencies.tolist()
    [1.0, 0.0]
    """

    name: ClassVar[str] = "zero-sum-count"

    k: int = field(default=2, init=False)

    @property
    def influence(self) -> float:
        """Sending nothing, where 1 − γ messages are expected: one answer 0 and then some."""
        return 2 - self.gamma

    @classmethod
    def calibrated(cls, *, n: int, epsilon: float, delta: float) -> Self:
        """The least noise that keeps (epsilon, delta) among n honest people."""
        gamma = one_bin_gamma(n=n, epsilon=epsilon, delta=delta)
        return cls(gamma=gamma).kept(n=n, epsilon=epsilon, delta=delta)

    @classmethod
    def published(cls, *, n: int, epsilon: float, delta: float) -> Self:
        """The paper's γ = (50/(ε²n)) log(2/δ), for ε <= 1 and n >= (100/ε²) log(2/δ)."""
        mean = zero_sum_mean(epsilon=epsilon, delta=delta)
        return cls(gamma=_published_share(mean, n=n, epsilon=epsilon, delta=delta))

    @staticmethod
    def published_accuracy(*, n: int, epsilon: float, delta: float, beta: float) -> float:
        """α = (50/(ε²n)) log(2/δ) + (40/(3εn)) √(log(2/δ) log(1/β)), for β >= δ^25.

        What ``published`` keeps with probability 1 − beta, in the paper's form and with a constant
        derived here; never below ``accuracy``.
        """
        mean = zero_sum_mean(epsilon=epsilon, delta=delta)
        _published_share(mean, n=n, epsilon=epsilon, delta=delta)
        return _published_error(mean, n=n, beta=beta, least=delta**25)

    @property
    def outputs(self) -> int:
        """There is one message, and only how often it was sent matters."""
        return 1

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """One message or none for the noise, one more for the answer 1."""
        truths = category_codes(values, self.k)
        withheld = shares.coins(self.gamma, truths.size, source(randomness))
        sizes = truths + ~withheld
        return Envelopes(np.zeros(int(sizes.sum()), dtype=np.int64), sizes)

    def simulate_counts(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Counts:
        """Counts with the law of everybody's messages added up, at one draw for all: simulation."""
        truths = category_codes(values, self.k)
        return self._simulated(truths.sum(keepdims=True), truths.size, randomness)

    def profile(self, n: int) -> NoiseProfile:
        """The exact divergence: the sampler is what was analysed."""
        return NoiseProfile(
            divergence=Divergence.of(one_bin_delta, n=n, gamma=self.gamma),
            n=n,
            theorem="zero-sum count, exact divergence",
            scope="everybody sends its bit and one more with a fixed chance, each by itself",
        )

    def accuracy(self, n: int, beta: float) -> float:
        """Return the α that the error of the share keeps with probability 1 − beta, for all data.

        The quantile of Bin(n, γ) over n (or γ, if that is more), attained by the data where one
        person more than that answers 1.
        """
        checks.open_probability(beta=beta)
        noise = Withheld.of(checks.count(n=n), self.gamma)
        return max(noise.largest(beta), noise.mean) / n

    def estimate(self, batch: Batch | Counts) -> YesNoEstimate:
        """The copies less those expected if they are more than people, else exactly 0."""
        counts = self.counted(batch)
        n = counts.n
        excess, found, errors = self._by_the_rule(counts)
        shown = np.append(n - found, found) / n
        return YesNoEstimate(
            shown, np.repeat(errors, 2) / n, n, step=1 / n, excess=excess, gamma=self.gamma
        )

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Mean squared error of both shares, given the true ones: the rule's bias included."""
        true = np.asarray(frequencies, dtype=np.float64)
        if true.shape != (2,):
            raise InvalidArgumentError("frequencies", true.shape, "the shares of 0 and of 1")
        return np.repeat(_squared_error(true[1:], n, self.gamma), 2)


@dataclass(frozen=True, kw_only=True)
class ZeroSumHistogram(ZeroSum):
    """A zero-sum count of each of k answers, on messages that name the answer.

    Citations: Balcer and Cheu, arXiv:1911.06879, the protocol for histograms; calibrated here on
    the exact divergence of the two answers that one person's change touches.
    Runtime: k coins and about k messages per person. ``SparseHistogram`` sends the mirror image of
    the same noise in far fewer messages.
    Utility: an answer that nobody gave is reported as 0, always, so the largest error does not
    depend on k; rare answers are reported as 0 too (see :class:`ZeroRuleEstimate`).

    >>> protocol = ZeroSumHistogram.calibrated(k=100, n=100_000, epsilon=1.0, delta=1e-6)
    >>> round(100_000 * protocol.gamma, 1), round(protocol.messages)
    (42.7, 101)
    """

    name: ClassVar[str] = "zero-sum"

    k: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checks.count(2, k=self.k))
        super().__post_init__()

    @classmethod
    def calibrated(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The least noise that keeps (epsilon, delta) among n honest people."""
        gamma = two_bin_gamma(n=n, epsilon=epsilon, delta=delta)
        return cls(k=k, gamma=gamma).kept(n=n, epsilon=epsilon, delta=delta)

    @classmethod
    def published(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The paper's noise: that of the count at (ε/2, δ/2), for every answer."""
        mean = zero_sum_histogram_mean(epsilon=epsilon, delta=delta)
        return cls(k=k, gamma=_published_share(mean, n=n, epsilon=epsilon, delta=delta))

    @staticmethod
    def published_accuracy(*, n: int, epsilon: float, delta: float, beta: float) -> float:
        """The count's α at (ε/2, δ/2) and β/n, for the largest error of all answers."""
        mean = zero_sum_histogram_mean(epsilon=epsilon, delta=delta)
        _published_share(mean, n=n, epsilon=epsilon, delta=delta)
        checks.open_probability(beta=beta)
        return _published_error(mean, n=n, beta=beta / n, least=(delta / 2) ** 25)

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.k

    def randomize(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Envelopes:
        """Everybody's copies in the order of the answers: the shuffler has to mix them."""
        truths = category_codes(values, self.k)
        copies = self._copies(truths, source(randomness))
        everything = np.tile(np.arange(self.k), truths.size)
        sizes = copies.reshape(truths.size, self.k).sum(axis=1, dtype=np.int64)
        return Envelopes(np.repeat(everything, copies), sizes)

    def _copies(self, truths: Whole, bits: Randomness) -> npt.NDArray[np.int8]:
        size = truths.size * self.k
        if size > MOST_MESSAGES:
            expected = (
                f"at most {MOST_MESSAGES // self.k} people at once for k={self.k} (about k messages"
                " each; SparseHistogram sends far fewer, simulate_counts makes none)"
            )
            raise InvalidArgumentError("values", truths.size, expected)
        copies = np.ones(size, dtype=np.int8)
        copies[shares.hits(self.gamma, size, bits)] = 0
        copies[np.arange(truths.size) * self.k + truths] += 1
        return copies

    def simulate_counts(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Counts:
        """Counts with the law of everybody's messages added up, at k draws: for simulations."""
        truths = category_codes(values, self.k)
        return self._simulated(np.bincount(truths, minlength=self.k), truths.size, randomness)

    def profile(self, n: int) -> NoiseProfile:
        """The exact divergence: the sampler is what was analysed."""
        return NoiseProfile(
            divergence=Divergence.of(two_bin_delta, n=n, gamma=self.gamma),
            n=n,
            theorem="zero-sum histogram, exact divergence",
            scope="everybody sends the truth among independent copies, each message by itself",
        )

    def accuracy(self, n: int, beta: float) -> float:
        """Return the α that all errors together keep with probability 1 − beta, for all data.

        It does not depend on k: answers that nobody gave have no error, and at most n/(nα+1)
        answers are frequent enough to have a larger one.
        """
        checks.open_probability(beta=beta)
        noise = Withheld.of(checks.count(n=n), self.gamma)
        return max(noise.largest_of_all(beta), noise.mean) / n

    def estimate(self, batch: Batch | Counts) -> ZeroRuleEstimate:
        """Copies less those expected where they are more than people, elsewhere exactly 0."""
        counts = self.counted(batch)
        n = counts.n
        excess, found, errors = self._by_the_rule(counts)
        return ZeroRuleEstimate(
            found / n, errors / n, n, step=1 / n, empty_error=0.0, excess=excess, gamma=self.gamma
        )

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """Mean squared error of each share, given the true ones: the rule's bias included."""
        return _squared_error(np.asarray(frequencies, dtype=np.float64), n, self.gamma)


def _squared_error(frequencies: Array, n: int, gamma: float) -> Array:
    counts = np.round(frequencies * n, 6)  # n · (s/n) is not always s
    return Withheld.of(n, gamma).squared_error(counts) / n**2


def _published_share(mean: float, *, n: int, epsilon: float, delta: float) -> float:
    people, needed = checks.count(n=n), math.ceil(2 * mean)
    if people < needed:
        given = {"n": people, "epsilon": float(epsilon), "delta": float(delta)}
        raise OutOfRegimeError("the published noise", f"n >= {needed}", given, "calibrated")
    return mean / people


def _published_error(mean: float, *, n: int, beta: float, least: float) -> float:
    """(nγ + (4√2/3) √(nγ log(1/β)))/n, by Bernstein's inequality for log(1/β) <= nγ/2."""
    checks.open_probability(beta=beta)
    if beta < least:
        given = {"beta": float(beta)}
        raise OutOfRegimeError("the published error", f"beta >= {least:.3g}", given, "accuracy")
    return (mean + 4 * math.sqrt(2) / 3 * math.sqrt(mean * math.log(1 / beta))) / n

"""Noise that nobody sees where nobody answered: the zero-sum protocols.

Balcer and Cheu, "Separating Local & Shuffled Differential Privacy via Histograms", ITC 2020,
arXiv:1911.06879. Everybody sends one copy of every answer, but withholds each with a small
probability γ, and one more copy of the true answer. Of an answer that s people gave the analyzer
gets s + n − B copies, B ~ Bin(n, γ). More than n of them prove that somebody gave the answer, and
the estimate is s − B + nγ; else it is exactly 0. So no answer that nobody gave is ever reported,
however many answers there are. The sparse histogram is the mirror image: it sends the copies that
these withhold. Everything that can be said about the error is a statement about B.
Proofs are in docs/theory/zero-sum.md.
"""

from __future__ import annotations

import decimal
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise.profile import Divergence, NoiseProfile
from shoal.accounting.noise.zero_sum import (
    one_bin_delta,
    one_bin_gamma,
    two_bin_delta,
    two_bin_gamma,
    zero_sum_histogram_mean,
    zero_sum_mean,
)
from shoal.errors import OutOfRegimeError
from shoal.intervals.estimates import Estimate, KnownErrors, ZeroRuleEstimate
from shoal.intervals.laws import Binomials, Draws, Withheld
from shoal.mechanisms import shares
from shoal.mechanisms import words as texts
from shoal.mechanisms.base import ByProfile, Candidate, Integers, Mechanism, Parts, Wanted, margins
from shoal.mechanisms.codec import Numbered, Whole, ragged
from shoal.mechanisms.estimators import DataFree
from shoal.questions.domains import Cells
from shoal.randomness import Randomness, source
from shoal.values import Array, Counts, Envelopes, category_codes

MOST_MESSAGES = 1 << 25
MOST_COPIES = 100_000.0
MOST_COINS = 1_000_000  # answers: beyond, a coin for each of them takes too long to plan
LARGEST_LIST = 10_000  # answers: beyond, a message for each is too many to plan
_TOTAL_BITS = 62  # the weights of a CountTable add up to 2^62
_DIGITS = 60


@lru_cache(maxsize=16)
def simulation_table(n: int, gamma: float) -> tuple[int, shares.CountTable]:
    """The first likely count, and a table of how many more than that are withheld.

    Good to 1e-10: for simulations, where no privacy hangs on it.
    """
    window = Withheld.of(n, gamma).window
    return int(window.counts[0]), shares.CountTable.of(window.pmf, omitted=window.omitted)


class ZeroSum(Mechanism[Estimate]):
    """What the two protocols share: ``gamma`` is the probability to withhold a copy.

    ``copies`` is of how many answers there are copies.
    """

    several = True
    gamma: float
    k: int

    @property
    @abstractmethod
    def copies(self) -> int: ...

    @abstractmethod
    def _profile(self, n: int) -> NoiseProfile: ...

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """Messages are numbers of answers."""
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(self._profile),
            codec=Numbered(self.copies, spare=True),
            estimator=BeyondPeople(self.k, self.gamma, self.copies),
            sizes=_drawn(self.gamma),
            # A copy of everything, unless it is withheld, and one of the truth.
            messages=1 + self.copies * (1 - self.gamma),
            slots=self.copies + 1,
            # All slots filled with one answer, where the estimate expects 1 − γ copies; or nothing
            # sent: one answer 0 of two, and then some. On an estimate above 0: in crossing the zero
            # rule it moves by another nγ, as it does for an honest person.
            influence=max(self.copies + self.gamma, 2 - self.gamma),
        )

    def simulate_counts(
        self, values: npt.ArrayLike, *, randomness: Randomness | None = None
    ) -> Counts:
        """Counts with the law of everybody's messages added up, at one draw an answer."""
        truths = category_codes(values, self.k)
        checks.refuse(not truths.size, "at least one value", values=0)
        # A count has one cell only, that of the answer 1.
        counts = np.bincount(truths, minlength=self.k)[-self.copies :]
        first, table = simulation_table(truths.size, self.gamma)
        withheld = first + table.draw(counts.size, source(randomness))
        return Counts(counts + truths.size - withheld, truths.size)

    def accuracy(self, n: int, beta: float) -> float:
        """Return the α that all errors together keep with probability 1 − beta, for all data.

        The quantile of Bin(n, γ) over n (or γ, if that is more), attained by the data where one
        person more than that gives the answer. It does not depend on k: answers that nobody gave
        have no error, and at most n/(nα+1) answers are frequent enough to have a larger one.
        """
        checks.open_probability(beta=beta)
        noise = Withheld.of(checks.count(n=n), self.gamma)
        largest = noise.largest(beta) if self.copies == 1 else noise.largest_of_all(beta)
        return max(largest, noise.mean) / n


@dataclass(frozen=True)
class LessCopies(DataFree):
    """Counts of k answers less the copies expected; an answer's are independent of the others'."""

    k: int
    gamma: float

    def estimate(self, counts: Counts) -> Estimate:
        """Counts less the copies expected."""
        copies = Binomials(((counts.n, self.gamma),))
        return KnownErrors.counted(counts.cells, copies, n=counts.n)

    def total_spread(self, own: Array, total: Array, squares: Array) -> Array:  # noqa: ARG002
        """Of the copies that one person adds."""
        return self.gamma * (1 - self.gamma) * squares + 0 * own

    def sum_error(self, weights: Array, n: int) -> Draws:
        """Of each answer a binomial number of n draws."""
        sizes, numbers = np.unique(weights[weights != 0], return_counts=True)
        each = zip(sizes.tolist(), numbers.tolist(), strict=True)
        return Draws(tuple((n * number, ((size, self.gamma),)) for size, number in each))


@dataclass(frozen=True)
class BeyondPeople(LessCopies):
    """From the copies of so many answers that are more than people; elsewhere exactly 0."""

    copies: int

    @property
    def one_error(self) -> bool:  # type: ignore[override]  # of the parameters
        """Of two answers of which one is counted."""
        return self.copies == 1

    def estimate(self, counts: Counts) -> ZeroRuleEstimate:
        """Copies less those expected where they are more than people, elsewhere exactly 0."""
        n, withheld = counts.n, Withheld.of(counts.n, self.gamma)
        excess, deviation = counts.cells - n, math.sqrt(withheld.variance)
        without_rule = excess + withheld.mean
        shown = np.where(excess > 0, without_rule, 0.0)
        errors = np.where(excess > 0, deviation, np.hypot(deviation, without_rule))
        empty: float | None = 0.0
        if excess.size == 1:  # those who answer 1, and the rest
            shown, errors, empty = np.append(n - shown, shown), np.repeat(errors, 2), None
        return ZeroRuleEstimate(
            shown / n,
            errors / n,
            n,
            step=1 / n,
            empty_error=empty,
            excess=excess,
            gamma=self.gamma,
            withheld=withheld,
        )

    def balanced(self, weights: Array) -> tuple[Array, Array]:
        """If one answer of two is counted, the other one has the rest."""
        if not self.one_error:
            return super().balanced(weights)
        return weights[:, 0], (weights - weights[:, :1]) * [0.0, 1.0]

    def sum_error(self, weights: Array, n: int) -> Draws:
        """Of the copies withheld, without the rule that biases small fractions."""
        return super().sum_error(-weights, n)

    def variance(self, frequencies: npt.ArrayLike | None = None, *, n: int) -> Array:
        """Mean squared error of each fraction, given the true ones: the rule's bias included."""
        true = np.asarray([] if frequencies is None else frequencies, dtype=np.float64)
        if self.copies == 1:
            checks.refuse(true.shape != (2,), "the fractions of 0 and of 1", frequencies=true.shape)
            true = true[1:]
        counts = np.round(true * n, 6)  # n · (s/n) is not always s
        errors = Withheld.of(n, self.gamma).squared_error(counts) / n**2
        return np.repeat(errors, 2) if self.copies == 1 else errors


def _drawn(gamma: float) -> Integers:
    """The probability of a copy, of 2^52."""
    return {"gamma": shares.numerator(gamma), "bits": shares.BITS}


def _checked_gamma(gamma: float) -> float:
    """A probability as it is drawn, not less."""
    checks.positive(gamma=gamma)
    checks.refuse(gamma > 0.5, "0 < gamma <= 1/2", gamma=gamma)
    return shares.rounded_up(gamma)


@dataclass(frozen=True, kw_only=True)
class ZeroSumCount(ZeroSum):
    """How many answer 1 rather than 0: send x + z copies of one message, z ~ Bernoulli(1 − γ).

    Runtime: one coin per person.

    Utility: exact if nobody answers 1; else off by B ~ Bin(n, γ) less its mean, and a count
    that does not exceed B is reported as 0 (see :class:`ZeroRuleEstimate`).

    Args:
        gamma: Probability in (0, 1/2] to withhold a copy.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Balcer and Cheu, arXiv:1911.06879, the protocol for binary sums; calibrated here on the
        exact divergence (``published`` has the paper's constant); :doc:`/theory/zero-sum`.

    Example:
        >>> protocol = ZeroSumCount.calibrated(n=100_000, epsilon=1.0, delta=1e-6)
        >>> round(100_000 * protocol.gamma, 1)
        34.1
        >>> protocol.estimate(
        ...     protocol.tally(protocol.randomize([0] * 100_000))
        ... ).frequencies.tolist()
        [1.0, 0.0]
    """

    name: ClassVar[str] = "zero-sum-count"
    words = texts.MARKS
    copies = 1  # only how often the one message was sent matters

    gamma: float
    k: int = field(default=2, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", _checked_gamma(self.gamma))

    @classmethod
    def calibrated(cls, *, n: int, epsilon: float, delta: float) -> Self:
        """The least noise that keeps (epsilon, delta) among n honest people."""
        gamma = one_bin_gamma(n=n, epsilon=epsilon, delta=delta)
        return cls(gamma=gamma).kept(n=n, epsilon=epsilon, delta=delta)

    @classmethod
    def published(cls, *, n: int, epsilon: float, delta: float) -> Self:
        """The paper's γ = (50/(ε²n)) log(2/δ), for ε <= 1 and n >= (100/ε²) log(2/δ)."""
        return cls(gamma=_published_mean(zero_sum_mean, n, epsilon, delta) / n)

    @staticmethod
    def published_accuracy(*, n: int, epsilon: float, delta: float, beta: float) -> float:
        """α = (50/(ε²n)) log(2/δ) + (40/(3εn)) √(log(2/δ) log(1/β)), for β >= δ^25.

        What ``published`` keeps with probability 1 − beta, in the paper's form and with a constant
        derived here; never below ``accuracy``.
        """
        mean = _published_mean(zero_sum_mean, n, epsilon, delta)
        return _published_error(mean, n=n, beta=beta, least=delta**25)

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """One message for an answer 1, and one more unless it is withheld."""
        sizes = data + ~shares.coins(self.gamma, data.size, bits)
        return Envelopes(np.zeros(int(sizes.sum()), dtype=np.int64), sizes)

    def _profile(self, n: int) -> NoiseProfile:
        return NoiseProfile(
            divergence=Divergence.of(one_bin_delta, n=n, gamma=self.gamma),
            n=checks.count(n=n),
            theorem="zero-sum count, exact divergence",
            scope="everybody sends its bit and one more with a fixed probability, each by itself",
        )


@dataclass(frozen=True, kw_only=True)
class ZeroSumHistogram(ZeroSum):
    """A zero-sum count of each of k answers, on messages that name the answer.

    Runtime: k coins and about k messages per person. ``SparseHistogram`` sends the mirror
    image of the same noise in far fewer messages.

    Utility: an answer that nobody gave is reported as 0, always, so the largest error does
    not depend on k; rare answers are reported as 0 too (see :class:`ZeroRuleEstimate`).

    Args:
        gamma: Probability in (0, 1/2] to withhold a copy of an answer.
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        Balcer and Cheu, arXiv:1911.06879, the protocol for histograms; calibrated here on the
        exact divergence of the two answers that one person's change touches;
        :doc:`/theory/zero-sum`.

    Example:
        >>> protocol = ZeroSumHistogram.calibrated(k=100, n=100_000, epsilon=1.0, delta=1e-6)
        >>> round(100_000 * protocol.gamma, 1), round(protocol.messages)
        (42.7, 101)
    """

    name: ClassVar[str] = "zero-sum"
    words = texts.ALL_COPIES
    truthful = True

    gamma: float
    k: int

    def __post_init__(self) -> None:
        checks.counts(self, k=2)
        object.__setattr__(self, "gamma", _checked_gamma(self.gamma))

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """Everybody sends about a message per answer: only where that is allowed."""
        k = wanted.domain.arguments["k"]
        most = LARGEST_LIST if math.isinf(wanted.messages) else wanted.messages
        return super().candidates(wanted) if k <= min(most, MOST_COINS) else []

    @property
    def copies(self) -> int:
        """One for each answer."""
        return self.k

    @classmethod
    def calibrated(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The least noise that keeps (epsilon, delta) among n honest people."""
        gamma = two_bin_gamma(n=n, epsilon=epsilon, delta=delta)
        return cls(k=k, gamma=gamma).kept(n=n, epsilon=epsilon, delta=delta)

    @classmethod
    def published(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The paper's noise: that of the count at (ε/2, δ/2), for every answer."""
        return cls(k=k, gamma=_published_mean(zero_sum_histogram_mean, n, epsilon, delta) / n)

    @staticmethod
    def published_accuracy(*, n: int, epsilon: float, delta: float, beta: float) -> float:
        """The count's α at (ε/2, δ/2) and β/n, for the largest error of all answers."""
        mean = _published_mean(zero_sum_histogram_mean, n, epsilon, delta)
        checks.open_probability(beta=beta)
        return _published_error(mean, n=n, beta=beta / n, least=(delta / 2) ** 25)

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """A copy of every answer, some of them withheld, and one more of the true one."""
        size = data.size * self.k
        expected = (
            f"at most {MOST_MESSAGES // self.k} people at once for k={self.k} (about k messages"
            " each; SparseHistogram sends far fewer, simulate_counts makes none)"
        )
        checks.refuse(size > MOST_MESSAGES, expected, values=data.size)
        copies = (~shares.coins(self.gamma, size, bits)).astype(np.int8)
        copies[np.arange(data.size) * self.k + data] += 1
        everything = np.tile(np.arange(self.k), data.size)
        sizes = copies.reshape(data.size, self.k).sum(axis=1, dtype=np.int64)
        return Envelopes(np.repeat(everything, copies), sizes)

    def _profile(self, n: int) -> NoiseProfile:
        return NoiseProfile(
            divergence=Divergence.of(two_bin_delta, n=n, gamma=self.gamma),
            n=checks.count(n=n),
            theorem="zero-sum histogram, exact divergence",
            scope="everybody sends the truth among independent copies, each message by itself",
        )


def _published_mean(noise: Callable[..., float], n: int, epsilon: float, delta: float) -> float:
    """nγ of the paper's noise, where it covers so few people."""
    mean = noise(epsilon=epsilon, delta=delta)
    people, needed = checks.count(n=n), math.ceil(2 * mean)
    if people < needed:
        question = {"n": people, "epsilon": float(epsilon), "delta": float(delta)}
        raise OutOfRegimeError("the published noise", f"n >= {needed}", question, "calibrated")
    return mean


def _published_error(mean: float, *, n: int, beta: float, least: float) -> float:
    """(nγ + (4√2/3) √(nγ log(1/β)))/n, by Bernstein's inequality for log(1/β) <= nγ/2."""
    checks.open_probability(beta=beta)
    if beta < least:
        question = {"beta": float(beta)}
        raise OutOfRegimeError("the published error", f"beta >= {least:.3g}", question, "accuracy")
    return (mean + 4 * math.sqrt(2) / 3 * math.sqrt(mean * math.log(1 / beta))) / n


@dataclass(frozen=True, kw_only=True)
class SparseHistogram(Mechanism[Estimate]):
    """Send the answer, and of each of the k answers one more copy with probability γ.

    The noise of every answer is an independent Bin(n, γ). The zero-sum histogram shows n minus
    such a number: its mirror image, of the same divergence and variance, in k messages per person
    where these are 1 + kγ.

    Runtime: one draw per person for the number of copies and one per copy; O(messages + k)
    to estimate.

    Utility: every count has variance nγ(1−γ), however many people gave the answer.

    Args:
        k: Number of answers, at least 2; an answer is a number 0, ..., k − 1.
        gamma: Probability in (0, 1/2] of a copy of each answer.
        most: The most copies that one person sends; None for as many as a draw of 62 bits has.

    Raises:
        InvalidArgumentError: A parameter is out of its range.
        UnreachableTargetError: From ``calibrated``, if no amount of noise keeps the target.

    References:
        the noise of Balcer and Cheu, "Separating Local & Shuffled Differential Privacy via
        Histograms", ITC 2020, arXiv:1911.06879, turned over; calibrated on the exact
        divergence; :doc:`/theory/zero-sum`.

    Example:
        >>> protocol = SparseHistogram.calibrated(k=1000, n=100_000, epsilon=1.0, delta=1e-6)
        >>> round(protocol.messages, 3)
        1.427
    """

    name: ClassVar[str] = "sparse"
    words = texts.COPIES
    several = True
    truthful = True

    k: int
    gamma: float
    most: int | None = None  # copies that one person sends; None: as many as a draw of 62 bits has

    def __post_init__(self) -> None:
        checks.counts(self, k=2)
        gamma = _checked_gamma(self.gamma)
        expected = f"at most {MOST_COPIES:g} copies per person (more people need fewer each)"
        copies = self.k * self.gamma
        checks.refuse(copies > MOST_COPIES, expected, k·gamma=copies)
        object.__setattr__(self, "gamma", gamma)
        checks.counts(self, most=likely_copies(self.k, self.gamma))

    @classmethod
    def candidates(cls, wanted: Wanted) -> list[Candidate]:
        """Of so many answers that a coin for each is tossed in time."""
        many = wanted.domain.arguments["k"] > MOST_COINS
        return [] if many else super().candidates(wanted)

    @cached_property
    def parts(self) -> Parts[Estimate]:
        """Messages are numbers of answers."""
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(self._profile),
            codec=Numbered(self.k, spare=True),
            estimator=LessCopies(self.k, self.gamma),
            messages=1 + self.k * self.gamma,  # the truth and the copies
        )

    @classmethod
    def calibrated(cls, *, k: int, n: int, epsilon: float, delta: float) -> Self:
        """The fewest copies that keep (epsilon, delta) among n honest people."""
        cls(k=k, gamma=two_bin_gamma(n=n, epsilon=epsilon, delta=delta))  # errors name this delta
        for target in margins(delta):
            gamma = two_bin_gamma(n=n, epsilon=epsilon, delta=target)
            made = cls(k=k, gamma=gamma)
            rare = (delta - target) / (2 * n * (1 + math.exp(epsilon)))
            made = replace(made, most=enough_copies(made.k, made.gamma, rare=rare))
            if made.profile(n).delta(epsilon) <= delta:
                return made
        return made.kept(n=n, epsilon=epsilon, delta=delta)

    @property
    def _table(self) -> shares.CountTable:
        return copies_table(self.k, self.gamma, self.most)

    @property
    def integers(self) -> Integers:
        """The probability of a copy, of 2^52, and what their number is drawn by."""
        return {**_drawn(self.gamma), "copies_steps": self._table.integers}

    @property
    def slots(self) -> int:
        """The truth and as many copies as anybody sends."""
        return 1 + self._table.largest

    @property
    def influence(self) -> float:
        """All slots filled with one answer, where the estimate expects γ copies."""
        return self.slots - self.gamma

    def draw(self, data: Whole, bits: Randomness) -> Envelopes:
        """The answer, and copies of others."""
        added = self._table.draw(data.size, bits)
        return ragged(data, distinct_answers(self.k, added, bits), added)

    def _profile(self, n: int) -> NoiseProfile:
        return NoiseProfile(
            divergence=Divergence.of(two_bin_delta, n=n, gamma=self.gamma),
            n=checks.count(n=n),
            theorem="sparse histogram, exact divergence",
            scope="everybody sends the truth and independent copies, each message by itself",
            # By how much the table of copies differs from a binomial law.
            slack=n * self._table.error,
        )

    def threshold(self, n: int, beta: float) -> int:
        """No answer that nobody gave gets more messages, with probability 1 − beta for all of them.

        The quantile of Bin(n, γ) at 1 − beta/k.
        """
        checks.open_probability(beta=beta)
        people = checks.count(n=n)
        allowed = beta - people * self._table.error
        expected = f"beta > {people * self._table.error:.2g}, as the sampler's rounding asks"
        checks.refuse(allowed <= 0, expected, beta=beta)
        return Withheld.of(people, self.gamma).largest(allowed / self.k)

    def significant(self, estimate: Estimate, beta: float = 0.05) -> Array:
        """The estimated fractions, with those that noise alone can explain set to zero.

        With probability 1 − beta no answer that nobody gave is left over. What is left is the
        unbiased estimate; an answer given by fewer people than :meth:`threshold` may be lost.
        """
        shape = estimate.frequencies.shape
        checks.refuse(shape != (self.k,), f"an estimate of {self.k} answers", estimate=shape)
        received = np.rint(estimate.counts + estimate.n * self.gamma)
        significant = received > self.threshold(estimate.n, beta)
        return np.where(significant, estimate.frequencies, 0.0)


def distinct_answers(k: int, added: Whole, bits: Randomness) -> Whole:
    """``added[i]`` different answers for person i, every set of them as likely as any other.

    Answers are drawn until a person has enough different ones. No answer is treated otherwise than
    another, so by symmetry the set is uniform.
    """
    owners = np.repeat(np.arange(added.size), added)
    drawn = bits.below(k, owners.size).astype(np.int64)
    open_ = np.flatnonzero(added[owners] > 1)
    while open_.size:
        keys = owners[open_] * k + drawn[open_]
        order = np.argsort(keys, kind="stable")
        again = order[1:][keys[order[1:]] == keys[order[:-1]]]
        drawn[open_[again]] = bits.below(k, again.size).astype(np.int64)
        # Only a person who drew again can still have the same answer twice.
        undecided = np.zeros(added.size, dtype=bool)
        undecided[owners[open_[again]]] = True
        open_ = open_[undecided[owners[open_]]]
    return drawn


def likely_copies(k: int, gamma: float) -> int:
    """One more than the likeliest number of copies, if there are that many."""
    return min(k, math.floor((k + 1) * gamma) + 1)


def enough_copies(k: int, gamma: float, *, rare: float) -> int:
    """A number of copies that is exceeded with a probability of at most ``rare``."""
    steps = copies_table(k, gamma, None).steps
    beyond = (steps[-1] - steps).astype(np.float64) / float(steps[-1])
    return max(int(np.argmax(beyond <= rare)), likely_copies(k, gamma))


@lru_cache(maxsize=32)
def copies_table(k: int, gamma: float, most: int | None) -> shares.CountTable:
    """Bin(k, γ) in whole weights of 2^62, from 60 digits; what is rounded off is known exactly.

    Counts above ``most`` or below the weight of 1 are never drawn; what they and every rounding
    leave over falls on the likeliest count.
    """
    with decimal.localcontext(decimal.Context(prec=_DIGITS)):
        probability, total = Decimal(gamma), Decimal(2) ** _TOTAL_BITS
        mode = min(int((k + 1) * probability), k)
        pmf = (1 - probability) ** k
        odds, weights, lost = probability / (1 - probability), [], Decimal(0)
        for count in range(1 + (k if most is None else min(k, most))):
            weight = int(pmf * total)
            if count > mode and not weight:
                break
            weights.append(weight)
            lost += pmf - weight / total if count != mode else 0
            pmf *= odds * (k - count) / (count + 1)
        # From here on each probability is at most this part of the one before.
        falling = odds * (k - len(weights)) / (len(weights) + 1)
        lost += pmf / (1 - falling)
        error = float(lost * (1 + Decimal(10) ** -12))
    weights[mode] += 2**_TOTAL_BITS - sum(weights)
    return shares.CountTable(np.cumsum(np.array(weights, dtype=np.uint64)), error)

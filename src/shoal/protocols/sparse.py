"""The truth, and now and then a copy of something else."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.noise import Divergence, two_bin_delta, two_bin_gamma
from shoal.errors import InvalidArgumentError
from shoal.protocols import shares
from shoal.protocols.base import MultiMessageAnswers, NumberedEnvelopes, Whole, margins, ragged
from shoal.protocols.estimates import NoisyCounts
from shoal.protocols.zero_sum import Withheld
from shoal.randomizers.base import Integers
from shoal.randomness import Randomness
from shoal.values import Array, Batch, Counts, Envelopes, Estimate, category_codes

MOST_COPIES = 100_000.0
_TOTAL_BITS = 62  # the weights of a CountTable add up to 2^62
_DIGITS = 60


@dataclass(frozen=True, kw_only=True)
class SparseHistogram(NumberedEnvelopes, MultiMessageAnswers):
    """Send the answer, and of each of the k answers one more copy with probability γ.

    The noise of every answer is an independent Bin(n, γ). The zero-sum histogram shows n minus
    such a number: its mirror image, of the same divergence and variance, in k messages per person
    where these are 1 + kγ.

    Citations: the noise of Balcer and Cheu, "Separating Local & Shuffled Differential Privacy via
    Histograms", ITC 2020, arXiv:1911.06879, turned over; calibrated on the exact divergence.
    Runtime: one draw per person for the number of copies and one per copy; O(messages + k) to
    estimate.
    Utility: every count has variance nγ(1−γ), however many people gave the answer.

    >>> protocol = SparseHistogram.calibrated(k=1000, n=100_000, epsilon=1.0, delta=1e-6)
    >>> round(protocol.messages, 3)
    1.427
    """

    name: ClassVar[str] = "sparse"
    theorem = "sparse histogram, exact divergence"
    scope = "everybody sends the truth and independent copies, each message by itself"

    k: int
    gamma: float
    most: int | None = None  # copies that one person sends; None: as many as a draw of 62 bits has

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checks.count(2, k=self.k))
        checks.positive(gamma=self.gamma)
        if self.gamma > 0.5:
            raise InvalidArgumentError("gamma", self.gamma, "0 < gamma <= 1/2")
        if self.k * self.gamma > MOST_COPIES:
            expected = f"at most {MOST_COPIES:g} copies per person (more people need fewer each)"
            raise InvalidArgumentError("k·gamma", self.k * self.gamma, expected)
        object.__setattr__(self, "gamma", shares.rounded_up(self.gamma))
        if self.most is not None:
            least = likely_copies(self.k, self.gamma)
            object.__setattr__(self, "most", checks.count(least, most=self.most))

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
        gamma = shares.numerator(self.gamma)
        return {"gamma": gamma, "bits": shares.BITS, "copies_steps": self._table.integers}

    @property
    def outputs(self) -> int:
        """How many messages there are."""
        return self.k

    @property
    def messages(self) -> float:
        """The truth and the copies."""
        return 1 + self.k * self.gamma

    @property
    def slots(self) -> int:
        """The truth and as many copies as anybody sends."""
        return 1 + self._table.largest

    @property
    def influence(self) -> float:
        """All slots filled with one answer, where the estimate expects γ copies."""
        return self.slots - self.gamma

    def _envelopes(self, values: npt.ArrayLike, bits: Randomness) -> Envelopes:
        truths = category_codes(values, self.k)
        added = self._table.draw(truths.size, bits)
        return ragged(truths, distinct_answers(self.k, added, bits), added)

    def _divergence(self, n: int) -> Divergence:
        return Divergence.of(two_bin_delta, n=n, gamma=self.gamma)

    def _slack(self, n: int) -> float:
        """By how much the table of copies differs from a binomial law."""
        return n * self._table.error

    def estimate(self, batch: Batch | Counts) -> Estimate:
        """Counts less the copies expected."""
        counts = self.counted(batch)
        return NoisyCounts.of(counts.cells, ((counts.n, self.gamma),), n=counts.n)

    def variance(self, frequencies: npt.ArrayLike, *, n: int) -> Array:
        """The same for every answer, whatever its fraction."""
        return np.full(np.shape(frequencies), self.gamma * (1 - self.gamma) / n)

    def threshold(self, n: int, beta: float) -> int:
        """No answer that nobody gave gets more messages, with probability 1 − beta for all of them.

        The quantile of Bin(n, γ) at 1 − beta/k.
        """
        checks.open_probability(beta=beta)
        people = checks.count(n=n)
        allowed = beta - people * self._table.error
        if allowed <= 0:
            expected = f"beta > {people * self._table.error:.2g}, as the sampler's rounding asks"
            raise InvalidArgumentError("beta", beta, expected)
        return Withheld.of(people, self.gamma).largest(allowed / self.k)

    def significant(self, estimate: Estimate, beta: float = 0.05) -> Array:
        """The estimated shares, with those that noise alone can explain set to zero.

        With probability 1 − beta no answer that nobody gave is left over. What is left is the
        unbiased estimate; an answer given by fewer people than :meth:`threshold` may be lost.
        """
        if estimate.frequencies.shape != (self.k,):
            shape = estimate.frequencies.shape
            raise InvalidArgumentError("estimate", shape, f"an estimate of {self.k} answers")
        received = np.rint(estimate.counts + estimate.n * self.gamma)
        kept = received > self.threshold(estimate.n, beta)
        return np.where(kept, estimate.frequencies, 0.0)


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
        share, total = Decimal(gamma), Decimal(2) ** _TOTAL_BITS
        mode = min(int((k + 1) * share), k)
        chance = (1 - share) ** k
        odds, weights, lost = share / (1 - share), [], Decimal(0)
        for count in range(1 + (k if most is None else min(k, most))):
            weight = int(chance * total)
            if count > mode and not weight:
                break
            weights.append(weight)
            lost += chance - weight / total if count != mode else 0
            chance *= odds * (k - count) / (count + 1)
        # From here on each chance is at most this part of the one before.
        falling = odds * (k - len(weights)) / (len(weights) + 1)
        lost += chance / (1 - falling)
        error = float(lost * (1 + Decimal(10) ** -12))
    weights[mode] += 2**_TOTAL_BITS - sum(weights)
    return shares.CountTable(np.cumsum(np.array(weights, dtype=np.uint64)), error)

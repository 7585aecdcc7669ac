"""Smooth distributions: how the first multi-message protocols were proved private.

A law on the integers is (ε, δ, k)-smooth if for every shift 0 < |k'| <= k

    Pr_{Y}[ Pr[Y'=Y] / Pr[Y'=Y+k'] >= e^(|k'| ε) ] <= δ

(Ghazi, Golowich, Kumar, Pagh, Velingker, "On the Power of Multiple Anonymous Messages",
EUROCRYPT 2021, arXiv:1908.11358; the shift 0 is left out, since its ratio 1 always reaches e^0).
Noise that is (ε, δ, 1)-smooth makes a count (ε, δ)-DP, because the hockey-stick divergence counts
only the excess of the ratio over e^ε where smoothness counts the whole event. The exact divergence
beside it shows what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.accounting.noise.binomial_shift import one_bin_delta
from shoal.accounting.noise.windows import Array, BinomialWindow, checked_epsilon
from shoal.errors import InvalidArgumentError, OutOfRegimeError

_SUM_TOLERANCE = 1e-9
_ERROR = 1e-14


@dataclass(frozen=True)
class Smoothness:
    """A law is (epsilon, delta, k)-smooth."""

    epsilon: float
    delta: float
    k: int


@dataclass(frozen=True)
class BinomialComparison:
    """Three deltas of Bin(n, γ) at one epsilon: each is at most the one before it."""

    lemma: float
    smooth: float
    exact: float


def smoothness_delta(pmf: Sequence[float] | Array, *, epsilon: float, k: int = 1) -> float:
    """Return the smallest δ for which the law is (epsilon, δ, k)-smooth.

    ``pmf`` lists the probabilities of consecutive integers; all others have probability 0. A ratio
    that equals e^(|k'| ε) up to rounding counts as reaching it.

    >>> smoothness_delta([0.25, 0.5, 0.25], epsilon=1.0)
    0.25
    """
    law = np.asarray(pmf, dtype=np.float64)
    if law.ndim != 1 or not law.size or not np.isfinite(law).all() or (law < 0).any():
        raise InvalidArgumentError("pmf", pmf, "a list of probabilities")
    if abs(float(law.sum()) - 1) > _SUM_TOLERANCE:
        raise InvalidArgumentError("pmf", float(law.sum()), "probabilities that sum to 1")
    return _smoothness(law, checked_epsilon(epsilon), checks.count(k=k), _ERROR)


def binomial_smoothness_delta(*, n: int, gamma: float, epsilon: float, k: int = 1) -> float:
    """Return the smallest δ for which Bin(n, γ) is (epsilon, δ, k)-smooth, rounded up."""
    checks.open_probability(gamma=gamma)
    noise = BinomialWindow.of(n=checks.count(n=n), share=gamma)
    shift = checks.count(k=k)
    inside = _smoothness(noise.pmf, checked_epsilon(epsilon), shift, 4 * noise.error)
    return min(1.0, inside * (1 + noise.error) + noise.omitted)


def binomial_lemma(*, n: int, gamma: float, alpha: float, k: int = 1) -> Smoothness:
    """The published smoothness of Bin(n, γ) for k <= αγn/2, γ <= 1/2 and 0 < α < 1.

        ε = log((1+α)/(1−α)),    δ = exp(−α²γn/8) + exp(−α²γn/(8+2α)).

    Ghazi et al., arXiv:1908.11358. The factor n in the condition is sometimes lost in quotation;
    without it nothing would qualify.
    """
    people, shift = checks.count(n=n), checks.count(k=k)
    checks.open_probability(gamma=gamma, alpha=alpha)
    mean = gamma * people
    if gamma > 0.5 or shift > alpha * mean / 2:
        raise OutOfRegimeError(
            "smoothness of the binomial law",
            "gamma <= 1/2 and k <= alpha gamma n / 2",
            {"n": people, "gamma": gamma, "alpha": alpha, "k": shift},
            "binomial_smoothness_delta",
        )
    exponent = alpha * alpha * mean
    delta = math.exp(-exponent / 8) + math.exp(-exponent / (8 + 2 * alpha))
    return Smoothness(2 * math.atanh(alpha), min(1.0, delta), shift)


def alpha_of(epsilon: float) -> float:
    """α = (e^ε − 1)/(e^ε + 1) = tanh(ε/2), for which the lemma's epsilon is ε."""
    checks.positive(epsilon=epsilon)
    return math.tanh(epsilon / 2)


def alpha_divisor(epsilon: float) -> float:
    """Return the c for which α = ε/√c exactly.

    c grows with ε, from 4 (never reached) to 4.683 at ε = 1: so α >= ε/√5 for all ε <= 1, which is
    where the 50 = 10 · 5 of the published constant comes from, and α >= ε/√4 for no ε at all.

    >>> round(alpha_divisor(1.0), 3)
    4.683
    """
    return (epsilon / alpha_of(epsilon)) ** 2


def binomial_comparison(*, n: int, gamma: float, epsilon: float) -> BinomialComparison:
    """What the lemma, smoothness itself and the exact divergence say of Bin(n, γ) and shift 1."""
    return BinomialComparison(
        lemma=binomial_lemma(n=n, gamma=gamma, alpha=alpha_of(epsilon)).delta,
        smooth=binomial_smoothness_delta(n=n, gamma=gamma, epsilon=epsilon),
        exact=one_bin_delta(n=n, gamma=gamma, epsilon=epsilon),
    )


def _smoothness(law: Array, epsilon: float, k: int, error: float) -> float:
    return max(
        max(_reached(law, shift, epsilon, error), _reached(law[::-1], shift, epsilon, error))
        for shift in range(1, k + 1)
    )


def _reached(law: Array, shift: int, epsilon: float, error: float) -> float:
    """Pr[p(Y) >= e^(shift ε) p(Y + shift)], ties and near ties included."""
    kept = law[shift:]
    shifted = np.concatenate([kept, np.zeros(law.size - kept.size)])
    # The left side is made smaller, not the right side larger: it cannot overflow.
    reached = law * math.exp(-min(shift * epsilon, 700.0)) * (1 + error) >= shifted
    return float(law[reached].sum())

"""Counts hidden by binomial noise: the zero-sum protocol for bits and for histograms.

Each of n honest people sends its bit's ones plus one more with probability γ, so the shuffler
shows Σx + Z with Z ~ Bin(n, γ), whatever the data (Balcer and Cheu, "Separating Local & Shuffled
Differential Privacy via Histograms", ITC 2020, arXiv:1911.06879). The divergence between
neighbours is that of Z + 1 and Z, in both orders, and nothing is lost by computing it:

    D_x(Z+1 || Z) = Σ_z Pr[Z=z] (1 − x (n−z) γ / ((z+1) (1−γ)))_+,
    D_x(Z || Z+1) = Σ_z Pr[Z=z] (1 − x z (1−γ) / ((n−z+1) γ))_+,      x = e^ε.

Noise of probability 1 − γ, as in the paper, is the mirror image n − Z: the two orders change
places and the guarantee is the same.

In a histogram, replacing one person's value moves a count from one bin to another. When every bin
has its own independent Bin(n, γ), all other bins cancel and the divergence is that of (Z1 + 1, Z2)
and (Z1, Z2 + 1), whose likelihood ratio at (i, j) is i (n−j+1) / ((n−i+1) j). It is its own mirror
image, so one order is enough; and it is smaller than what two separate guarantees at (ε/2, δ/2)
would need.

**Smoothness** is how the first multi-message protocols were proved private. A law on the integers
is (ε, δ, k)-smooth if for every shift 0 < |k'| <= k

    Pr_{Y}[ Pr[Y'=Y] / Pr[Y'=Y+k'] >= e^(|k'| ε) ] <= δ

(Ghazi, Golowich, Kumar, Pagh, Velingker, "On the Power of Multiple Anonymous Messages",
EUROCRYPT 2021, arXiv:1908.11358; the shift 0 is left out, since its ratio 1 always reaches e^0).
Noise that is (ε, δ, 1)-smooth makes a count (ε, δ)-DP, because the hockey-stick divergence counts
only the excess of the ratio over e^ε where smoothness counts the whole event. The exact divergence
beside it shows what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.binomial import BinomialWindow
from shoal.accounting.noise.profile import checked_epsilon, least_mean, published_mean
from shoal.accounting.search import doubled, least
from shoal.errors import OutOfRegimeError, UnreachableTargetError

# Beyond this log-ratio there is certainly no gain, and its exponential still is a float.
_HOPELESS = 700.0
_SUM_TOLERANCE = 1e-9
_ERROR = 1e-14


def one_bin_delta(*, n: int, gamma: float, epsilon: float) -> float:
    """Upper bound, tight up to rounding, on the divergence of Bin(n, γ) + 1 and Bin(n, γ).

    >>> f"{one_bin_delta(n=10_000, gamma=0.00341, epsilon=1.0):.2e}"
    '9.88e-07'
    """
    noise = _noise(n, gamma)
    growth = checked_epsilon(epsilon)

    def divergence(log_ratios: Array) -> float:
        """Σ Pr[z] (1 − x e^log_ratio)_+, every rounding and the omitted mass counted as gain."""
        exponent = np.minimum(growth + log_ratios, _HOPELESS) - noise.error
        gains = noise.pmf * np.maximum(-np.expm1(exponent), 0.0)
        return float(gains.sum()) * (1 + 2 * noise.error) + noise.omitted

    return min(1.0, max(divergence(noise.log_up), divergence(noise.log_down)))


def one_bin_gamma(*, n: int, epsilon: float, delta: float) -> float:
    """Return the smallest γ <= 1/2 whose exact divergence keeps (epsilon, delta).

    >>> round(10_000 * one_bin_gamma(n=10_000, epsilon=1.0, delta=1e-6), 1)
    34.1
    """
    return _least_gamma(one_bin_delta, n=n, epsilon=epsilon, delta=delta)


def two_bin_delta(*, n: int, gamma: float, epsilon: float) -> float:
    """Upper bound, tight up to rounding, on the divergence of (Z1 + 1, Z2) and (Z1, Z2 + 1).

    For each z1 the pairs that gain are those with z2 below a threshold, so that with F the
    distribution function of Z and u(z) = Pr[Z=z+1] / Pr[Z=z]

        D_x = Σ_{z1} Pr[Z=z1] max_t (F(t) − x u(z1) F(t−1)).

    >>> f"{two_bin_delta(n=10_000, gamma=0.00427, epsilon=1.0):.1e}"
    '1.0e-06'
    """
    noise = _noise(n, gamma)
    log_factor = checked_epsilon(epsilon) + noise.log_up
    # What lies below the window is left out of F(t-1): the subtrahend is never too large.
    below = np.concatenate([[0.0, 0.0], np.cumsum(noise.pmf)])
    threshold = np.searchsorted(noise.log_down, -log_factor)
    first = below[threshold + 1]
    second = np.exp(np.minimum(log_factor, _HOPELESS)) * below[threshold]
    gains = np.maximum(first - second + 4 * noise.error * (first + second), 0.0)
    total = float(noise.pmf @ gains) * (1 + 2 * noise.error)
    return min(1.0, total + 2 * noise.omitted)


def two_bin_gamma(*, n: int, epsilon: float, delta: float) -> float:
    """Return the smallest γ <= 1/2 per bin whose exact divergence keeps (epsilon, delta).

    >>> round(10_000 * two_bin_gamma(n=10_000, epsilon=1.0, delta=1e-6), 1)
    42.7
    """
    return _least_gamma(two_bin_delta, n=n, epsilon=epsilon, delta=delta)


def _noise(n: int, gamma: float) -> BinomialWindow:
    people = checks.count(n=n)
    checks.open_probability(gamma=gamma)
    return BinomialWindow.of(people, gamma)


def _least_gamma(delta_of: Callable[..., float], *, n: int, epsilon: float, delta: float) -> float:
    """The smallest γ <= 1/2 with ``delta_of(n=, gamma=, epsilon=) <= delta``, or an error."""
    people = checks.count(n=n)
    checks.target(epsilon=epsilon, delta=delta)
    mean = least_mean(
        lambda mean: delta_of(n=people, gamma=mean / people, epsilon=epsilon),
        delta=delta,
        largest=people / 2,
    )
    if math.isfinite(mean):
        return mean / people

    def enough(n: int) -> bool:
        return delta_of(n=n, gamma=0.5, epsilon=epsilon) <= delta

    advice = "ask for a larger epsilon or delta"
    bracket = doubled(enough, 1, checks.LARGEST_COUNT)
    if bracket is not None:
        needed = least(enough, *bracket)
        advice = f"it takes n >= {needed} honest people, or a larger epsilon or delta"
    raise UnreachableTargetError(
        f"epsilon={epsilon:g} at delta={delta:g}",
        f"n={people} honest people flipping fair coins add too little noise",
        advice,
    )


# ------------------------------------------------------------- what the papers prescribe: no answer


def zero_sum_mean(*, epsilon: float, delta: float) -> float:
    """nγ = (50/ε²) log(2/δ) for one bin; beside ``n · one_bin_gamma``.

    Balcer and Cheu, for ε <= 1 and n >= (100/ε²) log(2/δ).

    >>> round(zero_sum_mean(epsilon=1.0, delta=1e-6))
    725
    """
    return published_mean("zero_sum_mean", "one_bin_gamma", epsilon, delta, factor=50, numerator=2)


def zero_sum_histogram_mean(*, epsilon: float, delta: float) -> float:
    """nγ per bin of a histogram: the one-bin noise at (ε/2, δ/2); beside ``n · two_bin_gamma``.

    Same paper and conditions.
    """
    return published_mean(
        "zero_sum_histogram_mean", "two_bin_gamma", epsilon, delta, factor=200, numerator=4
    )


def fake_users_variance(*, epsilon: float, delta: float) -> float:
    """m f (1−f) = (33/5) ((e^ε+1)/(e^ε−1))² log(4/δ) of m vectors with flips f.

    Cheu and Zhilyaev, "Differentially Private Histograms in the Shuffle Model from Fake Users",
    S&P 2022, arXiv:2104.02739, not checked against the paper; beside ``n · two_bin_gamma``.
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    return 33 / 5 * math.log(4 / delta) / math.tanh(epsilon / 2) ** 2


# ------------------------------------------------------------------------------------- smoothness


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
    wrong = law.ndim != 1 or not law.size or not np.isfinite(law).all() or (law < 0).any()
    checks.refuse(wrong, "a list of probabilities", pmf=pmf)
    total = float(law.sum())
    checks.refuse(abs(total - 1) > _SUM_TOLERANCE, "probabilities that sum to 1", pmf=total)
    return _smoothness(law, epsilon, k, _ERROR)


def binomial_smoothness_delta(*, n: int, gamma: float, epsilon: float, k: int = 1) -> float:
    """Return the smallest δ for which Bin(n, γ) is (epsilon, δ, k)-smooth, rounded up."""
    noise = _noise(n, gamma)
    inside = _smoothness(noise.pmf, epsilon, k, 4 * noise.error)
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


def _smoothness(pmf: Array, epsilon: float, k: int, error: float) -> float:
    growth, shifts = checked_epsilon(epsilon), range(1, checks.count(k=k) + 1)
    return max(
        _reached(law, shift, shift * growth, error) for law in (pmf, pmf[::-1]) for shift in shifts
    )


def _reached(law: Array, shift: int, log_ratio: float, error: float) -> float:
    """Pr[p(Y) >= e^log_ratio p(Y + shift)], ties and near ties included."""
    shifted = np.concatenate([law[shift:], np.zeros(min(shift, law.size))])
    # The left side is made smaller, not the right side larger: it cannot overflow.
    reached = law * math.exp(-min(log_ratio, 700.0)) * (1 + error) >= shifted
    return float(law[reached].sum())

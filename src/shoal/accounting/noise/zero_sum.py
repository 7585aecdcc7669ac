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
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.binomial import BinomialWindow
from shoal.accounting.noise.profile import checked_epsilon, least_mean, published_mean
from shoal.accounting.search import doubled, least
from shoal.errors import UnreachableTargetError

# Beyond this log-ratio there is certainly no gain, and its exponential still is a float.
_HOPELESS = 700.0


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

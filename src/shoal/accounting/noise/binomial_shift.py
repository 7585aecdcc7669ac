"""One count hidden by binomial noise: the zero-sum protocol for bits.

Each of n honest people sends its bit's ones plus one more with probability γ, so the shuffler
shows Σx + Z with Z ~ Bin(n, γ), whatever the data (Balcer and Cheu, "Separating Local & Shuffled
Differential Privacy via Histograms", ITC 2020, arXiv:1911.06879). The divergence between
neighbours is that of Z + 1 and Z, in both orders, and nothing is lost by computing it:

    D_x(Z+1 || Z) = Σ_z Pr[Z=z] (1 − x (n−z) γ / ((z+1) (1−γ)))_+,
    D_x(Z || Z+1) = Σ_z Pr[Z=z] (1 − x z (1−γ) / ((n−z+1) γ))_+,      x = e^ε.

Noise of probability 1 − γ, as in the paper, is the mirror image n − Z: the two orders change
places and the guarantee is the same.
"""

from __future__ import annotations

import numpy as np

from shoal import checks
from shoal.accounting.noise.targets import least_share
from shoal.accounting.noise.windows import (
    HOPELESS,
    Array,
    BinomialWindow,
    checked_epsilon,
)


def one_bin_delta(*, n: int, gamma: float, epsilon: float) -> float:
    """Upper bound, tight up to rounding, on the divergence of Bin(n, γ) + 1 and Bin(n, γ).

    >>> f"{one_bin_delta(n=10_000, gamma=0.00341, epsilon=1.0):.2e}"
    '9.88e-07'
    """
    people = checks.count(n=n)
    checks.open_probability(gamma=gamma)
    noise = BinomialWindow.of(n=people, share=gamma)
    growth = checked_epsilon(epsilon)
    return min(1.0, max(_gain(noise, growth + ratio) for ratio in (noise.log_up, noise.log_down)))


def one_bin_gamma(*, n: int, epsilon: float, delta: float) -> float:
    """Return the smallest γ <= 1/2 whose exact divergence keeps (epsilon, delta).

    >>> round(10_000 * one_bin_gamma(n=10_000, epsilon=1.0, delta=1e-6), 1)
    34.1
    """
    return least_share(one_bin_delta, n=n, epsilon=epsilon, delta=delta)


def _gain(noise: BinomialWindow, log_ratio: Array) -> float:
    """Σ Pr[z] (1 − e^log_ratio)_+, every rounding and the omitted mass counted as gain."""
    exponent = np.minimum(log_ratio, HOPELESS) - noise.error
    gains = noise.pmf * np.maximum(-np.expm1(exponent), 0.0)
    return float(gains.sum()) * (1 + 2 * noise.error) + noise.omitted

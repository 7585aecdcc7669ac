"""Two bins of a histogram, each hidden by its own binomial noise.

Replacing one person's value moves a count from one bin to another. When every bin of the zero-sum
histogram (Balcer and Cheu, ITC 2020, arXiv:1911.06879) has its own independent Bin(n, γ), all
other bins cancel and the divergence is that of (Z1 + 1, Z2) and (Z1, Z2 + 1), whose likelihood
ratio at (i, j) is i (n−j+1) / ((n−i+1) j). It is its own mirror image, so one order is enough; and
it is smaller than what two separate guarantees at (ε/2, δ/2) would need.
"""

from __future__ import annotations

import numpy as np

from shoal import checks
from shoal.accounting.noise.targets import least_share
from shoal.accounting.noise.windows import HOPELESS, BinomialWindow, checked_epsilon


def two_bin_delta(*, n: int, gamma: float, epsilon: float) -> float:
    """Upper bound, tight up to rounding, on the divergence of (Z1 + 1, Z2) and (Z1, Z2 + 1).

    For each z1 the pairs that gain are those with z2 below a threshold, so that with F the
    distribution function of Z and u(z) = Pr[Z=z+1] / Pr[Z=z]

        D_x = Σ_{z1} Pr[Z=z1] max_t (F(t) − x u(z1) F(t−1)).

    >>> f"{two_bin_delta(n=10_000, gamma=0.00427, epsilon=1.0):.1e}"
    '1.0e-06'
    """
    people = checks.count(n=n)
    checks.open_probability(gamma=gamma)
    noise = BinomialWindow.of(n=people, share=gamma)
    log_factor = checked_epsilon(epsilon) + noise.log_up
    # What lies below the window is left out of F(t-1): the subtrahend is never too large.
    below = np.concatenate([[0.0, 0.0], np.cumsum(noise.pmf)])
    threshold = np.searchsorted(noise.log_down, -log_factor)
    kept = below[threshold + 1]
    lost = np.exp(np.minimum(log_factor, HOPELESS)) * below[threshold]
    gains = np.maximum(kept - lost + 4 * noise.error * (kept + lost), 0.0)
    total = float(noise.pmf @ gains) * (1 + 2 * noise.error)
    return min(1.0, total + 2 * noise.omitted)


def two_bin_gamma(*, n: int, epsilon: float, delta: float) -> float:
    """Return the smallest γ <= 1/2 per bin whose exact divergence keeps (epsilon, delta).

    >>> round(10_000 * two_bin_gamma(n=10_000, epsilon=1.0, delta=1e-6), 1)
    42.7
    """
    return least_share(two_bin_delta, n=n, epsilon=epsilon, delta=delta)

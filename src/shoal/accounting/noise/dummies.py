"""A true message hidden among uniform dummies.

Each of n honest people sends its value in [k] and ρ dummies on average, uniform in [k]: ⌊ρ⌋ of
them and one more with probability ρ − ⌊ρ⌋ (Luo, Wang, Yi, "Frequency Estimation in the Shuffle
Model with Almost a Single Message", CCS 2022, arXiv:2111.06833). Between two neighbours only the
two bins of the changed value matter: the number C of dummies in them has the law

    C = Bin(n ⌊ρ⌋, 2/k) + Bin(n, 2 (ρ − ⌊ρ⌋) / k)

in both, and given C = c they are split as A ~ Bin(c, 1/2). The likelihood ratio at bin counts
(a, b) is a/b, everything else (the other bins, the number of messages) has the same law given C in
both, so that exactly, for all data and in both orders,

    δ = E[ max_a Pr[A >= a | C] − x Pr[A >= a+1 | C] ].
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.accounting.exact import SPECIAL_ERROR
from shoal.accounting.noise.targets import least_mean
from shoal.accounting.noise.windows import (
    Array,
    BinomialWindow,
    checked_epsilon,
    checked_target,
)

_MOST_BLOCKS = 1000
_CHECKED = 1e8  # trials up to which SciPy's binomial law was checked; its error grows more slowly


def dummies_delta(*, n: int, k: int, rho: float, epsilon: float) -> float:
    """Upper bound on the divergence of n truthful messages among dummies.

    Tight up to rounding, or to about 1e-3 of itself when C has more than 1000 likely values.

    >>> f"{dummies_delta(n=10_000, k=100, rho=0.4265, epsilon=1.0):.1e}"
    '1.0e-06'
    """
    return either_delta(n=n, rho=rho, share=2 / checks.count(2, k=k), epsilon=epsilon)


def either_delta(*, n: int, rho: float, share: float, epsilon: float) -> float:
    """The same when a dummy falls into either of two equally likely bins with chance ``share``."""
    people = checks.count(n=n)
    checks.positive(rho=rho)
    whole = math.floor(rho)
    always = _hits(trials=people * whole, share=share)
    sometimes = _hits(trials=people, share=(rho - whole) * share)
    first = int(always.counts[0] + sometimes.counts[0])
    # More dummies never hurt, so counts may be rounded down to the first of their block.
    step = math.ceil((always.pmf.size + sometimes.pmf.size) / _MOST_BLOCKS)
    weights = np.convolve(_blocks(always.pmf, step), _blocks(sometimes.pmf, step))
    counts = first + step * np.arange(weights.size)
    error = 4 * (always.error + sometimes.error)
    total = float(weights @ _divergence(counts, checked_epsilon(epsilon))) * (1 + error)
    return min(1.0, total + always.omitted + sometimes.omitted)


def dummies_rho(*, n: int, k: int, epsilon: float, delta: float) -> float:
    """Return the smallest mean number of dummies per person that keeps (epsilon, delta).

    Any number of people reach any target: few people only have to send many dummies each.

    >>> round(10_000 * dummies_rho(n=10_000, k=100, epsilon=1.0, delta=1e-6) / 100, 2)
    42.63
    """
    people, bins = checks.count(n=n), checks.count(2, k=k)
    checked_target(epsilon=epsilon, delta=delta)

    def rho_of(mean: float) -> float:
        return bins * mean / people

    def reached(mean: float) -> float:
        return dummies_delta(n=people, k=bins, rho=rho_of(mean), epsilon=epsilon)

    return rho_of(least_mean(reached, delta=delta))


def _hits(*, trials: int, share: float) -> BinomialWindow:
    """Bin(trials, share), which may be one number for certain."""
    if trials and 0 < share < 1:
        return BinomialWindow.of(n=trials, share=share)
    certain = float(trials if share == 1 else 0)
    return BinomialWindow(trials, share, np.array([certain]), np.ones(1), 0.0, 0.0)


def _blocks(pmf: Array, step: int) -> Array:
    """The mass of every ``step`` consecutive counts."""
    return np.add.reduceat(pmf, np.arange(0, pmf.size, step))


def _divergence(counts: npt.NDArray[np.int64], epsilon: float) -> Array:
    """max_a Pr[A >= a] − x Pr[A >= a+1] for A ~ Bin(c, 1/2), at every c.

    The best a is the least with a + 1 > x (c − a).
    """
    x = math.exp(epsilon)
    edge = counts * scipy.special.expit(epsilon) - scipy.special.expit(-epsilon)
    least = np.clip(np.floor(edge) + 1, 0, counts)
    point = scipy.stats.binom.pmf(least, counts, 0.5)
    beyond = (x - 1) * scipy.stats.binom.sf(least, counts, 0.5)
    error = SPECIAL_ERROR * np.maximum(1.0, counts / _CHECKED)
    return np.clip(point - beyond + error * (point + beyond), 0.0, 1.0)

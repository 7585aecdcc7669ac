r"""A true message hidden among uniform dummies: an answer, or a hash function with a bucket.

Each of n honest people sends its value in [k] and ρ dummies on average, uniform in [k]: ⌊ρ⌋ of
them and one more with probability ρ − ⌊ρ⌋ (Luo, Wang, Yi, "Frequency Estimation in the Shuffle
Model with Almost a Single Message", CCS 2022, arXiv:2111.06833). Between two neighbours only the
two bins of the changed value matter: the number C of dummies in them has the law

    C = Bin(n ⌊ρ⌋, 2/k) + Bin(n, 2 (ρ − ⌊ρ⌋) / k)

in both, and given C = c they are split as A ~ Bin(c, 1/2). The likelihood ratio at bin counts
(a, b) is a/b, everything else (the other bins, the number of messages) has the same law given C in
both, so that exactly, for all data and in both orders,

    δ = E[ max_a Pr[A >= a | C] − x Pr[A >= a+1 | C] ].

**Hashed**, for large domains: each draws a hash function h into b buckets and sends (h, h(x)), and
dummies that are each a fresh function with a uniform bucket. Let S_x be the messages (h, j) with
h(x) = j. A dummy is uniform on all messages, a truth uniform on S_x, and S_x is 1/b of all. With c
the probability that h(x) = h(y), a dummy lies in both of S_x and S_y with probability c/b and in
either one alone with (1−c)/b. The functions are no public coin of anybody: any dummy in S_x \ S_y
could be the victim's truth.

Tell the analyzer the other people's truths, and whether the victim's x and y share their bucket. If
they do, which has probability c for both data, the two worlds are the same; if not, the truth adds
one to the messages in S_x \ S_y or in S_y \ S_x, where dummies are equally likely to fall. So

    δ <= (1−c) E[ max_a Pr[A >= a | C] − e^ε Pr[A >= a+1 | C] ],    A ~ Bin(C, 1/2),

where C counts dummies that hit either with probability 2 (1−c)/b each. The bound ignores
that messages in both sets support either datum: at (1, 1e-6) that costs a fraction 1.6/b of noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.binomial import BinomialWindow
from shoal.accounting.exact import SPECIAL_ERROR
from shoal.accounting.noise.profile import checked_epsilon, least_mean, published_mean

_MOST_BLOCKS = 1000
_CHECKED = 1e8  # trials up to which SciPy's binomial law was checked; its error grows more slowly
_ROUNDING = 1e-15


def dummies_delta(*, n: int, k: int, rho: float, epsilon: float) -> float:
    """Upper bound on the divergence of n truthful messages among dummies.

    Tight up to rounding, or to about 1e-3 of itself when C has more than 1000 likely values.

    >>> f"{dummies_delta(n=10_000, k=100, rho=0.4265, epsilon=1.0):.1e}"
    '1.0e-06'
    """
    return _two_bins(n, rho, 2 / checks.count(2, k=k), epsilon)


def dummies_rho(*, n: int, k: int, epsilon: float, delta: float) -> float:
    """Return the smallest mean number of dummies per person that keeps (epsilon, delta).

    Any number of people reach any target: few people only have to send many dummies each.

    >>> round(10_000 * dummies_rho(n=10_000, k=100, epsilon=1.0, delta=1e-6) / 100, 2)
    42.63
    """
    bins = checks.count(2, k=k)
    return _least_rho(partial(dummies_delta, k=bins), bins, n, epsilon, delta)


def hashed_dummies_delta(
    *, n: int, buckets: int, collision: float, rho: float, epsilon: float
) -> float:
    """Upper bound on the divergence of n hashed truths among hashed dummies.

    ``collision`` is the probability that two different answers share their bucket.

    >>> bound = hashed_dummies_delta(n=10_000, buckets=100, collision=0.01, rho=0.4307, epsilon=1.0)
    >>> f"{bound:.1e}"
    '9.9e-07'
    """
    b = checks.count(2, buckets=buckets)
    checks.closed_probability(collision=collision)
    apart = 1 - collision
    delta = _two_bins(n, rho, 2 * apart / b * (1 - _ROUNDING), epsilon)
    return min(1.0, apart * delta * (1 + _ROUNDING))


def hashed_dummies_rho(
    *, n: int, buckets: int, collision: float, epsilon: float, delta: float
) -> float:
    """Return the smallest mean number of dummies per person that keeps (epsilon, delta)."""
    b = checks.count(2, buckets=buckets)
    delta_of = partial(hashed_dummies_delta, buckets=b, collision=collision)
    return _least_rho(delta_of, b, n, epsilon, delta)


def dummies_mean(*, epsilon: float, delta: float) -> float:
    """Dummies per bin, nρ/k = (32/ε²) log(2/δ), as the paper prescribes; no answer."""
    return published_mean("dummies_mean", "dummies_rho", epsilon, delta, factor=32, numerator=2)


def _least_rho(
    delta_of: Callable[..., float], bins: int, n: int, epsilon: float, delta: float
) -> float:
    people = checks.count(n=n)
    checks.target(epsilon=epsilon, delta=delta)

    def reached(mean: float) -> float:
        return delta_of(n=people, rho=bins * mean / people, epsilon=epsilon)

    return bins * least_mean(reached, delta=delta) / people


def _two_bins(n: int, rho: float, probability: float, epsilon: float) -> float:
    """The divergence when a dummy falls into one of two equally likely bins so probably."""
    people = checks.count(n=n)
    checks.positive(rho=rho)
    whole = math.floor(rho)
    always = BinomialWindow.of(people * whole, probability)
    sometimes = BinomialWindow.of(people, (rho - whole) * probability)
    first = int(always.counts[0] + sometimes.counts[0])
    # More dummies never hurt, so counts may be rounded down to the first of their block.
    step = math.ceil((always.pmf.size + sometimes.pmf.size) / _MOST_BLOCKS)
    blocks = [np.add.reduceat(z.pmf, np.arange(0, z.pmf.size, step)) for z in (always, sometimes)]
    weights = np.convolve(blocks[0], blocks[1])
    counts = first + step * np.arange(weights.size)
    error = 4 * (always.error + sometimes.error)
    total = float(weights @ _divergence(counts, checked_epsilon(epsilon))) * (1 + error)
    return min(1.0, total + always.omitted + sometimes.omitted)


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

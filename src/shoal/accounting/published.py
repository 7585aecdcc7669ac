"""The numerical algorithms of "Hiding Among the Clones", as published.

Feldman, McMillan, Talwar, FOCS 2021, arXiv:2012.12803: Algorithms 4 to 6 (Appendix F) bound the
divergence of the clone pair of Theorem 3.2. They are here to be compared with:
:mod:`shoal.accounting.exact` evaluates the same pair without blocks, and more tightly.

========================  ===========================================
in the paper              here
========================  ===========================================
Algorithm 4               :func:`clones_interval`
Algorithm 5               :func:`conditional_divergence`
Algorithm 6               :func:`clone_divergence`
n, ε0, S                  ``n``, ``local_epsilon``, ``step``
========================  ===========================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import scipy
from scipy import special

from shoal import checks
from shoal.accounting.exact import participants
from shoal.accounting.search import Side, largest, least

_NEGLIGIBLE = 1e-3


class Interval(NamedTuple):
    """Two ends with the truth between them."""

    lower: float
    upper: float


def clones_interval(
    *, n: float, delta: float, local_epsilon: float, iterations: int = 20, step: int = 100
) -> Interval:
    """Enclosure of the epsilon of Theorem 3.2 at ``delta``: the upper end is the guarantee.

    >>> interval = clones_interval(n=1e5, delta=1e-6, local_epsilon=4)
    >>> interval.lower < 0.16977 < interval.upper
    True
    """
    people = participants(n)
    width = checks.count(step=step)
    steps = checks.count(iterations=iterations)
    checks.open_probability(delta=delta)
    checks.non_negative(local_epsilon=local_epsilon)

    divergence = partial(
        clone_divergence, n=people, local_epsilon=local_epsilon, step=width, limit=delta
    )
    bracket = (0.0, float(local_epsilon))
    return Interval(
        largest(lambda at: divergence(epsilon=at, side=Side.LOWER) > delta, *bracket, steps=steps),
        least(lambda at: divergence(epsilon=at, side=Side.UPPER) <= delta, *bracket, steps=steps),
    )


def clone_divergence(
    *, n: int, epsilon: float, local_epsilon: float, step: int, side: Side, limit: float
) -> float:
    """Algorithm 6: ``max(D_x(P||Q), D_x(Q||P))`` of the clone pair, from one c in every block.

    Blocks of ``step`` consecutive numbers of clones are taken outwards from the mean. The
    conditional divergence does not grow with c (Lemma F.2): the lowest c of a block errs upwards,
    the highest downwards. Stops when the sum exceeds ``limit``, which is all that the search
    needs to know, or when the blocks not yet seen weigh a thousandth of it; an upper bound then
    counts their whole mass.
    """
    truth, lie = float(special.expit(local_epsilon)), float(special.expit(-local_epsilon))
    orders = ((truth, lie), (lie, truth))
    sums = [0.0, 0.0]
    for lowest, highest, mass, unseen in _blocks(n - 1, math.exp(-local_epsilon), step):
        clones = lowest if side is Side.UPPER else highest
        for order, (first, second) in enumerate(orders):
            sums[order] += mass * conditional_divergence(
                clones=clones, epsilon=epsilon, first=first, second=second
            )
        if max(sums) > limit:
            break
        if unseen <= _NEGLIGIBLE * min(sums):
            return max(sums) + (unseen if side is Side.UPPER else 0.0)
    return max(sums)


def conditional_divergence(*, clones: int, epsilon: float, first: float, second: float) -> float:
    """Algorithm 5: D_x given the number c of clones, between two opposite biases.

    With B ~ Bin(c, 1/2) and first + second = 1, compares ``B + Bernoulli(first)`` with
    ``B + Bernoulli(second)``. Their difference P - x Q at a has the sign of
    ``r a + s (c + 1 - a)``, where r = first - x second and s = second - x first: it is positive
    on a tail of the binomial, upper or lower.

    >>> conditional_divergence(clones=0, epsilon=0.0, first=0.75, second=0.25)
    0.5
    """
    growth = math.exp(epsilon)
    # Exchanging the two counts turns the lower tail, if it is that one, into the upper.
    s, r = sorted((first - growth * second, second - growth * first))
    if r <= 0:
        return 0.0
    cut = min(math.floor((clones + 1) * -s / (r - s)), clones)
    return max(0.0, r * _at_least(cut, clones) + s * _at_least(cut + 1, clones))


def _blocks(trials: int, probability: float, step: int) -> Iterator[tuple[int, int, float, float]]:
    """First and last count, mass, and the mass outside all blocks up to and including this one.

    Blocks of at most ``step`` counts of Bin(trials, probability), outwards from its mean.
    """
    binomial = scipy.stats.binom(trials, probability)
    low = high = math.ceil(trials * probability)  # the blocks so far cover low <= c < high
    while low > 0 or high <= trials:
        if high <= trials:
            start, high = high, min(high + step, trials + 1)
            mass = float(binomial.sf(start - 1) - binomial.sf(high - 1))
            yield start, high - 1, mass, float(binomial.cdf(low - 1) + binomial.sf(high - 1))
        if low > 0:
            end, low = low, max(low - step, 0)
            mass = float(binomial.cdf(end - 1) - binomial.cdf(low - 1))
            yield low, end - 1, mass, float(binomial.cdf(low - 1) + binomial.sf(high - 1))


def _at_least(k: int, trials: int) -> float:
    """Pr[Bin(trials, 1/2) >= k], more accurately than ``special.bdtrc`` has it."""
    if k <= 0 or k > trials:
        return float(k <= 0)
    return float(special.betainc(k, trials - k + 1, 0.5))

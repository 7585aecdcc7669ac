"""GDDSK21: the first Rényi bound of the shuffle model.

For one fixed ε0-DP randomizer and an integer order λ >= 2, with e = e^ε0, r = e − 1/e and
n̄ = ⌊(n−1)/(2e)⌋ + 1, the shuffled reports are (λ, ε(λ))-Rényi DP with

    ε(λ) = log(1 + C(λ,2) (e−1)²/(n̄ e) + Σ_{i=3}^λ C(λ,i) i Γ(i/2) (r²/(2n̄))^{i/2}
               + ((1+r)^λ − 1 − λr) e^{−(n−1)/(8e)}) / (λ−1).

Proof, as followed here. Every R(x) is at least R(x1)/e, so each other user is a clone of R(x1) with
probability 1/e; reveal the C ~ Bin(n−1, 1/e) clones and nothing else of theirs. With m = C + 1 the
likelihood ratio is 1 + S, S the mean of m independent X = R(x0)/R(x1) − 1 under R(x1). Expand
E[(1+S)^λ]: E[S] = 0; E[S²] <= (e−1)²/(e m), the largest variance on [1/e − 1, e − 1] of mean 0;
E|S|^i <= i Γ(i/2) (r²/(2m))^{i/2} by integrating Hoeffding's tail. If C >= (n−1)/(2e), m >= n̄;
otherwise, with probability at most e^{−(n−1)/(8e)} by Chernoff, |S| <= r. Every n >= 1 is allowed.

The ε at δ is the smallest of ε(λ) + log(1 − 1/λ) − log(δλ)/(λ−1) over a fixed set of orders
(Canonne, Kamath, Steinke. The Discrete Gaussian for Differential Privacy. NeurIPS 2020,
arXiv:2004.00010, Proposition 12).
"""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np
from scipy.special import gammaln, logsumexp

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.catalog import OPTIMAL_CLONES, Citation, Entry, Query
from shoal.errors import OutOfRegimeError

LARGEST_ORDER = 2**17

# Every small order, then eight to the octave: a fixed set keeps ε monotone in n and δ.
_ORDERS = (*range(2, 64), *(round(2 ** (j / 8)) for j in range(48, 137)))

# Rounds n̄ down where (n−1)/(2e) is a whole number up to floating point.
_FLOOR_MARGIN = 1 - 1e-12


def renyi(*, local_epsilon: float, n: int, order: int) -> float:
    """Return ε(λ) at the integer order λ, and never more than ε0, which always holds."""
    checks.positive(local_epsilon=local_epsilon)
    reports = checks.count(n=n)
    whole = checks.count(2, order=order)
    if whole > LARGEST_ORDER:
        condition = f"order <= {LARGEST_ORDER}"
        raise OutOfRegimeError("gddsk21", condition, {"order": whole}, OPTIMAL_CLONES)
    return min(_renyi(local_epsilon, reports, whole), local_epsilon)


def _renyi(local_epsilon: float, n: int, order: int) -> float:
    expected = (n - 1) * math.exp(-local_epsilon)
    log_clones = math.log(math.floor(expected / 2 * _FLOOR_MARGIN) + 1)
    log_r = local_epsilon + math.log(-math.expm1(-2 * local_epsilon))
    i = np.arange(2, order + 1, dtype=np.float64)
    whole, half = _log_gammas()
    log_choose = whole[order] - whole[2 : order + 1] - whole[order - 2 :: -1]
    moments = half[1:order] + i * (log_r - 0.5 * (math.log(2) + log_clones))
    moments[0] = local_epsilon + 2 * math.log(-math.expm1(-local_epsilon)) - log_clones
    few_clones = i * log_r - expected / 8
    total = logsumexp(log_choose + np.logaddexp(moments, few_clones))
    return float(np.logaddexp(0.0, total)) / (order - 1)


@cache
def _log_gammas() -> tuple[Array, Array]:
    """log Γ(i) and log(i Γ(i/2)) of i = 1, 2, ..., for all orders."""
    i = np.arange(1, LARGEST_ORDER + 2, dtype=np.float64)
    return gammaln(i), np.log(i) + gammaln(i / 2)


_PAPER = Citation(
    "A. M. Girgis, D. Data, S. Diggavi, A. T. Suresh, P. Kairouz",
    "On the Rényi Differential Privacy of the Shuffle Model",
    "CCS 2021",
    "2105.05180",
    "upper bound for a general randomizer, integer orders",
)


@partial(
    Entry,
    "gddsk21",
    "Rényi bound of the shuffle model",
    _PAPER,
    regime="an order at which its Rényi bound converts to an epsilon below local_epsilon",
    scope="one fixed ε0-DP randomizer for all users",
)
def converted(query: Query) -> float | None:
    """The smallest ε that the Rényi bound converts to."""
    best = math.inf
    for order in _ORDERS:
        divergence = _renyi(query.local_epsilon, query.n, order)
        if divergence >= best:
            break  # ε(λ) increases, and the conversion adds to it
        slack = (query.log_over(1) - math.log(order)) / (order - 1)
        best = min(best, max(0.0, divergence + math.log1p(-1 / order) + slack))
    return best if best < query.local_epsilon else None

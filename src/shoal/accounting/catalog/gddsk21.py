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

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, logsumexp

from shoal import checks
from shoal.accounting import binomial
from shoal.accounting.catalog.entry import (
    OPTIMAL_CLONES,
    Citation,
    Entry,
    Kind,
    Query,
    Status,
    log_over,
    out_of_regime,
)
from shoal.errors import OutOfRegimeError

NAME = "gddsk21"
CONDITION = "an order at which its Rényi bound converts to an epsilon below local_epsilon"
LARGEST_ORDER = 2**17

# The lower bound sums over every count, and needs 1 − e^−ε0 to differ from 1.
LARGEST_SUM = 10**6
LARGEST_SUMMED_EPSILON = 30.0

# Every small order, then eight to the octave: a fixed set keeps ε monotone in n and δ.
_ORDERS = (*range(2, 64), *(round(2 ** (j / 8)) for j in range(48, 137)))
_PLAIN_EXPONENT = 30.0

# Rounds n̄ down where (n−1)/(2e) is a whole number up to floating point.
_FLOOR_MARGIN = 1 - 1e-12


def renyi(*, local_epsilon: float, n: int, order: int) -> float:
    """Return ε(λ) at the integer order λ, and never more than ε0, which always holds."""
    checks.positive(local_epsilon=local_epsilon)
    reports = checks.count(n=n)
    whole = checks.count(2, order=order)
    if whole > LARGEST_ORDER:
        given = {"order": whole}
        raise OutOfRegimeError(NAME, f"order <= {LARGEST_ORDER}", given, OPTIMAL_CLONES)
    return min(_renyi(local_epsilon, reports, whole), local_epsilon)


def _renyi(local_epsilon: float, n: int, order: int) -> float:
    expected = (n - 1) * math.exp(-local_epsilon)
    log_clones = math.log(math.floor(expected / 2 * _FLOOR_MARGIN) + 1)
    log_r = local_epsilon + math.log(-math.expm1(-2 * local_epsilon))
    i = np.arange(2, order + 1, dtype=np.float64)
    log_choose = gammaln(order + 1) - gammaln(i + 1) - gammaln(order - i + 1)
    moments = np.log(i) + gammaln(i / 2) + i * (log_r - 0.5 * (math.log(2) + log_clones))
    moments[0] = local_epsilon + 2 * math.log(-math.expm1(-local_epsilon)) - log_clones
    few_clones = i * log_r - expected / 8
    total = logsumexp(log_choose + np.logaddexp(moments, few_clones))
    return float(np.logaddexp(0.0, total)) / (order - 1)


def renyi_lower_bound(*, local_epsilon: float, n: int, order: float) -> float:
    """Return the Rényi divergence of shuffled binary randomized response, all others on one bit.

    It is the paper's lower bound on what any theorem about all ε0-DP randomizers can say, in one
    of the two directions (the lone other bit against none):
    log E[(1 + (r/n)(K − n/(e+1)))^λ]/(λ−1), K ~ Bin(n, 1/(e+1)). Summed as E[(1+S)^λ − 1 − λS],
    whose terms are all non-negative, so that nothing cancels. Any order above 1 will do.
    """
    checks.positive(local_epsilon=local_epsilon)
    checks.above_one(order=order)
    reports = checks.count(n=n)
    if reports > LARGEST_SUM or local_epsilon > LARGEST_SUMMED_EPSILON:
        given = {"local_epsilon": float(local_epsilon), "n": reports}
        condition = f"n <= {LARGEST_SUM} and local_epsilon <= {LARGEST_SUMMED_EPSILON:g}"
        raise OutOfRegimeError("the gddsk21 lower bound", condition, given, OPTIMAL_CLONES)
    ones = np.arange(reports + 1, dtype=np.float64)
    share = math.exp(-local_epsilon) / (1 + math.exp(-local_epsilon))
    log_pmf = binomial.log_pmf(ones, n=reports, probability=share)
    spread = 2 * math.sinh(local_epsilon) * (ones / reports - share)
    total = float(logsumexp(log_pmf + _log_bernoulli_excess(spread, order)))
    return float(np.logaddexp(0.0, total)) / (order - 1)


def _log_bernoulli_excess(spread: npt.NDArray[np.float64], order: float) -> npt.NDArray[np.float64]:
    # log((1+S)^λ − 1 − λS), which Bernoulli's inequality makes non-negative.
    power = order * np.log1p(spread)
    linear = 1 + order * spread
    small = np.expm1(np.minimum(power, _PLAIN_EXPONENT)) - order * spread
    plain = np.log(np.maximum(small, np.finfo(np.float64).tiny))
    large = power + np.log1p(-linear * np.exp(-np.maximum(power, _PLAIN_EXPONENT)))
    excess: npt.NDArray[np.float64] = np.where(power < _PLAIN_EXPONENT, plain, large)
    return excess


def evaluate(query: Query) -> float:
    """Return the smallest ε that the Rényi bound converts to."""
    best = math.inf
    for order in _ORDERS:
        divergence = _renyi(query.local_epsilon, query.n, order)
        if divergence >= best:
            break  # ε(λ) increases, and the conversion adds to it
        best = min(best, _converted(divergence, order, query.delta))
    if best >= query.local_epsilon:
        raise out_of_regime(NAME, CONDITION, query)
    return best


def _converted(divergence: float, order: int, delta: float) -> float:
    slack = (log_over(1, delta) - math.log(order)) / (order - 1)
    return max(0.0, divergence + math.log1p(-1 / order) + slack)


ENTRY = Entry(
    name=NAME,
    title="Rényi bound of the shuffle model",
    citation=Citation(
        authors="A. M. Girgis, D. Data, S. Diggavi, A. T. Suresh, P. Kairouz",
        title="On the Rényi Differential Privacy of the Shuffle Model",
        venue="CCS 2021",
        arxiv="2105.05180",
        theorem="upper bound for a general randomizer, integer orders",
    ),
    scope="one fixed ε0-DP randomizer for all users",
    adaptive=False,
    status=Status.PROVED,
    regime=CONDITION,
    evaluate=evaluate,
    kind=Kind.RENYI,
)

"""Rényi divergence of shuffled reports, and its conversion to (epsilon, delta).

For every law, from its curve: with D_x = sup over ordered pairs of the hockey-stick divergence,

    E_Q[(P/Q)^a] = 1 + a (a - 1) int_1^inf (x^(a-2) + x^(-a-1)) D_x dx,

an increasing function of the curve, so the chords of the convex curve give an upper bound. For the
clones and optimal-clones pairs the defining sum itself is evaluated. Mironov, "Rényi Differential
Privacy", CSF 2017, arXiv 1702.07476; docs/theory/renyi.md for the identity.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy

from shoal import checks
from shoal.accounting import binomial
from shoal.accounting.atoms import Array
from shoal.accounting.profile import Samples

LARGEST_EXACT_CROWD = 4_000.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_ROUNDING = 1e-8
_LONGEST_CELL = 3.0
_ROWS = 256


@lru_cache(maxsize=256)
def from_samples(samples: Samples, order: float) -> float:
    """Upper bound on the Rényi divergence of a curve sampled from epsilon = 0 to delta = 0.

    However many rounds are composed, the divergences of one round are the same.
    """
    checks.above_one(order=order)
    epsilons, deltas = _refined(samples, order)
    start, width = epsilons[:-1, None], np.diff(epsilons)[:, None]
    eps = start + width * (_NODES + 1) / 2  # (cells, nodes)
    fraction = np.expm1(eps - start) / np.expm1(width)
    chord = deltas[:-1, None] * (1 - fraction) + deltas[1:, None] * fraction
    # dx = e^eps d eps; the second summand is the curve of the other order below x = 1.
    tilts = np.logaddexp((order - 1) * eps, -order * eps)
    with np.errstate(divide="ignore"):
        terms = np.log(chord) + tilts + np.log(_WEIGHTS * width / 2)
    log_excess = float(scipy.special.logsumexp(terms)) + math.log(order * (order - 1))
    return _from_log_excess(log_excess, order)


def to_epsilon(divergence: float, order: float, delta: float) -> float:
    """Canonne, Kamath, Steinke 2020, Proposition 12 (arXiv 2004.00010 v4)."""
    gain = -math.log(delta) + (order - 1) * math.log1p(-1 / order) - math.log(order)
    return max(0.0, divergence + gain / (order - 1))


def clone_divergence(local_epsilon: float, clone_probability: float, n: int, order: float) -> float:
    """Rényi divergence of the clone pair.

    With C ~ Bin(n-1, clone_probability), A ~ Bin(C, 1/2), D ~ Bern(e/(e+1)) and e = e^eps0, it is
    P = (A + D, C - A + 1 - D) against Q = (A + 1 - D, C - A + D): FMT21 Theorem 3.2 with clone
    probability 1/e, the optimal clones with 2/(e+1).

    E_Q[(P/Q)^order] is summed over all (C, A), the terms left out bounded and added. With r = P/Q
    the sum is 1 + E_Q[r^a - 1 - a(r - 1)], whose terms are all positive: no cancellation. What is
    left out has P-probability p and adds at most (e^((a-1) eps0) + a) p.
    """
    checks.above_one(order=order)
    log_cap = (order - 1) * local_epsilon
    depth = log_cap + math.log(order) + 80.0
    # Outside of these values of C the probability is below 2 e^-depth (Bernstein).
    mean = (n - 1) * clone_probability
    spread = math.sqrt(2 * mean * depth)
    last = min(n - 1, math.ceil(mean + spread + depth))
    totals = np.arange(max(0, math.floor(mean - spread)), last + 1, dtype=float)
    log_pmf = binomial.log_pmf(totals, n=n - 1, probability=clone_probability)
    logs = [
        _log_row_sums(totals[i : i + _ROWS], log_pmf[i : i + _ROWS], local_epsilon, order, depth)
        for i in range(0, totals.size, _ROWS)
    ]
    left_out = 6 * math.exp(-depth + np.logaddexp(log_cap, math.log(order)))
    log_excess = np.logaddexp(scipy.special.logsumexp(logs), math.log(left_out))
    return min(_from_log_excess(float(log_excess), order), local_epsilon)


def binary_response_divergence(*, local_epsilon: float, n: int, order: float) -> float:
    """Lower bound: the Rényi divergence of shuffled binary randomized response, others all on 0.

    The number of ones is Bin(n-1, p) + Bern(p) against Bin(n-1, p) + Bern(1-p), p = 1/(e^eps0+1);
    leaving terms out (all are positive) only lowers it. Girgis, Data, Diggavi, Suresh, Kairouz
    2021 (arXiv 2105.05180) bound it from below by the same example.
    """
    checks.above_one(order=order)
    checks.positive(local_epsilon=local_epsilon)
    n = checks.count(n=n)
    lie = float(scipy.special.expit(-local_epsilon))
    counts = binomial.window(n=n - 1, probability=lie)
    log_pmf = binomial.log_pmf(counts, n=n - 1, probability=lie)
    log_others, log_fewer = np.append(log_pmf, -np.inf), np.append(-np.inf, log_pmf)
    log_lie, log_truth = math.log(lie), math.log1p(-lie)
    zero = np.logaddexp(log_truth + log_others, log_lie + log_fewer)
    one = np.logaddexp(log_lie + log_others, log_truth + log_fewer)
    divergences = []
    for log_p, log_q in ((zero, one), (one, zero)):
        # Both ends of the window stand for what lies beyond them: leave them out.
        inside = slice(1, -1) if log_p.size > 2 else slice(None)
        terms = (log_q + _log_convex_excess(log_p - log_q, order))[inside]
        divergence = _from_log_excess(float(scipy.special.logsumexp(terms)), order)
        divergences.append(divergence / (1 + 2 * _ROUNDING) ** 2)
    return max(divergences)


def _log_row_sums(
    totals: Array, log_pmf: Array, local_epsilon: float, order: float, depth: float
) -> float:
    """log of the part of E_Q[r^a - 1 - a(r - 1)] with C in ``totals``."""
    reports = totals + 1
    half = np.sqrt(reports * depth / 2)  # Hoeffding: outside, probability < 2 e^-depth
    low = np.maximum(0.0, np.floor(reports / 2 - half))
    high = np.minimum(reports, np.ceil(reports / 2 + half))
    zeros = low[:, None] + np.arange(int((high - low).max()) + 1)  # (rows, counts)
    zeros = np.minimum(zeros, high[:, None] + 1)
    inside = zeros <= high[:, None]
    zeros = np.minimum(zeros, high[:, None])
    truth = scipy.special.expit(local_epsilon)
    ones = reports[:, None] - zeros
    first = truth * zeros + (1 - truth) * ones
    second = (1 - truth) * zeros + truth * ones
    log_weight = (
        log_pmf[:, None]
        + scipy.special.gammaln(reports + 1)[:, None]
        - scipy.special.gammaln(zeros + 1)
        - scipy.special.gammaln(ones + 1)
        - reports[:, None] * math.log(2)
        + np.log(2 * second / reports[:, None])
    )
    terms = log_weight + _log_convex_excess(np.log(first / second), order)
    return float(scipy.special.logsumexp(np.where(inside, terms, -np.inf)))


def _log_convex_excess(log_ratio: Array, order: float) -> Array:
    """log(r^a - 1 - a(r - 1)) for r = e^log_ratio, -inf at r = 1."""
    grown = order * log_ratio
    small = np.minimum(grown, 40.0)
    # r^a - 1 - a (r - 1) = a (a-1)/2 u^2 + a (a^2-1)/6 u^3 + O((a u)^4), u = log r.
    series = 0.5 * order * (order - 1) * log_ratio**2 * (1 + (order + 1) * log_ratio / 3)
    direct = np.expm1(small) - order * np.expm1(np.minimum(log_ratio, 40.0 / order))
    near = np.abs(grown) < 1e-4
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = np.log(np.where(near, series, direct))
    return np.where(grown > 40.0, grown, exact)


def _from_log_excess(log_excess: float, order: float) -> float:
    """log(1 + excess)/(order - 1), rounded up."""
    return float(np.logaddexp(0.0, log_excess)) * (1 + _ROUNDING) / (order - 1)


def _refined(samples: Samples, order: float) -> tuple[Array, Array]:
    """Cells short enough for the quadrature to be exact to rounding."""
    cells = np.diff(samples.epsilons) * (order + 1)
    parts = np.maximum(1, np.ceil(cells / _LONGEST_CELL)).astype(int)
    parts = np.minimum(parts, 2000)
    index = np.repeat(np.arange(parts.size), parts)
    inner = np.arange(index.size) - np.repeat(np.cumsum(parts) - parts, parts)
    width = np.diff(samples.epsilons)[index]
    offset = width * inner / parts[index]
    fraction = np.expm1(offset) / np.expm1(width)
    deltas = samples.deltas[index] * (1 - fraction) + samples.deltas[index + 1] * fraction
    return (
        np.append(samples.epsilons[index] + offset, samples.epsilons[-1]),
        np.append(deltas, samples.deltas[-1]),
    )

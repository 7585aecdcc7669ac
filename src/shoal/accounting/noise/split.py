"""Split and mix: how many random shares hide everybody's number but for the sum.

Each of n honest people splits a number of Z_q into m shares, uniform but for their sum, and the
shuffler mixes all n·m of them (Ishai, Kushilevitz, Ostrovsky, Sahai, "Cryptography from
Anonymity", FOCS 2006). Let U_s be the uniform law on lists of n·m elements with sum s, which shows
nothing but s. Two independent runs coincide with probability q^(C−nm) if their mixed shares glue
the people of both runs into C connected groups, so by Cauchy and Schwarz, for any data z of sum s,

    TV(shuffled shares of z, U_s)  <=  1/2 sqrt( E[q^(C−1)] − 1 ),

C the number of components of a random m-regular bipartite multigraph on n + n vertices (Balle,
Bell, Gascón, Nissim, "Private Summation in the Multi-Message Shuffle Model", CCS 2020,
arXiv:2002.00817; Ghazi, Manurangsi, Pagh, Velingker, "Private Aggregation from Fewer Anonymous
Messages", EUROCRYPT 2020). The expectation is known exactly: with a_k = (km)!/(k!)²,

    E[q^C] = Σ_{n_1 + … + n_q = n} Π a_{n_i} / a_n,

which is summed for few people, and bounded for many to a relative error that vanishes in n.
The leading term (q−1) n² / binom(nm, m) is one person apart from all others. The proofs are in
docs/theory/split-and-mix.md.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy

from shoal import checks
from shoal.accounting.atoms import Array
from shoal.accounting.noise.profile import checked_epsilon
from shoal.errors import OutOfRegimeError, UnreachableTargetError

LEAST_SHARES = 3
MOST_SHARES = 512
MOST_SUMMED = 64
_HEAD = 8  # terms summed one by one; the rest is bounded by its ends
_BLOCK = 1.05
_MARGIN = 1e-8  # far above the rounding of all sums here
_HIDDEN = -700.0  # exponents below are no longer floats


@lru_cache(maxsize=4096)
def split_excess(*, n: int, shares: int, modulus: int) -> float:
    """Upper bound on E[q^(C−1)] − 1 for any group of q elements; exact for n <= 64.

    Infinity where it is not a float.

    >>> split_excess(n=2, shares=3, modulus=2)
    0.1000000...
    """
    people, m = checks.count(n=n), checks.count(LEAST_SHARES, shares=shares)
    checks.refuse(m > MOST_SHARES, f"at most {MOST_SHARES} shares", shares=m)
    q = checks.count(2, modulus=modulus) if modulus < checks.LARGEST_COUNT else modulus
    if people == 1:
        return 0.0
    log = _summed(people, m, q) if people <= MOST_SUMMED else _bounded(people, m, q)
    return math.exp(max(log, _HIDDEN)) * (1 + _MARGIN) if log < -_HIDDEN else math.inf


def split_distance(*, n: int, shares: int, modulus_bits: int) -> float:
    """Upper bound on the total variation between the mixed shares and what the sum alone explains.

    q = 2^modulus_bits. At most 1, which says nothing.
    """
    bits = checks.count(modulus_bits=modulus_bits)
    excess = split_excess(n=n, shares=shares, modulus=1 << bits)
    return min(1.0, math.sqrt(excess) / 2)


def split_security(*, n: int, shares: int, modulus_bits: int) -> float:
    """The σ with a distance of 2^−σ: δ grows by at most (1 + e^ε) 2^−σ.

    Data of the same sum are then within 2^(1−σ) of each other.

    >>> round(split_security(n=10_000, shares=10, modulus_bits=32), 1)
    43.9
    """
    distance = split_distance(n=n, shares=shares, modulus_bits=modulus_bits)
    return -math.log2(distance) if distance else math.inf


def split_shares(*, n: int, modulus_bits: int, security: float) -> int:
    """The fewest shares per person with a distance of at most 2^−security.

    >>> split_shares(n=10_000, modulus_bits=32, security=40)
    10
    """
    checks.positive(security=security)
    for shares in range(LEAST_SHARES, MOST_SHARES + 1):
        if split_security(n=n, shares=shares, modulus_bits=modulus_bits) >= security:
            return shares
    raise UnreachableTargetError(
        f"security={security:g}",
        f"{MOST_SHARES} shares of each of n={n} people do not reach it",
        "ask for less security, or for more people",
    )


def published_shares(*, n: int, modulus_bits: int, security: float) -> int:
    """⌈2 + (2σ + log2 q) / (log2 n − log2 e)⌉ shares, to be set beside ``split_shares``.

    Balle, Bell, Gascón, Nissim, "Private Summation in the Multi-Message Shuffle Model", CCS 2020,
    arXiv:2002.00817, for n >= 19: data of the same sum are within 2^−σ of each other. The
    example is that of the abstract of arXiv:1909.11225.

    >>> published_shares(n=10_000, modulus_bits=32, security=40)
    12
    """
    people, bits = checks.count(n=n), checks.count(modulus_bits=modulus_bits)
    checks.positive(security=security)
    if people < 19:
        raise OutOfRegimeError("published_shares", "n >= 19", {"n": people}, "split_shares")
    return math.ceil(2 + (2 * security + bits) / (math.log2(people) - math.log2(math.e)))


def discrete_laplace_delta(*, rate: float, sensitivity: int, epsilon: float) -> float:
    """D_x(Z + Δ ‖ Z) for Pr[Z = z] ∝ e^(−rate |z|), x = e^ε: tight up to rounding.

    The worst of all whole shifts up to Δ = ``sensitivity``, in both orders: the law is
    log-concave, so that a larger shift is easier to see. Zero for ε >= rate · Δ.
    """
    checks.positive(rate=rate)
    shift, growth = checks.count(sensitivity=sensitivity), checked_epsilon(epsilon)
    if growth >= rate * shift:
        return 0.0
    # Shifted outputs from `least` on are likelier than x times the others.
    least = min(shift, math.floor((shift + growth / rate) / 2) + 1)
    below = math.exp(-rate * (1 + shift - least))
    beyond = math.exp(growth - rate * least)
    delta = 1 - (below + beyond) / (1 + math.exp(-rate))
    return min(1.0, max(0.0, delta) + 1e-14)


def pure_delta(*, central_epsilon: float, epsilon: float) -> float:
    """(e^ε0 − e^ε)_+ / (e^ε0 + 1): what every pure ε0-DP release keeps at a smaller ε.

    No such pair is easier to tell apart than the two answers of randomized response (Kairouz, Oh,
    Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015, arXiv:1311.0776).
    """
    checks.positive(central_epsilon=central_epsilon)
    growth, top = checked_epsilon(epsilon), checked_epsilon(central_epsilon)
    if growth >= top:
        return 0.0
    return min(1.0, -math.expm1(growth - top) / (1 + math.exp(-top)) + 1e-14)


def _log_choose(n: int, k: int) -> float:
    """log binom(n, k) for few k, without the cancellation of log-gamma at large n."""
    return math.fsum(math.log(n - i) - math.log(i + 1) for i in range(k))


def _log_apart(n: int, k: int, m: int) -> float:
    """log R(n, k), R(n, k) = binom(n, k)² / binom(nm, km): k given people glue to k given ones."""
    return 2 * _log_choose(n, k) - _log_choose(n * m, k * m)


def _summed(n: int, m: int, q: int) -> float:
    """The log of the exact excess, by doubling the group.

    With E_n[q^(C−1)] = 1 + e_n(q), the sum over compositions splits into two halves:
    (p+q) e_n(p+q) = p e_n(p) + q e_n(q) + pq Σ_{0<k<n} R(n, k) (1 + e_k(p)) (1 + e_{n−k}(q)).
    """
    sizes = np.arange(n + 1, dtype=np.float64)
    log_a = scipy.special.gammaln(sizes * m + 1) - 2 * scipy.special.gammaln(sizes + 1)
    total: tuple[int, Array] | None = None
    power: tuple[int, Array] = (1, np.full(n + 1, -np.inf))
    rest = q
    while True:
        if rest & 1:
            total = power if total is None else _merged(log_a, total, power)
        rest >>= 1
        if not rest:
            return float(total[1][n]) if total is not None else -math.inf
        power = _merged(log_a, power, power)


def _merged(log_a: Array, first: tuple[int, Array], second: tuple[int, Array]) -> tuple[int, Array]:
    """The logs of e_1, ..., e_n for groups of p and q elements, as those for p + q."""
    (p, one), (q, two) = first, second
    log_p, log_q = math.log(p), math.log(q)
    left, right = np.logaddexp(0.0, one) + log_a, np.logaddexp(0.0, two) + log_a
    whole, part = np.indices((log_a.size, log_a.size))
    inside = (part > 0) & (part < whole)
    pairs = np.where(inside, left[part] + right[np.where(inside, whole - part, 0)], -np.inf)
    apart = np.logaddexp.reduce(pairs, axis=1) - log_a + log_p + log_q
    alone = np.logaddexp(log_p + one, log_q + two)
    return p + q, np.logaddexp(alone, apart) - math.log(p + q)


def _bounded(n: int, m: int, q: int) -> float:
    """The log of an upper bound on the excess, for many people.

    A largest group of n − j >= n/2 people: at most q R(n, j) V_j, where V_j = Π_{i<=j} (1 + q
    R(i, 1)) bounds E_j[q^(C−1)]. All groups smaller: two parts of s and n − s people, n/4 <= s <=
    3n/4, at most q² R(n, s) V_s V_{n−s}. Both are log-convex in j and s: the ends bound the rest.
    """
    log_q = math.log(q)
    log_v, logs = 0.0, []
    for j in range(1, _HEAD + 1):
        if j > 1:
            log_v += float(np.logaddexp(0.0, log_q + _log_apart(j, 1, m)))
        logs.append(log_q + _log_apart(n, j, m) + log_v)
    everybody = _log_product(n, m, log_q)
    half, quarter = n // 2, -(-n // 4)
    half_way = log_q + _log_apart_bound(n, half, m) + everybody
    rest = math.log(half) + max(logs[-1], half_way)
    middle = math.log(n / 2 + 1) + 2 * log_q + _log_apart_bound(n, quarter, m) + 2 * everybody
    return float(np.logaddexp.reduce([*logs, rest, middle]))


def _log_apart_bound(n: int, k: int, m: int) -> float:
    """binom(n, k) <= e^(n h) and binom(nm, km) >= e^(nm h)/(nm + 1), h the entropy of k/n."""
    part = k / n
    entropy = -part * math.log(part) - (1 - part) * math.log1p(-part)
    return math.log(n * m + 1) - (m - 2) * n * entropy * (1 - 1e-12)


def _log_product(n: int, m: int, log_q: float) -> float:
    """An upper bound on log V_n = Σ_{k=2}^n log(1 + q R(k, 1)), R(k, 1) falling in k."""
    count = 2 + math.ceil(math.log(n / 2) / math.log(_BLOCK))
    edges = np.unique(np.floor(2 * _BLOCK ** np.arange(count + 1)))
    starts = edges[edges <= n]
    lengths = np.diff(np.append(starts, n + 1.0))
    choices = np.log(starts[:, None] * m - np.arange(m)).sum(axis=1) - math.lgamma(m + 1)
    gains = np.logaddexp(0.0, log_q + 2 * np.log(starts) - choices)
    return float(lengths @ gains) * (1 + _MARGIN)

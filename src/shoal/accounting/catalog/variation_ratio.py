"""The variation-ratio pair of Wang et al.: **not an upper bound**; a lower bound for k-ary RR.

S. Wang et al. Unified, Tight, and Fast Privacy Amplification in the Shuffle Model of Differential
Privacy. arXiv:2304.05007 (its Lemma 4.5 extends Lemma 3.5 of Feldman, McMillan, Talwar,
arXiv:2208.04591). For an ε0-DP randomizer whose outputs on x0 and x1 are at total variation β, put
α = β/(e^ε0 − 1), C ~ Bin(n−1, 2α), A ~ Bin(C, 1/2), and let (Δ1, Δ2) be (1, 0), (0, 1) or (0, 0)
with probabilities e^ε0 α, α and the rest. The paper claims that the pair

    P = (A + Δ1, C − A + Δ2)   against   Q = (A + Δ2, C − A + Δ1)

dominates the shuffled outputs. It does when β = (e^ε0 − 1)/(e^ε0 + 1), where it is the optimal
clones. For smaller β the argument fails: it merges what x0 and x1 have in common with whatever else
the other users send, although its posterior depends on more than C.

**Counterexample** (exact enumeration). Three inputs, four outputs, e = e^ε0, and w, u fixed by
normalisation: R0 = (eα, α, w, u), R1 = (α, eα, w, u), R2 = (α, α, w/e, ue), everyone else on x2.
With ε0 = 1, α = 0.05, n = 100 the true δ(0.2) is 3.125e-6 and the pair says 1.356e-6; the true
δ(0.3) is 1.93e-9 and the pair says 8.3e-11. Randomized response itself exceeds it for k >= 4: with
k = 5, ε0 = 1, n = 30 the true δ(0.2) is at least 0.0110468, the pair says 0.0109974.

So nothing here can answer a query, and there is no entry. What remains true: for k-ary randomized
response with k >= 3, everyone else on a third symbol and all symbols but x0, x1 merged, the pair
with α = 1/(e^ε0 + k − 1) *is* the output. Its δ is a lower bound on the true one.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc

from shoal import checks
from shoal.accounting import binomial
from shoal.accounting.atoms import Array
from shoal.accounting.catalog import OPTIMAL_CLONES
from shoal.errors import OutOfRegimeError

# It sums over the likely counts, with probabilities that must keep their digits.
LARGEST_N = 10**10
SMALLEST_LOCAL_EPSILON = 1e-6
LARGEST_LOCAL_EPSILON = 100.0

# Shrinks the result by more than its rounding error, so that it stays a lower bound.
_ROUNDING = 1e-9


def lower_bound_delta(*, k: int, local_epsilon: float, n: int, epsilon: float) -> float:
    """Return a δ that ε0-DP k-ary randomized response (k >= 3), shuffled, cannot be below at ε."""
    checks.positive(local_epsilon=local_epsilon)
    symbols = checks.count(3, k=k)
    spread = -math.expm1(-local_epsilon)
    variation = spread / (1 + (symbols - 1) * math.exp(-local_epsilon))
    return claimed_delta(
        local_epsilon=local_epsilon, total_variation=variation, n=n, epsilon=epsilon
    )


def claimed_delta(*, local_epsilon: float, total_variation: float, n: int, epsilon: float) -> float:
    """Return the pair's own δ(ε), which the paper claims: **no upper bound** for β below its max.

    With x = e^ε the δ is E[(a (e−x) − b (ex−1) − (n−a−b) t)_+]/n over (a, b) multinomial
    (n; α, α), t = (x−1)(1 − (e+1)α)/(1 − 2α). Given a + b = c, a is Bin(c, 1/2), and the mean of
    the positive part of a linear function of it is two binomial tails. Counts c beyond twelve
    standard deviations are left out: their terms are not negative.
    """
    checks.positive(local_epsilon=local_epsilon)
    checks.non_negative(epsilon=epsilon)
    reports = checks.count(n=n)
    if not SMALLEST_LOCAL_EPSILON <= local_epsilon <= LARGEST_LOCAL_EPSILON or n > LARGEST_N:
        condition = f"{SMALLEST_LOCAL_EPSILON} <= local_epsilon <= 100 and n <= {LARGEST_N}"
        stated = {"local_epsilon": float(local_epsilon), "n": reports}
        raise OutOfRegimeError("the variation-ratio pair", condition, stated, OPTIMAL_CLONES)
    checks.positive(total_variation=total_variation)
    largest = math.tanh(local_epsilon / 2)
    expected = f"total_variation <= {largest:.6g}, the most an ε0-DP randomizer can have"
    wrong = total_variation > largest * (1 + 1e-12)
    checks.refuse(wrong, expected, total_variation=total_variation)
    alpha = total_variation / math.expm1(local_epsilon)
    if epsilon >= local_epsilon:
        return 0.0
    x = math.exp(epsilon)
    down = math.expm1(local_epsilon + epsilon)
    gain = math.expm1(local_epsilon) * (1 + x)
    common = max(0.0, 1 - (math.exp(local_epsilon) + 1) * alpha)
    still = math.expm1(epsilon) * common / (1 - 2 * alpha)
    counts = binomial.window(n=reports, probability=2 * alpha)
    needed = counts * down + (reports - counts) * still
    weights = np.exp(binomial.log_pmf(counts, n=reports, probability=2 * alpha))
    # E[(gain·a − needed)_+], a ~ Bin(c, 1/2), by E[a; a >= m] = (c/2) Pr[Bin(c−1, 1/2) >= m−1].
    first = np.floor(needed / gain) + 1
    gained = gain * counts / 2 * _upper_tail(counts - 1, first - 1)
    positive = np.maximum(0.0, gained - needed * _upper_tail(counts, first))
    return float(np.dot(weights, positive)) / reports * (1 - _ROUNDING)


def _upper_tail(trials: Array, least: Array) -> Array:
    """The probability that Bin(trials, 1/2) is at least ``least``."""
    possible = np.clip(least, 1, np.maximum(trials, 1))
    inside = betainc(possible, np.maximum(trials - possible, 0) + 1, 0.5)
    return np.where(least > trials, 0.0, np.where(least <= 0, 1.0, inside))

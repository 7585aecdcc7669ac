"""An audit of every calibration by sums of its own: nothing of the accountant is used to judge it.

Chances are fractions or ratios of whole numbers where that is quick enough, plain floats of few
terms elsewhere. Each calibrated parameter must keep its target when all of n people's outputs are
listed, and an independent search must find that nothing 1 % smaller would do.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from shoal.accounting.noise import binary
from shoal.accounting.noise.near_central import near_central_calibration
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.zero_sum import SparseHistogram, ZeroSumCount, ZeroSumHistogram

FLOATS = 1e-10  # what sums of floats in this file may be off by, relatively
WASTE = 1.01


def least(reached, target, high):
    """The least parameter up to ``high`` with ``reached(parameter) <= target``, by halving."""
    low = 0.0
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if reached(middle) <= target:
            high = middle
        else:
            low = middle
    return high


def excess(first, second, x):
    """Σ (p − x q)_+ of two lists of chances."""
    return sum(max(p - x * q, 0) for p, q in zip(first, second, strict=True))


def binomial(n, share):
    return [math.comb(n, z) * share**z * (1 - share) ** (n - z) for z in range(n + 1)]


def smaller_exp(epsilon):
    """A fraction just below e^epsilon: the divergence is not below the true one."""
    return Fraction(math.exp(epsilon)) * (1 - Fraction(1, 2**50))


# ------------------------------------------------------------------- one answer, and two of them


def one_bin(n, share, x):
    """Counts of s + 1 + Z against s + Z, and the other way round."""
    chances = binomial(n, share)
    none = [type(share)(0)]
    return max(excess(none + chances, chances + none, x), excess(chances + none, none + chances, x))


def two_bins(n, share, x):
    """(Z1 + 1, Z2) against (Z1, Z2 + 1), over all pairs of counts."""
    chances = binomial(n, share)
    none = [type(share)(0)]
    raised, plain = none + chances, chances + none
    pairs = list(itertools.product(range(n + 2), repeat=2))
    return excess(
        [raised[i] * plain[j] for i, j in pairs], [plain[i] * raised[j] for i, j in pairs], x
    )


ONE_BIN = [(5, 1.0, 0.15), (5, 2.0, 0.05), (20, 0.5, 0.05), (20, 2.0, 1e-3), (50, 1.0, 1e-3)]
TWO_BINS = [(5, 1.0, 0.3), (5, 2.0, 0.15), (20, 1.0, 0.05), (20, 2.0, 2e-3), (30, 1.0, 0.02)]


@pytest.mark.parametrize(("n", "epsilon", "delta"), ONE_BIN)
def test_a_count_keeps_its_target_and_wastes_nothing(n, epsilon, delta):
    gamma = ZeroSumCount.calibrated(n=n, epsilon=epsilon, delta=delta).gamma
    assert one_bin(n, Fraction(gamma), smaller_exp(epsilon)) <= Fraction(delta)
    x = math.exp(epsilon)
    assert gamma <= WASTE * least(lambda share: one_bin(n, share, x), delta, gamma)


@pytest.mark.parametrize(("n", "epsilon", "delta"), TWO_BINS)
def test_a_histogram_keeps_its_target_and_wastes_nothing(n, epsilon, delta):
    target = {"n": n, "epsilon": epsilon, "delta": delta}
    gammas = [made.calibrated(k=4, **target).gamma for made in (ZeroSumHistogram, SparseHistogram)]
    x = math.exp(epsilon)
    needed = least(lambda share: two_bins(n, share, x), delta, max(gammas))
    for gamma in gammas:
        assert two_bins(n, Fraction(gamma), smaller_exp(epsilon)) <= Fraction(delta)
        assert gamma <= WASTE * needed


# --------------------------------------------------------------------------------- dummies


@cache
def among_dummies(total, k, epsilon):
    """The divergence given ``total`` dummies: over all counts of answer 0, answer 1 and the rest.

    A count of the kind (a, b, c) is held by total! / (a! b! c!) (k−2)^c of k^total drawings.
    """
    x, gains = math.exp(epsilon), []
    drawings = k**total
    for a, b in itertools.product(range(total + 2), repeat=2):
        c = total + 1 - a - b
        if c < 0:
            continue
        scale = math.factorial(total) * (k - 2) ** c
        shared = math.factorial(a) * math.factorial(b) * math.factorial(c)
        # (a−1, b, c) and (a, b−1, c): a/a! is 1/(a−1)!, and nothing at a = 0.
        first, second = scale * a // shared / drawings, scale * b // shared / drawings
        gains.append(max(0.0, first - x * second))
    return math.fsum(gains)


def dummies(n, k, rho, epsilon):
    whole = math.floor(rho)
    extra = binomial(n, rho - whole)
    return math.fsum(
        chance * among_dummies(n * whole + more, k, epsilon)
        for more, chance in enumerate(extra)
        if chance > 1e-15
    )


@pytest.mark.parametrize(
    ("n", "k", "epsilon", "delta"),
    [
        (5, 2, 1.0, 0.05),
        (5, 4, 2.0, 0.01),
        (20, 2, 0.5, 0.02),
        (20, 4, 1.0, 0.02),
        (50, 2, 1.0, 1e-3),
        (50, 3, 1.0, 5e-3),
    ],
)
def test_dummies_keep_their_target_and_waste_nothing(n, k, epsilon, delta):
    rho = UniformDummies.calibrated(k=k, n=n, epsilon=epsilon, delta=delta).dummies
    assert dummies(n, k, rho, epsilon) <= delta * (1 + FLOATS)
    assert rho <= WASTE * least(lambda rate: dummies(n, k, rate, epsilon), delta, rho)


# ----------------------------------------------------------------------------------- coins


def coins(n, lam, epsilon):
    """Sums of n bits that lie with probability lam/(2n), whatever the n − 1 others hold."""
    lie, x = lam / n / 2, math.exp(epsilon)
    truths = {True: [lie, 1 - lie], False: [1 - lie, lie]}
    worst = 0.0
    for ones in range(n):
        others = np.convolve(binomial(ones, 1 - lie), binomial(n - 1 - ones, lie))
        held, other = (np.convolve(others, truths[bit]) for bit in (True, False))
        worst = max(worst, excess(held, other, x), excess(other, held, x))
    return worst


@pytest.mark.parametrize(
    ("n", "epsilon", "delta"),
    [(5, 1.0, 0.15), (5, 2.0, 0.05), (20, 0.5, 0.05), (20, 2.0, 1e-3), (50, 1.0, 1e-3)],
)
def test_coins_keep_their_target_and_waste_nothing(n, epsilon, delta):
    lam = binary.binary_lambda(n=n, epsilon=epsilon, delta=delta)
    assert coins(n, lam, epsilon) <= delta * (1 + FLOATS)
    assert lam <= WASTE * least(lambda mean: coins(n, mean, epsilon), delta, lam)


# ------------------------------------------------------------------- almost the central error


def negative_binomial(shape, mean, size):
    chances, more = np.empty(size), mean / (shape + mean)
    chances[0] = (1 - more) ** shape
    for count in range(1, size):
        chances[count] = chances[count - 1] * more * (shape + count - 1) / count
    return chances


def everybody(n, shape, mean, size):
    """The sum of n people's shares, each an n-th of the shape, one person after another."""
    total, own = np.eye(1, size)[0], negative_binomial(shape / n, mean / n, size)
    for _ in range(n):
        total = np.convolve(total, own)[:size]
    return total


def near_central(n, central, shape, pairs, epsilon):
    """(s + Z+ + F, Z− + F) at s + 1 against s, over all pairs of counts below ``size``."""
    x, size = math.exp(epsilon), 60 + math.ceil(pairs + 16 * math.sqrt(pairs * (1 + pairs / shape)))
    flood = everybody(n, shape, pairs, size)
    single = everybody(n, 1.0, 1 / math.expm1(central), size)
    law = np.zeros((size, size))
    for floods, chance in enumerate(flood):
        kept = single[: size - floods]
        law[floods:, floods:] += chance * np.outer(kept, kept)
    beyond = max(0.0, 1 - float(law.sum()))
    assert beyond <= 1e-8
    plain, raised = law, np.vstack([np.zeros((1, size)), law[:-1]])
    return beyond + max(
        float(np.maximum(raised - x * plain, 0.0).sum()),
        float(np.maximum(plain - x * raised, 0.0).sum()),
    )


@pytest.mark.parametrize(
    ("n", "epsilon", "delta"), [(5, 1.0, 0.05), (20, 1.0, 0.01), (50, 2.0, 1e-3), (50, 0.5, 0.05)]
)
def test_pairs_keep_their_target_and_waste_nothing(n, epsilon, delta):
    found = near_central_calibration(epsilon=epsilon, delta=delta)

    def reached(pairs):
        return near_central(n, found.central_epsilon, found.shape, pairs, epsilon)

    # What lies beyond the counts listed, 1e-8 at most, is counted as gain.
    assert reached(found.pairs) <= delta
    assert reached(found.pairs / WASTE) > delta + 1e-8

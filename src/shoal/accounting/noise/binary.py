"""One bit per person, replaced by a fair coin with probability λ/n.

The protocol of Cheu, Smith, Ullman, Zeber, Zhilyaev, "Distributed Differential Privacy via
Shuffling", EUROCRYPT 2019, arXiv:1808.01394 is binary randomized response that lies with
probability q = λ/(2n). The victim's own bit is randomized too, and the divergence depends on how
many others hold a one. Few people: the worst of all these data sets, each exactly. More people:
the privacy blanket, which covers all of them (about 25 % more λ than the worst that is known).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from shoal import checks
from shoal.accounting.law import BlanketLaw
from shoal.accounting.noise.profile import checked_epsilon, least_mean, published_mean
from shoal.accounting.profile import PrivacyProfile, binary_laws

MOST_ENUMERATED = 128
# SciPy's binomial probabilities are within 3e-11; their products and sums stay within this.
_ERROR = 1e-10
_ROUNDING = 1e-14
_MARGIN = 1e-9


def binary_delta(*, n: int, lam: float, epsilon: float) -> float:
    """Upper bound on the divergence of n shuffled bits, ``lam`` of them fair coins on average.

    Tight up to rounding for n <= 128, where every number of ones among the others is tried.
    """
    people = checks.count(n=n)
    checks.positive(lam=lam)
    growth = checked_epsilon(epsilon)
    checks.refuse(lam > people, f"0 < lam <= n={people}", lam=lam)
    lie = lam / people / 2
    # Rounded up: the law below must not be more private than the sampler.
    local = (math.log1p(-lie) - math.log(lie)) * (1 + _ROUNDING) + _ROUNDING
    if lie == 0.5 or growth >= local:
        return 0.0
    if people > MOST_ENUMERATED:
        law = BlanketLaw.randomized_response(k=2, epsilon=local)
        return PrivacyProfile(law, people).delta(growth)
    worst, x = 0.0, math.exp(growth)
    for m in range(people):
        # The other order is this one with all bits flipped, that is with people - 1 - m.
        second, first = binary_laws(lie, people - 1 - m, m)
        cells = first - x * second + _ERROR * (first + x * second)
        worst = max(worst, float(np.maximum(cells, 0.0).sum()))
    return min(1.0, worst)


def binary_lambda(*, n: int, epsilon: float, delta: float) -> float:
    """Return the smallest certified mean number of fair coins that keeps (epsilon, delta).

    Every n reaches every target, for at λ = 2n/(e^ε + 1) each bit alone is ε-DP; how little of
    the truth is then left is for the caller to judge by λ/n.

    >>> round(binary_lambda(n=100_000, epsilon=1.0, delta=1e-6), 1)
    85.2
    """
    people = checks.count(n=n)
    checks.target(epsilon=epsilon, delta=delta)
    # A hair more lies than needed, so that rounding cannot undo the purely local guarantee.
    alone = 2 * people * float(scipy.special.expit(-epsilon * (1 - _MARGIN)))
    largest = min(float(people), alone)
    mean = least_mean(
        lambda lam: binary_delta(n=people, lam=lam, epsilon=epsilon), delta=delta, largest=largest
    )
    return min(mean, largest)


def coins_mean(*, epsilon: float, delta: float) -> float:
    """λ = (64/ε²) log(4/δ) fair coins (not checked against the paper); no answer."""
    return published_mean("coins_mean", "binary_lambda", epsilon, delta, factor=64, numerator=4)

"""A lower bound for many rounds: what an explicit randomizer and data set already give away.

Everybody answers by ternary randomized response, in every round anew; all the others hold answer 2,
one person holds answer 0 or answer 1 throughout. What the shufflers show is then a product of equal
distributions P or Q, and the divergence of the products bounds from below the delta that any
analysis of all randomizers can promise.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from shoal.accounting.atoms import Array

_REACH = 11.0  # standard deviations: counts further out are left out, which lowers the bound
_CELLS_PER_SPREAD = 400
_MOST_CELLS = 1 << 17
_MOST_ROUNDS = 10**5
# Far more delta than floating point can add to a composition of distributions by FFT.
_ROUNDING = 1e-9
_MOST_COUNTS = 4_000_000


def epsilon(*, local_epsilon: float, n: int, rounds: int, delta: float) -> float:
    """An epsilon that no analysis of this many adaptive rounds can go below at ``delta``.

    Crowds with too many likely counts to list get the trivial bound 0. More rounds give away at
    least what fewer do: of very many, 100,000 are looked at.
    """
    if (2 * _reach(local_epsilon, n)) ** 2 > _MOST_COUNTS:
        return 0.0
    once = _loss(local_epsilon, n)
    if once is None:
        return 0.0
    composed = once if rounds == 1 else once.self_compose(min(rounds, _MOST_ROUNDS))
    return max(0.0, float(composed.get_epsilon_for_delta(delta + _ROUNDING)))


@lru_cache(maxsize=16)
def _loss(local_epsilon: float, n: int) -> PrivacyLossDistribution | None:
    """The privacy loss log(P/Q) under P, every value rounded down to a grid.

    delta(epsilon) = E_P[(1 - e^(epsilon - loss))_+] grows with the loss, also when losses of
    several rounds are added up, so that rounding down keeps a lower bound.
    """
    probabilities, losses = _shown_counts(local_epsilon, n)
    if losses.size == 0 or np.ptp(losses) == 0:
        return None
    mean = float(probabilities @ losses)
    spread = math.sqrt(float(probabilities @ (losses - mean) ** 2))
    # Losses far out beside the spread are rounded down further: there are only so many cells.
    width = max(spread / _CELLS_PER_SPREAD, float(np.ptp(losses)) / _MOST_CELLS)
    cells = np.floor(losses / width).astype(np.int64)
    lowest = int(cells.min())
    masses = np.bincount(cells - lowest, weights=probabilities)
    by_cell = {lowest + i: float(mass) for i, mass in enumerate(masses) if mass > 0}
    return PrivacyLossDistribution(
        pld_pmf.create_pmf(by_cell, width, infinity_mass=0.0, pessimistic_estimate=False)
    )


def _shown_counts(local_epsilon: float, n: int) -> tuple[Array, Array]:
    """P and log(P/Q) for the numbers of reported zeros and ones.

    With lie = 1/(e^eps0 + 2) and M the law of the others' counts, who each report 0 and 1 with
    probability ``lie``,

        P(a, b) = lie (e^eps0 M(a-1, b) + M(a, b-1) + M(a, b)),   Q(a, b) = P(b, a).
    """
    truth = math.exp(local_epsilon)
    lie = 1 / (truth + 2)
    mean = (n - 1) * lie
    reach = _reach(local_epsilon, n)
    counts = np.arange(max(0, math.floor(mean - reach)), min(n - 1, math.ceil(mean + reach)) + 1)
    zeros, ones = counts[:, None], counts[None, :]
    others = scipy.stats.binom.pmf(zeros, n - 1, lie)
    others = others * scipy.stats.binom.pmf(ones, n - 1 - zeros, lie / (1 - lie))
    padded = np.pad(others, ((1, 1), (1, 1)))
    shown = lie * (truth * padded[:-1, 1:] + padded[1:, :-1] + padded[1:, 1:])
    shown = shown[1:-1, 1:-1]  # at the rim a neighbour is missing
    p, q = shown.ravel(), shown.T.ravel()
    both = (p > 0) & (q > 0)
    return p[both], np.log(p[both] / q[both])


def _reach(local_epsilon: float, n: int) -> float:
    mean = (n - 1) / (math.exp(local_epsilon) + 2)
    return _REACH * math.sqrt(mean) + 2 * _REACH

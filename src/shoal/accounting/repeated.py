"""A lower bound for many rounds: what an explicit randomizer and data set already give away.

Everybody answers by the same randomizer, in every round anew; all the others hold one datum, one
person holds one of two throughout. What the shufflers show is then a product of equal distributions
P or Q, and the divergence of the products bounds from below the delta that any analysis of the
claim can promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from shoal.accounting.atoms import Array
from shoal.accounting.law import BlanketLaw, Ends

_REACH = 11.0  # standard deviations: counts further out are left out, which lowers the bound
_CELLS_PER_SPREAD = 400
_MOST_CELLS = 1 << 17
_MOST_ROUNDS = 10**5
# Far more delta than floating point can add to a composition of distributions by FFT.
_ROUNDING = 1e-9
_MOST_COUNTS = 4_000_000


@dataclass(frozen=True)
class Answers:
    """k answers, k > 2: one datum makes each of two more likely, and no other's the rest."""

    truth: float
    lie: float


def epsilon(law: BlanketLaw, *, n: int, rounds: int, delta: float) -> float:
    """An epsilon that no analysis of this many adaptive rounds can go below at ``delta``.

    Laws of no known randomizer, and crowds with too many likely counts to list, get the trivial
    bound 0. More rounds give away at least what fewer do: of very many, 100,000 are looked at.
    """
    claim, e = law.claim, math.exp(law.local_epsilon)
    shown: Ends | Answers | None = claim.ends
    # What any randomizers may do, randomized response of three answers does.
    answers = 3 if claim.clone_probability is not None else claim.categories
    if shown is None and answers is not None and answers > 2:
        shown = Answers(e / (e + answers - 1), 1 / (e + answers - 1))
    once = None if shown is None else _loss(shown, n)
    if once is None:
        return 0.0
    composed = once if rounds == 1 else once.self_compose(min(rounds, _MOST_ROUNDS))
    return max(0.0, float(composed.get_epsilon_for_delta(delta + _ROUNDING)))


@lru_cache(maxsize=16)
def _loss(shown: Ends | Answers, n: int) -> PrivacyLossDistribution | None:
    """The privacy loss log(P/Q) under P, every value rounded down to a grid.

    delta(epsilon) = E_P[(1 - e^(epsilon - loss))_+] grows with the loss, also when losses of
    several rounds are added up, so that rounding down keeps a lower bound.
    """
    probabilities, losses = _ones(shown, n) if isinstance(shown, Ends) else _pairs(shown, n)
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


def _ones(ends: Ends, n: int) -> tuple[Array, Array]:
    """P and log(P/Q) for the number of ones, all others as likely to report it as person 1 in P."""
    others = scipy.stats.binom(n - 1, ends.most)
    reach = _REACH * (float(others.std()) + 2)
    middle = float(others.mean())
    low, high = max(0, math.floor(middle - reach)), min(n - 1, math.ceil(middle + reach))
    if high - low > _MOST_COUNTS:
        return np.empty(0), np.empty(0)
    here = others.pmf(np.arange(low, high + 1))
    # At the rim of what is listed a neighbour is missing, unless there is none.
    here = np.pad(here, (int(low == 0), int(high == n - 1)))
    below, own = here[:-1], here[1:]
    p = ends.most * below + ends.rest * own
    return _both(p, ends.least * below + ends.unlike * own)


def _pairs(answers: Answers, n: int) -> tuple[Array, Array]:
    """P and log(P/Q) for the numbers of both answers, of which the others hold neither.

    With M the law of the others' counts, who each report either with probability ``lie``,

        P(a, b) = truth M(a-1, b) + lie M(a, b-1) + (1 - truth - lie) M(a, b),   Q(a, b) = P(b, a).
    """
    truth, lie = answers.truth, answers.lie
    mean = (n - 1) * lie
    reach = _REACH * math.sqrt(mean) + 2 * _REACH
    if (2 * reach) ** 2 > _MOST_COUNTS:
        return np.empty(0), np.empty(0)
    counts = np.arange(max(0, math.floor(mean - reach)), min(n - 1, math.ceil(mean + reach)) + 1)
    zeros, ones = counts[:, None], counts[None, :]
    others = scipy.stats.binom.pmf(zeros, n - 1, lie)
    others = others * scipy.stats.binom.pmf(ones, n - 1 - zeros, lie / (1 - lie))
    padded = np.pad(others, ((1, 1), (1, 1)))
    rest = 1 - truth - lie
    shown = truth * padded[:-1, 1:] + lie * padded[1:, :-1] + rest * padded[1:, 1:]
    shown = shown[1:-1, 1:-1]  # at the rim a neighbour is missing
    return _both(shown.ravel(), shown.T.ravel())


def _both(p: Array, q: Array) -> tuple[Array, Array]:
    """P and log(P/Q) where neither is 0."""
    possible = (p > 0) & (q > 0)
    return p[possible], np.log(p[possible] / q[possible])

"""Lower bounds: what an explicit data set already gives away.

If everybody else's reports follow ``R*`` the divergence between the two neighbouring data sets is
*exactly* ``(1/n) E[(Z_1 + ... + Z_n)_+]`` with ``Z = (R_0 - x R_1)/R*`` under ``R*``
(docs/theory/lower-bounds.md), so the same integral, read at its lower end, bounds from below what
any analysis of the same claim can prove. Binary randomized response is also summed exactly,
maximised over how many of the others hold each answer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import scipy

from shoal.accounting import integral
from shoal.accounting.atoms import Array, PairLaw
from shoal.accounting.law import BlanketLaw
from shoal.accounting.search import Side, crossing, log

LARGEST_BINARY_SUM = 2_000
_BINARY_FRACTIONS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_ROUNDING = 1e-10
_CELL_ERROR = 1e-11  # relative error of a binomial probability
_SMALL_CROWD = 300  # reports that may have come from anybody


def delta(law: BlanketLaw, *, n: int, epsilon: float) -> float:
    """A delta that some data set really has at this epsilon."""
    if epsilon >= law.local_epsilon:
        return 0.0
    deltas = [integral.enclose(pair, n=n, epsilon=epsilon).lower for pair in _telling(law, n)]
    if law.claim.binary and n <= LARGEST_BINARY_SUM:
        deltas.append(binary_response_delta(law.local_epsilon, n=n, epsilon=epsilon))
    return max(deltas, default=0.0)


def epsilon(law: BlanketLaw, *, n: int, delta: float) -> float:
    """An epsilon that no analysis can go below at this delta."""
    epsilons = [
        integral.epsilon(pair, n, delta, cap=pair.local_epsilon, side=Side.LOWER)
        for pair in _telling(law, n)
    ]
    best, local = max(epsilons, default=0.0), law.local_epsilon
    if not law.claim.binary or n > LARGEST_BINARY_SUM:
        return best

    def log_delta(epsilon: float) -> float:
        return log(binary_response_delta(local, n=n, epsilon=epsilon))

    return max(best, crossing(log_delta, log(delta), cap=local, guess=best, side=Side.LOWER))


def _telling(law: BlanketLaw, n: int) -> list[PairLaw]:
    """The witnesses worth evaluating: in a large crowd only the leading order counts."""
    likely = n * 2 / (math.exp(min(law.local_epsilon, 50.0)) + 1)
    if likely <= _SMALL_CROWD or not law.witnesses:
        return list(law.witnesses)
    most = max(pair.spread(n) for pair in law.witnesses)
    return [pair for pair in law.witnesses if pair.lost0.size or pair.spread(n) >= 0.9 * most]


def binary_response_delta(
    local_epsilon: float, *, n: int, epsilon: float, ones: Iterable[int] | None = None
) -> float:
    """Exact divergence of shuffled binary randomized response, maximised over the others' ones.

    The number of reported ones is all that a shuffler shows. Person 1 moves from answer 0 to 1
    while ``ones`` of the other n - 1 people hold answer 1 (a few fractions of them by default).
    """
    lie, x = 1 / (math.exp(local_epsilon) + 1), math.exp(epsilon)
    tried = {round(part * (n - 1)) for part in _BINARY_FRACTIONS} if ones is None else ones
    best = 0.0
    for m in tried:
        for first, second in itertools.permutations(binary_laws(lie, n - 1 - m, m)):
            cells = first - x * second - _CELL_ERROR * (first + x * second)
            best = max(best, float(np.maximum(cells, 0.0).sum()))
    return best * (1 - _ROUNDING)


def binary_laws(lie: float, zeros: int, ones: int) -> tuple[Array, Array]:
    """The number of ones reported by so many people, and by one more on answer 0, or on 1."""
    others = np.convolve(
        scipy.stats.binom.pmf(np.arange(zeros + 1), zeros, lie),
        scipy.stats.binom.pmf(np.arange(ones + 1), ones, 1 - lie),
    )
    return np.convolve(others, [1 - lie, lie]), np.convolve(others, [lie, 1 - lie])

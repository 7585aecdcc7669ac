"""Advanced composition: Kairouz, Oh, Viswanath 2015, Theorem 3.5 (arXiv 1311.0776)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shoal.accounting.profile import Curve

_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)


def epsilon(terms: Sequence[tuple[Curve, int]], delta: float) -> float:
    """epsilon of all rounds together, minimised over how delta is divided.

    Rounds that are (eps_i, delta_i)-DP compose to eps with
    1 - (1 - slack) prod (1 - delta_i) <= slack + sum delta_i, where

        eps = min{ sum eps_i,
                   m + sqrt(2 v log(1/slack)),
                   m + sqrt(2 v log(e + sqrt(v)/slack)) },
        m = sum eps_i (e^eps_i - 1)/(e^eps_i + 1),  v = sum eps_i^2.
    """
    rounds = sum(count for _, count in terms)
    best = math.inf
    for share in _SHARES:
        slack = share * delta
        each = (1 - share) * delta / rounds
        best = min(best, _composed([(curve.epsilon(each), count) for curve, count in terms], slack))
    return best


def _composed(parts: Sequence[tuple[float, int]], slack: float) -> float:
    total = sum(count * eps for eps, count in parts)
    drift = sum(count * eps * math.tanh(eps / 2) for eps, count in parts)
    squares = sum(count * eps**2 for eps, count in parts)
    logs = min(math.log(1 / slack), math.log(math.e + math.sqrt(squares) / slack))
    return min(total, drift + math.sqrt(2 * squares * logs))

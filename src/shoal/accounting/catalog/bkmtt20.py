"""BKMTT20: the adaptive bound of "Privacy Amplification via Random Check-Ins".

Shuffling n adaptive ε0-DP randomizers is (ε, δ)-DP with

    ε = e^3ε0 (e^ε0 − 1)²/(2n) + e^(3ε0/2) (e^ε0 − 1) √(2 log(1/δ)/n).

*The constants have not been checked against the paper*; the rate e^(5ε0/2)/√n is the one that other
papers quote for it. For comparisons only, never an answer.
"""

from __future__ import annotations

import math
from functools import partial

from shoal.accounting.catalog import Citation, Entry, Query, Status, exp_or_inf

_PAPER = Citation(
    "B. Balle, P. Kairouz, H. B. McMahan, O. Thakkar, A. Thakurta",
    "Privacy Amplification via Random Check-Ins",
    "NeurIPS 2020",
    "2007.06605",
    "amplification by shuffling, adaptive (constants not checked against the paper)",
)


@partial(
    Entry,
    "bkmtt20",
    "Random check-ins",
    _PAPER,
    regime="none known; above local_epsilon it says nothing",
    status=Status.RECALLED,
)
def recalled(query: Query) -> float:
    """The recalled number."""
    shrink = -math.expm1(-query.local_epsilon)
    step = exp_or_inf(2.5 * query.local_epsilon) * shrink / math.sqrt(query.n)
    return step * (step / 2 + math.sqrt(2 * query.log_over(1)))

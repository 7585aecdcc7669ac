"""BKMTT20: the adaptive bound of "Privacy Amplification via Random Check-Ins".

Shuffling n adaptive ε0-DP randomizers is (ε, δ)-DP with

    ε = e^3ε0 (e^ε0 − 1)²/(2n) + e^(3ε0/2) (e^ε0 − 1) √(2 log(1/δ)/n).

*The constants are recalled and have not been verified against the paper*; the rate e^(5ε0/2)/√n is
the one other papers quote for it. For comparisons only, never an answer.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import ANY, Citation, Entry, Query, Status, exp_or_inf


def evaluate(query: Query) -> float:
    """Return the recalled number."""
    shrink = -math.expm1(-query.local_epsilon)
    step = exp_or_inf(2.5 * query.local_epsilon) * shrink / math.sqrt(query.n)
    return step * (step / 2 + math.sqrt(2 * query.log_over(1)))


ENTRY = Entry(
    name="bkmtt20",
    title="Random check-ins",
    citation=Citation(
        authors="B. Balle, P. Kairouz, H. B. McMahan, O. Thakkar, A. Thakurta",
        title="Privacy Amplification via Random Check-Ins",
        venue="NeurIPS 2020",
        arxiv="2007.06605",
        theorem="amplification by shuffling, adaptive (constants recalled, not verified)",
    ),
    scope=ANY,
    status=Status.RECALLED,
    regime="none recalled; above local_epsilon it says nothing",
    evaluate=evaluate,
)

"""EFMRTT19: the first amplification-by-shuffling theorem.

Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta. Amplification by Shuffling: From Local
to Central Differential Privacy via Anonymity. SODA 2019, arXiv:1811.12469.

**Small ε0** (``efmrtt19``). If ε0 <= 1/2, n >= 1000 and δ < 1/100, shuffling n adaptive ε0-DP
randomizers is (ε, δ)-DP with ε = 12 ε0 √(log(1/δ)/n).

Checked independently. If n < 21.3 log(2/δ), the number is above ε0 and says nothing. Otherwise
Lemma A.1 of FMT21 applies to the optimal clones (fraction 2/(e^ε0 + 1) >= 0.755, weight at most
ε0/2) and gives ε <= ε0 (4.61 √(log(4/δ)/n) + 5.3/n), at most 5.4 ε0 √(log(1/δ)/n) for δ < 1/100.

**Any ε0** (``efmrtt19-general``). With ε1 = 2 e^2ε0 (e^ε0 − 1)/n,
ε = ε1 √(2 n log(1/δ)) + n ε1 (e^ε1 − 1). *Its constants are recalled and have not been verified
against the paper*: for comparisons only, never an answer.
"""

from __future__ import annotations

import math
from dataclasses import replace

from shoal.accounting.catalog import ANY, Citation, Entry, Query, Status, exp_or_inf


def evaluate(query: Query) -> float | None:
    """Return ε = 12 ε0 √(log(1/δ)/n)."""
    if not (query.local_epsilon <= 0.5 and query.n >= 1000 and query.delta < 0.01):
        return None
    return 12 * query.local_epsilon * math.sqrt(query.log_over(1) / query.n)


def evaluate_general(query: Query) -> float:
    """Return the recalled number for any ε0."""
    growth = exp_or_inf(3 * query.local_epsilon)
    if math.isinf(growth):
        return math.inf
    step = 2 * growth * -math.expm1(-query.local_epsilon) / query.n
    spread = step * math.sqrt(2 * query.n * query.log_over(1))
    return spread + query.n * step * (exp_or_inf(step) - 1 if step > 1 else math.expm1(step))


_PAPER = Citation(
    authors="Ú. Erlingsson, V. Feldman, I. Mironov, A. Raghunathan, K. Talwar, A. Thakurta",
    title="Amplification by Shuffling: From Local to Central Differential Privacy via Anonymity",
    venue="SODA 2019",
    arxiv="1811.12469",
    theorem="amplification by shuffling, local_epsilon <= 1/2",
)

ENTRY = Entry(
    name="efmrtt19",
    title="Amplification by shuffling, small ε0",
    citation=_PAPER,
    scope=ANY,
    status=Status.PROVED,
    regime="local_epsilon <= 1/2, n >= 1000 and delta < 1/100",
    evaluate=evaluate,
)

GENERAL_ENTRY = replace(
    ENTRY,
    name="efmrtt19-general",
    title="Amplification by shuffling, any ε0",
    citation=replace(
        _PAPER,
        theorem="amplification by shuffling, general form (constants recalled, not verified)",
    ),
    status=Status.RECALLED,
    regime="none recalled; above local_epsilon it says nothing",
    evaluate=evaluate_general,
)

"""EFMRTT19: the first amplification-by-shuffling theorem.

Erlingsson, Feldman, Mironov, Raghunathan, Talwar, Thakurta. Amplification by Shuffling: From Local
to Central Differential Privacy via Anonymity. SODA 2019, arXiv:1811.12469.

**Small ε0** (``efmrtt19``). If ε0 <= 1/2, n >= 1000 and δ < 1/100, shuffling n adaptive ε0-DP
randomizers is (ε, δ)-DP with ε = 12 ε0 √(log(1/δ)/n).

Checked independently. If n < 21.3 log(2/δ), the number is above ε0 and says nothing. Otherwise
Lemma A.1 of FMT21 applies to the optimal clones (fraction 2/(e^ε0 + 1) >= 0.755, weight at most
ε0/2) and gives ε <= ε0 (4.61 √(log(4/δ)/n) + 5.3/n), at most 5.4 ε0 √(log(1/δ)/n) for δ < 1/100.

**Any ε0** (``efmrtt19-general``). With ε1 = 2 e^2ε0 (e^ε0 − 1)/n,
ε = ε1 √(2 n log(1/δ)) + n ε1 (e^ε1 − 1): Theorem 7. *Quoted, its proof not followed*: for
comparisons only, never an answer.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from shoal.accounting.catalog import Citation, Entry, Query, Status, exp_or_inf

_PAPER = Citation(
    "Ú. Erlingsson, V. Feldman, I. Mironov, A. Raghunathan, K. Talwar, A. Thakurta",
    "Amplification by Shuffling: From Local to Central Differential Privacy via Anonymity",
    "SODA 2019",
    "1811.12469",
    "amplification by shuffling, local_epsilon <= 1/2",
)
_GENERAL = "Theorem 7, general form (quoted, its proof not followed)"


@partial(
    Entry,
    "efmrtt19",
    "Amplification by shuffling, small ε0",
    _PAPER,
    regime="local_epsilon <= 1/2, n >= 1000 and delta < 1/100",
)
def small(query: Query) -> float | None:
    """ε = 12 ε0 √(log(1/δ)/n)."""
    if not (query.local_epsilon <= 0.5 and query.n >= 1000 and query.delta < 0.01):
        return None
    return 12 * query.local_epsilon * math.sqrt(query.log_over(1) / query.n)


@partial(
    Entry,
    "efmrtt19-general",
    "Amplification by shuffling, any ε0",
    replace(_PAPER, theorem=_GENERAL),
    regime="none; above local_epsilon it says nothing",
    status=Status.QUOTED,
)
def general(query: Query) -> float:
    """The number for any ε0."""
    growth = exp_or_inf(3 * query.local_epsilon)
    if math.isinf(growth):
        return math.inf
    step = 2 * growth * -math.expm1(-query.local_epsilon) / query.n
    spread = step * math.sqrt(2 * query.n * query.log_over(1))
    return spread + query.n * step * (exp_or_inf(step) - 1 if step > 1 else math.expm1(step))

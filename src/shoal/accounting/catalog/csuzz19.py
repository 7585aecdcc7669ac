"""CSUZZ19: binary randomized response, the first shuffled protocol.

Let λ = 2n/(e^ε0 + 1) be the expected number of uniformly random bits, 14 log(4/δ) <= λ <= n, and
L = λ − √(2λ log(2/δ)). Shuffling n bits, each through ε0-DP randomized response, is (ε, δ)-DP with

    ε = √(32 log(4/δ)/L) · (1 − L/n).

*The constants have not been checked against the paper*; the number has not been seen below the
exact one. For comparisons only, never an answer.
"""

from __future__ import annotations

import math
from functools import partial

from shoal.accounting.catalog import Citation, Entry, Query, Status

NAME = "csuzz19"
SCOPE_CONDITION = "binary randomized response (k = 2)"
CONDITION = "2n / (exp(local_epsilon) + 1) >= 14 log(4/delta)"


_PAPER = Citation(
    "A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev",
    "Distributed Differential Privacy via Shuffling",
    "EUROCRYPT 2019",
    "1808.01394",
    "privacy of the shuffled bit protocol (constants not checked against the paper)",
)


@partial(
    Entry,
    NAME,
    "Shuffled binary randomized response",
    _PAPER,
    regime=f"{SCOPE_CONDITION}, {CONDITION}",
    scope="binary randomized response, the same for all users",
    status=Status.RECALLED,
)
def recalled(query: Query) -> float:
    """The recalled number."""
    if query.k != 2:
        raise query.out_of_regime(NAME, SCOPE_CONDITION)
    inverse = math.exp(-query.local_epsilon)
    uniform = 2 * query.n * inverse / (1 + inverse)
    if uniform < 14 * query.log_over(4):
        raise query.out_of_regime(NAME, CONDITION)
    fewest = uniform - math.sqrt(2 * uniform * query.log_over(2))
    return math.sqrt(32 * query.log_over(4) / fewest) * (1 - fewest / query.n)

"""FMT21 as first announced: Theorem 2.1 of the workshop version.

If ε0 <= log(n / (16 log(2/δ))), shuffling n adaptive ε0-DP randomizers is (ε, δ)-DP with

    ε = log(1 + (1 − e^−2ε0) · (8 √(e^ε0 log(4/δ)/n) + 8 e^ε0/n)).

The full paper's Theorem 3.1 has (e^ε0 − 1)/(e^ε0 + 1) in place of the first factor, under the same
condition, and that is smaller, since 1 − e^−2ε0 = (e^ε0 − 1)(e^ε0 + 1)/e^2ε0 and
(e^ε0 + 1)² >= e^2ε0. So the workshop's number is a bound because the paper's is.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status, out_of_regime

NAME = "fmt21-workshop"
CONDITION = "local_epsilon <= log(n / (16 log(2/delta)))"


def evaluate(query: Query) -> float:
    """Return the ε of the workshop version's Theorem 2.1."""
    share = math.exp(-query.local_epsilon)
    if not clone_lemma.covers(share=share, n=query.n, delta=query.delta):
        raise out_of_regime(NAME, CONDITION, query)
    weight = -math.expm1(-2 * query.local_epsilon)
    return clone_lemma.epsilon(weight=weight, share=share, n=query.n, delta=query.delta)


ENTRY = Entry(
    name=NAME,
    title="Clones, workshop version",
    citation=Citation(
        authors="V. Feldman, A. McMillan, K. Talwar",
        title="Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy "
        "Amplification by Shuffling",
        venue="workshop version of the FOCS 2021 paper",
        theorem="Theorem 2.1",
    ),
    scope="any ε0-DP randomizers, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime=CONDITION,
    evaluate=evaluate,
)

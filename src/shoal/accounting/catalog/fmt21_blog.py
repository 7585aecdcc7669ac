"""FMT21 as told in the blog post "Privacy Doona": one term, with the constant 16.

Shuffling n reports of one ε0-DP randomizer is (ε, δ)-DP with

    ε = log(1 + 16 (e^ε0 − 1)/(e^ε0 + 1) · √(e^ε0 log(4/δ)/n)),

"as long as n ≫ e^ε0 log(1/δ)". The condition made provable: Theorem 3.1 of the paper gives the
number whenever it applies and 8 e^ε0/n <= 8 √(e^ε0 log(4/δ)/n), that is n >= e^ε0/log(4/δ). The
theorem's own condition n >= 16 e^ε0 log(2/δ) already implies that, as 16 log 2 > 1/log 4, so it is
the only one to check.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status, log_over, out_of_regime

NAME = "fmt21-blog"
CONDITION = "n >= 16 exp(local_epsilon) log(2/delta)"


def evaluate(query: Query) -> float:
    """Return the ε of the post's equation (1)."""
    share = math.exp(-query.local_epsilon)
    if not clone_lemma.covers(share=share, n=query.n, delta=query.delta):
        raise out_of_regime(NAME, CONDITION, query)
    weight = math.tanh(query.local_epsilon / 2)
    return math.log1p(16 * weight * math.sqrt(log_over(4, query.delta) / (share * query.n)))


ENTRY = Entry(
    name=NAME,
    title="Clones, one-term form",
    citation=Citation(
        authors="C. Canonne",
        title="Privacy Doona: Why We Should Hide Among The Clones",
        venue="DifferentialPrivacy.org, 2022",
        theorem="Equation (1), after Feldman, McMillan, Talwar (FOCS 2021, Theorem 3.1)",
    ),
    scope="any ε0-DP randomizers, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime=CONDITION,
    evaluate=evaluate,
)

"""Clones: the numerical bound of FMT21, Theorem 3.2.

With C ~ Bin(n - 1, e^-ε0), A ~ Bin(C, 1/2) and D ~ Bern(e^ε0/(e^ε0 + 1)), the shuffled outputs on
two neighbouring data sets are a post-processing of (A + D, C - A + 1 - D) and
(A + 1 - D, C - A + D). Evaluated by the certified integral; no regime: any n >= 1.
"""

from __future__ import annotations

from shoal.accounting.catalog.entry import Citation, Entry, Query, Status
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile


def _evaluate(query: Query) -> float:
    law = BlanketLaw.clones(query.local_epsilon)
    return PrivacyProfile(law, query.n).epsilon(query.delta)


ENTRY = Entry(
    name="clones",
    title="Clones, numerical",
    citation=Citation(
        authors="V. Feldman, A. McMillan, K. Talwar",
        title="Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy "
        "Amplification by Shuffling",
        venue="FOCS 2021",
        arxiv="2012.12803",
        theorem="Theorem 3.2",
    ),
    scope="any ε0-DP randomizers, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime="none: any n >= 1",
    evaluate=_evaluate,
)

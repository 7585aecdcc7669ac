"""Optimal clones: the default bound for arbitrary randomizers.

For every adaptive sequence of ε0-DP randomizers and every ε >= 0,

    δ(ε) <= (1/n) E[(Z_1 + ... + Z_n)_+],  Z iid,  with e = e^ε0 and x = e^ε:
    Z = e - x and Z = 1 - e x with probability 1/(e + 1) each, else 0.

The number was published by Feldman, McMillan and Talwar 2023 with a proof that their erratum
withdraws for arbitrary randomizers; docs/theory/optimal-clones.md proves it independently.
Evaluated by the certified integral (docs/theory/integral.md); no regime: any n >= 1.
"""

from __future__ import annotations

from shoal.accounting.catalog.entry import Citation, Entry, Query, Status
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile


def _evaluate(query: Query) -> float:
    law = BlanketLaw.generic(query.local_epsilon)
    return PrivacyProfile(law, query.n).epsilon(query.delta)


ENTRY = Entry(
    name="optimal-clones",
    title="Optimal clones, numerical",
    citation=Citation(
        authors="V. Feldman, A. McMillan, K. Talwar",
        title="Stronger Privacy Amplification by Shuffling for Rényi and Approximate "
        "Differential Privacy",
        venue="SODA 2023",
        arxiv="2208.04591",
        theorem="The number of its Theorem 3.2, proved in docs/theory/optimal-clones.md",
    ),
    scope="any ε0-DP randomizers, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime="none: any n >= 1",
    evaluate=_evaluate,
)

"""BBGN19 with Hoeffding's inequality.

For one fixed randomizer, with γ, L and M as in
:mod:`~shoal.accounting.catalog.bbgn19_mechanisms`, width r of the range of L, and a = e^ε − 1,

    δ(ε) = r²/(4 a γ n) · (1 − γ (1 − e^(−2a²/r²)))^n.

Proof, as followed here. Given M = m, Hoeffding gives Pr[ΣL >= t] <= exp(−2(ma+t)²/(m r²)), at most
exp(−2m a²/r²) exp(−4at/r²); integrating over t > 0 bounds E[(ΣL)_+] by r²/(4a) exp(−2m a²/r²), and
the mean of that over M is the power above. No condition is needed; there is nothing to say when
the curve stays above δ all the way to ε0.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog.bbgn19_mechanisms import CONDITION, Mechanism, epsilon_on
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status

NAME = "bbgn19-hoeffding"


def log_delta(epsilon: float, *, blanket: Mechanism, n: int) -> float:
    """Return log δ(ε) of the Hoeffding bound, for 0 < ε < ε0."""
    a = math.expm1(epsilon)
    width = blanket.loss(epsilon).width
    front = 2 * math.log(width) - math.log(4 * a * blanket.gamma * n)
    return front + n * blanket.log_transform(2 * (a / width) ** 2)


def evaluate(query: Query) -> float:
    """Return the first ε below ε0 where the curve has come down to δ."""
    return epsilon_on(log_delta, query, bound=NAME)


ENTRY = Entry(
    name=NAME,
    title="Privacy blanket, Hoeffding",
    citation=Citation(
        authors="B. Balle, J. Bell, A. Gascón, K. Nissim",
        title="The Privacy Blanket of the Shuffle Model",
        venue="CRYPTO 2019",
        arxiv="1903.02837",
        theorem="the privacy-blanket lemma with Hoeffding's inequality",
    ),
    scope="one fixed ε0-DP randomizer for all users; tighter for randomized response and Laplace",
    adaptive=False,
    status=Status.PROVED,
    regime=CONDITION,
    evaluate=evaluate,
)

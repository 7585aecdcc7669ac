"""BBGN19 with Bennett's inequality.

For one fixed randomizer, with γ, L and M as in
:mod:`~shoal.accounting.catalog.bbgn19_mechanisms`, L <= b, E[L²] <= c, a = e^ε − 1, u = a b/c and
φ(u) = (1+u) log(1+u) − u,

    δ(ε) = b/(γ n log(1+u)) · ((1 − γ + γ e^−s)^n − (1 − γ)^n),          s = (c/b²) φ(u).

Proof, as followed here. (e^y − 1 − y)/y² increases, so E[e^(λL)] <= exp(−λa + (c/b²)(e^(λb)−1−λb))
with the *second moment* c (the published statement has a misprint there). Choose e^(λb) = 1 + u:
given M = m >= 1, Pr[ΣL >= t] <= e^(−ms − λt), so E[(ΣL)_+] <= e^(−ms)/λ. The mean over M >= 1 is
the bracket. No condition is needed; there is nothing to say when the curve stays above δ all the
way to ε0.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog.bbgn19_mechanisms import CONDITION, Mechanism, epsilon_on
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status

NAME = "bbgn19-bennett"

_SERIES_BELOW = 1e-3
_LOG_TINY = -25.0


def log_delta(epsilon: float, *, blanket: Mechanism, n: int) -> float:
    """Return log δ(ε) of the Bennett bound, for 0 < ε < ε0."""
    loss = blanket.loss(epsilon)
    b, c = loss.ceiling, loss.second_moment
    u = math.expm1(epsilon) * b / c
    s = c / b**2 * _phi(u)
    front = math.log(b) - math.log(math.log1p(u)) - math.log(blanket.gamma * n)
    return front + n * blanket.log_transform(s) + _log_someone(s, blanket=blanket, n=n)


def _log_someone(s: float, *, blanket: Mechanism, n: int) -> float:
    # log(1 − (1−γ)^n / (1−γ+γe^−s)^n), the factor that leaves M = 0 out.
    log_odds = math.log(blanket.gamma) - math.log(blanket.rest) - s
    log_mean = math.log(n) + log_odds
    if log_mean < _LOG_TINY:
        return log_mean  # 1 − (1+y)^−n <= n y
    return math.log(-math.expm1(-n * math.log1p(math.exp(log_odds))))


def _phi(u: float) -> float:
    # The series stops after a negative term, so it stays below φ: the safe side.
    if u < _SERIES_BELOW:
        return u * u * (1 / 2 - u * (1 / 6 - u * (1 / 12 - u / 20)))
    return (1 + u) * math.log1p(u) - u


def evaluate(query: Query) -> float:
    """Return the first ε below ε0 where the curve has come down to δ."""
    return epsilon_on(log_delta, query, bound=NAME)


ENTRY = Entry(
    name=NAME,
    title="Privacy blanket, Bennett",
    citation=Citation(
        authors="B. Balle, J. Bell, A. Gascón, K. Nissim",
        title="The Privacy Blanket of the Shuffle Model",
        venue="CRYPTO 2019",
        arxiv="1903.02837",
        theorem="the privacy-blanket lemma with Bennett's inequality",
    ),
    scope="one fixed ε0-DP randomizer for all users; tighter for randomized response and Laplace",
    adaptive=False,
    status=Status.PROVED,
    regime=CONDITION,
    evaluate=evaluate,
)

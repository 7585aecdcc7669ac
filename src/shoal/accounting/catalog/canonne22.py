"""The blog post "Privacy Doona": one term instead of two, and two rules of thumb.

C. Canonne. Privacy Doona: Why We Should Hide Among The Clones. DifferentialPrivacy.org, 2022, after
Theorem 3.1 of Feldman, McMillan, Talwar (FOCS 2021, arXiv:2012.12803).

**The rules of thumb are no bounds.** ``blog-small`` is a Taylor expansion of the post's equation
(1), ``blog-large`` of the theorem behind it; both drop terms of either sign, and the second is half
of what equation (1) tends to. They show how ε scales, and are refused where the post does not claim
even that.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status, log_over, out_of_regime

TURNING_POINT = 1.0
_CROWD = "n >= 16 exp(local_epsilon) log(2/delta)"
_SMALL_CONDITION = f"local_epsilon <= 1 and {_CROWD}"
_LARGE_CONDITION = f"local_epsilon >= 1 and {_CROWD}"


def one_term(query: Query) -> float:
    """Equation (1): ε = log(1 + 16 (e^ε0 − 1)/(e^ε0 + 1) · √(e^ε0 log(4/δ)/n)).

    The post says "as long as n ≫ e^ε0 log(1/δ)". Made provable: Theorem 3.1 of the paper gives the
    number whenever it applies and 8 e^ε0/n <= 8 √(e^ε0 log(4/δ)/n), that is n >= e^ε0/log(4/δ). The
    theorem's own condition n >= 16 e^ε0 log(2/δ) already implies that, as 16 log 2 > 1/log 4.
    """
    if not _crowded(query):
        raise out_of_regime("fmt21-blog", _CROWD, query)
    weight = math.tanh(query.local_epsilon / 2)
    clones = math.exp(-query.local_epsilon) * query.n
    return math.log1p(16 * weight * math.sqrt(log_over(4, query.delta) / clones))


def small(query: Query) -> float:
    """For ε0 ≪ 1: ε ≈ 8 ε0 √(log(4/δ)/n)."""
    if query.local_epsilon > TURNING_POINT or not _crowded(query):
        raise out_of_regime("blog-small", _SMALL_CONDITION, query)
    return 8 * query.local_epsilon * math.sqrt(log_over(4, query.delta) / query.n)


def large(query: Query) -> float:
    """For ε0 ≫ 1, equation (2): ε ≈ log(1 + 8 √(e^ε0 log(4/δ)/n))."""
    if query.local_epsilon < TURNING_POINT or not _crowded(query):
        raise out_of_regime("blog-large", _LARGE_CONDITION, query)
    clones = math.exp(-query.local_epsilon) * query.n
    return math.log1p(8 * math.sqrt(log_over(4, query.delta) / clones))


def _crowded(query: Query) -> bool:
    fraction = math.exp(-query.local_epsilon)
    return clone_lemma.covers(share=fraction, n=query.n, delta=query.delta)


def _citation(theorem: str) -> Citation:
    return Citation(
        authors="C. Canonne",
        title="Privacy Doona: Why We Should Hide Among The Clones",
        venue="DifferentialPrivacy.org, 2022",
        theorem=theorem,
    )


ONE_TERM = Entry(
    name="fmt21-blog",
    title="Clones, one-term form",
    citation=_citation("Equation (1), after Feldman, McMillan, Talwar (FOCS 2021, Theorem 3.1)"),
    scope="any ε0-DP randomizers, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime=_CROWD,
    evaluate=one_term,
)
SMALL = Entry(
    name="blog-small",
    title="Rule of thumb, small ε0",
    citation=_citation("Taylor expansion of equation (1), local_epsilon much below 1"),
    scope="one ε0-DP randomizer for all users",
    adaptive=False,
    status=Status.APPROXIMATION,
    regime=_SMALL_CONDITION,
    evaluate=small,
)
LARGE = Entry(
    name="blog-large",
    title="Rule of thumb, large ε0",
    citation=_citation("Equation (2), local_epsilon much above 1"),
    scope="one ε0-DP randomizer for all users",
    adaptive=False,
    status=Status.APPROXIMATION,
    regime=_LARGE_CONDITION,
    evaluate=large,
)

"""The rules of thumb of the blog post "Privacy Doona": what ε is *about*.

C. Canonne, DifferentialPrivacy.org, 2022, after Theorem 3.1 of Feldman, McMillan, Talwar (FOCS
2021, arXiv:2012.12803). With n ≫ e^ε0 log(1/δ):

* ε0 ≪ 1 (``blog-small``):  ε ≈ 8 ε0 √(log(4/δ)/n);
* ε0 ≫ 1 (``blog-large``):  ε ≈ log(1 + 8 √(e^ε0 log(4/δ)/n)), its equation (2).

**Neither is a bound.** The first is a Taylor expansion of the post's equation (1), the second of
the theorem behind it; both drop terms of either sign, and the second is half of what equation (1)
tends to. They show how ε scales, and are refused where the post does not claim even that.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import (
    Citation,
    Entry,
    Query,
    Status,
    log_over,
    out_of_regime,
)

SMALL_NAME = "blog-small"
LARGE_NAME = "blog-large"
TURNING_POINT = 1.0
CROWD = "n >= 16 exp(local_epsilon) log(2/delta)"
SMALL_CONDITION = f"local_epsilon <= 1 and {CROWD}"
LARGE_CONDITION = f"local_epsilon >= 1 and {CROWD}"


def evaluate_small(query: Query) -> float:
    """Return 8 ε0 √(log(4/δ)/n)."""
    if query.local_epsilon > TURNING_POINT or not _crowded(query):
        raise out_of_regime(SMALL_NAME, SMALL_CONDITION, query)
    return 8 * query.local_epsilon * math.sqrt(log_over(4, query.delta) / query.n)


def evaluate_large(query: Query) -> float:
    """Return log(1 + 8 √(e^ε0 log(4/δ)/n))."""
    if query.local_epsilon < TURNING_POINT or not _crowded(query):
        raise out_of_regime(LARGE_NAME, LARGE_CONDITION, query)
    clones = math.exp(-query.local_epsilon) * query.n
    return math.log1p(8 * math.sqrt(log_over(4, query.delta) / clones))


def _crowded(query: Query) -> bool:
    share = math.exp(-query.local_epsilon)
    return clone_lemma.covers(share=share, n=query.n, delta=query.delta)


def _citation(theorem: str) -> Citation:
    return Citation(
        authors="C. Canonne",
        title="Privacy Doona: Why We Should Hide Among The Clones",
        venue="DifferentialPrivacy.org, 2022",
        theorem=theorem,
    )


SMALL_ENTRY = Entry(
    name=SMALL_NAME,
    title="Rule of thumb, small ε0",
    citation=_citation("Taylor expansion of equation (1), local_epsilon much below 1"),
    scope="one ε0-DP randomizer for all users",
    adaptive=False,
    status=Status.APPROXIMATION,
    regime=SMALL_CONDITION,
    evaluate=evaluate_small,
)

LARGE_ENTRY = Entry(
    name=LARGE_NAME,
    title="Rule of thumb, large ε0",
    citation=_citation("Equation (2), local_epsilon much above 1"),
    scope="one ε0-DP randomizer for all users",
    adaptive=False,
    status=Status.APPROXIMATION,
    regime=LARGE_CONDITION,
    evaluate=evaluate_large,
)

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
from dataclasses import replace
from functools import partial

from shoal.accounting.catalog import Citation, Entry, Query, Status, clone_lemma

_CROWD = "n >= 16 exp(local_epsilon) log(2/delta)"
_POST = Citation(
    "C. Canonne",
    "Privacy Doona: Why We Should Hide Among The Clones",
    "DifferentialPrivacy.org, 2022",
    theorem="Equation (1), after Feldman, McMillan, Talwar (FOCS 2021, Theorem 3.1)",
)
_RULE = partial(Entry, scope="one ε0-DP randomizer for all users", status=Status.APPROXIMATION)


@partial(Entry, "fmt21-blog", "Clones, one-term form", _POST, regime=_CROWD)
def one_term(query: Query) -> float | None:
    """Equation (1): ε = log(1 + 16 (e^ε0 − 1)/(e^ε0 + 1) · √(e^ε0 log(4/δ)/n)).

    The post says "as long as n ≫ e^ε0 log(1/δ)". Made provable: Theorem 3.1 of the paper gives the
    number whenever it applies and 8 e^ε0/n <= 8 √(e^ε0 log(4/δ)/n), that is n >= e^ε0/log(4/δ). The
    theorem's own condition n >= 16 e^ε0 log(2/δ) already implies that, as 16 log 2 > 1/log 4.
    """
    if not _crowded(query):
        return None
    weight = math.tanh(query.local_epsilon / 2)
    clones = math.exp(-query.local_epsilon) * query.n
    return math.log1p(16 * weight * math.sqrt(query.log_over(4) / clones))


@partial(
    _RULE,
    "blog-small",
    "Rule of thumb, small ε0",
    replace(_POST, theorem="Taylor expansion of equation (1), local_epsilon much below 1"),
    regime=f"local_epsilon <= 1 and {_CROWD}",
)
def small(query: Query) -> float | None:
    """For ε0 ≪ 1: ε ≈ 8 ε0 √(log(4/δ)/n)."""
    if query.local_epsilon > 1 or not _crowded(query):
        return None
    return 8 * query.local_epsilon * math.sqrt(query.log_over(4) / query.n)


@partial(
    _RULE,
    "blog-large",
    "Rule of thumb, large ε0",
    replace(_POST, theorem="Equation (2), local_epsilon much above 1"),
    regime=f"local_epsilon >= 1 and {_CROWD}",
)
def large(query: Query) -> float | None:
    """For ε0 ≫ 1, equation (2): ε ≈ log(1 + 8 √(e^ε0 log(4/δ)/n))."""
    if query.local_epsilon < 1 or not _crowded(query):
        return None
    clones = math.exp(-query.local_epsilon) * query.n
    return math.log1p(8 * math.sqrt(query.log_over(4) / clones))


def _crowded(query: Query) -> bool:
    fraction = math.exp(-query.local_epsilon)
    return clone_lemma.covers(fraction=fraction, n=query.n, delta=query.delta)

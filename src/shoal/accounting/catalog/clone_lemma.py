"""Lemma A.1 and Lemma 2.3 of FMT21: the engine of every closed form about clones.

Feldman, McMillan, Talwar. Hiding Among the Clones. FOCS 2021, arXiv:2012.12803.

**Lemma A.1.** Let C ~ Bin(n−1, s), A ~ Bin(C, 1/2) and s·n >= 16 log(2/δ). Then (A+1, C−A) and
(A, C−A+1) are (ε', δ)-indistinguishable, with

    e^ε' = 1 + 8 √(log(4/δ)/(s n)) + 8/(s n).

Proof, as followed here. The likelihood ratio at (a, b) is a/b. (i) s·n >= 16 log 2 forces n >= 12,
and then Chernoff's lower tail gives Pr[C < s n/2] <= δ/2. (ii) Given C, Hoeffding gives
A <= C/2 + t, t = √(C log(2/δ)/2), except with probability δ/2. (iii) There
a/b − 1 <= (2t+1)/(C/2−t), which decreases in C; at C = s n/2 its denominator is
s n/4 − ½√(s n log(2/δ)) >= s n/8, exactly because of the condition, and its numerator
√(s n log(2/δ)) + 1. So the lemma holds with log(2/δ) in place of log(4/δ) too, for every
0 < δ <= 1 and 0 < s <= 1: the condition is what step (iii) needs.

**Lemma 2.3** (advanced joint convexity; Balle, Barthe, Gaboardi. JPC 2020, arXiv:1807.01647). If
P = (1−w) P0 + w P1 and Q = (1−w) P0 + w Q1, and P0, P1, Q1 are pairwise
(ε', δ)-indistinguishable, then P and Q are (log(1 + w (e^ε' − 1)), w δ)-indistinguishable.
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import Query


def covers(*, fraction: float, n: int, delta: float) -> bool:
    """Whether ``fraction``·n >= 16 log(2/δ), the condition of Lemma A.1."""
    return fraction * n >= 16 * (math.log(2) - math.log(delta))


def epsilon(*, weight: float, fraction: float, n: int, delta: float) -> float:
    """Return log(1 + weight·(8 √(log(4/δ)/(s n)) + 8/(s n))), for a covered ``fraction`` s."""
    clones = fraction * n
    spread = 8 * math.sqrt((math.log(4) - math.log(delta)) / clones)
    return math.log1p(weight * (spread + 8 / clones))


def closed_form(query: Query, *, weight: float, fraction: float) -> float | None:
    """The ε of both lemmas, or None outside their condition."""
    if not covers(fraction=fraction, n=query.n, delta=query.delta):
        return None
    return epsilon(weight=weight, fraction=fraction, n=query.n, delta=query.delta)

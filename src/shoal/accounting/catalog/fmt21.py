"""FMT21: "Hiding Among the Clones", numerically and in its closed forms.

V. Feldman, A. McMillan, K. Talwar. Hiding Among the Clones: A Simple and Nearly Optimal Analysis of
Privacy Amplification by Shuffling. FOCS 2021, arXiv:2012.12803. All but Theorem 3.2 are Lemma A.1
with a clone fraction s and Lemma 2.3 with a weight (:mod:`~shoal.accounting.catalog.clone_lemma`);
their conditions say s·n >= 16 log(2/δ).

>>> from shoal.accounting.catalog import Query
>>> round(closed.epsilon(Query(local_epsilon=4, n=100_000, delta=1e-6)), 6)
0.534634
>>> round(krr_closed.epsilon(Query(local_epsilon=1, n=10_000, delta=1e-6, k=10)), 5)
0.11053
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from shoal import checks
from shoal.accounting.catalog import ANY, OPTIMAL_CLONES, Citation, Entry, Query, clone_lemma
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.errors import OutOfRegimeError

LARGEST_P = 1 / 3
_THM41_CONDITION = "p n >= 8 log(2/delta)"
_KRR_SCOPE = "k-ary randomized response (give k)"
_KRR_CONDITION = "n >= 8 log(2/delta) (k+1) (exp(local_epsilon) + k - 1) / k"
_PAPER = Citation(
    "V. Feldman, A. McMillan, K. Talwar",
    "Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy Amplification by "
    "Shuffling",
    "FOCS 2021",
    "2012.12803",
    "Theorem 3.2",
)
_WORKSHOP = replace(
    _PAPER, venue="workshop version of the FOCS 2021 paper", arxiv=None, theorem="Theorem 2.1"
)
_CLOSED = "local_epsilon <= log(n / (16 log(2/delta)))"


@partial(Entry, "clones", "Clones, numerical", _PAPER)
def clones(query: Query) -> float:
    """Theorem 3.2, numerically: no regime, any n >= 1.

    With C ~ Bin(n - 1, e^-ε0), A ~ Bin(C, 1/2) and D ~ Bern(e^ε0/(e^ε0 + 1)), the shuffled outputs
    on two neighbouring data sets are a post-processing of (A + D, C - A + 1 - D) and
    (A + 1 - D, C - A + D). Evaluated by the certified integral.
    """
    law = BlanketLaw.clones(query.local_epsilon)
    return PrivacyProfile(law, query.n).epsilon(query.delta)


@partial(
    Entry,
    "fmt21-closed",
    "Clones, closed form",
    replace(_PAPER, theorem="Theorem 3.1"),
    regime=_CLOSED,
)
def closed(query: Query) -> float | None:
    """Theorem 3.1: if ε0 <= log(n / (16 log(2/δ))),

        ε = log(1 + (e^ε0 − 1)/(e^ε0 + 1) · (8 √(e^ε0 log(4/δ)/n) + 8 e^ε0/n)).

    The clone fraction is e^−ε0. The two outputs differ only through a coin of bias
    e^ε0/(e^ε0 + 1), which Lemma 2.3 turns into the weight (e^ε0 − 1)/(e^ε0 + 1).
    """  # noqa: D415 - a formula follows
    weight, fraction = math.tanh(query.local_epsilon / 2), math.exp(-query.local_epsilon)
    return clone_lemma.closed_form(query, weight=weight, fraction=fraction)


@partial(Entry, "fmt21-workshop", "Clones, workshop version", _WORKSHOP, regime=_CLOSED)
def workshop(query: Query) -> float | None:
    """Theorem 2.1 of the workshop version: under the same condition,

        ε = log(1 + (1 − e^−2ε0) · (8 √(e^ε0 log(4/δ)/n) + 8 e^ε0/n)).

    Theorem 3.1 has (e^ε0 − 1)/(e^ε0 + 1) in place of the first factor, which is smaller, since
    1 − e^−2ε0 = (e^ε0 − 1)(e^ε0 + 1)/e^2ε0 and (e^ε0 + 1)² >= e^2ε0: so this is a bound, too.
    """  # noqa: D415 - a formula follows
    weight, fraction = -math.expm1(-2 * query.local_epsilon), math.exp(-query.local_epsilon)
    return clone_lemma.closed_form(query, weight=weight, fraction=fraction)


def closed_form(*, p: float, q: float, n: int, delta: float) -> float:
    """Theorem 4.1, clones of a finer decomposition, of fraction p and weight q.

    Suppose that in every round, whatever the history, R(x0) = (1−q) W + q Q0,
    R(x1) = (1−q) W + q Q1, and R(x) = p W + p Q0 + p Q1 + (1−3p) (something) for every other input.
    If p·n >= 8 log(2/δ), the shuffled outputs are (ε, δ)-indistinguishable with

        ε = log(1 + q (4 √(2 log(4/δ)/(p n)) + 4/(p n))).

    Proof, as followed here. The pair is a post-processing of (A0+Γ, A1, A2+1−Γ) against
    (A0, A1+Γ, A2+1−Γ), with (A0, A1, A2) multinomial (n−1; p, p, p) and Γ ~ Bern(q). Lemma 2.3 with
    weight q leaves (A0+1, A1, A2), (A0, A1+1, A2) and (A0, A1, A2+1) to compare two by two: they
    differ in two counts of total fraction 2p, so Lemma A.1 with s = 2p finishes, and its condition
    2p·n >= 16 log(2/δ) is the one above.
    """
    checks.positive(p=p)
    checks.non_negative(q=q)
    checks.open_probability(delta=delta)
    reports = checks.count(n=n)
    checks.refuse(p > LARGEST_P, "p <= 1/3 (the fractions of W, Q0 and Q1)", p=p)
    checks.at_most(1, q=q)
    if not clone_lemma.covers(fraction=2 * p, n=reports, delta=delta):
        stated = {"p": float(p), "n": reports, "delta": float(delta)}
        raise OutOfRegimeError("fmt21-thm41", _THM41_CONDITION, stated, OPTIMAL_CLONES)
    return clone_lemma.epsilon(weight=q, fraction=2 * p, n=reports, delta=delta)


@partial(
    Entry,
    "fmt21-thm41",
    "Clones, finer decomposition",
    replace(_PAPER, theorem="Theorem 4.1"),
    regime=f"{_THM41_CONDITION} with p = exp(-local_epsilon)/3",
    scope=f"{ANY} (closed_form: any with the decomposition)",
)
def thm41(query: Query) -> float | None:
    """Theorem 4.1 for any ε0-DP randomizer, which loses √(3/2) on Theorem 3.1.

    Each has such a decomposition with q = (e^ε0 − 1)/(e^ε0 + 1), W = (Q0 + Q1)/2, p = e^−ε0/3.
    """
    weight, p = math.tanh(query.local_epsilon / 2), math.exp(-query.local_epsilon) / 3
    return clone_lemma.closed_form(query, weight=weight, fraction=2 * p)


@partial(
    Entry,
    "krr-closed",
    "Clones of randomized response, closed form",
    replace(_PAPER, theorem="Corollary 4.2"),
    regime=f"{_KRR_SCOPE}, {_KRR_CONDITION}",
    scope="k-ary randomized response followed by any post-processing, adaptive",
)
def krr_closed(query: Query) -> float:
    """Corollary 4.2: any post-processing of ε0-DP k-ary randomized response.

    If n >= 8 log(2/δ) (k+1)(e^ε0 + k − 1)/k,

        ε = log(1 + (e^ε0 − 1) (4 √(2 (k+1) log(4/δ) / ((e^ε0 + k − 1) k n)) + 4 (k+1)/(k n))).

    It is Theorem 4.1. Randomized response tells the truth with probability
    q = (e^ε0 − 1)/(e^ε0 + k − 1) and else reports uniformly, so W is uniform, Q0 and Q1 are the
    points x0 and x1; every other input puts at least 1/(e^ε0 + k − 1) on each output, which is
    p W + p Q0 + p Q1 with p (1 + 1/k) = 1/(e^ε0 + k − 1). The condition is p·n >= 8 log(2/δ) for
    that p: the one the proof needs.
    """
    if query.k is None:
        raise query.out_of_regime("krr-closed", _KRR_SCOPE)
    inverse = math.exp(-query.local_epsilon)
    scale = 1 + (query.k - 1) * inverse
    fraction = 2 * query.k * inverse / ((query.k + 1) * scale)
    weight = -math.expm1(-query.local_epsilon) / scale
    epsilon = clone_lemma.closed_form(query, weight=weight, fraction=fraction)
    if epsilon is None:
        raise query.out_of_regime("krr-closed", _KRR_CONDITION)
    return epsilon

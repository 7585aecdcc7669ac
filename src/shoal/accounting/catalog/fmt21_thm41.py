"""FMT21, Theorem 4.1: clones of a finer decomposition.

Suppose that in every round, whatever the history, R(x0) = (1−q) W + q Q0, R(x1) = (1−q) W + q Q1,
and R(x) = p W + p Q0 + p Q1 + (1−3p) (something) for every other input. If p·n >= 8 log(2/δ), the
shuffled outputs are (ε, δ)-indistinguishable with

    ε = log(1 + q (4 √(2 log(4/δ)/(p n)) + 4/(p n))).

Proof, as followed here. The pair is a post-processing of (A0+Γ, A1, A2+1−Γ) against
(A0, A1+Γ, A2+1−Γ), with (A0, A1, A2) multinomial (n−1; p, p, p) and Γ ~ Bern(q). Lemma 2.3 with
weight q leaves (A0+1, A1, A2), (A0, A1+1, A2) and (A0, A1, A2+1) to compare two by two: each two
differ in two counts of total share 2p, so Lemma A.1 with s = 2p finishes, and its condition
2p·n >= 16 log(2/δ) is the one above.

Every ε0-DP randomizer has such a decomposition with q = (e^ε0 − 1)/(e^ε0 + 1), W = (Q0 + Q1)/2 and
p = e^−ε0/3, which loses √(3/2) on Theorem 3.1; the entry is that case.
"""

from __future__ import annotations

import math

from shoal import checks
from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import (
    OPTIMAL_CLONES,
    Citation,
    Entry,
    Query,
    Status,
    out_of_regime,
)
from shoal.errors import InvalidArgumentError, OutOfRegimeError

NAME = "fmt21-thm41"
CONDITION = "p n >= 8 log(2/delta)"
GENERIC_CONDITION = f"{CONDITION} with p = exp(-local_epsilon)/3"
LARGEST_P = 1 / 3


def closed_form(*, p: float, q: float, n: int, delta: float) -> float:
    """Return the ε of Theorem 4.1 for a decomposition with clone share p and weight q."""
    checks.positive(p=p)
    checks.non_negative(q=q)
    checks.open_probability(delta=delta)
    reports = checks.count(n=n)
    if p > LARGEST_P:
        raise InvalidArgumentError("p", p, "p <= 1/3 (the shares of W, Q0 and Q1)")
    if q > 1:
        raise InvalidArgumentError("q", q, "q <= 1")
    if not clone_lemma.covers(share=2 * p, n=reports, delta=delta):
        given = {"p": float(p), "n": reports, "delta": float(delta)}
        raise OutOfRegimeError(NAME, CONDITION, given, OPTIMAL_CLONES)
    return clone_lemma.epsilon(weight=q, share=2 * p, n=reports, delta=delta)


def evaluate(query: Query) -> float:
    """Return the ε of Theorem 4.1 for an arbitrary ε0-DP randomizer."""
    p = math.exp(-query.local_epsilon) / 3
    if not clone_lemma.covers(share=2 * p, n=query.n, delta=query.delta):
        raise out_of_regime(NAME, GENERIC_CONDITION, query)
    return closed_form(p=p, q=math.tanh(query.local_epsilon / 2), n=query.n, delta=query.delta)


ENTRY = Entry(
    name=NAME,
    title="Clones, finer decomposition",
    citation=Citation(
        authors="V. Feldman, A. McMillan, K. Talwar",
        title="Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy "
        "Amplification by Shuffling",
        venue="FOCS 2021",
        arxiv="2012.12803",
        theorem="Theorem 4.1",
    ),
    scope="any ε0-DP randomizers, adaptive (closed_form: any with the decomposition)",
    adaptive=True,
    status=Status.PROVED,
    regime=GENERIC_CONDITION,
    evaluate=evaluate,
)

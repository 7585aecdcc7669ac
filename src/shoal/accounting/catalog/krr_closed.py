"""FMT21, Corollary 4.2: k-ary randomized response, and any post-processing of it.

If n >= 8 log(2/δ) (k+1)(e^ε0 + k − 1)/k, shuffling n adaptive randomizers, each a post-processing
of ε0-DP k-ary randomized response, is (ε, δ)-DP with

    ε = log(1 + (e^ε0 − 1) (4 √(2 (k+1) log(4/δ) / ((e^ε0 + k − 1) k n)) + 4 (k+1)/(k n))).

It is Theorem 4.1 of the same paper. Randomized response tells the truth with probability
q = (e^ε0 − 1)/(e^ε0 + k − 1) and else reports uniformly, so W is uniform, Q0 and Q1 are the points
x0 and x1; every other input puts at least 1/(e^ε0 + k − 1) on each output, which is
p W + p Q0 + p Q1 with p (1 + 1/k) = 1/(e^ε0 + k − 1). The condition here is p·n >= 8 log(2/δ) for
that p: the one the proof needs.

>>> from shoal.accounting.catalog.entry import Query
>>> round(ENTRY.epsilon(Query(local_epsilon=1, n=10_000, delta=1e-6, k=10)), 5)
0.11053
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status, out_of_regime

NAME = "krr-closed"
SCOPE_CONDITION = "k-ary randomized response (give k)"
CONDITION = "n >= 8 log(2/delta) (k+1) (exp(local_epsilon) + k - 1) / k"


def evaluate(query: Query) -> float:
    """Return the ε of Corollary 4.2."""
    if query.k is None:
        raise out_of_regime(NAME, SCOPE_CONDITION, query)
    k = query.k
    inverse = math.exp(-query.local_epsilon)
    scale = 1 + (k - 1) * inverse
    share = 2 * k * inverse / ((k + 1) * scale)
    if not clone_lemma.covers(share=share, n=query.n, delta=query.delta):
        raise out_of_regime(NAME, CONDITION, query)
    weight = -math.expm1(-query.local_epsilon) / scale
    return clone_lemma.epsilon(weight=weight, share=share, n=query.n, delta=query.delta)


ENTRY = Entry(
    name=NAME,
    title="Clones of randomized response, closed form",
    citation=Citation(
        authors="V. Feldman, A. McMillan, K. Talwar",
        title="Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy "
        "Amplification by Shuffling",
        venue="FOCS 2021",
        arxiv="2012.12803",
        theorem="Corollary 4.2",
    ),
    scope="k-ary randomized response followed by any post-processing, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime=f"{SCOPE_CONDITION}, {CONDITION}",
    evaluate=evaluate,
)

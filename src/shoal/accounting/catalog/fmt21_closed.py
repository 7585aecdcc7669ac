"""FMT21, Theorem 3.1: the closed form of "Hiding Among the Clones".

If ε0 <= log(n / (16 log(2/δ))), shuffling n adaptive ε0-DP randomizers is (ε, δ)-DP with

    ε = log(1 + (e^ε0 − 1)/(e^ε0 + 1) · (8 √(e^ε0 log(4/δ)/n) + 8 e^ε0/n)).

It is Lemma A.1 with clone share s = e^−ε0 (:mod:`~shoal.accounting.catalog.clone_lemma`): the
condition says s·n >= 16 log(2/δ). The two outputs differ only through a coin of bias
e^ε0/(e^ε0 + 1), which Lemma 2.3 turns into the weight (e^ε0 − 1)/(e^ε0 + 1).

>>> from shoal.accounting.catalog.entry import Query
>>> round(ENTRY.epsilon(Query(local_epsilon=4, n=100_000, delta=1e-6)), 6)
0.534634
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status, out_of_regime

NAME = "fmt21-closed"
CONDITION = "local_epsilon <= log(n / (16 log(2/delta)))"


def evaluate(query: Query) -> float:
    """Return the ε of Theorem 3.1."""
    share = math.exp(-query.local_epsilon)
    if not clone_lemma.covers(share=share, n=query.n, delta=query.delta):
        raise out_of_regime(NAME, CONDITION, query)
    weight = math.tanh(query.local_epsilon / 2)
    return clone_lemma.epsilon(weight=weight, share=share, n=query.n, delta=query.delta)


ENTRY = Entry(
    name=NAME,
    title="Clones, closed form",
    citation=Citation(
        authors="V. Feldman, A. McMillan, K. Talwar",
        title="Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy "
        "Amplification by Shuffling",
        venue="FOCS 2021",
        arxiv="2012.12803",
        theorem="Theorem 3.1",
    ),
    scope="any ε0-DP randomizers, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime=CONDITION,
    evaluate=evaluate,
)

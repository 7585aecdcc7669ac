"""FMT22: the closed form of "Stronger Privacy Amplification by Shuffling".

If ε0 <= log(n / (8 log(2/δ)) − 1), shuffling n adaptive ε0-DP randomizers is (ε, δ)-DP with

    ε = log(1 + (e^ε0 − 1) (4 √(2 log(4/δ) / ((e^ε0 + 1) n)) + 4/n)).

**On its proof.** The authors withdrew the paper's proof for general randomizers by an erratum (its
Lemma 3.5 fails for p < 1/(e^ε0 + 1)). The number stands, for another reason: the optimal-clones
theorem (docs/theory/optimal-clones.md) bounds every adaptive sequence of ε0-DP randomizers by the
pair of Theorem 3.2 of FMT21 with clone share 2/(e^ε0 + 1) in place of e^−ε0. Lemma A.1 of FMT21
with s = 2/(e^ε0 + 1), and Lemma 2.3 with weight (e^ε0 − 1)/(e^ε0 + 1), give the formula above; the
condition is s·n >= 16 log(2/δ).

>>> from shoal.accounting.catalog.entry import Query
>>> round(ENTRY.epsilon(Query(local_epsilon=4, n=100_000, delta=1e-6)), 5)
0.40779
"""

from __future__ import annotations

import math

from shoal.accounting.catalog import clone_lemma
from shoal.accounting.catalog.entry import Citation, Entry, Query, Status, out_of_regime

NAME = "fmt22-closed"
CONDITION = "local_epsilon <= log(n / (8 log(2/delta)) - 1)"


def evaluate(query: Query) -> float:
    """Return the ε of the closed form."""
    inverse = math.exp(-query.local_epsilon)
    share = 2 * inverse / (1 + inverse)
    if not clone_lemma.covers(share=share, n=query.n, delta=query.delta):
        raise out_of_regime(NAME, CONDITION, query)
    weight = math.tanh(query.local_epsilon / 2)
    return clone_lemma.epsilon(weight=weight, share=share, n=query.n, delta=query.delta)


ENTRY = Entry(
    name=NAME,
    title="Stronger clones, closed form",
    citation=Citation(
        authors="V. Feldman, A. McMillan, K. Talwar",
        title="Stronger Privacy Amplification by Shuffling for Rényi and Approximate "
        "Differential Privacy",
        venue="SODA 2023",
        arxiv="2208.04591",
        theorem="closed form of the general upper bound (original proof withdrawn by erratum; "
        "proved here through the optimal-clones theorem)",
    ),
    scope="any ε0-DP randomizers, adaptive",
    adaptive=True,
    status=Status.PROVED,
    regime=CONDITION,
    evaluate=evaluate,
)

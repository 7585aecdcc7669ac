"""FMT22: "Stronger Privacy Amplification by Shuffling", and why its numbers hold.

V. Feldman, A. McMillan, K. Talwar. Stronger Privacy Amplification by Shuffling for Rényi and
Approximate Differential Privacy. SODA 2023, arXiv:2208.04591.

**On its proof.** The authors withdrew the paper's proof for general randomizers by an erratum (its
Lemma 3.5 fails for p < 1/(e^ε0 + 1)). The numbers stand, for another reason: the optimal-clones
theorem (docs/theory/optimal-clones.md) bounds every adaptive sequence of ε0-DP randomizers by the
pair of Theorem 3.2 of FMT21 with clone fraction 2/(e^ε0 + 1) in place of e^−ε0.

>>> from shoal.accounting.catalog import Query
>>> round(closed.epsilon(Query(local_epsilon=4, n=100_000, delta=1e-6)), 5)
0.40779
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from shoal.accounting.catalog import Citation, Entry, Query, clone_lemma
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile

_PAPER = Citation(
    "V. Feldman, A. McMillan, K. Talwar",
    "Stronger Privacy Amplification by Shuffling for Rényi and Approximate Differential Privacy",
    "SODA 2023",
    "2208.04591",
    "The number of its Theorem 3.2, proved in docs/theory/optimal-clones.md",
)
_CLOSED = (
    "closed form of the general upper bound (original proof withdrawn by erratum; proved here "
    "through the optimal-clones theorem)"
)


@partial(Entry, "optimal-clones", "Optimal clones, numerical", _PAPER)
def optimal_clones(query: Query) -> float:
    """The default bound for arbitrary randomizers: no regime, any n >= 1.

    For every adaptive sequence of ε0-DP randomizers and every ε >= 0,

        δ(ε) <= (1/n) E[(Z_1 + ... + Z_n)_+],  Z iid,  with e = e^ε0 and x = e^ε:
        Z = e - x and Z = 1 - e x with probability 1/(e + 1) each, else 0.

    Proved in docs/theory/optimal-clones.md, evaluated by the certified integral.
    """
    law = BlanketLaw.generic(query.local_epsilon)
    return PrivacyProfile(law, query.n).epsilon(query.delta)


@partial(
    Entry,
    "fmt22-closed",
    "Stronger clones, closed form",
    replace(_PAPER, theorem=_CLOSED),
    regime="local_epsilon <= log(n / (8 log(2/delta)) - 1)",
)
def closed(query: Query) -> float | None:
    """The closed form: if ε0 <= log(n / (8 log(2/δ)) − 1),

        ε = log(1 + (e^ε0 − 1) (4 √(2 log(4/δ) / ((e^ε0 + 1) n)) + 4/n)).

    Lemma A.1 of FMT21 with s = 2/(e^ε0 + 1), and Lemma 2.3 with weight (e^ε0 − 1)/(e^ε0 + 1); the
    condition is s·n >= 16 log(2/δ).
    """  # noqa: D415 - a formula follows
    inverse = math.exp(-query.local_epsilon)
    fraction = 2 * inverse / (1 + inverse)
    weight = math.tanh(query.local_epsilon / 2)
    return clone_lemma.closed_form(query, weight=weight, fraction=fraction)

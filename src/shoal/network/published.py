"""Published bounds for network shuffling, for comparisons, and what they rest on.

Liew, Takahashi, Takagi, Kato, Cao, Yoshikawa, "Network Shuffling: Privacy Amplification via Random
Walks", SIGMOD 2022, arXiv:2204.03919. All of them are functions of Σ_v P(v)², the probability that
two reports of one origin meet. Two statements of it do not hold as they stand:

- Σ_v P_u(v)² <= Σ π_v² + (1 - α)^(2t) is true for regular graphs only; for any graph it is at most
  (‖π‖ + √(d_max/d_u) (1 - α)^t)²;
- the bound for ``all`` with the law of the person in question after finitely many rounds: it
  speaks of one walk, but what hides a report are the others'. On K_{1,1,k} after one round
  the only reports among the pages are the two hubs' own. It is refused here; ask for the
  stationary law (``rounds=None``).

Nothing here is needed: ``WalkAccountant`` is below all of it (docs/theory/network.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.accounting.catalog import exp_or_inf
from shoal.errors import OutOfRegimeError
from shoal.network.spectrum import spectral_bound
from shoal.network.walk import Walk

INSTEAD = "WalkAccountant"


@dataclass(frozen=True, kw_only=True)
class WalkQuery:
    """One person's report after ``rounds`` rounds; None for a walk that has forgotten its origin.

    ``slack`` is the fraction of δ that the bound for ``all`` spends on how many reports meet.
    """

    walk: Walk
    local_epsilon: float
    delta: float
    rounds: int | None = None
    user: int = 0
    slack: float = 0.5

    def __post_init__(self) -> None:
        checks.positive(local_epsilon=self.local_epsilon)
        checks.open_probability(delta=self.delta, slack=self.slack)
        if self.rounds is not None:
            checks.count(0, rounds=self.rounds)


def all_epsilon(
    *, local_epsilon: float, delta: float, meeting_delta: float, n: int, collision: float
) -> float:
    """Theorem 5.3: (e^ε0 - 1)² e^(4 ε0) e1²/2 + e1 √(2 (e^ε0 - 1)² e^(4 ε0) log(1/δ)).

    e1 = √((1 - 1/n) Σ P² + 1/n) + √(log(1/δ₂)/n), at δ + δ₂ in total, δ₂ = ``meeting_delta``. The
    1/n under the first root is the expectation's own, E Σ_v (L_v/n)² for loads L; without it the
    number would be too small.
    """
    norm = math.sqrt((1 - 1 / n) * collision + 1 / n) + math.sqrt(-math.log(meeting_delta) / n)
    scale = (exp_or_inf(local_epsilon) - 1) * exp_or_inf(2 * local_epsilon)
    return (scale * norm) ** 2 / 2 + norm * scale * math.sqrt(-2 * math.log(delta))


def network_all(query: WalkQuery) -> float:
    """Theorem 5.3. Regime: the walk has forgotten where it began."""
    if query.rounds is not None:
        condition = "the stationary law: after finitely many rounds the others' walks matter too"
        stated = {"rounds": query.rounds, "user": query.user}
        raise OutOfRegimeError("network-all", condition, stated, INSTEAD)
    return _all(query, collision=float(np.square(query.walk.stationary).sum()))


def network_regular(query: WalkQuery) -> float:
    """Theorem 5.3 for regular graphs. Regime: a regular graph."""
    graph = query.walk.graph
    if not graph.regular:
        stated = {"irregularity": graph.irregularity}
        raise OutOfRegimeError("network-regular", "a regular graph", stated, INSTEAD)
    decay = 0.0 if query.rounds is None else spectral_bound(query.walk).decay(query.rounds)
    return _all(query, collision=1 / graph.n + (1 - 1 / graph.n) * decay**2)


def _all(query: WalkQuery, *, collision: float) -> float:
    return all_epsilon(
        local_epsilon=query.local_epsilon,
        delta=query.delta * (1 - query.slack),
        meeting_delta=query.delta * query.slack,
        n=query.walk.n,
        collision=collision,
    )


def network_single(query: WalkQuery) -> float:
    """(e^ε0 - 1)² e^ε0 Σ P²/2 + √(2 (e^ε0 - 1)² e^ε0 Σ P² log(1/δ)): one report a holder.

    Not checked against the paper; why it holds: holders in order of falling P, the posterior that
    the next message is the person's is at most P over what is left of P, e^-ε0 of what has passed
    included; the squares sum to e^ε0 Σ P² at most. Then advanced composition with unequal ε.
    Regime: any rounds, holders with no report send dummies.
    """
    law, growth = query.walk.stationary, exp_or_inf(query.local_epsilon)
    if query.rounds is not None:
        law = query.walk.position(query.user, query.rounds)
    scale = (growth - 1) ** 2 * growth * float(np.square(law).sum())
    return scale / 2 + math.sqrt(-2 * scale * math.log(query.delta))


_BOUNDS: dict[str, Callable[[WalkQuery], float]] = {
    "network-all": network_all,
    "network-regular": network_regular,
    "network-single": network_single,
}


def published(name: str, query: WalkQuery) -> float:
    """The ε of a published bound, by its name, and never more than ε0, which always holds."""
    checks.refuse(name not in _BOUNDS, f"one of {', '.join(_BOUNDS)}", name=name)
    return min(_BOUNDS[name](query), query.local_epsilon)

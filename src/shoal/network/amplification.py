"""How private reports are that were passed on: the questions people ask.

>>> from shoal.network.generators import random_regular
>>> from shoal.network.walk import Walk
>>> found = amplify_walk(Walk(random_regular(500, 16)), 8, local_epsilon=1, delta=1e-6)
>>> 0.216 < found.epsilon < 0.219  # a uniform shuffle has 0.2156
True
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.accounting.devices import Randomizer
from shoal.accounting.guarantee import Guarantee
from shoal.network.account import Submit, View, WalkAccountant
from shoal.network.profile import WalkProfile
from shoal.network.survey import Method
from shoal.network.walk import Process
from shoal.randomness import Randomness


def walk_profile(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    walk: Process,
    rounds: int,
    *,
    randomizer: Randomizer | None = None,
    local_epsilon: float | None = None,
    local_delta: float = 0.0,
    submit: Submit = "all",
    collusion: float | Sequence[int] = 0.0,
    quantile: float = 1.0,
    user: int | None = None,
    method: Method = "auto",
    randomness: Randomness | None = None,
) -> WalkProfile:
    """The whole curve δ(ε) of reports passed on for some rounds."""
    accountant = WalkAccountant(
        walk=walk,
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        local_delta=local_delta,
        submit=submit,
        collusion=collusion,
        method=method,
        randomness=randomness,
    )
    return accountant.profile(rounds, quantile=quantile, user=user)


def amplify_walk(  # noqa: PLR0913 - a façade takes as many keywords as its users need
    walk: Process,
    rounds: int,
    *,
    randomizer: Randomizer | None = None,
    local_epsilon: float | None = None,
    local_delta: float = 0.0,
    delta: float | None = None,
    epsilon: float | None = None,
    view: View = "final",
    submit: Submit = "all",
    collusion: float | Sequence[int] = 0.0,
    quantile: float = 1.0,
    user: int | None = None,
    method: Method = "auto",
    runs: int = 10_000,
    randomness: Randomness | None = None,
) -> Guarantee:
    """The (ε, δ) of reports passed on for some rounds, for everybody unless said otherwise.

    ``delta`` (1e-6 unless said) asks for ε; ``epsilon`` asks for δ. ``quantile`` is the share of
    people it has to hold for, those whose reports are spread best; ``user`` asks about one person.

    ``view="traffic"`` is for a server that sees who passes to whom, such as one that relays the
    messages: simulated in ``runs`` runs, for one ``user``. ``submit="single"``: every holder
    submits one report only. ``collusion`` is the probability that a new holder works for the
    server, or a list of the people who do.
    """
    accountant = WalkAccountant(
        walk=walk,
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        local_delta=local_delta,
        view=view,
        submit=submit,
        collusion=collusion,
        method=method,
        runs=runs,
        randomness=randomness,
    )
    return accountant.guarantee(rounds, delta=delta, epsilon=epsilon, quantile=quantile, user=user)

"""How private reports are that were passed on: one setting, asked about any number of rounds.

>>> from shoal.network.generators import random_regular
>>> from shoal.network.walk import Walk
>>> guarantee = amplify_walk(Walk(random_regular(500, 16)), 8, local_epsilon=1, delta=1e-6)
>>> 0.216 < guarantee.epsilon < 0.219  # a uniform shuffle has 0.2156
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from shoal import checks
from shoal.accounting.amplification import target_delta
from shoal.accounting.devices import Randomizer
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError
from shoal.network import law, single
from shoal.network.collusion import named_colluders, random_colluders
from shoal.network.devices import Base, Reports
from shoal.network.law import StopLoss
from shoal.network.locations import Locations, Method, require_independent
from shoal.network.profile import Route, WalkProfile
from shoal.network.traffic import Traffic, simulated_traffic
from shoal.network.walk import Process, Walk
from shoal.randomness import Randomness

View = Literal["final", "traffic"]
Submit = Literal["all", "single"]

WALKED = "blanket of holder and report"
SINGLE = single.THEOREM
NEARBY = "uniform shuffle, holders exchanged for independent ones of one law"
TRAFFIC = "blanket of reports that meet, simulated traffic"
TRUST = {
    "final": "the server sees who holds a report in the end, not who passed it to whom",
    "traffic": "the server sees who passes to whom in every round, not which report",
}
_EDGES = "every edge is used in both directions, and the next holder drawn among neighbours alike"
_ALONE = "nobody who passes reports on works for the server"
_TIMES = "submissions carry nothing but holder and reports: no order, no time"
_ONE_SIMULATION = (
    "the probability that the simulation misleads is part of δ, once: the smallest ε of several "
    "simulations is no bound"
)
_UNLINKED = "holders re-encrypt: a message that comes in looks like none that goes out"


@dataclass(frozen=True, eq=False, kw_only=True)
class WalkAccountant:
    """Reports of one randomizer, passed on along a walk, under one adversary.

    ``collusion`` is the probability that a new holder works for the server, or the numbers of
    the people who do. Everything that does not depend on the rounds is computed once.
    """

    walk: Process
    randomizer: Randomizer | None = None
    local_epsilon: float | None = None
    local_delta: float = 0.0
    view: View = "final"
    submit: Submit = "all"
    collusion: float | Sequence[int] = 0.0
    method: Method = "auto"
    runs: int = 10_000
    randomness: Randomness | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.view not in get_args(View):
            raise InvalidArgumentError("view", self.view, "'final' or 'traffic'")
        if self.submit not in get_args(Submit):
            raise InvalidArgumentError("submit", self.submit, "'all' or 'single'")
        require_independent(self.walk)
        if not self._named:
            checks.closed_probability(collusion=self.collusion)  # type: ignore[arg-type]
        special = [self.view == "traffic", self.submit == "single", self._corrupt]
        if sum(special) > 1:
            given = (self.view, self.submit, self.collusion)
            expected = "only one of view='traffic', submit='single' and collusion"
            raise InvalidArgumentError("view, submit, collusion", given, expected)
        if (self._named or self.view == "traffic") and not isinstance(self.walk, Walk):
            expected = "a walk that is the same every round for this adversary"
            raise InvalidArgumentError("walk", self.walk, expected)

    @cached_property
    def locations(self) -> Locations:
        """Where the reports are."""
        return Locations(self.walk, method=self.method, randomness=self.randomness)

    @cached_property
    def reports(self) -> Reports:
        """What is passed on."""
        return Reports(
            randomizer=self.randomizer,
            local_epsilon=self.local_epsilon,
            local_delta=self.local_delta,
        )

    def profile(
        self, rounds: int, *, quantile: float = 1.0, user: int | None = None
    ) -> WalkProfile:
        """The whole curve δ(ε), for one person or for the fraction ``quantile`` of all."""
        if self.view == "traffic":
            raise InvalidArgumentError("view", self.view, "view 'final' for a whole profile")
        routes = self._routes(rounds, quantile, user)
        central = self.reports.central(routes[0].n)
        return WalkProfile(
            routes=routes,
            local=self.reports.local,
            scope=self.reports.scope,
            # A holder that submits one report drops others: less is known of it from below.
            central=central.lower_epsilon if self.submit == "all" else lambda _: 0.0,
        )

    def guarantee(
        self,
        rounds: int,
        *,
        delta: float | None = None,
        epsilon: float | None = None,
        quantile: float = 1.0,
        user: int | None = None,
        near_local: bool = True,
    ) -> Guarantee:
        """(ε, δ) after so many rounds; ``epsilon`` asks for δ instead.

        ``near_local=False`` is for quick answers: :meth:`WalkProfile.answer`.
        """
        at = target_delta(epsilon=epsilon, delta=delta, n=self.walk.n)
        if self.view == "traffic":
            return self._seen(rounds, epsilon, at, user)
        profile = self.profile(rounds, quantile=quantile, user=user)
        if epsilon is None:
            reached, theorem = profile.answer(at, near_local=near_local)
            answer = (reached, at)
        else:
            answer, theorem = (epsilon, profile.delta(epsilon)), profile.theorem
        about = _about(quantile, user)
        base = self._stated(answer, theorem, rounds, profile.n, about)
        return replace(base, lower_bound=lambda: profile.lower_epsilon(answer[1]))

    def traffic(self, rounds: int, *, user: int) -> Traffic:
        """Simulated runs under a server that sees who passes to whom."""
        if not isinstance(self.walk, Walk):
            raise InvalidArgumentError("walk", self.walk, "a walk that is the same every round")
        return simulated_traffic(
            self.walk,
            rounds,
            user=user,
            reports=self.reports,
            runs=self.runs,
            randomness=self.randomness,
        )

    def _seen(
        self, rounds: int, epsilon: float | None, delta: float, user: int | None
    ) -> Guarantee:
        if user is None:
            raise InvalidArgumentError("user", user, "a person to follow, with view='traffic'")
        if epsilon is not None:
            raise InvalidArgumentError("epsilon", epsilon, "a delta, with view='traffic'")
        answer = (self.traffic(rounds, user=user).epsilon(delta), delta)
        return self._stated(answer, TRAFFIC, rounds, self.walk.n, _about(1.0, user))

    def _stated(
        self, answer: tuple[float, float], theorem: str, rounds: int, n: int, about: str
    ) -> Guarantee:
        passed = "1 round" if rounds == 1 else f"{rounds:,} rounds"
        assumed = [
            self.reports.scope,
            f"reports are passed on for {passed} as the walk says; {about}",
            _EDGES,
            f"{n:,} of {self.walk.n:,} people follow the protocol",
            *self._adversary,
        ]
        return Guarantee(
            epsilon=answer[0],
            delta=answer[1],
            n=n,
            local_epsilon=self.reports.local[0],
            local_delta=self.reports.local[1],
            theorem=theorem,
            assumptions=tuple(assumed),
            trust=TRUST[self.view],
        )

    @property
    def _adversary(self) -> list[str]:
        stated = [_TIMES]
        if self._named:
            stated.append(f"{len(set(self.collusion)):,} people work for the server")  # type: ignore[arg-type]
        elif self._corrupt:
            stated.append(
                f"each new holder works for the server with probability {self.collusion:g}, "
                "independently"
            )
        else:
            stated.append(_ALONE)
        if self.submit == "single":
            stated.append(single.DUMMIES)
        if self.view == "traffic":
            stated += [_UNLINKED, _ONE_SIMULATION]
        return stated

    @property
    def _named(self) -> bool:
        return isinstance(self.collusion, Sequence) or hasattr(self.collusion, "__len__")

    @property
    def _corrupt(self) -> bool:
        return self._named or self.collusion != 0

    def _routes(self, rounds: int, quantile: float, user: int | None) -> tuple[Route, ...]:
        if self._named:
            return self._by_name(rounds, quantile, user)
        spread = self.locations.after(rounds)
        users = spread.group(quantile=quantile, user=user)
        slack = spread.rounding if spread.uses_laws(users) else 0.0
        if self._corrupt:
            probability = float(self.collusion)  # type: ignore[arg-type]
            count = law.point_count(self.reports.own)
            caught = random_colluders(self.locations, rounds, probability, users, count=count)
            return self._along(caught.loss, caught.honest, caught.rounding, caught.failure)
        walked = spread.stop_loss(users, count=law.point_count(self.reports.own))
        along = self._along(walked, spread.n, slack, spread.failure)
        if self.submit == "single":
            bases = self.reports.bases(spread.n)
            alone = [single.single_route(spread, users, b.law, slack=b.distance) for b in bases]
            return (*alone, *along)
        apart = spread.total_variation() + spread.n * spread.rounding
        nearby = [
            Route(NEARBY, base.law.pairs, spread.n, base.distance + apart, spread.failure)
            for base in self.reports.bases(spread.n)
            if apart < 1
        ]
        return (*along, *nearby)

    def _by_name(self, rounds: int, quantile: float, user: int | None) -> tuple[Route, ...]:
        if quantile != 1.0:
            raise InvalidArgumentError("quantile", quantile, "quantile=1 beside named colluders")
        caught = named_colluders(
            self.walk,  # type: ignore[arg-type]
            rounds,
            self.collusion,  # type: ignore[arg-type]
            user=user,
            count=law.point_count(self.reports.own),
        )
        return self._along(caught.loss, caught.honest, caught.rounding, 0.0)

    def _along(self, walked: StopLoss, n: int, slack: float, failure: float) -> tuple[Route, ...]:
        def route(base: Base) -> Route:
            pairs = law.walk_pairs(base.law, walked)
            return Route(WALKED, pairs, n, base.distance + slack, failure)

        return tuple(route(base) for base in self.reports.bases(n))


def _about(quantile: float, user: int | None) -> str:
    if user is not None:
        return f"this is about person {user}"
    return "this is about everybody" if quantile == 1 else f"this is about {quantile:.6g} of people"


def walk_profile(
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


def amplify_walk(
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

    ``delta`` (1e-6 unless said) asks for ε; ``epsilon`` asks for δ. ``quantile`` is the fraction of
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

"""How private reports are that were passed on, after how many rounds, for whom, and at what cost.

Reports that begin at the edge of a graph mix later than others: ε depends on the person.

A further round is post-processing: it moves every report on by itself, whatever it says. So δ
never grows with the rounds, and the smallest number is found by doubling and halving. No number
of rounds beats a uniform shuffle of the same reports, which is what remains when the walk has
forgotten where it began.

>>> from shoal.network.generators import random_regular
>>> from shoal.network.walk import Walk
>>> guarantee = amplify_walk(Walk(random_regular(500, 16)), 8, local_epsilon=1, delta=1e-6)
>>> 0.216 < guarantee.epsilon < 0.219  # a uniform shuffle has 0.2156
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypedDict, Unpack, cast, get_args

from shoal import checks
from shoal.accounting.devices import Randomizer
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.accounting.search import doubled, least
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain.text import plural
from shoal.network import law
from shoal.network.adversaries import named_colluders, random_colluders, simulated_traffic
from shoal.network.law import StopLoss
from shoal.network.locations import Locations, Method
from shoal.network.profile import AGREEMENT, DUMMIES, Reports, Route, WalkProfile, single_route
from shoal.network.walk import Process, Submit, Walk
from shoal.randomness import Randomness
from shoal.values import attributes

View = Literal["final", "traffic"]

WALKED = "blanket of holder and report"
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

_FRACTIONS = (0.5, 0.9, 0.99, 1.0)
_MOST_ROUNDS = 100_000


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
    locations: Locations = field(init=False, repr=False)  # of the reports
    reports: Reports = field(init=False, repr=False)  # that are passed on

    def __post_init__(self) -> None:
        checks.one_of(get_args(View), view=self.view)
        checks.one_of(get_args(Submit), submit=self.submit)
        object.__setattr__(self, "locations", Locations(self.walk, self.method, self.randomness))
        devices = attributes(self, "randomizer", "local_epsilon", "local_delta")
        object.__setattr__(self, "reports", Reports(**devices))
        if not self._named:
            checks.closed_probability(collusion=self.collusion)  # type: ignore[arg-type]
        if (self.view == "traffic") + (self.submit == "single") + self._corrupt > 1:
            settings = (self.view, self.submit, self.collusion)
            expected = "only one of view='traffic', submit='single' and collusion"
            raise InvalidArgumentError("view, submit, collusion", settings, expected)
        differing = (self._named or self.view == "traffic") and not isinstance(self.walk, Walk)
        expected = "a walk that is the same every round for this adversary"
        checks.refuse(differing, expected, walk=self.walk)

    def profile(
        self, rounds: int, *, quantile: float = 1.0, user: int | None = None
    ) -> WalkProfile:
        """The whole curve δ(ε), for one person or for the fraction ``quantile`` of all."""
        checks.refuse(self.view == "traffic", "view 'final' for a whole profile", view=self.view)
        routes = self._routes(rounds, quantile, user)
        # A holder that submits one report drops others: less is known of it from below.
        central = self.reports.central(routes[0].n).lower_epsilon
        lower = central if self.submit == "all" else lambda _: 0.0
        return WalkProfile(routes, lower, *self.reports.local)

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

        δ is min(1e-6, 1/(10 n)) if neither is given. ``near_local=False`` is for quick answers:
        :meth:`WalkProfile.answer`.
        """
        both = epsilon is not None and delta is not None
        checks.refuse(both, "epsilon or delta, not both", delta=delta)
        target = self.checked_delta(delta)
        profile = None
        if self.view == "traffic":
            if user is None:
                raise InvalidArgumentError("user", user, "a person to follow, with view='traffic'")
            checks.refuse(epsilon is not None, "a delta, with view='traffic'", epsilon=epsilon)
            walk, theorem = cast("Walk", self.walk), TRAFFIC
            runs = attributes(self, "reports", "runs", "randomness")
            epsilon = simulated_traffic(walk, rounds, user=user, **runs).epsilon(target)
        else:
            checks.non_negative(epsilon=epsilon or 0.0)
            profile = self.profile(rounds, quantile=quantile, user=user)
            if epsilon is None:
                epsilon, theorem = profile.answer(target, near_local=near_local)
            else:
                target, theorem = profile.delta(epsilon), profile.theorem
        n = self.walk.n if profile is None else profile.n
        people = "everybody" if quantile == 1 else f"{quantile:.6g} of people"
        about = people if user is None else f"person {user}"
        length = plural(rounds, "round")
        return Guarantee(
            epsilon=epsilon,
            delta=target,
            n=n,
            local_epsilon=self.reports.own.local_epsilon,
            local_delta=self.local_delta,
            theorem=theorem,
            assumptions=(
                self.reports.scope,
                f"reports are passed on for {length} as the walk says; this is about {about}",
                _EDGES,
                f"{n:,} of {self.walk.n:,} people follow the protocol",
                _TIMES,
                *self._adversary,
            ),
            trust=TRUST[self.view],
            lower_bound=lambda: 0.0 if profile is None else profile.lower_epsilon(target),
        )

    def checked_delta(self, delta: float | None) -> float:
        """The δ that was asked for, or min(1e-6, 1/(10 n)) for the n people of the walk."""
        delta = default_delta(self.walk.n) if delta is None else delta
        checks.open_probability(delta=delta)
        return delta

    @property
    def _adversary(self) -> list[str]:
        if self._named:
            return [f"{len(set(self.collusion)):,} people work for the server"]  # type: ignore[arg-type]
        if self._corrupt:
            probability = f"with probability {self.collusion:g}, independently"
            return [f"each new holder works for the server {probability}"]
        special = {"single": [DUMMIES], "traffic": [_UNLINKED, _ONE_SIMULATION]}
        return [_ALONE, *special.get(self.submit, []), *special.get(self.view, [])]

    @property
    def _named(self) -> bool:
        return hasattr(self.collusion, "__len__")

    @property
    def _corrupt(self) -> bool:
        return self._named or self.collusion != 0

    def _routes(self, rounds: int, quantile: float, user: int | None) -> tuple[Route, ...]:
        count = law.point_count(self.reports.own)
        if self._named:
            checks.refuse(quantile != 1.0, "quantile=1 beside named colluders", quantile=quantile)
            walk, colluders = cast("Walk", self.walk), cast("Sequence[int]", self.collusion)
            return self._along(*named_colluders(walk, rounds, colluders, user=user, count=count))
        spread = self.locations.after(rounds)
        users = spread.group(quantile=quantile, user=user)
        if self._corrupt:
            probability = float(self.collusion)  # type: ignore[arg-type]
            caught = random_colluders(self.locations, rounds, probability, users, count=count)
            return self._along(*caught)
        slack, failure = spread.rounding_of(users), spread.failure
        along = self._along(spread.stop_loss(users, count=count), spread.n, slack, failure)
        bases = self.reports.bases(spread.n)
        if self.submit == "single":
            alone = [single_route(spread, users, each, slack=far) for each, far in bases]
            return (*alone, *along)
        moved = spread.total_variation() + spread.n * spread.rounding
        if moved >= 1:
            return along
        nearby = [Route(NEARBY, each.pairs, spread.n, far + moved, failure) for each, far in bases]
        return (*along, *nearby)

    def _along(self, walked: StopLoss, n: int, slack: float, failure: float) -> tuple[Route, ...]:
        return tuple(
            Route(WALKED, law.walk_pairs(base, walked), n, apart + slack, failure)
            for base, apart in self.reports.bases(n)
        )


class Setting(TypedDict, total=False):
    """What a :class:`WalkAccountant` takes besides the walk, and with the same defaults."""

    randomizer: Randomizer | None
    local_epsilon: float | None
    local_delta: float
    view: View
    submit: Submit
    collusion: float | Sequence[int]
    method: Method
    runs: int
    randomness: Randomness | None


def walk_profile(
    walk: Process,
    rounds: int,
    *,
    quantile: float = 1.0,
    user: int | None = None,
    **setting: Unpack[Setting],
) -> WalkProfile:
    """The whole curve δ(ε) of reports passed on for some rounds; see :func:`amplify_walk`."""
    return WalkAccountant(walk=walk, **setting).profile(rounds, quantile=quantile, user=user)


def amplify_walk(
    walk: Process,
    rounds: int,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    quantile: float = 1.0,
    user: int | None = None,
    **setting: Unpack[Setting],
) -> Guarantee:
    """The (ε, δ) of reports passed on for some rounds, for everybody unless said otherwise.

    ``randomizer`` is what devices run; else any randomizer with ``local_epsilon`` (and perhaps
    ``local_delta``) is covered. ``delta`` (min(1e-6, 1/(10 n)) unless said) asks for ε; ``epsilon``
    asks for δ. ``quantile`` is the fraction of people it has to hold for, those whose reports are
    spread best; ``user`` asks about one person.

    ``view="traffic"`` is for a server that sees who passes to whom, such as one that relays the
    messages: simulated in ``runs`` runs (10,000 unless said), for one ``user``.
    ``submit="single"``: every holder submits one report only. ``collusion`` is the probability that
    a new holder works for the server, or a list of the people who do.

    ``method`` is how it is learned where reports are: "exact", "leading" or "spectral", by the size
    of the graph unless said; ``randomness`` is for proofs and simulations that draw.
    """
    accountant = WalkAccountant(walk=walk, **setting)
    return accountant.guarantee(rounds, delta=delta, epsilon=epsilon, quantile=quantile, user=user)


@dataclass(frozen=True)
class Cost:
    """What passing on costs: messages sent, reports held, bytes, for an average peer and a hub.

    A peer holds n π reports on average at any time, and sends them all on every round.
    """

    messages: float  # by an average peer
    most_messages: float  # by the best connected peer, on average
    load: float  # reports held by an average peer
    most_load: float
    report_bytes: int

    @property
    def bytes_sent(self) -> float:
        """By an average peer."""
        return self.messages * self.report_bytes

    @property
    def most_bytes_sent(self) -> float:
        """By the best connected peer, on average."""
        return self.most_messages * self.report_bytes

    def to_dict(self) -> dict[str, float]:
        """Plain values."""
        return asdict(self) | {"bytes": self.bytes_sent, "most_bytes": self.most_bytes_sent}


def cost(accountant: WalkAccountant, rounds: int, *, report_bytes: int = 1024) -> Cost:
    """What so many rounds cost, once the walk has mixed."""
    rounds = checks.count(0, rounds=rounds)
    size = checks.count(report_bytes=report_bytes)
    heaviest = accountant.walk.n * float(accountant.walk.stationary.max())
    return Cost(float(rounds), heaviest * rounds, 1.0, heaviest, size)


@dataclass(frozen=True)
class Rounds:
    """The smallest number of rounds that keeps the target, its guarantee, and its cost."""

    rounds: int
    guarantee: Guarantee
    cost: Cost


def rounds_for(
    accountant: WalkAccountant,
    *,
    epsilon: float,
    delta: float | None = None,
    quantile: float = 1.0,
    most: int = _MOST_ROUNDS,
    report_bytes: int = 1024,
) -> Rounds:
    """The smallest number of rounds after which (ε, δ) is proved for this fraction of people.

    δ is min(1e-6, 1/(10 n)) unless said.
    """
    checks.positive(epsilon=epsilon)
    target = accountant.checked_delta(delta)
    checks.share(quantile=quantile)
    most = checks.count(most=most)
    view = accountant.view
    checks.refuse(view == "traffic", "view 'final' to search for rounds", view=view)
    if accountant.submit == "all":
        accountant.reports.require_reachable(
            accountant.walk.n, epsilon, target, best="number of rounds"
        )

    def keeps(rounds: int) -> bool:
        profile = accountant.profile(rounds, quantile=quantile)
        if epsilon >= profile.local_epsilon:
            return profile.local_delta <= target
        return profile.delta(epsilon * (1 - AGREEMENT)) <= target

    longest = min(most, accountant.walk.longest or most)
    bracket = doubled(keeps, 1, longest)
    if bracket is None:
        raise UnreachableTargetError(
            f"({epsilon:g}, {target:g})-DP",
            f"not within {longest:,} rounds",
            "allow more rounds, ask for a smaller quantile of people, or use a graph that mixes "
            "faster",
        )
    rounds = least(keeps, *bracket)
    guarantee = accountant.guarantee(rounds, delta=target, quantile=quantile)
    return Rounds(rounds, guarantee, cost(accountant, rounds, report_bytes=report_bytes))


@dataclass(frozen=True)
class UserEpsilons:
    """The ε proved for at least these fractions of all people, ascending."""

    rounds: int
    delta: float
    fractions: tuple[float, ...]
    epsilons: tuple[float, ...]

    @property
    def worst(self) -> float:
        """For everybody."""
        return self.at(1.0)

    @property
    def median(self) -> float:
        """For one half of them."""
        return self.at(0.5)

    def at(self, quantile: float) -> float:
        """For this fraction of people, from the next larger one that was computed."""
        checks.share(quantile=quantile)
        pairs = zip(self.fractions, self.epsilons, strict=True)
        return next(epsilon for fraction, epsilon in pairs if fraction >= quantile * (1 - 1e-12))


def user_epsilons(
    accountant: WalkAccountant,
    rounds: int,
    *,
    delta: float | None = None,
    fractions: Sequence[float] = _FRACTIONS,
    near_local: bool = True,
) -> UserEpsilons:
    """The ε of the best spread half of all people, and of larger fractions, up to everybody.

    A larger group contains the smaller ones, so its ε is at least theirs. δ is min(1e-6, 1/(10 n))
    unless said. ``near_local=False`` is for quick answers: :meth:`WalkProfile.answer`.
    """
    target = accountant.checked_delta(delta)
    for fraction in fractions:
        checks.share(fractions=fraction)
    ascending = tuple(sorted({*map(float, fractions), 1.0}))
    epsilons = [
        accountant.profile(rounds, quantile=fraction).answer(target, near_local=near_local)[0]
        for fraction in ascending
    ]
    lowest = tuple(min(epsilons[place:]) for place in range(len(epsilons)))
    return UserEpsilons(rounds, target, ascending, lowest)

"""How private reports are that were passed on, after how many rounds, for whom, and at what cost.

Reports that begin at the edge of a graph mix later than others: ε depends on the person.

A further round is post-processing: it moves every report on by itself, whatever it says. So δ
never grows with the rounds, and the smallest number is found by doubling and halving. No number
of rounds beats a uniform shuffle of the same reports, which is what remains when the walk has
forgotten where it began.

There are stronger adversaries: a server that sees who passes to whom, and people who work for it.

**Traffic.** The server sees who passes to whom, though not what.

Nodes re-encrypt, so a message that comes in cannot be matched with one that goes out, except that
they are at the same node at the same time. Show the adversary which of the other people did not
use the blanket, and all about them. The reports left are alike but for the one in question. Given
who used which edge in which round, those of them that are with one holder are exchangeable: the
probability w_j that report j is the one in question is AVERAGED over a holder's reports, every
round. In the end, with X = γ (ρ0_i - e^ε ρ1_i) with probability m_i/γ, γ = Σ m_i,

    δ(ε) <= E_traffic E[(Σ_j w_j X_j)_+],

and for X in an interval of length ℓ and mean -η, by Hoeffding's inequality, given the traffic

    E[(Σ_j w_j X_j)_+] <= ∫_0^∞ exp(-2 N (s + η)²/ℓ²) ds,       N = 1/Σ_j w_j²,

the *effective crowd*. No formula for the law of N is known: it is simulated. The mean over traffic
is then bounded from above, but for a probability that is added to δ, by the Chernoff bound for
numbers in an interval. So no δ much below 20/runs can be certified this way.

**Collusion.** The first colluder to hold a report ends its walk.

A report is passed on unchanged, so whoever held it recognises it at the end. The first colluder
to get it, in round s, knows who passed it on: the server learns where it was after s - 1 rounds,
and everything later depends on that alone. So "where, and when, or never" is the holder of the
theorem: with p_s the probability that the first colluder comes in round s, the stop-loss function
is

    S(k) = Σ_s p_s S_(s-1)(k) + (1 - Σ_s p_s) S_t(k),        S_0 = 1: the first step is from home.

It is NOT Σ p_s δ_s + ...: those δ_s would count on everybody having been caught in the same round.

Two settings: named people (exactly, up to a few thousand), or every new holder colluding with
the same probability, independently, p_s = c (1 - c)^(s-1).

>>> from shoal.network.generators import random_regular
>>> from shoal.network.walk import Walk
>>> accountant = WalkAccountant(Walk(random_regular(500, 16)), local_epsilon=1)
>>> 0.216 < accountant.guarantee(8, delta=1e-6).epsilon < 0.219  # a uniform shuffle has 0.2156
True
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import Literal, cast, get_args

import numpy as np
from scipy import special

from shoal import checks
from shoal.accounting.devices import Randomizer
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.accounting.search import doubled, least, root_below
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.explain.text import plural
from shoal.network import law
from shoal.network.generators import uniform
from shoal.network.graph import Nodes, node_numbers
from shoal.network.law import StopLoss
from shoal.network.locations import Locations, Method, lowered
from shoal.network.profile import AGREEMENT, DUMMIES, Reports, Route, WalkProfile, single_route
from shoal.network.walk import UNIT, Process, Submit, Walk, growth
from shoal.randomness import Randomness, secure
from shoal.values import Array, attributes

View = Literal["final", "traffic"]

WALKED = "blanket of holder and report"
NEARBY = "uniform shuffle, holders exchanged for independent ones of one law"
TRAFFIC = "blanket of reports that meet, simulated traffic"
TRUST = {
    "final": "the server sees who holds a report in the end, not who passed it to whom",
    "traffic": "the server sees who passes to whom in every round, not which report",
}
_EDGES = (
    "every edge is used in both directions, and the next holder is drawn uniformly among the "
    "neighbours"
)
_ALONE = "nobody who passes reports on works for the server"
_TIMES = "submissions carry nothing but holder and reports: no order, no time"
_ONE_SIMULATION = (
    "δ includes the probability that the simulation misleads, once: the smallest ε of "
    "several simulations is no bound"
)
_UNLINKED = "holders re-encrypt: no message that leaves looks like one that came in"

_FRACTIONS = (0.5, 0.9, 0.99, 1.0)
_MOST_ROUNDS = 100_000

_TOGETHER = 1 << 20  # reports moved on at a time
_FAILED = 0.1  # of δ, for the simulation's confidence
_HALVINGS = 40
_EVERY = 6  # so many first rounds are looked at one by one
_STRIDE = 1.25  # then this much apart
_LARGEST_WEIGHT = 1e6
_MOST_PEOPLE = 2500

# Stop-loss, honest people, and what may be wrong with the laws behind it: a total variation, and
# the probability that some bound does not hold.
Caught = tuple[StopLoss, int, float, float]


@dataclass(frozen=True, eq=False)
class WalkAccountant:
    """Reports of one randomizer, passed on along a walk, under one adversary.

    Everything that does not depend on the rounds is computed once. Exactly one of randomizer
    and local_epsilon.

    Args:
        walk: How reports are passed on.
        randomizer: What every device runs.
        local_epsilon: ε₀ from 0 to 300 of any randomizer that everybody uses.
        local_delta: δ₀ in [0, 1) beside it.
        view: "final" for a server that sees who submits what, "traffic" for one that sees who
            passes to whom, which is simulated.
        submit: "all" that a holder has, or a "single" report.
        collusion: Probability that a new holder works for the server, or the numbers of the
            people who do.
        method: How it is learned where reports are: "exact", "leading", "spectral", or "auto"
            by the size of the graph.
        runs: Simulated runs of view="traffic".
        randomness: For proofs and simulations that draw; None is secure.

    Raises:
        InvalidArgumentError: A setting is none of those, or two adversaries are combined.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.random_regular(500, 16))
        >>> network.WalkAccountant(walk, local_epsilon=1).guarantee(8).epsilon < 0.22
        True
    """

    walk: Process
    _: KW_ONLY
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
        checks.count(runs=self.runs)
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
        """The (ε, δ) of reports passed on for so many rounds, for everybody by default.

        Args:
            rounds: How often, at least 0.
            delta: The δ at which ε is wanted; min(1e-6, 1/(10 n)) unless given.
            epsilon: The ε at which δ is wanted instead.
            quantile: The fraction in (0, 1] of people it has to hold for, those whose
                reports are spread best.
            user: The number of one person that is asked about.
            near_local: False for quick answers: ε₀ where δ is not kept at 99 % of it.

        Raises:
            InvalidArgumentError: A number is out of its range, or two exclude each other.
            UnreachableTargetError: No ε is proved at so small a δ.
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
        """The target δ, or by default min(1e-6, 1/(10 n)) for the n people of the walk."""
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
            checks.refuse(quantile != 1.0, "quantile=1 with named colluders", quantile=quantile)
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


@dataclass(frozen=True)
class Cost:
    """What passing on costs an average peer and a hub, as :func:`shoal.network.cost` says.

    A peer holds n π reports on average at any time, and sends them all on every round.

    Attributes:
        messages: Sent by an average peer.
        most_messages: Sent by the best connected peer, on average.
        load: Reports held by an average peer.
        most_load: Reports held by the best connected peer, on average.
        report_bytes: Length of one report.
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
    """What so many rounds cost, once the walk has mixed.

    Args:
        accountant: The reports and their walk.
        rounds: How often reports are passed on.
        report_bytes: Length of one report.

    Returns:
        Messages, reports held and bytes, of an average peer and of a hub.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.random_regular(100, 8))
        >>> accountant = network.WalkAccountant(walk, local_epsilon=1)
        >>> network.cost(accountant, rounds=5).messages
        5.0
    """
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
    """The smallest number of rounds after which (ε, δ) is proved.

    Args:
        accountant: The reports, their walk and the adversary.
        epsilon: The target ε > 0.
        delta: The target δ; min(1e-6, 1/(10 n)) unless given.
        quantile: The fraction in (0, 1] of people it has to hold for.
        most: The most rounds that are tried.
        report_bytes: Length of one report, for the cost.

    Returns:
        ``rounds``, the ``guarantee`` after them, and their ``cost``.

    Raises:
        InvalidArgumentError: A number is out of its range, or the view is "traffic".
        UnreachableTargetError: Not even a central shuffler keeps the target, or not
            within ``most`` rounds.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.random_regular(500, 16))
        >>> accountant = network.WalkAccountant(walk, local_epsilon=1)
        >>> network.rounds_for(accountant, epsilon=0.22).rounds
        8
    """
    checks.positive(epsilon=epsilon)
    target = accountant.checked_delta(delta)
    checks.fraction(quantile=quantile)
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
    """The ε proved for at least these fractions of all people: :func:`shoal.network.user_epsilons`.

    Attributes:
        rounds: Rounds that reports were passed on.
        delta: The δ of all.
        fractions: Of the people, ascending up to 1.
        epsilons: One for each fraction.

    References:
        :doc:`/theory/network`.
    """

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
        checks.fraction(quantile=quantile)
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
    """The ε of the best spread half of people, and of larger fractions, up to everybody.

    A larger group contains the smaller ones, so its ε is at least theirs.

    Args:
        accountant: The reports, their walk and the adversary.
        rounds: How often reports are passed on.
        delta: δ; min(1e-6, 1/(10 n)) unless given.
        fractions: Fractions of people in (0, 1].
        near_local: False for quick answers: ε₀ where δ is not kept at 99 % of it.

    Returns:
        The fractions, ascending up to everybody, with an ε for each.

    Raises:
        InvalidArgumentError: A number is out of its range.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.barabasi_albert(200, 4))
        >>> accountant = network.WalkAccountant(walk, local_epsilon=1)
        >>> spread = network.user_epsilons(accountant, rounds=8)
        >>> spread.median <= spread.worst
        True
    """
    target = accountant.checked_delta(delta)
    for fraction in fractions:
        checks.fraction(fractions=fraction)
    ascending = tuple(sorted({*map(float, fractions), 1.0}))
    epsilons = [
        accountant.profile(rounds, quantile=fraction).answer(target, near_local=near_local)[0]
        for fraction in ascending
    ]
    lowest = tuple(min(epsilons[place:]) for place in range(len(epsilons)))
    return UserEpsilons(rounds, target, ascending, lowest)


# ----------------------------------------------------------- a server that sees who passes to whom


@dataclass(frozen=True, eq=False)
class Traffic:
    """Effective crowds of one person's report, one a simulated run."""

    crowds: Array
    reports: Reports

    def delta(self, epsilon: float, *, failure: float) -> float:
        """An upper bound on δ(ε), but for ``failure``, which is not yet added."""
        alone = self._alone(epsilon)
        if alone <= 0:
            return 0.0
        fractions = np.minimum(self._conditional(epsilon) / alone, 1.0)
        return alone * mean_bound(float(fractions.mean()), fractions.size, failure)

    def epsilon(self, delta: float) -> float:
        """The smallest ε certified at this δ, the simulation's failure included; at most ε0."""
        checks.open_probability(delta=delta)
        local = self.reports.local[0]
        checks.refuse(not math.isfinite(local), "a finite local epsilon", local_epsilon=local)

        def certified(epsilon: float) -> bool:
            return self.delta(epsilon, failure=delta * _FAILED) <= delta * (1 - _FAILED)

        return least(certified, 0.0, local, steps=_HALVINGS)

    def _alone(self, epsilon: float) -> float:
        """D_x of a report by itself, at most, between any two data."""
        x = math.exp(epsilon)
        return max(
            float(pair.mass @ (pair.rho0 - x * pair.rho1).clip(min=0.0))
            + pair.lost_divergence(epsilon).upper
            for pair in self.reports.own.pairs
        )

    def _conditional(self, epsilon: float) -> Array:
        """The bound given the traffic, for each run; the worst pair of inputs."""
        bounds = []
        for pair in self.reports.own.pairs:
            # η and ℓ of X = γ z, z a value with probability mass/γ.
            values, mass = pair.values(epsilon), pair.mass
            length = float(mass.sum()) * float(np.ptp(values))
            bound = positive_part(self.crowds, -float(values @ mass), length)
            bounds.append(bound + pair.lost_divergence(epsilon).upper)
        return np.asarray(np.max(bounds, axis=0))


def simulated_traffic(
    walk: Walk,
    rounds: int,
    *,
    user: int,
    reports: Reports,
    runs: int = 10_000,
    randomness: Randomness | None = None,
) -> Traffic:
    """Runs of the walk in which the effective crowd of one person's report is followed."""
    rounds, runs = checks.count(0, rounds=rounds), checks.count(runs=runs)
    checks.refuse(reports.local_delta, "a pure randomizer here", local_delta=reports.local_delta)
    (origin,) = node_numbers([user], walk.n, name="user")
    source = randomness or secure()
    mass = min(float(pair.mass.sum()) for pair in reports.own.pairs)
    n, width, step = walk.n, max(1, _TOGETHER // walk.n), mover(walk)
    crowds = []
    for first in range(0, runs, width):
        size = min(width, runs - first)
        alike = uniform(source, size * n).reshape(size, n) < mass
        alike[:, origin] = True
        run, holder = np.nonzero(alike)
        weights = (holder == origin).astype(np.float64)
        for _ in range(rounds):
            holder = step(holder, uniform(source, holder.size))
            weights = averaged(weights, run * n + holder)
        crowds.append(1 / np.bincount(run, weights=np.square(weights), minlength=size))
    return Traffic(np.concatenate(crowds), reports)


def averaged(weights: Array, places: Nodes) -> Array:
    """Every weight replaced by the average of those in the same place."""
    sums = np.bincount(places, weights=weights)
    counts = np.bincount(places)
    return np.asarray(sums[places] / counts[places])


def mover(walk: Walk) -> Callable[[Nodes, Array], Nodes]:
    """One step of each of many walks, from uniform numbers."""
    kernel = walk.transitions
    before = np.concatenate([[0.0], np.cumsum(kernel.data)])
    rows = np.repeat(np.arange(walk.n), np.diff(kernel.indptr))
    # Entries of row u end at numbers from u to u + 1.
    ends = rows + np.minimum(before[1:] - before[kernel.indptr[:-1]][rows], 1.0)

    def step(holders: Nodes, uniforms: Array) -> Nodes:
        entries = np.searchsorted(ends, holders + uniforms, side="right")
        entries = np.minimum(entries, kernel.indptr[holders + 1] - 1)
        return kernel.indices[entries].astype(np.int64)

    return step


def positive_part(crowds: Array, drift: float, length: float) -> Array:
    """∫_0^∞ exp(-2 N (s + η)²/ℓ²) ds for each N; η and ℓ of the module's text."""
    mean = max(-drift, 0.0)  # positive only where a randomizer loses more of one law than another
    if length <= 0:
        return np.full_like(crowds, mean)
    rate = np.sqrt(2 * crowds) / length
    beyond = math.sqrt(math.pi) / (2 * rate) * special.erfc(rate * max(drift, 0.0))
    return np.asarray(mean + beyond)


def mean_bound(average: float, runs: int, failure: float) -> float:
    """The largest mean of numbers in [0, 1] that such an average is likely enough under.

    Pr[average <= a] <= exp(-runs KL(a, mean)) for a <= mean (Hoeffding 1963, Theorem 1).
    """
    allowed = -math.log(failure) / runs

    def likelihood(mean: float) -> float:
        """Positive while the average is likely enough."""
        entropy = special.rel_entr(average, mean) + special.rel_entr(1 - average, 1 - mean)
        return allowed - float(entropy) if mean > average else allowed

    if average >= 1 or likelihood(1 - 1e-15) >= 0:
        return 1.0
    mean = root_below(likelihood, average, 1 - 1e-15, tolerance=1e-16)
    return min(1.0, mean * (1 + 1e-9) + 1e-15)


# ------------------------------------------------------------------------------------ colluders


def random_colluders(
    locations: Locations, rounds: int, probability: float, users: Nodes, *, count: int
) -> Caught:
    """Every new holder colludes with this probability, whoever held the report before.

    Between the rounds looked at, the report is shown as it was at the last of them: that is more
    than is seen, since what follows depends on where it was then alone.
    """
    at = law.points(_LARGEST_WEIGHT, count=count)
    losses = (1 - probability) ** rounds * locations.after(rounds).losses(users, at)
    looked = [0]
    while (last := looked[-1]) < rounds:
        following = last + 1 if last < _EVERY else max(last + 1, int(last * _STRIDE))
        looked.append(min(following, rounds))
    for first, after in itertools.pairwise(looked):
        # Caught in the rounds first + 1, ..., after.
        caught = (1 - probability) ** first - (1 - probability) ** after
        losses += caught * (locations.after(first).losses(users, at) if first else np.ones(at.size))
    losses[0] = 1.0
    honest = locations.process.n - math.ceil(probability * locations.process.n * (1 - 1e-12))
    checks.refuse(honest < 1, "at least one honest person", collusion=probability)
    loss = StopLoss(at, np.minimum(losses * (1 + 1e-13), 1.0))
    return loss, honest, locations.after(rounds).rounding, locations.failure


def named_colluders(
    walk: Walk, rounds: int, colluders: Sequence[int], *, user: int | None, count: int
) -> Caught:
    """These people collude; the laws are those of walks that end at the first of them."""
    caught = np.unique(node_numbers(list(colluders), walk.n, name="collusion"))
    honest = np.setdiff1d(np.arange(walk.n), caught)
    checks.refuse(not honest.size, "at least one honest person", collusion=list(colluders))
    expected = f"a probability for more than {_MOST_PEOPLE} honest people"
    checks.refuse(honest.size > _MOST_PEOPLE, expected, collusion=f"{caught.size} nodes")
    targets = np.arange(honest.size) if user is None else np.flatnonzero(honest == user)
    checks.refuse(not targets.size, "an honest person", user=user)
    at = law.points(_LARGEST_WEIGHT, count=count)
    steps = walk.transitions[honest]
    within = steps[:, honest].T.tocsr()
    leaving = np.asarray(steps[:, caught].sum(axis=1), dtype=np.float64).ravel()
    laws = np.eye(honest.size)  # columns: where each report is, if nobody has caught it
    error = walk.rounding(rounds) + growth(walk.n + 16)
    losses = np.zeros((targets.size, at.size))
    for _ in range(rounds):
        losses += _losses(laws, targets, at, leaving, error)
        laws = np.asarray(within @ laws)
    losses += _losses(laws, targets, at, np.ones(honest.size), error)
    worst = losses.max(axis=0) * (1 + 2 * error) + (rounds + 1) * 4 * UNIT
    worst[0] = 1.0
    return StopLoss(at, np.minimum(worst, 1.0)), int(honest.size), 2 * error, 0.0


def _losses(laws: Array, targets: Nodes, at: Array, leaving: Array, error: float) -> Array:
    """Σ_v leaving(v) (Q_u(v) - k min Q(v))_+ for each person and point."""
    minimum = lowered(laws.min(axis=1), error)
    rows = laws[:, targets].T
    totals = np.empty((len(rows), at.size))
    for index, point in enumerate(at):
        totals[:, index] = np.maximum(rows - point * minimum, 0.0) @ leaving
    return totals

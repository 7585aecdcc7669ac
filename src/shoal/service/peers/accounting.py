"""What a run among peers guarantees, given who was away when: nothing here is on average.

Who is away is the same for all reports, so reports that walk are independent only *given* the
absences. They are drawn beforehand (:class:`KnownConditions`), and the law of everybody's report is
computed from them: where it is at the end, or that its path was not over in time, which counts as
one place more. That the server never sees what is there only makes it more private.

Reports that a link has no room for wait (``cover`` = c), and are no longer independent. Up to the
first such round the run is the walk with room for everything, so the total variation between the
two is at most the probability that *that walk* puts more than c reports on some link in some round:
the sum of :func:`overflow` over links and rounds, at the loads of each round as they follow from
everybody's own report at the start. It costs (1 + e^ε) times itself of δ (docs/theory/network.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt
from scipy import stats

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.base import CategoryRandomizer, Device
from shoal.network import law
from shoal.network.account import TRUST, WALKED
from shoal.network.graph import Graph, Nodes
from shoal.network.locations import Spread, lowered, normalised
from shoal.network.profile import Reports, Route, WalkProfile, single_route
from shoal.network.walk import Absences, Walk, growth, without_diagonal
from shoal.service.peers.run import PeerRun, run_peers
from shoal.service.peers.survey import Conditions, PeerSurvey, Step
from shoal.values import Array, attributes

Online = npt.NDArray[np.bool_]

_BLOCK = 1 << 21  # probabilities followed at a time
_IN_TIME = 0.99  # of the paths
_UNKNOWN = "peers are not authenticated: nothing here keeps out one person with many peers"


@dataclass(frozen=True, eq=False)
class PeerCollection:
    """What arrived, what it says, and what everybody is guaranteed."""

    graph: Graph
    survey: PeerSurvey
    conditions: Conditions
    run: PeerRun
    estimate: Estimate
    guarantee: Guarantee
    seconds: float

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        warnings = [*self.guarantee.warnings]
        if self.run.duplicates:
            twice = f"{self.run.duplicates:,} reports came from two peers, which shows a hop of"
            warnings.append(f"{twice} each: the guarantee does not cover these")
        return (*warnings, _UNKNOWN)

    def to_dict(self) -> dict[str, object]:
        """Plain values: the guarantee, the counts and the settings."""
        run, loads = self.run, np.array(self.run.loads)
        return {
            "guarantee": self.guarantee.to_dict(),
            "peers": run.sent,
            **attributes(run, "arrived", "duplicates", "rejected", "stranded", "moves"),
            "most_load": int(loads.max()),
            "without_load": int((loads == 0).sum()),
            "survey": {**asdict(self.survey), "hops": self.survey.hops or self.survey.rounds},
            **attributes(self.conditions, "offline", "processes"),
            "overlay": {
                **attributes(self.graph, "n", "edges"),
                "degree": int(self.graph.degrees.max()),
            },
            "seconds": self.seconds,
            "warnings": list(self.warnings),
        }


def collect(
    values: npt.NDArray[np.int64],
    *,
    randomizer: CategoryRandomizer,
    graph: Graph,
    survey: PeerSurvey,
    conditions: Conditions,
    delta: float = 1e-6,
) -> PeerCollection:
    """Let peers with these values walk, and account for what they did, given who was away."""
    checks.open_probability(delta=delta)
    drawn = KnownConditions.drawn(conditions, graph.n, survey)
    began = time.monotonic()
    run = run_peers(values, randomizer=randomizer, graph=graph, survey=survey, conditions=drawn)
    seconds = time.monotonic() - began
    known = Whereabouts.of(graph, survey, drawn)
    return PeerCollection(
        graph=graph,
        survey=survey,
        conditions=conditions,
        run=run,
        estimate=estimate(run, known, survey=survey, randomizer=randomizer),
        guarantee=guarantee(run, known, survey=survey, randomizer=randomizer, delta=delta),
        seconds=seconds,
    )


def hops_in_time(rounds: int, offline: float) -> int:
    """The longest paths of which 99 % are over in time: both ends of a hop have to be there."""
    checks.count(1, rounds=rounds)
    checks.closed_probability(offline=offline)
    return max(1, int(stats.binom.ppf(1 - _IN_TIME, rounds, (1 - offline) ** 2)))


@dataclass(frozen=True, kw_only=True)
class KnownConditions(Conditions):
    """Conditions whose absences were drawn beforehand, for an account given who was there.

    ``KnownConditions.drawn`` draws them.

    Args:
        offline: Probability in [0, 1) that a peer is away in a round.
        killed: Who is gone for good in the middle of which round of the walk.
        transport: Loopback "sockets", or "memory".
        processes: How many the sockets are in.
        deadline: Seconds until an answer no longer counts.
        seed: Makes everybody's choices those of a simulation, which protects nobody.
        pattern: Who is away in every round.

    Example:
        >>> from shoal.service.peers import Conditions, PeerSurvey
        >>> drawn = KnownConditions.drawn(Conditions(offline=0.5), 10, PeerSurvey(rounds=2))
        >>> drawn.online(10).shape[1]
        10
    """

    pattern: tuple[Step, ...] = ()

    @classmethod
    def drawn(cls, conditions: Conditions, people: int, survey: PeerSurvey) -> KnownConditions:
        """Draw who is away in every round of the walk and of submission."""
        killed = conditions.killed
        checks.refuse(killed, "nobody killed, to account", killed=killed)
        count = survey.rounds + survey.submission_rounds
        pattern = tuple(islice(conditions.steps(people), count))
        return cls(**{**asdict(conditions), "pattern": pattern})

    def steps(self, people: int) -> Iterator[Step]:  # noqa: ARG002 - they are drawn already
        """The rounds as they were drawn."""
        return iter(self.pattern)

    def online(self, people: int) -> Online:
        """Who is there: a row a round, a column a peer."""
        here = np.ones((len(self.pattern), people), dtype=np.bool_)
        for row, step in zip(here, self.pattern, strict=True):
            row[list(step.away)] = False
        return here


@dataclass(frozen=True, eq=False)
class Whereabouts:
    """The law of each report's last place, given who was there.

    ``Whereabouts.of`` follows everybody's report; :func:`shoal.service.peers.accounting.guarantee`
    takes it.

    Attributes:
        laws: One a row: peers, then perhaps "not over in time".
        rounding: Relative error of every probability, at most.
        crowding: At least the probability that some report finds no room on a link.
        submitting: Which peers were there to submit.
    """

    laws: Array
    rounding: float
    crowding: float  # at least the probability that some report finds no room on a link
    submitting: Online  # which peers were there to submit

    @classmethod
    def of(cls, graph: Graph, survey: PeerSurvey, conditions: KnownConditions) -> Whereabouts:
        """Follow everybody's report through the absences."""
        online = conditions.online(graph.n)
        walking, submitting = online[: survey.rounds], online[survey.rounds :].any(axis=0)
        walk = Walk(graph)
        error = 2 * walk.rounding(survey.rounds) + growth(4 * survey.rounds + graph.n)
        if survey.mode == "hop":
            laws, loads = _hops(Absences(walk, walking))
        else:
            laws, loads = _paths(graph, survey, walking)
        crowding = loads.overflow(survey.cover, rounding=error)
        return cls(normalised(laws), error, crowding, np.asarray(submitting))

    @property
    def people(self) -> int:
        """How many reports set out."""
        return len(self.laws)

    @property
    def filled(self) -> Array:
        """The probability that each peer that submits holds something."""
        here = self.laws[:, : self.people][:, self.submitting]
        return np.asarray(-np.expm1(np.log1p(-np.minimum(here, 1 - 1e-16)).sum(axis=0)))

    @property
    def spread(self) -> Spread:
        """As the accountant of walks has it, everybody's law being known."""
        minimum = lowered(self.laws.min(axis=0), self.rounding)
        return Spread.of_laws(self.laws, minimum, self.rounding)


def guarantee(
    run: PeerRun,
    whereabouts: Whereabouts,
    *,
    survey: PeerSurvey,
    randomizer: Device,
    delta: float = 1e-6,
) -> Guarantee:
    """What everybody in a run among peers is guaranteed, the worst off included.

    Only reports that arrived are counted on: the bound grows as people are left out.

    Args:
        run: What arrived.
        whereabouts: Where reports were, given who was there.
        survey: The settings of the walk.
        randomizer: What every device ran.
        delta: δ in (0, 1).

    Returns:
        A :class:`shoal.Guarantee`.

    Raises:
        InvalidTypeError: ``randomizer`` is not one, and has no ``law()``.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import RandomizedResponse
        >>> from shoal.network import complete
        >>> from shoal.service.peers import Conditions, PeerSurvey, run_peers
        >>> survey, device = PeerSurvey(rounds=2), RandomizedResponse(k=2, epsilon=1.0)
        >>> where = KnownConditions.drawn(Conditions(transport="memory"), 20, survey)
        >>> settings, graph = {"randomizer": device, "survey": survey}, complete(20)
        >>> run = run_peers([0, 1] * 10, graph=graph, conditions=where, **settings)
        >>> known = Whereabouts.of(graph, survey, where)
        >>> guarantee(run, known, **settings).epsilon <= 1
        True
    """
    reports = Reports(randomizer=randomizer)
    profile = _profile(run, whereabouts, survey, reports)
    epsilon, theorem = profile.answer(delta, near_local=False)
    hops = "" if survey.mode == "hop" else f"{survey.layers} hops within "
    length = f"{hops}{survey.rounds} rounds"
    upper = Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=profile.n,
        local_epsilon=reports.local[0],
        theorem=theorem,
        assumptions=(
            reports.scope,
            f"reports are passed on for {length}, given who was away in each round",
            *_assumed(run, survey),
        ),
        trust=TRUST["final"],
    )
    return replace(upper, lower_bound=lambda: profile.lower_epsilon(delta))


def estimate(
    run: PeerRun, whereabouts: Whereabouts, *, survey: PeerSurvey, randomizer: CategoryRandomizer
) -> Estimate:
    """The fraction of each answer among the people, from what arrived.

    Where everybody submits one message, S arrive. D of them are reports on average, drawn from all,
    the others dummies of the default answer: shares are (S x - (S - D) default)/D for the shares x
    of the messages. To the messages' noise come that reports were drawn, and that their number
    varies, no more than if peers were independent.
    """
    messages = randomizer.estimate(run.batch)
    if survey.submit == "all":
        return messages
    filled = whereabouts.filled
    reports, sent = float(filled.sum()), run.arrived
    dummy = np.arange(randomizer.k) == survey.default
    shares = (sent * messages.frequencies - (sent - reports) * dummy) / reports
    clipped = np.clip(shares, 0.0, 1.0)
    drawn = clipped * (1 - clipped) / reports
    varying = np.square(clipped - dummy) * float((filled * (1 - filled)).sum()) / reports**2
    stretch = sent / reports
    noise = np.square(messages.standard_errors * stretch)
    return replace(
        messages,
        frequencies=shares,
        standard_errors=np.sqrt(noise + drawn + varying),
        n=run.sent,
        variance_slope=0.0,
        step=messages.step * stretch,
        granularity=messages.granularity * stretch,
        empty_error=None,
    )


def _profile(
    run: PeerRun, whereabouts: Whereabouts, survey: PeerSurvey, reports: Reports
) -> WalkProfile:
    spread, everybody = whereabouts.spread, np.arange(whereabouts.people)
    count = law.point_count(reports.own)
    crowded = min(whereabouts.crowding, 1.0)
    walked = law.walk_pairs(reports.own, spread.stop_loss(everybody, count=count))
    # One message a peer is made of all reports, so what holds for all of them holds for it.
    people = run.arrived if survey.submit == "all" else run.sent
    routes = [Route(WALKED, walked, people, whereabouts.rounding + crowded)]
    if survey.submit == "single":
        routes.append(single_route(spread, everybody, reports.own, slack=crowded))
    central = reports.central(people).lower_epsilon if survey.submit == "all" else lambda _: 0.0
    return WalkProfile(tuple(routes), central, *reports.local)


def _assumed(run: PeerRun, survey: PeerSurvey) -> list[str]:
    watched = (
        f"an observer of a link sees {survey.cover} frames in every round"
        if survey.cover
        else "nobody watches the links between peers"
    )
    what = "reports" if survey.submit == "all" else "messages, dummies included,"
    return [
        f"{run.arrived:,} {what} of {run.sent:,} people arrived; all of them follow the protocol",
        "nobody who passes reports on works for the server",
        watched,
        "every receipt came in time: no report was with two peers",
    ]


@dataclass(frozen=True, eq=False)
class LinkLoads:
    """What links carry in each round if they have room for everything.

    ``means``: reports on a link, on average. ``candidates``: reports that can be on it at all.
    ``links``: of how many links this holds. All of one shape.
    """

    means: Array
    candidates: Array
    links: Array

    def overflow(self, cover: int, *, rounding: float) -> float:
        """The probability, at most, that some link gets more than ``cover`` reports in a round."""
        if not cover:  # no limit
            return 0.0
        full = overflow(self.means * (1 + rounding), self.candidates, cover)
        return float((self.links * full).sum()) * (1 + 1e-9)


def overflow(means: Array, trials: Array, cover: int) -> Array:
    """Pr[N > cover], at most, for sums N of independent indicators: so many, with these means.

    Of all sums of k independent indicators with mean m <= c, the binomial one has the largest
    Pr[N > c]: Hoeffding, On the distribution of the number of successes in independent trials,
    1956, Theorem 4. For larger means 1 is said, unless k <= c.
    """
    shares = np.minimum(means / np.maximum(trials, 1), 1.0)
    tails = np.where(means <= cover, stats.binom.sf(cover, trials, shares), 1.0)
    return np.where(trials > cover, tails, 0.0)


def _hops(absences: Absences) -> tuple[Array, LinkLoads]:
    """Laws of where reports are after all rounds, and what was on the links from each peer.

    A report that stays, on a loop or because somebody is away, is on no link.
    """
    graph, online = absences.walk.graph, absences.online.astype(np.float64)
    across, _ = without_diagonal(graph.adjacency)
    means, candidates = np.zeros(online.shape), np.zeros(online.shape)
    laws = np.eye(graph.n)  # a column a report
    for number in range(len(online)):
        means[number] = laws.sum(axis=1) / graph.degrees
        candidates[number] = np.count_nonzero(laws, axis=1)
        laws = absences.advance(laws, number)
    return laws.T, LinkLoads(means, candidates, online * (across @ online.T).T)


def _paths(graph: Graph, survey: PeerSurvey, online: Online) -> tuple[Array, LinkLoads]:
    """Laws of ends of paths drawn by origins, and what was on each link.

    A report that is at u and has v next waits until both are there.
    """
    n, shape = graph.n, (survey.rounds, len(graph.neighbours))
    across = np.broadcast_to(graph.rows != graph.neighbours, shape).astype(np.float64)
    loads = LinkLoads(np.zeros(shape), np.zeros(shape), across)
    laws = np.zeros((n, n + 1))
    width = max(1, _BLOCK // (len(graph.neighbours) * survey.layers))
    for first in range(0, n, width):
        origins = np.arange(first, min(first + width, n))
        laws[origins] = _followed(graph, survey, online, origins, loads)
    return laws, loads


def _followed(
    graph: Graph, survey: PeerSurvey, online: Online, origins: Nodes, loads: LinkLoads
) -> Array:
    """Where these reports' paths end, or that they do not; adds what they put on links."""
    degrees = graph.degrees
    ended = np.zeros((len(origins), graph.n))
    # waiting[h]: h hops made, and on the way along each directed edge.
    waiting = np.zeros((survey.layers, len(origins), len(graph.neighbours)))
    waiting[0] = (graph.rows == origins[:, None]) / degrees[origins][:, None]
    for number in range(survey.rounds):
        here = online[number]
        goes = here[graph.rows] & here[graph.neighbours]
        moving = waiting * goes
        going = moving.sum(axis=0)
        loads.means[number] += going.sum(axis=0)
        loads.candidates[number] += np.count_nonzero(going, axis=0)
        waiting *= ~goes
        for made in range(survey.layers):
            arrived = _gathered(moving[made], graph)
            if made + 1 == survey.layers:
                ended += arrived
            else:
                waiting[made + 1] += (arrived / degrees)[:, graph.rows]
    # A sum, not what is missing to 1: that would cancel.
    return np.column_stack([ended, waiting.sum(axis=(0, 2))])


def _gathered(moving: Array, graph: Graph) -> Array:
    """Sums over the edges that lead to each node; an undirected graph lists them at their end."""
    back = np.lexsort((graph.rows, graph.neighbours))
    return np.add.reduceat(moving[:, back], graph.offsets[:-1], axis=1)

"""Which overlay to build: how many rounds each needs, and what they cost.

People who do not know each other need neighbours assigned. Then the graph is a choice, and what is
worth paying for is neighbours: everybody keeps a connection to each. The complete graph with loops
needs one round, whose holders are uniform exactly; a random d-regular graph has
|λ| ≈ 2√(d-1)/d (Friedman 2008, A proof of Alon's second eigenvalue conjecture, Mem. AMS 195), so a
logarithmic number; a ring or a grid has a gap of 1/n² or 1/n, so that no number people would wait
for is enough. Rounds are those that a bound on the eigenvalues proves enough, for everybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple

from shoal import checks
from shoal.accounting.guarantee import NEIGHBOURING, default_delta
from shoal.errors import UnreachableTargetError
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import plain, up
from shoal.network import generators
from shoal.network.account import TRUST, WALKED, WalkAccountant, rounds_for
from shoal.network.graph import Graph
from shoal.network.profile import Reports
from shoal.network.walk import Kind, Progress, Walk
from shoal.randomness import simulated

NEAR = 1.1  # times a central shuffler's ε is the default target
MOST_ROUNDS = 10_000
_FEWEST = 12  # people that every kind of overlay can be made of
_REWIRED = 0.2
_LARGEST_DEGREE = 1024
_MOST_NEIGHBOURS = 50_000_000  # of all people together: graphs are kept in memory
_STARTS = 1 << 40  # a stream that no graph is drawn from: bounds on eigenvalues start at random


@dataclass(frozen=True)
class Overlay:
    """One overlay, and what keeping the target takes: None if no number of rounds was enough."""

    name: str
    neighbours: int  # of the best connected peer
    rounds: int | None
    epsilon: float | None
    most_load: float  # reports held by the best connected peer, on average

    @property
    def most_messages(self) -> float | None:
        """Sent by the best connected peer, on average; everybody's average is the rounds."""
        return None if self.rounds is None else self.rounds * self.most_load

    @property
    def cells(self) -> tuple[str, ...]:
        """The line of a table."""
        name = (self.name, f"{self.neighbours:,}")
        if self.rounds is None:
            return (*name, f"> {MOST_ROUNDS:,}", "", "", "")
        sends, holds = f"{self.most_messages or 0.0:,.0f}", f"{self.most_load:,.1f}"
        return (*name, f"{self.rounds:,}", up(self.epsilon or 0.0, 4), sends, holds)


@dataclass(frozen=True)
class Comparison:
    """Overlays for n people that keep (ε, δ) of reports with this ε0, most neighbours first."""

    n: int
    degree: int
    epsilon: float
    delta: float
    local_epsilon: float
    central: float  # the ε that a shuffler would keep
    overlays: tuple[Overlay, ...]

    @property
    def recommended(self) -> Overlay | None:
        """The fewest rounds among overlays with at most ``degree`` neighbours each."""
        within = [each for each in self.overlays if each.rounds and each.neighbours <= self.degree]
        return min(within, key=lambda each: (each.most_messages, each.neighbours), default=None)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        best, each = self.recommended, self.overlays
        return {
            **asdict(self),
            "overlays": [{**asdict(one), "most_messages": one.most_messages} for one in each],
            "recommended": None if best is None else best.name,
            "adversary": TRUST["final"],
            "theorem": WALKED,
            "neighbouring": NEIGHBOURING,
        }

    def document(self) -> Document:
        """A line for each overlay, and which one to build."""
        best = self.recommended
        title = (
            f"{self.n:,} people, ε0 = {plain(self.local_epsilon)}, "
            f"ε <= {up(self.epsilon)} at δ = {plain(self.delta)}"
        )
        headings = ("overlay", "links", "rounds", "ε", "busiest: sends", "holds")
        rows = tuple(Row(each.cells, "strong" if each is best else "") for each in self.overlays)
        advice = (
            f"None with at most {self.degree:,} neighbours mixes in {MOST_ROUNDS:,} rounds: "
            "allow more neighbours."
        )
        if best is not None:
            advice = (
                f"Build {best.name}: {best.rounds} rounds keep ε = {up(best.epsilon or 0.0)} (a "
                f"central shuffler: {up(self.central)}), with at most {self.degree:,} neighbours "
                "each."
            )
        key = (
            "An average peer holds one report and sends one message a round; the busiest, on "
            "average, as many as the last columns say."
        )
        stated = (
            f"For everybody, by the {WALKED}, replacement of one person's datum; {TRUST['final']}; "
            "nobody who passes reports on works for it. "
            f"Local ε0 = {plain(self.local_epsilon)} (no trust needed)."
        )
        return Document(
            title,
            table=Table(headings, rows, frozenset(range(1, len(headings))), title),
            sentences=(key, advice, stated),
        )


class _Candidate(NamedTuple):
    """An overlay to try; ``relaxation`` is 1/(1 - λ) where it is known to be long."""

    name: str
    neighbours: int
    make: Callable[[], Graph]
    kind: Kind = "simple"
    relaxation: float = 0.0


def compare(
    n: int,
    *,
    degree: int = 16,
    local_epsilon: float = 1.0,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """What several overlays take to keep (ε, δ); by default ε within 10 % of a shuffler's.

    δ is min(1e-6, 1/(10 n)) by default. Overlays are drawn anew for another ``seed``; the same one
    gives the same answer.
    """
    n, degree = checks.count(_FEWEST, n=n), checks.count(4, degree=degree)
    most = min(_LARGEST_DEGREE, n // 3)
    wrong = degree % 2 or degree > most
    checks.refuse(wrong, f"an even number of 4 to {most} neighbours", degree=degree)
    fit = f"n <= {_MOST_NEIGHBOURS // degree:,} people with {degree} neighbours each"
    expected = f"{fit} (larger graphs do not fit into memory)"
    checks.refuse(n * degree > _MOST_NEIGHBOURS, expected, n=n)
    delta = default_delta(n) if delta is None else delta
    checks.positive(local_epsilon=local_epsilon)
    checks.open_probability(delta=delta)
    reports = Reports(local_epsilon=local_epsilon)
    if epsilon is None:
        central = reports.central(n).epsilon(delta)
        near = "no epsilon is within 10 % of a shuffler's, which is 0 at this delta"
        checks.refuse(central == 0, f"an epsilon to reach: {near}", epsilon=None)
        epsilon = min(NEAR * central, local_epsilon)
    else:
        checks.positive(epsilon=epsilon)
        central = reports.require_reachable(n, epsilon, delta, best="overlay")
    candidates = _candidates(n, degree, seed)
    overlays = [Overlay("complete, with loops", n, 1, central, 1.0)]
    for done, (name, neighbours, make, kind, relaxation) in enumerate(candidates):
        if progress is not None:
            progress(done, len(candidates))
        if relaxation > MOST_ROUNDS:  # λ^t is above 1/e for all of them
            overlays.append(Overlay(name, neighbours, None, None, 1.0))
            continue
        walk, starts = Walk(make(), kind=kind), simulated(_STARTS + seed)
        accountant = WalkAccountant(
            walk, local_epsilon=local_epsilon, method="spectral", randomness=starts
        )
        rounds, reached = None, None
        with suppress(UnreachableTargetError):
            enough = rounds_for(accountant, epsilon=epsilon, delta=delta, most=MOST_ROUNDS)
            rounds, reached = enough.rounds, enough.guarantee.epsilon
        load, most = walk.n * float(walk.stationary.max()), int(walk.graph.degrees.max())
        overlays.append(Overlay(name, most, rounds, reached, load))
    return Comparison(n, degree, epsilon, delta, local_epsilon, central, tuple(overlays))


def _candidates(n: int, degree: int, seed: int) -> list[_Candidate]:
    """Overlays with neighbours to spare, with as many as allowed, and with fewer."""
    half, side = degree // 2, math.isqrt(n)
    regular = partial(generators.random_regular, n, seed=seed)
    most = min(n // 3, _LARGEST_DEGREE)
    degrees = [each for each in (2 * degree, degree, half + half % 2) if 4 <= each <= most]
    # Along one side the walk is one on a path, which moves a quarter of the time:
    # 4/(1 - cos(pi/(side - 1))); on a ring it is 2/(1 - cos(2 pi/n)).
    grid = 2 / math.sin(math.pi / (2 * (side - 1))) ** 2
    ring = 1 / math.sin(math.pi / n) ** 2

    def small_world() -> Graph:
        return generators.watts_strogatz(n, degree, _REWIRED, seed=seed).largest_component()

    return [
        *(_Candidate(f"random {each}-regular", each, partial(regular, each)) for each in degrees),
        _Candidate("small world", degree, small_world),
        _Candidate("preferential", degree, lambda: generators.barabasi_albert(n, half, seed=seed)),
        _Candidate("grid, lazy", 4, lambda: generators.grid(side, side), "lazy", grid),
        _Candidate("ring, lazy", 2, lambda: generators.ring(n), "lazy", ring),
    ]

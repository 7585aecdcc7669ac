"""From what ``shoal walk`` was asked to the accountant of walks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from shoal.accounting.guarantee import Guarantee
from shoal.cli.group import RefusedError
from shoal.cli.show import warnings
from shoal.cli.walk_asked import Kind, View, WalkAsked
from shoal.network import settled
from shoal.network.account import WalkAccountant
from shoal.network.graph import Graph
from shoal.network.rounds import Cost, cost, rounds_for
from shoal.network.schedule import Absences
from shoal.network.simulation import Simulation, simulate
from shoal.network.walk import Process, Walk
from shoal.randomness import simulated

Progress = Callable[[int, int], None]

NEAR = 1.1  # times a central shuffler's ε is near enough, if nothing is asked for
SHARES = {1.0: "worst", 0.99: "99 %", 0.9: "90 %", 0.5: "median"}
_FEW_SHARES = {1.0: "worst", 0.5: "median"}
_STEPS = (1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)
_FEW_STEPS = (1 / 2, 1.0)  # of adversaries whose accounts take long
_PLOTTED = 14
_MOST_ABSENCES = 10_000  # people, each with a law of their own
_PATTERN = 10**8  # entries of a pattern of absences
_PER_DELTA = 20  # runs that certify δ = 1/runs, and as many times more


@dataclass(frozen=True)
class Row:
    """ε after some rounds, by column."""

    rounds: int
    epsilons: dict[str, float]


@dataclass(frozen=True)
class Walked:
    """The whole answer."""

    asked: WalkAsked
    graph: Graph
    walk: Walk
    rows: tuple[Row, ...]
    guarantee: Guarantee
    central: float
    cost: Cost
    notes: tuple[str, ...]
    user: int | None = None  # as the file calls them
    simulation: Simulation | None = None

    @property
    def rounds(self) -> int:
        """The number of rounds asked for or found."""
        return self.rows[-1].rounds

    @property
    def columns(self) -> tuple[str, ...]:
        """Whose ε the rows have."""
        return tuple(self.rows[-1].epsilons)

    @property
    def warnings(self) -> list[str]:
        """What to know before relying on it."""
        return [*warnings(self.guarantee), *self.notes]

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        last = self.rows[-1].epsilons
        return {
            "rounds": self.rounds,
            "worst": self._about("worst", last) and {**self.guarantee.to_dict()},
            "median": self._about("median", last),
            "quantiles": {str(share): last[name] for share, name in SHARES.items() if name in last},
            "user": None if self.user is None else {"node": self.user, **self.guarantee.to_dict()},
            "central": {"epsilon": self.central},
            "local": {
                "epsilon": self.guarantee.local_epsilon,
                "delta": self.guarantee.local_delta,
            },
            "delta": self.guarantee.delta,
            "table": [{"rounds": row.rounds, **row.epsilons} for row in self.rows],
            "graph": _facts(self.graph),
            "walk": {"kind": self.walk.kind, "stay": self.walk.stay, "offline": self.asked.offline},
            "adversary": {
                "view": self.asked.view.value,
                "submit": self.asked.submit.value,
                "collusion": self.asked.collusion,
                "trust": self.guarantee.trust,
                "assumptions": list(self.guarantee.assumptions),
            },
            "cost": {
                **asdict(self.cost),
                "bytes": self.cost.bytes_sent,
                "most_bytes": self.cost.most_bytes_sent,
            },
            "simulation": None if self.simulation is None else _walked_once(self.simulation),
            "warnings": self.warnings,
        }

    @staticmethod
    def _about(name: str, last: dict[str, float]) -> dict[str, object] | None:
        return {"epsilon": last[name]} if name in last else None


def answer(asked: WalkAsked, progress: Progress) -> Walked:
    """Read the graph, find the rounds, account for some numbers of rounds up to them."""
    graph = read(asked)
    walk = Walk(graph, kind=asked.walk_kind.value)
    accountant = _accountant(asked, _process(asked, walk))
    central = accountant.reports.central(walk.n).epsilon(asked.delta)
    rounds = asked.rounds or _searched(asked, accountant, central)
    user = _followed(asked, graph, accountant, rounds)
    rows, guarantee = _accounted(asked, accountant, _lengths(asked, rounds), user, progress)
    walked = None
    if asked.simulate:
        walked = simulate(
            walk, rounds, seed=asked.seed, submit=asked.submit.value, offline=asked.offline
        )
    return Walked(
        asked=asked,
        graph=graph,
        walk=walk,
        rows=rows,
        guarantee=_with_absences(asked, guarantee),
        central=central,
        cost=cost(accountant, rounds, report_bytes=asked.report_bytes),
        notes=(*graph.notes, *walk.notes, *_remarks(asked, rounds)),
        user=None if user is None else int(graph.labels[user]),
        simulation=walked,
    )


def read(asked: WalkAsked) -> Graph:
    """The graph, if a walk on it can mix; else an error that says which option helps."""
    graph = Graph.read(
        asked.graph, largest_component=asked.largest_component, keep_loops=asked.keep_loops
    )
    isolated = np.flatnonzero(graph.degrees == 0)
    if isolated.size:
        name = graph.labels[isolated[0]]
        raise RefusedError(
            f"node {name} of {asked.graph} has no neighbour: leave it out, or say "
            "--largest-component"
        )
    if not graph.connected:
        raise RefusedError(
            f"{asked.graph} falls into {graph.components:,} parts that no report can leave: say "
            "--largest-component"
        )
    if graph.bipartite and asked.walk_kind is Kind.SIMPLE:
        raise RefusedError(
            f"{asked.graph} is bipartite: after an even number of rounds reports are back on their "
            "own side, however many there are; say --lazy"
        )
    return graph


def _process(asked: WalkAsked, walk: Walk) -> Process:
    """The walk, or the walk with a pattern of absences."""
    if not asked.offline:
        return walk
    if walk.n > _MOST_ABSENCES:
        raise RefusedError(
            f"--offline follows everybody's report: at most {_MOST_ABSENCES:,} people, "
            f"got {walk.n:,}"
        )
    rounds = asked.rounds or _PATTERN // walk.n
    online = 1 - asked.offline
    return Absences.drawn(walk, rounds, online=online, randomness=simulated(asked.seed))


def _accountant(asked: WalkAsked, process: Process) -> WalkAccountant:
    return WalkAccountant(
        walk=process,
        view=asked.view.value,
        submit=asked.submit.value,
        collusion=asked.collusion,
        runs=asked.runs,
        randomness=simulated(asked.seed) if asked.view is View.TRAFFIC else None,
        **asked.devices(),
    )


def _searched(asked: WalkAsked, accountant: WalkAccountant, central: float) -> int:
    if asked.epsilon is None and central == 0:
        near = "which is 0 at this δ: no number of rounds comes within 10 % of it"
        raise RefusedError(f"give --epsilon or --rounds instead of a central shuffler's ε, {near}")
    target = NEAR * central if asked.epsilon is None else asked.epsilon
    return rounds_for(accountant, epsilon=target, delta=asked.delta).rounds


def _followed(
    asked: WalkAsked, graph: Graph, accountant: WalkAccountant, rounds: int
) -> int | None:
    """Whose report the simulation of traffic is about: the worst spread one, unless said."""
    if asked.view is not View.TRAFFIC:
        return None
    if asked.user is None:
        return int(accountant.survey.after(rounds).order[-1])
    found = np.flatnonzero(graph.labels == asked.user)
    if not found.size:
        raise RefusedError(f"expected --user to be a node of {asked.graph}, got {asked.user}")
    return int(found[0])


def _lengths(asked: WalkAsked, rounds: int) -> list[int]:
    """Numbers of rounds to account for, up to the last."""
    steps: tuple[float, ...]
    if asked.slow:
        steps = _FEW_STEPS
    elif asked.plot is not None:
        steps = tuple(np.linspace(0, 1, _PLOTTED + 1)[1:].tolist())
    else:
        steps = _STEPS
    return sorted({max(1, round(step * rounds)) for step in steps})


def _accounted(
    asked: WalkAsked,
    accountant: WalkAccountant,
    lengths: list[int],
    user: int | None,
    progress: Progress,
) -> tuple[tuple[Row, ...], Guarantee]:
    shares = _FEW_SHARES if asked.slow else SHARES
    rows, kept = [], None
    for done, rounds in enumerate(lengths):
        progress(done, len(lengths) + 1)
        if user is None:
            found = settled.epsilons(accountant, rounds, delta=asked.delta, shares=tuple(shares))
            rows.append(Row(rounds, {name: found[share] for share, name in shares.items()}))
        else:
            kept = accountant.guarantee(rounds, delta=asked.delta, user=user)
            rows.append(Row(rounds, {"one person": kept.epsilon}))
    progress(len(lengths), len(lengths) + 1)
    return tuple(rows), kept or settled.guarantee(accountant, lengths[-1], delta=asked.delta)


def _with_absences(asked: WalkAsked, found: Guarantee) -> Guarantee:
    if not asked.offline:
        return found
    said = (
        f"absences are those of one pattern, drawn with chance {asked.offline:g} a round "
        f"(seed {asked.seed}); other patterns have other ε"
    )
    return replace(found, assumptions=(*found.assumptions, said))


def _remarks(asked: WalkAsked, rounds: int) -> list[str]:
    said = []
    met = 1 - (1 - asked.collusion) ** rounds
    if met > asked.delta:
        said.append(
            f"a report meets somebody who works for the server with probability {met:.3g}, more "
            "than δ: fewer rounds or onion layers help, more rounds do not"
        )
    if asked.view is View.TRAFFIC and asked.runs * asked.delta < _PER_DELTA:
        least = _PER_DELTA / asked.runs
        said.append(
            f"{asked.runs:,} runs certify no δ much below {least:.2g}: ask for a larger --delta "
            "or more --runs"
        )
    return said


def _facts(graph: Graph) -> dict[str, object]:
    return {
        "n": graph.n,
        "edges": graph.edges,
        "irregularity": graph.irregularity,
        "regular": graph.regular,
        "fewest_neighbours": int(graph.degrees.min()),
        "most_neighbours": int(graph.degrees.max()),
        "bipartite": graph.bipartite,
        "notes": list(graph.notes),
    }


def _walked_once(found: Simulation) -> dict[str, object]:
    return {
        "rounds": found.rounds,
        "moves": found.moves,
        "delivered": found.delivered_share,
        "holders": found.holders,
        "most_load": int(found.loads.max()),
        "dummies": found.dummies,
        "submit": found.submit,
    }

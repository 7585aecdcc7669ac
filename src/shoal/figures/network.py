"""The figures of network shuffling: ε of reports that people pass on, by graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from shoal.accounting import catalog
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.explain import plots
from shoal.explain.plots import Axis, Look
from shoal.figures import bounds
from shoal.figures.drawing import Level, Panel, Row, figure
from shoal.network import generators, law
from shoal.network.account import WALKED, WalkAccountant
from shoal.network.graph import Graph
from shoal.network.law import StopLoss
from shoal.network.locations import Locations, Spread
from shoal.network.profile import Route, WalkProfile
from shoal.network.published import all_epsilon
from shoal.network.walk import Walk
from shoal.randomness import simulated

DELTA = 1e-6
PEOPLE = 1000
_POINTS = 24  # of a stop-loss function: fewer than by default, and hardly worse
GRAPHS: dict[str, Callable[[], Graph]] = {
    "regular": lambda: generators.random_regular(PEOPLE, 16),
    "preferential": lambda: generators.barabasi_albert(PEOPLE, 4),
    "small-world": lambda: generators.watts_strogatz(PEOPLE, 8, 0.2),
}
_LOOKS = {
    "regular": Look("random 16-regular", plots.BLUE, plots.SOLID, 2.2),
    "preferential": Look("preferential attachment", plots.VERMILION, plots.SOLID, 2.2),
    "small-world": Look("small world", plots.GREEN, plots.SOLID, 2.2),
}
_CENTRAL = Look("central shuffler", plots.BLACK, plots.DOTTED, 1.8)


@cache
def _locations(name: str) -> Locations:
    """Where reports are on one of the graphs."""
    return Locations(Walk(GRAPHS[name]()))


@cache
def _covered(name: str, rounds: int, fraction: float = 1.0) -> tuple[StopLoss, Spread]:
    """One law that covers the best spread fraction of people, after so many rounds."""
    spread = _locations(name).after(rounds)
    return spread.stop_loss(spread.group(quantile=fraction), count=_POINTS), spread


def _epsilon(walked: StopLoss, spread: Spread, local_epsilon: float) -> float:
    """ε of such people's reports, of any randomizers with this ε0; at most ε0, which holds."""
    pairs = law.walk_pairs(BlanketLaw.generic(local_epsilon), walked)
    route = Route(WALKED, pairs, spread.n, spread.rounding, spread.failure)
    profile = WalkProfile((route,), lambda _: 0.0, local_epsilon)
    return profile.answer(DELTA, near_local=False)[0]


# --------------------------------------------------------------------------------- against rounds

LOCAL_EPSILON = 1.0
_ROUNDS = Axis(
    "rounds of passing on", (3, 24), log=False, ticks={t: str(t) for t in range(3, 25, 3)}
)
_EVERYBODY = Look("everybody", plots.QUIET, width=2.2)
_HALF = Look("one half of the people", plots.QUIET, plots.DASHED, 1.3)


def _styled(looks: dict[str, Look]) -> dict[str, Look]:
    """The colour of each graph in several styles, by the end of the column, and a shuffler."""
    return {
        f"{name}-{end}": replace(look, color=graph.color, label=graph.label)
        for end, look in looks.items()
        for name, graph in _LOOKS.items()
    } | {"central": _CENTRAL}


@figure(
    10,
    Panel(
        "rounds",
        _ROUNDS,
        Axis("ε at δ = 10⁻⁶", (0.1, 1.25)),
        _styled({"worst": _EVERYBODY, "median": _HALF}),
        levels=[Level(LOCAL_EPSILON, "ε₀: no amplification")],
        names="beside",
        legend=[*_LOOKS.values(), _EVERYBODY, _HALF, _CENTRAL],
    ),
)
def network_epsilon_vs_rounds(points: int) -> Iterator[Row]:
    """How many rounds: ε of reports that people pass on.

    n = 1000, ε₀ = 1, δ = 10⁻⁶, any ε₀-DP randomizer. Settings chosen by us. Graphs: random
    16-regular; preferential attachment with 4 links a newcomer (Barabási, Albert 1999); a ring
    of 8 neighbours with one edge in five rewired (Watts, Strogatz 1998). The server sees who
    holds a report in the end, not who passed it on. Protocol: Liew, Takahashi, Takagi, Kato,
    Cao, Yoshikawa, SIGMOD 2022, arXiv 2204.03919; the bound is this library's.
    """
    # ε of everybody and of one half, at numbers of rounds dense where few.
    central = PrivacyProfile(BlanketLaw.generic(LOCAL_EPSILON), PEOPLE).epsilon(DELTA)
    for rounds in sorted({round(t) for t in np.geomspace(*_ROUNDS.limits, points)}):
        row: Row = {"rounds": rounds, "n": PEOPLE, "local_epsilon": LOCAL_EPSILON, "delta": DELTA}
        row["central"] = central
        for name in GRAPHS:
            for whose, fraction in (("worst", 1.0), ("median", 0.5)):
                spread = _covered(name, rounds, fraction)
                row[f"{name}-{whose}"] = _epsilon(*spread, LOCAL_EPSILON)
        yield row


# --------------------------------------------------------------------------- against local epsilon

_LOCAL_EPSILONS = Axis("local ε₀", (0.1, 3.5))
ROUNDS = {
    6: Look("after 6 rounds", plots.QUIET, plots.DASHED, 1.4),
    14: Look("after 14 rounds", plots.QUIET, width=2.2),
}


@figure(
    10,
    Panel(
        "local_epsilon",
        _LOCAL_EPSILONS,
        Axis("ε at δ = 10⁻⁶, for everybody", (0.008, 5)),
        _styled({str(rounds): look for rounds, look in ROUNDS.items()}),
        diagonal=True,
        names="beside",
        legend=[*_LOOKS.values(), *ROUNDS.values(), _CENTRAL],
    ),
)
def network_epsilon_vs_local_epsilon(points: int) -> Iterator[Row]:
    """ε after passing on against ε₀ before, by graph.

    n = 1000, δ = 10⁻⁶, any ε₀-DP randomizer, the worst off person. Settings chosen by us.
    Graphs: random 16-regular; preferential attachment with 4 links a newcomer; a ring of 8
    neighbours with one edge in five rewired. The server sees who holds a report in the end, not
    who passed it on. Protocol: Liew, Takahashi, Takagi, Kato, Cao, Yoshikawa, SIGMOD 2022,
    arXiv 2204.03919; the bound is this library's.
    """
    # ε of everybody after few and after more rounds, for each graph.
    for local_epsilon in np.geomspace(*_LOCAL_EPSILONS.limits, points).tolist():
        central = PrivacyProfile(BlanketLaw.generic(local_epsilon), PEOPLE).epsilon(DELTA)
        known = {"local_epsilon": local_epsilon, "n": PEOPLE, "delta": DELTA, "central": central}
        yield known | {
            f"{name}-{rounds}": _epsilon(*_covered(name, rounds), local_epsilon)
            for name in GRAPHS
            for rounds in ROUNDS
        }


# ------------------------------------------------------------------------------------ against n

_LOCAL = 0.5
_PEOPLE, _EPSILONS = Axis("people n", (3e3, 5e4)), Axis("ε at δ = 10⁻⁶", (2e-3, 0.75))
_NOTHING = Level(_LOCAL, "ε₀: none")
WALKS = (15, 19)
_WAYS = {
    "network-published": Look("network, published", plots.GREEN, plots.DASHED, 1.4),
    "efmrtt19": bounds.LOOKS["efmrtt19"],
    "subsampling": Look("subsampling, 1 in √n", plots.ORANGE),
    "clones": bounds.LOOKS["clones"],
    "network-15": Look("network, 15 rounds", plots.GREEN, plots.DASH_DOT, 2.0),
    "optimal-clones": bounds.LOOKS["optimal-clones"],
    "network-19": Look("network, 19 rounds", plots.GREEN, plots.SOLID, 1.4),
}


@figure(7, Panel("n", _PEOPLE, _EPSILONS, _WAYS, levels=[_NOTHING], stops=True, names="ends"))
def network_mechanisms(points: int) -> Iterator[Row]:
    """Ways to amplify: none, sampling, a shuffler, a network.

    ε₀ = 0.5, δ = 10⁻⁶, any ε₀-DP randomizer. Settings chosen by us. Sampling: one report in √n
    is used, nobody knows which. Network: random 16-regular, everybody, from a bound on the
    eigenvalues; dashed: Theorem 5.3 of Liew, Takahashi, Takagi, Kato, Cao, Yoshikawa, SIGMOD
    2022, arXiv 2204.03919, stationary. A ring marks where a theorem stops applying
    or says no more than ε₀.
    """
    # Every way to amplify, at numbers of people spread evenly on a logarithmic scale.
    for n in sorted({2 * round(n / 2) for n in np.geomspace(*_PEOPLE.limits, points)}):
        query = catalog.Query(local_epsilon=_LOCAL, n=n, delta=DELTA)
        half = DELTA / 2
        published = all_epsilon(
            local_epsilon=_LOCAL, delta=half, meeting_delta=half, n=n, collision=1 / n
        )
        # The bound on the eigenvalues starts at random: from a seed, so that figures repeat.
        walk = WalkAccountant(
            Walk(generators.random_regular(n, 16)),
            local_epsilon=_LOCAL,
            method="spectral",
            randomness=simulated(0),
        )
        row: Row = {"n": n, "local_epsilon": _LOCAL, "delta": DELTA}
        row["subsampling"] = math.log1p(math.expm1(_LOCAL) / math.sqrt(n))
        shuffled = ("efmrtt19", "clones", "optimal-clones")
        row |= {name: bounds.epsilon(name, query) for name in shuffled}
        row["network-published"] = published if published < _LOCAL else None
        for rounds in WALKS:
            row[f"network-{rounds}"] = walk.profile(rounds).answer(DELTA, near_local=False)[0]
        yield row

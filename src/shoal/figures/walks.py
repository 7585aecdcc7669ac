"""What the figures of network shuffling share: graphs, and ε of reports that walked on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import MappingProxyType

from shoal.accounting.law import BlanketLaw
from shoal.figures import style
from shoal.figures.style import Look
from shoal.network import generators, law
from shoal.network.account import WALKED
from shoal.network.graph import Graph
from shoal.network.law import StopLoss
from shoal.network.locations import Locations, Spread
from shoal.network.profile import Route, WalkProfile
from shoal.network.walk import Walk

PEOPLE = 1000
_POINTS = 24  # of a stop-loss function: fewer than by default, and hardly worse

GRAPHS: MappingProxyType[str, Callable[[], Graph]] = MappingProxyType(
    {
        "regular": lambda: generators.random_regular(PEOPLE, 16),
        "preferential": lambda: generators.barabasi_albert(PEOPLE, 4),
        "small-world": lambda: generators.watts_strogatz(PEOPLE, 8, 0.2),
    }
)
LOOKS: MappingProxyType[str, Look] = MappingProxyType(
    {
        "regular": Look("random 16-regular", style.BLUE, style.SOLID, 2.2),
        "preferential": Look("preferential attachment", style.VERMILION, style.SOLID, 2.2),
        "small-world": Look("small world", style.GREEN, style.SOLID, 2.2),
    }
)
CENTRAL = Look("central shuffler", style.BLACK, style.DOTTED, 1.8)


@cache
def locations(name: str) -> Locations:
    """Where reports are on one of the graphs."""
    return Locations(Walk(GRAPHS[name]()))


def covered(spread: Spread, share: float = 1.0) -> StopLoss:
    """One law that covers the best spread share of people."""
    return spread.stop_loss(spread.group(quantile=share), count=_POINTS)


def epsilon(walked: StopLoss, spread: Spread, local_epsilon: float, delta: float) -> float:
    """ε of such people's reports, of any randomizers with this ε0; at most ε0, which holds."""
    base = BlanketLaw.generic(local_epsilon)
    route = Route(WALKED, law.walk_pairs(base, walked), spread.n, spread.rounding, spread.failure)
    profile = WalkProfile((route,), lambda _: 0.0, local_epsilon)
    return profile.answer(delta, near_local=False)[0]

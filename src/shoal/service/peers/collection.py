"""A collection among peers: they pass reports on, what arrives is estimated and accounted for."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.network.graph import Graph
from shoal.randomizers.base import CategoryRandomizer
from shoal.service.peers.accounting import KnownConditions, Whereabouts, estimate, guarantee
from shoal.service.peers.conditions import Conditions
from shoal.service.peers.runner import PeerRun, run_peers
from shoal.service.peers.survey import PeerSurvey
from shoal.values import Estimate

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
            "arrived": run.arrived,
            "duplicates": run.duplicates,
            "rejected": run.rejected,
            "stranded": run.stranded,
            "moves": run.moves,
            "most_load": int(loads.max()),
            "without_load": int((loads == 0).sum()),
            "survey": {**asdict(self.survey), "hops": self.survey.hops or self.survey.rounds},
            "offline": self.conditions.offline,
            "processes": self.conditions.processes,
            "overlay": {
                "n": self.graph.n,
                "edges": self.graph.edges,
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

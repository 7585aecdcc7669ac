"""Who is there in each round of a simulation, and who is left to submit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from itertools import cycle, islice

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.network import counter
from shoal.network.graph import Nodes, node_numbers
from shoal.network.schedule import Absences, Varying
from shoal.network.stepping import Present
from shoal.network.walk import Walk

_ABSENCES, _DROPOUTS = 2, 3  # streams of words, besides those of the steps
_NOBODY: Nodes = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Itinerary:
    """What a simulation needs of a walk: which one each round takes, and who is there.

    ``offline`` is everybody's chance of missing a round; ``pattern`` says who is online in each
    round, if that is known.
    """

    n: int
    stages: Sequence[Walk]  # repeated as often as needed
    offline: float = 0.0
    pattern: Present | None = None

    def walks(self, rounds: int) -> Sequence[Walk]:
        """The walk of each round."""
        return [*islice(cycle(self.stages), rounds)]


@singledispatch
def itinerary(process: object) -> Itinerary:
    """The itinerary of a walk, with or without absences, or of walks that differ."""
    raise InvalidArgumentError("walk", process, "a Walk, Absences or Varying")


@itinerary.register
def _(process: Walk) -> Itinerary:
    return Itinerary(process.n, [process], offline=1 - process.online)


@itinerary.register
def _(process: Absences) -> Itinerary:
    return Itinerary(process.n, [process.walk], pattern=process.online)


@itinerary.register
def _(process: Varying) -> Itinerary:
    if any(walk.online < 1 for walk in process.walks):
        raise InvalidArgumentError("walk", process, "walks with online=1, and offline= instead")
    return Itinerary(process.n, process.walks)


@dataclass(frozen=True, eq=False)
class Presence:
    """Peers that miss rounds by chance, are gone from the start, or leave before the end."""

    n: int
    seed: int
    offline: float
    killed: Nodes
    dropout: float
    pattern: Present | None

    @classmethod
    def of(
        cls,
        walks: Itinerary,
        *,
        seed: int,
        offline: float,
        killed: npt.ArrayLike,
        dropout: float,
    ) -> Presence:
        """The absences asked for, and those that belong to the walk itself."""
        checks.closed_probability(offline=offline, dropout=dropout)
        if offline and (walks.offline or walks.pattern is not None):
            expected = "offline=0: the walk itself says who is there"
            raise InvalidArgumentError("offline", offline, expected)
        gone = node_numbers(killed, walks.n, name="killed") if np.size(killed) else _NOBODY
        return cls(walks.n, seed, offline or walks.offline, gone, dropout, walks.pattern)

    def rows(self, rounds: range) -> Present:
        """Who is there, a row a round; no rows if that is everybody, always."""
        if not self.offline and not self.killed.size and self.pattern is None:
            return np.empty((0, self.n), dtype=np.bool_)
        return np.stack([self._row(at) for at in rounds])

    def _row(self, at: int) -> Present:
        start = counter.key(self.seed, _ABSENCES, at)
        there = ~counter.heads(start, self.n, probability=self.offline)
        there[self.killed] = False
        return there if self.pattern is None else there & self.pattern[at]

    @cached_property
    def gone(self) -> Present:
        """Who does not submit."""
        start = counter.key(self.seed, _DROPOUTS)
        away = counter.heads(start, self.n, probability=self.dropout)
        away[self.killed] = True
        return away

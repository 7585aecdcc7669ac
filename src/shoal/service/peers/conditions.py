"""The circumstances of a run: who is away when, who is killed, and what carries the bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from shoal import checks
from shoal import randomness as sources
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness

Transport = Literal["sockets", "memory"]
_COIN_BITS = 53
_NATURE = (1 << 32) - 1  # a stream of its own in a simulation: the number that no peer has


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What no participant chooses.

    ``offline``: the probability that a peer is away in a round, walking or submitting, whatever it
    did before. ``killed``: who is gone for good in the middle of which round of the walk.
    ``transport``: loopback ``sockets``, in one or several ``processes``, or ``memory``.
    ``deadline``: seconds until an answer no longer counts. ``seed``: makes everybody's choices
    those of a simulation, which protects nobody.
    """

    offline: float = 0.0
    killed: Mapping[int, Collection[int]] = field(default_factory=dict)
    transport: Transport = "sockets"
    processes: int = 1
    deadline: float = 60.0
    seed: int | None = None

    def __post_init__(self) -> None:
        checks.closed_probability(offline=self.offline)
        checks.count(1, processes=self.processes)
        checks.positive(deadline=self.deadline)
        if self.transport not in get_args(Transport):
            raise InvalidArgumentError("transport", self.transport, "'sockets' or 'memory'")
        if self.transport == "memory" and self.processes > 1:
            raise InvalidArgumentError("processes", self.processes, "1, where transport='memory'")
        if self.seed is not None:
            checks.count(0, seed=self.seed)

    def randomness(self, number: int) -> Randomness:
        """A source of one's own: secure, unless the whole run is a simulation."""
        if self.seed is None:
            return sources.secure()
        return sources.simulated((self.seed << 32) + number)

    def steps(self, people: int) -> Iterator[Step]:
        """The rounds, one after the other, without end."""
        nature = self.randomness(_NATURE)
        threshold = round(self.offline * (1 << _COIN_BITS))
        number = 0
        while True:
            number += 1
            coins = nature.below(1 << _COIN_BITS, people)
            away = frozenset(np.flatnonzero(coins < threshold).tolist())
            yield Step(number, away, frozenset(self.killed.get(number, ())))


@dataclass(frozen=True)
class Step:
    """One round: who is away, and who is killed in it."""

    number: int
    away: frozenset[int]
    killed: frozenset[int]

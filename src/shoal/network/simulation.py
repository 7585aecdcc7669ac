"""Walk it: where a million reports are after some rounds, and which of them arrive.

Every report goes its own way, except that all feel the same absences. Random words are a function
of the seed, the round and the report or the peer (:mod:`shoal.network.stepping`), so that a
simulation repeats exactly, whatever computes it and with however many threads. It is a simulation:
real peers draw from a secure source.

At the end holders submit *all* the reports they hold, or a *single* one of them, chosen alike; who
holds none then sends a dummy in its place. At stationarity the fraction of w reports that arrives
one by one is Σ_v (1 - (1 - π_v)^w)/w.

>>> from shoal.network.generators import random_regular
>>> walked = simulate(Walk(random_regular(1000, 16)), 20, seed=1)
>>> int(walked.loads.sum()), walked.moves, walked.delivered_share
(1000, 20000, 1.0)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, singledispatch
from itertools import cycle, groupby, islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.network import stepping
from shoal.network.graph import Nodes, node_numbers
from shoal.network.stepping import Course, Engine, Holders, Present, Rounds
from shoal.network.walk import Absences, Progress, Varying, Walk, round_count

Submit = Literal["all", "single"]
EngineName = Literal["auto", "numba", "numpy"]

_STEPS, _CHOICES, _ABSENCES, _DROPOUTS = 0, 1, 2, 3  # streams of words
_SLICE = 1 << 16  # reports a thread moves on together: they stay in its cache
_SMALLEST_SLICE = 1 << 10
_TOGETHER = 1 << 24  # steps, and entries of lists of who is there, between two words of progress
_WORTH_COMPILING = 10**7  # steps that NumPy takes in the second that compiling takes
_NOBODY: Nodes = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Simulation:
    """One walk of many reports, as only somebody who sees everything can know it."""

    nodes: int
    rounds: int
    origins: Nodes
    positions: Holders  # of the reports' last holders
    present: Present  # which nodes are there to submit
    delivered: Present  # which reports reached the server
    moves: int  # how often a report was sent from one peer to another
    submit: Submit
    engine: str  # what computed it; the results are the same

    def __repr__(self) -> str:
        return f"Simulation({self.walkers} reports, {self.nodes} nodes, {self.rounds} rounds)"

    @property
    def walkers(self) -> int:
        """How many reports walked."""
        return len(self.positions)

    @cached_property
    def loads(self) -> Nodes:
        """How many reports each node holds at the end."""
        return np.bincount(self.positions, minlength=self.nodes)

    @property
    def holders(self) -> int:
        """How many nodes hold a report at the end."""
        return int(np.count_nonzero(self.loads))

    @property
    def dummies(self) -> int:
        """How many nodes hold nothing and send a dummy, if everybody sends a single message."""
        empty = self.present & (self.loads == 0)
        return int(np.count_nonzero(empty)) if self.submit == "single" else 0

    @property
    def delivered_share(self) -> float:
        """The fraction of the reports that reached the server."""
        return float(self.delivered.mean())

    def to_dict(self) -> dict[str, object]:
        """Counts, as plain values."""
        return {
            "rounds": self.rounds,
            "moves": self.moves,
            "delivered": self.delivered_share,
            "holders": self.holders,
            "most_load": int(self.loads.max()),
            "dummies": self.dummies,
            "submit": self.submit,
        }

    @property
    def squares(self) -> float:
        """Σ_v (fraction of reports at v)²; 1/walkers and up even if P is spread out evenly."""
        return float(np.square(self.loads / self.walkers).sum())

    @property
    def collision(self) -> float:
        """The fraction of pairs of reports that ended at the same node.

        For reports with the same law P, its expectation is Σ_v P(v)² exactly; else the mean of
        Σ_v P_u(v) P_w(v) over pairs.
        """
        if self.walkers < 2:
            raise InvalidArgumentError("walkers", self.walkers, "two reports or more, for pairs")
        pairs = float((self.loads * (self.loads - 1)).sum())
        return pairs / (self.walkers * (self.walkers - 1))


def simulate(
    walk: Walk | Absences | Varying,
    rounds: int,
    *,
    seed: int,
    walkers: int | npt.ArrayLike | None = None,
    submit: Submit = "all",
    offline: float = 0.0,
    killed: npt.ArrayLike = (),
    dropout: float = 0.0,
    threads: int | None = None,
    engine: EngineName = "auto",
    progress: Progress | None = None,
) -> Simulation:
    """Walk some rounds and submit.

    ``walkers``: how many reports (number i begins at node i modulo n), or the nodes they begin at;
    one from each node unless said. ``offline``: the probability that a peer misses a round, in
    which its reports stay with it and none reach it. ``killed``: nodes gone from the start.
    ``dropout``: the probability that a peer is gone when reports are due; what it holds is lost.
    ``engine``: compiled by numba where it is installed and there is enough to do, else NumPy.
    """
    described = itinerary(walk)
    rounds, seed = round_count(walk, rounds), checks.count(0, seed=seed)
    walks = described.walks(rounds)
    origins = _origins(walk.n, walkers)
    presence = Presence.of(described, seed=seed, offline=offline, killed=killed, dropout=dropout)
    _require(get_args(Submit), submit=submit)
    name, advance = _engine(engine, len(origins) * rounds)
    positions = origins.astype(np.int32)
    workers = _Workers(advance, positions, _thread_count(threads))
    moves = 0
    with workers:
        for span, part in _parts(walks, presence, len(origins)):
            moves += workers.move(part)
            if progress is not None:
                progress(span.stop, rounds)
    present = ~presence.gone
    delivered = present[positions]
    if submit == "single":
        delivered &= _chosen(positions, seed)
    return Simulation(walk.n, rounds, origins, positions, present, delivered, moves, submit, name)


@dataclass(frozen=True, eq=False)
class Itinerary:
    """What a simulation needs of a walk: which one each round takes, and who is there.

    ``offline`` is everybody's probability of missing a round; ``pattern`` says who is online in
    each round, if that is known.
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
        start = stepping.key(self.seed, _ABSENCES, at)
        there = ~stepping.heads(start, self.n, probability=self.offline)
        there[self.killed] = False
        return there if self.pattern is None else there & self.pattern[at]

    @cached_property
    def gone(self) -> Present:
        """Who does not submit."""
        start = stepping.key(self.seed, _DROPOUTS)
        away = stepping.heads(start, self.n, probability=self.dropout)
        away[self.killed] = True
        return away


class _Workers:
    """Threads that move slices of the reports on."""

    def __init__(self, advance: Engine, positions: Holders, threads: int) -> None:
        even = -(-len(positions) // threads)
        size = min(max(even, _SMALLEST_SLICE), _SLICE)
        self._advance = advance
        self._slices = [(positions[at : at + size], at) for at in range(0, len(positions), size)]
        self._pool = ThreadPoolExecutor(min(threads, len(self._slices)))

    def __enter__(self) -> None:
        self._pool.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def move(self, part: Rounds) -> int:
        """Some rounds of all reports; how often one was sent."""
        moving = [self._pool.submit(self._advance, *each, part) for each in self._slices]
        return sum(each.result() for each in moving)


def _parts(
    walks: Sequence[Walk], presence: Presence, walkers: int
) -> Iterator[tuple[range, Rounds]]:
    """The rounds, some at a time: as many as take the same course and are not too much work."""
    most = max(1, _TOGETHER // max(walkers, presence.n))
    for _, group in groupby(range(len(walks)), key=lambda at: id(walks[at])):
        alike = list(group)
        course = Course.of(walks[alike[0]])
        for first in range(alike[0], alike[-1] + 1, most):
            span = range(first, min(first + most, alike[-1] + 1))
            keys = np.array([stepping.key(presence.seed, _STEPS, at) for at in span])
            yield span, Rounds(course, keys, presence.rows(span))


def _chosen(positions: Holders, seed: int) -> Present:
    """One report of each holder, all of its reports alike: the one with the smallest word."""
    words = stepping.words(stepping.key(seed, _CHOICES), first=0, size=len(positions))
    order = np.lexsort((words, positions))
    ranked = positions[order]
    chosen = np.zeros(len(positions), dtype=np.bool_)
    chosen[order[np.concatenate([[True], ranked[1:] != ranked[:-1]])]] = True
    return chosen


def _origins(n: int, walkers: int | npt.ArrayLike | None) -> Nodes:
    if walkers is None:
        return np.arange(n)
    if np.ndim(walkers) == 0:
        return np.arange(checks.count(1, walkers=walkers)) % n  # type: ignore[arg-type]
    origins = node_numbers(walkers, n, name="walkers")
    if not origins.size:
        raise InvalidArgumentError("walkers", walkers, "at least one report")
    return origins


def _engine(name: EngineName, steps: int) -> tuple[str, Engine]:
    _require(get_args(EngineName), engine=name)
    if name == "numpy" or (name == "auto" and steps < _WORTH_COMPILING):
        return "numpy", stepping.advance
    try:
        from shoal.network import compiled
    except ImportError as error:
        if name == "numba":
            raise MissingExtraError("engine='numba'", "network") from error
        return "numpy", stepping.advance
    return "numba", compiled.advance


def _thread_count(threads: int | None) -> int:
    return checks.count(1, threads=threads) if threads is not None else os.cpu_count() or 1


def _require(allowed: Sequence[str], **argument: str) -> None:
    ((name, value),) = argument.items()
    if value not in allowed:
        raise InvalidArgumentError(name, value, " or ".join(map(repr, allowed)))

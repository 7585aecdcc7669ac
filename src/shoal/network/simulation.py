"""Walk it: where a million reports are after some rounds, which of them arrive, and their mean.

Every report goes its own way, except that all feel the same absences. A step takes one random word.
Its upper half picks the neighbour, number ⌊d · upper/2^32⌋ of d, so that no neighbour is likelier
than another by more than d/2^32; its lower half decides whether a lazy walk stays and whether a
Metropolis-Hastings step is refused.

Words come from SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number
generators, OOPSLA): a stream begins at a key, and its word k is a fixed mixture of key + (k + 1) g.
They are a function of the seed, the round and the report or the peer, so that a simulation repeats
exactly, whatever computes it and with however many threads. Not secure: a peer that passes real
reports on draws from :func:`shoal.randomness.secure`.

At the end holders submit *all* the reports they hold, or a *single* one of them, chosen alike; who
holds none then sends a dummy in its place. At stationarity the fraction of w reports that arrives
one by one is Σ_v (1 - (1 - π_v)^w)/w.

>>> from shoal.network.generators import random_regular
>>> walked = simulate(Walk(random_regular(1000, 16)), 20, seed=1)
>>> int(walked.loads.sum()), walked.moves, walked.delivered_share
(1000, 20000, 1.0)
>>> hex(words(np.uint64(0), first=0, size=1)[0])
'0xe220a8397b1dcdaf'
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, groupby, islice
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.mechanisms.response import GOLDEN, mixed
from shoal.mechanisms.vectors import CapRandomizer
from shoal.network.graph import Nodes, node_numbers
from shoal.network.walk import Absences, Process, Progress, Submit, Varying, Walk, round_count
from shoal.randomness import Randomness, Words, secure
from shoal.values import Array, Batch, Messages, attributes

EngineName = Literal["auto", "numba", "numpy"]
Holders = npt.NDArray[np.int32]
Present = npt.NDArray[np.bool_]

STRIDE = np.uint64(GOLDEN)
HALF = np.uint64(32)  # bits: probabilities are whole numbers over 2^32
LOWER = np.uint64((1 << 32) - 1)

_STEPS, _CHOICES, _ABSENCES, _DROPOUTS = 0, 1, 2, 3  # streams of words
_SLICE = 1 << 16  # reports a thread moves on together: they stay in its cache
_SMALLEST_SLICE = 1 << 10
_TOGETHER = 1 << 24  # steps, and entries of lists of who is there, between two words of progress
_WORTH_COMPILING = 10**7  # steps that NumPy takes in the second that compiling takes
_NOBODY: Nodes = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Simulation:
    """One walk of many reports, as only somebody who sees everything can know it.

    :func:`shoal.network.simulate` returns it.

    Attributes:
        nodes: How many nodes there are.
        rounds: How often reports were passed on.
        origins: Where each report began.
        positions: The last holder of each report.
        present: Which nodes were there to submit.
        delivered: Which reports reached the server.
        moves: How often a report was sent from one peer to another.
        submit: "all" or "single".
        engine: What computed it; the results are the same.
    """

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
            **attributes(self, "rounds", "moves"),
            "delivered": self.delivered_share,
            "holders": self.holders,
            "most_load": int(self.loads.max()),
            **attributes(self, "dummies", "submit"),
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
        checks.refuse(self.walkers < 2, "two reports or more, for pairs", walkers=self.walkers)
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

    Args:
        walk: How reports are passed on.
        rounds: How often, at least 0.
        seed: A whole number >= 0: the same walk for the same one, whatever computes it.
        walkers: How many reports (number i begins at node i modulo n), or the nodes
            they begin at; one from each node unless given.
        submit: "all" that a holder has, or a "single" report.
        offline: Probability that a peer misses a round, in which its reports stay with
            it and none reach it.
        killed: Nodes that are gone from the start.
        dropout: Probability that a peer is gone when reports are due; what it holds is
            lost.
        threads: How many; as many as there are processors unless given.
        engine: "numba", "numpy", or "auto": numba where it is installed and there is
            enough to do.
        progress: Called with the rounds done and all.

    Returns:
        A :class:`shoal.network.Simulation`, which knows where every report ended.

    Raises:
        InvalidArgumentError: A number is out of its range, or ``offline`` beside a walk
            that says itself who is there.
        MissingExtraError: ``engine="numba"`` and it is not installed.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.random_regular(100, 6))
        >>> network.simulate(walk, 10, seed=1).delivered_share
        1.0
    """
    stages, missing, pattern = _itinerary(walk)
    rounds, seed = round_count(walk, rounds), checks.count(0, seed=seed)
    origins = _origins(walk.n, walkers)
    checks.closed_probability(offline=offline, dropout=dropout)
    known = offline and (missing or pattern is not None)
    checks.refuse(known, "offline=0: the walk itself says who is there", offline=offline)
    dead = node_numbers(killed, walk.n, name="killed") if np.size(killed) else _NOBODY
    checks.one_of(get_args(Submit), submit=submit)
    name, advance = _engine(engine, len(origins) * rounds)
    count = checks.count(1, threads=threads) if threads is not None else os.cpu_count() or 1
    positions = origins.astype(np.int32)
    size = min(max(-(-len(positions) // count), _SMALLEST_SLICE), _SLICE)
    slices = [(positions[at : at + size], at) for at in range(0, len(positions), size)]
    moves = 0
    pool = ThreadPoolExecutor(min(count, len(slices)))
    try:
        walks = [*islice(cycle(stages), rounds)]
        for span, course in _spans(walks, max(1, _TOGETHER // max(len(origins), walk.n))):
            keys = words(key(seed, _STEPS), first=span.start, size=len(span))
            there = present(span, walk.n, seed, offline or missing, dead, pattern)
            moving = [pool.submit(advance, *each, course, keys, there) for each in slices]
            moves += sum(each.result() for each in moving)
            if progress is not None:
                progress(span.stop, rounds)
    finally:
        pool.shutdown(cancel_futures=True)
    here = ~heads(key(seed, _DROPOUTS), walk.n, probability=dropout)
    here[dead] = False
    delivered = here[positions]
    if submit == "single":
        delivered &= _chosen(positions, seed)
    return Simulation(walk.n, rounds, origins, positions, here, delivered, moves, submit, name)


def _itinerary(process: object) -> tuple[Sequence[Walk], float, Present | None]:
    """The walk of each round, repeated as often as needed, and who is there.

    That is everybody's probability of missing a round, or who is online in each, if it is known.
    """
    if isinstance(process, Walk):
        return [process], 1 - process.online, None
    if isinstance(process, Absences):
        return [process.walk], 0.0, process.online
    if not isinstance(process, Varying):
        raise InvalidArgumentError("walk", process, "a Walk, Absences or Varying")
    absent = any(walk.online < 1 for walk in process.walks)
    checks.refuse(absent, "walks with online=1, and offline= instead", walk=process)
    return process.walks, 0.0, None


def present(
    rounds: range,
    n: int,
    seed: int,
    offline: float,
    killed: Nodes = _NOBODY,
    pattern: Present | None = None,
) -> Present:
    """Who is there, a row a round; no rows if that is everybody, always."""
    if not offline and not killed.size and pattern is None:
        return np.empty((0, n), dtype=np.bool_)
    rows = np.stack([~heads(key(seed, _ABSENCES, at), n, probability=offline) for at in rounds])
    rows[:, killed] = False
    return rows if pattern is None else rows & pattern[rounds.start : rounds.stop]


def _chosen(positions: Holders, seed: int) -> Present:
    """One report of each holder, all of its reports alike: the one with the smallest word."""
    drawn = words(key(seed, _CHOICES), first=0, size=len(positions))
    order = np.lexsort((drawn, positions))
    chosen = np.zeros(len(positions), dtype=np.bool_)
    chosen[order[np.unique(positions[order], return_index=True)[1]]] = True
    return chosen


def _origins(n: int, walkers: int | npt.ArrayLike | None) -> Nodes:
    if walkers is None:
        return np.arange(n)
    if np.ndim(walkers) == 0:
        return np.arange(checks.count(1, walkers=walkers)) % n  # type: ignore[arg-type]
    origins = node_numbers(walkers, n, name="walkers")
    checks.refuse(not origins.size, "at least one report", walkers=walkers)
    return origins


def _engine(name: EngineName, steps: int) -> tuple[str, Engine]:
    checks.one_of(get_args(EngineName), engine=name)
    if name == "numba" or (name == "auto" and steps >= _WORTH_COMPILING):
        try:
            from shoal.network import compiled
        except ImportError as error:
            if name == "numba":
                raise MissingExtraError("engine='numba'", "network") from error
        else:
            return "numba", compiled.advance
    return "numpy", advance


# ------------------------------------------------------------------------ one step of many reports


def key(*path: int) -> np.uint64:
    """The start of the stream that these numbers name."""
    start = np.uint64(0)
    for part in path:
        start = words(start, first=part, size=1)[0]
    return start


def words(start: np.uint64, *, first: int, size: int) -> Words:
    """Words number first, ..., first + size - 1 of a stream."""
    return mixed(np.arange(first + 1, first + size + 1, dtype=np.uint64) * STRIDE + start)


def heads(start: np.uint64, size: int, *, probability: float) -> Present:
    """Coins that fall so with this probability, rounded to a multiple of 2^-32."""
    return (words(start, first=0, size=size) >> HALF) < np.uint64(round(probability * 2**32))


class Course(NamedTuple):
    """A walk as the steps need it; absences are drawn elsewhere."""

    offsets: npt.NDArray[np.signedinteger]
    neighbours: Holders
    degree: np.uint64  # everybody's, or 0 if degrees differ
    stay: np.uint64  # over 2^32
    refusing: bool  # as Metropolis and Hastings do


Engine = Callable[[Holders, int, Course, Words, Present], int]


def advance(positions: Holders, first: int, course: Course, keys: Words, there: Present) -> int:
    """Move the reports number first, first + 1, ... on, in place; how often one was sent.

    A round for each stream of steps; ``there`` says who is there, a row a round, or has no rows.
    """
    moves = 0
    for at, start in enumerate(keys):
        reached = _reached(positions, words(start, first=first, size=len(positions)), course)
        if len(there):
            reached = np.where(there[at][positions] & there[at][reached], reached, positions)
        moves += int(np.count_nonzero(reached != positions))
        positions[:] = reached
    return moves


def _reached(positions: Holders, drawn: Words, course: Course) -> Holders:
    """Where everybody's step leads if nobody is absent."""
    starts = course.offsets[positions]
    degrees = (course.offsets[1:][positions] - starts).astype(np.uint64)
    picks = ((drawn >> HALF) * degrees) >> HALF
    chosen: Holders = course.neighbours[starts + picks.astype(np.int64)]
    lower = drawn & LOWER
    if course.stay:
        return np.where(lower < course.stay, positions, chosen)
    if course.refusing:
        theirs = np.diff(course.offsets)[chosen].astype(np.uint64)
        return np.where(lower * theirs < degrees << HALF, chosen, positions)
    return chosen


def _spans(walks: Sequence[Walk], most: int) -> Iterator[tuple[range, Course]]:
    """The rounds, some at a time: as many as take the same course and are not too much work."""
    for _, group in groupby(range(len(walks)), key=lambda at: id(walks[at])):
        alike = list(group)
        walk = walks[alike[0]]
        graph, regular = walk.graph, walk.graph.regular
        short = graph.offsets[-1] < 1 << 31  # half the memory to jump about in
        offsets = graph.offsets.astype(np.int32) if short else graph.offsets
        degree = np.uint64(graph.degrees[0] if regular else 0)
        stay = np.uint64(round((walk.stay or 0.0) * 2**32))
        refusing = walk.kind == "metropolis" and not regular
        course = Course(offsets, graph.neighbours, degree, stay, refusing)
        for first in range(alike[0], alike[-1] + 1, most):
            yield range(first, min(first + most, alike[-1] + 1)), course


# ----------------------------------------------------------------------------- means of vectors


@dataclass(frozen=True, eq=False)
class NetworkMean:
    """What :func:`shoal.network.network_mean` estimates, and how far off it is.

    What is lost has to be lost at random: with nodes killed by name the estimate is of the mean
    of the others, and its error is that of their mean.

    Attributes:
        mean: The estimated mean vector.
        expected_error: Root of the mean squared length of the error: an upper bound once the
            walk has mixed, exact if nothing is lost.
        messages: How many the server received.
    """

    mean: Array
    expected_error: float
    messages: int


def network_mean(
    vectors: npt.ArrayLike,
    walked: Simulation,
    *,
    randomizer: CapRandomizer,
    walk: Process,
    randomness: Randomness | None = None,
) -> NetworkMean:
    """Randomize a unit vector for each report that walked, submit as it did, and estimate.

    If holders submit *all* they hold, the analyzer estimates as with a shuffler. If
    they submit a *single* message, who holds none sends a dummy: a report of e_1 or
    −e_1, either alike, whose expectation is zero. At stationarity node v then has
    something to submit with probability 1 − (1 − π_v)^w for w reports, and the estimate
    is the sum of all messages over the sum D of these probabilities.

    *Error.* With E|u|²/m² = V + 1, V the squared error of one report, all n reports
    have the squared error V/n; k that arrive, others lost at random, have (V + 1)/k at
    most; S single messages have S (V + 1)/D² at most, as the number of reports among
    them varies no more than if nodes held reports independently of each other.

    *Privacy.* Submitting single messages is something that could be done with all of
    them, dummies and choices included: it is as private, or more.

    Args:
        vectors: A unit vector a row, one for each report that walked.
        walked: Where the reports ended.
        randomizer: :class:`shoal.PrivUnit` or :class:`shoal.PrivUnitG`.
        walk: How reports were passed on.
        randomness: That of a simulation; None is secure.

    Returns:
        A :class:`shoal.network.NetworkMean`.

    Raises:
        InvalidArgumentError: There are more or fewer vectors than reports.

    Example:
        >>> from shoal import PrivUnit, network
        >>> walk = network.Walk(network.random_regular(100, 6))
        >>> walked = network.simulate(walk, 10, seed=1)
        >>> device = PrivUnit(dimension=3, epsilon=4.0)
        >>> vectors = [[1, 0, 0]] * 100
        >>> mean = network.network_mean(vectors, walked, randomizer=device, walk=walk)
        >>> mean.messages
        100
    """
    rows = np.asarray(vectors, dtype=np.float64)
    expected = f"{walked.walkers} rows, one for each report that walked"
    checks.refuse(len(rows) != walked.walkers, expected, vectors=f"{len(rows)} rows")
    source = randomness or secure()
    made = cast("Messages", randomizer.randomize(rows, randomness=source))
    reports = made[walked.delivered]
    variance = randomizer.variance(n=1)
    if walked.submit == "all":
        checks.refuse(not len(reports), "a report that arrived", walked="nothing delivered")
        squared = (variance + (len(reports) < walked.walkers)) / len(reports)
        mean = randomizer.estimate(Batch(reports)).mean
        return NetworkMean(mean, math.sqrt(squared), len(reports))
    axes = np.zeros((walked.dummies, randomizer.dimension))  # the first one, forth or back
    axes[:, 0] = 1.0 - 2.0 * source.bits(walked.dummies)
    sent = np.concatenate([reports, randomizer.randomize(axes, randomness=source)])
    checks.refuse(not len(sent), "a peer that submits", walked="nobody left")
    nonempty = -np.expm1(walked.walkers * np.log1p(-walk.stationary[walked.present]))
    filled = float(nonempty.sum())
    scale = len(sent) / filled
    mean = randomizer.estimate(Batch(sent)).mean * scale
    return NetworkMean(mean, math.sqrt((variance + 1) * scale / filled), len(sent))

"""One step of many reports at once, with NumPy.

A step takes one random word. Its upper half picks the neighbour, number ⌊d · upper/2^32⌋ of d, so
that no neighbour is likelier than another by more than a share d/2^32; its lower half decides
whether a lazy walk stays and whether a Metropolis-Hastings step is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.network import counter
from shoal.network.walk import Walk
from shoal.randomness import Words

Holders = npt.NDArray[np.int32]
Present = npt.NDArray[np.bool_]

_HALF = np.uint64(counter.HALF_BITS)
_LOWER = np.uint64((1 << counter.HALF_BITS) - 1)


@dataclass(frozen=True, eq=False)
class Course:
    """A walk as the steps need it."""

    offsets: npt.NDArray[np.signedinteger]
    neighbours: Holders
    degree: int  # everybody's, or 0 if degrees differ
    stay: int  # over 2^32
    refusing: bool  # as Metropolis and Hastings do

    @classmethod
    def of(cls, walk: Walk) -> Course:
        """The course of a walk whose absences are drawn elsewhere."""
        graph = walk.graph
        short = graph.offsets[-1] < 1 << 31  # half the memory to jump about in
        return cls(
            offsets=graph.offsets.astype(np.int32) if short else graph.offsets,
            neighbours=graph.neighbours,
            degree=int(graph.degrees[0]) if graph.regular else 0,
            stay=counter.chance(walk.stay or 0.0),
            refusing=walk.kind == "metropolis" and not graph.regular,
        )


@dataclass(frozen=True, eq=False)
class Rounds:
    """Some rounds of a walk: the streams of their steps, and who is there, a row a round.

    No rows at all mean that everybody is there.
    """

    course: Course
    keys: Words
    there: Present


Engine = Callable[[Holders, int, Rounds], int]


def advance(positions: Holders, first: int, rounds: Rounds) -> int:
    """Move the reports number first, first + 1, ... on, in place; how often one was sent."""
    moves = 0
    for at, start in enumerate(rounds.keys):
        words = counter.words(start, first=first, size=len(positions))
        reached = _reached(positions, words, rounds.course)
        if len(rounds.there):
            there = rounds.there[at]
            reached = np.where(there[positions] & there[reached], reached, positions)
        moves += int(np.count_nonzero(reached != positions))
        positions[:] = reached
    return moves


def _reached(positions: Holders, words: Words, course: Course) -> Holders:
    """Where everybody's step leads if nobody is absent."""
    starts = course.offsets[positions]
    degrees = (course.offsets[1:][positions] - starts).astype(np.uint64)
    picks = ((words >> _HALF) * degrees) >> _HALF
    chosen: Holders = course.neighbours[starts + picks.astype(np.int64)]
    lower = words & _LOWER
    if course.stay:
        return np.where(lower < np.uint64(course.stay), positions, chosen)
    if course.refusing:
        theirs = np.diff(course.offsets)[chosen].astype(np.uint64)
        return np.where(lower * theirs < degrees << _HALF, chosen, positions)
    return chosen

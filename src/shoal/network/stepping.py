"""One step of many reports at once, with NumPy, and the random words that it takes.

A step takes one random word. Its upper half picks the neighbour, number ⌊d · upper/2^32⌋ of d, so
that no neighbour is likelier than another by more than d/2^32; its lower half decides whether a
lazy walk stays and whether a Metropolis-Hastings step is refused.

Words come from SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number
generators, OOPSLA): a stream begins at a key, and its word k is a fixed mixture of key + (k + 1) g.
So a word depends on where it is used and not on who draws it, and a simulation is the same however
its work is split among threads. Not secure: a peer that passes real reports on draws from
:func:`shoal.randomness.secure`.

>>> hex(words(np.uint64(0), first=0, size=1)[0])
'0xe220a8397b1dcdaf'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.network.walk import Walk
from shoal.randomness import Words

Holders = npt.NDArray[np.int32]
Present = npt.NDArray[np.bool_]

STRIDE = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
ALL_BITS = (1 << 64) - 1
HALF_BITS = 32  # probabilities are whole numbers over 2^32

_HALF = np.uint64(HALF_BITS)
_LOWER = np.uint64((1 << HALF_BITS) - 1)


def key(*path: int) -> np.uint64:
    """The start of the stream that these numbers name."""
    word = 0
    for part in path:
        word = _mixed((word + (part + 1) * STRIDE) & ALL_BITS)
    return np.uint64(word)


def _mixed(word: int) -> int:
    for shift, factor in zip(SHIFTS[:2], FACTORS, strict=True):
        word = (word ^ (word >> shift)) * factor & ALL_BITS
    return word ^ (word >> SHIFTS[-1])


def words(start: np.uint64, *, first: int, size: int) -> Words:
    """Words number first, ..., first + size - 1 of a stream."""
    drawn = np.arange(first + 1, first + size + 1, dtype=np.uint64)
    drawn *= np.uint64(STRIDE)
    drawn += start
    for shift, factor in zip(SHIFTS[:2], FACTORS, strict=True):
        drawn ^= drawn >> np.uint64(shift)
        drawn *= np.uint64(factor)
    drawn ^= drawn >> np.uint64(SHIFTS[-1])
    return drawn


def over_2_32(probability: float) -> int:
    """The nearest whole number over 2^32."""
    return round(probability * (1 << HALF_BITS))


def heads(start: np.uint64, size: int, *, probability: float) -> npt.NDArray[np.bool_]:
    """Coins that fall so with this probability, rounded to a multiple of 2^-32."""
    return (words(start, first=0, size=size) >> _HALF) < np.uint64(over_2_32(probability))


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
            stay=over_2_32(walk.stay or 0.0),
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
        drawn = words(start, first=first, size=len(positions))
        reached = _reached(positions, drawn, rounds.course)
        if len(rounds.there):
            there = rounds.there[at]
            reached = np.where(there[positions] & there[reached], reached, positions)
        moves += int(np.count_nonzero(reached != positions))
        positions[:] = reached
    return moves


def _reached(positions: Holders, drawn: Words, course: Course) -> Holders:
    """Where everybody's step leads if nobody is absent."""
    starts = course.offsets[positions]
    degrees = (course.offsets[1:][positions] - starts).astype(np.uint64)
    picks = ((drawn >> _HALF) * degrees) >> _HALF
    chosen: Holders = course.neighbours[starts + picks.astype(np.int64)]
    lower = drawn & _LOWER
    if course.stay:
        return np.where(lower < np.uint64(course.stay), positions, chosen)
    if course.refusing:
        theirs = np.diff(course.offsets)[chosen].astype(np.uint64)
        return np.where(lower * theirs < degrees << _HALF, chosen, positions)
    return chosen

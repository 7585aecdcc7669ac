"""The steps of :mod:`shoal.network.simulation`, compiled: the same numbers, sooner.

A walk waits for memory. Round by round the steps do not wait for each other, as those of one
report would; and a block of them first finds all its places in the list of neighbours, then reads
them, so that many reads are under way at once. Needs numba: imported only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from shoal.network.simulation import FACTORS, HALF, LOWER, SHIFTS, STRIDE, Course, Holders, Present
from shoal.randomness import Words

Function = TypeVar("Function", bound=Callable[..., object])
Offsets = npt.NDArray[np.signedinteger]
Rule = tuple[np.uint64, bool]  # the probability of staying over 2^32; whether steps may be refused

_BLOCK = 1024  # what is remembered of a block stays in the nearest cache
_ONE = np.uint64(1)


def advance(positions: Holders, first: int, course: Course, keys: Words, there: Present) -> int:
    """The same as the one without compiling."""
    graph = (course.offsets, course.neighbours, np.uint64(course.degree))
    rule = (np.uint64(course.stay), course.refusing)
    return int(_advance(positions, first, keys, graph, rule, there))


def _compiled(function: Function) -> Function:
    """Without the interpreter's lock, so that threads run side by side."""
    return cast("Function", numba.njit(nogil=True)(function))


@_compiled
def _mixed(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> SHIFTS[0])) * FACTORS[0]
    word = (word ^ (word >> SHIFTS[1])) * FACTORS[1]
    return word ^ (word >> SHIFTS[2])


@_compiled
def _choose(
    block: Holders, stream: np.uint64, offsets: Offsets, degree: np.uint64, picked: Words
) -> None:
    """Places of the chosen neighbours in the list, and the lower halves of the words."""
    for i in range(len(block)):
        word = _mixed(stream + np.uint64(i + 1) * STRIDE)
        here = np.uint64(block[i])
        start, mine = here * degree, degree
        if degree == 0:  # degrees differ: another look into memory
            start = np.uint64(offsets[here])
            mine = np.uint64(offsets[here + _ONE]) - start
        picked[0, i] = start + (((word >> HALF) * mine) >> HALF)
        picked[1, i] = word & LOWER


@_compiled
def _stays(
    here: np.uint64, other: np.uint64, lower: np.uint64, offsets: Offsets, rule: Rule
) -> np.bool:
    stay, refusing = rule
    if refusing:
        mine = np.uint64(offsets[here + _ONE] - offsets[here])
        theirs = np.uint64(offsets[other + _ONE] - offsets[other])
        return lower * theirs >= mine << HALF
    return lower < stay


@_compiled
def _advance(
    positions: Holders,
    first: int,
    keys: Words,
    graph: tuple[Offsets, Holders, np.uint64],
    rule: Rule,
    there: Present,
) -> int:
    offsets, neighbours, degree = graph
    picked = np.empty((2, _BLOCK), dtype=np.uint64)
    free = rule[0] == 0 and not rule[1] and len(there) == 0
    moves = 0
    for at in range(len(keys)):
        for low in range(0, len(positions), _BLOCK):
            block = positions[low : low + _BLOCK]
            stream = keys[at] + np.uint64(first + low) * STRIDE
            _choose(block, stream, offsets, degree, picked)
            for i in range(len(block)):
                here, other = block[i], neighbours[picked[0, i]]
                if not free and (
                    _stays(np.uint64(here), np.uint64(other), picked[1, i], offsets, rule)
                    or (len(there) and not (there[at, here] and there[at, other]))
                ):
                    other = here
                moves += other != here
                block[i] = other
    return moves

"""The steps of :mod:`shoal.network.simulation`, compiled: the same numbers, sooner.

A walk waits for memory. Round by round the steps do not wait for each other, as those of one
report would; and a block of them first finds all its places in the list of neighbours, then reads
them, so that many reads are under way at once. Needs numba: imported only where it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np

from shoal.mechanisms.response import mixed
from shoal.network.simulation import HALF, LOWER, STRIDE, Course, Holders, Present
from shoal.randomness import Words

Function = TypeVar("Function", bound=Callable[..., object])

_BLOCK = 1024  # what is remembered of a block stays in the nearest cache
_ONE = np.uint64(1)


def _compiled(function: Function) -> Function:
    """Without the interpreter's lock, so that threads run side by side."""
    return cast("Function", numba.njit(nogil=True)(function))


_mixed = cast("Callable[[np.uint64], np.uint64]", _compiled(mixed))  # of a word at a time


@_compiled
def _choose(block: Holders, stream: np.uint64, course: Course, picked: Words) -> None:
    """Places of the chosen neighbours in the list, and the lower halves of the words."""
    for i in range(len(block)):
        word = _mixed(stream + np.uint64(i + 1) * STRIDE)
        here = np.uint64(block[i])
        start, mine = here * course.degree, course.degree
        if course.degree == 0:  # degrees differ: another look into memory
            start = np.uint64(course.offsets[here])
            mine = np.uint64(course.offsets[here + _ONE]) - start
        picked[0, i] = start + (((word >> HALF) * mine) >> HALF)
        picked[1, i] = word & LOWER


@_compiled
def _stays(here: np.uint64, other: np.uint64, lower: np.uint64, course: Course) -> np.bool:
    if course.refusing:
        mine = np.uint64(course.offsets[here + _ONE] - course.offsets[here])
        theirs = np.uint64(course.offsets[other + _ONE] - course.offsets[other])
        return lower * theirs >= mine << HALF
    return lower < course.stay


@_compiled
def advance(positions: Holders, first: int, course: Course, keys: Words, there: Present) -> int:
    """The same as the one without compiling."""
    picked = np.empty((2, _BLOCK), dtype=np.uint64)
    free = course.stay == 0 and not course.refusing and len(there) == 0
    moves = 0
    for at in range(len(keys)):
        for low in range(0, len(positions), _BLOCK):
            block = positions[low : low + _BLOCK]
            _choose(block, keys[at] + np.uint64(first + low) * STRIDE, course, picked)
            for i in range(len(block)):
                here, other = block[i], course.neighbours[picked[0, i]]
                if not free and (
                    _stays(np.uint64(here), np.uint64(other), picked[1, i], course)
                    or (len(there) and not (there[at, here] and there[at, other]))
                ):
                    other = here
                moves += other != here
                block[i] = other
    return moves

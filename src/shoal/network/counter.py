"""Random words for simulations: the k-th word of a stream, without the ones before it.

SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators, OOPSLA): a
stream begins at a key, and its word k is a fixed mixture of key + (k + 1) g. So a word depends on
where it is used and not on who draws it, and a simulation is the same however its work is split
among threads. Not secure: a peer that passes real reports on draws from
:func:`shoal.randomness.secure`.

>>> hex(words(np.uint64(0), first=0, size=1)[0])
'0xe220a8397b1dcdaf'
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from shoal.randomness import Words

STRIDE = 0x9E3779B97F4A7C15
FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
ALL_BITS = (1 << 64) - 1
HALF_BITS = 32  # chances are whole numbers over 2^32

_HALF = np.uint64(HALF_BITS)


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


def chance(probability: float) -> int:
    """The nearest whole number over 2^32."""
    return round(probability * (1 << HALF_BITS))


def heads(start: np.uint64, size: int, *, probability: float) -> npt.NDArray[np.bool_]:
    """Coins that fall so with this probability, rounded to a multiple of 2^-32."""
    return (words(start, first=0, size=size) >> _HALF) < np.uint64(chance(probability))

"""Normal numbers from the secure source, in bulk.

Two uniform words U, V make two independent standard normals, sqrt(-2 log U) cos(2 pi V) and
sqrt(-2 log U) sin(2 pi V) (Box and Muller, "A Note on the Generation of Random Normal Deviates",
Annals of Mathematical Statistics 1958). In floating point a single one takes few values, and which
of them can be reached tells something about what it was added to. So each number here is half the
sum of four, all of which an attacker would have to guess at once (Holohan and Braghin, "Secure
Random Sampling in Differential Privacy", ESORICS 2021, arXiv 2107.10138).

That is meant to make the known attacks on floating point impractical; it does not prove that there
is none. Guarantees of training are statements about real arithmetic. None of the four is beyond 9.4
standard deviations, where it would be with a probability below 2^-64.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.randomness import Randomness
from shoal.values import Array

SUMMANDS = 4

_UNIT = 2.0**-63
_TURN = 2 * math.pi * _UNIT
_TOGETHER = 1 << 12  # pairs made at once: they stay in the cache


def standard_normals(size: int, *, randomness: Randomness) -> Array:
    """Independent numbers, each normal with mean 0 and variance 1.

    >>> from shoal.randomness import simulated
    >>> drawn = standard_normals(10_000, randomness=simulated(1))
    >>> bool(abs(drawn.mean()) < 0.05), bool(abs(drawn.std() - 1) < 0.05)
    (True, True)
    """
    half = -(-size // 2)
    drawn = np.empty((2, half))
    for start in range(0, half, _TOGETHER):
        _fill(drawn[:, start : start + _TOGETHER], randomness)
    return drawn.reshape(-1)[:size]


def _fill(pairs: Array, randomness: Randomness) -> None:
    """Both numbers of each pair, an array (2, pairs): half the sum of four."""
    count = pairs.shape[1]
    words = randomness.words(2 * SUMMANDS * count)
    words >>= np.uint64(1)  # signed words become floats sooner
    radii, angles = words.view(np.int64).astype(np.float64).reshape(2, SUMMANDS, count)
    radii += 0.5  # never the logarithm of zero
    radii *= _UNIT
    np.log(radii, out=radii)
    radii *= -2 / SUMMANDS
    np.sqrt(radii, out=radii)
    angles *= _TURN
    np.einsum("ij,ij->j", radii, np.cos(angles), out=pairs[0])
    np.einsum("ij,ij->j", radii, np.sin(angles), out=pairs[1])

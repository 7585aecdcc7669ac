"""A public mixture of words: the finalizer of SplitMix64.

It is a bijection of 64-bit words (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014), the same on every machine: it spreads public things evenly, and protects
nobody.
"""

from __future__ import annotations

import numpy as np

from shoal.randomness import Words

GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1


def mixed(words: Words) -> Words:
    """Each word's image.

    >>> hex(int(mixed(np.array([GOLDEN], dtype=np.uint64))[0]))
    '0xe220a8397b1dcdaf'
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))

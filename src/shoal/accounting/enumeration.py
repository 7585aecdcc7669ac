"""The expectation E[(Z_1 + ... + Z_n)_+] / n summed term by term.

Only how often each value was drawn matters. One value, the likeliest, is left implicit; the
numbers of draws of the others are enumerated up to a total beyond which the probability is below
1e-120, and that remainder is added to the upper end: as (S)_+ <= sum (Z_i)_+, more than c draws of
the others contribute at most n E[(Z)_+] Pr[at least c of n - 1]. Used when the list is short: few
people, or a blanket so thin that few of them use it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from shoal.accounting.atoms import ROUNDING, Array, PairLaw
from shoal.accounting.enclosure import Enclosure

MOST_TERMS = 60_000
_LOG_TAIL = -120 * math.log(10)
# Sums of at most 700 logarithms and log-gammas, all below 1e4, err by less than this.
_RELATIVE_ERROR = 1e-9


@dataclass(frozen=True)
class Draws:
    """Every way the n draws can fall. Value number ``mass.size`` is "not from the blanket"."""

    implicit: int
    explicit: npt.NDArray[np.intp]
    counts: Array  # (terms, explicit values)
    log_probability: Array  # (terms,)
    log_tail: float  # log Pr[none of the listed terms]


@lru_cache(maxsize=64)
def draws(pair: PairLaw, n: int) -> Draws | None:
    """The list for n draws of this law, or None if it would be too long."""
    masses = np.append(pair.mass, pair.rest)
    implicit = int(masses.argmax())
    explicit = np.flatnonzero(masses > 0)
    explicit = explicit[explicit != implicit]
    chances = masses[explicit]
    most = _largest_total(n, float(chances.sum())) if chances.size else 0
    if math.comb(most + chances.size, most) > MOST_TERMS:
        return None
    counts = _counts_up_to(most, chances.size)
    total = counts.sum(axis=1)
    # n (n-1) ... chance^total, kept together: apart, the factors would cost digits.
    chance = float(chances.sum())
    steps = np.log(chance * (n - np.arange(most, dtype=float)))
    falling = np.concatenate([[0.0], np.cumsum(steps)])
    log_probability = (
        falling[total.astype(int)]
        - special.gammaln(counts + 1).sum(axis=1)
        + counts @ np.log(chances / chance)
        + (n - total) * _log_complement(chance, float(masses[implicit]))
    )
    return Draws(implicit, explicit, counts, log_probability, -math.inf if most == n else _LOG_TAIL)


def enclose(pair: PairLaw, listed: Draws, *, n: int, epsilon: float) -> Enclosure:
    """Certified enclosure of (1/n) E[(Z_1 + ... + Z_n)_+]."""
    values, sizes = (np.append(part, 0.0) for part in pair.summands(n, epsilon))
    base = float(values[listed.implicit])
    steps = values[listed.explicit] - base
    sums = n * base + listed.counts @ steps
    size = float(sizes[listed.implicit])
    noise = 2 * ROUNDING * (n * size + listed.counts @ (sizes[listed.explicit] + size))
    peak = float(listed.log_probability.max())
    weights = np.exp(listed.log_probability - peak)
    masses = np.append(pair.mass, pair.rest)
    gain = n * float(masses @ np.maximum(values + 2 * ROUNDING * sizes, 0.0)) * math.exp(-peak)
    error, rest_error = _mass_errors(pair, listed, n)
    high = float(weights @ np.maximum(sums + noise, 0.0)) * math.exp(error)
    low = float(weights @ np.maximum(sums - noise, 0.0)) * math.exp(-error)
    if rest_error:
        # The rest r lies within e of the stored one: that is a factor of at most (1 + e/r)^n, and
        # as k draws have E[(S_k)_+] <= k E[(Z)_+], at most ((1 + e)^n - 1) n E[(Z)_+] more.
        added = math.expm1(n * rest_error) * gain
        if pair.rest:
            relative = n * rest_error / pair.rest
            added = min(added, high * math.expm1(min(relative, 700.0)))
            low *= math.exp(-relative)
        high += added
    high += gain * math.exp(listed.log_tail) * (1 + _RELATIVE_ERROR)
    scale = peak - math.log(n)
    return Enclosure(_log(low) + scale, _log(high) + scale)


def _mass_errors(pair: PairLaw, listed: Draws, n: int) -> tuple[float, float]:
    """Errors of the logarithms of the probabilities; and of the rest, where that is apart.

    Every mass errs by a few ulps of itself, and the rest by as much as all masses together.
    """
    rate = ROUNDING * pair.noise
    rest_error = rate * min(1.0, math.fsum(pair.mass))
    if listed.implicit < pair.mass.size:
        return _RELATIVE_ERROR + n * rate, rest_error
    most = float(listed.counts.sum(axis=1).max(initial=0.0))
    return _RELATIVE_ERROR + most * rate + n * rest_error / pair.rest, 0.0


def _largest_total(n: int, chance: float) -> int:
    """A total c with log Pr[Bin(n, chance) > c] <= _LOG_TAIL, by Chernoff's bound; at most n."""

    def log_tail(c: int) -> float:
        share = c / n
        return -n * float(special.rel_entr(share, chance) + special.rel_entr(1 - share, 1 - chance))

    low, high = min(n, math.ceil(n * chance)), n
    if low == n or log_tail(n) > _LOG_TAIL:
        return n
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if log_tail(middle) <= _LOG_TAIL else (middle + 1, high)
    return high


def _counts_up_to(most: int, values: int) -> Array:
    """All vectors of ``values`` counts with sum at most ``most``."""
    counts = np.zeros((1, 0))
    left = np.array([most])
    for _ in range(values):
        repeats = left + 1
        parent = np.repeat(np.arange(len(left)), repeats)
        starts = np.repeat(np.cumsum(repeats) - repeats, repeats)
        drawn = np.arange(len(parent)) - starts
        counts = np.column_stack([counts[parent], drawn])
        left = left[parent] - drawn
    return counts


def _log_complement(chance: float, complement: float) -> float:
    return math.log1p(-chance) if chance < 0.5 else math.log(complement)


def _log(value: float) -> float:
    return -math.inf if value <= 0 else math.log(value)

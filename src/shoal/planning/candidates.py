"""The randomizers and protocols worth considering for a kind of question."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from shoal.protocols.base import MultiMessageMechanism
from shoal.protocols.registry import calibration
from shoal.randomizers.base import Randomizer
from shoal.randomizers.registry import CATEGORIES, by_name

Family = Callable[..., Randomizer]
Calibration = Callable[..., MultiMessageMechanism]  # takes n, epsilon and delta

LARGEST_VECTOR = 10_000  # answers: beyond, a message with a bit per answer is too long
LARGEST_DECODING = 1e10  # reports times answers: beyond, trying every answer takes hours
MOST_COINS = 1_000_000  # answers: beyond, a coin for each of them takes too long
_HASHED = (256, 1024, 4096, 16384, 65536)
_BUCKETS = (2, 4, 8, 16, 64, 256, 1024, 4096)
_FEW_LEVELS = (16, 11, 8, 6, 4, 3, 2, 1)  # more than that, and a split sum needs fewer messages
_LARGEST_ENVELOPE = 20.0  # levels over epsilon: a thousand slots for each of it
_LEVELS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 256, 512)


@dataclass(frozen=True)
class Candidate:
    """A family of randomizers that takes ``epsilon=``, or the reason why it is out of question.

    A protocol with several messages is calibrated for so many people instead.
    """

    name: str
    family: Family | None
    remark: str = ""
    largest_epsilon: float = 25.0
    calibration: Calibration | None = None


def for_categories(k: int, n: int) -> list[Candidate]:
    """Randomizers of one of k answers; local hashing with several numbers of buckets."""
    limited = ("subset", "unary", "hashing")
    found = [
        Candidate(name, partial(by_name(name), k=k)) for name in CATEGORIES if name not in limited
    ]
    for name in ("subset", "unary"):
        if k <= LARGEST_VECTOR:
            found.append(Candidate(name, partial(by_name(name), k=k)))
        else:
            remark = f"a message of {k:,} bits is too long"
            found.append(Candidate(name, None, remark))
    if n * k <= LARGEST_DECODING:
        hashing = by_name("hashing")
        found.extend(
            Candidate("hashing", partial(hashing, k=k, buckets=buckets)) for buckets in _BUCKETS
        )
    else:
        remark = f"decoding tries {k:,} answers on each of {n:,} reports"
        found.append(Candidate("hashing", None, remark))
    return found


def with_messages(k: int, n: int, *, cap: float | None) -> list[Candidate]:
    """Protocols for one of k answers, fewest messages first."""
    found = [_calibrated("near-central"), _calibrated("coins")] if k == 2 else []
    found.append(_calibrated("dummies", k=k))
    if k <= MOST_COINS:
        found.append(_calibrated("sparse", k=k))
        # Everybody sends about a message per answer: worth a look only where that is allowed.
        if k <= (LARGEST_VECTOR if cap is None else cap):
            found.append(_calibrated("zero-sum", k=k))
    if k > n:
        if n * k <= LARGEST_DECODING:
            found.extend(_calibrated("hashed-dummies", k=k, buckets=b) for b in _HASHED if b < k)
        else:
            remark = f"decoding tries {k:,} answers on each of {n:,} messages"
            found.append(Candidate("hashed-dummies", None, remark))
    return found


def _calibrated(name: str, **parameters: float) -> Candidate:
    return Candidate(name, None, calibration=partial(calibration(name), **parameters))


def for_numbers(low: float, high: float) -> list[Candidate]:
    """Randomizers of a number between bounds; rounding to several numbers of levels."""
    bounds = {"low": low, "high": high}
    found = [Candidate(name, partial(by_name(name), **bounds)) for name in ("duchi", "piecewise")]
    # Beyond, the law of Laplace noise has too many atoms that matter to be searched.
    found.append(Candidate("laplace", partial(by_name("laplace"), **bounds), largest_epsilon=8.0))
    rounded = by_name("rounded")
    found.extend(
        Candidate("rounded", partial(rounded, levels=levels + 1, **bounds)) for levels in _LEVELS
    )
    return found


def sums_with_messages(
    bounds: tuple[float, float], *, epsilon: float, cap: float | None
) -> list[Candidate]:
    """Protocols for the sum of numbers between bounds."""
    most = math.inf if cap is None else cap
    reach = min(most, _LARGEST_ENVELOPE * epsilon)
    few = tuple(levels for levels in _FEW_LEVELS if levels <= reach)
    central = Candidate("near-central-sum", None, "an envelope would need too many slots")
    if few:
        made = partial(_near_central_sum, bounds=bounds, few=few, most=most)
        central = Candidate("near-central-sum", None, calibration=made)
    low, high = bounds
    return [central, _calibrated("split-and-mix", low=low, high=high)]


def _near_central_sum(
    *, bounds: tuple[float, float], few: tuple[int, ...], most: float, **target: float
) -> MultiMessageMechanism:
    """With as many levels as the messages allow: the more of them, the less rounding."""
    make = calibration("near-central-sum")
    for levels in few:
        made = make(low=bounds[0], high=bounds[1], levels=levels, **target)
        if made.messages <= most:
            break
    return made


def vectors_with_messages(dimension: int, bound: float) -> list[Candidate]:
    """Protocols for the sum of vectors whose absolute values add up to at most ``bound``."""
    return [_calibrated("split-and-mix-vectors", dimension=dimension, bound=bound)]


def for_vectors(dimension: int) -> list[Candidate]:
    """Randomizers of a unit vector."""
    return [
        Candidate(name, partial(by_name(name), dimension=dimension))
        for name in ("privunit", "privunitg")
    ]

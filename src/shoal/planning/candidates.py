"""The randomizers worth considering for a kind of question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from shoal.randomizers.base import Randomizer
from shoal.randomizers.registry import by_name

Family = Callable[..., Randomizer]

LARGEST_VECTOR = 10_000  # answers: beyond, a message with a bit per answer is too long
LARGEST_DECODING = 1e10  # reports times answers: beyond, trying every answer takes hours
_BUCKETS = (2, 4, 8, 16, 64, 256, 1024, 4096)
_LEVELS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 256, 512)


@dataclass(frozen=True)
class Candidate:
    """A family of randomizers that takes ``epsilon=``, or the reason why it is out of question."""

    name: str
    family: Family | None
    remark: str = ""
    largest_epsilon: float = 25.0


def for_categories(k: int, n: int) -> list[Candidate]:
    """Randomizers of one of k answers; local hashing with several numbers of buckets."""
    found = [
        Candidate(name, partial(by_name(name), k=k)) for name in ("grr", "hadamard", "projective")
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


def for_vectors(dimension: int) -> list[Candidate]:
    """Randomizers of a unit vector."""
    return [
        Candidate(name, partial(by_name(name), dimension=dimension))
        for name in ("privunit", "privunitg")
    ]

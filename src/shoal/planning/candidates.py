"""Candidates: the mechanisms worth considering for what is asked, simplest first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from shoal.mechanisms import registry
from shoal.mechanisms.base import Randomizer
from shoal.mechanisms.envelopes import Device
from shoal.mechanisms.registry import by_name, calibration

Family = Callable[..., Randomizer]

LARGEST_VECTOR = 10_000  # answers: beyond, a message with a bit per answer is too long
LARGEST_DECODING = 1e10  # reports times answers: beyond, trying every answer takes hours
MOST_COINS = 1_000_000  # answers: beyond, a coin for each of them takes too long
_HASHED = (256, 1024, 4096, 16384, 65536)
_BUCKETS = (2, 4, 8, 16, 64, 256, 1024, 4096)
_FEW_LEVELS = (16, 11, 8, 6, 4, 3, 2, 1)  # more than that, and a split sum needs fewer messages
_LARGEST_ENVELOPE = 20.0  # levels over epsilon: a thousand slots for each of it
_LEVELS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 256, 512)
_LEAST_LEAN = 0.05  # epsilon: below, a share of pairs may be beyond any envelope


@dataclass(frozen=True)
class Candidate:
    """What makes a randomizer of ``epsilon=``, or the reason why it is out of question.

    What has no local epsilon, as a protocol with several messages, is ``calibrated`` for so many
    people instead: it is made of ``n=``, ``epsilon=`` and ``delta=``.
    """

    name: str
    family: Family | None = None
    remark: str = ""
    largest_epsilon: float = 25.0
    calibrated: Callable[..., Device] | None = None


def for_categories(
    k: int, n: int, *, epsilon: float = 1.0, messages_cap: float | None = 1.0
) -> list[Candidate]:
    """One of k answers; local hashing with several numbers of buckets; fewest messages first."""
    limited = dict.fromkeys(("subset", "unary", "hashing"), "")
    if k > LARGEST_VECTOR:
        limited["subset"] = limited["unary"] = f"a message of {k:,} bits is too long"
    if n * k > LARGEST_DECODING:
        limited["hashing"] = f"decoding tries {k:,} answers on each of {n:,} reports"
    tried = []
    for name in registry.names("answers", local=True):
        sizes = [{"buckets": buckets} for buckets in _BUCKETS] if name == "hashing" else [{}]
        if limited.get(name):
            tried.append(Candidate(name, remark=limited[name]))
        else:
            tried += [Candidate(name, partial(by_name(name), k=k, **size)) for size in sizes]
    if messages_cap is not None and messages_cap <= 1:
        return tried
    if k == 2:
        tried += [calibrated("near-central"), calibrated("coins")]
    tried.append(calibrated("dummies", k=k))
    if k <= MOST_COINS:
        tried.append(calibrated("sparse", k=k))
        # Everybody sends about a message per answer: worth a look only where that is allowed.
        if k <= (LARGEST_VECTOR if messages_cap is None else messages_cap):
            tried.append(calibrated("zero-sum", k=k))
    # Of two answers one count is enough, which near-central is.
    if k > 2 and epsilon < _LEAST_LEAN:
        tried.append(Candidate("near-central-lean", remark="an envelope would need too many slots"))
    elif k > 2:
        tried.append(calibrated("near-central-lean", k=k, messages_cap=messages_cap))
    tried.append(calibrated("near-central-robust", k=k, messages_cap=messages_cap))
    if k > n and limited["hashing"]:
        remark = f"decoding tries {k:,} answers on each of {n:,} messages"
        tried.append(Candidate("hashed-dummies", remark=remark))
    elif k > n:
        tried += [calibrated("hashed-dummies", k=k, buckets=b) for b in _HASHED if b < k]
    return tried


def for_numbers(
    low: float, high: float, *, epsilon: float = 1.0, messages_cap: float | None = 1.0
) -> list[Candidate]:
    """A number between bounds; rounding to several numbers of levels; sums by several messages."""
    made = partial(partial, low=low, high=high)
    tried = [Candidate(name, made(by_name(name))) for name in ("duchi", "piecewise")]
    # Beyond, the law of Laplace noise has too many atoms that matter to be searched.
    tried.append(Candidate("laplace", made(by_name("laplace")), largest_epsilon=8.0))
    rounded = by_name("rounded")
    tried += [Candidate("rounded", made(rounded, levels=levels + 1)) for levels in _LEVELS]
    tried.append(calibrated("gaussian", low=low, high=high))
    if messages_cap is not None and messages_cap <= 1:
        return tried
    most = math.inf if messages_cap is None else messages_cap
    few = [levels for levels in _FEW_LEVELS if levels <= min(most, _LARGEST_ENVELOPE * epsilon)]
    if few:
        central = partial(_near_central_sum, few, most, low=low, high=high)
        tried.append(Candidate("near-central-sum", calibrated=central))
    else:
        tried.append(Candidate("near-central-sum", remark="an envelope would need too many slots"))
    return [*tried, calibrated("split-and-mix", low=low, high=high)]


def for_vectors(
    dimension: int, norm: float | None = None, *, messages_cap: float | None = 1.0
) -> list[Candidate]:
    """A vector: of length 1, or no longer than ``norm``, which takes a coordinate more."""
    directions = dimension if norm is None else dimension + 1
    tried = [
        Candidate(name, partial(by_name(name), dimension=directions))
        for name in ("privunit", "privunitg")
    ]
    longest = 1.0 if norm is None else norm
    tried.append(calibrated("gaussian-vectors", dimension=dimension, norm=longest))
    if messages_cap is None or messages_cap > 1:
        # The most that the absolute values of the coordinates add up to.
        bound = math.sqrt(dimension) * longest
        tried.append(calibrated("split-and-mix-vectors", dimension=dimension, bound=bound))
    return tried


def calibrated(name: str, **parameters: float | None) -> Candidate:
    return Candidate(name, calibrated=partial(calibration(name), **parameters))


def _near_central_sum(few: list[int], most: float, **target: float) -> Device:
    """With as many levels as the messages allow: the more of them, the less rounding."""
    for levels in few:
        made = calibration("near-central-sum")(levels=levels, **target)
        if made.messages <= most:
            break
    return made

"""What a known mechanism takes: a few data worth trying, and whether given ones are any."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from numbers import Real

import numpy as np

from shoal.auditing.subjects import Listed
from shoal.errors import InvalidArgumentError
from shoal.protocols.near_central import NearCentralSum
from shoal.protocols.partitioned import PartitionedDummies
from shoal.protocols.split_vectors import SplitAndMixVectors
from shoal.randomizers.base import AnswerMechanism, NumberMechanism, VectorMechanism
from shoal.randomizers.partitioned import PartitionedResponse
from shoal.randomizers.vectors import CapRandomizer

MOST_SCREENED = 64
Answers = AnswerMechanism | PartitionedResponse | PartitionedDummies


def answers(known: object) -> int | None:
    """How many answers there are, if data are their numbers."""
    if isinstance(known, Listed):
        return len(known.rows)
    return known.k if isinstance(known, Answers) else None


def worth_trying(known: object) -> tuple[Hashable, ...]:
    """The ends and the middle if they are numbers or vectors; of many answers some of them."""
    if isinstance(known, NearCentralSum) and known.levels is None:
        return tuple(dict.fromkeys((0, int(known.high), int(known.high) // 2)))
    if isinstance(known, NumberMechanism):
        return (known.low, known.high, (known.low + known.high) / 2)
    if isinstance(known, CapRandomizer):
        axis = (1.0, *[0.0] * (known.dimension - 1))
        across = (0.0, 1.0, *[0.0] * (known.dimension - 2))
        return (axis, tuple(-x for x in axis), across)
    if isinstance(known, SplitAndMixVectors):
        end = (known.bound, *[0.0] * (known.dimension - 1))
        return (end, tuple(-x for x in end), tuple(0.0 for _ in end))
    k = answers(known)
    if k is not None:
        return tuple(some_of(k))
    if isinstance(known, AnswerMechanism):
        return ("a", "b", "c")
    expected = "the values to try (inputs), as nothing is known of the data that it takes"
    raise InvalidArgumentError("inputs", None, expected)


def some_of(k: int) -> list[int]:
    """All answers, or the first one, the last one, and some in between."""
    if k <= MOST_SCREENED:
        return list(range(k))
    found: list[int] = np.linspace(0, k - 1, MOST_SCREENED).astype(np.int64).tolist()
    return found


def has_ends(known: object) -> bool:
    """Whether the first two data worth trying are farther apart than any others."""
    return isinstance(known, NumberMechanism | VectorMechanism)


def check(known: object, inputs: Sequence[Hashable]) -> None:
    """Refuse data that the mechanism does not take."""
    k = answers(known)
    for value in inputs:
        if k is not None and not (_is_whole(value) and 0 <= float(value) < k):  # type: ignore[arg-type]
            expected = f"answers by their numbers 0 to {k - 1}, as declared"
            raise InvalidArgumentError("inputs", value, expected)
        if isinstance(known, AnswerMechanism) and k is None and not isinstance(value, str):
            raise InvalidArgumentError("inputs", value, "strings, as there is no k")
        if isinstance(known, NumberMechanism):
            _check_number(known, value)
        if isinstance(known, VectorMechanism):
            _check_vector(known, value)


def _is_whole(value: object) -> bool:
    return isinstance(value, Real | np.bool_) and float(value).is_integer()


def _check_number(known: NumberMechanism, value: Hashable) -> None:
    whole = isinstance(known, NearCentralSum) and known.levels is None
    inside = isinstance(value, Real) and known.low <= float(value) <= known.high
    if not inside or (whole and not _is_whole(value)):
        kind = "whole numbers" if whole else "numbers"
        expected = f"{kind} from {known.low:g} to {known.high:g}, as declared"
        raise InvalidArgumentError("inputs", value, expected)


def _check_vector(known: VectorMechanism, value: Hashable) -> None:
    parts = value if isinstance(value, tuple) else ()
    numbers = all(isinstance(part, Real) and math.isfinite(part) for part in parts)
    if len(parts) != known.dimension or not numbers:
        expected = f"tuples of {known.dimension} finite numbers, as declared"
        raise InvalidArgumentError("inputs", value, expected)

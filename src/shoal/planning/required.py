"""The other way round: how many people, or which ε, a wanted error takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from shoal import checks
from shoal.accounting import search
from shoal.errors import UnreachableTargetError
from shoal.planning.plans import plan
from shoal.questions.kinds import Question
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits

_LARGEST_N = 10**12
_FAR = 20.0  # stands for "impossible" in logarithms
_STRIDE = 2.0  # in logarithms


def required_n_for(
    error: float,
    question: Question,
    *,
    epsilon: float,
    delta: float | None = None,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
) -> int:
    """The smallest number of people whose predicted L2 error is at most ``error`` of them.

    Args:
        error: The error > 0, as a fraction of the people, or of a mean in its own
            unit.
        question: What is asked.
        epsilon: ε > 0.
        delta: δ; that of each n unless given.
        crowd: Who takes part.
        limits: What reports may be.

    Returns:
        n.

    Raises:
        InvalidArgumentError: A number is out of its range.
        UnreachableTargetError: Not even the largest n that is tried is enough.

    References:
        The theorems of :func:`shoal.plan`; :doc:`/theory/solving`.

    Example:
        >>> from shoal import Vector
        >>> required_n_for(0.05, Vector("direction", 2), epsilon=1)
        430
    """
    terms: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "crowd": crowd, "limits": limits}

    def with_people(log_n: float) -> dict[str, Any]:
        return terms | {"n": math.ceil(math.exp(log_n))}

    reason = f"not even {_LARGEST_N:,} people are enough"
    ends = (16, _LARGEST_N)
    log_n = _smallest(error, question, with_people, ends, reason, advice="allow more")
    return math.ceil(math.exp(log_n))


def required_epsilon_for(
    error: float,
    question: Question,
    *,
    n: int,
    delta: float | None = None,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
) -> float:
    """The smallest ε at which the predicted L2 error is at most ``error`` of n people.

    Args:
        error: The error > 0, as a fraction of the people, or of a mean in its own
            unit.
        question: What is asked.
        n: People who report.
        delta: δ; min(1e-6, 1/(10 n)) unless given.
        crowd: Who takes part.
        limits: What reports may be.

    Returns:
        ε, from 0.001 to 16.

    Raises:
        InvalidArgumentError: A number is out of its range.
        UnreachableTargetError: So few people do not reach it at any ε.

    References:
        The theorems of :func:`shoal.plan`; :doc:`/theory/solving`.

    Example:
        >>> from shoal import Vector
        >>> round(required_epsilon_for(0.2, Vector("direction", 2), n=1_000), 3)
        0.059
    """
    terms: dict[str, Any] = {"n": n, "delta": delta, "crowd": crowd, "limits": limits}

    def with_epsilon(log_epsilon: float) -> dict[str, Any]:
        return terms | {"epsilon": math.exp(log_epsilon)}

    reason, advice = f"{n:,} people are too few", "collect more reports"
    return math.exp(_smallest(error, question, with_epsilon, (1e-3, 16), reason, advice=advice))


def _smallest(
    error: float,
    question: Question,
    terms: Callable[[float], Mapping[str, Any]],
    ends: tuple[float, float],
    reason: str,
    *,
    advice: str,
) -> float:
    """The logarithm from which on the question's plan has at most this error."""
    checks.positive(error=error)

    @cache
    def excess(logarithm: float) -> float:
        """log of the predicted error, as a fraction of the crowd, over the one allowed."""
        try:
            made = plan(question, **terms(logarithm))
        except UnreachableTargetError:
            return _FAR
        return math.log(made.only.errors.l2 / made.n / error)

    low, high = map(math.log, ends)
    places: list[float] = [*np.arange(low, high, _STRIDE).tolist(), high]
    if excess(places[0]) <= 0:
        return places[0]
    for start, end in pairwise(places):
        if excess(end) <= 0:
            return search.root_below(excess, start, end, tolerance=1e-4)
    raise UnreachableTargetError(f"an error of {error:g}", reason, advice)

"""The least noise that keeps a target, found from the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from shoal import checks
from shoal.accounting.noise.windows import checked_target
from shoal.accounting.search import Side, crossing
from shoal.errors import UnreachableTargetError

_STEP = 1.5
_FIRST = 0.25


def least_mean(
    delta_of: Callable[[float], float], *, delta: float, largest: float = math.inf
) -> float:
    """Return the least mean in (0, largest] with ``delta_of(mean) <= delta``, or infinity.

    ``delta_of`` falls from 1 at mean 0 like ``exp(-c mean)``, so the search runs over the square
    root of the mean. The mean returned is one at which ``delta_of`` was evaluated and kept the
    target: nothing depends on the curve being monotone except that no smaller mean would do.
    """

    def log_delta(root: float) -> float:
        reached = delta_of(min(root * root, largest))
        return math.log(reached) if reached > 0 else -math.inf

    target, root, end = math.log(delta), _FIRST, math.sqrt(largest)
    while log_delta(min(root, end)) > target:
        if root >= end:
            return math.inf
        root *= _STEP
    cap = min(root, end)
    guess = cap * 0.9
    found = crossing(log_delta, target, cap=cap, guess=guess, side=Side.UPPER, at_zero=0.0)
    return min(found * found, largest)


def least_count(holds: Callable[[int], bool]) -> int | None:
    """Return the least n >= 1 with ``holds(n)``, true from some n on; None above 1e15."""
    high = 1
    while not holds(high):
        high *= 2
        if high > checks.LARGEST_COUNT:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def too_few(
    *, n: int, epsilon: float, delta: float, holds: Callable[[int], bool]
) -> UnreachableTargetError:
    """The error for n honest people whose strongest noise is too little, with the n needed."""
    needed = least_count(holds)
    advice = "ask for a larger epsilon or delta"
    if needed is not None:
        advice = f"it takes n >= {needed} honest people, or a larger epsilon or delta"
    return UnreachableTargetError(
        f"epsilon={epsilon:g} at delta={delta:g}",
        f"n={n} honest people flipping fair coins add too little noise",
        advice,
    )


def least_share(delta_of: Callable[..., float], *, n: int, epsilon: float, delta: float) -> float:
    """The smallest share <= 1/2 with ``delta_of(n=, gamma=, epsilon=) <= delta``, or an error."""
    people = checks.count(n=n)
    checked_target(epsilon=epsilon, delta=delta)
    mean = least_mean(
        lambda mean: delta_of(n=people, gamma=mean / people, epsilon=epsilon),
        delta=delta,
        largest=people / 2,
    )
    if math.isinf(mean):
        raise too_few(
            n=people,
            epsilon=epsilon,
            delta=delta,
            holds=lambda m: delta_of(n=m, gamma=0.5, epsilon=epsilon) <= delta,
        )
    return mean / people

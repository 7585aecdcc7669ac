"""From a curve δ(ε) to the ε at one δ, erring on the safe side.

A curve of upper bounds need not decrease, but the quantity it bounds does: any ε with
δ(ε) <= δ is a guarantee. :func:`smallest_epsilon` returns one it has checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable

# The curve must lie below the target by this much in log δ: more than its own rounding.
LOG_MARGIN = 1e-9

_DECADES = 15.0
_POINTS = 400
_LAST_FRACTION = 1 - 1e-6
_BISECTIONS = 45


def smallest_epsilon(
    log_delta: Callable[[float], float], *, local_epsilon: float, delta: float
) -> float | None:
    """Return the first ε below ε0 at which the curve has come down to δ, or None.

    The interval (0, ε0) is walked geometrically, so that a curve which rises again is still met
    on its first descent; the crossing is then bisected, keeping the end where the curve holds.
    """
    target = math.log(delta) - LOG_MARGIN
    below = 0.0
    for index in range(_POINTS + 1):
        fraction = _LAST_FRACTION * 10 ** (-_DECADES * (1 - index / _POINTS))
        candidate = fraction * local_epsilon
        if log_delta(candidate) <= target:
            return _descend(log_delta, below, candidate, target)
        below = candidate
    return None


def _descend(
    log_delta: Callable[[float], float], below: float, above: float, target: float
) -> float:
    if below == 0.0:
        return above
    for _ in range(_BISECTIONS):
        middle = (below + above) / 2
        if log_delta(middle) <= target:
            above = middle
        else:
            below = middle
    return above

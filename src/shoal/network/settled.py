"""Answers that do not dwell on what is hardly better than nothing.

Near ε0 the bounds take ever longer to evaluate and say ever less: that ε is a little below what
each report guarantees by itself. Where δ is not kept at 99 % of ε0, the answer here is ε0, which
always holds, and nothing more is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.network.account import WalkAccountant
from shoal.network.profile import WalkProfile

ALONE = "each report by itself"
_NEARLY = 0.99


def answer(profile: WalkProfile, delta: float) -> tuple[float, str]:
    """The smallest ε proved at this δ and by which theorem, or ε0 if it is hardly smaller."""
    checks.open_probability(delta=delta)
    local = profile.local_epsilon
    if profile.local_delta or math.isinf(local):
        return profile.answer(delta)
    useful = tuple(route for route in profile.routes if route.delta(_NEARLY * local) <= delta)
    if not useful:
        return local, ALONE
    return replace(profile, routes=useful).answer(delta)


def epsilons(
    accountant: WalkAccountant, rounds: int, *, delta: float, shares: Sequence[float]
) -> dict[float, float]:
    """ε of the best spread shares of people; a larger share has at least the ε of a smaller."""
    found: dict[float, float] = {}
    least = math.inf
    for share in sorted(shares, reverse=True):
        least = min(least, answer(accountant.profile(rounds, quantile=share), delta)[0])
        found[share] = least
    return found


def guarantee(accountant: WalkAccountant, rounds: int, *, delta: float) -> Guarantee:
    """What everybody is guaranteed."""
    profile = accountant.profile(rounds)
    epsilon, theorem = answer(profile, delta)
    # Asked at an ε the accountant evaluates one δ, and states everything else.
    stated = accountant.guarantee(rounds, epsilon=epsilon)
    return replace(
        stated,
        epsilon=epsilon,
        delta=delta,
        theorem=theorem,
        lower_bound=lambda: profile.lower_epsilon(delta),
    )

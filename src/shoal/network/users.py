"""How private each person's report is: reports that begin at the edge of a graph mix later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shoal import checks
from shoal.network.account import WalkAccountant

_SHARES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class UserEpsilons:
    """The ε proved for at least these shares of all people, ascending."""

    rounds: int
    delta: float
    shares: tuple[float, ...]
    epsilons: tuple[float, ...]

    @property
    def worst(self) -> float:
        """For everybody."""
        return self.at(1.0)

    @property
    def median(self) -> float:
        """For one half of them."""
        return self.at(0.5)

    def at(self, quantile: float) -> float:
        """For this share of people, from the next larger share that was computed."""
        checks.share(quantile=quantile)
        reached = [
            epsilon
            for share, epsilon in zip(self.shares, self.epsilons, strict=True)
            if share >= quantile * (1 - 1e-12)
        ]
        return min(reached, default=math.inf)


def user_epsilons(
    accountant: WalkAccountant,
    rounds: int,
    *,
    delta: float = 1e-6,
    shares: Sequence[float] = _SHARES,
) -> UserEpsilons:
    """The ε of the best spread half of all people, and of larger shares, up to everybody.

    A larger group contains the smaller ones, so its ε is at least theirs.
    """
    checks.open_probability(delta=delta)
    for share in shares:
        checks.share(shares=share)
    wanted = tuple(sorted({*map(float, shares), 1.0}))
    found = [accountant.profile(rounds, quantile=share).epsilon(delta) for share in wanted]
    least = [min(found[index:]) for index in range(len(found))]
    return UserEpsilons(rounds, delta, wanted, tuple(least))

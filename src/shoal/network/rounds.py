"""How many rounds are enough, for whom, and what they cost.

Reports that begin at the edge of a graph mix later than others: ε depends on the person.

A further round is post-processing: it moves every report on by itself, whatever it says. So δ
never grows with the rounds, and the smallest number is found by doubling and halving. No number
of rounds beats a uniform shuffle of the same reports, which is what remains when the walk has
forgotten where it began.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.network.account import WalkAccountant

_AGREEMENT = 1e-7
_FRACTIONS = (0.5, 0.9, 0.99, 1.0)
_MOST_ROUNDS = 100_000


@dataclass(frozen=True)
class Cost:
    """What passing on costs: messages sent, reports held, bytes, for an average peer and a hub.

    A peer holds n π reports on average at any time, and sends them all on every round.
    """

    messages: float  # by an average peer
    most_messages: float  # by the best connected peer, on average
    load: float  # reports held by an average peer
    most_load: float
    report_bytes: int

    @property
    def bytes_sent(self) -> float:
        """By an average peer."""
        return self.messages * self.report_bytes

    @property
    def most_bytes_sent(self) -> float:
        """By the best connected peer, on average."""
        return self.most_messages * self.report_bytes


@dataclass(frozen=True)
class Rounds:
    """The smallest number of rounds that keeps the target, its guarantee, and its cost."""

    rounds: int
    guarantee: Guarantee
    cost: Cost


def rounds_for(
    accountant: WalkAccountant,
    *,
    epsilon: float,
    delta: float = 1e-6,
    quantile: float = 1.0,
    most: int = _MOST_ROUNDS,
    report_bytes: int = 1024,
) -> Rounds:
    """The smallest number of rounds after which (ε, δ) is proved for this fraction of people."""
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    checks.share(quantile=quantile)
    most = checks.count(most=most)
    if accountant.view == "traffic":
        raise InvalidArgumentError("view", accountant.view, "view 'final' to search for rounds")
    _require_reachable(accountant, epsilon, delta)

    def keeps(rounds: int) -> bool:
        profile = accountant.profile(rounds, quantile=quantile)
        if epsilon >= profile.local_epsilon:
            return profile.local_delta <= delta
        return profile.delta(epsilon * (1 - _AGREEMENT)) <= delta

    reached = _smallest(keeps, _longest(accountant, most))
    if reached is None:
        raise UnreachableTargetError(
            f"({epsilon:g}, {delta:g})-DP",
            f"not within {_longest(accountant, most):,} rounds",
            "allow more rounds, ask for a smaller quantile of people, or use a graph that mixes "
            "faster",
        )
    guarantee = accountant.guarantee(reached, delta=delta, quantile=quantile)
    return Rounds(reached, guarantee, cost(accountant, reached, report_bytes=report_bytes))


def cost(accountant: WalkAccountant, rounds: int, *, report_bytes: int = 1024) -> Cost:
    """What so many rounds cost, once the walk has mixed."""
    rounds = checks.count(0, rounds=rounds)
    size = checks.count(report_bytes=report_bytes)
    heaviest = accountant.walk.n * float(accountant.walk.stationary.max())
    return Cost(float(rounds), heaviest * rounds, 1.0, heaviest, size)


def _smallest(keeps: Callable[[int], bool], most: int) -> int | None:
    low, high = 0, 1
    while not keeps(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _longest(accountant: WalkAccountant, most: int) -> int:
    longest = accountant.walk.longest
    return most if longest is None else min(most, longest)


def _require_reachable(accountant: WalkAccountant, epsilon: float, delta: float) -> None:
    """All submitted, nobody corrupt: the limit is the uniform shuffle, and known."""
    if accountant.submit != "all":
        return
    limit = accountant.reports.central(accountant.walk.n).epsilon(delta)
    if epsilon < limit * (1 - _AGREEMENT):
        raise UnreachableTargetError(
            f"({epsilon:g}, {delta:g})-DP",
            f"no number of rounds beats a uniform shuffle of the same reports, whose epsilon is "
            f"{limit:.6g}",
            "use a smaller local epsilon, more people, or a weaker target",
        )


@dataclass(frozen=True)
class UserEpsilons:
    """The ε proved for at least these fractions of all people, ascending."""

    rounds: int
    delta: float
    fractions: tuple[float, ...]
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
        """For this fraction of people, from the next larger one that was computed."""
        checks.share(quantile=quantile)
        reached = [
            epsilon
            for fraction, epsilon in zip(self.fractions, self.epsilons, strict=True)
            if fraction >= quantile * (1 - 1e-12)
        ]
        return min(reached, default=math.inf)


def user_epsilons(
    accountant: WalkAccountant,
    rounds: int,
    *,
    delta: float = 1e-6,
    fractions: Sequence[float] = _FRACTIONS,
    near_local: bool = True,
) -> UserEpsilons:
    """The ε of the best spread half of all people, and of larger fractions, up to everybody.

    A larger group contains the smaller ones, so its ε is at least theirs. ``near_local=False`` is
    for quick answers: :meth:`WalkProfile.answer`.
    """
    checks.open_probability(delta=delta)
    for fraction in fractions:
        checks.share(fractions=fraction)
    ascending = tuple(sorted({*map(float, fractions), 1.0}))
    epsilons = [
        accountant.profile(rounds, quantile=fraction).answer(delta, near_local=near_local)[0]
        for fraction in ascending
    ]
    least = tuple(min(epsilons[place:]) for place in range(len(epsilons)))
    return UserEpsilons(rounds, delta, ascending, least)

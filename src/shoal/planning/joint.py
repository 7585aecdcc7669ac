"""One budget for several questions: their exact curves compose to epsilon, none of it is left over.

Questions that share epsilon by a split spend about 1/sqrt(k) of it only. Here every question's own
epsilon is its weight times a common scale, and the scale is the largest at which the composed
curves keep the joint target (docs/theory/composition.md). Several questions, several reports of
each person, the labels of one question and the levels of a tree are all parts of one budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.compose import ComposedProfile
from shoal.errors import UnreachableTargetError
from shoal.planning.planner import Ranking, Setting, rank, recalibrated

_ENOUGH, _AIM = 0.994, 0.9985  # of epsilon: from here on it counts as spent; what steps aim at
_MOST_STEPS = 12
_CLOSE = 1 + 1e-4  # a bracket of the scale so narrow that the cost has a step in it
_REACH = 2.0  # epsilon at delta/K of a part that has all of (epsilon, delta) is less than so much
_BELOW = 1 - 1e-6  # what is solved for comes out above its target by rounding


@dataclass(frozen=True)
class Part:
    """Reports in a budget that :func:`shoal.planning.joint.plan_together` divides.

    Args:
        setting: What one of them is planned for; its ε and δ are those of the budget.
        weight: Its part of the budget, > 0.
        rounds: How many such reports of one person are others if the person's data are.

    Raises:
        InvalidArgumentError: ``weight`` or ``rounds`` is out of its range.
    """

    setting: Setting
    weight: float = 1.0
    rounds: int = 1

    def __post_init__(self) -> None:
        checks.positive(weight=self.weight)
        checks.counts(self, rounds=1)

    def ranking(self, epsilon: float, delta: float) -> Ranking:
        """The options for it alone, at its own target."""
        return rank(replace(self.setting, epsilon=epsilon, delta=delta))

    @property
    def order(self) -> tuple[str, ...]:
        """Where it is among others: rounding must not tell orders apart."""
        setting = self.setting
        data = setting.domain.takes == "vectors", setting.domain.takes == "answers"
        sizes = tuple(setting.domain.arguments.values())
        return str(setting.n), *map(str, data), repr(sizes), repr((self.weight, self.rounds))


@dataclass(frozen=True)
class JointPlan:
    """Rankings of the parts of :func:`shoal.planning.joint.plan_together`, and what all cost.

    Attributes:
        rankings: In the order of the parts, each with the one option that is run.
        profile: The composed curve δ(ε) of everybody's reports.
        epsilon: At most the joint target.
        theorem: What proves it.

    References:
        :doc:`/theory/composition`.
    """

    rankings: tuple[Ranking, ...]
    profile: ComposedProfile
    epsilon: float
    theorem: str


def plan_together(parts: Sequence[Part], *, epsilon: float, delta: float) -> JointPlan:
    """Plans whose composition spends (ε, δ), by less than 1 % too little.

    A part of weight w has its least error at (t w, δ/K), K being the number of all
    reports of one person, and t is the same for all. At t = ε / (sum of weights)
    epsilons and deltas add up to the target, so that no part is worse off than by a
    split. Which mechanism a part runs is decided near the final scale. The plans have
    the option that is run and no other.

    Args:
        parts: The questions, at least one.
        epsilon: ε > 0 of all reports of one person together.
        delta: δ in (0, 1) of all of them.

    Returns:
        A :class:`shoal.planning.joint.JointPlan`.

    Raises:
        InvalidArgumentError: There is no part, or a number is out of its range.
        UnreachableTargetError: A part has no option that keeps its part of the target.

    References:
        :doc:`/theory/composition`.

    Example:
        >>> from shoal.questions.domains import Cells
        >>> target = {"n": 10_000, "epsilon": 1, "delta": 1e-6}
        >>> parts = [Part(Setting(domain=Cells(k), **target)) for k in (2, 10)]
        >>> both = plan_together(parts, epsilon=1, delta=1e-6)
        >>> 0.99 < both.epsilon <= 1, both.rankings[0].setting.epsilon > 0.7
        (True, True)
    """
    checks.target(epsilon=epsilon, delta=delta)
    checks.refuse(not parts, "at least one part", parts=0)
    # In one order, whatever the order given: rounding must not tell them apart.
    order = sorted(range(len(parts)), key=lambda i: parts[i].order)
    ordered = [parts[i] for i in order]
    made = _solved(ordered, epsilon, delta)
    rankings = dict(zip(order, made.rankings, strict=True))
    given = tuple(rankings[i] for i in range(len(parts)))
    return JointPlan(given, made.profile, made.epsilon, made.theorem)


def _solved(parts: Sequence[Part], epsilon: float, delta: float) -> JointPlan:
    """At the largest scale that keeps the target, by steps that take epsilon as proportional."""
    reports = sum(part.rounds for part in parts)
    own_delta = delta / reports
    reach = min(_REACH * epsilon, checks.LARGEST_EPSILON)

    def at(scale: float, known: JointPlan | None) -> JointPlan:
        rankings = []
        for i, part in enumerate(parts):
            own = min(scale * part.weight, reach)
            try:
                first = known and recalibrated(known.rankings[i], own)
            except UnreachableTargetError:  # another mechanism may keep it
                first = None
            rankings.append(first or part.ranking(own, own_delta))
        profiles = [
            amplification.profile(each.randomizer, **each.setting.people) for each in rankings
        ]
        terms = zip(profiles, (part.rounds for part in parts), strict=True)
        composed = ComposedProfile.of(terms)
        return JointPlan(tuple(rankings), composed, *composed.tightest(delta))

    low = _BELOW * epsilon / sum(part.rounds * part.weight for part in parts)
    most = high = reach / min(part.weight for part in parts)
    # Gaussian mechanisms add up by their squares; delta/K asks for a little more than delta does.
    squares = sum(part.rounds * part.weight**2 for part in parts)
    scale = epsilon * math.sqrt(math.log(reports / delta) / math.log(1 / delta) / squares)
    scale = min(scale, most)
    best = made = None
    costs: dict[float, float] = {}  # by scale, of the mechanisms that are run now
    run: list[str] = []
    for _ in range(_MOST_STEPS):
        made, before = at(scale, made), run
        run = [each.randomizer.name for each in made.rankings]
        if run != before:
            costs.clear()
        costs[scale] = made.epsilon
        if best and made.profile == best.profile:  # caps on local epsilons bind everywhere
            break
        if made.epsilon <= epsilon:
            best, low = made, scale
        else:
            high = scale
        if best and (best.epsilon >= _ENOUGH * epsilon or low >= most or high <= low * _CLOSE):
            break
        scale = _between(low, high, _AIM * epsilon, costs)
    return best or at(low, made)


def _between(low: float, high: float, target: float, costs: Mapping[float, float]) -> float:
    """Where the cost is about the target: proportional to a scale, a power of it between two."""
    power = 1.0
    if low in costs and high in costs:
        power = math.log(high / low) / math.log(costs[high] / costs[low])
    start = low if low in costs else high
    guess = start * (target / costs[start]) ** power
    return min(guess, high) if guess > low else math.sqrt(low * high)

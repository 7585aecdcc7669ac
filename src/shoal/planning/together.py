"""The guarantee of all columns: one person's row is one report in each of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shoal.accounting.compose import ComposedProfile
from shoal.accounting.guarantee import Guarantee
from shoal.errors import PrecisionError, UnreachableTargetError
from shoal.planning.steps import Step


def together(steps: Sequence[Step], delta: float) -> Guarantee:
    """What all columns cost, at this delta."""
    if len(steps) == 1:
        return steps[0].guarantee
    composed = ComposedProfile.of((step.profile, 1) for step in steps)
    try:
        epsilon, how = composed.answer(delta)
    except PrecisionError:
        epsilon, how = composed.answer(delta, method="best")
    added = _added(steps, delta)
    if added < epsilon:
        epsilon, how = added, "epsilons and deltas added up"
    singles = [step.guarantee for step in steps]
    theorems = dict.fromkeys(each.theorem for each in singles)
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=min(each.n for each in singles),
        local_epsilon=composed.local_epsilon,
        local_delta=composed.local_delta,
        theorem=f"{'; '.join(theorems)}; {len(steps)} columns, {how}",
        assumptions=_assumptions(steps),
        lower_bound=lambda: composed.lower_epsilon(delta),
    )


def _added(steps: Sequence[Step], delta: float) -> float:
    """Basic composition: epsilons add up, and so do the equal parts of delta."""
    try:
        return sum(step.profile.epsilon(delta / len(steps)) for step in steps)
    except UnreachableTargetError:  # a part of delta may be too little for one of them
        return math.inf


def _assumptions(steps: Sequence[Step]) -> tuple[str, ...]:
    """What all columns assume, and what some do, with their names."""
    every = [(step.coded.name, step.guarantee.assumptions) for step in steps]
    said = (
        text if all(text in others for _, others in every) else f"{name}: {text}"
        for name, own in every
        for text in own
    )
    return tuple(dict.fromkeys(said))

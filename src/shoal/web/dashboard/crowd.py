"""Epsilon as the crowd grows, and as others are taken out of it: the survey's own accountant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shoal.errors import OutOfRegimeError, PrecisionError, UnreachableTargetError
from shoal.service.analyzer.release_decision import guaranteed
from shoal.service.survey import Survey
from shoal.service.survey.promise import promised

POINTS = 12
BEYOND = 10  # times the target
FAKE_SHARES = (0.1, 0.5, 0.9)  # of the honest people in the smallest crowd


@dataclass(frozen=True)
class Fakes:
    """So many people of the crowd who are not there to hide anybody; ``epsilon`` of the others."""

    people: int
    left: int
    epsilon: float | None


@dataclass(frozen=True)
class Crowd:
    """``curve`` has pairs of valid reports and epsilon; ``fakes`` what is left of the minimum."""

    curve: tuple[tuple[int, float], ...]
    fakes: tuple[Fakes, ...]


def crowd(survey: Survey) -> Crowd:
    """All of it; takes seconds where one person may send many reports."""
    return Crowd(tuple(_curve(survey)), tuple(_fakes(survey)))


def sizes(survey: Survey) -> list[int]:
    """Crowds from the minimum to ten times the target, evenly on a logarithmic axis."""
    low, high = survey.batches.minimum, BEYOND * survey.batches.target
    ratio = math.log(high / low) / (POINTS - 1)
    between = {round(low * math.exp(ratio * step)) for step in range(POINTS)}
    return sorted(between | {low, survey.batches.target, high})


def _curve(survey: Survey) -> Iterator[tuple[int, float]]:
    for valid in sizes(survey):
        found = guaranteed(survey, valid)
        if found is not None:
            yield valid, found.epsilon


def _fakes(survey: Survey) -> Iterator[Fakes]:
    """Beyond those that the survey counts on, who are taken off already."""
    honest = survey.honest(survey.batches.minimum)
    terms = replace(survey.terms, dishonest=0.0)
    for share in FAKE_SHARES:
        people = math.ceil(share * honest)
        left = honest - people
        try:
            epsilon = promised(survey.device, terms, left).epsilon
        except (UnreachableTargetError, OutOfRegimeError, PrecisionError):
            epsilon = None
        yield Fakes(people, left, epsilon)

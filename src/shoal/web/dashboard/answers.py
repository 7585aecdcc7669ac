"""The answers of a survey, and what can be said about each: more than noise, and than others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from shoal.estimate import top
from shoal.report.result import ColumnResult
from shoal.values import Estimate

LEVEL = 0.95
MOST = 500  # the largest ones; all of them are in what can be downloaded


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One answer: shares in percent.

    ``significant``: more than mere noise reaches anywhere, with probability 95 %. ``separated``:
    more than every answer whose estimate is smaller, beyond the noise; None where there is no such
    answer. The intervals behind it hold together.
    """

    index: int
    label: str
    share: float
    low: float
    high: float
    people: float
    significant: bool
    separated: bool | None


def answers(column: ColumnResult) -> tuple[Answer, ...]:
    """The largest first; none for a mean."""
    estimate = column.estimate
    if not isinstance(estimate, Estimate):
        return ()
    low, high = estimate.interval(LEVEL)
    return tuple(
        Answer(
            index=ranked.index,
            label=column.labels[ranked.index],
            share=100 * ranked.frequency,
            low=100 * float(low[ranked.index]),
            high=100 * float(high[ranked.index]),
            people=ranked.frequency * estimate.n,
            significant=ranked.significant,
            separated=ranked.separated if place + 1 < estimate.frequencies.size else None,
        )
        for place, ranked in enumerate(top(estimate, MOST, LEVEL))
    )


def as_asked(found: Sequence[Answer]) -> list[Answer]:
    """In the order of the survey."""
    return sorted(found, key=attrgetter("index"))

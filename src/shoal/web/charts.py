"""What is drawn: the answers, epsilon as the crowd grows, batches along time.

Places are percentages of a drawing's width (and height, of the curve), so that it is as large as
there is room for. The templates draw them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from shoal.results.charts import Axis

HOUR, DAY = 3600, 86_400
ORDERS = {"share": "largest first", "asked": "as in the survey"}
Point = tuple[int, float]
_TOP, _BOTTOM = 15.0, 89.0  # of the curve, in percent of the height
_MOST_DOTS = 60
_ROUND = (1, 2, 5)
_LINE = 90  # height of a timeline
_MOST_BUCKETS = 60
_STEPS = (HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 364 * DAY)


# ------------------------------------------------------------------- epsilon as the crowd grows


@dataclass(frozen=True)
class LogAxis:
    """From ``low`` to ``high``, equal lengths for equal factors."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Percent of the length, kept inside."""
        fraction = math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * min(1.0, max(0.0, fraction))

    def ticks(self) -> list[int]:
        """Round numbers within: powers of ten, and between them if those are few.

        >>> LogAxis(400, 50_000).ticks(), LogAxis(1600, 20_000).ticks()
        ([1000, 10000], [2000, 5000, 10000, 20000])
        """
        steps = _ROUND if self.high < 100 * self.low else _ROUND[:1]
        scales = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = [step * 10**scale for scale in scales for step in steps]
        return [tick for tick in every if self.low <= tick <= self.high]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """``points`` of the curve; ``published`` batches are dots; ``marks`` are named crowds."""

    points: Sequence[Point]
    published: Iterable[Point]
    marks: Sequence[tuple[int, str]]
    promised: float

    @cached_property
    def across(self) -> LogAxis:
        """The axis of valid reports."""
        return LogAxis(self.points[0][0], self.points[-1][0])

    @cached_property
    def upward(self) -> Axis:
        """The axis of epsilon."""
        return Axis.spanning(self.promised, *(value for _, value in self.points))

    def y(self, epsilon: float) -> float:
        """Percent of the height, from above."""
        return _TOP + (_BOTTOM - _TOP) * (1 - self.upward.at(epsilon) / 100)

    @property
    def line(self) -> list[tuple[float, float]]:
        """The places of its points."""
        return [(self.across.at(valid), self.y(epsilon)) for valid, epsilon in self.points]

    @property
    def dots(self) -> list[tuple[float, float]]:
        """The places of the published batches; those that would cover each other are one."""
        places = sorted(
            {(round(self.across.at(n), 1), round(self.y(value), 1)) for n, value in self.published}
        )
        return places[:: max(1, len(places) // _MOST_DOTS)]


def short(number: float) -> str:
    """A round number in few letters.

    >>> short(500), short(20_000), short(5_000_000)
    ('500', '20k', '5M')
    """
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


# ---------------------------------------------------------------------------- batches along time


@dataclass(frozen=True)
class Timeline:
    """How many batches were published and withheld in each of equal steps of time."""

    step: int
    published: tuple[int, ...]
    withheld: tuple[int, ...]

    @classmethod
    def of(cls, published: Sequence[int], withheld: Sequence[int]) -> Timeline:
        """From the hours of publication; of the steps that are few enough the shortest."""
        first, last = min((*published, *withheld)), max((*published, *withheld))
        step = next((step for step in _STEPS if last - first < _MOST_BUCKETS * step), _STEPS[-1])
        start = first - first % step
        buckets = range((last - start) // step + 1)

        def counts(hours: Sequence[int]) -> tuple[int, ...]:
            tally = Counter((hour - start) // step for hour in hours)
            return tuple(tally[bucket] for bucket in buckets)

        return cls(step, counts(published), counts(withheld))

    @property
    def name(self) -> str:
        """What one step is."""
        hours, days = self.step // HOUR, self.step // DAY
        if hours < 24:
            return "hour" if hours == 1 else f"{hours} hours"
        return {1: "day", 7: "week"}.get(days, f"{days} days")

    @property
    def most(self) -> int:
        """The batches of the fullest step."""
        return max(map(sum, zip(self.published, self.withheld, strict=True)))

    @property
    def columns(self) -> list[tuple[float, float, float, float, str]]:
        """Left, width (in percent), top, height and class of each; the withheld are on top."""
        width = 100 / max(len(self.published), 12)
        columns = []
        for place, counts in enumerate(zip(self.published, self.withheld, strict=True)):
            top = float(_LINE)
            for count, kind in zip(counts, ("fill", "fill held"), strict=True):
                height = round((_LINE - 6) * count / self.most, 1)
                top -= height
                if count:
                    columns.append((place * width + width * 0.1, width * 0.8, top, height, kind))
        return columns

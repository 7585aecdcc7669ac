"""Bars of a funnel and a budget, quarters of a crowd, and batches along time.

Places along an axis are percentages, so that a drawing is as wide as there is room for and its
letters stay as large as the page's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.report.charts import pc
from shoal.report.markup import Markup, element
from shoal.web.dashboard.parts import DAY, HOUR, several

_METER = 22
_LINE = 90  # height of a timeline
_MOST_BUCKETS = 60
_STEPS = (HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 364 * DAY)


def bar(share: float, *, said: str, kind: str = "fill") -> Markup:
    """A bar of so much of its row; ``said`` is it in words."""
    length = pc(100 * min(1.0, max(0.0, share)))
    return _meter(
        said,
        element("rect", x=0, y=4, width="100%", height=14, rx=3, class_="rail"),
        element("rect", x=0, y=4, width=length, height=14, rx=3, class_=kind),
    )


def quarters(filled: int, said: str) -> Markup:
    """Four parts, so many of them full."""
    parts = [
        element(
            "rect",
            x=pc(25.0 * place + 0.5),
            y=4,
            width=pc(24.0),
            height=14,
            rx=3,
            class_="fill" if place < filled else "rail",
        )
        for place in range(4)
    ]
    return _meter(said, *parts)


def _meter(said: str, *parts: Markup) -> Markup:
    return element(
        "svg", *parts, height=_METER, width="100%", role="img", aria_label=said, class_="meter"
    )


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
        counted = [
            Counter((hour - start) // step for hour in hours) for hours in (published, withheld)
        ]
        buckets = range((last - start) // step + 1)
        told, kept = (tuple(found[place] for place in buckets) for found in counted)
        return cls(step, told, kept)

    @property
    def name(self) -> str:
        """What one step is."""
        hours = self.step // HOUR
        return "hour" if hours == 1 else f"{hours} hours" if hours < 24 else _days(self.step)

    def drawn(self) -> Markup:
        """A bar for each step; what was withheld is on top."""
        steps = len(self.published)
        highest = max(map(sum, zip(self.published, self.withheld, strict=True)))
        width = 100 / max(steps, 12)
        parts = [element("line", x1="0%", x2="100%", y1=_LINE, y2=_LINE, class_="zero")]
        for place, (told, kept) in enumerate(zip(self.published, self.withheld, strict=True)):
            below = float(_LINE)
            for count, kind in ((told, "fill"), (kept, "fill held")):
                height = round((_LINE - 6) * count / highest, 1)
                below -= height
                if count:
                    parts.append(_column(place * width, width, below, height, kind))
        return element(
            "svg",
            *parts,
            height=_LINE + 2,
            width="100%",
            role="img",
            class_="graph",
            aria_label=f"{several(sum(self.published), 'batch', 'batches')} published and "
            f"{sum(self.withheld):,} withheld, in steps of one {self.name}; at most {highest:,} "
            "in one of them",
        )


def _column(at: float, width: float, top: float, height: float, kind: str) -> Markup:
    return element(
        "rect", x=pc(at + width * 0.1), y=top, width=pc(width * 0.8), height=height, class_=kind
    )


def _days(step: int) -> str:
    return {1: "day", 7: "week"}.get(step // DAY, f"{step // DAY} days")

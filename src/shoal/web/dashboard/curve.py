"""The graph of epsilon as the crowd grows, on a logarithmic axis of valid reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shoal.report.charts import Axis, pc
from shoal.report.markup import Markup, element
from shoal.web.dashboard.parts import epsilon

Point = tuple[int, float]

_HEIGHT, _TOP, _BOTTOM = 240, 36, 26
_MOST_DOTS = 60
_ROUND = (1, 2, 5)


@dataclass(frozen=True)
class LogAxis:
    """From ``low`` to ``high``, equal lengths for equal factors."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Percent of the length, kept inside."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * min(1.0, max(0.0, share))

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

    @property
    def across(self) -> LogAxis:
        """The axis of valid reports."""
        return LogAxis(self.points[0][0], self.points[-1][0])

    @property
    def upward(self) -> Axis:
        """The axis of epsilon."""
        return Axis.spanning(self.promised, *(value for _, value in self.points))

    def drawn(self) -> Markup:
        """The graph."""
        (few, large), (many, small) = self.points[0], self.points[-1]
        return element(
            "svg",
            *self._grid(),
            *self._marks(),
            *self._line(),
            *self._dots(),
            height=_HEIGHT,
            width="100%",
            role="img",
            class_="graph indented",
            aria_label=f"Epsilon falls from {epsilon(large)} among {few:,} valid reports to "
            f"{epsilon(small)} among {many:,}; at most {epsilon(self.promised)} is promised",
        )

    def _y(self, value: float) -> float:
        return round(_TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - self.upward.at(value) / 100), 1)

    def _level(self, value: float, kind: str) -> Markup:
        height = self._y(value)
        return element("line", x1="0%", x2="100%", y1=height, y2=height, class_=kind)

    def _grid(self) -> Iterator[Markup]:
        axis, across = self.upward, self.across
        for tick, text in axis.ticks().items():
            yield self._level(tick, "grid" if tick else "zero")
            if tick:
                yield element("text", text, x=-6, y=self._y(tick) + 4, text_anchor="end")
        for tick in across.ticks():
            yield _named(short(tick), across.at(tick), _HEIGHT - 8)
        yield self._level(self.promised, "limit")

    def _marks(self) -> Iterator[Markup]:
        """Named above the graph, on lines of their own so that they never cover each other."""
        for place, (valid, text) in enumerate(self.marks):
            at = self.across.at(valid)
            top = 12 + 14 * place
            yield element(
                "line", x1=pc(at), x2=pc(at), y1=top + 4, y2=self._y(0.0), class_="mark-line"
            )
            yield _named(text, at, top)

    def _line(self) -> Iterator[Markup]:
        across = self.across
        for (n1, e1), (n2, e2) in zip(self.points, self.points[1:], strict=False):
            ends = {"x1": pc(across.at(n1)), "x2": pc(across.at(n2))}
            yield element("line", **ends, y1=self._y(e1), y2=self._y(e2), class_="curve")

    def _dots(self) -> Iterator[Markup]:
        """Those that would cover each other are one."""
        across = self.across
        found = sorted({(round(across.at(n), 1), self._y(value)) for n, value in self.published})
        for at, height in found[:: max(1, len(found) // _MOST_DOTS)]:
            yield element("circle", cx=pc(at), cy=height, r=4.5, class_="dot")


def _named(text: str, at: float, height: float) -> Markup:
    anchor = "start" if at < 10 else "end" if at > 90 else "middle"
    return element("text", text, x=pc(at), y=height, text_anchor=anchor)


def short(number: float) -> str:
    """A round number in few letters.

    >>> short(500), short(20_000), short(5_000_000)
    ('500', '20k', '5M')
    """
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"

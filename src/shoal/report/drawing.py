"""What charts are drawn with: an axis in percent of its length, and rows of marks on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal.report.markup import Markup, element, join

HEIGHT = 26  # of a row
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TICKS = 5
_SLACK = 1e-9


@dataclass(frozen=True)
class Axis:
    """From ``low`` to ``high``, left to right."""

    low: float
    high: float

    @classmethod
    def spanning(cls, *values: float) -> Axis:
        """An axis that holds zero and all values and ends at a round number."""
        low, high = min(0.0, *values), max(0.0, *values)
        return cls(low, cls.between(low, high if high > low else low + 1.0).high)

    @classmethod
    def between(cls, low: float, high: float) -> Axis:
        """The smallest axis between round numbers that holds both."""
        step = _step(low, high)
        first, last = math.floor(low / step + _SLACK), math.ceil(high / step - _SLACK)
        return cls(step * first, step * last)

    def at(self, value: float) -> float:
        """Percent of the length, kept inside."""
        share = (value - self.low) / (self.high - self.low)
        return 100 * min(1.0, max(0.0, share))

    def ticks(self) -> list[float]:
        """Round numbers, about half a dozen."""
        step = _step(self.low, self.high)
        first = math.ceil(self.low / step - _SLACK)
        last = math.floor(self.high / step + _SLACK)
        return [step * place for place in range(first, last + 1)]

    def decimals(self) -> int:
        """How many decimals tell the ticks apart."""
        step = _step(self.low, self.high)
        return next((d for d in range(12) if math.isclose(step, round(step, d), rel_tol=1e-6)), 12)


def _step(low: float, high: float) -> float:
    rough = (high - low) / _TICKS
    scale = 10.0 ** math.floor(math.log10(rough))
    return scale * next(step for step in _STEPS if step * scale >= rough * (1 - _SLACK))


def row(label: str, said: str, *parts: str, faint: bool = False, **numbers: str) -> Markup:
    """A label and what is beside it; ``said`` is that in words, ``numbers`` are for scripts."""
    return element(
        "div",
        element("span", label, class_="label", dir="auto", title=label),
        *parts,
        class_="bar faint" if faint else "bar",
        role="img",
        aria_label=f"{label}: {said}",
        **numbers,
    )


def value(text: str, margin: str, *more: str) -> Markup:
    """The number at the end of a row, and half the width of its interval."""
    return element("span", text, element("small", f" ± {margin}"), *more, class_="value")


def canvas(axis: Axis, *parts: str, title: str = "") -> Markup:
    """What is drawn in a row, over the round numbers of its axis."""
    grid = [upright(axis.at(tick), 0, HEIGHT, "grid") for tick in axis.ticks() if tick]
    named = [element("title", title)] if title else []
    return element("svg", *named, *grid, *parts, height=HEIGHT, width="100%", aria_hidden="true")


def zero(axis: Axis) -> Markup:
    """Zero in a row."""
    return upright(axis.at(0.0), 0, HEIGHT, "zero")


def truth(axis: Axis, value: float | None) -> list[Markup]:
    """What is true in a row, if that is known."""
    return [] if value is None else [upright(axis.at(value), 1, HEIGHT - 1, "truth")]


def interval(axis: Axis, low: float, high: float) -> list[Markup]:
    """From one value to another: the line, then its ends."""
    first, last, middle = axis.at(low), axis.at(high), HEIGHT / 2
    return [
        element("line", x1=pc(first), x2=pc(last), y1=middle, y2=middle, class_="reach"),
        upright(first, middle - 4, middle + 4, "reach"),
        upright(last, middle - 4, middle + 4, "reach"),
    ]


def scale(axis: Axis, unit: str = "") -> Markup:
    """The round numbers below a chart of bars."""
    decimals = axis.decimals()
    marks = [
        element(
            "text",
            f"{tick:,.{decimals}f}{unit}".replace("-", "−"),
            x=pc(axis.at(tick)),
            y=15,
            text_anchor=anchor,
        )
        for tick, anchor in zip(axis.ticks(), _anchors(axis), strict=True)
    ]
    drawn = element("svg", *marks, height=20, width="100%", class_="scale", aria_hidden="true")
    return element("div", element("span", ""), drawn, element("span", ""), class_="bar axis")


def _anchors(axis: Axis) -> list[str]:
    """Labels at the ends of the axis stay inside it."""
    places = [axis.at(tick) for tick in axis.ticks()]
    return ["start" if at < 2 else "end" if at > 98 else "middle" for at in places]


def key(kind: str, text: str) -> Markup:
    """A mark, and what it means."""
    if kind == "reach":
        ends = [upright(at, 3, 11, "reach") for at in (1.0, 95.0)]
        mark = join(element("line", x1=1, x2=19, y1=7, y2=7, class_="reach"), *ends)
    elif kind == "truth":
        mark = upright(50.0, 0, 14, "truth")
    else:
        mark = element("rect", x=0, y=2, width=20, height=10, rx=2, class_=kind)
    icon = element("svg", mark, width=20, height=14, aria_hidden="true")
    return element("span", icon, " ", text, class_="key")


def upright(x: float, top: float, bottom: float, kind: str) -> Markup:
    """A vertical line at so many percent."""
    return element("line", x1=pc(x), x2=pc(x), y1=top, y2=bottom, class_=kind)


def pc(share: float) -> str:
    """A place on the axis, for an attribute."""
    return f"{share:.3f}%"

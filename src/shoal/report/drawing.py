"""What charts with a row per answer or coordinate are drawn with."""

from __future__ import annotations

from shoal.report.axis import Axis
from shoal.report.markup import Markup, element, join

HEIGHT = 26  # of a row


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

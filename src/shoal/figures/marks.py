"""Marks on axes: curves, shading, rings, labels that keep out of each other's way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from shoal.figures import style
from shoal.figures.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.lines import Line2D

Corner = Literal["upper left", "lower right"]
Points = tuple[Sequence[float], Sequence[float]]
MANY_DECADES = 160.0  # a longer axis has numbers at powers of ten only


def plot(axes: Axes, points: Points, look: Look) -> None:
    """Draw one curve, if it has any points."""
    if points[0]:
        axes.plot(
            *points, color=look.color, linestyle=look.dash, linewidth=look.width, label=look.label
        )


def shade_below(axes: Axes, points: Points) -> None:
    """Grey out what a lower bound rules out; call when the limits of the axes are final."""
    bottom = axes.get_ylim()[0]
    axes.fill_between(*points, bottom, color=style.FORBIDDEN, linewidth=0, zorder=0)


def reference(axes: Axes, *, y: float, text: str) -> None:
    """A thin horizontal line with its meaning written on it."""
    axes.axhline(y, color=style.FAINT, linewidth=0.8, zorder=1)
    axes.annotate(
        text,
        (0.01, y),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=8,
        color=style.QUIET,
    )


def mark_stops(axes: Axes, points: Points, look: Look, *, span: tuple[float, float]) -> None:
    """A ring at each end of a curve that is not an end of the axis: the theorem stops there."""
    xs, ys = points
    ends = [0] * bool(xs and xs[0] > span[0]) + [-1] * bool(xs and xs[-1] < span[1])
    for end in ends:
        axes.plot(
            [xs[end]], [ys[end]], "o", color=look.color, markerfacecolor="white", markersize=4.5
        )


def no_amplification(axes: Axes, span: tuple[float, float], *, at: float) -> None:
    """The line epsilon = local epsilon, with its meaning written along it at ``at``."""
    axes.plot(span, span, color=style.FAINT, linewidth=0.9, zorder=1)
    above = 1.18
    axes.text(
        at,
        at * above,
        "ε = ε₀: no amplification",
        rotation=math.degrees(math.atan(above)),  # in data, where the two axes are logarithmic
        rotation_mode="anchor",
        transform_rotates_text=True,
        fontsize=8,
        color=style.QUIET,
    )


def legend_inside(axes: Axes, looks: Sequence[Look], *, corner: Corner) -> None:
    """A legend of these looks, in this order, whether or not each was drawn here."""
    axes.legend(*_samples(looks), loc=corner, handlelength=3.2, borderaxespad=0.0)


def legend_beside(axes: Axes, looks: Sequence[Look]) -> None:
    """The same, in the right margin."""
    place = (1.04, 0.5)
    axes.legend(
        *_samples(looks),
        loc="center left",
        bbox_to_anchor=place,
        labelspacing=0.9,
        handlelength=3.2,
        borderaxespad=0.0,
    )


def _samples(looks: Sequence[Look]) -> tuple[list[Line2D], list[str]]:
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=look.color, linestyle=look.dash, linewidth=look.width)
        for look in looks
    ]
    return lines, [look.label for look in looks]


def log_x(axes: Axes, low: float, high: float) -> None:
    """A logarithmic horizontal axis with plain numbers where they are short."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    _mark_decades(axes, axes.xaxis, high / low)


def log_y(axes: Axes, low: float, high: float) -> None:
    """The same, vertical."""
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    _mark_decades(axes, axes.yaxis, high / low)


def _mark_decades(axes: Axes, axis: Axis, ratio: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    subs = (1.0,) if ratio > MANY_DECADES else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, axis="both")
    axes.set_axisbelow(True)


def tick(value: float) -> str:
    """A number as it is read: 0.01, 100, and powers of ten beyond.

    >>> tick(0.05), tick(1e6)
    ('0.05', '$10^{6}$')
    """
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    exponent = math.floor(math.log10(value) + 1e-9)
    factor = round(value / 10**exponent, 6)
    return f"$10^{{{exponent}}}$" if factor == 1 else f"${factor:g}\\cdot10^{{{exponent}}}$"


def label_ends(axes: Axes, *, gap: float = 0.048) -> None:
    """Write each curve's name at its right end, in the margin, none on top of another.

    Call when the limits are final. Heights are moved as little as possible (in least squares) to
    keep ``gap`` of the height of the axes between neighbours.
    """
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    ends = [(line, *_end(axes, line.get_xdata(), line.get_ydata())) for line in lines]
    ends.sort(key=lambda end: end[2])
    steps = gap * np.arange(len(ends))
    heights = isotonic_regression(np.array([y for _, _, y in ends]) - steps).x + steps
    heights -= max(0.0, float(heights[-1]) - 1.0)
    for (line, x, y), height in zip(ends, heights, strict=True):
        color = str(line.get_color())
        axes.annotate(
            str(line.get_label()),
            (x, y),
            xycoords="axes fraction",
            xytext=(1.035, float(height)),
            va="center",
            color=style.legible(color),
            fontsize=8.5,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.7,
                "shrinkA": 1,
                "shrinkB": 1,
                "relpos": (0, 0.5),
            },
        )


def _end(axes: Axes, xs: object, ys: object) -> tuple[float, float]:
    """The last point of a curve as a share of the axes."""
    last = (float(np.asarray(xs)[-1]), float(np.asarray(ys)[-1]))
    x, y = axes.transAxes.inverted().transform(axes.transData.transform(last))
    return float(x), float(y)

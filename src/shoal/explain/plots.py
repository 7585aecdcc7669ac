"""How numbers are drawn, the same everywhere: published comparisons, ``--plot`` and ``.plot()``.

The colour says whose number it is (Okabe and Ito's colour-blind-safe palette), the dash what kind:
solid is a numerical evaluation, dashed a published formula, dotted a lower bound. matplotlib is
loaded when something is drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from shoal.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes  # noqa: PLC0414 - for the accountant, too
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

BLUE = "#0072B2"
SKY = "#56B4E9"
VERMILION = "#D55E00"
GREEN = "#009E73"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
BLACK = "#000000"
QUIET = "#555555"
FAINT = "#9A9A9A"
FORBIDDEN = "#EDEDED"
# Light colours are fine for lines and too pale for letters.
_LETTERS = {ORANGE: "#8F6300", FAINT: "#6E6E6E", PURPLE: "#A0487E", SKY: "#1F78AB"}

Dash = Literal["-", ""] | tuple[float, tuple[float, ...]]
SOLID: Final = "-"
DASHED: Final = (0.0, (5.0, 2.0))
DASH_DOT: Final = (0.0, (5.0, 1.5, 1.0, 1.5))
DOTTED: Final = (0.0, (1.0, 1.4))
NO_LINE: Final = ""

PAGE = (9.6, 5.6)  # inches
DOTS_PER_INCH = 160
_CAPTION_COLUMNS = 150
_MANY_DECADES, _FEW_STEPS = 160.0, 8.0  # ratios of an axis: powers of ten only; every digit
_LINE = 0.052  # of the height of the axes: a line of a label
_UPRIGHT = ("data", "axes fraction")
_GRID = "#DDDDDD"
STYLE = "shoal.plots"  # the file plots.mplstyle

Side = Literal["x", "y"]
Points = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Look:
    """One curve's label, colour, dash, width, and the mark at each of its points."""

    label: str
    color: str
    dash: Dash = SOLID
    width: float = 1.6
    marker: str = ""

    @property
    def style(self) -> dict[str, Any]:
        """The keywords of matplotlib."""
        style = {"color": self.color, "linestyle": self.dash or "none", "linewidth": self.width}
        if self.marker:
            style |= {"marker": self.marker, "markersize": 5, "markeredgecolor": "white"}
        return style


@dataclass(frozen=True)
class Axis:
    """One direction of a pair of axes; ``ticks`` are its numbers, if they are chosen."""

    label: str
    limits: tuple[float, float]
    log: bool = True
    ticks: Mapping[float, str] = field(default_factory=dict)


# ----------------------------------------------------------------------------- pages and their axes


@contextmanager
def applied() -> Iterator[None]:
    """Draw in this style, whatever the user's own settings are.

    The first figure of a session loads its backend, and a notebook's turns interactive then: that
    stays, or later figures would not be shown.
    """
    try:
        import matplotlib as mpl
        from matplotlib import style
    except ImportError as error:
        raise MissingExtraError("drawing", "plots") from error
    with mpl.rc_context():
        mpl.rcdefaults()
        style.use(STYLE)
        yield
        interactive = mpl.is_interactive()
    mpl.interactive(interactive)


@contextmanager
def on(axes: Axes | None, height: float = 4.2) -> Iterator[Axes]:
    """These axes, or new ones that notebooks show, in this style."""
    with applied():
        if axes is None:
            from matplotlib import pyplot as plt

            _, axes = plt.subplots(figsize=(7.2, height), layout="constrained")
        yield axes


def page(
    title: str, caption: str = "", panels: int = 1, size: tuple[float, float] = PAGE
) -> tuple[Figure, list[Axes]]:
    """A figure with a title, a caption and panels beside each other, laid out when drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=size, layout=ConstrainedLayoutEngine(h_pad=0.12, w_pad=0.12))
    FigureCanvasAgg(figure)
    figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold")
    filled = textwrap.fill(caption, round(_CAPTION_COLUMNS * size[0] / PAGE[0]))
    figure.supxlabel(filled, x=0.012, ha="left", fontsize=8, color=QUIET)
    return figure, list(figure.subplots(1, panels, squeeze=False)[0])


def save(
    path: Path,
    title: str,
    *draw: Callable[[Axes], object],
    caption: str = "",
    size: tuple[float, float] = PAGE,
) -> None:
    """Write a page, a panel for each of ``draw``; the ending of the name says of which kind."""
    with applied():
        figure, panels = page(title, caption, len(draw), size)
        for fill, axes in zip(draw, panels, strict=True):
            fill(axes)
        figure.savefig(path, dpi=DOTS_PER_INCH)


# ------------------------------------------------------------------------------------------ numbers


def tick(value: float) -> str:
    """A number as it is read: 0.01, 100, and powers of ten beyond.

    >>> tick(0.05), tick(1e6)
    ('0.05', '$10^{6}$')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    factor = round(value / 10**exponent, 6)
    return f"$10^{{{exponent}}}$" if factor == 1 else f"${factor:g}\\cdot10^{{{exponent}}}$"


def legible(color: str) -> str:
    """The colour for letters: some are too pale."""
    return _LETTERS.get(color, color)


def frame(axes: Axes, x: Axis, y: Axis, title: str = "") -> None:
    """Limits, labels, a grid, and numbers as they are read."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(xlabel=x.label, ylabel=y.label, title=title)
    sides: tuple[tuple[Side, Axis], ...] = (("x", x), ("y", y))
    for name, shown in sides:
        axis = axes.xaxis if name == "x" else axes.yaxis
        low, high = shown.limits
        if shown.log:
            axes.set(**{f"{name}scale": "log"})
            steps = (1.0,) if high / low > _MANY_DECADES else (1.0, 2.0, 5.0)
            subs = range(1, 10) if high / low < _FEW_STEPS else steps
            axis.set_major_locator(LogLocator(subs=subs, numticks=20))
            axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
            axis.set_minor_formatter(NullFormatter())
        axes.set(**{f"{name}lim": (low, high)})
        if shown.ticks:
            axis.set_ticks(list(shown.ticks), labels=list(shown.ticks.values()))
            axes.tick_params(axis=name, which="minor", length=0)
    tidy(axes)


def whole_numbers() -> Locator:
    """Ticks at a few whole numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=8, integer=True)


def tidy(axes: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """Quiet ticks, and a grid behind everything: axes may be of another style."""
    axes.tick_params(which="both", color=QUIET, labelcolor=QUIET)
    axes.grid(visible=False)
    axes.grid(visible=True, axis=grid, color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)


# ------------------------------------------------------------------------------------ marks on axes


def plot(axes: Axes, points: Points, look: Look) -> None:
    """Draw one curve, if it has any points."""
    if points[0]:
        clipped = not look.marker
        axes.plot(*points, **look.style, label=look.label, clip_on=clipped)


def level(
    axes: Axes, y: float, text: str, color: str = FAINT, dash: Dash = SOLID, *, right: bool = False
) -> None:
    """A thin horizontal line with its meaning written on it, at its left or right end."""
    axes.axhline(y, color=color, linestyle=dash, linewidth=0.9, zorder=1)
    at, side = ((0.99, y), "right") if right else ((0.01, y), "left")
    color = QUIET if color == FAINT else color
    _beside(axes, text, at, (0, 3), color, xycoords=("axes fraction", "data"), ha=side)


def upright(
    axes: Axes,
    x: float,
    text: str,
    color: str,
    dash: Dash = SOLID,
    height: float = 1.0,
    *,
    left: bool = False,
) -> None:
    """A vertical line up to a fraction of the height, with its meaning beside its upper end."""
    axes.axvline(x, ymax=height, color=color, linestyle=dash, linewidth=1.4)
    offset, side = ((-4, -2), "right") if left else ((4, -2), "left")
    _beside(axes, text, (x, height), offset, color, xycoords=_UPRIGHT, ha=side, va="top")


def _beside(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    offset: tuple[float, float],
    color: str = BLACK,
    size: float = 8,
    **place: Any,  # noqa: ANN401 - matplotlib's own
) -> None:
    """A text so many points away from a place."""
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": size}
    axes.annotate(text, at, offset, color=legible(color), **style, **place)


def ring(axes: Axes, x: float, y: float, color: str) -> None:
    """A ring around a point of a curve."""
    axes.plot([x], [y], "o", color=color, markerfacecolor="white", markersize=4.5, label="_")


def diagonal(axes: Axes) -> None:
    """The line y = x, which says that nothing was gained; with words if the axes are equal."""
    low, high = axes.get_xlim()
    axes.plot([low, high], [low, high], color=FAINT, linewidth=0.9, zorder=1, label="_")
    if axes.get_yscale() != "log":
        return
    above = 1.18
    axes.text(
        1.15 * low,
        1.15 * low * above,
        "ε = ε₀: no amplification",
        rotation=math.degrees(math.atan(above)),  # in data, where the two axes are logarithmic
        rotation_mode="anchor",
        transform_rotates_text=True,
        fontsize=8,
        color=QUIET,
    )


def legend(axes: Axes, looks: Sequence[Look], place: str) -> None:
    """A legend of these looks, drawn here or not, "beside" the axes or in a corner of them."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], **look.style) for look in looks]
    labels = [look.label for look in looks]
    common: dict[str, Any] = {"handlelength": 3.2, "borderaxespad": 0.0}
    if place == "beside":
        common |= {"loc": "center left", "bbox_to_anchor": (1.04, 0.5), "labelspacing": 0.9}
    else:
        common |= {"loc": place}
    axes.legend(lines, labels, **common)


def label_ends(axes: Axes) -> None:
    """Write each curve's name at its right end, in the margin, none on top of another.

    Call when the limits are final. Heights are moved as little as possible (in least squares) to
    keep neighbours apart.
    """
    import numpy as np
    from scipy.optimize import isotonic_regression

    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted(
        ((line, *to_axes.transform(np.asarray(line.get_xydata())[-1]).tolist()) for line in lines),
        key=lambda end: end[2],
    )
    lengths = np.array([str(line.get_label()).count("\n") + 1 for line, _, _ in ends])
    steps = _LINE * (np.cumsum(lengths) - lengths / 2)
    heights = isotonic_regression(np.array([y for _, _, y in ends]) - steps).x + steps
    heights -= max(0.0, float(heights[-1]) - 1.0)
    for (line, x, y), height in zip(ends, heights, strict=True):
        color = str(line.get_color())
        arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "relpos": (0, 0.5)}
        axes.annotate(
            str(line.get_label()),
            (x, y),
            xycoords="axes fraction",
            xytext=(1.035, float(height)),
            va="center",
            color=legible(color),
            fontsize=8.5,
            annotation_clip=False,
            arrowprops=arrow | {"shrinkA": 1, "shrinkB": 1},
        )


def dots(
    axes: Axes,
    rows: Sequence[tuple[str, float, str, str]],
    *,
    levels: Sequence[tuple[str, float]] = (),
    intervals: Sequence[tuple[float, float]] | None = None,
    xlabel: str,
    title: str = "",
    log: bool = True,
) -> None:
    """Values under each other, one line each: (name, value, text beside it, colour).

    ``levels`` are vertical lines with names above them, ``intervals`` the rows' error bars.
    """
    places = range(len(rows))
    values = [value for _, value, _, _ in rows]
    for place, (_, value, text, color) in zip(places, rows, strict=True):
        if intervals is not None:
            axes.hlines(place, *intervals[place], color=color, linewidth=1.4)
        axes.plot([value], [place], "o", color=color, markersize=7 if intervals is None else 5)
        end = value if intervals is None else intervals[place][1]
        _beside(axes, text, (end, place), (9, 0), size=8.5, va="center")
    for name, x in levels:
        axes.axvline(x, color=QUIET, linestyle=DASHED, linewidth=1)
        _beside(axes, name, (x, 1.0), (0, 3), QUIET, 8.5, xycoords=_UPRIGHT, ha="center")
    reach = [*values, *(x for _, x in levels), *(x for pair in intervals or () for x in pair)]
    low, high = min(reach, default=0.0), max(reach, default=1.0)
    if log:
        span = low / (high / low) ** 0.06 / 1.1, high * (high / low) ** 0.14 * 1.2
    else:
        room = (high - low or abs(high) or 1.0) * 0.06
        span = low - room, high + 3 * room
    names = {float(place): name for place, (name, *_) in enumerate(rows)}
    frame(axes, Axis(xlabel, span, log), Axis("", (len(rows) - 0.5, -0.5), log=False, ticks=names))
    axes.set_title(title, pad=20 if levels else None)
    tidy(axes, "x")
    for label in axes.get_yticklabels():
        label.set_parse_math(False)

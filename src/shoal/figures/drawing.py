"""A figure as a specification: how its numbers are computed, and what each panel shows.

One renderer draws them all, in the style of :mod:`shoal.explain.plots`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shoal import checks
from shoal.explain import plots
from shoal.explain.plots import Axis, Dash, Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = float | None
Row = dict[str, Value]
_FOOT: dict[str, Any] = {"markersize": 10, "markeredgecolor": "white", "clip_on": False}
_FOOT |= {"zorder": 5, "label": "_"}
Tabulate = Callable[[int], Iterable[Mapping[str, Value]]]


@dataclass(frozen=True)
class Table:
    """Rows of numbers under column names; None where a bound has no answer.

    >>> table = Table([{"n": 10, "epsilon": 0.5}, {"n": 20, "epsilon": None}])
    >>> table.curve("n", "epsilon")
    ([10], [0.5])
    """

    rows: Sequence[Mapping[str, Value]]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns: all rows have the same, in the same order."""
        return tuple(self.rows[0]) if self.rows else ()

    def column(self, name: str) -> tuple[Value, ...]:
        """One column, with its gaps."""
        checks.refuse(name not in self.names, f"one of {', '.join(self.names)}", column=name)
        return tuple(row[name] for row in self.rows)

    def curve(self, x: str, y: str) -> tuple[list[float], list[float]]:
        """The points of column ``y`` against column ``x``, where both have a value."""
        both = zip(self.column(x), self.column(y), strict=True)
        points = [(a, b) for a, b in both if a is not None and b is not None]
        return [a for a, _ in points], [b for _, b in points]

    def where(self, **values: float) -> Table:
        """The rows with these values in the columns of these names."""
        return Table([row for row in self.rows if values.items() <= row.items()])

    def csv(self) -> str:
        """Comma-separated text with a header; a gap is an empty field."""
        lines = [
            ",".join("" if row[name] is None else f"{row[name]:.10g}" for name in self.names)
            for row in self.rows
        ]
        return "\n".join([",".join(self.names), *lines, ""])


@dataclass(frozen=True)
class Curve:
    """A column as a curve: of the rows ``where`` some columns have these values.

    ``limits`` draws error bars from the columns ``-low`` and ``-high``; ``ring`` rings the point at
    this x.
    """

    column: str
    look: Look
    where: Mapping[str, float] = field(default_factory=dict)
    limits: bool = False
    ring: float | None = None


@dataclass(frozen=True)
class Level:
    """A thin line across at y, with a text on its left or right end, or upright at x."""

    at: float
    text: str = ""
    color: str = plots.FAINT
    dash: Dash = plots.SOLID
    place: Literal["left", "right", "upright"] = "left"


@dataclass(frozen=True)
class Panel:
    """One pair of axes: which rows and columns it shows, and how they are named.

    ``column`` is along the horizontal axis. ``stops`` rings the ends of curves that are not ends
    of the axis: a theorem stops there. ``shade`` greys out what is below a column. ``feet`` are
    columns with one value, marked by a triangle on the horizontal axis. ``notes`` are texts at a
    point. ``names`` says where curves are named: at their "ends", in a legend "beside" the axes or
    in a corner of them.
    """

    column: str
    x: Axis
    y: Axis
    curves: Mapping[str, Look] | Sequence[Curve]
    title: str = ""
    where: Mapping[str, float] = field(default_factory=dict)
    levels: Sequence[Level] = ()
    diagonal: bool = False
    stops: bool = False
    shade: str = ""
    feet: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[tuple[float, float, str, str]] = ()
    names: str = ""
    legend: Sequence[Look] = ()

    def draw(self, table: Table, axes: plots.Axes) -> None:
        """Fill the axes from the table."""
        rows = table.where(**self.where)
        drawn = self.curves
        if isinstance(drawn, Mapping):
            drawn = [Curve(column, look) for column, look in drawn.items()]
        plots.frame(axes, self.x, self.y, self.title)
        if self.diagonal:
            plots.diagonal(axes)
        for level in self.levels:
            if level.place == "upright":
                axes.axvline(level.at, color=level.color, linestyle=level.dash, linewidth=1.1)
            else:
                right = level.place == "right"
                plots.level(axes, level.at, level.text, level.color, level.dash, right=right)
        for curve in drawn:
            self._draw_curve(curve, rows.where(**curve.where), axes)
        if self.shade:
            bound, bottom = rows.curve(self.column, self.shade), axes.get_ylim()[0]
            axes.fill_between(*bound, bottom, color=plots.FORBIDDEN, linewidth=0, zorder=0)
        low, high = self.x.limits
        for column, color in self.feet.items():
            at = rows.column(column)[0]
            if at is not None and low <= at <= high:
                axes.plot([at], [0.0], "^", color=color, **_FOOT)
        for x, y, text, color in self.notes:
            axes.text(x, y, text, ha="right", va="bottom", fontsize=8.5, color=plots.legible(color))
        if self.names == "ends":
            plots.label_ends(axes)
        elif self.names:
            plots.legend(axes, self.legend or [curve.look for curve in drawn], self.names)

    def _draw_curve(self, curve: Curve, rows: Table, axes: plots.Axes) -> None:
        xs, ys = rows.curve(self.column, curve.column)
        plots.plot(axes, (xs, ys), curve.look)
        if curve.limits:
            ends = (f"{curve.column}-low", f"{curve.column}-high")
            low, high = (rows.curve(self.column, end)[1] for end in ends)
            axes.vlines(xs, low, high, color=curve.look.color, linewidth=1)
        for end in (0, -1) if self.stops and xs else ():
            if xs[end] != self.x.limits[end]:
                plots.ring(axes, xs[end], ys[end], curve.look.color)
        if curve.ring is not None:
            plots.ring(axes, curve.ring, float(np.interp(curve.ring, xs, ys)), curve.look.color)


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawing:
    """A figure: its name, its words, its panels, and ``tabulate``, which computes its rows.

    ``tabulate`` takes the number of points along the horizontal axis, ``points`` for a good figure.
    """

    name: str
    title: str
    caption: str
    points: int
    tabulate: Tabulate
    panels: Sequence[Panel]

    def table(self, points: int | None = None) -> Table:
        """The numbers, at this many points or at as many as a good figure needs."""
        return Table([*self.tabulate(self.points if points is None else points)])

    def figure(self, table: Table) -> Figure:
        """The drawn page: title, panels, caption."""
        figure, grid = plots.page(self.title, self.caption, len(self.panels))
        for panel, axes in zip(self.panels, grid, strict=True):
            panel.draw(table, axes)
        if layout := figure.get_layout_engine():
            layout.execute(figure)
        figure.set_layout_engine("none")  # laid out once, for both files
        return figure

    def write(self, table: Table, out: Path) -> list[Path]:
        """Write the figure as SVG and PNG, and the numbers in it as CSV."""
        svg, png, csv = paths = [out / f"{self.name}.{suffix}" for suffix in ("svg", "png", "csv")]
        csv.write_text(table.csv(), encoding="utf-8")
        with plots.applied():
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.backends.backend_svg import FigureCanvasSVG

            figure = self.figure(table)
            # Not by savefig, which draws everything twice to lay it out. No date and no version,
            # so that the same numbers give the same file.
            unsigned = {"Date": None, "Creator": None}
            FigureCanvasSVG(figure).print_svg(svg, metadata=unsigned)  # type: ignore[no-untyped-call]
            figure.dpi = plots.DOTS_PER_INCH
            unsigned = {"Software": None}
            FigureCanvasAgg(figure).print_png(png, metadata=unsigned)  # type: ignore[no-untyped-call]
        return paths


def figure(points: int, *panels: Panel) -> Callable[[Tabulate], Drawing]:
    """The figure whose rows a function yields, under its name.

    The first line of its docstring is the figure's title, the rest is the caption.
    """

    def drawing(tabulate: Tabulate) -> Drawing:
        title, _, caption = (inspect.getdoc(tabulate) or "").partition("\n\n")
        return Drawing(
            name=tabulate.__name__.replace("_", "-"),
            title=title.rstrip("."),
            caption=" ".join(caption.split()),
            points=points,
            tabulate=tabulate,
            panels=panels,
        )

    return drawing

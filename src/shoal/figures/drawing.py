"""One figure: its table, its axes, and the three files it is written to."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.figures import style
from shoal.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHOSEN = "Settings chosen by us."
_DOTS_PER_INCH = 160
_CAPTION_COLUMNS = 150
# Positions on the page, as shares of its width and height.
_LEFT, _TOP, _BOTTOM = 0.075, 0.895, 0.205
_TITLE, _CAPTION = 0.965, 0.095


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure that can be computed, drawn and written.

    ``tabulate`` takes the number of points along the horizontal axis; ``draw`` fills one axes per
    panel from the table. ``right`` is where the panels end: what lies beyond is for labels.
    """

    name: str
    title: str
    caption: str
    points: int
    tabulate: Callable[[int], Table]
    draw: Callable[[Table, Sequence[Axes]], None]
    panels: int = 1
    right: float = 0.78

    def table(self, points: int | None = None) -> Table:
        """The numbers, at this many points or at as many as a good figure needs."""
        return self.tabulate(self.points if points is None else points)

    def write(self, table: Table, out: Path) -> list[Path]:
        """Write the figure as SVG and PNG, and the numbers in it as CSV."""
        svg, png, csv = paths = [out / f"{self.name}.{suffix}" for suffix in ("svg", "png", "csv")]
        csv.write_text(table.csv(), encoding="utf-8")
        with style.applied():
            figure = self.figure(table)
            # No date and no version, so that the same numbers give the same file.
            figure.savefig(svg, metadata={"Date": None, "Creator": None})
            figure.savefig(png, dpi=_DOTS_PER_INCH, metadata={"Software": None})
        return paths

    def figure(self, table: Table) -> Figure:
        """The drawn page: title, panels, caption."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=style.PAGE)
        FigureCanvasAgg(figure)
        places = {"left": _LEFT, "right": self.right, "top": _TOP, "bottom": _BOTTOM}
        grid = figure.subplots(1, self.panels, squeeze=False, gridspec_kw=places | {"wspace": 0.2})
        figure.text(0.012, _TITLE, self.title, va="center", fontsize=13, fontweight="bold")
        caption = textwrap.fill(self.caption, _CAPTION_COLUMNS)
        figure.text(0.012, _CAPTION, caption, va="top", fontsize=8, color=style.QUIET)
        self.draw(table, list(grid[0]))
        return figure

"""An audit as a figure: the statistic on both data sets, the threshold, and what is beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.auditing import Audit, Evidence
from shoal.explain.text import down, plain, up
from shoal.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 160
_PANEL = 5.6  # inches
_COLORS = (style.BLUE, style.VERMILION)
_ROOM = 1.3  # above the tallest bar, for the legend


def draw(found: Audit, path: Path) -> None:
    """Write the figure; the ending of the name says what kind of file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = found.evidences
    with style.applied():
        figure = Figure(figsize=(_PANEL * len(panels) + 1.0, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(1, len(panels), squeeze=False)
        for axes, each in zip(grid[0], panels, strict=True):
            _fill(axes, each, _title(found, each))
        figure.savefig(path, dpi=_DOTS_PER_INCH)


def _title(found: Audit, each: Evidence) -> str:
    what = f"{found.n:,} people, δ = {plain(each.delta)}"
    if each.claim == "local":
        what = "one message by itself"
    said = "VIOLATED" if each.violated else "not refuted"
    return f"{what}\nclaimed ε = {up(each.claimed)}, at least {down(each.lower)}: {said}"


def _fill(axes: Axes, each: Evidence, title: str) -> None:
    tallest = 0.0
    for world, (color, name) in enumerate(zip(_COLORS, ("first", "second"), strict=True)):
        runs = max(each.runs[world], 1)
        shares = each.histograms[world] / runs
        tallest = max(tallest, float(shares.max()))
        label = f"{name} data set: {each.inside[world]:,} of {each.runs[world]:,} in the event"
        axes.stairs(shares, each.edges, color=color, linewidth=1.4, label=label)
        beyond = np.where(_inside(each), shares, 0.0)
        axes.stairs(beyond, each.edges, fill=True, color=color, alpha=0.22, linewidth=0)
    top = tallest * 1.05
    axes.vlines(each.threshold, 0, top, color=style.QUIET, linestyle=style.DASHED, linewidth=1.2)
    side, align = (4, "left") if each.at_least else (-4, "right")
    axes.annotate(
        each.event,
        (each.threshold, top),
        xytext=(side, -2),
        textcoords="offset points",
        ha=align,
        fontsize=8,
        color=style.QUIET,
    )
    axes.set_xlim(float(each.edges[0]), float(each.edges[-1]))
    axes.set_ylim(0, tallest * _ROOM)
    axes.set_title(title)
    axes.set_xlabel(each.statistic)
    axes.set_ylabel("share of the runs")
    axes.legend(loc="upper left", handlelength=1.2)


def _inside(each: Evidence) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which bins are in the event: the threshold is one of their edges."""
    middles = (each.edges[1:] + each.edges[:-1]) / 2
    return np.asarray((middles >= each.threshold) == each.at_least)

"""A walk's table as a figure: ε against rounds, between no amplification and a central shuffler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.explain.text import plain
from shoal.figures import marks, style
from shoal.figures.drawing import Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table
from shoal.network.walk_table import WalkTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 160
_COLORS = (style.VERMILION, style.ORANGE, style.GREEN, style.BLUE)
_LABELS = {"worst": "everybody", "99 %": "99 % of people", "90 %": "90 % of people"}
_MARGIN = 1.35  # above and below the curves
_FEW = 8.0  # times: a shorter axis has a number at every digit


def write(walked: WalkTable, path: Path) -> None:
    """Draw it to a file; the ending of the name says of which kind."""
    stated, graph = walked.guarantee, walked.walk.graph
    local = stated.local_epsilon
    # Nobody has passed anything on after 0 rounds: ε is ε0.
    start = {"rounds": 0.0} | dict.fromkeys(walked.columns, local)
    rows = [start, *({"rounds": row.rounds} | row.epsilons for row in walked.rows)]

    def draw(table: Table, axes: Sequence[Axes]) -> None:
        _draw(walked, table, axes[0])

    drawing = Drawing(
        name="walk",
        title=f"{graph.n:,} people pass reports on: ε against rounds",
        caption=(
            f"ε₀ = {plain(local)}, δ = {marks.tick(stated.delta)}; {stated.theorem}. "
            f"{graph.edges:,} edges; {stated.trust}."
        ),
        points=len(rows),
        tabulate=lambda _: Table.of(rows),
        draw=draw,
    )
    with style.applied():
        drawing.figure(drawing.table()).savefig(path, dpi=_DOTS_PER_INCH)


def _draw(walked: WalkTable, table: Table, axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

    local, last = walked.guarantee.local_epsilon, walked.rounds
    for name, color in zip(walked.columns, _COLORS, strict=False):
        label = _LABELS.get(name, name) if walked.user is None else f"node {walked.user}"
        marks.plot(axes, table.curve("rounds", name), Look(label, color, style.SOLID, 2.0))
    for level, label, dash in (
        (local, "no amplification (ε₀)", style.DASHED),
        (walked.central, "central shuffler", style.DOTTED),
    ):
        marks.plot(axes, ([0, last], [level, level]), Look(label, style.QUIET, dash, 1.4))
    lowest = min(walked.central, *(min(row.epsilons.values()) for row in walked.rows)) / _MARGIN
    marks.log_y(axes, lowest, local * _MARGIN)
    if local * _MARGIN / lowest < _FEW:
        axes.yaxis.set_major_locator(LogLocator(subs=range(1, 10), numticks=20))
    axes.set_xlim(0, last)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_xlabel("rounds")
    axes.set_ylabel(f"ε at δ = {marks.tick(walked.guarantee.delta)}")
    marks.label_ends(axes, gap=0.055)

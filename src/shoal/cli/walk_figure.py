"""A walk as a figure: ε against rounds, between no amplification and a central shuffler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.walk_answer import Walked
from shoal.explain.text import plain
from shoal.figures import marks, style
from shoal.figures.style import Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 160
_COLORS = (style.VERMILION, style.ORANGE, style.GREEN, style.BLUE)
_ROOM = 1.35  # above and below the curves


def draw(found: Walked, path: Path) -> None:
    """Write the figure; the ending of the name says what kind of file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style.applied():
        figure = Figure(figsize=(8.0, 4.6))
        FigureCanvasAgg(figure)
        axes = figure.subplots(gridspec_kw={"left": 0.1, "right": 0.8, "top": 0.9, "bottom": 0.13})
        _fill(axes, found)
        figure.savefig(path, dpi=_DOTS_PER_INCH)


def _fill(axes: Axes, found: Walked) -> None:
    rounds = [row.rounds for row in found.rows]
    for name, color in zip(found.columns, _COLORS, strict=False):
        label = name if found.user is None else f"node {found.user}"
        curve = [row.epsilons[name] for row in found.rows]
        marks.plot(axes, (rounds, curve), Look(label, color, style.SOLID, 2.0))
    span = [0, rounds[-1]]
    local = found.guarantee.local_epsilon
    for level, label, dash in (
        (local, "no amplification (ε₀)", style.DASHED),
        (found.central, "central shuffler", style.DOTTED),
    ):
        marks.plot(axes, (span, [level, level]), Look(label, style.QUIET, dash, 1.4))
    axes.set_xlim(0, rounds[-1])
    lowest = min(found.central, *(min(row.epsilons.values()) for row in found.rows))
    marks.log_y(axes, lowest / _ROOM, local * _ROOM)
    axes.set_xlabel("rounds of passing on")
    axes.set_ylabel(f"ε at δ = {plain(found.guarantee.delta)}")
    seen = "final holders" if found.user is None else "who passes to whom"
    axes.set_title(f"{found.graph.n:,} people; the server sees {seen}")
    marks.label_ends(axes, gap=0.055)

"""How many people it takes to notice that answers are not uniform: power against n, by model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.figures import marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table
from shoal.testing.study import LEVEL, Powers, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

K, EPSILON, DELTA, DISTANCE = 1024, 0.25, 1e-6, 0.1
MESSAGES = 100.0  # more than any of them needs
FEWEST, MOST = 2_000, 70_000
TRIALS, SIMULATIONS = 200, 999
_ROOM = 1.06  # beside the first and the last number of people

LOOKS = {
    "non-private": Look("no privacy", style.BLACK, style.DOTTED, 1.8),
    "central": Look("trusted curator", style.GREEN),
    "several": Look("several messages", style.PURPLE, style.SOLID, 2.2),
    "public": Look("one message,\npublic coins", style.SKY, style.SOLID, 2.2),
    "private": Look("one message,\nprivate coins", style.BLUE, style.SOLID, 2.2),
}
RATE = "published rate,\nconstant 1"


def tabulate(points: int) -> Table:
    """The powers at the settings of the figure."""
    study = Study(
        reference=np.full(K, 1 / K),
        epsilon=EPSILON,
        delta=DELTA,
        distance=DISTANCE,
        messages_cap=MESSAGES,
        trials=TRIALS,
        simulations=SIMULATIONS,
    )
    sizes = [round(n) for n in np.geomspace(FEWEST, MOST, points)]
    return Table.of(Powers(study, tuple(study.points(sizes)), {}).rows())


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """One panel: measured powers with their limits, and the published rates as marks."""
    (panel,) = axes
    fill(panel, table)


def fill(axes: Axes, table: Table) -> None:
    """Draw every model of the table, the level, and the rates along the horizontal axis."""
    sizes = [n for n in table.column("n") if n is not None]
    models = [name for name in LOOKS if name in table.names]
    for name in models:
        _curve(axes, table, name, LOOKS[name])
    marks.log_x(axes, sizes[0] / _ROOM, sizes[-1] * _ROOM)
    axes.set_ylim(0, 1.03)
    axes.set_xlabel("number of people n")
    axes.set_ylabel("power: the probability to notice")
    level = table.column("level")[0] or 0.0
    axes.axhline(level, color=style.FAINT, linewidth=0.8, linestyle="--", zorder=1)
    axes.annotate(
        "level",
        (1.005, level),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=8,
        color=style.QUIET,
    )
    _mark_rates(axes, table)
    _legend(axes, models)


def _curve(axes: Axes, table: Table, name: str, look: Look) -> None:
    xs, ys = table.curve("n", name)
    marks.plot(axes, (xs, ys), look)
    _, lows = table.curve("n", f"{name}-low")
    _, highs = table.curve("n", f"{name}-high")
    axes.errorbar(
        xs,
        ys,
        yerr=[
            [max(0.0, y - low) for y, low in zip(ys, lows, strict=True)],
            [max(0.0, high - y) for y, high in zip(ys, highs, strict=True)],
        ],
        fmt="o",
        color=look.color,
        markersize=4,
        elinewidth=1,
        capsize=2,
        label="_",
    )


def _mark_rates(axes: Axes, table: Table) -> None:
    low, high = axes.get_xlim()
    for name, look in LOOKS.items():
        rate = table.column(f"rate-{name}")[0] if f"rate-{name}" in table.names else None
        if rate is not None and low <= rate <= high:
            _triangle(axes, rate, look.color)


def _triangle(axes: Axes, x: float, color: str) -> None:
    axes.plot(
        [x],
        [0.0],
        "^",
        color=color,
        markersize=10,
        markeredgecolor="white",
        clip_on=False,
        zorder=5,
        label="_",
    )


def _legend(axes: Axes, models: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    drawn = [
        Line2D([], [], color=look.color, linestyle=look.dash, linewidth=look.width, marker="o")
        for look in (LOOKS[name] for name in models)
    ]
    rate = Line2D([], [], color=style.QUIET, linestyle="", marker="^", markersize=8)
    axes.legend(
        [*drawn, rate],
        [*(LOOKS[name].label for name in models), RATE],
        loc="center left",
        bbox_to_anchor=(1.05, 0.5),
        labelspacing=1.1,
        handlelength=2.6,
        borderaxespad=0.0,
    )


DRAWING = Drawing(
    name="testing-power",
    title="Noticing that answers are not uniform: what privacy costs, and what public coins save",
    caption=(
        f"k = {K} answers, total variation {DISTANCE:g} (Paninski's alternatives), level "
        f"{LEVEL:g}, ε = {EPSILON:g}, δ = 10⁻⁶. {CHOSEN} Every point: {TRIALS} simulated tests, "
        "with 95 % limits. Curator: the distance of the counts with Laplace noise, δ = 0. Several: "
        f"at most {MESSAGES:g} messages. Triangles: published rates, constant 1 "
        "(Paninski 2008; Acharya, Sun, Zhang, arXiv 1707.05128; Canonne, Lyu, arXiv 2108.08987)."
    ),
    points=9,
    tabulate=tabulate,
    draw=draw,
)

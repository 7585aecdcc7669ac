"""Epsilon after shuffling against epsilon before, for two crowds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.figures import bounds, marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTA = 1e-6
SMALLEST = 0.1
# Number of people, largest local epsilon, limits of the vertical axis.
PANELS = ((10**4, 8.0, (1e-3, 10.0)), (10**6, 12.0, (1e-4, 15.0)))


def tabulate(points: int) -> Table:
    """Every bound for each crowd, at local epsilons that lie close together at both ends."""
    return Table.of(
        bounds.row(local_epsilon=eps, n=n, delta=DELTA)
        for n, largest, _ in PANELS
        for eps in _spread(points, largest)
    )


def _spread(points: int, largest: float) -> list[float]:
    """Evenly on a logarithmic scale up to 1, on a linear one, which the jump needs, beyond."""
    few = max(2, points // 3)
    below = np.geomspace(SMALLEST, 1.0, few)
    return [*below.tolist(), *np.linspace(1.0, largest, points - few + 1)[1:].tolist()]


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """One panel per crowd and one legend for both."""
    for panel, (n, largest, limits) in zip(axes, PANELS, strict=True):
        rows = table.where("n", n)
        span = (SMALLEST, largest)
        marks.log_x(panel, *span)
        marks.log_y(panel, *limits)
        marks.no_amplification(panel, span, at=1.2 * SMALLEST)
        for name in (*bounds.NAMES, bounds.LOWER):
            points = rows.curve("local_epsilon", name)
            marks.plot(panel, points, style.LOOKS[name])
            marks.mark_stops(panel, points, style.LOOKS[name], span=span)
        panel.set_title(f"n = {marks.tick(n)}")
        panel.set_xlabel("local ε₀")
        marks.shade_below(panel, rows.curve("local_epsilon", bounds.LOWER))
    axes[0].set_ylabel("ε after shuffling")
    looks = [style.LOOKS[name] for name in (*bounds.NAMES, bounds.LOWER)]
    marks.legend_beside(axes[-1], looks)


DRAWING = Drawing(
    name="epsilon-vs-local-epsilon",
    title="ε after shuffling against ε₀ before, any ε₀-DP randomizers",
    caption=(
        f"n = 10⁴ (left) and 10⁶ (right), δ = 10⁻⁶. {CHOSEN} {bounds.KEY} "
        "After Figure 2(c) of Feldman, McMillan, Talwar, “Hiding Among the Clones”, "
        "FOCS 2021, arXiv 2012.12803."
    ),
    points=60,
    tabulate=tabulate,
    draw=draw,
    panels=2,
    right=0.80,
)

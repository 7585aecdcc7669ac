"""Epsilon against the number of people, for a small and for a large local epsilon.

The two panels of Figure 1 of the workshop version of Feldman, McMillan, Talwar, "Hiding Among the
Clones", at its settings, with the bounds published since.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from shoal.figures import bounds, marks, style
from shoal.figures.drawing import Drawing
from shoal.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTA = 1e-6
FEWEST, MOST = 10**5, 10**7


def tabulate(points: int, *, local_epsilon: float) -> Table:
    """Every bound at sizes spread evenly on a logarithmic scale."""
    sizes = [round(n) for n in np.geomspace(FEWEST, MOST, points)]
    return Table.of(bounds.row(local_epsilon=local_epsilon, n=n, delta=DELTA) for n in sizes)


def draw(table: Table, axes: Sequence[Axes], *, limits: tuple[float, float]) -> None:
    """Logarithmic in both directions, each curve named at its end."""
    (panel,) = axes
    for name in (*bounds.NAMES, bounds.LOWER):
        points = table.curve("n", name)
        marks.plot(panel, points, style.LOOKS[name])
        marks.mark_stops(panel, points, style.LOOKS[name], span=(FEWEST, MOST))
    marks.log_x(panel, FEWEST, MOST)
    marks.log_y(panel, *limits)
    panel.set_xlabel("number of people n")
    panel.set_ylabel("ε after shuffling")
    marks.shade_below(panel, table.curve("n", bounds.LOWER))
    marks.label_ends(panel)


def _drawing(name: str, local_epsilon: float, panel: str, limits: tuple[float, float]) -> Drawing:
    source = (
        f"Redraws Figure 1({panel}) of Feldman, McMillan, Talwar, “Hiding Among the Clones” "
        "(workshop version; arXiv 2012.12803) at its settings."
    )
    return Drawing(
        name=name,
        title=f"ε against n, any ε₀-DP randomizers with ε₀ = {local_epsilon:g}",
        caption=f"ε₀ = {local_epsilon:g}, δ = 10⁻⁶. {bounds.KEY} {source}",
        points=25,
        tabulate=partial(tabulate, local_epsilon=local_epsilon),
        draw=partial(draw, limits=limits),
    )


SMALL = _drawing("epsilon-vs-n-small", 0.1, "a", (3e-5, 2e-2))
LARGE = _drawing("epsilon-vs-n-large", 6.0, "b", (2e-2, 7.0))

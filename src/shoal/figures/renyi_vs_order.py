"""Rényi divergence of shuffled reports against its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting import catalog, renyi
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.figures import marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.table import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Local epsilon, number of people, largest order, limits of the vertical axis.
PANELS = ((1.0, 10**3, 2048, (8e-4, 2.0)), (4.0, 10**4, 256, (3e-3, 8.0)))
LOOKS = {
    "gddsk21": replace(style.LOOKS["gddsk21"], label="GDDSK21"),
    "clones": style.LOOKS["clones"],
    "optimal-clones": style.LOOKS["optimal-clones"],
    "lower": replace(style.LOOKS["lower"], label="lower bound"),
}


def tabulate(points: int) -> Table:
    """The bounds at whole orders (the only ones the published formula has)."""
    return Table.of(
        _row(local_epsilon, n, order)
        for local_epsilon, n, largest, _ in PANELS
        for order in sorted({round(a) for a in np.geomspace(2, largest, points)})
    )


def _row(local_epsilon: float, n: int, order: int) -> dict[str, Value]:
    published = catalog.gddsk21.renyi(local_epsilon=local_epsilon, n=n, order=order)
    clones = PrivacyProfile(BlanketLaw.clones(local_epsilon), n)
    optimal = PrivacyProfile(BlanketLaw.generic(local_epsilon), n)
    return {
        "local_epsilon": local_epsilon,
        "n": n,
        "order": order,
        "gddsk21": published if published < local_epsilon else None,
        "clones": clones.renyi(order),
        "optimal-clones": optimal.renyi(order),
        "lower": renyi.binary_response_divergence(local_epsilon=local_epsilon, n=n, order=order),
    }


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """One panel per setting and one legend for both."""
    for panel, (local_epsilon, n, largest, limits) in zip(axes, PANELS, strict=True):
        rows = table.where("local_epsilon", local_epsilon)
        marks.reference(panel, y=local_epsilon, text="ε₀: no amplification")
        for name, look in LOOKS.items():
            points = rows.curve("order", name)
            marks.plot(panel, points, look)
            marks.mark_stops(panel, points, look, span=(2, largest))
        marks.log_x(panel, 2, largest)
        marks.log_y(panel, *limits)
        panel.set_title(f"ε₀ = {local_epsilon:g}, n = {marks.tick(n)}")
        panel.set_xlabel("order α")
        marks.shade_below(panel, rows.curve("order", "lower"))
    axes[0].set_ylabel("Rényi divergence")
    looks = list(LOOKS.values())
    marks.legend_beside(axes[-1], looks)


DRAWING = Drawing(
    name="renyi-vs-order",
    title="Rényi divergence of shuffled reports, any ε₀-DP randomizers",
    caption=(
        f"ε₀ = 1, n = 10³ (left); ε₀ = 4, n = 10⁴ (right). {CHOSEN} Solid: the defining sum of the "
        "clone pair, evaluated; dashed: formula of Girgis et al., CCS 2021, arXiv 2105.05180 "
        "(GDDSK21), up to where it reaches ε₀ (ring); dotted: shuffled binary randomized response, "
        "below which (shaded) no analysis can go. After Figure 3(a) of Feldman, McMillan, Talwar, "
        "FOCS 2021, arXiv 2012.12803."
    ),
    points=33,
    tabulate=tabulate,
    draw=draw,
    panels=2,
    right=0.83,
)

"""The figure of ``shoal demo``: ε against the number of people, for its collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

import shoal
from shoal.figures import marks, style
from shoal.figures.drawing import Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PEOPLE = 200_000
ANSWERS = 24
LOCAL_EPSILON = 3.0
DELTA = 1e-6

FEWEST, MOST = 10**3, 10**7
SMALLEST, LARGEST = 2e-3, 6.0

LOOKS = {
    "fmt21-closed": style.LOOKS["fmt21-closed"],
    "clones": style.LOOKS["clones"],
    "optimal-clones": style.LOOKS["optimal-clones"],
    "blanket": Look("the randomizer's own law", style.GREEN, style.SOLID, 2.6),
    "lower": style.LOOKS["lower"],
}


def tabulate(points: int) -> Table:
    """Each curve at crowds spread evenly on a logarithmic scale."""
    return Table.of(_row(round(n)) for n in np.geomspace(FEWEST, MOST, points))


def _row(n: int) -> dict[str, Value]:
    device = shoal.RandomizedResponse(k=ANSWERS, epsilon=LOCAL_EPSILON)
    rows = {row.name: row for row in shoal.compare(device, n=n, delta=DELTA)}
    found: dict[str, Value] = {"n": n, "local_epsilon": LOCAL_EPSILON, "delta": DELTA}
    found |= {name: rows[name].epsilon for name in LOOKS if name in rows}
    return found | {"lower": rows["blanket"].lower}


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Logarithmic in both directions, with the collection of the demo marked."""
    (panel,) = axes
    for name, look in LOOKS.items():
        marks.plot(panel, table.curve("n", name), look)
        marks.mark_stops(panel, table.curve("n", name), look, span=(FEWEST, MOST))
    marks.log_x(panel, FEWEST, MOST)
    marks.log_y(panel, SMALLEST, LARGEST)
    marks.reference(panel, y=LOCAL_EPSILON, text="ε₀: what holds without a shuffler")
    _mark_the_crowd(panel)
    panel.set_xlabel("number of people n")
    panel.set_ylabel("ε after shuffling")
    marks.shade_below(panel, table.curve("n", "lower"))
    marks.label_ends(panel)


def _mark_the_crowd(panel: Axes) -> None:
    device = shoal.RandomizedResponse(k=ANSWERS, epsilon=LOCAL_EPSILON)
    epsilon = shoal.amplify(device, n=PEOPLE, delta=DELTA).epsilon
    panel.plot([PEOPLE], [epsilon], "o", color=style.GREEN, markersize=7, zorder=5, label="_here")
    panel.annotate(
        f"{PEOPLE:,} people: ε = {epsilon:.3f}",
        (PEOPLE, epsilon),
        xytext=(-8, -16),
        textcoords="offset points",
        ha="right",
        fontsize=9,
        fontweight="bold",
    )


DRAWING = Drawing(
    name="epsilon-vs-n",
    title=f"What a crowd does for randomized response with ε₀ = {LOCAL_EPSILON:g}",
    caption=(
        f"{ANSWERS} answers, δ = 10⁻⁶. The reports are the same along each vertical line; only "
        "the proofs differ. Dotted: a lower bound, below which (shaded) no proof can go; the "
        "randomizer's own law lies on it."
    ),
    points=33,
    tabulate=tabulate,
    draw=draw,
)

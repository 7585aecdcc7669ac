"""What knowing the randomizer is worth: k-ary randomized response against any randomizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting import catalog
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.figures import bounds, marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N = 10**5
DELTA = 1e-6
SMALLEST, LARGEST = 0.25, 8.0
COLORS = {2: style.VERMILION, 10: style.ORANGE, 100: style.GREEN, 1000: style.PURPLE}
LAWS = {f"k{k}": Look(f"k = {k}", color, style.SOLID, 2.2) for k, color in COLORS.items()}
CLOSED = {f"k{k}-closed": Look("", color, style.DASHED, 1.4) for k, color in COLORS.items()}
BELOW = {f"k{k}-lower": Look("", style.BLACK, style.DOTTED, 1.2) for k in COLORS}
ANY = Look("any randomizer: optimal clones", style.BLUE, style.SOLID, 4.5)
LOOKS = {"optimal-clones": ANY, **LAWS, **CLOSED, **BELOW}
LEGEND = (
    ANY,
    *LAWS.values(),
    Look("closed form (FMT21, Corollary 4.2)", style.QUIET, style.DASHED, 1.4),
    Look("lower bound", style.BLACK, style.DOTTED, 1.2),
)


def tabulate(points: int) -> Table:
    """Per local epsilon: the generic bound, and each k's own law, closed form and lower bound."""
    return Table.of(_row(float(eps)) for eps in np.geomspace(SMALLEST, LARGEST, points))


def _row(local_epsilon: float) -> dict[str, Value]:
    generic = PrivacyProfile(BlanketLaw.generic(local_epsilon), N)
    found: dict[str, Value] = {
        "local_epsilon": local_epsilon,
        "n": N,
        "delta": DELTA,
        "optimal-clones": generic.epsilon(DELTA),
    }
    for k in COLORS:
        own = PrivacyProfile(BlanketLaw.randomized_response(k=k, epsilon=local_epsilon), N)
        query = catalog.Query(local_epsilon=local_epsilon, n=N, delta=DELTA, k=k)
        found[f"k{k}"] = own.epsilon(DELTA)
        found[f"k{k}-closed"] = bounds.epsilon("krr-closed", query)
        found[f"k{k}-lower"] = own.lower_epsilon(DELTA)
    return found


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """One colour per k; solid is its law, dashed the closed form, dotted the lower bound."""
    (panel,) = axes
    span = (SMALLEST, LARGEST)
    marks.log_x(panel, *span)
    marks.log_y(panel, 4e-5, 12)
    marks.no_amplification(panel, span, at=1.1 * SMALLEST)
    for name, look in LOOKS.items():
        points = table.curve("local_epsilon", name)
        marks.plot(panel, points, look)
        marks.mark_stops(panel, points, look, span=span)
    panel.set_xlabel("local ε₀")
    panel.set_ylabel("ε after shuffling")
    marks.legend_inside(panel, LEGEND, corner="lower right")


DRAWING = Drawing(
    name="randomizers",
    title="k-ary randomized response by its own law, against the bound for any randomizer",
    caption=(
        f"n = 10⁵, δ = 10⁻⁶. {CHOSEN} Solid: blanket laws, evaluated (Balle, Bell, Gascón, Nissim, "
        "CRYPTO 2019, arXiv 1903.02837); dashed: Corollary 4.2 of Feldman, McMillan, Talwar, FOCS "
        "2021, arXiv 2012.12803, up to where its condition ends (ring; never met for k = 1000); "
        "dotted: lower bounds from explicit data sets. Only k = 2 meets the bound for any "
        "randomizer."
    ),
    points=41,
    tabulate=tabulate,
    draw=draw,
    right=0.97,
)

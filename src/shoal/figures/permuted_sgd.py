"""Private training by how its steps come by examples: ε against n and against the noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.errors import ShoalError
from shoal.figures import marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value
from shoal.learning import account
from shoal.learning.permuted import BLANKET, CLONES, DELETION, FIXED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTA = 1e-6
NOISE = 8.0
FEWEST, MOST = 10**3, 10**6
N = 60_000
LEAST_NOISE, MOST_NOISE = 1.5, 30.0

LOOKS = {
    "fixed": Look("fixed order", style.QUIET, style.DASH_DOT),
    "clones": Look("permuted, clones", style.VERMILION, style.DASHED),
    "deletion": Look("permuted, deletion", style.ORANGE, style.DASHED),
    "permutation": Look("permuted, blanket", style.BLUE, style.SOLID, 2.6),
    "replacement": Look("with replacement", style.PURPLE),
    "poisson": Look("Poisson (add/remove)", style.GREEN),
    "lower": Look("permuted, at least", style.BLACK, style.DOTTED, 1.8),
}
_ROUTES = {BLANKET: "permutation", DELETION: "deletion", CLONES: "clones", FIXED: "fixed"}


def tabulate(points: int) -> Table:
    """By n at one noise (panel 0), then by noise at one n (panel 1)."""
    sizes = [round(n) for n in np.geomspace(FEWEST, MOST, points)]
    noises = [float(f"{z:.4g}") for z in np.geomspace(LEAST_NOISE, MOST_NOISE, points)]
    rows = [_row(0, NOISE, n) for n in sizes]
    return Table.of(rows + [_row(1, noise, N) for noise in noises])


def _row(panel: int, noise: float, n: int) -> dict[str, Value]:
    found = account(noise_multiplier=noise, n=n, delta=DELTA)
    row: dict[str, Value] = {"panel": panel, "n": n, "noise": noise, "delta": DELTA}
    row |= {_ROUTES[route.name]: route.epsilon for route in found.routes}
    row["permutation"] = found.epsilon
    for sampling in ("replacement", "poisson"):
        row[sampling] = _epsilon(noise, n, sampling)
    return row | {"lower": found.lower}


def _epsilon(noise: float, n: int, sampling: str) -> Value:
    try:
        return account(noise_multiplier=noise, n=n, delta=DELTA, sampling=sampling).epsilon
    except ShoalError:
        return None


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Logarithmic in both directions; curves are named beside the second panel."""
    spans = (("n", FEWEST, MOST), ("noise", LEAST_NOISE, MOST_NOISE))
    for index, (panel, (column, low, high)) in enumerate(zip(axes, spans, strict=True)):
        part = table.where("panel", index)
        for name, look in LOOKS.items():
            marks.plot(panel, part.curve(column, name), look)
        marks.log_x(panel, low, high)
        marks.log_y(panel, 2e-4, 12.0)
    axes[0].set_title(f"noise multiplier {NOISE:g}")
    axes[0].set_xlabel("number of examples n")
    axes[0].set_ylabel("ε of one epoch")
    axes[1].set_title(f"{N:,} examples")
    axes[1].set_xlabel("noise multiplier")
    marks.legend_beside(axes[1], list(LOOKS.values()))


DRAWING = Drawing(
    name="permuted-sgd",
    title="Private gradient descent, one epoch in steps of one example",
    caption=(
        "δ = 10⁻⁶; replace-one, but for Poisson sampling, which adds or removes one. All iterates "
        "are published. Dashed: Feldman, McMillan, Talwar (arXiv 2012.12803), Section 5.2, through "
        "(ε₀, δ₀) of one step. Dotted: what explicit data, permuted, really lose. "
        f"{CHOSEN}"
    ),
    points=13,
    tabulate=tabulate,
    draw=draw,
    panels=2,
    right=0.78,
)

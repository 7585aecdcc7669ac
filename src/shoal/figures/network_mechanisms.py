"""Ways to amplify the privacy of reports, beside each other: epsilon against the crowd."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting import catalog
from shoal.figures import bounds, marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value
from shoal.network.account import WalkAccountant
from shoal.network.generators import random_regular
from shoal.network.published import all_epsilon
from shoal.network.walk import Walk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOCAL_EPSILON = 0.5
DELTA = 1e-6
SMALLEST, LARGEST = 3e3, 5e4
DEGREE = 16
ROUNDS = (15, 19)
_SHUFFLED = ("efmrtt19", "clones", "optimal-clones")

LOOKS = {
    "network-published": Look("network, published\n(recalled)", style.GREEN, style.DASHED, 1.4),
    "efmrtt19": style.LOOKS["efmrtt19"],
    "subsampling": Look("subsampling, 1 in √n", style.ORANGE),
    "clones": style.LOOKS["clones"],
    f"network-{ROUNDS[0]}": Look(f"network, {ROUNDS[0]} rounds", style.GREEN, style.DASH_DOT, 2.0),
    "optimal-clones": style.LOOKS["optimal-clones"],
    f"network-{ROUNDS[1]}": Look(f"network, {ROUNDS[1]} rounds", style.GREEN, style.SOLID, 1.4),
}


def tabulate(points: int) -> Table:
    """Every way at numbers of people spread evenly on a logarithmic scale."""
    people = sorted({2 * round(n / 2) for n in np.geomspace(SMALLEST, LARGEST, points)})
    return Table.of(_row(n) for n in people)


def _row(n: int) -> dict[str, Value]:
    query = catalog.Query(local_epsilon=LOCAL_EPSILON, n=n, delta=DELTA)
    published = all_epsilon(
        local_epsilon=LOCAL_EPSILON,
        delta=DELTA / 2,
        meeting_delta=DELTA / 2,
        n=n,
        collision=1 / n,
    )
    walk = WalkAccountant(
        walk=Walk(random_regular(n, DEGREE)), local_epsilon=LOCAL_EPSILON, method="spectral"
    )
    return {
        "n": n,
        "local_epsilon": LOCAL_EPSILON,
        "delta": DELTA,
        "subsampling": math.log1p(math.expm1(LOCAL_EPSILON) / math.sqrt(n)),
        **{name: bounds.epsilon(name, query) for name in _SHUFFLED},
        "network-published": published if published < LOCAL_EPSILON else None,
        **{
            f"network-{rounds}": walk.profile(rounds).answer(DELTA, near_local=False)[0]
            for rounds in ROUNDS
        },
    }


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Logarithmic in both directions, each curve named at its end."""
    (panel,) = axes
    for name, look in LOOKS.items():
        points = table.curve("n", name)
        marks.plot(panel, points, look)
        marks.mark_stops(panel, points, look, span=(SMALLEST, LARGEST))
    marks.log_x(panel, SMALLEST, LARGEST)
    marks.log_y(panel, 2e-3, 0.75)
    marks.reference(panel, y=LOCAL_EPSILON, text="ε₀: none")
    panel.set_xlabel("people n")
    panel.set_ylabel("ε at δ = 10⁻⁶")
    marks.label_ends(panel, gap=0.055)


DRAWING = Drawing(
    name="network-mechanisms",
    title="Ways to amplify: none, sampling, a shuffler, a network",
    caption=(
        f"ε₀ = 0.5, δ = 10⁻⁶, any ε₀-DP randomizer. {CHOSEN} Sampling: one report in √n is used, "
        "nobody knows which. Network: random 16-regular, everybody, from a bound on the "
        "eigenvalues; dashed: Theorem 5.3 of Liew, Takahashi, Takagi, Kato, Cao, Yoshikawa, "
        "SIGMOD 2022, arXiv 2204.03919, as recalled, stationary. A ring marks where a theorem "
        "stops applying or says no more than ε₀."
    ),
    points=7,
    tabulate=tabulate,
    draw=draw,
    right=0.76,
)

"""Epsilon of many adaptive rounds, by every way of composing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting import catalog, renyi, ternary
from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.figures import marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOCAL_EPSILON = 4.0
N = 10**5
DELTA = 1e-6
MOST_ROUNDS = 1000
_ORDERS = tuple(sorted({round(a) for a in np.geomspace(2, 256, 40)}))

LOOKS = {
    "gddsk21-renyi": Look("GDDSK21, via Rényi", style.ORANGE, style.DASHED),
    "advanced": Look("optimal clones,\nadvanced composition", style.SKY),
    "renyi": Look("optimal clones, Rényi", style.GREEN),
    "pld": Look("optimal clones, PLD", style.BLUE, style.SOLID, 2.6),
    "lower": Look("lower bound", style.BLACK, style.DOTTED, 1.8),
}


def tabulate(points: int) -> Table:
    """Every method at numbers of rounds spread evenly on a logarithmic scale."""
    rounds = sorted({round(k) for k in np.geomspace(1, MOST_ROUNDS, points)})
    return Table.of(_row(count) for count in rounds)


def _row(rounds: int) -> dict[str, Value]:
    profile = PrivacyProfile(BlanketLaw.generic(LOCAL_EPSILON), N)
    composed = profile * rounds
    return {
        "rounds": rounds,
        "local_epsilon": LOCAL_EPSILON,
        "n": N,
        "delta": DELTA,
        "gddsk21-renyi": _published_renyi(rounds),
        "advanced": composed.epsilon(DELTA, method="advanced"),
        "renyi": composed.epsilon(DELTA, method="renyi"),
        "pld": composed.epsilon(DELTA, method="pld"),
        "lower": ternary.epsilon(local_epsilon=LOCAL_EPSILON, n=N, rounds=rounds, delta=DELTA),
    }


def _published_renyi(rounds: int) -> float:
    return min(
        renyi.to_epsilon(
            rounds * catalog.gddsk21.renyi(local_epsilon=LOCAL_EPSILON, n=N, order=order),
            order,
            DELTA,
        )
        for order in _ORDERS
    )


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Logarithmic in both directions, each curve named at its end."""
    (panel,) = axes
    for name, look in LOOKS.items():
        marks.plot(panel, table.curve("rounds", name), look)
    marks.log_x(panel, 1, MOST_ROUNDS)
    marks.log_y(panel, 0.08, 200)
    panel.set_xlabel("adaptive rounds")
    panel.set_ylabel("ε of all rounds together")
    marks.shade_below(panel, table.curve("rounds", "lower"))
    marks.label_ends(panel)


DRAWING = Drawing(
    name="epsilon-vs-rounds",
    title="ε of many shuffled rounds, composed in three ways",
    caption=(
        f"ε₀ = 4, n = 10⁵, δ = 10⁻⁶ in total. {CHOSEN} Any ε₀-DP randomizers, adaptively chosen "
        "rounds. PLD: privacy loss distributions; Rényi: converted by Canonne, Kamath, Steinke "
        "2020; advanced: Kairouz, Oh, Viswanath 2015; dotted: ternary randomized response, below "
        "which (shaded) no analysis can go. After Figure 3(b) of Feldman, McMillan, Talwar, FOCS "
        "2021, arXiv 2012.12803."
    ),
    points=19,
    tabulate=tabulate,
    draw=draw,
)

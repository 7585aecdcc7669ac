"""Epsilon of reports that were passed on against epsilon of a report by itself, by graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.figures import marks, style, walks
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTA = 1e-6
SMALLEST, LARGEST = 0.1, 3.5
ROUNDS = (6, 14)


def tabulate(points: int) -> Table:
    """ε of everybody after few and after more rounds, for each graph."""
    laws = {}
    for name in walks.GRAPHS:
        for rounds in ROUNDS:
            spread = walks.locations(name).after(rounds)
            laws[f"{name}-{rounds}"] = (walks.covered(spread), spread)

    def row(local_epsilon: float) -> dict[str, Value]:
        central = PrivacyProfile(BlanketLaw.generic(local_epsilon), walks.PEOPLE)
        return {
            "local_epsilon": local_epsilon,
            "n": walks.PEOPLE,
            "delta": DELTA,
            "central": central.epsilon(DELTA),
            **{
                column: walks.epsilon(*known, local_epsilon, DELTA)
                for column, known in laws.items()
            },
        }

    return Table.of(row(float(each)) for each in np.geomspace(SMALLEST, LARGEST, points))


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Logarithmic in both directions; dashed after few rounds, solid after more."""
    (panel,) = axes
    span = (SMALLEST, LARGEST)
    marks.log_x(panel, *span)
    marks.log_y(panel, 0.008, 5)
    marks.no_amplification(panel, span, at=0.115)
    few, many = ROUNDS
    for name, look in walks.LOOKS.items():
        early = replace(look, dash=style.DASHED, width=1.4)
        marks.plot(panel, table.curve("local_epsilon", f"{name}-{few}"), early)
        marks.plot(panel, table.curve("local_epsilon", f"{name}-{many}"), look)
    marks.plot(panel, table.curve("local_epsilon", "central"), walks.CENTRAL)
    panel.set_xlabel("local ε₀")
    panel.set_ylabel("ε at δ = 10⁻⁶, for everybody")
    length = (
        Look(f"after {few} rounds", style.QUIET, style.DASHED, 1.4),
        Look(f"after {many} rounds", style.QUIET, style.SOLID, 2.2),
    )
    marks.legend_beside(panel, [*walks.LOOKS.values(), *length, walks.CENTRAL])


DRAWING = Drawing(
    name="network-epsilon-vs-local-epsilon",
    title="ε after passing on against ε₀ before, by graph",
    caption=(
        f"n = 1000, δ = 10⁻⁶, any ε₀-DP randomizer, the worst off person. {CHOSEN} Graphs: random "
        "16-regular; preferential attachment with 4 links a newcomer; a ring of 8 neighbours with "
        "one edge in five rewired. The server sees who holds a report in the end, not who passed "
        "it on. Protocol: Liew, Takahashi, Takagi, Kato, Cao, Yoshikawa, SIGMOD 2022, arXiv "
        "2204.03919; the bound is this library's."
    ),
    points=14,
    tabulate=tabulate,
    draw=draw,
    right=0.76,
)

"""Epsilon against the rounds that reports are passed on, on three kinds of graph."""

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

LOCAL_EPSILON = 1.0
DELTA = 1e-6
MOST_ROUNDS = 24
SHARES = {"worst": 1.0, "median": 0.5}
_FROM = 3


def tabulate(points: int) -> Table:
    """ε of everybody and of one half, at numbers of rounds dense where few."""
    rounds = sorted({round(t) for t in np.geomspace(_FROM, MOST_ROUNDS, points)})
    central = PrivacyProfile(BlanketLaw.generic(LOCAL_EPSILON), walks.PEOPLE).epsilon(DELTA)
    return Table.of(_row(count, central) for count in rounds)


def _row(rounds: int, central: float) -> dict[str, Value]:
    found: dict[str, Value] = {
        "rounds": rounds,
        "n": walks.PEOPLE,
        "local_epsilon": LOCAL_EPSILON,
        "delta": DELTA,
        "central": central,
    }
    for name in walks.GRAPHS:
        spread = walks.locations(name).after(rounds)
        for column, share in SHARES.items():
            walked = walks.covered(spread, share)
            found[f"{name}-{column}"] = walks.epsilon(walked, spread, LOCAL_EPSILON, DELTA)
    return found


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Solid for everybody, dashed for one half of the people."""
    (panel,) = axes
    for name, look in walks.LOOKS.items():
        marks.plot(panel, table.curve("rounds", f"{name}-worst"), look)
    for name, look in walks.LOOKS.items():
        half = replace(look, label="_half", dash=style.DASHED, width=1.3)
        marks.plot(panel, table.curve("rounds", f"{name}-median"), half)
    marks.plot(panel, table.curve("rounds", "central"), walks.CENTRAL)
    panel.set_xlim(_FROM, MOST_ROUNDS)
    panel.set_xticks(range(_FROM, MOST_ROUNDS + 1, 3))
    marks.log_y(panel, 0.1, 1.25)
    marks.reference(panel, y=LOCAL_EPSILON, text="ε₀: no amplification")
    panel.set_xlabel("rounds of passing on")
    panel.set_ylabel("ε at δ = 10⁻⁶")
    half = Look("one half of the people", style.QUIET, style.DASHED, 1.3)
    everybody = Look("everybody", style.QUIET, style.SOLID, 2.2)
    looks = [*walks.LOOKS.values(), everybody, half, walks.CENTRAL]
    marks.legend_beside(panel, looks)


DRAWING = Drawing(
    name="network-epsilon-vs-rounds",
    title="How many rounds: ε of reports that people pass on",
    caption=(
        f"n = 1000, ε₀ = 1, δ = 10⁻⁶, any ε₀-DP randomizer. {CHOSEN} Graphs: random 16-regular; "
        "preferential attachment with 4 links a newcomer (Barabási, Albert 1999); a ring of 8 "
        "neighbours with one edge in five rewired (Watts, Strogatz 1998). The server sees who "
        "holds a report in the end, not who passed it on. Protocol: Liew, Takahashi, Takagi, Kato, "
        "Cao, Yoshikawa, SIGMOD 2022, arXiv 2204.03919; the bound is this library's."
    ),
    points=10,
    tabulate=tabulate,
    draw=draw,
    right=0.76,
)

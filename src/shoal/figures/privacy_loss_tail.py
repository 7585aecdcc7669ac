"""Where amplification ends: the sharp transition of the privacy loss from far below eps0 to eps0.

Appendix B of Feldman, McMillan, Talwar, "Hiding Among the Clones": is the condition under which
their closed form holds an artefact of the proof? Shuffled binary randomized response says no, up
to a constant: its epsilon jumps to the local one near eps0 = log(n / log(1/delta)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.law import BlanketLaw
from shoal.accounting.profile import PrivacyProfile
from shoal.figures import marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N = 10**4
DELTAS = (1e-80, 1e-20, 1e-5)
LOCAL_EPSILONS = (4.0, 5.0, 6.0)
LARGEST_LOCAL_EPSILON = 9.0
DEEPEST = -100  # of log10 delta
COLORS = (style.BLUE, style.VERMILION, style.GREEN)
KEY = (
    Look("binary response", style.QUIET),
    Look("clones (FMT21)", style.QUIET, style.DASHED, 1.3),
    Look("log(n / log(1/δ))", style.QUIET, style.DOTTED, 1.1),
)


def tabulate(points: int) -> Table:
    """First the sweeps over the local epsilon, one per delta, then those over delta."""
    grid = np.linspace(0.25, LARGEST_LOCAL_EPSILON, points)
    depths = np.linspace(DEEPEST, -1, points)
    rows = [_row(0, float(eps), delta) for delta in DELTAS for eps in grid]
    rows += [_row(1, eps, 10.0**depth) for eps in LOCAL_EPSILONS for depth in depths]
    return Table.of(rows)


def _row(panel: int, local_epsilon: float, delta: float) -> dict[str, Value]:
    binary = PrivacyProfile(BlanketLaw.randomized_response(k=2, epsilon=local_epsilon), N)
    clones = PrivacyProfile(BlanketLaw.clones(local_epsilon), N)
    return {
        "panel": panel,
        "n": N,
        "local_epsilon": local_epsilon,
        "delta": delta,
        "binary-response": binary.lower_epsilon(delta),
        "clones": clones.epsilon(delta),
    }


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """Left, epsilon against the local epsilon; right, against delta."""
    left, right = axes
    _draw_left(table.where("panel", 0), left)
    _draw_right(table.where("panel", 1), right)


def transition(delta: float) -> float:
    """The local epsilon at which delta is about the chance of having no clone at all."""
    return math.log(N / math.log(1 / delta))


def _draw_left(table: Table, axes: Axes) -> None:
    for delta, color in zip(DELTAS, COLORS, strict=True):
        rows = table.where("delta", delta)
        _pair(rows, "local_epsilon", axes, color)
        axes.axvline(transition(delta), color=color, linestyle=style.DOTTED, linewidth=1.1)
    axes.plot([0, LARGEST_LOCAL_EPSILON], [0, LARGEST_LOCAL_EPSILON], color=style.FAINT, lw=0.8)
    axes.set_xlim(0, LARGEST_LOCAL_EPSILON)
    axes.set_ylim(0, LARGEST_LOCAL_EPSILON)
    axes.grid(visible=True)
    axes.set_title("against ε₀, for three δ")
    axes.set_xlabel("local ε₀")
    axes.set_ylabel("ε after shuffling")
    looks = [
        Look(f"δ = {marks.tick(delta)}", color) for delta, color in zip(DELTAS, COLORS, strict=True)
    ]
    marks.legend_inside(axes, [*looks, *KEY], corner="upper left")


def _draw_right(table: Table, axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    for eps, color in zip(LOCAL_EPSILONS, COLORS, strict=True):
        rows = table.where("local_epsilon", eps)
        _pair(rows, "delta", axes, color)
        axes.axhline(eps, color=color, linestyle=style.DOTTED, linewidth=1.1)
        axes.annotate(
            f"ε₀ = {eps:g}", (10.0**DEEPEST, eps), (6, 5), textcoords="offset points", color=color
        )
    axes.set_xscale("log")
    axes.set_xlim(10.0**DEEPEST, 0.1)
    axes.set_ylim(0, 7)
    axes.set_xticks([10.0**exponent for exponent in range(DEEPEST, 0, 20)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: marks.tick(value)))
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_title("against δ, for three ε₀")
    axes.set_xlabel("δ")


def _pair(rows: Table, x: str, axes: Axes, color: str) -> None:
    marks.plot(axes, rows.curve(x, "binary-response"), Look("_", color, style.SOLID, 1.8))
    marks.plot(axes, rows.curve(x, "clones"), Look("_", color, style.DASHED, 1.3))


DRAWING = Drawing(
    name="privacy-loss-tail",
    title="Where amplification ends: the sharp transition of ε from far below ε₀ to ε₀",
    caption=(
        f"n = 10⁴. {CHOSEN} Solid: shuffled binary randomized response, all others on one answer; "
        "dashed: clones, an upper bound for any ε₀-DP randomizers. Dotted: ε₀ = log(n / log(1/δ)) "
        "(left), ε = ε₀ (right; grey, left). Steps are real: counts are whole. After Figure 4 "
        "(Appendix B) of Feldman, McMillan, Talwar, “Hiding Among the Clones”, FOCS 2021, arXiv "
        "2012.12803."
    ),
    points=101,
    tabulate=tabulate,
    draw=draw,
    panels=2,
    right=0.985,
)

"""At δ = 0 a shuffler adds nothing to one message each: ε climbs back to ε₀ as δ falls.

Balcer and Cheu, "Separating Local & Shuffled Differential Privacy via Histograms", ITC 2020,
arXiv:1911.06879. If everybody holds the same answer, all tell the truth with probability pⁿ, and
the likelihood ratio of that is e^ε₀. So ε is at least ε₀ + log(1 − δ/pⁿ), whatever the analysis
(docs/theory/separation.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.profile import PrivacyProfile
from shoal.figures import marks, style
from shoal.figures.drawing import CHOSEN, Drawing
from shoal.figures.style import Look
from shoal.figures.table import Table, Value
from shoal.randomizers.response import RandomizedResponse

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOCAL_EPSILON = 2.0
N = 200
DIGITS = (2.0, 300.0)  # delta = 10^-digits
_NOTHING = 1e-9  # below the local epsilon
LOOKS = {
    2: Look("2 answers", style.VERMILION),
    10: Look("10 answers", style.BLUE),
    100: Look("100 answers", style.GREEN),
}


def response(k: int) -> RandomizedResponse:
    """What everybody runs."""
    return RandomizedResponse(k=k, epsilon=LOCAL_EPSILON)


def truthful_digits(k: int) -> float:
    """−log₁₀ of the probability that all of N people tell the truth."""
    a = math.exp(response(k).local_epsilon)
    return N * (math.log10(a + k - 1) - math.log10(a))


def witnessed(k: int, digits: float) -> float:
    """An ε that no analysis can go below: ε₀ + log(1 − δ/pⁿ), or 0 where that says nothing."""
    left = 1 - 10 ** (truthful_digits(k) - digits) if digits > truthful_digits(k) else 0.0
    return max(0.0, response(k).local_epsilon + math.log(left)) if left > 0 else 0.0


def tabulate(points: int) -> Table:
    """The upper and the lower bound at deltas from 10^-2 to 10^-300."""
    profiles = {k: PrivacyProfile(response(k).law(), N) for k in LOOKS}
    first, last = DIGITS
    spread = first + (last - first) * np.linspace(0, 1, points) ** 2
    ends = [truthful_digits(k) + beyond for k in LOOKS for beyond in (0, 2)]
    digits = sorted({*spread.tolist(), *ends})
    return Table.of(_row(profiles, d) for d in digits)


def _row(profiles: dict[int, PrivacyProfile], digits: float) -> dict[str, Value]:
    row: dict[str, Value] = {"digits": digits, "n": N, "local_epsilon": LOCAL_EPSILON}
    for k, profile in profiles.items():
        known = witnessed(k, digits)
        done = profile.local_epsilon - known < _NOTHING
        row[f"k{k}"] = profile.local_epsilon if done else profile.epsilon(10.0**-digits)
        row[f"k{k}-lower"] = known
    return row


def draw(table: Table, axes: Sequence[Axes]) -> None:
    """ε against −log₁₀ δ; rings where δ is the chance that all tell the truth."""
    (axis,) = axes
    for k, look in LOOKS.items():
        marks.plot(axis, table.curve("digits", f"k{k}"), look)
        at = truthful_digits(k)
        height = float(np.interp(at, *table.curve("digits", f"k{k}")))
        axis.plot([at], [height], "o", color=look.color, markerfacecolor="white", label="_")
    axis.set_xlim(0, DIGITS[1])
    axis.set_ylim(0, 1.12 * LOCAL_EPSILON)
    axis.grid(visible=True)
    axis.set_axisbelow(True)
    axis.set_xticks(range(0, 301, 50), [f"$10^{{-{d}}}$" if d else "1" for d in range(0, 301, 50)])
    axis.set_xlabel("δ")
    axis.set_title("ε after shuffling")
    marks.reference(axis, y=LOCAL_EPSILON, text="ε₀ = 2: what one message reveals by itself")
    for k, place in {2: (17, 1.72), 10: (53, 1.63), 100: (134, 1.38)}.items():
        axis.text(*place, LOOKS[k].label, color=style.legible(LOOKS[k].color))


DRAWING = Drawing(
    name="pure-privacy",
    title="With one message each, a shuffler is worth nothing at δ = 0",
    caption=(
        f"Randomized response at ε₀ = 2 among n = {N} people. {CHOSEN} Rings: δ is the probability "
        "that all tell the truth, if all hold the same answer; a little further right no analysis "
        "can prove less than ε₀. Balcer, Cheu, “Separating Local & Shuffled Differential Privacy "
        "via Histograms”, ITC 2020, arXiv 1911.06879."
    ),
    points=25,
    tabulate=tabulate,
    draw=draw,
    right=0.96,
)

"""How many people it takes to notice that answers are not uniform: power against n, by model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shoal.explain import plots
from shoal.explain.plots import Axis, Look
from shoal.figures.drawing import Curve, Level, Panel, Table, Value, figure
from shoal.questions.terms import Limits
from shoal.testing import Hypothesis, Powers, Simulations, Study
from shoal.testing.hypothesis import LEVEL

K, EPSILON, DELTA, DISTANCE = 1024, 0.25, 1e-6, 0.1
MESSAGES = 100.0  # more than any of them needs
FEWEST, MOST = 2_000, 70_000
TRIALS, SIMULATIONS = 200, 999
_BESIDE = 1.06  # the first and the last number of people

LOOKS = {
    "non-private": Look("no privacy", plots.BLACK, plots.DOTTED, 1.8, "o"),
    "central": Look("trusted curator", plots.GREEN, marker="o"),
    "several": Look("several messages", plots.PURPLE, plots.SOLID, 2.2, "o"),
    "public": Look("one message,\npublic coins", plots.SKY, plots.SOLID, 2.2, "o"),
    "private": Look("one message,\nprivate coins", plots.BLUE, plots.SOLID, 2.2, "o"),
}
_RATE = Look("published rate,\nconstant 1", plots.QUIET, plots.NO_LINE, marker="^")


def panel(models: Sequence[str], span: tuple[float, float], level: float = LEVEL) -> Panel:
    """Measured powers with their limits, the level, and the published rates as marks."""
    return Panel(
        "n",
        Axis("number of people n", (span[0] / _BESIDE, span[1] * _BESIDE)),
        Axis("power: the probability to notice", (0, 1.03), log=False),
        [Curve(name, LOOKS[name], limits=True) for name in models],
        levels=[Level(level, "level", plots.FAINT, plots.DASHED, "right")],
        feet={f"rate-{name}": LOOKS[name].color for name in models if name != "several"},
        names="beside",
        legend=[*(LOOKS[name] for name in models), _RATE],
    )


def fill(axes: plots.Axes, rows: Sequence[Mapping[str, Value]]) -> None:
    """Draw every model that these rows of a study have."""
    table = Table(rows)
    sizes = [n for n in table.column("n") if n is not None]
    models = [name for name in LOOKS if name in table.names]
    level = table.column("level")[0] or 0.0
    panel(models, (sizes[0], sizes[-1]), level).draw(table, axes)


@figure(8, panel(tuple(LOOKS), (FEWEST, MOST)))
def testing_power(points: int) -> list[dict[str, Value]]:
    """Noticing that answers are not uniform: what privacy costs, and what public coins save.

    k = 1024 answers, total variation 0.1 (Paninski's alternatives), level 0.05, ε = 0.25, δ =
    10⁻⁶. Settings chosen by us. Every point: 200 simulated tests, with 95 % limits. Curator:
    the distance of the counts with Laplace noise, δ = 0. Several: at most 100 messages.
    Triangles: published rates, constant 1 (Paninski 2008; Acharya, Sun, Zhang, arXiv
    1707.05128; Canonne, Lyu, arXiv 2108.08987).
    """
    study = Study(
        Hypothesis(k=K, distance=DISTANCE),
        epsilon=EPSILON,
        delta=DELTA,
        limits=Limits(messages=MESSAGES),
        trials=TRIALS,
        simulations=Simulations(SIMULATIONS),
    )
    sizes = [round(n) for n in np.geomspace(FEWEST, MOST, points)]
    return Powers(study, tuple(study.points(sizes)), {}).rows()

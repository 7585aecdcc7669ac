"""The published comparisons, redrawn: every bound beside the others and beside a lower bound.

Each figure is a specification (:class:`~shoal.figures.drawing.Drawing`): how its rows are computed,
and what its panels show. Every figure is written three times under one name, as SVG, as PNG and as
the CSV of the numbers in it. matplotlib is loaded when the first one is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.figures import bounds, learning_curves, network, permuted_sgd, separation, testing_power
from shoal.figures.drawing import Drawing

__all__ = ["DRAWINGS", "NAMES", "draw_all"]

DRAWINGS: tuple[Drawing, ...] = (
    bounds.epsilon_vs_n_small,
    bounds.epsilon_vs_n_large,
    bounds.epsilon_vs_local_epsilon,
    bounds.renyi_vs_order,
    bounds.epsilon_vs_rounds,
    bounds.privacy_loss_tail,
    bounds.randomizers,
    learning_curves.learning_curves,
    separation.separation,
    separation.pure_privacy,
    network.network_epsilon_vs_rounds,
    network.network_epsilon_vs_local_epsilon,
    network.network_mechanisms,
    testing_power.testing_power,
    permuted_sgd.permuted_sgd,
)
NAMES: tuple[str, ...] = tuple(drawing.name for drawing in DRAWINGS)


def draw_all(
    out: Path,
    *,
    only: str | None = None,
    progress: Callable[[str], None] | None = None,
    points: int | None = None,
) -> list[Path]:
    """Draw every figure, or the one named ``only``, into ``out``; return the files written.

    ``progress`` is told the name of each figure before it is computed. ``points`` replaces the
    number of points along each horizontal axis: fewer are faster, not different.
    """
    if only is not None and only not in NAMES:
        raise InvalidArgumentError("only", only, f"one of {', '.join(NAMES)}")
    count = None if points is None else checks.count(4, points=points)
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for drawing in DRAWINGS:
        if only is None or drawing.name == only:
            if progress is not None:
                progress(drawing.name)
            written += drawing.write(drawing.table(count), out)
    return written

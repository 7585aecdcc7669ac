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
from shoal.figures import bounds, network
from shoal.figures.drawing import Drawing
from shoal.figures.learning_curves import LEARNING_CURVES
from shoal.figures.permuted_sgd import PERMUTED_SGD
from shoal.figures.separation import PURE_PRIVACY, SEPARATION
from shoal.figures.testing_power import TESTING_POWER

__all__ = ["DRAWINGS", "NAMES", "draw_all"]

DRAWINGS: tuple[Drawing, ...] = (
    bounds.SMALL,
    bounds.LARGE,
    bounds.AGAINST_LOCAL_EPSILON,
    bounds.RENYI_VS_ORDER,
    bounds.AGAINST_ROUNDS,
    bounds.PRIVACY_LOSS_TAIL,
    bounds.RANDOMIZERS,
    LEARNING_CURVES,
    SEPARATION,
    PURE_PRIVACY,
    network.AGAINST_ROUNDS,
    network.AGAINST_LOCAL_EPSILON,
    network.MECHANISMS,
    TESTING_POWER,
    PERMUTED_SGD,
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

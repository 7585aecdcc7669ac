"""The published comparisons, redrawn: every bound beside the others and beside a lower bound.

Each figure is a specification (:class:`~shoal.figures.drawing.Drawing`) in one of the modules: how
its rows are computed, and what its panels show. Every figure is written three times under one name:
as SVG, as PNG and as the CSV of its numbers. matplotlib is loaded when the first one is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shoal import checks
from shoal.figures import bounds, learning_curves, network, permuted_sgd, separation, testing_power
from shoal.figures.drawing import Drawing

__all__ = ["NAMES", "draw_all"]

_MODULES = (bounds, learning_curves, separation, network, testing_power, permuted_sgd)
DRAWINGS: tuple[Drawing, ...] = tuple(
    each for module in _MODULES for each in vars(module).values() if isinstance(each, Drawing)
)
NAMES: tuple[str, ...] = tuple(drawing.name for drawing in DRAWINGS)


def draw_all(
    out: Path,
    *,
    only: str | None = None,
    progress: Callable[[str], None] | None = None,
    points: int | None = None,
) -> list[Path]:
    """Draw every figure, or one, as SVG, PNG and the CSV of its numbers.

    Args:
        out: The directory, made if it is not there.
        only: The name of the only figure that is drawn.
        progress: Called with the name of each figure before it is computed.
        points: The number of points along each horizontal axis, at least 4: fewer are
            faster, not different.

    Returns:
        The files written.

    Raises:
        InvalidArgumentError: There is no figure of this name, or there are too few
            points.
        MissingExtraError: Matplotlib is not installed.

    Example:
        >>> draw_all(Path("figures"), only="none")
        Traceback (most recent call last):
            ...
        shoal.errors.InvalidArgumentError: expected one of ...
    """
    known = only is None or only in NAMES
    checks.refuse(not known, f"one of {', '.join(NAMES)}", only=only)
    count = None if points is None else checks.count(4, points=points)
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for drawing in DRAWINGS:
        if only is None or drawing.name == only:
            if progress is not None:
                progress(drawing.name)
            written += drawing.write(drawing.table(count), out)
    return written

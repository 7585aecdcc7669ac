"""A test as a figure: the statistic among simulated ones, or the power against n."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.testing_answer import Tested
from shoal.cli.testing_power import Powers
from shoal.cli.testing_show import p_value
from shoal.explain.text import plain
from shoal.figures import style, testing_power

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 160
_BARS = 60


def draw(found: Tested, path: Path) -> None:
    """Write the histogram of simulated statistics with the one that was seen."""
    _write(path, lambda axes: _fill(axes, found), right=0.97)


def draw_power(found: Powers, path: Path) -> None:
    """Write the measured powers with the published rates."""
    _write(path, lambda axes: _fill_power(axes, found), right=0.74)


def _write(path: Path, fill: Callable[[Axes], None], *, right: float) -> None:
    """The ending of the name says what kind of file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style.applied():
        figure = Figure(figsize=(8.0, 4.6))
        FigureCanvasAgg(figure)
        places = {"left": 0.1, "right": right, "top": 0.88, "bottom": 0.13}
        fill(figure.subplots(gridspec_kw=places))
        figure.savefig(path, dpi=_DOTS_PER_INCH)


def _fill(axes: Axes, found: Tested) -> None:
    assert found.null is not None  # noqa: S101 - simulated because it is drawn
    verdict = found.verdict
    axes.hist(found.null, bins=_BARS, color=style.FAINT, linewidth=0)
    axes.axvline(verdict.threshold, color=style.QUIET, linestyle="--", linewidth=1.2)
    color = style.VERMILION if verdict.rejected else style.BLUE
    axes.axvline(verdict.statistic, color=color, linewidth=2.2)
    top = axes.get_xaxis_transform()
    marked = (
        (verdict.threshold, "threshold", style.QUIET, 0.9),
        (verdict.statistic, "seen", color, 1),
    )
    for x, text, shade, height in marked:
        axes.annotate(
            text, (x, height), (4, -10), xycoords=top, textcoords="offset points", color=shade
        )
    axes.margins(x=0.08)
    axes.set_xlabel("statistic T")
    axes.set_ylabel(f"of {verdict.simulations:,} simulated batches")
    axes.set_title(f"{verdict.words.partition(':')[0]}: p-value {p_value(verdict)}")


def _fill_power(axes: Axes, found: Powers) -> None:
    testing_power.fill(axes, found.table)
    study = found.study
    axes.set_title(
        f"{found.k:,} answers, distance {plain(study.distance)}, level {plain(study.level)}, "
        f"ε = {plain(study.epsilon)}, δ = {plain(study.delta)}"
    )

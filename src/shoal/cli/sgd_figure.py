"""A training run as a figure: ε against epochs, one curve for each kind of sampling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from shoal.cli.sgd_answer import Accounted
from shoal.explain.text import plain
from shoal.figures import marks, style
from shoal.figures.style import Look
from shoal.learning import Sampling
from shoal.learning.guarantee import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DOTS_PER_INCH = 160
_ROOM = 1.5  # above and below the curves
LOOKS = {
    Sampling.PERMUTATION: Look("permutation", style.BLUE, style.SOLID, 2.4),
    Sampling.REPLACEMENT: Look("with replacement", style.VERMILION, style.SOLID, 1.8),
    Sampling.POISSON: Look("Poisson (add/remove)", style.GREEN, style.SOLID, 1.8),
    Sampling.FIXED: Look("fixed order", style.QUIET, style.DASHED, 1.4),
}


def draw(found: Accounted, path: Path) -> None:
    """Write the figure; the ending of the name says what kind of file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with style.applied():
        figure = Figure(figsize=(8.0, 4.6))
        FigureCanvasAgg(figure)
        places = {"left": 0.1, "right": 0.77, "top": 0.9, "bottom": 0.13}
        _fill(figure.subplots(gridspec_kw=places), found)
        figure.savefig(path, dpi=_DOTS_PER_INCH)


def _fill(axes: Axes, found: Accounted) -> None:
    drawn = {sampling: points for sampling, points in found.curves.items() if points}
    for sampling, points in drawn.items():
        marks.plot(axes, ([at for at, _ in points], [eps for _, eps in points]), LOOKS[sampling])
    values = [epsilon for points in drawn.values() for _, epsilon in points]
    last = max(at for points in drawn.values() for at, _ in points)
    marks.log_x(axes, 1, max(last, 2))
    marks.log_y(axes, min(values) / _ROOM, max(values) * _ROOM)
    run = found.guarantee
    axes.set_xlabel("epochs")
    axes.set_ylabel(f"ε at δ = {plain(run.delta)}")
    batches = f" in batches of {run.batch:,}" if run.batch > 1 else ""
    noise = f"noise multiplier {plain(run.noise_multiplier)}"
    axes.set_title(f"{counted(run.n, 'example')}{batches}, {noise}")
    marks.label_ends(axes, gap=0.055)

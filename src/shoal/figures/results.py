"""One result as a figure: a plan, a test, its power, an audit, a training run.

The ending of the file's name says which format is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.explain.text import down, plain, up
from shoal.figures import marks, style, testing_power
from shoal.figures.style import Look
from shoal.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from shoal.auditing import Audit, Evidence
    from shoal.learning import LearningGuarantee
    from shoal.planning import Plan
    from shoal.testing import Verdict
    from shoal.testing.study import Powers

Points = Sequence[tuple[int, float]]
_DOTS_PER_INCH = 160
_BARS = 60  # of simulated statistics
_PANEL_INCHES = 5.6
_HEADROOM = 1.3  # above the tallest bar, for the legend
_MARGIN = 1.5  # above and below curves
_SAMPLINGS = {
    "permutation": Look("permutation", style.BLUE, style.SOLID, 2.4),
    "replacement": Look("with replacement", style.VERMILION, style.SOLID, 1.8),
    "poisson": Look("Poisson (add/remove)", style.GREEN, style.SOLID, 1.8),
    "fixed": Look("fixed order", style.QUIET, style.DASHED, 1.4),
}


def write(
    path: Path,
    fill: Callable[[list[Axes]], None],
    *,
    size: tuple[float, float] = (8.0, 4.6),
    right: float | None = None,
    panels: int = 1,
) -> None:
    """Write what ``fill`` draws; ``right`` is where panels end that have labels beside them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    places = None
    if right is not None:
        places = {"left": 0.1, "right": right, "top": 0.89, "bottom": 0.13}
    with style.applied():
        figure = Figure(figsize=size, layout="constrained" if places is None else None)
        FigureCanvasAgg(figure)
        fill(list(figure.subplots(1, panels, squeeze=False, gridspec_kw=places)[0]))
        figure.savefig(path, dpi=_DOTS_PER_INCH)


def plan(made: Plan, path: Path) -> None:
    """The error of each option, between a trusted curator and no shuffler."""
    possible = sum(each.errors is not None for each in made.options)
    write(path, lambda axes: _plan(axes[0], made), size=(8.0, 1.6 + 0.36 * possible))


def _plan(axes: Axes, made: Plan) -> None:
    names: list[str] = []
    for each in made.options:
        if each.errors is None:
            continue
        local, error, place = each.local_epsilon, each.errors.l2, len(names)
        sends = f"{each.messages or 1.0:.3g} messages"
        how = sends if local is None or math.isinf(local) else f"ε₀ = {local:.2f}"
        names.append(f"{each.name}, {how}")
        color = style.FAINT if place else style.BLUE
        axes.plot([error], [place], "o", color=color, markersize=8)
        text = f"{error:,.3g}"
        axes.annotate(text, (error, place), (9, -3), textcoords="offset points", fontsize=8.5)
    for name, reference in (("trusted curator", made.central), ("no shuffler", made.local)):
        if reference is not None:
            axes.axvline(reference.l2, color=style.QUIET, linestyle="--", linewidth=1)
            where, transform = (reference.l2, 1.0), axes.get_xaxis_transform()
            axes.annotate(name, where, (3, 3), xycoords=transform, textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.2)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    question = made.question
    target = f"ε = {plain(question.epsilon)}, δ = {plain(question.delta)}"
    counts = question.categories is not None
    axes.set_xlabel("expected L2 error of the counts" if counts else "error of the sum")
    axes.set_title(f"{question.n:,} people at {target}", pad=22)


def test(verdict: Verdict, path: Path) -> None:
    """The histogram of simulated statistics, the threshold, and the statistic that was seen."""
    write(path, lambda axes: _test(axes[0], verdict), right=0.97)


def _test(axes: Axes, verdict: Verdict) -> None:
    axes.hist(verdict.null, bins=_BARS, color=style.FAINT, linewidth=0)
    axes.axvline(verdict.threshold, color=style.QUIET, linestyle="--", linewidth=1.2)
    color = style.VERMILION if verdict.rejected else style.BLUE
    axes.axvline(verdict.statistic, color=color, linewidth=2.2)
    for x, text, shade, height in (
        (verdict.threshold, "threshold", style.QUIET, 0.9),
        (verdict.statistic, "seen", color, 1),
    ):
        axes.annotate(
            text,
            (x, height),
            (4, -10),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            color=shade,
        )
    axes.margins(x=0.08)
    axes.set_xlabel("statistic T")
    axes.set_ylabel(f"of {verdict.simulations:,} simulated batches")
    axes.set_title(verdict.words.partition(", at level")[0])


def power(powers: Powers, path: Path) -> None:
    """Power against the number of people, by model."""

    def fill(axes: list[Axes]) -> None:
        testing_power.fill(axes[0], Table.of(powers.rows()))
        axes[0].set_title(powers.document().title)

    write(path, fill, right=0.74)


def training(run: LearningGuarantee, curves: Mapping[str, Points], path: Path) -> None:
    """ε against epochs, a curve for each kind of sampling."""

    def fill(panels: list[Axes]) -> None:
        (axes,) = panels
        for sampling, points in curves.items():
            if points:
                epochs, epsilons = zip(*points, strict=True)
                marks.plot(axes, (list(epochs), list(epsilons)), _SAMPLINGS[sampling])
        everything = [point for points in curves.values() for point in points]
        values = [epsilon for _, epsilon in everything]
        marks.log_x(axes, 1, max(2, *(epochs for epochs, _ in everything)))
        marks.log_y(axes, min(values) / _MARGIN, max(values) * _MARGIN)
        axes.set_xlabel("epochs")
        axes.set_ylabel(f"ε at δ = {plain(run.delta)}")
        axes.set_title(f"{run.size}, noise multiplier {plain(run.noise_multiplier)}")
        marks.label_ends(axes, gap=0.055)

    write(path, fill, right=0.77)


def audit(result: Audit, path: Path) -> None:
    """The statistic on both data sets, a panel for each claim."""
    claims = result.evidences

    def fill(panels: list[Axes]) -> None:
        for axes, evidence in zip(panels, claims, strict=True):
            _claim(axes, evidence, result.n)

    write(path, fill, size=(_PANEL_INCHES * len(claims) + 1.0, 4.6), panels=len(claims))


def _claim(axes: Axes, evidence: Evidence, n: int) -> None:
    edges = evidence.edges
    # Which bins are in the event: the threshold is one of their edges.
    inside = ((edges[1:] + edges[:-1]) / 2 >= evidence.threshold) == evidence.at_least
    tallest = 0.0
    for world, color in enumerate((style.BLUE, style.VERMILION)):
        runs, hits = evidence.runs[world], evidence.inside[world]
        fractions = evidence.histograms[world] / max(runs, 1)
        tallest = max(tallest, float(fractions.max()))
        label = f"{('first', 'second')[world]} data set: {hits:,} of {runs:,} in the event"
        axes.stairs(fractions, edges, color=color, linewidth=1.4, label=label)
        beyond = np.where(inside, fractions, 0.0)
        axes.stairs(beyond, edges, fill=True, color=color, alpha=0.22, linewidth=0)
    top, threshold = tallest * 1.05, evidence.threshold
    axes.vlines(threshold, 0, top, color=style.QUIET, linestyle=style.DASHED, linewidth=1.2)
    side, align = (4, "left") if evidence.at_least else (-4, "right")
    axes.annotate(
        evidence.event,
        (threshold, top),
        xytext=(side, -2),
        textcoords="offset points",
        ha=align,
        fontsize=8,
        color=style.QUIET,
    )
    axes.set_xlim(float(edges[0]), float(edges[-1]))
    axes.set_ylim(0, tallest * _HEADROOM)
    verdict = "VIOLATED" if evidence.violated else "not refuted"
    bound = f"claimed ε = {up(evidence.claimed)}, at least {down(evidence.lower)}: {verdict}"
    axes.set_title(f"{evidence.about(n)}\n{bound}")
    axes.set_xlabel(evidence.statistic)
    axes.set_ylabel("fraction of the runs")
    axes.legend(loc="upper left", handlelength=1.2)

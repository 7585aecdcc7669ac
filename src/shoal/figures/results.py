"""One result as a page: a plan, a walk, a test, its power, a training run, an audit.

The ending of the file's name says which format is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.explain import plots
from shoal.explain.plots import Axis, Look
from shoal.explain.text import plain
from shoal.figures import testing_power

if TYPE_CHECKING:
    from shoal.auditing import Audit
    from shoal.learning import LearningGuarantee
    from shoal.network.walk_table import WalkTable
    from shoal.planning import Plan
    from shoal.testing import Verdict
    from shoal.testing.study import Powers

_BARS = 60  # of simulated statistics
_PANEL_INCHES = 5.6
_MARGIN = 1.5  # above and below curves
_SAMPLINGS = {
    "permutation": Look("permutation", plots.BLUE, plots.SOLID, 2.4),
    "replacement": Look("with replacement", plots.VERMILION, plots.SOLID, 1.8),
    "poisson": Look("Poisson (add/remove)", plots.GREEN, plots.SOLID, 1.8),
    "fixed": Look("fixed order", plots.QUIET, plots.DASHED, 1.4),
}


def plan(made: Plan, path: Path) -> None:
    """The error of each option, between a trusted curator and no shuffler."""
    possible = sum(option.errors is not None for option in made.options)
    setting = made.only.ranking.setting
    target = f"ε = {plain(setting.epsilon)}, δ = {plots.tick(setting.delta)}"
    how = f"{setting.n:,} people, {target}. Each at the largest ε₀, or with the least noise,"
    plots.save(
        path,
        "The error of each option",
        made.plot,
        caption=f"{how} that keeps this; in blue the recommended one: {made.reason}.",
        size=(8.0, 2.2 + 0.34 * possible),
    )


def walk(walked: WalkTable, path: Path) -> None:
    """ε against rounds, between no amplification and a central shuffler."""
    stated, graph = walked.guarantee, walked.walk.graph
    caption = (
        f"ε₀ = {plain(stated.local_epsilon)}, δ = {plots.tick(stated.delta)}; {stated.theorem}. "
        f"{graph.edges:,} edges; {stated.trust}."
    )
    title = f"{graph.n:,} people pass reports on: ε against rounds"
    plots.save(path, title, walked.plot, caption=caption)


def test(verdict: Verdict, path: Path) -> None:
    """The histogram of simulated statistics, the threshold, and the statistic that was seen."""

    def fill(axes: plots.Axes) -> None:
        color = plots.VERMILION if verdict.rejected else plots.BLUE
        axes.hist(verdict.null, bins=_BARS, color=plots.FAINT, linewidth=0)
        plots.tidy(axes, "y")
        axes.margins(x=0.08)
        axes.set(xlabel="statistic T", ylabel=f"of {verdict.simulations:,} simulated batches")
        plots.upright(axes, verdict.threshold, "threshold", plots.QUIET, plots.DASHED, 0.9)
        plots.upright(axes, verdict.statistic, "seen", color)

    plots.save(path, verdict.words.partition(", at level")[0], fill)


def power(powers: Powers, path: Path) -> None:
    """Power against the number of people, by model."""
    document = powers.document()
    sentences = " ".join(document.sentences)
    fill = partial(testing_power.fill, rows=powers.rows())
    plots.save(path, document.title, fill, caption=sentences)


def training(
    run: LearningGuarantee, curves: Mapping[str, Sequence[tuple[int, float]]], path: Path
) -> None:
    """ε against epochs, a curve for each kind of sampling."""
    points = [point for curve in curves.values() for point in curve]
    values = [epsilon for _, epsilon in points]
    epochs = Axis("epochs", (1, max(2, *(epoch for epoch, _ in points))))
    limits = min(values) / _MARGIN, max(values) * _MARGIN

    def fill(axes: plots.Axes) -> None:
        plots.frame(axes, epochs, Axis(f"ε at δ = {plots.tick(run.delta)}", limits))
        for sampling, curve in curves.items():
            xs, ys = [x for x, _ in curve], [y for _, y in curve]
            plots.plot(axes, (xs, ys), _SAMPLINGS[sampling])
        plots.label_ends(axes)

    plots.save(path, f"{run.size}, noise multiplier {plain(run.noise_multiplier)}", fill)


def audit(result: Audit, path: Path) -> None:
    """The statistic on both data sets, a panel for each claim."""
    fills = [partial(result.plot, claim=evidence.claim) for evidence in result.evidences]
    size = (max(plots.PAGE[0], _PANEL_INCHES * len(fills) + 1.0), 4.9)
    plots.save(path, "What an adversary sees of two neighbouring data sets", *fills, size=size)

"""``shoal sgd``: how private noisy gradient descent is, by how its steps come by examples."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from shoal.cli import files
from shoal.cli.app import ACCOUNT, app
from shoal.cli.options import (
    OneOf,
    Options,
    Required,
    Rule,
    choice,
    command,
    flag,
    number,
    option,
    whole,
)
from shoal.cli.render import print_json, reporting, show

if TYPE_CHECKING:
    from shoal.learning import LearningGuarantee

Curves = dict[str, tuple[tuple[int, float], ...]]

_RUN = "The training run"
_QUESTION = "What is asked: --noise or --epsilon is required"
_OUT = "What to make of it"
_DOTS_PER_INCH = 160
_MARGIN = 1.5  # above and below the curves


class Kind(StrEnum):
    """How steps come by their examples; ``all`` is every way."""

    PERMUTATION = "permutation"
    REPLACEMENT = "replacement"
    POISSON = "poisson"
    FIXED = "fixed"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class SgdOptions(Options):
    """The training run, and what is asked about it."""

    n: Annotated[int | None, whole("How many examples; required.", _RUN)] = None
    epochs: Annotated[int, whole("Passes over them.", _RUN)] = 1
    batch: Annotated[int, whole("Examples in a step.", _RUN)] = 1
    sampling: Annotated[
        Kind, choice("How steps come by their examples; all compares only.", _RUN, Kind)
    ] = Kind.PERMUTATION
    drop_last: Annotated[
        bool, flag("--drop-last", "Leave out a last batch that is not full.", _RUN)
    ] = False
    noise: Annotated[
        float | None,
        number("Deviation of the noise over the clipping norm; the answer is ε.", _QUESTION),
    ] = None
    epsilon: Annotated[float | None, number("ε; the answer is the noise.", _QUESTION)] = None
    delta: Annotated[
        float | None,
        number("δ, with either; the smaller of 1e-6 and 1/(10 n) if not given.", _QUESTION),
    ] = None
    plot: Annotated[Path | None, option("Draw ε against epochs (.svg, .png).", _OUT, "FILE")] = None
    json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False

    rules: ClassVar[tuple[Rule, ...]] = (
        Required("n", "how many examples there are"),
        OneOf(("noise", "epsilon"), "--noise to get ε, --epsilon to get the noise"),
    )
    arguments: ClassVar[dict[str, str]] = {"noise_multiplier": "noise"}


@command(app, ACCOUNT)
def sgd(options: SgdOptions) -> None:
    """How private noisy gradient descent is: permuted, sampled or in a fixed order.

    Gradients are clipped, noise is added in every step, and all iterates may be published.
    """
    files.check(plot=options.plot)
    run = options.only("n", "epochs", "batch", "delta", "drop_last")
    sampling = None if options.sampling is Kind.ALL else options.sampling.value
    with reporting("accounting") as progress:
        from shoal.learning import Sampling, by_epochs, compare

        later = 0 if options.plot is None else len(Sampling)
        comparison = compare(
            noise_multiplier=options.noise,
            epsilon=options.epsilon,
            progress=lambda done, total: progress(done, total + later),
            **run,
        )
        guarantee = comparison.guarantee(sampling)
        curves: Curves = {}
        if options.plot is not None:
            noise = guarantee.noise_multiplier
            for kind in Sampling:
                curves[kind] = by_epochs(noise_multiplier=noise, sampling=kind, **run)
    with files.together() as write:
        if options.plot is not None:
            write(options.plot, lambda path: _draw(guarantee, curves, path))
    if options.json:
        print_json(guarantee.to_dict() | comparison.to_dict())
        return
    show(comparison.document(sampling))
    if options.plot is not None:
        typer.echo(f"wrote {options.plot}")


def _draw(run: LearningGuarantee, curves: Curves, path: Path) -> None:
    """ε against epochs, a curve for each kind of sampling; the name's ending says which format."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from shoal.explain.text import plain
    from shoal.figures import marks, style
    from shoal.figures.style import Look

    looks = {
        "permutation": Look("permutation", style.BLUE, style.SOLID, 2.4),
        "replacement": Look("with replacement", style.VERMILION, style.SOLID, 1.8),
        "poisson": Look("Poisson (add/remove)", style.GREEN, style.SOLID, 1.8),
        "fixed": Look("fixed order", style.QUIET, style.DASHED, 1.4),
    }
    with style.applied():
        figure = Figure(figsize=(8.0, 4.6))
        FigureCanvasAgg(figure)
        places = {"left": 0.1, "right": 0.77, "top": 0.9, "bottom": 0.13}
        axes = figure.subplots(gridspec_kw=places)
        for sampling, points in curves.items():
            if points:
                epochs, epsilons = zip(*points, strict=True)
                marks.plot(axes, (list(epochs), list(epsilons)), looks[sampling])
        everything = [point for points in curves.values() for point in points]
        values = [epsilon for _, epsilon in everything]
        marks.log_x(axes, 1, max(2, *(epochs for epochs, _ in everything)))
        marks.log_y(axes, min(values) / _MARGIN, max(values) * _MARGIN)
        axes.set_xlabel("epochs")
        axes.set_ylabel(f"ε at δ = {plain(run.delta)}")
        axes.set_title(f"{run.size}, noise multiplier {plain(run.noise_multiplier)}")
        marks.label_ends(axes, gap=0.055)
        figure.savefig(path, dpi=_DOTS_PER_INCH)

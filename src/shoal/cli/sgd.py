"""``shoal sgd``: how private noisy gradient descent is, by how its steps come by examples."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

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

Curves = dict[str, tuple[tuple[int, float], ...]]

_RUN = "The training run"
_QUESTION = "What is asked: --noise or --epsilon is required"
_OUT = "What to make of it"


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
    delta: Annotated[float, number("δ, with either.", _QUESTION)] = 1e-6
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
            from shoal.figures import results

            write(options.plot, lambda path: results.training(guarantee, curves, path))
    if options.json:
        print_json(guarantee.to_dict() | comparison.to_dict())
        return
    show(comparison.document(sampling))
    if options.plot is not None:
        typer.echo(f"wrote {options.plot}")

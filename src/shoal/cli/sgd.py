"""``shoal sgd``: how private noisy gradient descent is, by how its steps come by examples."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import files
from shoal.cli.options import choice, flag, number, option, whole
from shoal.cli.render import print_json, reporting
from shoal.cli.sgd_asked import Kind, SgdAsked, in_options

_RUN = "The training run"
_WANTED = "What is asked: --noise or --epsilon is required"
_OUT = "What to make of it"


def sgd(
    *,
    n: Annotated[int | None, whole("How many examples; required.", _RUN)] = None,
    epochs: Annotated[int, whole("Passes over them.", _RUN)] = 1,
    batch: Annotated[int, whole("Examples in a step.", _RUN)] = 1,
    sampling: Annotated[
        Kind, choice("How steps come by their examples; all compares only.", _RUN, Kind)
    ] = Kind.PERMUTATION,
    drop_last: Annotated[
        bool, flag("--drop-last", "Leave out a last batch that is not full.", _RUN)
    ] = False,
    noise: Annotated[
        float | None,
        number("Deviation of the noise over the clipping norm; the answer is ε.", _WANTED),
    ] = None,
    epsilon: Annotated[float | None, number("ε; the answer is the noise.", _WANTED)] = None,
    delta: Annotated[float, number("δ, with either.", _WANTED)] = 1e-6,
    plot: Annotated[
        Path | None, option("Draw ε against epochs (.svg, .png).", _OUT, "FILE")
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """How private noisy gradient descent is: permuted, sampled or in a fixed order.

    Gradients are clipped, noise is added in every step, and all iterates may be published.
    """
    asked = SgdAsked(
        n=n,
        noise=noise,
        epsilon=epsilon,
        epochs=epochs,
        batch=batch,
        delta=delta,
        sampling=sampling,
        drop_last=drop_last,
        plot=plot,
    )
    with in_options():
        asked.check()
    files.check(plot=plot)
    with in_options(), reporting("accounting") as progress:
        from shoal.cli import sgd_answer, sgd_show

        found = sgd_answer.answer(asked, progress)
    with files.together() as write:
        if plot is not None:
            from shoal.cli import sgd_figure

            write(plot, lambda path: sgd_figure.draw(found, path))
    if as_json:
        print_json(found.to_dict())
        return
    sgd_show.show(found)
    if plot is not None:
        typer.echo(f"wrote {plot}")

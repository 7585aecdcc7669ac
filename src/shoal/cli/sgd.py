"""``shoal sgd``: how private noisy gradient descent is, by how its steps come by examples."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from shoal.cli import files
from shoal.cli.app import ACCOUNT, app
from shoal.cli.options import OneOf, Options, Required, command, option
from shoal.cli.render import answer, working

_RUN = "The training run"
_QUESTION = "What to compute: --noise or --epsilon is required"


# How steps come by their examples; ``all`` is every way.
Kind = Literal["permutation", "replacement", "poisson", "fixed", "all"]


class SgdOptions(Options):
    """The training run, and what is asked about it."""

    n: int | None = option("Number of examples; required.", _RUN)
    epochs: int = option("Number of passes over the examples.", _RUN, default=1)
    batch: int = option("Number of examples in a step.", _RUN, default=1)
    sampling: Kind = option(
        "How each step picks its examples; all compares the kinds.", _RUN, default="permutation"
    )
    drop_last: bool = option("Drop a last batch that is not full.", _RUN)
    noise: float | None = option(
        "Noise multiplier: standard deviation of the noise over the clipping norm; the "
        "answer is ε.",
        _QUESTION,
        keyword="noise_multiplier",
    )
    epsilon: float | None = option("ε; the answer is the noise multiplier.", _QUESTION)
    delta: float | None = option("δ; default: the smaller of 1e-6 and 1/(10 n).", _QUESTION)
    plot: Path | None = option("Draw ε against epochs (.svg, .png).")

    rules = (
        Required("n", "the number of examples"),
        OneOf(("noise", "epsilon"), "--noise to get ε, --epsilon to get the noise"),
    )


@command(app, ACCOUNT)
def sgd(options: SgdOptions) -> None:
    """How private noisy gradient descent is: permuted, sampled or in a fixed order.

    Gradients are clipped, noise is added in every step, and all iterates may be published.
    """
    files.check(plot=options.plot)
    run = options.only("n", "epochs", "batch", "delta", "drop_last")
    sampling = None if options.sampling == "all" else options.sampling
    with working("accounting") as progress:
        from shoal.learning import Sampling, by_epochs, compare

        later = 0 if options.plot is None else len(Sampling)
        comparison = compare(
            **run,
            **options.only("noise", "epsilon"),
            progress=lambda done, total: progress(done, total + later),
        )
        guarantee = comparison.guarantee(sampling)
        if options.plot is not None:
            noise = guarantee.noise_multiplier
            curves = {
                kind.value: by_epochs(noise_multiplier=noise, sampling=kind, **run)
                for kind in Sampling
            }
            files.write(files.figure(options.plot, "training", guarantee, curves))
    values = guarantee.to_dict() | comparison.to_dict()
    answer(options, values, comparison.document(sampling), options.plot)

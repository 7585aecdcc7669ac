"""``shoal plan``: what each device should run, and how wrong the chart will be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shoal import checks
from shoal.cli import files
from shoal.cli.app import ANALYSE, app
from shoal.cli.options import (
    Bounds,
    Excludes,
    Needs,
    OneOf,
    Options,
    Required,
    command,
    option,
    read_number,
)
from shoal.cli.render import answer, working

_TARGET = "What is wanted"
_KIND = "What people answer: one of"
_CROWD = "Who takes part"


class PlanOptions(Options):
    """The target, the question, who takes part, and what to make of the plan."""

    epsilon: float | None = option("ε that the collection may cost.", _TARGET)
    delta: float | None = option("δ; default: the smaller of 1e-6 and 1/(10 n).", _TARGET)
    local_epsilon_cap: float | None = option("Largest ε0 that one report may have.", _TARGET)
    messages_cap: float | None = option(
        "Messages that one person may send on average; default: 1, or any number with "
        "--choose. More than 1 offers protocols whose error is near a curator's and which have "
        "no local ε0.",
        _TARGET,
    )
    choose: str | None = option(
        "Recommend this option instead of the best one.", _TARGET, "NAME", keyword="name"
    )
    categories: int | None = option("One of this many answers.", _KIND)
    bounds: Bounds | None = option(
        "A number between bounds; with --bins, the bounds of the bins.", _KIND
    )
    bins: int | None = option("A number counted in this many bins, or none.", _KIND)
    quantiles: str | None = option(
        "With --bins: predict the error of these quantiles, such as 0.25,0.5.", _KIND, "Q,Q,…"
    )
    dimension: int | None = option("A vector with this many coordinates.", _KIND)
    norm: float | None = option(
        "With --dimension: largest length of a vector; default: every vector has length 1.", _KIND
    )
    n: int | None = option("How many people report: 100000 or 1e5.", _CROWD)
    honest_fraction: float | None = option("Fraction of people who follow the protocol.", _CROWD)
    participation: float | None = option(
        "Probability that a person takes part; nobody sees who does.", _CROWD
    )
    plot: Path | None = option("Draw the options (.svg, .png).")
    save: Path | None = option("Save the plan, for shoal run --plan (.json).")

    rules = (
        Required("epsilon", "what the collection may cost each person"),
        Required("n", "how many people report"),
        OneOf(
            ("categories", "bounds", "bins", "dimension"), "what people answer", unless=("bins",)
        ),
        Excludes("bins", ("categories", "dimension"), "--bins says what people answer"),
        Needs("quantiles", ("bins",), "the bins that are counted"),
        Needs("norm", ("dimension",), "the number of coordinates"),
    )


@command(app, ANALYSE)
def plan(options: PlanOptions) -> None:
    """Which randomizer each device should run for a target, and what error to expect.

    Every randomizer is tried at the largest ε0 that keeps the target. Numbers may be written 1e5.
    """
    files.check(plot=options.plot, save=options.save)
    with working("planning"):
        import shoal
        from shoal.planning.planner import messages_limit

        question = ("epsilon", "delta", "n", "categories", "bounds", "dimension", "norm")
        limits = ("local_epsilon_cap", "honest_fraction", "participation")
        arguments = options.only(*question, *limits)
        if options.bins is not None:
            arguments.pop("bounds", None)  # where the bins are does not change the plan
            arguments["categories"] = checks.count(2, bins=options.bins) + 1
        made = shoal.plan(
            **arguments,
            messages_cap=messages_limit(options.messages_cap, options.choose),
        )
        if options.choose is not None:
            made = made.choose(options.choose)
    values, document = made.to_dict(), made.document()
    if options.quantiles is not None:
        levels = [read_number(part.strip()) for part in options.quantiles.split(",")]
        errors = {level: made.quantile_error(level) for level in levels}
        values["quantile_errors"] = [
            {"quantile": level, "people": error} for level, error in errors.items()
        ]
        lines = (
            f"The count up to the {level:g} quantile will be off by about {error:,.3g} people."
            for level, error in errors.items()
        )
        document = replace(document, sentences=(*document.sentences, *lines))
    files.write(files.figure(options.plot, "plan", made), (options.save, made.save))
    answer(options, values, document)

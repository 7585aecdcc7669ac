"""``shoal plan``: what each device should run, and how wrong the chart will be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from shoal.cli import files
from shoal.cli.app import ANALYSE, app
from shoal.cli.options import (
    Bounds,
    Needs,
    OneOf,
    Options,
    Required,
    Rule,
    command,
    flag,
    number,
    option,
    read_bounds,
    whole,
)
from shoal.cli.render import print_json, show, working

_TARGET = "What is wanted"
_KIND = "What is asked: one of"
_CROWD = "Who takes part"
_OUT = "What to make of it"


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """The target, the question, who takes part, and what to make of the plan."""

    epsilon: Annotated[float | None, number("ε that the collection may cost.", _TARGET)] = None
    delta: Annotated[float | None, number("δ; 1e-6 if not given.", _TARGET)] = None
    local_epsilon_cap: Annotated[
        float | None, number("The most that ε0 of one report may be.", _TARGET)
    ] = None
    messages_cap: Annotated[
        float | None,
        number("Messages one person may send on average; above 1 brings in protocols.", _TARGET),
    ] = None
    choose: Annotated[
        str | None, option("Put this option first instead of the best.", _TARGET, "NAME")
    ] = None
    categories: Annotated[int | None, whole("One of so many answers.", _KIND)] = None
    bounds: Annotated[
        Bounds | None, option("A number between bounds.", _KIND, "LOW,HIGH", read_bounds)
    ] = None
    dimension: Annotated[int | None, whole("A vector of so many coordinates.", _KIND)] = None
    norm: Annotated[
        float | None,
        number("With --dimension: vectors are at most this long (else of length 1).", _KIND),
    ] = None
    n: Annotated[int | None, whole("How many people report: 100000 or 1e5.", _CROWD)] = None
    honest_fraction: Annotated[
        float | None, number("The fraction of them that follows the protocol.", _CROWD)
    ] = None
    participation: Annotated[
        float | None, number("Each takes part with this probability, unseen.", _CROWD)
    ] = None
    plot: Annotated[Path | None, option("Draw the options (.svg, .png).", _OUT, "FILE")] = None
    save: Annotated[
        Path | None, option("Save the plan, for shoal run --plan (.json).", _OUT, "FILE")
    ] = None
    json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False

    rules: ClassVar[tuple[Rule, ...]] = (
        Required("epsilon", "what the collection may cost each person"),
        Required("n", "how many people report"),
        OneOf(("categories", "bounds", "dimension"), "what is asked"),
        Needs("norm", ("dimension",), "how long a vector may be"),
    )
    arguments: ClassVar[dict[str, str]] = {"name": "choose"}


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
        made = shoal.plan(
            **options.only(*question, *limits),
            messages_cap=messages_limit(options.messages_cap, options.choose),
        )
        if options.choose is not None:
            made = made.choose(options.choose)
        values = made.to_dict()
    with files.together() as write:
        if options.plot is not None:
            from shoal.figures import results

            write(options.plot, lambda path: results.plan(made, path))
        if options.save is not None:
            write(options.save, made.save)
    if options.json:
        print_json(values)
    else:
        show(made.document())

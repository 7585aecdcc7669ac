"""``shoal plan``: what each device should run, and how wrong the chart will be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from shoal.cli import files, options
from shoal.cli.options import Bounds, RefusedError, flag, number, option, whole
from shoal.cli.render import print_json, working

_WANTED = "What is wanted"
_ASKED = "What is asked: one of"
_CROWD = "Who takes part"
_OUT = "What to make of it"


def plan(
    *,
    epsilon: Annotated[float | None, number("ε that the collection may cost.", _WANTED)] = None,
    delta: Annotated[float, number("δ.", _WANTED)] = 1e-6,
    local_epsilon_cap: Annotated[
        float | None, number("The most that ε0 of one report may be.", _WANTED)
    ] = None,
    messages_cap: Annotated[
        float | None,
        number("Messages one person may send on average; above 1 brings in protocols.", _WANTED),
    ] = None,
    choose: Annotated[
        str | None, option("Put this option first instead of the best.", _WANTED, "NAME")
    ] = None,
    categories: Annotated[int | None, whole("One of so many answers.", _ASKED)] = None,
    bounds: Annotated[
        Bounds | None,
        option("A number between bounds.", _ASKED, "LOW,HIGH", options.read_bounds),
    ] = None,
    dimension: Annotated[int | None, whole("A vector of so many coordinates.", _ASKED)] = None,
    norm: Annotated[
        float | None,
        number("With --dimension: vectors are at most this long (else of length 1).", _ASKED),
    ] = None,
    n: Annotated[int | None, whole("How many people report: 100000 or 1e5.", _CROWD)] = None,
    honest_fraction: Annotated[
        float, number("The share of them that follows the protocol.", _CROWD)
    ] = 1.0,
    participation: Annotated[
        float, number("Each takes part with this probability, unseen.", _CROWD)
    ] = 1.0,
    plot: Annotated[Path | None, option("Draw the options (.svg, .png).", _OUT, "FILE")] = None,
    save: Annotated[
        Path | None, option("Save the plan, for shoal run --plan (.json).", _OUT, "FILE")
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Which randomizer each device should run for a target, and what error to expect.

    Every randomizer is tried at the largest ε0 that keeps the target. Numbers may be written 1e5.
    """
    if epsilon is None:
        raise RefusedError("--epsilon is missing: what the collection may cost each person")
    if n is None:
        raise RefusedError("--n is missing: how many people report")
    _check(categories, bounds, dimension)
    if norm is not None and dimension is None:
        raise RefusedError("--norm goes with --dimension: how long a vector may be")
    files.check(plot=plot, save=save)
    with working("planning"):
        import shoal
        from shoal.cli import plan_figure, plan_show
        from shoal.engines.limits import Wish

        found = shoal.plan(
            epsilon=epsilon,
            delta=delta,
            n=n,
            categories=categories,
            bounds=bounds,
            dimension=dimension,
            norm=norm,
            local_epsilon_cap=local_epsilon_cap,
            honest_fraction=honest_fraction,
            participation=participation,
            messages_cap=Wish(messages_cap, choose).most,
        )
        if choose is not None:
            found = found.choose(choose)
        values = found.to_dict()
    with files.together() as write:
        if plot is not None:
            write(plot, lambda path: plan_figure.draw(found, path))
        if save is not None:
            write(save, found.save)
    if as_json:
        print_json(values)
    else:
        plan_show.show(found)


def _check(categories: int | None, bounds: Bounds | None, dimension: int | None) -> None:
    if sum(kind is not None for kind in (categories, bounds, dimension)) != 1:
        raise RefusedError("give one of --categories, --bounds and --dimension: what is asked")

"""``shoal amplify``: the (epsilon, delta) of shuffled reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from shoal.cli import parsing
from shoal.cli.asked import Asked, Composition, Unknown
from shoal.cli.output import working
from shoal.cli.parsing import Choice

_DEVICES = "What each device runs"
_CROWD = "Who takes part"
_QUESTION = "What is asked"


def _number(text: str, panel: str) -> OptionInfo:
    return _option(text, panel, "NUMBER", parsing.number)


def _whole(text: str, panel: str) -> OptionInfo:
    return _option(text, panel, "WHOLE", parsing.whole)


def _choice(text: str, panel: str, choices: type[Choice]) -> OptionInfo:
    return _option(text, panel, "|".join(choices), parsing.one_of(choices))


def _option(
    text: str, panel: str, metavar: str, parser: Callable[[str], Any] | None = None
) -> OptionInfo:
    made: OptionInfo = typer.Option(
        help=text, rich_help_panel=panel, metavar=metavar, parser=parser
    )
    return made


def amplify(
    *,
    local_epsilon: Annotated[
        float | None, _number("ε0 of each report by itself. With --table: checked.", _DEVICES)
    ] = None,
    local_delta: Annotated[float | None, _number("Its δ0, if it has one.", _DEVICES)] = None,
    deletion_epsilon: Annotated[
        float | None,
        _number("Instead of ε0: every report is this close to one reference.", _DEVICES),
    ] = None,
    randomizer: Annotated[
        str | None, _option("A known randomizer: grr, with --k answers.", _DEVICES, "NAME")
    ] = None,
    k: Annotated[int | None, _whole("How many answers there are.", _DEVICES)] = None,
    table: Annotated[
        Path | None,
        _option("Your own: probabilities, a row per input (.csv, .npy).", _DEVICES, "FILE"),
    ] = None,
    n: Annotated[int | None, _whole("How many people report: 100000 or 1e5.", _CROWD)] = None,
    honest_fraction: Annotated[
        float | None, _number("The share of them that follows the protocol.", _CROWD)
    ] = None,
    honest_n: Annotated[int | None, _whole("The same, as a number of people.", _CROWD)] = None,
    participation: Annotated[
        float | None, _number("Each takes part with this probability, unseen.", _CROWD)
    ] = None,
    rounds: Annotated[int | None, _whole("How often everybody reports.", _CROWD)] = None,
    delta: Annotated[
        float | None, _number("δ; the answer is ε. 1e-6 if not given.", _QUESTION)
    ] = None,
    epsilon: Annotated[float | None, _number("ε; the answer is δ.", _QUESTION)] = None,
    solve: Annotated[
        Unknown | None,
        _choice("Find ε0 or n for the target --epsilon, --delta.", _QUESTION, Unknown),
    ] = None,
    bound: Annotated[
        str | None,
        _option("A published bound by name: see --all. The tightest otherwise.", _QUESTION, "NAME"),
    ] = None,
    all_bounds: Annotated[
        bool,
        typer.Option(
            "--all", help="Every published bound, tightest first.", rich_help_panel=_QUESTION
        ),
    ] = False,
    composition: Annotated[
        Composition | None,
        _choice("How --rounds are composed; pld if not given.", _QUESTION, Composition),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON.", rich_help_panel=_QUESTION)
    ] = False,
) -> None:
    """How private reports become when they are shuffled.

    Say what each device runs and how many people report. Numbers may be written 1e5.
    """
    asked = Asked(
        local_epsilon=local_epsilon,
        local_delta=local_delta,
        deletion_epsilon=deletion_epsilon,
        n=n,
        delta=delta,
        epsilon=epsilon,
        randomizer=randomizer,
        k=k,
        table=table,
        bound=bound,
        all=all_bounds,
        rounds=rounds,
        composition=composition,
        participation=participation,
        honest_fraction=honest_fraction,
        honest_n=honest_n,
        solve=solve,
    )
    asked.check()
    with working("computing"):
        from shoal.cli import answers

        found = answers.answer(asked)
    found.show(as_json=as_json)

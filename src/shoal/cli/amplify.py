"""``shoal amplify``: the (epsilon, delta) of shuffled reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from shoal.cli import parsing
from shoal.cli.asked import Asked, Composition, Unknown
from shoal.cli.options import choice, flag, number, option, whole
from shoal.cli.output import working
from shoal.cli.parsing import Bounds

_DEVICES = "What each device runs"
_CROWD = "Who takes part"
_QUESTION = "What is asked"


def amplify(
    *,
    local_epsilon: Annotated[
        float | None, number("ε0 of each report by itself. With --table: checked.", _DEVICES)
    ] = None,
    local_delta: Annotated[float | None, number("Its δ0, if it has one.", _DEVICES)] = None,
    deletion_epsilon: Annotated[
        float | None,
        number("Instead of ε0: every report is this close to one reference.", _DEVICES),
    ] = None,
    randomizer: Annotated[
        str | None,
        option(
            "A known randomizer: grr, hadamard, laplace, … (--k or --bounds).", _DEVICES, "NAME"
        ),
    ] = None,
    k: Annotated[
        int | None, whole("How many answers there are; for vectors, the dimension.", _DEVICES)
    ] = None,
    bounds: Annotated[
        Bounds | None,
        option(
            "Bounds of a randomizer of numbers; 0,1 if not given.",
            _DEVICES,
            "LOW,HIGH",
            parsing.bounds,
        ),
    ] = None,
    table: Annotated[
        Path | None,
        option("Your own: probabilities, a row per input (.csv, .npy).", _DEVICES, "FILE"),
    ] = None,
    n: Annotated[int | None, whole("How many people report: 100000 or 1e5.", _CROWD)] = None,
    honest_fraction: Annotated[
        float | None, number("The share of them that follows the protocol.", _CROWD)
    ] = None,
    honest_n: Annotated[int | None, whole("The same, as a number of people.", _CROWD)] = None,
    participation: Annotated[
        float | None, number("Each takes part with this probability, unseen.", _CROWD)
    ] = None,
    rounds: Annotated[int | None, whole("How often everybody reports.", _CROWD)] = None,
    delta: Annotated[
        float | None, number("δ; the answer is ε. 1e-6 if not given.", _QUESTION)
    ] = None,
    epsilon: Annotated[float | None, number("ε; the answer is δ.", _QUESTION)] = None,
    solve: Annotated[
        Unknown | None,
        choice("Find ε0 or n for the target --epsilon, --delta.", _QUESTION, Unknown),
    ] = None,
    bound: Annotated[
        str | None,
        option("A published bound by name: see --all. The tightest otherwise.", _QUESTION, "NAME"),
    ] = None,
    all_bounds: Annotated[
        bool,
        flag("--all", "Every published bound, tightest first.", _QUESTION),
    ] = False,
    composition: Annotated[
        Composition | None,
        choice("How --rounds are composed; pld if not given.", _QUESTION, Composition),
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _QUESTION)] = False,
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
        bounds=bounds,
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

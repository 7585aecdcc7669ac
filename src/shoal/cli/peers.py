"""``shoal peers run``: real peers on this machine pass reports on, and what comes of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options
from shoal.cli.options import choice, flag, number, option, whole
from shoal.cli.peers_asked import PeersAsked
from shoal.cli.render import print_json, working
from shoal.cli.walk import Submit

_WHO = "Who takes part"
_WALK = "How reports travel"
_WHAT = "What is collected"
_OUT = "What to make of it"

peers = typer.Typer(help="Peers that pass reports on, run for real on this machine.")


class Mode(StrEnum):
    """Who draws the next peer."""

    HOP = "hop"
    ONION = "onion"


@peers.callback()
def _peers() -> None:
    """Peers that pass reports on, run for real on this machine."""


@peers.command()
def run(
    *,
    people: Annotated[
        int | None,
        typer.Option(
            "--peers",
            help="How many peers; 100 if not given.",
            metavar="WHOLE",
            parser=options.read_whole,
            rich_help_panel=_WHO,
        ),
    ] = None,
    degree: Annotated[int, whole("Neighbours of each, in a random overlay.", _WHO)] = 8,
    offline: Annotated[float, number("The chance of each to be away in a round.", _WHO)] = 0.0,
    processes: Annotated[int, whole("Processes that the peers are spread over.", _WHO)] = 1,
    rounds: Annotated[int, whole("How often reports are passed on.", _WALK)] = 16,
    mode: Annotated[
        Mode, choice("Holders draw the next peer, or origins the whole path.", _WALK, Mode)
    ] = Mode.HOP,
    hops: Annotated[
        int | None, whole("With --mode onion: steps of a path; fewer leave time.", _WALK)
    ] = None,
    cover: Annotated[int, whole("Frames on every link in every round; 0: reports.", _WALK)] = 0,
    submit: Annotated[
        Submit, choice("Holders submit all they hold, or one message.", _WALK, Submit)
    ] = Submit.ALL,
    submission_rounds: Annotated[int, whole("Attempts to submit.", _WALK)] = 4,
    data: Annotated[
        Path | None, option("A table, one peer a row; made-up answers if none.", _WHAT, "FILE")
    ] = None,
    column: Annotated[str | None, option("Its column of answers.", _WHAT, "NAME")] = None,
    categories: Annotated[
        str | None, option("The public list of answers: a,b,c or a file.", _WHAT, "LIST")
    ] = None,
    k: Annotated[int | None, whole("Instead: so many answers; 4 if not given.", _WHAT)] = None,
    randomizer: Annotated[str, option("A randomizer of answers.", _WHAT, "NAME")] = "grr",
    local_epsilon: Annotated[float, number("Its ε0.", _WHAT)] = 2.0,
    delta: Annotated[float, number("δ.", _WHAT)] = 1e-6,
    seed: Annotated[int, whole("Of the overlay and of made-up answers.", _OUT)] = 0,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Start peers on loopback sockets, let them walk, and estimate from what arrives."""
    asked = PeersAsked(
        people=people,
        degree=degree,
        offline=offline,
        processes=processes,
        rounds=rounds,
        mode=mode.value,
        hops=hops,
        cover=cover,
        submit=submit.value,
        submission_rounds=submission_rounds,
        data=data,
        column=column,
        categories=categories,
        k=k,
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        delta=delta,
        seed=seed,
    )
    asked.check()
    with working("passing reports on"):
        from shoal.cli import peers_answer, peers_show

        found = peers_answer.answer(asked)
    if as_json:
        print_json(peers_show.to_dict(found))
    else:
        peers_show.show(found)

"""``shoal loadtest``: how much one's own shuffler takes, and how quickly it answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.options import flag, number, option, whole
from shoal.cli.render import print_json

_SENT = "What is sent"
_HOW = "How"
_LIMITS = "Limits: exit with 1 if one is broken"
_OUT = "What to make of it"
BROKEN = 1


def loadtest(
    survey: Annotated[
        Path, typer.Argument(metavar="SURVEY", help="The file of a survey made for this test.")
    ],
    *,
    for_testing: Annotated[
        bool,
        flag(
            "--this-survey-is-for-testing",
            "Say so: what is sent is counted like people's reports, and nobody can tell them apart "
            "afterwards.",
            _SENT,
        ),
    ] = False,
    rate: Annotated[float, number("Requests a second.", _HOW)] = 100.0,
    seconds: Annotated[float, number("For how long.", _HOW)] = 30.0,
    connections: Annotated[int, whole("Connections, all opened before it begins.", _HOW)] = 64,
    to: Annotated[
        str | None, option("Where the shuffler is, if not where the survey says.", _HOW, "URL")
    ] = None,
    processes: Annotated[
        int | None, whole("Processes that seal reports; as many as there are cores.", _HOW)
    ] = None,
    patience: Annotated[float, number("Seconds to wait for the last answers.", _HOW)] = 30.0,
    bulk: Annotated[int, whole("Reports in each request.", _SENT)] = 1,
    forged: Annotated[
        float, number("The share of requests that look right and open nowhere.", _SENT)
    ] = 0.0,
    replays: Annotated[
        float, number("The share of requests that were sent before, byte for byte.", _SENT)
    ] = 0.0,
    p99: Annotated[
        float | None, number("Milliseconds within which 99 of 100 have an answer.", _LIMITS)
    ] = None,
    errors: Annotated[
        float | None, number("The share of requests that may be refused or lost.", _LIMITS)
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Send reports to one's own shuffler at a fixed rate, and measure how long answers take.

    Reports are sealed before the first is sent. Latencies count from when a request was due, so
    that a server which falls behind cannot hide it. Ctrl-C ends the test and shows what was
    measured.
    """
    from shoal.cli.loadtest_asked import LoadtestAsked

    asked = LoadtestAsked(
        survey=survey,
        for_testing=for_testing,
        rate=rate,
        seconds=seconds,
        connections=connections,
        to=to,
        processes=processes,
        patience=patience,
        bulk=bulk,
        forged=forged,
        replays=replays,
        p99=p99,
        errors=errors,
    )
    asked.check()
    from shoal.service.running.extras import need_server

    need_server("shoal loadtest")
    from shoal.cli import loadtest_answer, loadtest_show

    tested = loadtest_answer.answer(asked)
    if as_json:
        print_json(tested.to_dict())
    else:
        loadtest_show.show(tested)
    if tested.measured.interrupted:
        raise KeyboardInterrupt
    if tested.broken:
        raise typer.Exit(BROKEN)

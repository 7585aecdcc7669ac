"""``shoal up``: a whole collection on this machine, to try it out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.options import flag, number, option, whole

_WHAT = "What is asked"
_WHO = "Who answers"
_OUT = "What to make of it"


def up(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where it is kept; taken up again if it exists.")
    ] = Path("shoal-up"),
    *,
    simulate: Annotated[int | None, whole("Let so many invented people answer.", _WHO)] = None,
    question: Annotated[str | None, option("The question of a new survey.", _WHAT, "TEXT")] = None,
    categories: Annotated[
        str | None, option("Its answers, separated by commas.", _WHAT, "A,B,…")
    ] = None,
    epsilon: Annotated[float | None, number("What it promises to everybody; 1.", _WHAT)] = None,
    delta: Annotated[float | None, number("At this delta; 1e-6.", _WHAT)] = None,
    port: Annotated[
        int | None, whole("The shuffler's port, the analyzer's is the next; any.", _OUT)
    ] = None,
    once: Annotated[bool, flag("--once", "Stop when the result is published.", _OUT)] = False,
    as_json: Annotated[bool, flag("--json", "Print JSON; with --once.", _OUT)] = False,
) -> None:
    """Shuffler, worker and analyzer on this machine, with keys, a survey and people if wanted.

    Ctrl-C stops it; the same command goes on with the same keys, survey and results. Keys are not
    protected, and one person has both parties: for trying out, not for real answers.
    """
    began = time.monotonic()
    from shoal.cli.up_asked import UpAsked

    asked = UpAsked(
        directory=directory,
        simulate=simulate,
        question=question,
        categories=categories,
        epsilon=epsilon,
        delta=delta,
        port=port,
        once=once,
        as_json=as_json,
    )
    asked.check()
    from shoal.service.running.extras import need_server

    need_server("shoal up")
    from shoal.cli import up_answer

    up_answer.answer(asked, began)

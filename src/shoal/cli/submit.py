"""``shoal submit``: answer a survey from this machine, as a person or for the people of a table."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.options import flag, number, option, whole
from shoal.cli.render import print_json, reporting
from shoal.cli.submit_asked import Limits, SubmitAsked, nothing_sent

_ONE = "One person"
_MANY = "The people of a table"
_LIMITS = "What is allowed, whatever the survey says"
_HOW = "How it is sent"
_OUT = "What was sent before"


def submit(
    *,
    survey: Annotated[
        str | None, typer.Argument(metavar="SURVEY", help="A survey's file, or its address.")
    ] = None,
    answer: Annotated[
        str | None,
        typer.Argument(metavar="ANSWER", help="The answer; - or none reads it from the input."),
    ] = None,
    occasion: Annotated[int, whole("Which of the person's reports it is.", _ONE)] = 1,
    file: Annotated[
        Path | None, option("A table, one person per row: CSV, Parquet, Arrow.", _MANY, "FILE")
    ] = None,
    column: Annotated[str | None, option("Its column of answers.", _MANY, "NAME")] = None,
    job: Annotated[
        str | None,
        option("What these people are called; the file's path if not given.", _MANY, "NAME"),
    ] = None,
    drop_nulls: Annotated[
        bool, flag("--drop-nulls", "Leave out rows without an answer.", _MANY)
    ] = False,
    processes: Annotated[int, whole("Processes that seal.", _MANY)] = 1,
    max_local_epsilon: Annotated[
        float | None, number("ε0 of a person's reports together, at most; 8.", _LIMITS)
    ] = None,
    max_epsilon: Annotated[
        float | None, number("ε in the smallest batch, at most; 2.", _LIMITS)
    ] = None,
    max_delta: Annotated[float | None, number("δ, at most; 1e-5.", _LIMITS)] = None,
    min_crowd: Annotated[int | None, whole("Reports in a batch, at least; 100.", _LIMITS)] = None,
    max_total_epsilon: Annotated[
        float | None, number("ε over all surveys, at most; 10.", _LIMITS)
    ] = None,
    max_total_delta: Annotated[
        float | None, number("δ over all surveys, at most; 1e-4.", _LIMITS)
    ] = None,
    max_total_local_epsilon: Annotated[
        float | None, number("ε0 over all surveys that have one, at most; 40.", _LIMITS)
    ] = None,
    host: Annotated[
        list[str] | None, option("The only machines to talk to; may be repeated.", _LIMITS, "NAME")
    ] = None,
    any_local_epsilon: Annotated[
        bool,
        flag("--any-local-epsilon", "Allow reports that only the crowd hides (ε0 = ∞).", _LIMITS),
    ] = False,
    outbox: Annotated[
        Path | None, option("Where reports wait; a place of its own if not given.", _HOW, "DIR")
    ] = None,
    delay: Annotated[float, number("Leave at a random moment within so many seconds.", _HOW)] = 0.0,
    proxy: Annotated[str | None, option("Send through this proxy.", _HOW, "URL")] = None,
    compare_keys: Annotated[
        bool, flag("--compare-keys", "Compare the shuffler's keys with the analyzer's copy.", _HOW)
    ] = False,
    yes: Annotated[bool, flag("--yes", "Send without asking.", _HOW)] = False,
    flush: Annotated[bool, flag("--flush", "Try all that waits.", _OUT)] = False,
    spent: Annotated[bool, flag("--spent", "Show what was spent.", _OUT)] = False,
    opt_out: Annotated[
        bool, flag("--opt-out", "Wipe what waits, and answer no more.", _OUT)
    ] = False,
    opt_in: Annotated[bool, flag("--opt-in", "Answer again.", _OUT)] = False,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Randomize an answer on this machine, seal it, and send it until it has arrived."""
    asked = SubmitAsked(
        survey=survey,
        answer=answer,
        occasion=occasion,
        file=file,
        column=column,
        job=job,
        drop_nulls=drop_nulls,
        processes=processes,
        outbox=outbox,
        delay=delay,
        proxy=proxy,
        compare_keys=compare_keys,
        flush=flush,
        spent=spent,
        opt_out=opt_out,
        opt_in=opt_in,
        ask=not (yes or as_json),
        limits=Limits(
            local_epsilon=float("inf") if any_local_epsilon else max_local_epsilon,
            epsilon=max_epsilon,
            delta=max_delta,
            minimum=min_crowd,
            total_epsilon=max_total_epsilon,
            total_delta=max_total_delta,
            total_local_epsilon=max_total_local_epsilon,
            hosts=tuple(host) if host else None,
        ),
    )
    with ExitStack() as stack:
        with nothing_sent():
            asked = asked.checked()
            from shoal.cli import submit_answer, submit_show

            ready = stack.enter_context(submit_answer.prepared(asked))
            if ready.survey is not None and not as_json:
                submit_show.show_promise(ready.survey)
            answered = ready.confirmed()
        try:
            with reporting("sending") as progress:
                found = answered.carried_out(progress)
        except KeyboardInterrupt:
            typer.echo(answered.interrupted(), err=True)
            raise
    if as_json:
        print_json(submit_show.to_dict(found))
    else:
        submit_show.show(found)

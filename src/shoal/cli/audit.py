"""``shoal audit``: run a pipeline many times, and see whether it keeps what is claimed."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import files, options
from shoal.cli.audit_asked import AuditAsked, Values, values
from shoal.cli.options import Bounds, flag, number, option, whole
from shoal.cli.render import print_json, reporting
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.auditing import Audit

VIOLATED = 1
UNEXPECTED = 70  # as a traceback's own status is 1, which would be a verdict

_DEVICES = "What is declared"
_YOURS = "What really runs, if it is yours: one of"
_CLAIM = "What is claimed"
_HOW = "How to audit"
_OUT = "What to make of it"


def audit(
    *,
    randomizer: Annotated[
        str | None, option("A known mechanism: grr, subset, dummies, …", _DEVICES, "NAME")
    ] = None,
    k: Annotated[
        int | None, whole("Its number of answers; for vectors, the dimension.", _DEVICES)
    ] = None,
    bounds: Annotated[
        Bounds | None,
        option("Bounds of a mechanism of numbers.", _DEVICES, "LOW,HIGH", options.read_bounds),
    ] = None,
    table: Annotated[
        Path | None,
        option("Or its probabilities, a row per input (.csv, .npy).", _DEVICES, "FILE"),
    ] = None,
    call: Annotated[
        str | None,
        typer.Option(
            "--callable",
            help="A device: a function of one value that returns its message.",
            rich_help_panel=_YOURS,
            metavar="MODULE:NAME",
        ),
    ] = None,
    vectorized: Annotated[
        bool, flag("--vectorized", "The function takes an array of values.", _YOURS)
    ] = False,
    pipeline: Annotated[
        str | None,
        option("A function of everybody's values: messages in order.", _YOURS, "MODULE:NAME"),
    ] = None,
    command: Annotated[
        str | None, option("A program: a value a line in, a message a line out.", _YOURS, "WORDS")
    ] = None,
    timeout: Annotated[
        float | None, number("Seconds that the program may take for a block of lines.", _YOURS)
    ] = None,
    try_values: Annotated[
        Values | None,
        typer.Option(
            "--values",
            help="Values worth trying as inputs: a,b,c.",
            rich_help_panel=_YOURS,
            metavar="LIST",
            parser=values,
        ),
    ] = None,
    n: Annotated[int | None, whole("How many people report.", _CLAIM)] = None,
    epsilon: Annotated[
        float | None, number("ε of all reports; what is proved if not given.", _CLAIM)
    ] = None,
    delta: Annotated[float, number("δ.", _CLAIM)] = 1e-6,
    local_epsilon: Annotated[float | None, number("ε0 of each report by itself.", _CLAIM)] = None,
    runs: Annotated[int, whole("Runs on each of the two data sets.", _HOW)] = 100_000,
    confidence: Annotated[
        float, number("The chance, at least, that all lower bounds hold.", _HOW)
    ] = 0.999,
    seed: Annotated[
        int | None, whole("Reproducible randomness instead of secure one.", _HOW)
    ] = None,
    plot: Annotated[
        Path | None, option("Draw both worlds' statistics (.svg, .png).", _OUT, "FILE")
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Whether a pipeline keeps its ε: lower bounds from running it on neighbouring data.

    Exit status 0 if nothing refutes the claims, 1 if a claim is refuted, 2 if the question was,
    70 if shoal itself failed.
    """
    asked = AuditAsked(
        randomizer=randomizer,
        k=k,
        bounds=bounds,
        table=table,
        call=call,
        vectorized=vectorized,
        pipeline=pipeline,
        command=command,
        timeout=timeout,
        values=None if try_values is None else try_values.listed,
        n=n,
        epsilon=epsilon,
        delta=delta,
        local_epsilon=local_epsilon,
        runs=runs,
        confidence=confidence,
        seed=seed,
        plot=plot,
    )
    with _no_other_verdict():
        found = _answered(asked, as_json=as_json)
    if found.verdict == "violated":
        raise typer.Exit(VIOLATED)


def _answered(asked: AuditAsked, *, as_json: bool) -> Audit:
    """Run the audit, and show what it found."""
    asked.check()
    files.check(plot=asked.plot)
    with reporting("auditing") as progress:
        from shoal.cli import audit_answer, audit_figure, audit_show

        found = audit_answer.answer(asked, progress)
    plot = asked.plot
    with files.together() as write:
        if plot is not None:
            write(plot, lambda path: audit_figure.draw(found, path))
    if as_json:
        print_json(found.to_dict())
    else:
        audit_show.show(found)
        if plot is not None:
            typer.echo(f"wrote {plot}")
    return found


@contextmanager
def _no_other_verdict() -> Iterator[None]:
    """Whatever else ends the command must not look like the verdict "violated"."""
    try:
        yield
    except (ShoalError, KeyboardInterrupt):
        raise  # refused, or interrupted: each has a status of its own
    except BrokenPipeError:
        raise typer.Exit(UNEXPECTED) from None  # nobody reads what it says
    except BaseException:  # noqa: BLE001 - told in full, and then there is no verdict
        traceback.print_exc()
        sys.stderr.write("error: shoal audit failed unexpectedly; nothing was concluded\n")
        raise typer.Exit(UNEXPECTED) from None

"""``shoal collect``: an analyzer pulls what its shufflers have ready, and shows what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import files
from shoal.cli.options import flag, number, option
from shoal.cli.party_options import WORK, KeyFile, Migrate, PassphraseFile, Processes, Store

_WHAT = "What is collected"
_OUT = "What to make of it"


def collect(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The analyzer's directory; its keys are in DIR/keys."),
    ],
    *,
    survey: Annotated[
        str | None, option("Of this survey alone: the first digits of its name.", _WHAT, "ID")
    ] = None,
    token_file: Annotated[
        Path | None,
        option("The shufflers' tokens (shoal keys token); DIR/token.", _WHAT, "FILE"),
    ] = None,
    again: Annotated[
        str | None,
        option("Ask once more for a batch that was refused: its first digits.", _WHAT, "BATCH"),
    ] = None,
    offline: Annotated[
        bool, flag("--offline", "Ask nobody: show what was found before.", _WHAT)
    ] = False,
    store: Store = None,
    migrate: Migrate = False,
    passphrase_file: PassphraseFile = None,
    key_file: KeyFile = None,
    processes: Processes = 0,
    watch: Annotated[bool, flag("--watch", "Go on until it is interrupted.", WORK)] = False,
    every: Annotated[float, number("With --watch: seconds between two looks.", WORK)] = 30.0,
    report: Annotated[Path | None, option("Write a page to hand on (.html).", _OUT, "FILE")] = None,
    csv: Annotated[Path | None, option("Write the estimates (.csv).", _OUT, "FILE")] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Pull closed batches from the shuffler, open and count them, and publish what they say.

    Each batch is published once, however often this runs or is interrupted.
    """
    from shoal.cli.collect_asked import CollectAsked

    files.check(report=report, csv=csv)
    asked = CollectAsked(
        directory=directory,
        survey=survey,
        token_file=token_file,
        again=again,
        offline=offline,
        store=store,
        migrate=migrate,
        passphrase_file=passphrase_file,
        key_file=key_file,
        processes=processes,
        watch=watch,
        every=every,
        report=report,
        csv=csv,
        as_json=as_json,
    )
    asked.check()
    from shoal.service.running.extras import need_party

    need_party("shoal collect", store)
    from shoal.cli import collect_answer

    collect_answer.answer(asked)

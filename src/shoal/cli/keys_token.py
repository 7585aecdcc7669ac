"""``shoal keys token``: a token to collect batches, or to read results, shown once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli import options
from shoal.cli.party_options import Store
from shoal.cli.render import print_json


def keys_token(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The shuffler's or the analyzer's directory.")
    ],
    *,
    survey: Annotated[
        str | None,
        typer.Option(metavar="ID", help="For this survey alone (its first digits); all if none."),
    ] = None,
    days: Annotated[
        int, typer.Option(metavar="WHOLE", parser=options.read_whole, help="How long it is valid.")
    ] = 365,
    label: Annotated[
        str, typer.Option(metavar="TEXT", help="A name to revoke it by (shoal keys revoke).")
    ] = "token",
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Print a new token: of a shuffler to collect batches, of an analyzer to read results.

    It is printed once and kept as a hash: put it into a file that only its user may read.
    """
    from shoal.service.running.extras import need_party

    need_party("shoal keys token", store)
    from shoal.service.running import registering

    home = registering.home_of(directory, store)
    token, chosen = registering.make_token(home, survey=survey, days=days, label=label)
    if as_json:
        named = None if chosen is None else str(chosen.id)
        print_json({"token": token, "role": home.role, "survey": named, "days": days})
        return
    typer.echo(token)
    after = {
        "shuffler": "the analyzer's operator puts it into the file token of the analyzer's "
        "directory, mode 600",
        "analyzer": "a reader logs in with it at /dashboard/login, or sends it in the header "
        "Authorization: Bearer, to /v1/surveys/ID/results",
    }
    typer.echo(f"next: {after[home.role]}", err=True)  # what is piped is the token alone

"""``shoal keys tokens`` and ``shoal keys revoke``: which tokens there are, and the end of some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.app import printable
from shoal.cli.party_options import Store
from shoal.cli.render import console, print_json

if TYPE_CHECKING:
    from shoal.service.store.values import TokenScope

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The shuffler's or the analyzer's directory.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]


def keys_tokens(directory: Directory, *, store: Store = None, as_json: Json = False) -> None:
    """List the tokens that were made: label, what for, until when. The tokens nobody has."""
    from shoal.service.running.extras import need_party

    need_party("shoal keys tokens", store)
    from rich import box
    from rich.table import Table

    from shoal.service.clock import system_clock
    from shoal.service.running import registering

    found = registering.tokens_of(registering.home_of(directory, store))
    now = system_clock()
    if as_json:
        print_json({"tokens": [_plain(each, now) for each in found]})
        return
    if not found:
        typer.echo("no tokens: make one with shoal keys token")
        return
    page = Table("label", "survey", "until", box=box.SIMPLE_HEAD)
    for each in found:
        scope = "all" if each.survey is None else str(each.survey)[:16]
        page.add_row(printable(each.label), scope, _until(each, now))
    console().print(page)


def keys_revoke(
    directory: Directory,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="The label it was made with.")],
    *,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Make the tokens of a label worthless, from now on and for good."""
    from shoal.service.running.extras import need_party

    need_party("shoal keys revoke", store)
    from shoal.service.running import registering

    revoked = registering.revoke_token(registering.home_of(directory, store), label)
    if as_json:
        print_json({"label": label, "revoked": revoked})
        return
    typer.echo(f"revoked {revoked} token{'s' * (revoked != 1)} with the label {printable(label)}")


def _plain(found: TokenScope, now: int) -> dict[str, object]:
    return {
        "label": found.label,
        "survey": None if found.survey is None else str(found.survey),
        "expires": found.expires,
        "ended": found.expires <= now,
    }


def _until(found: TokenScope, now: int) -> str:
    from shoal.explain.text import moment

    day = f"{moment(found.expires)} UTC"
    return f"ended {day}" if found.expires <= now else day

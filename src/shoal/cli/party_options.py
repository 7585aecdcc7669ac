"""Options of every command that opens a party's directory: its database and its secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.options import flag, option, whole

KEPT = "What it keeps"
SECRETS = "How secrets are kept"
WORK = "How it works"

Store = Annotated[
    str | None,
    typer.Option(
        envvar="SHOAL_STORE",
        metavar="URL",
        help="The database: sqlite:///FILE or postgresql+psycopg://…; DIR/store.sqlite.",
        rich_help_panel=KEPT,
    ),
]
Migrate = Annotated[bool, flag("--migrate", "Bring the tables up to date first.", KEPT)]
PassphraseFile = Annotated[
    Path | None,
    option("A file whose first line is the passphrase; else SHOAL_PASSPHRASE.", SECRETS, "FILE"),
]
KeyFile = Annotated[
    Path | None, option("The key file, if the keys are protected by one.", SECRETS, "FILE")
]
IdentityFile = Annotated[
    Path | None, option("The identity, if it is kept elsewhere.", SECRETS, "FILE")
]
Processes = Annotated[int, whole("Processes that open envelopes; 0: none beside it.", WORK)]

"""What commands of a shuffler or an analyzer share: its directory, its database, its secrets."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import Options, RefusedError, argument, choice, flag, option, whole

if TYPE_CHECKING:
    from shoal.service.keyring import Protection

KEPT = "What it keeps"
SECRETS = "How secrets are kept"
WORK = "How it works"
OUT = "What to make of it"
_VARIABLE = "SHOAL_PASSPHRASE"


class Suite(StrEnum):
    """The algorithms that seal reports; the second resists quantum computers too."""

    X25519 = "x25519-aes128gcm"
    HYBRID = "mlkem768x25519-aes128gcm"


class Kind(StrEnum):
    """How secrets are protected."""

    PASSPHRASE = "passphrase"  # noqa: S105 - the word, not one
    KEYFILE = "keyfile"
    NONE = "none"


Directory = Annotated[Path, argument("The shuffler's or the analyzer's directory.", "DIR")]
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
IdentityFile = Annotated[
    Path | None, option("The identity, if it is kept elsewhere.", SECRETS, "FILE")
]
Processes = Annotated[int, whole("Processes that open envelopes; 0: none beside it.", WORK)]
SuiteOption = Annotated[Suite | None, choice("Of these algorithms only.", "What keys", Suite)]
Json = Annotated[bool, flag("--json", "Print JSON.", OUT)]


@dataclass(frozen=True, kw_only=True)
class SecretOptions(Options):
    """What opens the keys of a party."""

    passphrase_file: Annotated[
        Path | None,
        option(
            "A file whose first line is the passphrase; else SHOAL_PASSPHRASE.", SECRETS, "FILE"
        ),
    ] = None
    key_file: Annotated[
        Path | None, option("The key file, if the keys are protected by one.", SECRETS, "FILE")
    ] = None

    def protection(self, keys: Path, identity: Path | None = None) -> Protection:
        """The protection that the keys in this directory were made with."""
        from shoal.service.keyring import Protection
        from shoal.service.keyring.secret_files import protection_kind

        kind = Kind(protection_kind(keys, identity))
        self.check_kind(kind)
        if kind is Kind.NONE:
            return Protection.none()
        if self.key_file is not None:
            return Protection.key_file(self.key_file)
        return Protection.passphrase(self.passphrase(new=False))

    def check_kind(self, kind: Kind) -> None:
        """Refuse files that have nothing to do with this kind of protection."""
        if kind is Kind.KEYFILE and self.key_file is None:
            raise RefusedError("these keys are protected by a key file: give --key-file FILE")
        if kind is not Kind.KEYFILE and self.key_file is not None:
            raise RefusedError(f"--key-file does not go with keys protected by {kind}")
        if kind is not Kind.PASSPHRASE and self.passphrase_file is not None:
            raise RefusedError(f"--passphrase-file does not go with keys protected by {kind}")

    def passphrase(self, *, new: bool) -> str:
        """From the file, from the environment, or from whoever sits at the terminal."""
        if self.passphrase_file is not None:
            return _first_line(self.passphrase_file)
        text = os.environ.get(_VARIABLE)
        if text:
            return text
        if not sys.stdin.isatty():
            unprotected = ", or choose --protection none" if new else ""
            raise RefusedError(
                f"a passphrase is needed: set {_VARIABLE}, or give --passphrase-file FILE, or run "
                f"this at a terminal{unprotected}"
            )
        typed: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=new, err=True)
        return typed


def _first_line(path: Path) -> str:
    from shoal.service.keyring import files

    try:
        lines = files.read_private(path, known="the passphrase").decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise RefusedError(f"cannot read {path}: it is not text in UTF-8") from None
    if not lines or not lines[0]:
        raise RefusedError(f"cannot read {path}: its first line should be a passphrase")
    return lines[0]

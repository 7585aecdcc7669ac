"""What commands of a shuffler or an analyzer share: its directory, its database, its secrets."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli.app import RefusedError
from shoal.cli.options import Options, argument, option

if TYPE_CHECKING:
    from shoal.service.keyring import Protection
    from shoal.service.running.home import Home

KEPT = "What it keeps"
SECRETS = "How secrets are kept"
WORK = "How it works"
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


STORE = option(
    "The database: sqlite:///FILE or postgresql+psycopg://…; DIR/store.sqlite.",
    KEPT,
    "URL",
    envvar="SHOAL_STORE",
)
MIGRATE = option("Bring the tables up to date first.", KEPT)
IDENTITY = option("The identity, if it is kept elsewhere.", SECRETS)
PROCESSES = option("Processes that open envelopes; 0: none beside it.", WORK, default=0)


class PartyOptions(Options):
    """Whose directory and database."""

    directory: Path = argument("The shuffler's or the analyzer's directory.", "DIR")
    store: str | None = STORE
    json: bool = option("Print JSON.")

    def home(self, command: str) -> Home:
        """The party, if what the command needs is installed."""
        from shoal.service.running.extras import need_party

        need_party(command, self.store)
        from shoal.service.running import registering

        return registering.home_of(self.directory, self.store)


class SecretOptions(Options):
    """What opens the keys of a party."""

    passphrase_file: Path | None = option(
        "A file whose first line is the passphrase; else SHOAL_PASSPHRASE.", SECRETS
    )
    key_file: Path | None = option("The key file, if the keys are protected by one.", SECRETS)

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

"""What commands of a shuffler or an analyzer share: its directory, its database, its secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from shoal.cli.options import BareOptions, Options, option
from shoal.errors import RefusedError

if TYPE_CHECKING:
    from shoal.service.keyring import Protection
    from shoal.service.ops.administration import Store
    from shoal.service.ops.home import Home

KEPT = "What it keeps"
SECRETS = "How secrets are kept"
WORK = "How it works"


# The algorithms that seal reports; the second resists quantum computers too.
Suite = Literal["x25519-aes128gcm", "mlkem768x25519-aes128gcm"]
X25519: Suite = "x25519-aes128gcm"


Kind = Literal["passphrase", "keyfile", "none"]  # how secrets are protected


STORE = option(
    "The database: sqlite:///FILE or postgresql+psycopg://…; default: DIR/store.sqlite.",
    KEPT,
    "URL",
    envvar="SHOAL_STORE",
)
MIGRATE = option("Update the tables of the database first.", KEPT)
PROCESSES = option("Number of processes that decrypt; 0: no extra ones.", WORK, default=0)


class PartyOptions(Options):
    """Whose directory and database."""

    directory: Path = option("The shuffler's or the analyzer's directory.", name="DIR")
    store: str | None = STORE

    @contextmanager
    def opened(self) -> Iterator[tuple[Home, Store]]:
        """The party and its store."""
        from shoal.service.ops.home import home_of, opened

        home = home_of(self.directory, self.store)
        with opened(home) as store:
            yield home, store


class SecretOptions(BareOptions):
    """What opens the keys of a party."""

    passphrase_file: Path | None = option(
        "A file with the passphrase on its first line; default: the variable SHOAL_PASSPHRASE.",
        SECRETS,
    )
    key_file: Path | None = option("The key file, if the keys are protected by one.", SECRETS)
    identity: Path | None = option("The identity, if it is not with the keys.", SECRETS)

    def protection(self, keys: Path) -> Protection:
        """The protection that the keys in this directory were made with."""
        from shoal.service.keyring.secrets import protection_kind

        return self.protection_of(protection_kind(keys, self.identity))

    def protection_of(self, kind: str, *, new: bool = False, **cost: int) -> Protection:
        """The protection of this kind; if it is ``new``, a missing key file is made.

        Files that have nothing to do with this kind are refused.
        """
        from shoal.service.keyring import Protection

        if kind == "keyfile" and self.key_file is None:
            raise RefusedError("these keys are protected by a key file: give --key-file FILE")
        if kind != "keyfile" and self.key_file is not None:
            raise RefusedError(f"--key-file does not go with keys protected by {kind}")
        if kind != "passphrase" and self.passphrase_file is not None:
            raise RefusedError(f"--passphrase-file does not go with keys protected by {kind}")
        if kind == "none":
            return Protection.none()
        if self.key_file is not None:
            return Protection.key_file(self.key_file, make=new)
        return Protection.passphrase(self.passphrase(new=new), **cost)

    def passphrase(self, *, new: bool) -> str:
        """From the file, from the environment, or from whoever sits at the terminal."""
        from shoal.service.keyring import secrets

        if self.passphrase_file is not None:
            return secrets.read_passphrase(self.passphrase_file)
        if os.environ.get(secrets.VARIABLE):
            return os.environ[secrets.VARIABLE]
        if not sys.stdin.isatty():
            unprotected = ", or choose --protection none" if new else ""
            raise RefusedError(
                f"a passphrase is needed: set {secrets.VARIABLE}, or give --passphrase-file FILE, "
                f"or run this at a terminal{unprotected}"
            )
        typed: str = typer.prompt("Passphrase", hide_input=True, confirmation_prompt=new, err=True)
        return typed

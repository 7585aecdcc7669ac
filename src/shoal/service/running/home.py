"""A party's directory: its keys, its store, its files, and how they are opened.

::

    DIR/keys/           the keyring (see shoal keys)
    DIR/store.sqlite    the database, unless --store names another
    DIR/...             segments, parts and batches of a shuffler; incoming batches of an analyzer

Everything in it is for one user's eyes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from shoal.errors import ShoalError
from shoal.service.clock import Clock, system_clock
from shoal.service.db import Database
from shoal.service.keyring import Keyring, Protection, Role
from shoal.service.running.places import KEYS

DATABASE = "store.sqlite"
STORE_VARIABLE = "SHOAL_STORE"


class HomeError(ShoalError):
    """A directory that cannot be worked in."""

    def __init__(self, path: Path, why: str, advice: str) -> None:
        self.path = path
        super().__init__(f"cannot work in {path}: {why}; {advice}")


@dataclass(frozen=True, kw_only=True)
class Home:
    """The directory of a shuffler or an analyzer, and the address of its database."""

    directory: Path
    role: Role
    store: str | None = None

    @property
    def keys(self) -> Path:
        """Where its keyring is."""
        return self.directory / KEYS

    @property
    def default_database(self) -> Path:
        """The file that is its database, unless another is named."""
        return self.directory.resolve() / DATABASE

    @property
    def url(self) -> str:
        """The address of its database."""
        return self.store or f"sqlite:///{self.default_database}"

    def check(self) -> None:
        """Refuse a directory that is not there, or cannot be written to."""
        refuse_file(self.directory)
        if not self.directory.is_dir():
            advice = f"make it with shoal keys new {self.keys} --role {self.role}"
            raise HomeError(self.directory, "there is no such directory", advice)
        if not os.access(self.directory, os.R_OK | os.W_OK | os.X_OK):
            advice = "run as its owner, or give it to this user (chown)"
            raise HomeError(self.directory, "this user may not write to it", advice)

    def check_role(self) -> None:
        """Refuse the directory of the other party."""
        found = Keyring.open(self.keys, protection=None).role
        if found != self.role:
            why = f"it is the directory of the {found}, and not of the {self.role}"
            raise HomeError(self.directory, why, f"name another, or run shoal serve {found}")

    def make(self) -> None:
        """The directory, for one user's eyes."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            advice = "choose another directory"
            raise HomeError(self.directory, error.strerror or str(error), advice) from None
        self.check()

    def keyring(
        self,
        protection: Protection | None,
        *,
        identity: Path | None = None,
        clock: Clock = system_clock,
    ) -> Keyring:
        """Its keys; ``identity`` is where the identity is, if it is not with them."""
        self.check()
        return Keyring.open(self.keys, clock=clock, protection=protection, identity=identity)

    def database(self, *, migrate: bool = False) -> Database:
        """Its database: made if there is none, brought up to date only if asked."""
        self.check()
        found = Database(self.url)
        try:
            if migrate or found.revision(self.role) is None:
                found.migrate(self.role)
            found.require(self.role)
        except BaseException:
            found.close()
            raise
        return found


def refuse_file(directory: Path) -> None:
    """Refuse a file where a directory is meant."""
    if directory.exists() and not directory.is_dir():
        advice = "name the directory of a shuffler or an analyzer"
        raise HomeError(directory, "it is a file, and not a directory", advice)


def private() -> None:
    """Whatever this process writes from now on is for its user alone."""
    os.umask(0o077)

"""A party's directory: its keys, its store, its files, and how they are opened.

::

    DIR/keys/           the keyring (see shoal keys)
    DIR/store.sqlite    the database, unless --store names another
    DIR/...             segments, parts and batches of a shuffler; incoming batches of an analyzer

Everything in it is for one user's eyes. Nothing of the server is imported before a database is
opened, so that keys can be looked at where it is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.errors import RefusedError, ShoalError
from shoal.service.clock import Clock, system_clock
from shoal.service.keyring import Keyring, Protection, Role
from shoal.service.keyring.key_list import ROLES

if TYPE_CHECKING:
    from shoal.service.analyzer.store import AnalyzerStore
    from shoal.service.db import Database
    from shoal.service.shuffler.store import ShufflerStore
    from shoal.service.survey import Survey

KEYS = "keys"
DATABASE = "store.sqlite"
STORE_VARIABLE = "SHOAL_STORE"


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
    def url(self) -> str:
        """The address of its database: a file in the directory, unless another is named."""
        return self.store or f"sqlite:///{self.directory.resolve() / DATABASE}"

    @property
    def may_have_database(self) -> bool:
        """Whether its database is there, or elsewhere."""
        return self.store is not None or (self.directory / DATABASE).exists()

    def check(self) -> None:
        """Refuse a directory that is not there, or cannot be written to."""
        if self.directory.exists() and not self.directory.is_dir():
            advice = "name the directory of a shuffler or an analyzer"
            raise RefusedError(
                f"cannot use {self.directory}", "it is a file, not a directory", advice
            )
        if not self.directory.exists():
            advice = f"create it with shoal keys new {self.keys} --role {self.role}"
            raise RefusedError(f"cannot use {self.directory}", "there is no such directory", advice)
        if not os.access(self.directory, os.R_OK | os.W_OK | os.X_OK):
            advice = "run as its owner, or give it to this user (chown)"
            raise RefusedError(
                f"cannot use {self.directory}", "this user may not write to it", advice
            )

    def make(self) -> None:
        """The directory, for one user's eyes."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            advice = "choose another directory"
            raise RefusedError(
                f"cannot use {self.directory}", error.strerror or str(error), advice
            ) from None
        self.check()

    def keyring(
        self,
        protection: Protection | None,
        *,
        identity: Path | None = None,
        clock: Clock = system_clock,
    ) -> Keyring:
        """Its keys; ``identity`` is where the identity is, if it is not with them.

        A directory that is the other party's, or cannot be worked in, is refused.
        """
        self.check()
        if not self.keys.exists():
            refuse_both(self.directory)
        ring = Keyring.open(self.keys, clock=clock, protection=protection, identity=identity)
        if ring.role != self.role:
            why = f"it is the directory of the {ring.role}, not of the {self.role}"
            advice = f"name another directory, or run shoal serve {ring.role}"
            raise RefusedError(f"cannot use {self.directory}", why, advice)
        return ring

    def database(self, *, migrate: bool = False) -> Database:
        """Its database: made if there is none, brought up to date only if asked."""
        from shoal.service.db import Database

        self.check()
        database = Database(self.url)
        try:
            if migrate or database.revision(self.role) is None:
                database.migrate(self.role)
            database.require(self.role)
        except BaseException:
            database.close()
            raise
        return database


def home_of(directory: Path, store: str | None = None) -> Home:
    """A party's directory; its keys say whose it is. The directory of the keys will do, too."""
    refuse_both(directory)
    if directory.name == KEYS and not (directory / KEYS).exists():
        directory = directory.parent
    if not directory.exists():
        advice = "name the directory of a shuffler or an analyzer, with its keys in it"
        raise RefusedError(f"cannot use {directory}", "there is no such directory", advice)
    Home(directory=directory, role="shuffler").check()
    role = Keyring.open(directory / KEYS, protection=None).role
    return Home(directory=directory, role=role, store=store)


def has_both(directory: Path) -> bool:
    """Whether it is a directory of ``shoal up``, with both parties in it."""
    parties = [directory / role / KEYS for role in ROLES]
    return not (directory / KEYS).exists() and all(keys.exists() for keys in parties)


def refuse_both(directory: Path) -> None:
    """Refuse a directory with both parties in it, where one is meant."""
    if has_both(directory):
        one, other = (directory / role for role in ROLES)
        raise ShoalError(
            f"{directory} is a directory of shoal up, with both parties in it; name one of them: "
            f"{one} or {other}"
        )


def ring_directory(directory: Path) -> Path:
    """Where the keys are, of their own directory or of the party's that they are in."""
    refuse_both(directory)
    below = directory / KEYS
    return below if below.is_dir() else directory


@contextmanager
def opened(
    home: Home, *, migrate: bool = False, clock: Clock = system_clock
) -> Iterator[ShufflerStore | AnalyzerStore]:
    """A party's store while this lasts; made if there is none."""
    from shoal.service.analyzer.store import AnalyzerStore
    from shoal.service.shuffler.store import ShufflerStore

    kind = ShufflerStore if home.role == "shuffler" else AnalyzerStore
    with closing(home.database(migrate=migrate)) as database:
        yield kind(database, home.directory, clock)


def check_party(surveys: Iterable[Survey], keyring: Keyring, now: int) -> None:
    """Refuse keys that a survey which is not over does not name: nothing would open with them."""
    for survey in surveys:
        party = survey.shuffler if keyring.role == "shuffler" else survey.analyzer
        over = now > survey.not_after + survey.batches.max_age + keyring.schedule.expired
        if party.fingerprint != keyring.fingerprint and not over:
            raise RefusedError(
                f"the survey names the {keyring.role} with fingerprint {party.fingerprint}, these "
                f"keys are {keyring.fingerprint}; make the survey with the fingerprint that shoal "
                "keys show prints, or restore the keys that it was made for"
            )

"""What a process of a party works with: its keys, its database, and the store that is in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import system_clock
from shoal.service.db import Database
from shoal.service.keyring import Keyring
from shoal.service.running import logs
from shoal.service.running.home import Home
from shoal.service.running.registering import check_party
from shoal.service.running.settings import Settings
from shoal.service.shuffler.store import ShufflerStore

Store = TypeVar("Store", ShufflerStore, AnalyzerStore)


@dataclass(frozen=True)
class Parts(Generic[Store]):
    """What was opened."""

    database: Database
    keyring: Keyring
    store: Store


@contextmanager
def opened(settings: Settings, made: Callable[[Home, Database], Store]) -> Iterator[Parts[Store]]:
    """The keys and the store of a party, closed at the end; keys of another one are refused."""
    home = settings.home
    keyring = home.keyring(settings.protection, identity=settings.identity)
    with closing(home.database(migrate=settings.migrate)) as database:
        store = made(home, database)
        check_party(store.surveys.all(), keyring, system_clock())
        _tell_of_secrets(home, keyring)
        yield Parts(database, keyring, store)


def _tell_of_secrets(home: Home, keyring: Keyring) -> None:
    """A key that cannot be read is no reason to refuse: others open what was sealed for them."""
    lacking = keyring.lacking()
    if lacking:
        told = {"role": home.role, "key": min(lacking), "count": len(lacking)}
        logs.say("secret_missing", level=logging.ERROR, **told)

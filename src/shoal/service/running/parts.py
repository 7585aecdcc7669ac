"""What a process of a party works with: its keys, its database, and the store that is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.clock import system_clock
from shoal.service.keyring import Keyring
from shoal.service.running.home import Home
from shoal.service.running.registering import check_party
from shoal.service.running.settings import Settings
from shoal.service.store import Database, ShufflerStore

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
        check_party(store.surveys(), keyring, system_clock())
        yield Parts(database, keyring, store)

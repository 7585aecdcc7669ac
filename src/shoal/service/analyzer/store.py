"""What an analyzer remembers: surveys, batches on their way, what they cost, what was published."""

from __future__ import annotations

from pathlib import Path

from shoal.service.analyzer.collection import LEASE, Collections
from shoal.service.analyzer.ledger import Ledger
from shoal.service.analyzer.publish import Results
from shoal.service.analyzer.tables import TRACES
from shoal.service.clock import Clock
from shoal.service.db.database import Database
from shoal.service.db.files import create_directory
from shoal.service.db.key_lists import KeyLists
from shoal.service.db.store_id import StoreId
from shoal.service.db.surveys import Surveys
from shoal.service.db.tags import forget_key
from shoal.service.db.tokens import Tokens

TREE = "analyzer"


class AnalyzerStore:
    """The store of one analyzer; ``key_lists`` are the shufflers', for people to compare.

    The directory ``incoming`` has batches that are not counted yet. ``lease`` is how many seconds
    a batch stays with whoever worked on it and died.
    """

    def __init__(
        self, database: Database, directory: Path, clock: Clock, *, lease: int = LEASE
    ) -> None:
        database.require(TREE)
        self.id = StoreId(database, create_directory(directory))
        self.id.settle(holds=False, refers=False)  # what is fetched can be fetched again
        self._database = database
        self.clock = clock
        self.incoming = create_directory(directory / "incoming")
        self.surveys = Surveys(database, TRACES)
        self.tokens = Tokens(database, clock, self.surveys)
        self.key_lists = KeyLists(database, clock)
        self.collections = Collections(database, self.surveys, clock, lease=lease)
        self.ledger = Ledger(database, self.surveys, self.collections)
        self.results = Results(database, self.surveys, self.collections)

    def forget_key(self, key: int) -> int:
        """Forget the tags of a key that was deleted: what it sealed cannot be opened any more."""
        return forget_key(self._database, key)

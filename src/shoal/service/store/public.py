"""What everybody may know about a survey's batches, and how it is kept from saying more.

Whoever may ask as often as they like, and send reports of their own, would read a live figure as a
counter: they fill up to where it moves, and see the next person come. So the open batch is looked
at again only when an interval has passed since the last look (were it at the first question of
every ten minutes by the clock, two questions around its stroke would be two looks), whoever asks
gets what was seen then, and it is told in quarters of a least crowd that is large enough. The
moment at which a batch was begun is that of its first report: it is stored on a grid, and never
told while there is less than a quarter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import sqlalchemy as sa

from shoal import checks
from shoal.service.clock import Clock
from shoal.service.errors import StoreUnavailableError
from shoal.service.store.database import Database
from shoal.service.store.schema import ACCEPTS, CARRIED, LISTED, batches
from shoal.service.store.surveys import Known
from shoal.service.store.values import Progress
from shoal.service.survey import Batches

HOUR = 3600
INTERVAL = 600  # seconds between two looks
LEAST_CROWD = 50  # a quarter of less would be a handful of people
_QUARTERS = 4
_STEPS = 24  # of a batch's greatest age, if that is shorter than a day
_PATIENCE = 2.0  # seconds to wait for whoever looks at this moment


def begun(now: int, rules: Batches) -> int:
    """When a batch that is made now began: rounded down to the hour, or to 1/24 of its age.

    >>> rules = Batches(minimum=100, target=200, max_age=7 * 86_400)
    >>> begun(1_800_001_234, rules) == 1_800_000_000
    True
    """
    step = max(1, min(HOUR, rules.max_age // _STEPS))
    return now - now % step


@dataclass(frozen=True)
class _Seen:
    at: int
    progress: Progress


@dataclass
class Public:
    """What was seen of the open batches, at least ``interval`` seconds apart; and closed ones."""

    database: Database
    clock: Clock
    interval: int = INTERVAL
    _seen: dict[int, _Seen] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        checks.count(interval=self.interval)

    def progress(self, known: Known) -> Progress:
        """How far the fullest open batch of a survey was when it was looked at last."""
        seen = self._fresh(known)
        if seen is not None:
            return seen.progress
        seen = self._seen.get(known.number)
        # Whoever comes while somebody looks gets what was seen before.
        if self._lock.acquire(timeout=0 if seen is not None else _PATIENCE):
            try:
                return self._looked(known)
            finally:
                self._lock.release()
        if seen is None:
            raise StoreUnavailableError("reading", "the database takes its time")
        return seen.progress

    def _fresh(self, known: Known) -> _Seen | None:
        """What was seen, unless it is time to look again."""
        seen, now = self._seen.get(known.number), self.clock()
        if seen is not None and now < seen.at:
            # The clock was set back: neither a look too early, nor none until it has caught up.
            seen = self._seen[known.number] = _Seen(now, seen.progress)
        return seen if seen is not None and now < seen.at + self.interval else None

    def _looked(self, known: Known) -> Progress:
        seen = self._fresh(known)
        if seen is None:
            found = self._look(known)
            seen = self._seen[known.number] = _Seen(self.clock(), found)
        return seen.progress

    def _look(self, known: Known) -> Progress:
        rules = known.survey.batches
        if rules.minimum < LEAST_CROWD:
            return Progress(None, rules.minimum, None)
        query = (
            sa.select(batches.c.valid, batches.c.since, batches.c.state)
            .where(batches.c.survey == known.number, ACCEPTS)
            .order_by(batches.c.valid.desc(), batches.c.id)
            .limit(1)
        )
        with self.database.read() as connection:
            row = connection.execute(query).first()
        quarters = 0 if row is None else min(_QUARTERS, _QUARTERS * row.valid // rules.minimum)
        if row is None or not quarters or row.state == CARRIED:
            return Progress(quarters / _QUARTERS, rules.minimum, None)
        left = min(max(row.since + rules.max_age - self.clock(), 0), rules.max_age)
        return Progress(quarters / _QUARTERS, rules.minimum, -(-left // HOUR) * HOUR)

    def states(self, known: Known) -> dict[str, int]:
        """How many batches that can be or were collected are in which state."""
        query = (
            sa.select(batches.c.state, sa.func.count())
            .where(batches.c.survey == known.number, batches.c.state.in_(LISTED))
            .group_by(batches.c.state)
        )
        with self.database.read() as connection:
            return {state: int(number) for state, number in connection.execute(query)}

    def last_size(self, known: Known) -> int | None:
        """How many reports the batch has that closed last; one of them, if several in that hour."""
        query = (
            sa.select(batches.c.valid)
            .where(batches.c.survey == known.number, batches.c.state.in_(LISTED))
            .order_by(batches.c.closed.desc(), batches.c.id)
            .limit(1)
        )
        with self.database.read() as connection:
            found: int | None = connection.execute(query).scalar()
        return found

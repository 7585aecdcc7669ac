"""What everybody may know about a survey's open batch, and how it is kept from saying more.

Whoever may ask as often as they like, and send reports of their own, would read a live figure as a
counter: they fill up to where it moves, and see the next person come. So the open batch is looked
at again only when an interval has passed since the last look (were it at the first question of
every ten minutes by the clock, two questions around its stroke would be two looks), whoever asks
gets what was seen then, and it is told in quarters of a least crowd that is large enough. The
moment at which a batch was begun is that of its first report: it is stored on a grid, and never
told while there is less than a quarter.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import sqlalchemy as sa

from shoal import checks
from shoal.sealing import SurveyId
from shoal.service.clock import HOUR, Clock
from shoal.service.db.database import Database
from shoal.service.db.surveys import SurveyRow, Surveys
from shoal.service.errors import StoreUnavailableError
from shoal.service.shuffler.tables import ACCEPTS, CARRIED, batches

INTERVAL = 600  # seconds between two looks
LEAST_CROWD = 50  # a quarter of less would be a handful of people
_QUARTERS = 4
_WAIT = 2.0  # seconds to wait for whoever looks at this moment


@dataclass(frozen=True)
class Progress:
    """How far an open batch was when it was looked at last.

    ``share`` of the minimum is rounded down to quarters; None if the minimum is so small that they
    would count people. ``closes_in`` is rounded up to hours, in seconds; None if less than a
    quarter is there, or if the batch waits for the minimum only.
    """

    share: float | None
    minimum: int
    closes_in: int | None


class ProgressCache:
    """What was seen of the open batches, at least ``interval`` seconds apart."""

    def __init__(
        self, database: Database, surveys: Surveys, clock: Clock, *, interval: int = INTERVAL
    ) -> None:
        self._database = database
        self._surveys = surveys
        self._clock = clock
        self._interval = checks.count(interval=interval)
        self._seen: dict[int, tuple[int, Progress]] = {}  # survey's number -> when, what
        self._lock = Lock()

    def of(self, survey: SurveyId) -> Progress:
        """How far the fullest open batch of a survey was when it was looked at last."""
        row = self._surveys.row(survey)
        progress = self._fresh(row.number)
        if progress is not None:
            return progress
        seen = self._seen.get(row.number)
        # Whoever comes while somebody looks gets what was seen before.
        if self._lock.acquire(timeout=0 if seen is not None else _WAIT):
            try:
                return self._fresh(row.number) or self._look(row)
            finally:
                self._lock.release()
        if seen is None:
            raise StoreUnavailableError("reading", "the database takes its time")
        return seen[1]

    def _fresh(self, number: int) -> Progress | None:
        """What was seen, unless it is time to look again."""
        if number not in self._seen:
            return None
        (at, progress), now = self._seen[number], self._clock()
        if now < at:
            # The clock was set back: neither a look too early, nor none until it has caught up.
            at = now
            self._seen[number] = at, progress
        return progress if now < at + self._interval else None

    def _look(self, row: SurveyRow) -> Progress:
        progress = self._now(row)
        self._seen[row.number] = self._clock(), progress
        return progress

    def _now(self, row: SurveyRow) -> Progress:
        rules = row.survey.batches
        if rules.minimum < LEAST_CROWD:
            return Progress(None, rules.minimum, None)
        query = (
            sa.select(batches.c.valid, batches.c.since, batches.c.state)
            .where(batches.c.survey == row.number, ACCEPTS)
            .order_by(batches.c.valid.desc(), batches.c.id)
            .limit(1)
        )
        with self._database.read() as connection:
            batch = connection.execute(query).first()
        quarters = 0
        if batch is not None:
            quarters = min(_QUARTERS, _QUARTERS * batch.valid // rules.minimum)
        if batch is None or not quarters or batch.state == CARRIED:
            return Progress(quarters / _QUARTERS, rules.minimum, None)
        left = min(max(batch.since + rules.max_age - self._clock(), 0), rules.max_age)
        return Progress(quarters / _QUARTERS, rules.minimum, -(-left // HOUR) * HOUR)

"""When an open batch closes, waits or dies: conditional updates, nothing else.

::

    OPEN ── valid >= target, or old enough and valid >= minimum ──▶ SEALED
      ├── old enough, too few, small="carry" ──▶ CARRIED ── valid >= minimum ──▶ SEALED
      └── old enough, too few, small="expire", or the survey is over ──▶ EXPIRED

The minimum is in the condition of the one statement that seals, and counts reports that opened, not
uploads: no clock, crash or race makes a smaller batch. A batch with too few does not die while
reports of its survey wait to be opened, nor at one look alone: a clock that was ahead for a moment
closes batches early, and deletes none.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from shoal.service import failpoints
from shoal.service.clock import Clock
from shoal.service.store.database import Database
from shoal.service.store.patience import Doubts
from shoal.service.store.public import HOUR, begun
from shoal.service.store.schema import (
    ACCEPTS,
    CARRIED,
    CLOSED,
    EXPIRED,
    OPEN,
    SEALED,
    batches,
    extents,
)
from shoal.service.store.surveys import Known, SurveyTable
from shoal.service.store.values import Transition
from shoal.service.survey import Batches, Survey


@dataclass(frozen=True)
class Advancing:
    """The open batches of all surveys."""

    database: Database
    surveys: SurveyTable
    clock: Clock
    doubts: Doubts[str]

    def advance(self, *, expire: bool = True) -> list[Transition]:
        """Seal, carry and, unless it is asked not to, expire what is due now."""
        now = self.clock()
        with self.database.read() as connection:
            numbers = set(connection.scalars(sa.select(batches.c.survey).where(ACCEPTS)))
        open_surveys = [self.surveys.numbered(number) for number in sorted(numbers)]
        transitions: list[Transition] = []
        if open_surveys:
            with self.database.write() as connection:
                hopeless = {
                    batch for known in open_surveys for batch in _locked(connection, known, now)
                }
                dying = self.doubts.settled(hopeless if expire else ())
                for known in open_surveys:
                    transitions += _advanced(connection, known, now, dying)
        if any(transition.state == SEALED for transition in transitions):
            failpoints.reached("batch.sealed")
        return transitions

    def closed_counts(self, known: Known) -> dict[str, int]:
        """Closed batches and the reports in them: what may be published."""
        query = sa.select(
            sa.func.count().label("number"),
            sa.func.coalesce(sa.func.sum(batches.c.valid), 0).label("valid"),
        ).where(batches.c.survey == known.number)
        with self.database.read() as connection:
            closed = connection.execute(query.where(batches.c.state.in_(CLOSED))).one()
            expired = connection.execute(query.where(batches.c.state == EXPIRED)).one()
        return {
            "batches": closed.number,
            "reports": int(closed.valid),
            "expired_batches": expired.number,
        }


def _locked(connection: sa.Connection, known: Known, now: int) -> list[str]:
    """Lock the open batches of a survey; those of them that are due to die."""
    rules = known.survey.batches
    ours = (batches.c.survey == known.number, ACCEPTS)
    # Rows are locked in the order in which finished claims lock them.
    locked = sa.select(batches.c.id).where(*ours).order_by(batches.c.inner_key).with_for_update()
    connection.execute(locked).all()
    # A clock that was set back makes nothing older than it is.
    connection.execute(
        batches.update().where(*ours, batches.c.since > now).values(since=begun(now, rules))
    )
    return list(connection.scalars(sa.select(batches.c.id).where(*ours, _hopeless(known, now))))


def _advanced(
    connection: sa.Connection, known: Known, now: int, dying: Collection[str]
) -> list[Transition]:
    rules = known.survey.batches
    ours = (batches.c.survey == known.number, ACCEPTS)
    aged = _aged(rules, now)
    steps = [
        (SEALED, _sealable(rules, aged, over=_is_over(known.survey, now))),
        (EXPIRED, sa.and_(batches.c.id.in_(sorted(dying)), _hopeless(known, now))),
        (CARRIED, _waiting(rules, aged)),
    ]
    transitions = []
    for state, condition in steps:
        values = {"state": state} if state == CARRIED else _closing(state, now)
        moved = connection.scalars(
            batches.update().where(*ours, condition).values(values).returning(batches.c.id)
        )
        survey = known.survey.id
        transitions += [Transition(batch, survey, state) for batch in sorted(moved)]
    return transitions


def _aged(rules: Batches, now: int) -> sa.ColumnElement[bool]:
    return batches.c.since <= now - rules.max_age


def _is_over(survey: Survey, now: int) -> bool:
    return now > survey.not_after + survey.batches.max_age


def _sealable(
    rules: Batches, aged: sa.ColumnElement[bool], *, over: bool
) -> sa.ColumnElement[bool]:
    full = batches.c.valid >= rules.target
    waited = batches.c.state == CARRIED
    return sa.and_(batches.c.valid >= rules.minimum, sa.or_(full, waited, aged, sa.literal(over)))


def _hopeless(known: Known, now: int) -> sa.ColumnElement[bool]:
    rules, over = known.survey.batches, _is_over(known.survey, now)
    aged = _aged(rules, now)
    pending = sa.exists().where(extents.c.survey == known.number)
    due = sa.literal(over) if rules.small == "carry" else sa.or_(aged, sa.literal(over))
    return sa.and_(batches.c.valid < rules.minimum, due, sa.not_(pending))


def _waiting(rules: Batches, aged: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    if rules.small != "carry":
        return sa.false()
    return sa.and_(batches.c.state == OPEN, batches.c.valid < rules.minimum, aged)


def _closing(state: str, now: int) -> dict[str, str | int | None]:
    return {"state": state, "since": None, "closed": now - now % HOUR}

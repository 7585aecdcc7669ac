"""The surveys a service works for. They never change, so what was read once stays true.

One that was added by mistake can be removed, as long as nothing was ever taken for it. Its row
stays, without its name and its content, so that no other survey is ever given its number: other
processes may know it by that still. Whatever they write for it, they ask first (``confirm``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import sqlalchemy as sa

from shoal.sealing import SurveyId
from shoal.service.errors import SurveyInUseError, UnknownSurveyError
from shoal.service.store.database import SQLITE, Database
from shoal.service.survey import Survey
from shoal.service.wire import Wire


@dataclass(frozen=True)
class Known:
    """A survey, the number of its row, and its envelopes."""

    number: int
    survey: Survey
    wire: Wire


_REMOVED = b""  # the configuration of a survey that was removed


class SurveyTable:
    """A table of surveys: number, id, configuration."""

    def __init__(self, database: Database, table: sa.Table) -> None:
        self._database = database
        self._table = table
        self._known: dict[SurveyId, Known] = {}

    def add(self, survey: Survey) -> None:
        """Add a survey, unless it is there."""
        row = {"id": survey.id.digest, "configuration": survey.to_bytes()}
        with self._database.write() as connection:
            add = self._database.insert(self._table).values(row).on_conflict_do_nothing()
            connection.execute(add)

    def all(self) -> list[Known]:
        """All surveys, in the order they were added."""
        numbers = self.numbers()
        for known in list(self._known.values()):  # other threads add to it
            if numbers.get(known.survey.id) != known.number:
                self._known.pop(known.survey.id, None)
        return [self.find(survey) for survey in numbers]

    def numbers(self) -> dict[SurveyId, int]:
        """The names of all surveys and the numbers of their rows, in the order they were added."""
        query = sa.select(self._table.c.number, self._table.c.id)
        query = query.where(self._table.c.configuration != _REMOVED)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(self._table.c.number)).all()
        return {SurveyId(bytes(row.id)): row.number for row in rows}

    def find(self, survey: SurveyId) -> Known:
        """One survey."""
        known = self._known.get(survey)
        if known is None:
            known = self._known[survey] = self._read(survey)
        return known

    def numbered(self, number: int) -> Known:
        """The survey of a row that refers to it by number."""
        for known in list(self._known.values()):  # other threads add to it
            if known.number == number:
                return known
        return next(known for known in self.all() if known.number == number)

    def confirm(self, connection: sa.Connection, known: Known) -> None:
        """Refuse to write for a survey that was removed; until the transaction ends it stays.

        Past the expression language, as all of the intake, whose every group asks.
        """
        mark, lock = ("?", "") if self._database.dialect == SQLITE else ("%s", " FOR KEY SHARE")
        query = f"SELECT 1 FROM surveys WHERE number = {mark} AND id = {mark}{lock}"  # noqa: S608 - marks only
        driver: Any = connection.connection.driver_connection
        if driver.execute(query, (known.number, known.survey.id.digest)).fetchone() is None:
            self._known.pop(known.survey.id, None)
            raise UnknownSurveyError(str(known.survey.id))

    def taken(self, survey: SurveyId, traces: Iterable[sa.Table]) -> bool:
        """Whether one of the tables has anything of a survey."""
        number = self.find(survey).number
        with self._database.read() as connection:
            return _any(connection, number, traces)

    def remove(self, survey: SurveyId, traces: Iterable[sa.Table], tokens: sa.Table) -> int:
        """Forget a survey that nothing was taken for, with its tokens; how many those were."""
        mine = self._table.c.id == survey.digest
        with self._database.write() as connection:
            number = connection.execute(
                sa.select(self._table.c.number).where(mine).with_for_update()
            ).scalar()
            if number is None:
                raise UnknownSurveyError(str(survey))
            if _any(connection, number, traces):
                raise SurveyInUseError(str(survey))
            revoked = connection.execute(tokens.delete().where(tokens.c.survey == number)).rowcount
            nameless = sha256(b"removed %d " % number + survey.digest).digest()
            row = {"id": nameless, "configuration": _REMOVED}
            connection.execute(self._table.update().where(mine).values(row))
        self._known.pop(survey, None)
        return revoked

    def _read(self, survey: SurveyId) -> Known:
        with self._database.read() as connection:
            row = connection.execute(
                sa.select(self._table).where(self._table.c.id == survey.digest)
            ).first()
        if row is None:
            raise UnknownSurveyError(str(survey))
        found = Survey.from_bytes(bytes(row.configuration))
        return Known(row.number, found, Wire.of(found))


def _any(connection: sa.Connection, number: int, traces: Iterable[sa.Table]) -> bool:
    mine = (sa.select(table.c.survey).where(table.c.survey == number).limit(1) for table in traces)
    return any(connection.execute(query).first() is not None for query in mine)

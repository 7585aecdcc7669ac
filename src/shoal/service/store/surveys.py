"""The surveys a service works for. They never change, so what was read once stays true."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from shoal.sealing import SurveyId
from shoal.service.errors import UnknownSurveyError
from shoal.service.store.database import Database
from shoal.service.survey import Survey
from shoal.service.wire import Wire


@dataclass(frozen=True)
class Known:
    """A survey, the number of its row, and its envelopes."""

    number: int
    survey: Survey
    wire: Wire


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
        with self._database.read() as connection:
            rows = connection.execute(
                sa.select(self._table.c.number, self._table.c.id).order_by(self._table.c.number)
            ).all()
        return [self.find(SurveyId(bytes(row.id))) for row in rows]

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

    def _read(self, survey: SurveyId) -> Known:
        with self._database.read() as connection:
            row = connection.execute(
                sa.select(self._table).where(self._table.c.id == survey.digest)
            ).first()
        if row is None:
            raise UnknownSurveyError(str(survey))
        found = Survey.from_bytes(bytes(row.configuration))
        return Known(row.number, found, Wire.of(found))

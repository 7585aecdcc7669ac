"""The surveys a service works for. They never change, so what was read once stays true.

One that was added by mistake can be removed, as long as nothing was ever taken for it. Its row
stays, without its name and its content, so that no other survey is ever given its number: other
processes may know it by that still. Whatever they write for it, they ask first (``confirm``). The
same survey, added again, has its row again: with what it may have cost before a restored backup.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

import sqlalchemy as sa

from shoal.errors import RefusedError
from shoal.sealing import SurveyId
from shoal.service.db.database import Database
from shoal.service.db.tables import surveys, tokens
from shoal.service.errors import (
    NotReadyError,
    UnknownError,
    UnreadableError,
)
from shoal.service.survey import Survey
from shoal.service.wire import Wire


@dataclass(frozen=True)
class SurveyRow:
    """A survey, the number of its row, and its envelopes."""

    number: int
    survey: Survey
    wire: Wire


@dataclass(frozen=True)
class Deleted:
    """What was deleted of a survey, by its kind, and in words what is left."""

    counts: dict[str, int]
    left: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {"deleted": dict(self.counts), "left": list(self.left)}


LEFT = (
    "the number of the survey's row, without name and content",
    "everything in backups made before",
)
_REMOVED = b""  # the configuration of a survey that was removed


@dataclass(eq=False)
class Surveys:
    """The surveys of a store.

    Whatever is left of the reports of one is in the tables ``traces``; what was registered for it,
    and goes with it, is in ``registered``.
    """

    database: Database
    traces: tuple[sa.Table, ...] = ()
    registered: tuple[sa.Table, ...] = (tokens,)
    _rows: dict[SurveyId, SurveyRow] = field(default_factory=dict, init=False)

    def add(self, survey: Survey) -> None:
        """Collect for a survey; added twice it is there once."""
        values = {"id": survey.id.digest, "configuration": survey.to_bytes()}
        removed = sa.select(surveys.c.number, surveys.c.id)
        removed = removed.where(surveys.c.configuration == _REMOVED)
        with self.database.write() as connection:
            for number, name in connection.execute(removed).all():
                if bytes(name) == _nameless(number, survey.id):
                    mine = surveys.update().where(surveys.c.number == number)
                    connection.execute(mine.values(values))
                    return
            add = self.database.insert(surveys).values(values).on_conflict_do_nothing()
            connection.execute(add)

    def all(self) -> list[Survey]:
        """All surveys, in the order they were added."""
        numbers = self._numbers()
        for row in list(self._rows.values()):  # other threads add to it
            if numbers.get(row.survey.id) != row.number:
                self._rows.pop(row.survey.id, None)
        return [self.get(survey) for survey in numbers]

    def names(self) -> list[SurveyId]:
        """What they are called, whatever is in them."""
        return list(self._numbers())

    def get(self, survey: SurveyId) -> Survey:
        """One survey."""
        return self.row(survey).survey

    def row(self, survey: SurveyId) -> SurveyRow:
        """One survey as it is stored."""
        row = self._rows.get(survey)
        if row is None:
            row = self._rows[survey] = self._read(surveys.c.id == survey.digest, str(survey))
        return row

    def numbered(self, number: int) -> SurveyRow:
        """The survey of a row that refers to it by number."""
        for row in list(self._rows.values()):  # other threads add to it
            if row.number == number:
                return row
        row = self._read(surveys.c.number == number, str(number))
        return self._rows.setdefault(row.survey.id, row)

    def confirm(self, connection: sa.Connection, row: SurveyRow) -> None:
        """Refuse to write for a survey that was removed; until the transaction ends it stays.

        Past the expression language, as all of the intake, whose every group asks.
        """
        dialect = self.database.dialect
        query = f"SELECT 1 FROM surveys WHERE number = ? AND id = ?{dialect.shared_lock}"  # noqa: S608 - one of two
        if dialect.run(connection, query, (row.number, row.survey.id.digest)).fetchone() is None:
            self._rows.pop(row.survey.id, None)
            raise UnknownError("survey", str(row.survey.id))

    def taken(self, survey: SurveyId) -> bool:
        """Whether anything was ever taken for a survey; for the operator only."""
        number = self.row(survey).number
        with self.database.read() as connection:
            return self._any(connection, number)

    def remove(self, survey: SurveyId) -> int:
        """Forget a survey that nothing was taken for, with its tokens; how many those were."""
        mine = surveys.c.id == survey.digest
        with self.database.write() as connection:
            number = connection.scalar(sa.select(surveys.c.number).where(mine).with_for_update())
            if number is None:
                raise UnknownError("survey", str(survey))
            if self._any(connection, number):
                what = f"survey {survey} cannot be removed"
                raise RefusedError(what, "it has reports", "it closes at its end")
            return self.forget(connection, number, survey)

    def forget(self, connection: sa.Connection, number: int, survey: SurveyId) -> int:
        """Forget a survey, of which nothing else is left, and its tokens; how many those were."""
        gone = {
            table.name: connection.execute(table.delete().where(table.c.survey == number)).rowcount
            for table in self.registered
        }
        values = {"id": _nameless(number, survey), "configuration": _REMOVED}
        connection.execute(surveys.update().where(surveys.c.number == number).values(values))
        self._rows.pop(survey, None)
        return gone[tokens.name]

    def ended(self, survey: SurveyId, now: int) -> SurveyRow:
        """A survey whose last batch can have closed; another is refused."""
        row = self.row(survey)
        ends = row.survey.not_after + row.survey.batches.max_age
        if now <= ends:
            what = f"the data of survey {survey}"
            raise NotReadyError(what, "the survey is not over", retry_after=ends - now + 1)
        return row

    def _numbers(self) -> dict[SurveyId, int]:
        query = sa.select(surveys.c.number, surveys.c.id)
        query = query.where(surveys.c.configuration != _REMOVED)
        rows = self.database.rows(query.order_by(surveys.c.number))
        return {SurveyId(bytes(row.id)): row.number for row in rows}

    def _read(self, condition: sa.ColumnElement[bool], name: str) -> SurveyRow:
        row = self.database.first(sa.select(surveys).where(condition))
        if row is None or bytes(row.configuration) == _REMOVED:
            raise UnknownError("survey", name)
        # What people agreed to is what its name is the hash of, whoever can write to the database.
        if sha256(bytes(row.configuration)).digest() != bytes(row.id):
            raise UnreadableError(f"survey {name}", "the configuration that its id is the hash of")
        survey = Survey.from_bytes(bytes(row.configuration))
        return SurveyRow(row.number, survey, Wire.of(survey))

    def _any(self, connection: sa.Connection, number: int) -> bool:
        queries = (sa.exists().where(table.c.survey == number) for table in self.traces)
        return any(connection.scalar(sa.select(query)) for query in queries)


def lock_survey(connection: sa.Connection, number: int, *, key_share: bool = False) -> None:
    """Wait for whoever has the row of a survey, and let others wait until the transaction ends."""
    mine = sa.select(surveys.c.number).where(surveys.c.number == number)
    connection.execute(mine.with_for_update(key_share=key_share))


def _nameless(number: int, survey: SurveyId) -> bytes:
    """What a survey that was removed is called: only who knows its name finds it."""
    return sha256(b"removed %d " % number + survey.digest).digest()

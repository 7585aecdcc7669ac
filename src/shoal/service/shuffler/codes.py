"""Codes of people invited: registered by their hashes, and spent once each.

::

    registered ── a report comes with it ──▶ waiting ── it is gathered ──▶ recent ──▶ spent
        ├── revoke ──▶ revoked             its place stays taken: it may be replaced later
        └── replace ─▶ replaced            its successor has its place, and is spent if it was

*Once.* A code is spent in the transaction that makes its report durable. With which report nothing
says: a report that was taken before is acknowledged again, as its tag is known, and another one is
refused. A report that does not open later has spent its code all the same.

*No more than promised.* A survey has a place for every report of every person entitled. Whoever is
replaced passes a place on with all that happened to it, so that there are never more reports than
places, and nobody learns from a replacement whether it was needed.

*Nothing to link by.* Codes that wait are in the intake's journal, as tags are, and move with them,
in the order of their bytes and among many (:mod:`shoal.service.shuffler.mixing`). No code is
stored, and no time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

import sqlalchemy as sa

from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service.admission import (
    CODE_BYTES,
    CODE_REVOKED,
    CODE_SPENT,
    CODE_UNKNOWN,
    Invited,
    hashes_of,
)
from shoal.service.db.database import Database
from shoal.service.db.dialect import Scope, dialect_of
from shoal.service.db.surveys import SurveyRow, Surveys, lock_survey
from shoal.service.db.tables import known_tags
from shoal.service.shuffler.mixing import turned_over
from shoal.service.shuffler.tables import (
    ANYWHERE,
    LIVE,
    REPLACED,
    REVOKED,
    codes,
    recent_codes,
    waiting_codes,
)

_AT_ONCE = 500  # below SQLite's limit of parameters
# One statement: a code that a worker moves meanwhile is spent before and after.
_STATES = (
    "SELECT codes.hash, codes.state, codes.spent OR recent_codes.hash IS NOT NULL "
    "FROM codes LEFT JOIN recent_codes "
    "ON recent_codes.survey = codes.survey AND recent_codes.hash = codes.hash "
    "WHERE codes.survey = ? AND codes.hash"
)
_WAITING = "SELECT hash FROM waiting_codes WHERE survey = ? AND hash"
_UNSPEND = "DELETE FROM waiting_codes WHERE survey = ? AND hash"
_MARK_SPENT = "UPDATE codes SET spent = TRUE WHERE survey = ? AND hash"


def _refusal(value: object, expected: str) -> InvalidArgumentError:
    """Codes that cannot be registered, revoked or replaced: none of them was."""
    return InvalidArgumentError("codes", value, expected)


@dataclass(frozen=True, kw_only=True)
class CodeTotals:
    """Of a survey: no more is told of codes than how many there are."""

    entitled: int
    places: int
    registered: int
    revoked: int
    replaced: int
    spent: int

    def to_dict(self) -> dict[str, int]:
        """Plain values."""
        return asdict(self)


class Shown(Protocol):
    """Codes as they came beside reports, of which these are the tags, for one extent."""

    tags: list[bytes]
    key: int
    extent: int

    @property
    def codes(self) -> bytes: ...


@dataclass(frozen=True, eq=False)
class Spending:
    """What became of codes: positions that spent theirs now, and of those refused, by reason."""

    new: Sequence[int]
    refused: dict[str, list[int]]


def spend(connection: sa.Connection, survey: int, shown: Sequence[Shown]) -> list[Spending]:
    """Spend codes with the reports that came with them; the first one that comes with a code wins.

    A report that was taken before is neither new nor refused. In the order of their hashes for all,
    so that no two transactions wait for each other.
    """
    hashes = [hashed for each in shown for hashed in hashes_of(each.codes)]
    extents = [each.extent for each in shown for _ in each.tags]
    first = dict(zip(reversed(hashes), reversed(range(len(hashes))), strict=True))
    states = _states(connection, survey, sorted(first))
    free = sorted(hashed for hashed, row in states.items() if row == (LIVE, False))
    new = dialect_of(connection).add_waiting(
        connection,
        Scope(waiting_codes, (survey,)),
        {hashed: extents[first[hashed]] for hashed in free},
        partial(_gathered, connection, survey),
    )
    outcome: list[Spending] = []
    start = 0
    for each in shown:
        here = range(start, start + len(each.tags))
        start = here.stop
        if len(new) == len(hashes):  # nearly always
            outcome.append(Spending(range(len(here)), {}))
            continue
        fresh = [at for at, place in enumerate(here) if first[hashes[place]] == place]
        fresh = [at for at in fresh if hashes[here[at]] in new]
        refused = _refused(connection, survey, each, set(fresh), hashes[here.start :], states)
        outcome.append(Spending(fresh, refused))
    return outcome


def _refused(
    connection: sa.Connection,
    survey: int,
    shown: Shown,
    fresh: Collection[int],
    hashes: Sequence[bytes],
    states: Mapping[bytes, tuple[int, bool]],
) -> dict[str, list[int]]:
    """Positions of others than the ``fresh`` ones, by reason.

    What came before is not refused, whatever became of the code; nor is it taken again.
    """
    others = [at for at in range(len(shown.tags)) if at not in fresh]
    asked = sorted({shown.tags[at] for at in others if hashes[at] in states})
    known = known_tags(connection, survey, shown.key, asked, ANYWHERE)
    known.update(shown.tags[at] for at in fresh)
    refused: dict[str, list[int]] = {}
    for at in others:
        if hashes[at] not in states:
            refused.setdefault(CODE_UNKNOWN, []).append(at)
        elif shown.tags[at] not in known:
            state, _ = states[hashes[at]]
            refused.setdefault(CODE_SPENT if state == LIVE else CODE_REVOKED, []).append(at)
    return refused


def _states(
    connection: sa.Connection, survey: int, hashes: Sequence[bytes]
) -> dict[bytes, tuple[int, bool]]:
    """State of codes that are registered, and whether a gathering has seen them spent."""
    rows = dialect_of(connection).run_among(connection, [_STATES], (survey,), hashes)
    return {bytes(hashed): (state, bool(spent)) for hashed, state, spent in rows}


def _gathered(connection: sa.Connection, survey: int, hashes: Sequence[bytes]) -> set[bytes]:
    """Those of these codes that were spent with reports that do not wait any more."""
    states = _states(connection, survey, hashes)
    return {hashed for hashed, (_, spent) in states.items() if spent}


def unspend(connection: sa.Connection, survey: int, hashes: Sequence[bytes]) -> None:
    """Undo what this transaction has spent, with reports that turned out to be nothing new."""
    dialect_of(connection).run_among(connection, [_UNSPEND], (survey,), hashes)


def settle(connection: sa.Connection, survey: int, extents: Sequence[int]) -> None:
    """Move what these extents have spent out of the journal, to the recent codes.

    Those are written anew, in the order of the hashes; some of them leave, and are spent for good.
    """
    mine = recent_codes.delete().where(recent_codes.c.survey == survey)
    spent = set(map(bytes, connection.scalars(mine.returning(recent_codes.c.hash))))
    for start in range(0, len(extents), _AT_ONCE):
        theirs = waiting_codes.c.extent.in_(extents[start : start + _AT_ONCE])
        query = waiting_codes.delete().where(waiting_codes.c.survey == survey, theirs)
        spent.update(map(bytes, connection.scalars(query.returning(waiting_codes.c.hash))))
    remaining, leaving = turned_over(spent)
    if remaining:
        rows = [{"survey": survey, "hash": hashed} for hashed in remaining]
        connection.execute(recent_codes.insert(), rows)
    mark_spent(connection, survey, leaving)


def mark_spent(connection: sa.Connection, survey: int, hashes: Sequence[bytes]) -> None:
    """Say of codes that they were spent, once and for all."""
    dialect_of(connection).run_among(connection, [_MARK_SPENT], (survey,), hashes)


@dataclass(frozen=True, eq=False)
class Codes:
    """The codes of a store, for whoever invites and whoever operates it."""

    database: Database
    surveys: Surveys

    def add(self, survey: SurveyId, hashes: Collection[bytes]) -> int:
        """Register codes, in the order of their hashes; how many were not there before.

        All of them or none: there are no more than the survey has places.
        """
        row, added = self._invited(survey), sorted(set(hashes))
        if any(len(hashed) != CODE_BYTES for hashed in added):
            raise _refusal("other lengths", f"hashes of {CODE_BYTES} bytes")
        with self.database.write() as connection:
            self._alone(connection, row)
            known = _states(connection, row.number, added)
            new = [hashed for hashed in added if hashed not in known]
            taken = self._count(connection, row.number, codes.c.state != REPLACED)
            places = int(row.survey.admission.most_valid(row.survey.reports_per_person))
            if taken + len(new) > places:
                raise _refusal(
                    f"{len(new):,} with {taken:,} registered before",
                    f"at most {places:,}, the number of people whom the survey entitles; "
                    "replace a lost code instead",
                )
            self._insert(connection, row.number, [(hashed, False) for hashed in new])
        return len(new)

    def revoke(self, survey: SurveyId, hashes: Collection[bytes]) -> None:
        """Take no more reports with these codes; what came with them stays."""
        row, gone = self._invited(survey), sorted(set(hashes))
        with self.database.write() as connection:
            self._alone(connection, row)
            self._withdraw(connection, row, gone, REVOKED)

    def replace(self, survey: SurveyId, pairs: Mapping[bytes, bytes]) -> None:
        """Put new codes in the places of old ones: each is as spent as its predecessor was.

        Said again, it changes nothing.
        """
        row = self._invited(survey)
        if len({*pairs, *pairs.values()}) != 2 * len(pairs):
            raise _refusal("repeated ones", "codes that differ")
        with self.database.write() as connection:
            self._alone(connection, row)
            before = _states(connection, row.number, sorted(pairs))
            known = _states(connection, row.number, sorted(pairs.values()))
            done = {old for old, (state, _) in before.items() if state == REPLACED}
            done &= {old for old, new in pairs.items() if new in known}
            old = sorted(pairs.keys() - done)
            if any(pairs[each] in known for each in old):
                raise _refusal("codes that are registered", "new codes as replacements")
            # No worker moves one meanwhile.
            dialect = self.database.dialect
            waiting = dialect.run_among(connection, [_WAITING], (row.number,), old)
            spent = {bytes(hashed) for (hashed,) in waiting}
            states = self._withdraw(connection, row, old, REPLACED)
            spent.update(hashed for hashed, (_, before) in states.items() if before)
            fresh = sorted((pairs[each], each in spent) for each in old)
            self._insert(connection, row.number, fresh)

    def unknown(self, row: SurveyRow, shown: bytes, most: int) -> int:
        """How many codes are none of this survey; no further ones are looked at after so many."""
        count = 0
        with self.database.read() as connection:
            for start in range(0, len(shown), _AT_ONCE * CODE_BYTES):
                part = set(hashes_of(shown[start : start + _AT_ONCE * CODE_BYTES]))
                count += len(part) - len(_states(connection, row.number, sorted(part)))
                if count >= most:
                    return most
        return count

    def totals(self, survey: SurveyId) -> CodeTotals:
        """How many there are; the spent ones are as many after one is revoked or replaced."""
        row = self._invited(survey)
        lately = (
            sa.exists().where(table.c.survey == codes.c.survey, table.c.hash == codes.c.hash)
            for table in (recent_codes, waiting_codes)
        )
        spent = sa.and_(codes.c.state != REPLACED, sa.or_(codes.c.spent, *lately))
        with self.database.read() as connection:
            live, revoked, replaced = (
                self._count(connection, row.number, codes.c.state == state)
                for state in (LIVE, REVOKED, REPLACED)
            )
            total = self._count(connection, row.number, spent)
        admission = row.survey.admission
        assert isinstance(admission, Invited)  # noqa: S101 - as was looked at above
        return CodeTotals(
            entitled=admission.entitled,
            places=int(admission.most_valid(row.survey.reports_per_person)),
            registered=live,
            revoked=revoked,
            replaced=replaced,
            spent=total,
        )

    def _withdraw(
        self, connection: sa.Connection, row: SurveyRow, hashes: Sequence[bytes], state: int
    ) -> dict[bytes, tuple[int, bool]]:
        """Let codes count no more; as they were. What was replaced has a successor already."""
        states = _states(connection, row.number, hashes)
        missing = len(hashes) - len(states)
        if missing:
            raise _refusal(f"{missing:,} unknown ones", "codes registered here")
        if any(before == REPLACED for before, _ in states.values()):
            raise _refusal("replaced ones", "codes that were not replaced before")
        update = codes.update().where(
            codes.c.survey == row.number, codes.c.hash == sa.bindparam("withdrawn")
        )
        rows = [{"withdrawn": hashed} for hashed in hashes]
        if rows:
            connection.execute(update.values(state=state), rows)
        return states

    def _insert(
        self, connection: sa.Connection, survey: int, fresh: Sequence[tuple[bytes, bool]]
    ) -> None:
        values = [
            {"survey": survey, "hash": hashed, "state": LIVE, "spent": spent}
            for hashed, spent in fresh
        ]
        if values:
            connection.execute(codes.insert(), values)

    def _invited(self, survey: SurveyId) -> SurveyRow:
        row = self.surveys.row(survey)
        if not row.survey.admission.code_bytes:
            raise _refusal("a survey for invited people", "a survey for which people are invited")
        return row

    def _count(
        self, connection: sa.Connection, survey: int, condition: sa.ColumnElement[bool]
    ) -> int:
        mine = sa.select(sa.func.count()).where(codes.c.survey == survey, condition)
        return int(connection.scalar(mine) or 0)

    def _alone(self, connection: sa.Connection, row: SurveyRow) -> None:
        """Wait for whoever takes in or gathers reports of the survey; nobody does so meanwhile."""
        lock_survey(connection, row.number)
        self.surveys.confirm(connection, row)

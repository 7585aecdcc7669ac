"""Codes of people invited: registered by their hashes, and spent once each.

::

    registered ── a report comes with it ──▶ waiting ── the report is gathered ──▶ spent
        ├── revoke ──▶ revoked             its place stays taken: it may be replaced later
        └── replace ─▶ replaced            its successor has its place, and is spent if it was

*Once.* A code is spent in the transaction that makes its report durable. What is kept says with
which report (``bound``): the same report again is acknowledged again, another one is refused. A
report that does not open later has spent its code all the same.

*No more than promised.* A survey has a place for every report of every person entitled. Whoever is
replaced passes a place on with all that happened to it, so that there are never more reports than
places, and nobody learns from a replacement whether it was needed.

*Nothing to link by.* Codes that wait are in the intake's journal, as tags are, and move with them,
in the order of their bytes. No code is stored, and no time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import sqlalchemy as sa

from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service.admission import (
    CODE_BYTES,
    CODE_REVOKED,
    CODE_SPENT,
    CODE_UNKNOWN,
    Invited,
    bounds_of,
    hashes_of,
)
from shoal.service.db.database import SQLITE, Database
from shoal.service.db.surveys import SurveyRow, Surveys
from shoal.service.db.tables import surveys as survey_rows
from shoal.service.shuffler.tables import LIVE, REPLACED, REVOKED, codes, waiting_codes

_AT_ONCE = 500  # below SQLite's limit of parameters
_WAITING, _SPENT, _IS_SPENT = (
    "bound FROM waiting_codes",
    "bound FROM codes",
    " AND bound IS NOT NULL",
)


class CodesRefusedError(InvalidArgumentError):
    """Codes that cannot be registered, revoked or replaced: none of them was."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__("codes", value, expected)


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

    What came before with the same code is neither new nor refused. In the order of their hashes for
    all, so that no two transactions wait for each other.
    """
    hashes = [hashed for each in shown for hashed in hashes_of(each.codes)]
    bounds = [bound for each in shown for bound in bounds_of(each.codes, each.tags)]
    extents = [each.extent for each in shown for _ in each.tags]
    first = dict(zip(reversed(hashes), reversed(range(len(hashes))), strict=True))
    registered = _registered(connection, survey, sorted(first))
    free = [hashed for hashed, row in registered.items() if row == (LIVE, None)]
    rows = [(hashed, bounds[first[hashed]], extents[first[hashed]]) for hashed in sorted(free)]
    spent = {hashed: bound for hashed, (_, bound) in registered.items() if bound is not None}
    spent |= _wait(connection, survey, rows)
    if gone := [each for each, (state, _) in registered.items() if state != LIVE]:
        spent |= _registered(connection, survey, gone, _WAITING)
    new = set(free) - spent.keys()
    outcome: list[Spending] = []
    start = 0
    for each in shown:
        end = start + len(each.tags)
        if len(new) == len(hashes):  # nearly always
            outcome.append(Spending(range(end - start), {}))
        else:
            outcome.append(_judged(start, end, hashes, bounds, first, new, spent, registered))
        start = end
    return outcome


def _judged(
    start: int,
    end: int,
    hashes: Sequence[bytes],
    bounds: Sequence[bytes],
    first: Mapping[bytes, int],
    new: Collection[bytes],
    spent: Mapping[bytes, bytes],
    registered: Mapping[bytes, tuple[int, bytes | None]],
) -> Spending:
    """Of the codes from ``start`` to ``end`` one by one."""
    fresh: list[int] = []
    refused: dict[str, list[int]] = {}
    for at in range(start, end):
        hashed, bound = hashes[at], bounds[at]
        state, _ = registered.get(hashed, (None, None))
        if hashed in new and first[hashed] == at:
            fresh.append(at - start)
            continue
        if bound == (bounds[first[hashed]] if hashed in new else spent.get(hashed)):
            continue  # it came before: acknowledged again, whatever became of the code
        reason = CODE_SPENT if state == LIVE else CODE_REVOKED
        refused.setdefault(CODE_UNKNOWN if state is None else reason, []).append(at - start)
    return Spending(fresh, refused)


def _registered(
    connection: sa.Connection,
    survey: int,
    hashes: Sequence[bytes],
    columns: str = "state, bound FROM codes",
    more: str = "",
) -> dict[bytes, Any]:
    """What is known of codes, by hash: state and bound, or the one column that is asked for.

    Past the expression language, as all of the intake.
    """
    driver: Any = connection.connection.driver_connection
    query = f"SELECT hash, {columns} WHERE survey = "
    if connection.dialect.name != SQLITE:
        query += f"%s AND hash = ANY(%b::bytea[]){more}"
        rows = list(driver.execute(query, (survey, list(hashes))))
    else:
        rows = []
        for start in range(0, len(hashes), _AT_ONCE):
            part = hashes[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(part))
            rows += driver.execute(f"{query}? AND hash IN ({marks}){more}", (survey, *part))
    return {row[0]: row[1:] if len(row) > 2 else row[1] for row in rows}


def _wait(
    connection: sa.Connection, survey: int, rows: Sequence[tuple[bytes, bytes, int]]
) -> dict[bytes, bytes]:
    """Spend codes that were free a moment ago; those that others have spent, and their bounds."""
    driver: Any = connection.connection.driver_connection
    hashes = [hashed for hashed, _, _ in rows]
    if connection.dialect.name == SQLITE:  # where nobody else writes meanwhile
        spent = _registered(connection, survey, hashes, _WAITING)
        insert = "INSERT INTO waiting_codes (survey, hash, bound, extent) VALUES (?, ?, ?, ?)"
        driver.executemany(insert, [(survey, *row) for row in rows if row[0] not in spent])
        return spent
    insert = (
        "INSERT INTO waiting_codes (survey, hash, bound, extent) SELECT %s, hash, bound, extent "
        "FROM unnest(%b::bytea[], %b::bytea[], %b::bigint[]) AS row (hash, bound, extent) "
        "ON CONFLICT DO NOTHING RETURNING hash"
    )
    columns = [[row[column] for row in rows] for column in range(3)]
    new = [bytes(hashed) for (hashed,) in driver.execute(insert, (survey, *columns))]
    # A worker moves a bound in one transaction, which the insertion has waited for: what is not
    # here any more is seen there.
    moved = _registered(connection, survey, hashes, _SPENT, _IS_SPENT)
    others = set(hashes).difference(new)
    waiting = _registered(connection, survey, sorted(others), _WAITING)
    if others - waiting.keys() - moved.keys():
        moved |= _registered(connection, survey, sorted(others), _SPENT, _IS_SPENT)
    unspend(connection, survey, [hashed for hashed in new if hashed in moved])
    return waiting | moved


def unspend(connection: sa.Connection, survey: int, hashes: Sequence[bytes]) -> None:
    """Undo what this transaction has spent, with reports that turned out to be nothing new."""
    if not hashes:
        return
    gone = waiting_codes.c.hash.in_(sa.bindparam("hashes", expanding=True))
    query = waiting_codes.delete().where(waiting_codes.c.survey == survey, gone)
    for start in range(0, len(hashes), _AT_ONCE):
        connection.execute(query, {"hashes": list(hashes[start : start + _AT_ONCE])})


def settle(connection: sa.Connection, survey: int, extents: Sequence[int]) -> None:
    """Move what these extents have spent out of the journal, in the order of the hashes."""
    spent: list[tuple[bytes, bytes]] = []
    for start in range(0, len(extents), _AT_ONCE):
        theirs = waiting_codes.c.extent.in_(extents[start : start + _AT_ONCE])
        query = waiting_codes.delete().where(waiting_codes.c.survey == survey, theirs)
        gone = connection.execute(query.returning(waiting_codes.c.hash, waiting_codes.c.bound))
        spent += ((bytes(hashed), bytes(bound)) for hashed, bound in gone)
    bind(connection, survey, spent)
    left = sa.select(waiting_codes.c.hash).limit(1)
    # SQLite alone, where nobody adds to it in between: it wipes the last page, too.
    if connection.dialect.name == SQLITE and connection.execute(left).first() is None:
        connection.execute(waiting_codes.delete())


def bind(connection: sa.Connection, survey: int, spent: Iterable[tuple[bytes, bytes]]) -> None:
    """Say of codes with which reports they were spent."""
    driver: Any = connection.connection.driver_connection
    rows = sorted(spent)
    if connection.dialect.name == SQLITE:
        update = "UPDATE codes SET bound = ? WHERE survey = ? AND hash = ?"
        driver.executemany(update, [(bound, survey, hashed) for hashed, bound in rows])
    elif rows:
        update = (
            "UPDATE codes SET bound = row.bound "
            "FROM unnest(%b::bytea[], %b::bytea[]) AS row (hash, bound) "
            "WHERE codes.survey = %s AND codes.hash = row.hash"
        )
        hashes, bounds = ([row[column] for row in rows] for column in range(2))
        driver.execute(update, (hashes, bounds, survey))


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
            raise CodesRefusedError("other lengths", f"hashes of {CODE_BYTES} bytes")
        with self.database.write() as connection:
            self._alone(connection, row)
            known = _registered(connection, row.number, added)
            new = [hashed for hashed in added if hashed not in known]
            taken = self._count(connection, row.number, codes.c.state != REPLACED)
            places = int(row.survey.admission.most_valid(row.survey.reports_per_person))
            if taken + len(new) > places:
                raise CodesRefusedError(
                    f"{len(new):,} with {taken:,} registered before",
                    f"at most {places:,}, the number of people whom the survey entitles; "
                    "replace a lost code instead",
                )
            self._insert(connection, row.number, [(hashed, None) for hashed in new])
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
            raise CodesRefusedError("repeated ones", "codes that differ")
        with self.database.write() as connection:
            self._alone(connection, row)
            before = _registered(connection, row.number, sorted(pairs))
            known = _registered(connection, row.number, sorted(pairs.values()))
            done = {old for old, (state, _) in before.items() if state == REPLACED}
            done &= {old for old, new in pairs.items() if new in known}
            old = sorted(pairs.keys() - done)
            if any(pairs[each] in known for each in old):
                raise CodesRefusedError("codes that are registered", "new codes as replacements")
            # In this order: a worker moves a bound from where it waits to where it stays.
            waiting = _registered(connection, row.number, old, _WAITING)
            states = self._withdraw(connection, row, old, REPLACED)
            spent = {hashed: bound for hashed, (_, bound) in states.items()} | waiting
            self._insert(connection, row.number, sorted((pairs[each], spent[each]) for each in old))

    def unknown(self, row: SurveyRow, shown: bytes, most: int) -> int:
        """How many codes are none of this survey; no further ones are looked at after so many."""
        count = 0
        with self.database.read() as connection:
            for start in range(0, len(shown), _AT_ONCE * CODE_BYTES):
                part = set(hashes_of(shown[start : start + _AT_ONCE * CODE_BYTES]))
                count += len(part) - len(_registered(connection, row.number, sorted(part)))
                if count >= most:
                    return most
        return count

    def totals(self, survey: SurveyId) -> CodeTotals:
        """How many there are; the spent ones are as many after one is revoked or replaced."""
        row = self._invited(survey)
        mine, bound = codes.c.survey == row.number, codes.c.bound
        spent = sa.union(
            sa.select(bound).where(mine, bound.is_not(None)),
            sa.select(waiting_codes.c.bound).where(waiting_codes.c.survey == row.number),
        )
        with self.database.read() as connection:
            live, revoked, replaced = (
                self._count(connection, row.number, codes.c.state == state)
                for state in (LIVE, REVOKED, REPLACED)
            )
            total = connection.scalar(sa.select(sa.func.count()).select_from(spent.subquery()))
        admission = row.survey.admission
        assert isinstance(admission, Invited)  # noqa: S101 - as was looked at above
        return CodeTotals(
            entitled=admission.entitled,
            places=int(admission.most_valid(row.survey.reports_per_person)),
            registered=live,
            revoked=revoked,
            replaced=replaced,
            spent=int(total or 0),
        )

    def _withdraw(
        self, connection: sa.Connection, row: SurveyRow, hashes: Sequence[bytes], state: int
    ) -> dict[bytes, tuple[int, bytes | None]]:
        """Let codes count no more; as they were. What was replaced has a successor already."""
        states = _registered(connection, row.number, hashes)
        missing = len(hashes) - len(states)
        if missing:
            raise CodesRefusedError(f"{missing:,} unknown ones", "codes registered here")
        if any(before == REPLACED for before, _ in states.values()):
            raise CodesRefusedError("replaced ones", "codes that were not replaced before")
        update = codes.update().where(
            codes.c.survey == row.number, codes.c.hash == sa.bindparam("withdrawn")
        )
        rows = [{"withdrawn": hashed} for hashed in hashes]
        if rows:
            connection.execute(update.values(state=state), rows)
        return states

    def _insert(
        self, connection: sa.Connection, survey: int, fresh: Sequence[tuple[bytes, bytes | None]]
    ) -> None:
        values = [
            {"survey": survey, "hash": hashed, "state": LIVE, "bound": bound}
            for hashed, bound in fresh
        ]
        if values:
            connection.execute(codes.insert(), values)

    def _invited(self, survey: SurveyId) -> SurveyRow:
        row = self.surveys.row(survey)
        if not row.survey.admission.code_bytes:
            raise CodesRefusedError(
                "a survey for invited people", "a survey for which people are invited"
            )
        return row

    def _count(
        self, connection: sa.Connection, survey: int, condition: sa.ColumnElement[bool]
    ) -> int:
        mine = sa.select(sa.func.count()).where(codes.c.survey == survey, condition)
        return int(connection.scalar(mine) or 0)

    def _alone(self, connection: sa.Connection, row: SurveyRow) -> None:
        """Wait for whoever takes reports in for the survey, and let nobody do so meanwhile."""
        mine = survey_rows.c.number == row.number
        connection.execute(sa.select(survey_rows.c.number).where(mine).with_for_update())
        self.surveys.confirm(connection, row)

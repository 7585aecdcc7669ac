"""The outbox: one SQLite file that survives the process, and holds no answer.

What is in it, and when::

    randomized   the coin was tossed and the message drawn        messages
    sealed       it was sealed for the survey's operators         messages, sealed bytes
    done         delivered, abstained, given up or forgotten      neither: that the occasion is used

Every step is one durable transaction, taken before the next one begins. A message is drawn inside
the transaction that writes it, so that two processes cannot draw it twice. What is deleted is
overwritten (``secure_delete``), as far as the file is concerned; what a disk or a backup keeps is
theirs.
"""

# ruff: noqa: S608
# Every statement is put together from constants of this file; values are bound.

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from shoal.sealing import SurveyId
from shoal.service.client import key_memory, tables
from shoal.service.client.drawing import Drawn
from shoal.service.client.errors import OutboxError, SurveyRefusedError
from shoal.service.client.key_memory import KeyMemory
from shoal.service.client.people import Begun, People, fresh_secret
from shoal.service.client.route import Route
from shoal.service.client.rows import Debit, Ledger, Outcome, Place, Row, Spent, Totals
from shoal.service.closing import Closing

FILE = "outbox.sqlite"
_UNBOUNDED = (1 << 32) - 2  # pages, the most that SQLite has
_FULL = "it is full, or its disk is: make room there, or deliver what waits (flush)"
_PATIENCE = 30.0  # seconds for another process to finish its transaction
_HERE = "survey = ? AND job = ? AND occasion = ? AND chunk = ?"
_WAITING = "state != 'done'"
_WANTED = "NOT EXISTS (SELECT 1 FROM consent)"  # nobody has opted out
_JOB = "survey = ? AND job = ? AND occasion = ?"
_COLUMNS = (
    "survey, job, occasion, chunk, state, outcome, waiting, delivered, messages, sealed, keys, "
    "doubt, tries, due, proxied, over"
)
_WIPED = "state = 'done', waiting = 0, messages = NULL, sealed = NULL"


class Outbox(Closing):
    """The store of one person, or of a job with many."""

    def __init__(self, directory: Path, *, storage: int) -> None:
        self.path = directory / FILE
        self._lock = threading.RLock()
        with self._usable():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Nobody else may read it, from its first moment on; SQLite's own files follow it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            weakref.finalize(self, self._database.close)  # of a client that nobody closed
            self._prepare(storage)

    def _prepare(self, storage: int) -> None:
        for pragma in (
            "journal_mode = DELETE",
            "synchronous = EXTRA",
            "secure_delete = ON",
            "temp_store = MEMORY",
        ):
            self._run(f"PRAGMA {pragma}")
        (page,) = self._run("PRAGMA page_size").fetchone()
        self._pages = storage // page
        with self._transaction():
            reason = tables.prepared(self._run)
            if reason is not None:
                raise OutboxError(str(self.path), reason)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    # What is drawn.

    def draw(
        self,
        place: Place,
        route: Route,
        debit: Debit,
        *,
        admit: Callable[[Totals], None],
        make: Callable[[], tuple[Drawn, int, int]],
        proxied: bool = False,
    ) -> bool:
        """Draw a report, write it and its price down, at once and once; False if it is there.

        ``admit`` is told what other surveys have cost and may refuse; ``make`` draws, and says what
        time it is and when the report may leave. ``proxied``: not without a proxy.
        """
        with self._transaction():
            self._check_consent()
            if self._run(f"SELECT 1 FROM reports WHERE {_HERE}", *place.key).fetchone():
                return False
            admit(self._others(place.survey))
            price = (debit.epsilon, debit.delta, debit.local_epsilon, debit.allowed)
            self._run(
                "INSERT OR IGNORE INTO surveys VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(place.survey.digest, debit.name, route.to_bytes(), *price),
            )
            drawn, now, due = make()
            # Room for the sealed bytes is taken now, so that what was drawn can be sealed and sent.
            room = drawn.people * route.wire.report_bytes
            with self._bounded():
                self._run(
                    "INSERT INTO reports (survey, job, occasion, chunk, state, outcome, asked, "
                    "people, waiting, messages, sealed, due, said, proxied) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, zeroblob(?), ?, ?, ?)",
                    *place.key,
                    *(("randomized", "") if drawn.people else ("done", "abstained")),
                    *(drawn.asked, drawn.people, drawn.people, drawn.messages or None, room),
                    *(due, now, proxied),
                )
        return True

    def spent_besides(self, survey: SurveyId) -> Totals:
        """What other surveys have cost, if this person takes part at all."""
        with self._usable():
            self._check_consent()
            return self._others(survey)

    def _others(self, survey: SurveyId) -> Totals:
        found = self._run(
            "SELECT epsilon, delta, local_epsilon FROM surveys WHERE id != ?", survey.digest
        )
        return Totals.of(found.fetchall())

    def begin_job(self, place: Place, people: People) -> Begun:
        """Remember whom a job has and in what order, until all were drawn; what is known of it.

        Others under its name are refused: those who were drawn would be drawn again.
        """
        here = place.key[:3]
        with self._transaction():
            self._check_consent()
            known = self._run(
                "SELECT people, chunk, secret, digest, (SELECT coalesce(sum(asked), 0) FROM "
                f"reports WHERE {_JOB}) FROM jobs WHERE {_JOB}",
                *(*here, *here),
            ).fetchone()
            if known is None:
                secret = fresh_secret()
                self._run(
                    "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)",
                    *(*here, people.size, people.chunk, secret, people.digest(secret)),
                )
                return Begun(people.chunk, again=False)
        size, chunk, secret, digest, asked = known
        people.check(place.job, size=size, asked=asked, secret=secret, digest=digest)
        return Begun(chunk, again=asked == size)

    def end_job(self, place: Place) -> None:
        """All were drawn: what was kept to recognise them by is wiped."""
        self._change(f"UPDATE jobs SET secret = NULL, digest = NULL WHERE {_JOB}", *place.key[:3])

    def _check_consent(self) -> None:
        if self._run("SELECT 1 FROM consent").fetchone():
            raise SurveyRefusedError("this person has opted out", "opt in again to take part")

    # What is on its way.

    def row(self, place: Place) -> Row:
        """The reports at a place."""
        with self._usable():
            found = self._run(f"SELECT {_COLUMNS} FROM reports WHERE {_HERE}", *place.key)
            return _row(found.fetchone())

    def waiting(self, *, due: int | None) -> list[tuple[Place, bytes]]:
        """Where reports wait that may leave by now, and their ways; None: all that wait."""
        late = "" if due is None else " AND due <= ?"
        with self._usable():
            found = self._run(
                "SELECT survey, job, occasion, chunk, route FROM reports JOIN surveys "
                f"ON survey = id WHERE {_WAITING} AND {_WANTED}{late} ORDER BY due",
                *(() if due is None else (due,)),
            )
            return [
                (Place(SurveyId(survey), occasion, job, chunk), route)
                for survey, job, occasion, chunk, route in found
            ]

    def seal(self, row: Row, sealed: bytes, keys: str) -> None:
        """Keep the sealed bytes, unless another process has sealed or tried it meanwhile."""
        self._change(
            f"UPDATE reports SET state = 'sealed', sealed = ?, keys = ? WHERE {_HERE} "
            f"AND state = ? AND doubt = 0 AND (state = 'randomized' OR sealed = ?)",
            *(sealed, keys, *row.place.key, row.state, row.sealed),
        )

    def trying(self, row: Row) -> bool:
        """About to send: from here on it may have arrived. False if it has changed meanwhile.

        So it is if the person has opted out meanwhile.
        """
        changed = self._change(
            f"UPDATE reports SET tries = tries + 1, doubt = doubt + 1 WHERE {_HERE} "
            f"AND {_WAITING} AND {_WANTED} AND sealed = ?",
            *(*row.place.key, row.sealed),
        )
        return changed > 0

    def not_arrived(self, row: Row) -> None:
        """The last try certainly did not arrive."""
        self._change(f"UPDATE reports SET doubt = doubt - 1 WHERE {_HERE}", *row.place.key)

    def postpone(self, place: Place, due: int, *, now: int) -> None:
        """Not before this moment."""
        self._change(f"UPDATE reports SET due = ?, said = ? WHERE {_HERE}", due, now, *place.key)

    def reckon(self, now: int) -> None:
        """What was put off while the clock was ahead waits as long as was meant, from now on."""
        late = f"said > ? AND {_WAITING}"
        with self._transaction():
            if self._run(f"SELECT 1 FROM reports WHERE {late} LIMIT 1", now).fetchone():
                change = f"UPDATE reports SET due = due - said + ?, said = ? WHERE {late}"
                self._run(change, now, now, now)

    def over(self, place: Place, since: int) -> None:
        """Since when its survey is over, as far as this machine knows; 0: it is not."""
        self._change(f"UPDATE reports SET over = ? WHERE {_HERE}", since, *place.key)

    def through_proxy(self, place: Place) -> None:
        """From now on not without a proxy."""
        self._change(f"UPDATE reports SET proxied = 1 WHERE {_HERE}", *place.key)

    def keep_only(self, row: Row, messages: bytes, sealed: bytes, *, delivered: int) -> bool:
        """Go on with these alone, which did not arrive; False if an earlier try of them may have.

        The others were taken, or refused for good.
        """
        each = len(row.messages) // row.waiting
        changed = self._change(
            "UPDATE reports SET waiting = ?, delivered = delivered + ?, messages = ?, sealed = ?, "
            f"doubt = 0 WHERE {_HERE} AND {_WAITING} AND doubt = 1 AND sealed = ?",
            *(len(messages) // each, delivered, messages, sealed, *row.place.key, row.sealed),
        )
        return changed > 0

    def finish(self, place: Place, outcome: Outcome, *, delivered: int = 0) -> None:
        """Wipe the reports; that they were made stays known."""
        self._change(
            f"UPDATE reports SET {_WIPED}, outcome = ?, delivered = delivered + ? "
            f"WHERE {_HERE} AND {_WAITING}",
            *(outcome, delivered, *place.key),
        )

    def progress(self, place: Place) -> dict[str, int]:
        """Of a job: how many people were asked, take part, and have been heard."""
        with self._usable():
            found = self._run(
                "SELECT coalesce(sum(asked), 0), coalesce(sum(people), 0), "
                "coalesce(sum(delivered), 0), "
                "coalesce(sum(waiting), 0) FROM reports "
                "WHERE survey = ? AND job = ? AND occasion = ?",
                *place.key[:3],
            ).fetchone()
        return dict(zip(("asked", "people", "delivered", "waiting"), found, strict=True))

    # Keys, the ledger, and leaving.

    @property
    def keys(self) -> KeyMemory:
        """What is remembered of lists of keys."""
        return KeyMemory(self._run, self._usable, self._transaction)

    def ledger(self) -> Ledger:
        """What was spent."""
        with self._usable():
            found = self._run(
                "SELECT lower(hex(id)), name, epsilon, delta, local_epsilon, "
                "(SELECT count(DISTINCT occasion) FROM reports WHERE survey = id), allowed, "
                "(SELECT coalesce(sum(waiting), 0) FROM reports WHERE survey = id) "
                "FROM surveys ORDER BY name, id"
            ).fetchall()
        names = Spent.__dataclass_fields__
        return Ledger(tuple(Spent(**dict(zip(names, row, strict=True))) for row in found))

    def forget(self, survey: SurveyId) -> int:
        """Wipe what waits for a survey; the number of people it was of."""
        with self._transaction():
            people = self._wipe("survey = ?", survey.digest)
        self._compact()
        return people

    def opt_out(self) -> int:
        """Wipe all that waits, and take no more: both or neither.

        Of lists of keys it stays known which were seen, so that no older one is taken later.
        """
        with self._transaction():
            self._run("DELETE FROM consent")
            self._run("INSERT INTO consent VALUES (1)")
            self._run(key_memory.WIPED)
            people = self._wipe("TRUE")
        self._compact()
        return people

    def opt_in(self) -> None:
        """Take reports again."""
        self._change("DELETE FROM consent")

    def _wipe(self, where: str, *values: object) -> int:
        counted = f"SELECT coalesce(sum(waiting), 0) FROM reports WHERE {where}"
        (people,) = self._run(counted, *values).fetchone()
        self._run(
            f"UPDATE reports SET {_WIPED}, outcome = 'forgotten' WHERE {_WAITING} AND {where}",
            *values,
        )
        self._run(f"UPDATE jobs SET secret = NULL, digest = NULL WHERE {where}", *values)
        return int(people)

    def _compact(self) -> None:
        # What was wiped is overwritten already; another process may be at work, or the disk full.
        with self._lock, suppress(sqlite3.Error):
            self._run("VACUUM")

    def _change(self, statement: str, *values: object) -> int:
        with self._transaction():
            return self._run(statement, *values).rowcount

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._database.execute(statement, values)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """What is written here must fit; what only changes or wipes it may need a little more."""
        self._run(f"PRAGMA max_page_count = {self._pages}")
        try:
            yield
        finally:
            self._run(f"PRAGMA max_page_count = {_UNBOUNDED}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._usable():
            self._run("BEGIN IMMEDIATE")
            try:
                yield
                self._run("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._run("ROLLBACK")
                raise

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            reason = _FULL if full else error
            raise OutboxError(str(self.path), str(reason)) from error


def _row(found: tuple[Any, ...]) -> Row:
    survey, job, occasion, chunk, state, outcome, waiting, delivered, *rest = found
    place = Place(SurveyId(survey), occasion, job, chunk)
    messages, room, *rest = rest
    sealed = room if state == "sealed" else b""
    return Row(place, state, outcome, waiting, delivered, messages or b"", sealed, *rest)

"""The outbox: one SQLite file that survives the process, and holds no answer.

What is in it, and when::

    randomized   the coin was tossed and the message drawn        messages, codes
    sealed       it was sealed for the survey's operators         messages, codes, sealed bytes
    done         delivered, abstained, given up or forgotten      neither: that the occasion is used

Of an invitation no more is in it than the code that the report shows.

Every step is one durable transaction, taken before the next one begins. A message is drawn inside
the transaction that writes it, so that two processes cannot draw it twice. What is deleted is
overwritten (``secure_delete``), as far as the file is concerned; what a disk or a backup keeps is
theirs.

It also remembers lists of keys, so that nobody can show the device one and then another. Of every
list that was taken: the document for as long as it may be used, when it was issued and its hash for
good; of every key the number and the fingerprint, for good. Lists that contradict what was seen are
kept too, next to the list they contradict: both are signed by whoever made them.
"""

# ruff: noqa: S608
# Every statement is put together from constants of this file; values are bound.

from __future__ import annotations

import hmac
import math
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from shoal import randomness
from shoal.accounting.guarantee import Guarantee
from shoal.explain.text import up
from shoal.sealing import SurveyId, canonical, parsed
from shoal.service.client.errors import OutboxError, SurveyRefusedError
from shoal.service.client.randomize import Drawn, Values
from shoal.service.keyring import ROLES, ContradictionError, KeyList, Role
from shoal.service.keyring.key_list import Before, Contradiction, digest
from shoal.service.survey import Party, Survey
from shoal.service.wire import Wire
from shoal.values import attributes

FILE = "outbox.sqlite"
VERSION = 5
MOST_CONTRADICTIONS = 4
_SECRET_WORDS = 4
_DIGEST_BYTES = 32
_ANOTHER = "give other people's answers a job of another name"
_UNBOUNDED = (1 << 32) - 2  # pages, the most that SQLite has
_FULL = "it is full, or the disk is: free some space, or deliver the reports that wait (flush)"
_TIMEOUT = 30.0  # seconds for another process to finish its transaction
_JOB = "survey = ? AND job = ? AND occasion = ?"
_HERE = f"{_JOB} AND chunk = ?"
_WAITING = "state != 'done'"
_WANTED = "NOT EXISTS (SELECT 1 FROM consent)"  # nobody has opted out
_WIPED = "state = 'done', waiting = 0, messages = NULL, sealed = NULL, codes = NULL"
# Columns of reports, by the version that first had them.
_NEWER = {"proxied": 2, "over": 3, "said": 3, "codes": 4}
_NEWER_COLUMNS = {name: f"{name} INTEGER NOT NULL DEFAULT 0" for name in _NEWER}
_NEWER_COLUMNS["codes"] = "codes BLOB"
_SCHEMA = f"""
CREATE TABLE surveys (
    id BLOB PRIMARY KEY, name TEXT NOT NULL, route BLOB NOT NULL, epsilon REAL NOT NULL,
    delta REAL NOT NULL, local_epsilon REAL NOT NULL, allowed INTEGER NOT NULL
);
CREATE TABLE reports (
    survey BLOB NOT NULL, job TEXT NOT NULL, occasion INTEGER NOT NULL, chunk INTEGER NOT NULL,
    state TEXT NOT NULL, outcome TEXT NOT NULL DEFAULT '', asked INTEGER NOT NULL,
    people INTEGER NOT NULL, waiting INTEGER NOT NULL, delivered INTEGER NOT NULL DEFAULT 0,
    messages BLOB, sealed BLOB, keys TEXT NOT NULL DEFAULT '', doubt INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL, {", ".join(_NEWER_COLUMNS.values())},
    PRIMARY KEY (survey, job, occasion, chunk)
);
CREATE TABLE jobs (
    survey BLOB NOT NULL, job TEXT NOT NULL, occasion INTEGER NOT NULL, people INTEGER NOT NULL,
    chunk INTEGER NOT NULL, secret BLOB, digest BLOB, PRIMARY KEY (survey, job, occasion)
);
CREATE TABLE consent (refused INTEGER NOT NULL);
CREATE TABLE keys (
    place TEXT NOT NULL, fingerprint TEXT NOT NULL, document BLOB NOT NULL, digest BLOB NOT NULL,
    issued INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (place, fingerprint)
);
CREATE TABLE known_keys (
    fingerprint TEXT NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (fingerprint, number)
);
CREATE TABLE contradictions (
    fingerprint TEXT NOT NULL, known BLOB NOT NULL, document BLOB NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (fingerprint, document)
)
"""


@dataclass(frozen=True, kw_only=True)
class Route:
    """All that is kept of a survey until its reports are delivered: where to, for whom, how.

    Neither the question nor its answers are in it.
    """

    survey: str
    shuffler: Party
    analyzer: Party
    suite: str
    shapes: tuple[tuple[int, int], ...]  # slots and bytes of a message, question by question
    not_after: int
    code_bytes: int = 0  # that people invited show beside each report
    absent: str = ""  # hexadecimal: a slot of these bytes is not sent

    @classmethod
    def of(cls, survey: Survey) -> Route:
        """The way of this survey's reports."""
        return cls(
            survey=str(survey.id),
            **attributes(survey, "shuffler", "analyzer", "suite", "not_after"),
            shapes=Wire.of(survey).shapes,
            code_bytes=survey.admission.code_bytes,
            absent=(Wire.of(survey).absent or b"").hex(),
        )

    @cached_property
    def wire(self) -> Wire:
        return Wire(
            survey=SurveyId.from_text(self.survey),
            shapes=self.shapes,
            token_bytes=0,
            suite=self.suite,
            absent=bytes.fromhex(self.absent) or None,
        )

    def party(self, role: Role) -> Party:
        return self.shuffler if role == "shuffler" else self.analyzer

    @classmethod
    def from_bytes(cls, data: bytes) -> Route:
        """From its canonical fields, as the outbox keeps them."""
        stored = cast("dict[str, Any]", parsed(data))
        if "slots" in stored:  # up to version 4
            stored["shapes"] = [(stored.pop("slots"), stored.pop("message_bytes"))]
        stored["shapes"] = tuple((slots, size) for slots, size in stored["shapes"])
        return cls(**stored | {role: Party(**stored[role]) for role in ROLES})


@dataclass(frozen=True)
class ReportId:
    """Whose report it is: one person's (no job), or those of a chunk of a job's people."""

    survey: SurveyId
    occasion: int
    job: str = ""
    chunk: int = 0

    @property
    def key(self) -> tuple[bytes, str, int, int]:
        """Of its row."""
        return self.survey.digest, self.job, self.occasion, self.chunk


State = Literal["randomized", "sealed", "done"]
Ending = Literal["", "delivered", "abstained", "refused", "lost", "expired", "forgotten"]


@dataclass(frozen=True, eq=False)
class Row:
    """Reports that are sent together.

    ``doubt`` counts the tries of which nobody knows whether they arrived. ``proxied``: a proxy was
    asked for, so they do not leave without one. ``over``: since when the survey is over, as far as
    this machine knows, or 0.
    """

    id: ReportId
    state: State
    outcome: Ending
    waiting: int
    delivered: int
    messages: bytes
    sealed: bytes
    codes: bytes
    keys: str
    doubt: int
    tries: int
    due: int
    proxied: int
    over: int


@dataclass(frozen=True, kw_only=True)
class Spent:
    """One survey in the ledger of :class:`shoal.Client`: its price in full.

    The whole price is due with the first report.

    Attributes:
        survey: The id of the survey.
        name: What it is called.
        epsilon: ε that it promises.
        delta: δ of it.
        local_epsilon: ε₀ of all its reports together, whoever colludes.
        occasions: Reports made.
        allowed: Reports that the survey takes from one person.
        waiting: Reports that wait.

    References:
        The survey's promise, by the theorems of :func:`shoal.amplify`; :doc:`/theory/survey-life`.
    """

    survey: str
    name: str
    epsilon: float
    delta: float
    local_epsilon: float
    occasions: int
    allowed: int
    waiting: int

    def to_dict(self) -> dict[str, object]:
        return vars(self) | {"local_epsilon": _finite(self.local_epsilon)}


@dataclass(frozen=True)
class Ledger:
    """What was spent on every survey: ``spent`` of :class:`shoal.Client` returns it.

    Totals are sums: basic composition, of one person.

    Attributes:
        rows: A :class:`shoal.service.client.Spent` for each survey.
    """

    rows: tuple[Spent, ...]

    @property
    def epsilon(self) -> float:
        """Over all surveys."""
        return math.fsum(row.epsilon for row in self.rows)

    @property
    def delta(self) -> float:
        """Over all surveys."""
        return math.fsum(row.delta for row in self.rows)

    @property
    def local_epsilon(self) -> float:
        """Over all surveys, whoever colludes."""
        return sum(row.local_epsilon for row in self.rows)

    def __iter__(self) -> Iterator[Spent]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        lines = [["survey", "epsilon", "delta", "eps0", "reports", "waiting"]]
        for row in self.rows:
            reports = f"{row.occasions} of {row.allowed}"
            lines.append([row.name, *_costs(row), reports, str(row.waiting)])
        lines.append(["all of them", *_costs(self), "", ""])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "local_epsilon": _finite(self.local_epsilon),
            "surveys": [row.to_dict() for row in self.rows],
        }


def _costs(entry: Spent | Ledger) -> list[str]:
    return [up(entry.epsilon), up(entry.delta), up(entry.local_epsilon)]


def _finite(epsilon: float) -> float | None:
    return None if math.isinf(epsilon) else epsilon


class Outbox:
    """The store of one person, or of a job with many."""

    def __init__(self, directory: Path, *, storage: int) -> None:
        self.path = directory / FILE
        self._lock = threading.RLock()
        with self._usable():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Nobody else may read it, from its first moment on; SQLite's own files follow it.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(
                self.path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False
            )
            weakref.finalize(self, self._database.close)  # of a client that nobody closed
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
                # The tables are made, or those of an earlier version brought up to this one.
                (version,) = self._run("PRAGMA user_version").fetchone()
                if version > VERSION:
                    reason = f"it has version {version}, and this program knows {VERSION}"
                    raise OutboxError(str(self.path), reason)
                for statement in () if version else _SCHEMA.split(";"):
                    self._run(statement)
                for name, since in _NEWER.items():
                    if 0 < version < since:
                        self._run(f"ALTER TABLE reports ADD COLUMN {_NEWER_COLUMNS[name]}")
                if version != VERSION:
                    self._run(f"PRAGMA user_version = {VERSION}")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    # What is drawn.

    def draw(
        self,
        report: ReportId,
        survey: Survey,
        price: Guarantee,
        make: Callable[[Ledger], tuple[Drawn, int, int]],
        *,
        proxied: bool,
    ) -> bool:
        """Draw a report, write it and its price down, at once and once; False if it is there.

        ``make`` is told what other surveys have cost and may refuse; it draws, and says what time
        it is and when the report may leave. ``proxied``: not without a proxy.
        """
        route = Route.of(survey)
        with self._transaction():
            self.check_consent()
            if self._run(f"SELECT 1 FROM reports WHERE {_HERE}", *report.key).fetchone():
                return False
            drawn, now, due = make(self.ledger(besides=survey.id))
            self._run(
                "INSERT OR IGNORE INTO surveys VALUES (?, ?, ?, ?, ?, ?, ?)",
                *(survey.id.digest, survey.name, canonical(asdict(route))),
                *(price.epsilon, price.delta, price.local_epsilon, survey.reports_per_person),
            )
            # Room for the sealed bytes is taken now, so that what was drawn can be sealed and sent.
            room = drawn.people * route.wire.report_bytes
            # What is written here must fit; what only changes or wipes it may need a little more.
            self._run(f"PRAGMA max_page_count = {self._pages}")
            try:
                self._run(
                    "INSERT INTO reports (survey, job, occasion, chunk, state, outcome, asked, "
                    "people, waiting, messages, codes, sealed, due, said, proxied) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, zeroblob(?), ?, ?, ?)",
                    *report.key,
                    *(("randomized", "") if drawn.people else ("done", "abstained")),
                    *(drawn.asked, drawn.people, drawn.people, drawn.messages or None),
                    *(drawn.codes or None, room, due, now, proxied),
                )
            finally:
                self._run(f"PRAGMA max_page_count = {_UNBOUNDED}")
        return True

    def begin_job(self, job: ReportId, values: Values, chunk: int) -> tuple[int, bool]:
        """The size of a job's chunks, and whether everybody had been drawn before.

        Going on is right only if the people, their order and the size of a chunk are those it began
        with; others under its name are refused, as those who were drawn would be drawn again. So
        the size is kept, and a digest of the values under a secret of the job. It is computed from
        answers: it and its secret are wiped with the last draw.
        """
        here = job.key[:3]
        with self._transaction():
            self.check_consent()
            row = self._run(
                "SELECT people, chunk, secret, digest, (SELECT coalesce(sum(asked), 0) FROM "
                f"reports WHERE {_JOB}) FROM jobs WHERE {_JOB}",
                *(*here, *here),
            ).fetchone()
            if row is None:
                secret = randomness.secure().words(_SECRET_WORDS).tobytes()
                self._run(
                    "INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?)",
                    *(*here, len(values), chunk, secret, _digest(values, secret)),
                )
                return chunk, False
        people, chunk, secret, known, asked = row
        if len(values) != people:
            reason, advice = f"began with {people:,} people and now has {len(values):,}", _ANOTHER
        elif asked == people:  # nobody is drawn any more
            return chunk, True
        elif known is None:
            reason = f"was forgotten after {asked:,} of {people:,} people were randomized"
            advice = "give the remaining people a job of another name"
        elif not hmac.compare_digest(_digest(values, secret), known):
            reason = "began with other answers, or in another order"
            advice = f"continue with the original rows, or {_ANOTHER}"
        else:
            return chunk, False
        raise SurveyRefusedError(f"job {job.job!r} {reason}", advice)

    def end_job(self, job: ReportId) -> None:
        """All were drawn: what was kept to recognise them by is wiped."""
        self._change(f"UPDATE jobs SET secret = NULL, digest = NULL WHERE {_JOB}", *job.key[:3])

    def progress(self, job: ReportId) -> dict[str, int]:
        """Of a job: how many people were asked, take part, and have been heard."""
        names = ("asked", "people", "delivered", "waiting")
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
        with self._usable():
            row = self._run(f"SELECT {sums} FROM reports WHERE {_JOB}", *job.key[:3]).fetchone()
        return dict(zip(names, row, strict=True))

    def check_consent(self) -> None:
        """Refuse to draw for a person who has opted out."""
        with self._usable():
            if self._run("SELECT 1 FROM consent").fetchone():
                raise SurveyRefusedError("this person has opted out", "opt in again to take part")

    # What is on its way.

    def row(self, report: ReportId) -> Row:
        with self._usable():
            columns = self._run(
                "SELECT state, outcome, waiting, delivered, coalesce(messages, x''), "
                "CASE state WHEN 'sealed' THEN sealed ELSE x'' END, coalesce(codes, x''), keys, "
                f"doubt, tries, due, proxied, over FROM reports WHERE {_HERE}",
                *report.key,
            ).fetchone()
        return Row(report, *columns)

    def waiting(self, *, due: int | None) -> list[tuple[ReportId, bytes]]:
        """Reports that wait and may leave by now, and their ways; None: all that wait."""
        late = "" if due is None else " AND due <= ?"
        with self._usable():
            rows = self._run(
                "SELECT survey, job, occasion, chunk, route FROM reports JOIN surveys "
                f"ON survey = id WHERE {_WAITING} AND {_WANTED}{late} ORDER BY due",
                *(() if due is None else (due,)),
            )
            return [
                (ReportId(SurveyId(survey), occasion, job, chunk), route)
                for survey, job, occasion, chunk, route in rows
            ]

    def seal(self, row: Row, sealed: bytes, keys: str) -> None:
        """Keep the sealed bytes, unless another process has sealed or tried it meanwhile."""
        self._change(
            f"UPDATE reports SET state = 'sealed', sealed = ?, keys = ? WHERE {_HERE} "
            f"AND state = ? AND doubt = 0 AND (state = 'randomized' OR sealed = ?)",
            *(sealed, keys, *row.id.key, row.state, row.sealed),
        )

    def trying(self, row: Row) -> bool:
        """About to send: from here on it may have arrived. False if it has changed meanwhile.

        So it is if the person has opted out meanwhile.
        """
        changed = self._change(
            f"UPDATE reports SET tries = tries + 1, doubt = doubt + 1 WHERE {_HERE} "
            f"AND {_WAITING} AND {_WANTED} AND sealed = ?",
            *(*row.id.key, row.sealed),
        )
        return changed > 0

    def not_arrived(self, row: Row) -> None:
        """The last try certainly did not arrive."""
        self._change(f"UPDATE reports SET doubt = doubt - 1 WHERE {_HERE}", *row.id.key)

    def mark(self, report: ReportId, **columns: int) -> None:
        """Set columns of a row.

        ``due`` is when it may leave, ``said`` what time it was when that was decided.
        """
        settings = ", ".join(f"{name} = ?" for name in columns)
        self._change(f"UPDATE reports SET {settings} WHERE {_HERE}", *columns.values(), *report.key)

    def correct_clock(self, now: int) -> None:
        """What was put off while the clock was ahead waits as long as was meant, from now on."""
        late = f"said > ? AND {_WAITING}"
        change = f"UPDATE reports SET due = due - said + ?, said = ? WHERE {late}"
        self._change(change, now, now, now)

    def keep_only(
        self, row: Row, places: tuple[int, ...], *, delivered: int, same: bool = False
    ) -> bool:
        """Go on with these alone, which did not arrive; False if an earlier try of them may have.

        The others were taken, or refused for good. ``same``: they are sent as they are, so that it
        does not matter.
        """
        certain = "" if same else " AND doubt = 1"
        changed = self._change(
            "UPDATE reports SET waiting = ?, delivered = delivered + ?, messages = ?, sealed = ?, "
            f"codes = ?, doubt = doubt - 1 WHERE {_HERE} AND {_WAITING}{certain} AND sealed = ?",
            *(len(places), delivered),
            *(_picked(each, row.waiting, places) for each in (row.messages, row.sealed, row.codes)),
            *(*row.id.key, row.sealed),
        )
        return changed > 0

    def admit(self, report: ReportId, codes: bytes) -> None:
        """Show another code beside a report that waits: its person was invited anew."""
        self._change(
            f"UPDATE reports SET codes = ?, due = min(due, said) WHERE {_HERE} AND {_WAITING} "
            "AND codes != ?",
            *(codes, *report.key, codes),
        )

    def finish(self, report: ReportId, outcome: Ending, *, delivered: int = 0) -> None:
        """Wipe the reports; that they were made stays known."""
        self._change(
            f"UPDATE reports SET {_WIPED}, outcome = ?, delivered = delivered + ? "
            f"WHERE {_HERE} AND {_WAITING}",
            *(outcome, delivered, *report.key),
        )

    # Lists of keys; ``place`` is where a list was shown, by whom.

    def key_list(self, place: str, fingerprint: str, now: int) -> bytes | None:
        """The list last shown there, while it need not be asked for again."""
        select = "SELECT document FROM keys WHERE place = ? AND fingerprint = ? AND until > ?"
        with self._usable():
            row = self._run(select, place, fingerprint, now).fetchone()
        return row[0] if row is not None and row[0] else None

    def take_key_list(self, place: str, key_list: KeyList, until: int) -> None:
        """Remember a list that was verified, if it may follow what was seen.

        An older one is refused at the same place; one place may be behind another. One that
        contradicts a list seen anywhere is refused, and both are kept.
        """
        name, issued = key_list.fingerprint, key_list.issued
        try:
            with self._transaction():
                known = "SELECT number, key FROM known_keys WHERE fingerprint = ?"
                keys: dict[int, str] = dict(self._run(known, name).fetchall())
                seen = self._run(
                    "SELECT issued, digest FROM keys WHERE fingerprint = ? "
                    "AND (issued = ? OR place = ?) ORDER BY issued",
                    *(name, issued, place),
                ).fetchall()
                for last, hashed in [*seen, (-1, b"")]:
                    Before(issued=last, digest=hashed, keys=keys).check(key_list)
                self._run(
                    "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?)",
                    *(place, name, key_list.document, digest(key_list.document), issued, until),
                )
                for key in key_list.keys:
                    row = (name, key.number, key.public.fingerprint)
                    self._run("INSERT OR IGNORE INTO known_keys VALUES (?, ?, ?)", *row)
        except ContradictionError as error:
            self._keep_contradiction(key_list, error.reason)
            raise

    def _keep_contradiction(self, key_list: KeyList, reason: str) -> None:
        """Beside the list that is nearest in time, unless there are enough."""
        name = key_list.fingerprint
        nearest = (
            "SELECT document FROM keys WHERE fingerprint = ? AND document != x'' "
            "ORDER BY issued != ?, issued DESC LIMIT 1"
        )
        self._change(
            f"INSERT OR IGNORE INTO contradictions SELECT ?, coalesce(({nearest}), x''), ?, ? "
            "WHERE (SELECT count(*) FROM contradictions WHERE fingerprint = ?) < ?",
            *(name, name, key_list.issued, key_list.document, reason),
            *(name, MOST_CONTRADICTIONS),
        )

    def contradictions(self) -> list[Contradiction]:
        """What was refused, and may be shown to others."""
        select = "SELECT fingerprint, reason, known, document FROM contradictions"
        with self._usable():
            return [Contradiction(*row) for row in self._run(select)]

    # The ledger, and leaving.

    def ledger(self, *, besides: SurveyId | None = None) -> Ledger:
        """What was spent; or what other surveys have cost."""
        names = Spent.__dataclass_fields__
        with self._usable():
            rows = self._run(
                "SELECT lower(hex(id)), name, epsilon, delta, local_epsilon, "
                "(SELECT count(DISTINCT occasion) FROM reports WHERE survey = id), allowed, "
                "(SELECT coalesce(sum(waiting), 0) FROM reports WHERE survey = id) "
                "FROM surveys WHERE id != ? ORDER BY name, id",
                b"" if besides is None else besides.digest,
            )
            return Ledger(tuple(Spent(**dict(zip(names, row, strict=True))) for row in rows))

    def forget(self, survey: SurveyId) -> int:
        """Wipe what waits for a survey; the number of people it was of.

        If nothing of it was ever about to leave, and no coin kept anybody out, it is as if it had
        never been answered: its price is gone, too.
        """
        with self._transaction():
            people = self._wipe("survey = ?", survey.digest)
            left = "SELECT 1 FROM reports WHERE survey = ? AND (tries > 0 OR asked != people)"
            if self._run(left, survey.digest).fetchone() is None:
                for table, column in (("reports", "survey"), ("jobs", "survey"), ("surveys", "id")):
                    self._run(f"DELETE FROM {table} WHERE {column} = ?", survey.digest)
        self._compact()
        return people

    def opt_out(self) -> int:
        """Wipe all that waits, and take no more: both or neither.

        Of lists of keys it stays known which were seen, so that no older one is taken later.
        """
        with self._transaction():
            self._run("DELETE FROM consent")
            self._run("INSERT INTO consent VALUES (1)")
            self._run("UPDATE keys SET document = x'', until = 0")
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
    def _transaction(self) -> Iterator[None]:
        with self._usable(), self._database:  # which commits, or rolls back
            self._run("BEGIN IMMEDIATE")
            yield

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as error:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
            reason = _FULL if full else error
            raise OutboxError(str(self.path), str(reason)) from error


def _picked(joined: bytes, count: int, places: tuple[int, ...]) -> bytes:
    size = len(joined) // count
    return b"".join(joined[place * size : (place + 1) * size] for place in places)


def _digest(values: Values, secret: bytes) -> bytes:
    """What tells these people from others, and in which order they are (BLAKE2b, RFC 7693)."""
    written = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return blake2b(written.tobytes(), digest_size=_DIGEST_BYTES, key=secret).digest()

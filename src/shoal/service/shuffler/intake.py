"""Taking reports in: check, make durable, and only then answer 202.

*Check.* Nothing is opened here. All reports of a survey have one length, so a body is a table of
bytes, and its first two columns, version and key number, decide. Where people are invited, each row
is a report and the code of an invitation; the store looks at those.

*Make durable.* Requests wait in a queue. One thread takes as many as fit into a group; the store
writes and commits them together, so that a group costs two flushes to disk, not each report.

*Answer.* Nearly every request carries one report, and the framework's routing would take longer
than to check, hash and commit it. So the application passes an upload for a survey that it knows
directly to :meth:`Intake.answer`. An upload for another survey comes by the route in the OpenAPI
document, and ends in the same :meth:`Intake.take`: one order of checks, and the same bytes as
answers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from threading import Condition, Thread
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from shoal import checks
from shoal.errors import ShoalError
from shoal.sealing import Plain
from shoal.service.admission import CODE_PROBLEMS, CODE_UNKNOWN
from shoal.service.clock import Clock
from shoal.service.db.surveys import SurveyRow
from shoal.service.errors import StoreBusyError, StoreUnavailableError, survey_closed
from shoal.service.http import requests
from shoal.service.http.limits import Addresses, Bursts, Limits, Networks, Room
from shoal.service.http.openapi import BYTES, EVERYBODY, JSON, SURVEY_PATH, Application
from shoal.service.http.problems import Observe, Problem, ProblemError, answer_to, unobserved
from shoal.service.keyring import Keyring
from shoal.service.shuffler.codes import Codes
from shoal.service.shuffler.reports import Arrival, Reports
from shoal.service.wire import VERSION, Wire

REPORTS_PATH = f"{SURVEY_PATH}/reports"
UNKNOWN_VERSION = "unknown_version"
UNKNOWN_KEY = "unknown_key"
_NUMBERS = 256
_WRONG_CODES = 100  # of one body; its sender has other invitations than this survey's
_BURST = 0.5  # of an hour's reports from one network: worth a line in the log

_log = logging.getLogger(__name__)

Refusals: TypeAlias = list[dict[str, list[int]]]  # of every arrival: positions, by reason


@dataclass(frozen=True, eq=False)
class Upload:
    """The reports of a body that are accepted, and the positions and reasons of the others.

    ``places`` are the positions of the reports of every arrival.
    """

    reports: int
    arrivals: list[Arrival]
    refused: dict[str, list[int]]
    places: Sequence[Sequence[int]]

    def refuse(self, refused: Sequence[Mapping[str, Sequence[int]]]) -> None:
        """Add what the store refused of each arrival, by positions in it."""
        for places, reasons in zip(self.places, refused, strict=True):
            for reason, positions in reasons.items():
                self.refused.setdefault(reason, []).extend(places[at] for at in positions)

    def document(self) -> dict[str, Plain]:
        """The answer to the sender: the same bytes for new reports and for duplicates."""
        refused: list[Plain] = [
            {"index": index, "reason": reason}
            for reason, indices in self.refused.items()
            for index in indices
        ]
        return {"reports": self.reports, "refused": refused}


def sorted_upload(
    body: bytes, *, wire: Wire, accepts: Callable[[int], bool], most: int, code_bytes: int = 0
) -> Upload:
    """Sort the reports of a body; one that is not a whole number of reports is refused.

    Each is followed by a code of so many bytes.
    """
    length = wire.report_bytes
    size = length + code_bytes
    reports, rest = divmod(len(body), size)
    if rest or not reports:
        wrong = f"the body has {len(body)} bytes; reports of this survey have {length} bytes each"
        extra: dict[str, Plain] = {"report_bytes": length}
        if code_bytes:
            wrong += f", and {code_bytes} more with the code of an invitation"
            extra["code_bytes"] = code_bytes
        raise ProblemError(Problem("wrong_length", 400, wrong, extra=extra))
    if reports > most:
        detail = f"{reports} reports in one body; send at most {most} at a time"
        raise ProblemError(Problem("too_large", 413, detail, extra={"limit": most}))
    if reports == 1 and body[0] == VERSION and accepts(body[1]):
        # One person's report, as most bodies are: it needs no table.
        return Upload(1, [Arrival(wire.survey, body[1], body[:length], body[length:])], {}, [(0,)])
    table = np.frombuffer(body, dtype=np.uint8).reshape(reports, size)
    known = table[:, 0] == VERSION
    numbers = table[:, 1]
    present = np.flatnonzero(np.bincount(numbers[known], minlength=_NUMBERS)).tolist()
    accepted = [number for number in present if accepts(number)]
    if len(accepted) == 1 and len(present) == 1 and known.all():
        codes = table[:, length:].tobytes()
        sealed = table[:, :length].tobytes() if code_bytes else body
        arrival = Arrival(wire.survey, accepted[0], sealed, codes)
        return Upload(reports, [arrival], {}, [range(reports)])
    taken = known & np.isin(numbers, accepted)
    arrivals, places = [], []
    for number in accepted:
        mine = _places(taken & (numbers == number))
        rows = table[mine]
        sealed, codes = rows[:, :length].tobytes(), rows[:, length:].tobytes()
        arrivals.append(Arrival(wire.survey, number, sealed, codes))
        places.append(mine)
    refused = {UNKNOWN_VERSION: _places(~known), UNKNOWN_KEY: _places(known & ~taken)}
    refused = {name: found for name, found in refused.items() if found}
    return Upload(reports, arrivals, refused, places)


def _places(mask: npt.NDArray[np.bool_]) -> list[int]:
    places: list[int] = np.flatnonzero(mask).tolist()
    return places


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request of so many bytes that waits to be answered."""

    arrivals: Sequence[Arrival]
    length: int
    future: asyncio.Future[Refusals]


class GroupCommit:
    """The queue of requests and the thread that commits them.

    A group ends at ``group_bytes``; before it begins, others have ``linger`` seconds to join.
    """

    def __init__(
        self,
        reports: Reports,
        *,
        group_bytes: int = 8 << 20,
        linger: float = 0.002,
        observe: Observe = unobserved,
    ) -> None:
        checks.non_negative(linger=linger)
        self._reports = reports
        self._group_bytes = checks.count(group_bytes=group_bytes)
        self._linger = linger
        self._observe = observe
        self._line: deque[_Waiting] = deque()
        self.keys: set[int] = set()  # of what joined the line since the last group was taken
        self._changed = Condition()
        self._thread: Thread | None = None
        self._closed = False

    async def commit(self, arrivals: Sequence[Arrival]) -> Refusals:
        """Return when all of it is durable that the store did not refuse; raise if it is not."""
        if not arrivals:
            return []
        length = sum(len(each.reports) for each in arrivals)
        waiting = _Waiting(arrivals, length, asyncio.get_running_loop().create_future())
        with self._changed:
            if self._closed:
                detail = "the service is stopping; send the same bytes again later"
                raise ProblemError(Problem("closing", 503, detail, retry_after=5, close=True))
            self._line.append(waiting)
            self.keys.update(each.key for each in arrivals)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="intake", daemon=True)
                self._thread.start()
            self._changed.notify()
        return await waiting.future

    def close(self) -> None:
        """Commit what waits, take nothing more, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._line or self._closed)
                if not self._line:
                    return
            if self._linger and not self._closed:
                time.sleep(self._linger)
            with self._changed:
                self.keys.clear()
                group = [self._line.popleft()]
                length = group[0].length
                while self._line and length + self._line[0].length <= self._group_bytes:
                    group.append(self._line.popleft())
                    length += group[-1].length
            began = time.perf_counter()
            self._commit(group)
            try:
                self._observe("commit_seconds", time.perf_counter() - began, "")
            except Exception:  # noqa: BLE001 - a failing metric must not end this thread
                _log.warning("not_observed", exc_info=True)

    def _commit(self, group: list[_Waiting]) -> None:
        try:
            arrivals = [arrival for waiting in group for arrival in waiting.arrivals]
            refused = self._reports.receive(arrivals).refused
        except Exception as error:  # noqa: BLE001 - every request is answered, whatever it was
            # An unavailable store is so for all of them; a lock may concern only one.
            busy = isinstance(error, StoreBusyError)
            if len(group) == 1 or (isinstance(error, StoreUnavailableError) and not busy):
                _wake([(waiting, error) for waiting in group])
                return
            # One of them is to blame: try each alone.
            _log.warning("group_divided", extra={"count": len(group)}, exc_info=True)
            for waiting in group:
                self._commit([waiting])
        else:
            if not refused:
                _wake([(waiting, refused) for waiting in group])
                return
            of_each = iter(refused)
            _wake([(waiting, [*islice(of_each, len(waiting.arrivals))]) for waiting in group])


def _wake(group: Sequence[tuple[_Waiting, Refusals | Exception]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Waiting, Refusals | Exception]]] = {}
    for waiting, outcome in group:
        by_loop.setdefault(waiting.future.get_loop(), []).append((waiting, outcome))
    for loop, waiting_here in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and its requests with it
            loop.call_soon_threadsafe(_wake_all, waiting_here)


def _wake_all(group: Sequence[tuple[_Waiting, Refusals | Exception]]) -> None:
    """In their own loop; a cancelled request needs no answer."""
    for waiting, outcome in group:
        if waiting.future.done():
            continue
        if isinstance(outcome, Exception):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)


@dataclass(eq=False, kw_only=True)
class Intake:
    """Takes reports in; ``addresses`` limits other requests, too.

    ``surveys`` are those whose uploads need no route, by path.
    """

    keyring: Keyring
    commit: GroupCommit
    codes: Codes
    limits: Limits
    addresses: Addresses
    room: Room
    clock: Clock
    observe: Observe
    surveys: dict[str, SurveyRow] = field(default_factory=dict)
    bursts: Bursts = field(default_factory=Bursts)

    async def take(self, row: SurveyRow, scope: Scope, receive: Receive, key: Networks) -> Response:
        """Store reports; the answer comes when they are durable. ``key``: who was charged."""
        now, survey, limits = self.clock(), row.survey, self.limits
        if now < survey.not_before:
            raise survey_closed(str(survey.id), "it has not begun")
        if now > survey.not_after:
            raise survey_closed(str(survey.id), "it is over")
        code_bytes = survey.admission.code_bytes
        requests.expect(scope["headers"], BYTES, limit=limits.body_bytes)
        with self.room.entered(key) as hold:
            body = await requests.read(
                receive, limit=limits.body_bytes, seconds=limits.body_seconds, hold=hold
            )
            upload = sorted_upload(
                body,
                wire=row.wire,
                accepts=self._accepts,
                most=limits.reports,
                code_bytes=code_bytes,
            )
            if code_bytes:
                await self._sift(row, upload, key)
            else:
                if upload.reports > 1:
                    self.addresses.charge_key(key, upload.reports - 1)
                if key is not None:
                    self.addresses.charge_reports(key, upload.reports)
            self.observe("queue", self.room.share, "")
            refused = await self.commit.commit(upload.arrivals)
        share = self.bursts.count(key, upload.reports)
        if share is not None:  # for the operator alone, and without an address
            self.observe("network_share", share, "")
            if share >= _BURST:
                _log.warning("burst_from_one_network")
        if refused and any(refused):
            upload.refuse(refused)
            # Not for codes that there are: the people behind one address are a class.
            self.addresses.charge_refusals(key, len(upload.refused.get(CODE_UNKNOWN, ())))
        if upload.reports == 1 and not upload.refused:
            return _ONE_KEPT
        for reason, places in upload.refused.items():
            self.observe("refused_reports", len(places), reason)
        if upload.reports == 1 and (reason := next(iter(upload.refused))) in CODE_PROBLEMS:
            raise ProblemError(
                Problem(reason, 403, f"{CODE_PROBLEMS[reason]}; no report was accepted")
            )
        return small(upload.document(), 202)

    async def _sift(self, row: SurveyRow, upload: Upload, key: Networks) -> None:
        """Refuse a body with too many wrong codes; no more are looked up than it takes to know.

        A body without any is taken, whatever others behind the same address have sent.
        """
        left = math.inf if key is None else self.addresses.refusals_left(key)
        most = max(1, int(min(_WRONG_CODES, left)))
        if upload.reports <= min(most, left):
            return  # too few to be too many: they are counted when it is known what is new
        shown = b"".join(arrival.codes for arrival in upload.arrivals)
        wrong = await run_in_threadpool(self.codes.unknown, row, shown, most)
        if wrong < most:
            return
        self.addresses.charge_refusals(key, wrong)
        self.observe("refused_reports", wrong, CODE_UNKNOWN)
        self.addresses.refuse_codes(key)
        detail = f"{wrong} codes or more in one body are not of this survey; no report was accepted"
        raise ProblemError(Problem(CODE_UNKNOWN, 403, detail))

    def _accepts(self, number: int) -> bool:
        """Whether reports for a key are taken; none is acknowledged that could not be opened.

        One look at the key's files is enough for all reports that are committed together.
        """
        if number in self.commit.keys:
            return True
        if not self.keyring.accepts(number):
            return False
        self.keyring.check_secret(number)
        return True

    async def answer(self, row: SurveyRow, scope: Scope, receive: Receive, send: Send) -> None:
        """Take reports without a route, with the answers of the route."""
        defect = None
        try:
            key = self.addresses.charge(self.addresses.sender(scope), 1)
            answer = await self.take(row, scope, receive, key)
        except Exception as error:  # noqa: BLE001 - every request is answered, whatever it was
            answer = answer_to(error, self.observe)
            defect = None if isinstance(error, ProblemError | ShoalError) else error
        headers = [*answer.raw_headers, *EVERYBODY]
        status = answer.status_code
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})
        if defect is not None:
            raise defect  # for the server's log


class IntakeApplication(Application):
    """An application that passes uploads to its intake before routing."""

    intake: Intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Uploads for known surveys to the intake, all else to the routes."""
        row = None
        if scope["type"] == "http" and scope["method"] == "POST":
            row = self.intake.surveys.get(scope["path"])
        if row is None:
            await super().__call__(scope, receive, send)
        else:
            await self.intake.answer(row, scope, receive, send)


def small(document: Mapping[str, Plain], status: int = 200) -> Response:
    """A small document that no cache may store."""
    body = json.dumps(document, separators=(",", ":")).encode()
    return Response(body, status, media_type=JSON, headers=requests.NOT_KEPT)


_ONE_KEPT = small({"reports": 1, "refused": []}, 202)

"""The client, without a network: draw, keep, seal, keep, send, mark, in this order, once.

Exchanges with a service are written as generators. Each yields a :class:`Request` and is sent the
:class:`Response`, or has a :class:`NoResponse` raised in it; after a :class:`Wait` it just goes
on. :mod:`shoal.service.client.client` has the loops.

A report is drawn once for every (survey, occasion) and kept before anything leaves the device.
Every further try sends the same bytes: whoever sees both sees nothing new, and the shuffler counts
them once. Drawing again would show another message of the same answer, and many of those average
to the answer. The reports of many people are a job, in chunks that fit a request: one that was
interrupted goes on at its first chunk that was not drawn.

If the shuffler no longer knows the key, the same message is sealed with the new one. That is done
only while all earlier tries certainly did not arrive. Otherwise one person's message might arrive
under both keys and count twice, which was not promised: it is given up instead, and most likely did
arrive.

Both parties' lists of keys come from the shuffler. Each counts if the identity that the survey
names has signed it, so the shuffler cannot put in keys of its own for the analyzer's; and the
analyzer cannot give a person a key that others do not have, because it does not hand its list to
people. It does not see them either. A list is refused if it is older than one seen there before (it
could bring back a key that was retired), and if it contradicts any list seen before: two of one
moment, or two keys of one number.

With ``Settings.compare_keys`` both lists are also asked for at the analyzer, and the keys must be
in those, too. Pending keys are published ahead of use, so a copy that is an hour old knows them; a
key made for one person alone is in no copy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit

from shoal import checks, randomness
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.explain.document import Document
from shoal.explain.text import moment
from shoal.sealing import MalformedError, PublicKey, SurveyId
from shoal.service.admission import CODE_PROBLEMS, Invitation, beside
from shoal.service.client.errors import DeliveryError, KeysRefusedError, SurveyRefusedError
from shoal.service.client.outbox import Ledger, Outbox, ReportId, Route, Row
from shoal.service.client.policy import Near, Policy, without_login
from shoal.service.client.randomize import (
    Answer,
    Answers,
    Drawn,
    Keys,
    Values,
    draw,
    seal,
    values_of,
)
from shoal.service.clock import DAY, Clock
from shoal.service.failpoints import reached
from shoal.service.keyring import CACHE_SECONDS, ROLES, ContradictionError, KeyList, Role
from shoal.service.survey import Stated, Survey, complaint
from shoal.service.survey.document import public, reachable, this_machine
from shoal.service.survey.texts import check_texts
from shoal.service.wire import Wire

T = TypeVar("T")
Progress = Callable[[int, int], None]
Source = Survey | Path | str

LARGEST_RESPONSE = 4 << 20
_RESEAL = frozenset({"unknown_key", "expired_key", "outdated_key", "pending_key"})
# Statuses by which a service says that it took nothing.
_TAKEN_NOTHING = frozenset({400, 403, 404, 405, 408, 411, 413, 415, 422, 429})
_TRY_AGAIN = frozenset({403, 404, 408, 429})
_LONGEST_REASON = 300
_PROBLEM = "urn:shoal:problem:"
_UNKNOWN_SURVEY = f"{_PROBLEM}unknown_survey"
_INVITED_ANEW = 3600.0  # seconds: whoever invites is asked first
_FETCHED = "/v1/surveys/"
_PAGE = "/answer/"  # where people answer it in a browser
MOST_REPORTS = 10_000  # that a shuffler takes in one request
MOST_BYTES = 8 << 20
_STEPS = 1 << 30  # of a random wait
_SMALLEST_STORE = 1 << 17
_DOUBLINGS = 30

NEEDS_PROXY = (
    "it must go through a proxy, and none is given (shoal submit --proxy, in Python "
    "Settings(proxy=…))"
)
_OVER = (
    "the survey is over by this machine's clock; if the clock is right, the next try, in a "
    "day, deletes the report"
)
_GIVEN_UP = {
    "lost": (
        "the shuffler has deleted the key it was sealed with, and it may have arrived "
        "before; sealed again it might count twice"
    ),
    "refused": "the shuffler refused it",
    "expired": "the survey was over before it could be delivered",
    "forgotten": "it was deleted on request",
}
_BEFORE = "; this report was made earlier, and the answer given now was not used"


@dataclass(frozen=True)
class Request:
    """GET, or POST if there is a body."""

    url: str
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Wait:
    seconds: float


Exchange: TypeAlias = Generator[Request | Wait, Any, T]


class Retry(Exception):  # noqa: N818 - it ends no call: the report is tried again
    """It did not work, and may work later. ``unsent``: it certainly did not arrive."""

    def __init__(self, reason: str, *, unsent: bool, seconds: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unsent = unsent
        self.seconds = seconds


class NoResponse(Retry):
    """The request got no response; ``unsent``: it is certain that it did not get there."""


@dataclass(frozen=True)
class Receipt:
    """The shuffler has them, but for those to be sealed anew and those refused for good.

    ``unadmitted`` are those whose codes were refused: they wait for whoever invites.
    """

    reseal: tuple[int, ...]
    refused: tuple[int, ...]
    reason: str = ""
    unadmitted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Response:
    """What a service answered; headers are looked up by names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self) -> dict[str, Any]:
        """The document of a stranger; an empty one for what is none."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return {}
        return document if isinstance(document, dict) else {}

    def problem(self) -> str:
        """The sentence of a problem document, or the status."""
        document = self.json()
        sentence = _plain(document.get("detail")) or _plain(document.get("title"))
        return f"{sentence} (status {self.status})" if sentence else f"status {self.status}"

    def refusal(self) -> str:
        """The same for somebody with a report, who may have been handed a wrong survey."""
        if self.json().get("type") != _UNKNOWN_SURVEY:
            return self.problem()
        return (
            "the shuffler does not collect for this survey: its file may have been changed, ask "
            f"for the original (status {self.status})"
        )

    @property
    def max_age(self) -> int:
        """Seconds for which it may be kept (Cache-Control)."""
        for part in self.headers.get("cache-control", "").split(","):
            name, _, value = part.strip().lower().partition("=")
            if name in ("no-store", "no-cache"):
                return 0
            if name == "max-age" and value.isdecimal():
                return int(value[:9])
        return 0

    @property
    def retry_after(self) -> float:
        """Seconds that a service asks to wait, or 0."""
        value = self.headers.get("retry-after", "")
        return float(value[:9]) if value.isdecimal() else 0.0


def read_receipt(response: Response, reports: int) -> Receipt:
    """What a shuffler has of so many reports; raises Retry if it may have them later."""
    document = response.json() if response.status == 202 else {}
    count, items = document.get("reports"), document.get("refused", [])
    # A wireless network's login page, for one, says something else. True is no number here.
    sound = type(count) is int and count == reports and isinstance(items, list)
    reseal: set[int] = set()
    refused: set[int] = set()
    unadmitted: set[int] = set()
    reason = ""
    for item in items if sound else ():
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < reports:
            sound = False
            break
        reason = _plain(item.get("reason"))
        kind = reseal if reason in _RESEAL else unadmitted if reason in CODE_PROBLEMS else refused
        kind.add(index)
    if sound:
        reseal, unadmitted = reseal - refused, unadmitted - reseal - refused
        waiting, refused_ones = tuple(sorted(unadmitted)), tuple(sorted(refused))
        return Receipt(tuple(sorted(reseal)), refused_ones, reason, waiting)
    kind_of = _plain(response.json().get("type")).removeprefix(_PROBLEM)
    if response.status == 403 and kind_of in CODE_PROBLEMS:
        raise Retry(_not_admitted(kind_of), unsent=True, seconds=_INVITED_ANEW)
    unsent = response.status in _TAKEN_NOTHING
    if unsent and response.status not in _TRY_AGAIN:
        return Receipt((), tuple(range(reports)), response.refusal())
    raise Retry(response.refusal(), unsent=unsent, seconds=response.retry_after)


def _not_admitted(reason: str) -> str:
    """Why a code was refused, and what its person may do."""
    why = CODE_PROBLEMS.get(reason, "codes were refused")
    return (
        f"{why} ({reason}); the report is kept: ask for another invitation where you got "
        "this one, and answer again with it"
    )


def _plain(value: object) -> str:
    """Text of a stranger, short and without what would command a terminal."""
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[:_LONGEST_REASON] if letter.isprintable())


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a client sends.

    Args:
        tries: Tries of one call.
        wait: Seconds after the first try, and twice as long after each next one.
        longest_wait: The most seconds between tries; every wait is shortened by up to a half
            at random.
        patience: A wait above so many seconds ends the call: the report stays queued.
        delay: A report leaves the device at a random moment within so many seconds.
        timeout: Seconds of a request.
        proxy: Hides the device's address from the services: a report that was made or tried
            with one never leaves without.
        compare_keys: Ask the analyzer for both parties' keys too, and compare: it then sees the
            device's address.
        storage: How many bytes the outbox may have on disk.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> Settings(tries=1, delay=3600).delay
        3600
    """

    tries: int = 3
    wait: float = 1.0
    longest_wait: float = 3600.0
    patience: float = 10.0
    delay: float = 0.0
    timeout: float = 20.0
    proxy: str | None = None
    compare_keys: bool = False
    storage: int = 64 << 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "tries", checks.count(tries=self.tries))
        checks.positive(wait=self.wait, timeout=self.timeout, longest_wait=self.longest_wait)
        checks.non_negative(delay=self.delay, patience=self.patience)
        if self.longest_wait < self.wait:
            raise InvalidArgumentError("longest_wait", self.longest_wait, f">= wait={self.wait}")
        object.__setattr__(self, "storage", checks.count(_SMALLEST_STORE, storage=self.storage))

    def wait_after(self, tries: int, *, asked: float = 0.0) -> float:
        """Seconds to wait after so many tries; what a service asked for, at the least."""
        longest = min(self.longest_wait, self.wait * 2.0 ** min(tries - 1, _DOUBLINGS))
        return max(longest * (0.5 + 0.5 * _uniform()), min(asked, self.longest_wait))


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """Of one report. ``again``: it had been made before, and was not made a second time."""

    survey: str
    occasion: int
    again: bool = False


class Sent(_Outcome):
    """The shuffler has the report: an outcome of ``report`` of :class:`shoal.Client`.

    Attributes:
        survey: The id of the survey.
        occasion: Which report it is.
        again: Whether it had been made before, and was not made a second time.
    """

    def document(self) -> Document:
        """In words. What was answered before is not known any more: it may be another answer."""
        return Document(f"delivered: report {self.occasion}{_BEFORE * self.again}")


@dataclass(frozen=True, kw_only=True)
class Queued(_Outcome):
    """The report waits on the device: an outcome of ``report`` of :class:`shoal.Client`.

    Attributes:
        survey: The id of the survey.
        occasion: Which report it is.
        again: Whether it had been made before, and was not made a second time.
        due: Seconds since 1970 until which it waits, and then for ``flush``.
        reason: Why it waits.
    """

    due: int
    reason: str

    def document(self) -> Document:
        """In words."""
        waits = f"report {self.occasion} waits ({self.reason})"
        return Document(f"kept: {waits}{_BEFORE * self.again}")


class Abstained(_Outcome):
    """The coin said not to take part: an outcome of ``report`` of :class:`shoal.Client`.

    Nothing is sent, now or later.

    Attributes:
        survey: The id of the survey.
        occasion: Which report it is.
        again: Whether the coin had been tossed before.
    """

    def document(self) -> Document:
        """In words."""
        return Document("not taking part: this machine's coin decided so, and nothing is sent")


Outcome = Sent | Queued | Abstained


@dataclass(frozen=True, kw_only=True)
class Flushed:
    """How many reports ``flush`` of :class:`shoal.Client` delivered, and why others wait.

    Attributes:
        sent: Reports that were delivered.
        waiting: Reports that wait.
        given_up: Reports that will not be sent any more.
        reasons: Why reports wait or were given up.
    """

    sent: int = 0
    waiting: int = 0
    given_up: int = 0
    reasons: tuple[str, ...] = ()

    @classmethod
    def together(cls, flushed: Sequence[Flushed]) -> Flushed:
        """The sum over several reports, or several outboxes."""
        return cls(
            sent=sum(each.sent for each in flushed),
            waiting=sum(each.waiting for each in flushed),
            given_up=sum(each.given_up for each in flushed),
            reasons=tuple(dict.fromkeys(reason for each in flushed for reason in each.reasons)),
        )

    def document(self) -> Document:
        """In words."""
        counts = f"{self.sent:,} sent, {self.waiting:,} waiting, {self.given_up:,} given up"
        return Document(counts, sentences=self.reasons)


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """How far a job is that ``report_many`` of :class:`shoal.Client` works on.

    Attributes:
        survey: The id of the survey.
        job: The name of the people.
        people: How many they are.
        asked: For how many a coin was tossed and a report drawn.
        taking_part: How many of them take part, by their coins.
        delivered: Reports that the shuffler has.
        waiting: Reports that wait.
        reason: Why they do.
        again: Whether all of them had been drawn before, and were not drawn a second time.
    """

    survey: str
    job: str
    people: int
    asked: int
    taking_part: int
    delivered: int
    waiting: int
    reason: str = ""
    again: bool = False

    @property
    def finished(self) -> bool:
        """Whether everybody was asked and nothing waits."""
        return self.asked == self.people and not self.waiting

    def document(self) -> Document:
        people = f"{self.asked:,} of {self.people:,} people asked, {self.taking_part:,} took part"
        lines = []
        if self.again:
            lines.append("all of them were randomized before, and nobody was randomized again")
        if not self.finished:
            lines += [f"interrupted ({self.reason})", "the same command continues where it ended"]
        counts = f"{self.delivered:,} delivered, {self.waiting:,} waiting; {people}"
        return Document(counts, sentences=tuple(lines))


def people_a_chunk(wire: Wire, code_bytes: int = 0) -> int:
    """How many people's reports go into one request."""
    return max(1, min(MOST_REPORTS, MOST_BYTES // (wire.report_bytes + code_bytes)))


def no_progress(_done: int, _total: int) -> None:
    """For those who do not want to know how far a job is."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What a client does, as exchanges with the services."""

    outbox: Outbox
    policy: Policy
    settings: Settings
    clock: Clock

    def survey(self, source: Source, name: str | None = None) -> Exchange[Survey]:
        """The survey itself, in a file, or at an address."""
        if isinstance(source, str) and source.startswith(("http://", "https://")):
            return (yield from _fetched(source, name, self.policy))
        if isinstance(source, Survey):
            survey = source
            self.policy.check_places(survey, near=this_machine)
        else:
            try:
                data = Path(source).read_bytes().strip()
            except OSError as error:
                reason = f"cannot read {source}: {error.strerror}"
                raise SurveyRefusedError(reason, "name a file") from error
            survey = _parsed(data, self.policy, near=this_machine, place=str(source))
        if name is not None:
            _check_id(survey.id, SurveyId.from_text(name))
        return survey

    def report(
        self,
        survey: Source,
        answer: Answer,
        occasion: int,
        invitation: Invitation | str | None,
    ) -> Exchange[Outcome]:
        """Answer a survey, or go on with the report of this occasion if it was made before."""
        survey = yield from self.survey(survey)
        self._check_open(survey, occasion)
        codes = codes_for(survey, occasion, None if invitation is None else [invitation])
        report = ReportId(survey.id, occasion)
        again = not self._draw(survey, report, values_of(survey, [answer]), codes)
        if again and codes:
            self.outbox.admit(report, codes)
        reached("client.randomized")
        waits = yield from self._deliver(report, Route.of(survey))
        row, name = self.outbox.row(report), str(survey.id)
        if waits:
            return Queued(survey=name, occasion=occasion, due=row.due, reason=waits, again=again)
        if row.outcome == "delivered":
            return Sent(survey=name, occasion=occasion, again=again)
        if row.outcome == "abstained":
            return Abstained(survey=name, occasion=occasion, again=again)
        raise DeliveryError(name, occasion, _GIVEN_UP[row.outcome])

    def report_many(
        self,
        survey: Source,
        answers: Answers,
        job: str,
        occasion: int,
        invitations: Sequence[Invitation | str] | None,
        *,
        pool: Executor | None,
        progress: Progress,
    ) -> Exchange[Submitted]:
        """Answers of many people, one each; the same ``job`` goes on where it was interrupted."""
        # The report without a job is that of one person.
        checks.refuse(not job, "a name for these people", job=job)
        survey = yield from self.survey(survey)
        self.promised(survey, occasion)
        values, route = values_of(survey, answers), Route.of(survey)
        codes, size = codes_for(survey, occasion, invitations), route.code_bytes
        expected = f"{len(values):,}, one for each person"
        wrong = len(codes) != size * len(values)
        checks.refuse(wrong, expected, invitations=len(invitations or ()))
        first = ReportId(survey.id, occasion, job)
        chunk, again = self.outbox.begin_job(first, values, people_a_chunk(route.wire, size))
        people, waits = len(values), ""
        for number, start in zip(count(), range(0, people, chunk)):
            report, end = ReportId(survey.id, occasion, job, number), min(people, start + chunk)
            self._draw(survey, report, values[start:end], codes[start * size : end * size])
            if end == people:
                self.outbox.end_job(first)
            reached("client.randomized")
            waits = yield from self._deliver(report, route, pool)
            progress(end, people)
            if waits:
                break
        counts = self.outbox.progress(first)
        return Submitted(
            survey=str(survey.id),
            job=job,
            people=people,
            asked=counts["asked"],
            taking_part=counts["people"],
            delivered=counts["delivered"],
            waiting=counts["waiting"],
            reason=waits,
            again=again,
        )

    def flush(self, *, everything: bool) -> Exchange[Flushed]:
        """Try what waits and is due."""
        flushed = []
        now = self.clock()
        self.outbox.correct_clock(now)
        for report, route in self.outbox.waiting(due=None if everything else now):
            before = self.outbox.row(report)
            try:
                reason = yield from self._deliver(report, Route.from_bytes(route), hurry=True)
            except ShoalError as error:  # of this report alone: the others can go on
                reason = str(error)
            after = self.outbox.row(report)
            reason = reason or _GIVEN_UP.get(after.outcome, "")
            sent = after.delivered - before.delivered
            flushed.append(
                Flushed(
                    sent=sent,
                    waiting=after.waiting,
                    given_up=before.waiting - after.waiting - sent,
                    reasons=(reason,) if reason else (),
                )
            )
        return Flushed.together(flushed)

    def promised(self, survey: Survey, occasion: int) -> Guarantee:
        """What an answer costs at most, if it may be given: nothing is drawn."""
        self._check_open(survey, occasion)
        guarantee = self.policy.check(survey)
        self.outbox.check_consent()
        self.policy.check_total(self.outbox.ledger(besides=survey.id), guarantee)
        return guarantee

    def _check_open(self, survey: Survey, occasion: int) -> None:
        """Refuse a survey that is not open, or has no such occasion."""
        checks.count(occasion=occasion)
        now, most = self.clock(), survey.reports_per_person
        today = f"{moment(now)} (UTC)"
        if now < survey.not_before:
            reason = f"begins on {moment(survey.not_before)}, and it is {today}"
            advice = "answer it then"
        elif now > survey.not_after:
            reason = f"ended on {moment(survey.not_after)}, and it is {today}"
            advice = "it accepts no more answers"
        elif occasion > most:
            reports = f"{most} report{'s' * (most > 1)}"
            reason = f"accepts {reports} from one person, and this is number {occasion}"
            advice = "more would reveal more than was promised"
        elif survey.token_bytes:
            reason = f"needs tokens of {survey.token_bytes} bytes"
            advice = "this client has none to show"
        else:
            return
        raise SurveyRefusedError(f"survey {survey.name!r} {reason}", advice)

    def _draw(self, survey: Survey, report: ReportId, values: Values, codes: bytes = b"") -> bool:
        """Draw and keep a report, unless it is there; whether it was drawn now."""
        guarantee = self.policy.check(survey)

        def make(others: Ledger) -> tuple[Drawn, int, int]:
            self.policy.check_total(others, guarantee)
            now = self.clock()
            return (
                draw(survey, values, codes),
                now,
                now + math.ceil(self.settings.delay * _uniform()),
            )

        proxied = self.settings.proxy is not None
        return self.outbox.draw(report, survey, guarantee, make, proxied=proxied)

    def _deliver(
        self, report: ReportId, route: Route, pool: Executor | None = None, *, hurry: bool = False
    ) -> Exchange[str]:
        """Try until it is done, or until the tries of this call are; why it waits then."""
        settings = self.settings
        self.outbox.correct_clock(self.clock())
        for attempt in range(1, settings.tries + 1):
            row, now = self.outbox.row(report), self.clock()
            if row.state == "done":
                return ""
            # Nothing leaves after the end. But a clock may be wrong for a moment, and what is wiped
            # is gone: it is wiped once it was over for a day, and not seen open in between.
            over = min(row.over or now, now) if now > route.not_after else 0
            if over and now >= over + DAY:
                self.outbox.finish(report, "expired")
                return ""
            if over or row.over:
                self.outbox.mark(report, over=over)
            if over:
                return _OVER
            if row.proxied and settings.proxy is None:
                return NEEDS_PROXY
            if settings.proxy is not None and not row.proxied:
                self.outbox.mark(report, proxied=1)
            if row.due > now and not hurry:
                return "it will be sent later"
            try:
                yield from self._send(row, route, pool)
            except Retry as retry:
                reason = retry.reason
                seconds = settings.wait_after(row.tries + 1, asked=retry.seconds)
            else:
                return ""
            now = self.clock()
            self.outbox.mark(report, due=now + math.ceil(seconds), said=now)
            if attempt == settings.tries or seconds > settings.patience:
                break
            hurry = True
            yield Wait(seconds)
        return reason

    def _send(self, row: Row, route: Route, pool: Executor | None) -> Exchange[None]:
        """Seal if need be, send, and mark what came of it."""
        row = yield from self._sealed(row, route, pool)
        if row.state == "done" or not self.outbox.trying(row):
            raise Retry("another process has sent or deleted it", unsent=True)
        survey = str(row.id.survey)
        try:
            url = f"{route.shuffler.url}/v1/surveys/{survey}/reports"
            response: Response = yield Request(url, beside(row.sealed, row.codes))
            reached("client.sent")
            receipt = read_receipt(response, row.waiting)
        except Retry as retry:
            if retry.unsent:
                self.outbox.not_arrived(row)
            raise
        unadmitted = receipt.unadmitted
        delivered = row.waiting - len(receipt.reseal) - len(receipt.refused) - len(unadmitted)
        if unadmitted:  # sealed anew with the next try if others are not
            left = tuple(sorted((*receipt.reseal, *unadmitted)))
            self.outbox.keep_only(row, left, delivered=delivered, same=True)
            raise Retry(_not_admitted(receipt.reason), unsent=False, seconds=_INVITED_ANEW)
        if receipt.reseal:
            if self.outbox.keep_only(row, receipt.reseal, delivered=delivered):
                # Ask for the keys now, so that the next try has others if there are any.
                yield from self._sealed(self.outbox.row(row.id), route, fresh=True)
                raise Retry(f"the shuffler answered {receipt.reason}", unsent=True)
            self.outbox.finish(row.id, "lost", delivered=delivered)
        elif delivered:
            self.outbox.finish(row.id, "delivered", delivered=delivered)
        else:
            self.outbox.finish(row.id, "refused")
            raise DeliveryError(survey, row.id.occasion, receipt.reason)

    def _sealed(
        self, row: Row, route: Route, pool: Executor | None = None, *, fresh: bool = False
    ) -> Exchange[Row]:
        """The report in the bytes that are sent: as they are if they may have been sent before."""
        if row.sealed and row.doubt:
            return row
        found: dict[Role, PublicKey] = {}
        try:
            for role in ROLES:
                key_list = yield from self._key_list(route, role, fresh=fresh)
                with _refusing(route, role):
                    found[role] = key_list.current(route.wire.suite, self.clock())
            if self.settings.compare_keys:
                for role, key in found.items():
                    yield from self._compare(route, role, key)
        except Retry:
            if row.sealed and not fresh:
                return row
            raise
        keys = Keys(**found)
        named = keys.named
        if row.sealed and row.keys == named:
            return row
        reports = seal(route.wire, row.messages, keys, pool=pool)
        self.outbox.seal(row, b"".join(reports), named)
        reached("client.sealed")
        return self.outbox.row(row.id)

    def _compare(self, route: Route, role: Role, key: PublicKey) -> Exchange[None]:
        for fresh in (False, True):  # what was kept here may be older than the key
            key_list = yield from self._key_list(route, role, fresh=fresh, compared=True)
            if any(key == known.public for known in key_list.keys):
                return
        reason = f"key {key.number} is not in the list that the analyzer shows"
        raise KeysRefusedError(role, route.party(role).url, reason)

    def _key_list(
        self, route: Route, role: Role, *, fresh: bool, compared: bool = False
    ) -> Exchange[KeyList]:
        """A party's list; both are at the shuffler, who shows everybody the same.

        Or, ``compared``, at the analyzer, for those who do not mind that it sees them ask.
        """
        fingerprint = route.party(role).fingerprint
        # One place for all surveys of two parties.
        shown = "keys" if role == "shuffler" else f"surveys/{route.survey}/keys/analyzer"
        place, url = f"{role} at {route.shuffler.url}", f"{route.shuffler.url}/v1/{shown}"
        if compared:
            shown = "keys" if role == "analyzer" else f"keys/shuffler?fingerprint={fingerprint}"
            place = f"{role} at {route.analyzer.url} (compared)"
            url = f"{route.analyzer.url}/v1/{shown}"
        document = self.outbox.key_list(place, fingerprint, self.clock())
        until = None
        if document is None or fresh:
            failure = f"the keys of the {role} cannot be fetched"
            try:
                response: Response = yield Request(url)
            except NoResponse as silence:
                raise Retry(f"{failure}: {silence.reason}", unsent=True) from silence
            if response.status != 200:
                reason = f"{failure}: {response.refusal()}"
                raise Retry(reason, unsent=True, seconds=response.retry_after)
            document, until = response.body, self.clock() + min(response.max_age, CACHE_SECONDS)
        with _refusing(route, role):
            now = self.clock()
            key_list = KeyList.verified(document, fingerprint=fingerprint, now=now, role=role)
            if until is not None:
                self.outbox.take_key_list(place, key_list, min(until, key_list.valid_until))
        return key_list


def codes_for(
    survey: Survey, occasion: int, invitations: Sequence[Invitation | str] | None
) -> bytes:
    """What people show beside their reports; nothing for a survey that anybody may answer."""
    if not survey.admission.code_bytes:
        if invitations is None:
            return b""
        reason = f"survey {survey.name!r} needs no invitation: anybody may answer it"
        raise SurveyRefusedError(
            reason, "leave the invitation out, or check whether it is for another survey"
        )
    if invitations is None:
        reason = f"survey {survey.name!r} is for invited people"
        raise SurveyRefusedError(reason, "give the invitation that you received")
    read = [Invitation.read(each) if isinstance(each, str) else each for each in invitations]
    return b"".join(each.code(survey.id, occasion) for each in read)


def _fetched(url: str, name: str | None, policy: Policy) -> Exchange[Survey]:
    url = url.rstrip("/")
    parts = _address(url)
    policy.check_host(url, "the survey")
    ending = parts.path.rpartition("/")[2]
    try:
        wanted = SurveyId.from_text(name or ending)
    except MalformedError as error:
        if name is not None:
            raise
        reason = "the address of a survey ends with its id, 64 hexadecimal digits"
        raise SurveyRefusedError(reason, "ask the sender for the whole address") from error
    if ending != str(wanted):  # the address of a service
        url += _FETCHED + str(wanted)
    elif url.endswith(page := _PAGE + ending):  # what people are handed
        url = url.removesuffix(page) + _FETCHED + ending
    try:
        response: Response = yield Request(url)
        why = "" if response.status == 200 else response.problem()
    except NoResponse as silence:
        why = silence.reason
    if why:
        raise SurveyRefusedError(f"the survey cannot be fetched from {url}: {why}", "try again")
    _check_id(SurveyId(sha256(response.body).digest()), wanted)
    inside = not public(parts.hostname or "")
    return _parsed(response.body, policy, near=lambda _host: inside, place=url)


def _address(url: str) -> SplitResult:
    """Where a survey may be asked for: nothing in the address says who asks."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        sound = parts.scheme == "https" or this_machine(host)
        if sound and reachable(host) and not set("?#@") & set(url):
            return parts
    except ValueError:
        pass
    expected = "an https address without user and query (http on this machine only)"
    raise InvalidArgumentError("survey", without_login(url), expected)


def _parsed(data: bytes, policy: Policy, *, near: Near, place: str) -> Survey:
    """The survey; what the policy does not allow anyway is refused before it is worked out."""
    try:
        stated = Stated.from_bytes(data)
        policy.check_places(stated, near=near)
        policy.check_stated(stated)
        survey = Survey.from_bytes(data)
    except MalformedError as error:
        advice = "ask its author for the original"
        raise SurveyRefusedError(complaint(error, place), advice) from error
    try:
        check_texts(survey)
    except InvalidArgumentError as error:
        reason, advice = f"{place} has texts that mislead people: {error}", "tell its author"
        raise SurveyRefusedError(reason, advice) from error
    return survey


def _check_id(survey: SurveyId, wanted: SurveyId) -> None:
    if survey != wanted:
        reason = f"this is survey {survey}, not {wanted}"
        raise SurveyRefusedError(reason, "it was changed, or it is another survey")


@contextmanager
def _refusing(route: Route, role: Role) -> Iterator[None]:
    try:
        yield
    except ShoalError as error:
        kept = "; the outbox keeps both lists as evidence"
        reason = f"{error}{kept if isinstance(error, ContradictionError) else ''}"
        raise KeysRefusedError(role, route.party(role).url, reason) from error


def _uniform() -> float:
    """Uniform below 1, nobody else knows it."""
    return int(randomness.secure().below(_STEPS, 1)[0]) / _STEPS

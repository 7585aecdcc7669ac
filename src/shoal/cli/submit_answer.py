"""From what ``shoal submit`` was asked to a client, and what came of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shoal.cli.options import RefusedError
from shoal.cli.submit_asked import SubmitAsked
from shoal.explain.text import plain
from shoal.protocols.base import Device
from shoal.randomizers.base import AnswerMechanism, NumberMechanism
from shoal.service.client import (
    Abstained,
    Client,
    Flushed,
    Ledger,
    Policy,
    Queued,
    Sent,
    Settings,
    Submitted,
    default_directory,
)
from shoal.service.client.drawing import Values, values_of
from shoal.service.client.machine import NEEDS_PROXY
from shoal.service.client.outbox import FILE
from shoal.service.client.sources import without_login
from shoal.service.processes import executor
from shoal.service.survey import Survey

_JOBS = "jobs"
_JOB_STORAGE = 4 << 30
_JOB_TRIES = 8


@dataclass(frozen=True)
class Wiped:
    """How many reports were wiped by opting out; None after opting in."""

    reports: int | None


@dataclass(frozen=True)
class Spending:
    """What was spent by the person of this machine, and by each one of the people of tables."""

    own: Ledger
    jobs: Ledger | None


Found = Sent | Queued | Abstained | Submitted | Flushed | Spending | Wiped


@dataclass(frozen=True)
class Answered:
    """What was done, for which survey, and the command that sends what waits."""

    found: Found
    survey: Survey | None = None
    flushing: str = ""


@dataclass(frozen=True)
class Ready:
    """All that can be refused was not; nothing is drawn yet."""

    asked: SubmitAsked
    clients: tuple[Client, ...]
    survey: Survey | None = None
    values: Values | None = None

    def confirmed(self) -> Ready:
        """Whoever is there was asked."""
        if self.survey is None:
            return self
        asked = self.asked.confirmed()
        values = self.values
        if values is None:
            values = values_of(self.survey, [asked.answer or ""])
        return replace(self, asked=asked, values=values)

    def carried_out(self, progress: Callable[[int, int], None]) -> Answered:
        """What came of it."""
        asked, survey = self.asked, self.survey
        if survey is None:
            return Answered(_before(asked, self.clients))
        (client,) = self.clients
        if asked.file is None:
            sent = client.report(survey, asked.answer or "", occasion=asked.occasion)
            proxied = isinstance(sent, Queued) and sent.reason == NEEDS_PROXY
            return Answered(sent, survey, _flushing(asked, proxied=proxied))
        assert self.values is not None  # noqa: S101 - read when it was made ready
        with executor(asked.processes) as pool:
            many = client.report_many(
                survey,
                self.values,
                job=self._job,
                occasion=asked.occasion,
                pool=pool,
                progress=progress,
            )
        return Answered(many, survey)

    def interrupted(self) -> str:
        """How far it came, and how to go on; as the outbox knows it."""
        asked, survey = self.asked, self.survey
        if survey is None:
            return "interrupted: the same command goes on"
        (client,) = self.clients
        if asked.file is None:
            waits = any(row.waiting for row in client.spent() if row.survey == str(survey.id))
            return f"interrupted: {_left(asked) if waits else 'the same command goes on'}"
        found = client.progress(survey, job=self._job, occasion=asked.occasion)
        people = 0 if self.values is None else len(self.values)
        return (
            f"interrupted: {found['delivered']:,} delivered, {found['waiting']:,} waiting, "
            f"{people - found['asked']:,} of {people:,} people not yet asked; the same command "
            "goes on where it ended, and draws nobody twice"
        )

    @property
    def _job(self) -> str:
        return self.asked.job or str(Path(self.asked.file or "").resolve())


@contextmanager
def prepared(asked: SubmitAsked) -> Iterator[Ready]:
    """A client, the survey, and the answers; whatever is refused is refused here."""
    with ExitStack() as stack:
        if asked.survey is None:
            places = _places(asked)
            clients = tuple(stack.enter_context(_client(asked, place)) for place in places)
            yield Ready(asked, clients)
            return
        client = stack.enter_context(_client(asked, _place(asked)))
        survey = client.survey(asked.survey)
        client.promised(survey, occasion=asked.occasion)
        values: Values | None = None
        if asked.file is not None:
            values = _values(asked, survey)
        elif asked.answer is not None:
            values = values_of(survey, [asked.answer])
        yield Ready(asked, (client,), survey, values)


def _before(asked: SubmitAsked, clients: tuple[Client, ...]) -> Found:
    """What was sent before, by this person and in jobs."""
    if asked.flush:
        return _together([client.flush(everything=True) for client in clients])
    if asked.spent:
        own, *jobs = (client.spent() for client in clients)
        return Spending(own, jobs[0] if jobs else None)
    if asked.opt_out:
        return Wiped(sum(client.opt_out() for client in clients))
    for client in clients:
        client.opt_in()
    return Wiped(None)


def _left(asked: SubmitAsked) -> str:
    return f"a report waits; send it with {_flushing(asked, proxied=False)}"


def _flushing(asked: SubmitAsked, *, proxied: bool) -> str:
    """The command that sends what waits in the same outbox, by the same way."""
    words = ["shoal", "submit", "--flush"]
    if asked.outbox is not None:
        words += ["--outbox", str(asked.outbox)]
    if asked.proxy is not None or proxied:
        words += ["--proxy", without_login(asked.proxy or "URL")]
    if asked.compare_keys:
        words.append("--compare-keys")
    return shlex.join(words)


def _together(found: list[Flushed]) -> Flushed:
    reasons = dict.fromkeys(reason for one in found for reason in one.reasons)
    return Flushed(
        sent=sum(one.sent for one in found),
        waiting=sum(one.waiting for one in found),
        given_up=sum(one.given_up for one in found),
        reasons=tuple(reasons),
    )


def _place(asked: SubmitAsked) -> Path:
    if asked.outbox is not None:
        return asked.outbox
    return default_directory() / _JOBS if asked.file is not None else default_directory()


def _places(asked: SubmitAsked) -> list[Path]:
    """The person's outbox, and that of jobs beside it.

    Opting out is for both, and for the latter also if it is only made later.
    """
    own = asked.outbox or default_directory()
    jobs = (own / _JOBS / FILE).exists()
    if asked.outbox is not None and not (jobs or (own / FILE).exists()):
        raise RefusedError(f"{own} is no outbox: nothing was sent or changed there")
    wanted = asked.outbox is None and (asked.opt_out or asked.opt_in)
    return [own, own / _JOBS] if wanted or jobs else [own]


def _client(asked: SubmitAsked, place: Path) -> Client:
    given: dict[str, Any] = asked.limits.given()
    settings: dict[str, Any] = {
        "delay": asked.delay,
        "proxy": asked.proxy,
        "compare_keys": asked.compare_keys,
    }
    if asked.file is not None or place.name == _JOBS:
        settings |= {"storage": _JOB_STORAGE, "tries": _JOB_TRIES}
    return Client(place, policy=Policy(**given), settings=Settings(**settings))


def _values(asked: SubmitAsked, survey: Survey) -> Values:
    """The column as the survey's mechanism takes it; no answer is repeated in what is refused."""
    from shoal.engines import reading

    column = reading.column(asked.file, asked.column or "")
    if isinstance(survey.device, AnswerMechanism):
        rows, nulls = column.size()
        codes = list(column.codes(survey.answers, none=None, other=-1))
        values: Values = np.concatenate([*codes, np.empty(0, dtype=np.int64)])
        unknown = int((values < 0).sum())
        if unknown:
            raise RefusedError(
                f"{unknown:,} of {rows:,} rows of {column.name} have an answer that the survey "
                "does not: nothing was sent"
            )
    else:
        rows, nulls = column.numeric_size()
        values = np.concatenate([*column.numbers(), np.empty(0, dtype=np.float64)])
        _check_bounds(values, survey.device, f"{rows:,} rows of {column.name}")
    if nulls and not asked.drop_nulls:
        raise RefusedError(
            f"{nulls:,} of {rows:,} rows of {column.name} have no answer: --drop-nulls leaves "
            "them out; nothing was sent"
        )
    if not values.size:
        raise RefusedError(f"column {column.name} has no answers: nothing was sent")
    return values


def _check_bounds(values: Values, device: Device, rows: str) -> None:
    assert isinstance(device, NumberMechanism)  # noqa: S101 - a survey has one or the other
    outside = int(((values < device.low) | (values > device.high)).sum())
    if outside:
        bounds = f"from {plain(device.low)} to {plain(device.high)}"
        raise RefusedError(f"{outside:,} of {rows} are no number {bounds}: nothing was sent")

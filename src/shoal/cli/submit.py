"""``shoal submit``: answer a survey from this machine, as a person or for the people of a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from shoal.cli.app import COLLECT, app
from shoal.cli.options import (
    Needs,
    Options,
    RefusedError,
    Rule,
    argument,
    command,
    dashed,
    flag,
    in_options,
    number,
    option,
    whole,
)
from shoal.cli.render import print_json, print_lines, reporting
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.explain.document import Document
    from shoal.service.client import Client
    from shoal.service.client.drawing import Values
    from shoal.service.survey import Survey

_ONE = "One person"
_MANY = "The people of a table"
_LIMITS = "What is allowed, whatever the survey says"
_HOW = "How it is sent"
_BEFORE = "What was sent before"
_NOTHING_SENT = "nothing was sent"
_GOES_ON = "the same command goes on"
_JOBS = "jobs"
_JOB_STORAGE = 4 << 30
_JOB_TRIES = 8


@contextmanager
def _nothing_sent() -> Iterator[None]:
    """Around all that comes before sending: who is refused there, or gives up, reads so."""
    try:
        with in_options(SubmitOptions):
            yield
    except ShoalError as error:
        if _NOTHING_SENT in str(error):
            raise
        raise RefusedError(f"{error}; {_NOTHING_SENT}") from error
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: {_NOTHING_SENT}\n")
        raise


@dataclass(frozen=True, kw_only=True)
class SubmitOptions(Options):
    """Which survey, whose answers, within which limits; or what was sent before."""

    survey: Annotated[str | None, argument("A survey's file, or its address.", "SURVEY")] = None
    answer: Annotated[
        str | None, argument("The answer; - or none reads it from the input.", "ANSWER")
    ] = None
    occasion: Annotated[int, whole("Which of the person's reports it is.", _ONE)] = 1
    file: Annotated[
        Path | None, option("A table, one person per row: CSV, Parquet, Arrow.", _MANY, "FILE")
    ] = None
    column: Annotated[str | None, option("Its column of answers.", _MANY, "NAME")] = None
    job: Annotated[
        str | None,
        option("What these people are called; the file's path if not given.", _MANY, "NAME"),
    ] = None
    drop_nulls: Annotated[
        bool, flag("--drop-nulls", "Leave out rows without an answer.", _MANY)
    ] = False
    processes: Annotated[int, whole("Processes that seal.", _MANY)] = 1
    max_local_epsilon: Annotated[
        float | None, number("ε0 of a person's reports together, at most; 8.", _LIMITS)
    ] = None
    max_epsilon: Annotated[
        float | None, number("ε in the smallest batch, at most; 2.", _LIMITS)
    ] = None
    max_delta: Annotated[float | None, number("δ, at most; 1e-5.", _LIMITS)] = None
    min_crowd: Annotated[int | None, whole("Reports in a batch, at least; 100.", _LIMITS)] = None
    max_total_epsilon: Annotated[
        float | None, number("ε over all surveys, at most; 10.", _LIMITS)
    ] = None
    max_total_delta: Annotated[
        float | None, number("δ over all surveys, at most; 1e-4.", _LIMITS)
    ] = None
    max_total_local_epsilon: Annotated[
        float | None, number("ε0 over all surveys that have one, at most; 40.", _LIMITS)
    ] = None
    host: Annotated[
        list[str] | None, option("The only machines to talk to; may be repeated.", _LIMITS, "NAME")
    ] = None
    any_local_epsilon: Annotated[
        bool,
        flag("--any-local-epsilon", "Allow reports that only the crowd hides (ε0 = ∞).", _LIMITS),
    ] = False
    outbox: Annotated[
        Path | None, option("Where reports wait; a place of its own if not given.", _HOW, "DIR")
    ] = None
    delay: Annotated[float, number("Leave at a random moment within so many seconds.", _HOW)] = 0.0
    proxy: Annotated[str | None, option("Send through this proxy.", _HOW, "URL")] = None
    compare_keys: Annotated[
        bool, flag("--compare-keys", "Compare the shuffler's keys with the analyzer's copy.", _HOW)
    ] = False
    yes: Annotated[bool, flag("--yes", "Send without asking.", _HOW)] = False
    flush: Annotated[bool, flag("--flush", "Try all that waits.", _BEFORE)] = False
    spent: Annotated[bool, flag("--spent", "Show what was spent.", _BEFORE)] = False
    opt_out: Annotated[bool, flag("--opt-out", "Wipe what waits, and answer no more.", _BEFORE)] = (
        False
    )
    opt_in: Annotated[bool, flag("--opt-in", "Answer again.", _BEFORE)] = False
    json: Annotated[bool, flag("--json", "Print JSON.", _BEFORE)] = False

    rules: ClassVar[tuple[Rule, ...]] = (
        Needs("file", ("column",), "which column of the table has the answers"),
        Needs("column", ("file",), "the table that it is a column of"),
        Needs("job", ("file",), "a table of many people"),
        Needs("drop_nulls", ("file",), "a table of many people"),
    )
    arguments: ClassVar[dict[str, str]] = {
        "local_epsilon": "max_local_epsilon",
        "epsilon": "max_epsilon",
        "delta": "max_delta",
        "minimum": "min_crowd",
        "total_epsilon": "max_total_epsilon",
        "total_delta": "max_total_delta",
        "total_local_epsilon": "max_total_local_epsilon",
        "hosts": "host",
    }

    def check(self) -> None:
        """A survey with an answer or a table; or one of what was sent before, alone."""
        before = [dashed(name) for name in self.only("flush", "spent", "opt_out", "opt_in")]
        with _nothing_sent():
            if before and (len(before) > 1 or self.only("survey", "file")):
                raise RefusedError(f"{before[0]} stands alone: no survey, no answer, nothing else")
            if before:
                return
            if self.survey is None:
                raise RefusedError("SURVEY is missing: a survey's file, or its address")
            Options.check(self)
            if self.file is not None and self.answer is not None:
                raise RefusedError("give ANSWER or --file, not both")
            if self.file is not None and not self.file.exists():
                raise RefusedError(f"there is no file {self.file}")

    def client(self, place: Path) -> Client:
        """With an outbox in this place and the limits that were given."""
        import math

        from shoal.service.client import Client, Policy, Settings

        limits: dict[str, Any] = {
            limit: self.given[name] for limit, name in self.arguments.items() if name in self.given
        }
        if self.any_local_epsilon:
            limits["local_epsilon"] = math.inf
        settings = self.only("delay", "proxy", "compare_keys")
        if self.file is not None or place.name == _JOBS:
            settings |= {"storage": _JOB_STORAGE, "tries": _JOB_TRIES}
        return Client(place, policy=Policy(**limits), settings=Settings(**settings))

    def flushing(self, *, proxied: bool = False) -> str:
        """The command that sends what waits in the same outbox, by the same way."""
        from shoal.service.client.sources import without_login

        words = ["shoal", "submit", "--flush"]
        if self.outbox is not None:
            words += ["--outbox", str(self.outbox)]
        if self.proxy is not None or proxied:
            words += ["--proxy", without_login(self.proxy or "URL")]
        if self.compare_keys:
            words.append("--compare-keys")
        return shlex.join(words)


@command(app, COLLECT)
def submit(options: SubmitOptions) -> None:
    """Randomize an answer on this machine, seal it, and send it until it has arrived."""
    with ExitStack() as stack:
        act = _before if options.survey is None else _report
        values, document = act(options, stack)
    if options.json:
        print_json(values)
    else:
        print_lines(document)


# ------------------------------------------------------------------------------ answering a survey


def _report(options: SubmitOptions, stack: ExitStack) -> tuple[dict[str, object], Document]:
    """Whatever is refused is refused before anything is drawn; then it is sent."""
    from shoal.service.client import Queued, default_directory
    from shoal.service.client.drawing import values_of
    from shoal.service.client.machine import NEEDS_PROXY
    from shoal.service.survey.words import promise_document

    asks = not (options.yes or options.json) and sys.stdin.isatty()
    answer = None if options.answer == "-" else options.answer
    with _nothing_sent():
        if options.file is None and answer is None and not asks:
            answer = _read_answer()
        place = default_directory() / _JOBS if options.file is not None else default_directory()
        client = stack.enter_context(options.client(options.outbox or place))
        survey = client.survey(options.survey or "")
        promised = client.promised(survey, occasion=options.occasion)
        values = _values(options, survey, answer)
        if not options.json:
            print_lines(promise_document(survey))
        if asks and values is not None:
            _confirm()
        elif asks:
            answer = _read_answer()
            values = values_of(survey, [answer])
    assert values is not None  # noqa: S101 - of a table, or of an answer that was read
    outcome = _send(options, client, survey, answer, values)
    document = outcome.document()
    if isinstance(outcome, Queued):
        flushing = options.flushing(proxied=outcome.reason == NEEDS_PROXY)
        document = replace(document, sentences=(f"send it with {flushing}",))
    promise = {
        "epsilon": promised.epsilon,
        "delta": promised.delta,
        "local_epsilon": promised.local_epsilon,
        "minimum": survey.batches.minimum,
        "reports_per_person": survey.reports_per_person,
    }
    name = type(outcome).__name__.lower()
    return {"outcome": name, **asdict(outcome), "promise": promise}, document


def _values(options: SubmitOptions, survey: Survey, answer: str | None) -> Values | None:
    """The answers as the survey's mechanism takes them; None if nobody was asked yet."""
    from shoal.service.client.drawing import column_values, values_of

    if options.file is not None:
        column = options.column or ""
        return column_values(survey, options.file, column, drop_nulls=options.drop_nulls)
    return None if answer is None else values_of(survey, [answer])


def _send(
    options: SubmitOptions, client: Client, survey: Survey, answer: str | None, values: Values
) -> Any:  # noqa: ANN401 - an outcome of one person or of many
    from shoal.service.processes import executor

    job = options.job or str(Path(options.file or "").resolve())
    try:
        with reporting("sending") as progress:
            if options.file is None:
                return client.report(survey, answer or "", occasion=options.occasion)
            with executor(options.processes) as pool:
                return client.report_many(
                    survey,
                    values,
                    job=job,
                    occasion=options.occasion,
                    pool=pool,
                    progress=progress,
                )
    except KeyboardInterrupt:
        if options.file is None:
            waits = any(row.waiting for row in client.spent() if row.survey == str(survey.id))
            rest = f"a report waits; send it with {options.flushing()}" if waits else _GOES_ON
        else:
            done = client.progress(survey, job=job, occasion=options.occasion)
            rest = (
                f"{done['delivered']:,} delivered, {done['waiting']:,} waiting, "
                f"{len(values) - done['asked']:,} of {len(values):,} people not yet asked; "
                f"{_GOES_ON} where it ended, and draws nobody twice"
            )
        typer.echo(f"interrupted: {rest}", err=True)
        raise


def _read_answer() -> str:
    if sys.stdin.isatty():
        sys.stderr.write("answer: ")
        sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise RefusedError("ANSWER is missing: give it, or write it to the standard input")
    return line.removesuffix("\n").removesuffix("\r")


def _confirm() -> None:
    sys.stderr.write("send? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RefusedError(_NOTHING_SENT)


# ---------------------------------------------------------------------------- what was sent before


def _before(options: SubmitOptions, stack: ExitStack) -> tuple[dict[str, object], Document]:
    """By the person of this machine, and by the people of tables."""
    with _nothing_sent():
        clients = [stack.enter_context(options.client(place)) for place in _places(options)]
    try:
        with reporting("sending"):
            return _carried_out(options, clients)
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {_GOES_ON}", err=True)
        raise


def _carried_out(
    options: SubmitOptions, clients: list[Client]
) -> tuple[dict[str, object], Document]:
    from shoal.explain.document import Document
    from shoal.explain.text import plural
    from shoal.service.client import Flushed

    if options.flush:
        flushed = Flushed.together([client.flush(everything=True) for client in clients])
        return {"outcome": "flushed", **asdict(flushed)}, flushed.document()
    if options.spent:
        own, *jobs = (client.spent() for client in clients)
        values, lines = own.to_dict(), str(own).splitlines()
        for ledger in jobs:
            values |= {"jobs": ledger.to_dict()}
            lines += ["", "each one of the people of tables, at most:", *str(ledger).splitlines()]
        return values, Document(lines[0], sentences=tuple(lines[1:]))
    if options.opt_out:
        reports = sum(client.opt_out() for client in clients)
        wiped = f"{plural(reports, 'report')} {'was' if reports == 1 else 'were'} wiped"
        document = Document(f"opted out: {wiped}, nothing more is answered")
        return {"outcome": "wiped", "reports": reports}, document
    for client in clients:
        client.opt_in()
    return {"outcome": "wiped", "reports": None}, Document("opted in")


def _places(options: SubmitOptions) -> list[Path]:
    """The person's outbox, and that of jobs beside it.

    Opting out is for both, and for the latter also if it is only made later.
    """
    from shoal.service.client import default_directory
    from shoal.service.client.outbox import FILE

    own = options.outbox or default_directory()
    jobs = (own / _JOBS / FILE).exists()
    if options.outbox is not None and not (jobs or (own / FILE).exists()):
        raise RefusedError(f"{own} is no outbox: nothing was sent or changed there")
    both = options.outbox is None and (options.opt_out or options.opt_in)
    return [own, own / _JOBS] if both or jobs else [own]

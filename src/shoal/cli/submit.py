"""``shoal submit``: answer a survey from this machine, as a person or for the people of a table."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shoal.cli.app import COLLECT, app
from shoal.cli.options import Excludes, Needs, Options, Required, Rule, command, in_options, option
from shoal.cli.render import answer, print_lines, working
from shoal.errors import RefusedError, ShoalError
from shoal.explain.document import Document
from shoal.explain.text import plural

if TYPE_CHECKING:
    from shoal.service.admission import Invitation
    from shoal.service.client import Client
    from shoal.service.client.randomize import Answer, One, Values
    from shoal.service.survey import Survey

_ONE = "One person"
_MANY = "The people of a table"
_LIMITS = "Limits, whatever the survey says"
_HOW = "How it is sent"
_BEFORE = "Earlier reports"
_NOTHING_SENT = "nothing was sent"
_GOES_ON = "the same command continues"
_ALONE = ("flush", "spent", "opt_out", "opt_in")
_JOBS = "jobs"
_JOB_STORAGE = 4 << 30
_JOB_TRIES = 8


@contextmanager
def _nothing_sent(options: SubmitOptions) -> Iterator[None]:
    """Around all that comes before sending: who is refused there, or gives up, reads so."""
    try:
        yield
    except ShoalError as error:
        if _NOTHING_SENT in str(error):
            raise
        message = in_options(error, options)
        raise RefusedError(f"{message}; {_NOTHING_SENT}") from error
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: {_NOTHING_SENT}\n")
        raise


class SubmitOptions(Options):
    """Which survey, whose answers, within which limits; or what was sent before."""

    survey: str | None = option("The survey's file, or its address.", name="SURVEY", default=None)
    answer: str | None = option(
        "The answer; with - or without it, it is read from standard input.",
        name="ANSWER",
        default=None,
    )
    answers: list[str] | None = option(
        "Answer to one of several questions, by its name; may be repeated. Other questions "
        "are skipped.",
        _ONE,
        "NAME=ANSWER",
        name="--answer",
    )
    groups: list[str] | None = option(
        "The person's group, if answers are counted by groups; NAME=GROUP for one of "
        "several questions.",
        _ONE,
        "GROUP",
        name="--group",
    )
    occasion: int = option("Which of the person's reports this is.", _ONE, default=1)
    invitation: str | None = option("The invitation, for a survey of invited people.", _ONE, "CODE")
    file: Path | None = option("A table, one person per row, in any format of shoal run.", _MANY)
    column: str | None = option(
        "The column with the answers; for several questions each has a column with its name.",
        _MANY,
        "NAME",
    )
    by: str | None = option(
        "The column with the groups, if answers are counted by groups.", _MANY, "NAME"
    )
    job: str | None = option("A name for these people; default: the file's path.", _MANY, "NAME")
    invitations: Path | None = option("The table of their invitations, one for each person.", _MANY)
    drop_nulls: bool = option("Leave out rows without an answer.", _MANY)
    processes: int = option("Number of processes that seal.", _MANY, default=1)
    max_local_epsilon: float | None = option(
        "Largest ε0 of one person's reports together; default: 8.", _LIMITS, keyword="local_epsilon"
    )
    max_epsilon: float | None = option(
        "Largest ε in the smallest batch; default: 2.", _LIMITS, keyword="epsilon"
    )
    max_delta: float | None = option("Largest δ; default: 1e-5.", _LIMITS, keyword="delta")
    min_crowd: int | None = option(
        "Smallest number of reports in a batch; default: 100.", _LIMITS, keyword="minimum"
    )
    max_total_epsilon: float | None = option(
        "Largest ε over all surveys; default: 10.", _LIMITS, keyword="total_epsilon"
    )
    max_total_delta: float | None = option(
        "Largest δ over all surveys; default: 1e-4.", _LIMITS, keyword="total_delta"
    )
    max_total_local_epsilon: float | None = option(
        "Largest ε0 over all surveys that have one; default: 40.",
        _LIMITS,
        keyword="total_local_epsilon",
    )
    host: list[str] | None = option(
        "Contact only these machines; may be repeated.", _LIMITS, "NAME", keyword="hosts"
    )
    require_admission: bool = option("Only surveys for invited people.", _LIMITS)
    any_local_epsilon: bool = option(
        "Allow reports that only the crowd protects (ε0 = ∞).", _LIMITS
    )
    outbox: Path | None = option(
        "Directory where reports wait; default: one for this user.", _HOW, "DIR"
    )
    delay: float = option("Send at a random moment within this many seconds.", _HOW, default=0.0)
    proxy: str | None = option("Send through this proxy.", _HOW, "URL")
    compare_keys: bool = option(
        "Compare the shuffler's keys with the analyzer's copy of them.", _HOW
    )
    yes: bool = option("Send without asking.", _HOW)
    flush: bool = option("Try to send every report that waits.", _BEFORE)
    spent: bool = option("Show the privacy budget spent so far.", _BEFORE)
    opt_out: bool = option("Delete reports that wait, and take part in no more surveys.", _BEFORE)
    opt_in: bool = option("Answer again.", _BEFORE)
    json: bool = option("Print JSON.", _BEFORE)

    rules = (
        Excludes("flush", ("survey", "file", *_ALONE[1:]), "--flush is used alone"),
        Excludes("spent", ("survey", "file", *_ALONE[2:]), "--spent is used alone"),
        Excludes("opt_out", ("survey", "file", "opt_in"), "--opt-out is used alone"),
        Excludes("opt_in", ("survey", "file"), "--opt-in is used alone"),
        Required("survey", "the survey's file, or its address", unless=_ALONE),
        Needs("column", ("file",), "the table with this column"),
        Needs("by", ("file",), "the table with this column"),
        Needs("job", ("file",), "it is for a table of people"),
        Needs("invitations", ("file",), "it is for a table of people"),
        Needs("drop_nulls", ("file",), "it is for a table of people"),
        Excludes("file", ("answer", "answers"), "give ANSWER or --file, not both"),
        Excludes("file", ("groups",), "the groups of a table are in its column --by"),
        Excludes("answer", ("answers",), "ANSWER is for one question, --answer for several"),
        Excludes("file", ("invitation",), "an invitation is for one person"),
    )

    def obey(self, *rules: Rule) -> None:
        """What is refused says that nothing was sent."""
        with _nothing_sent(self):
            super().obey(*rules)
            if self.file is not None and not self.file.exists():
                raise RefusedError(f"there is no file {self.file}")

    def client(self, place: Path) -> Client:
        """With an outbox in this place and the limits that were given."""
        from shoal.service.client import Client, Policy, Settings

        limits = self.arguments(Policy)
        if self.any_local_epsilon:
            limits["local_epsilon"] = math.inf
        settings = self.arguments(Settings)
        if self.file is not None or place.name == _JOBS:
            settings |= {"storage": _JOB_STORAGE, "tries": _JOB_TRIES}
        return Client(place, policy=Policy(**limits), settings=Settings(**settings))

    def flushing(self, *, proxied: bool = False) -> str:
        """The command that sends what waits in the same outbox, by the same way."""
        from shoal.service.client.policy import without_login

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
    """Randomize an answer on this machine, encrypt it, and send it until it has arrived."""
    with ExitStack() as stack:
        act = _before if options.survey is None else _report
        values, document = act(options, stack)
    answer(options, values, str(document))


# ------------------------------------------------------------------------------ answering a survey


def _report(options: SubmitOptions, stack: ExitStack) -> tuple[dict[str, object], Document]:
    """Whatever is refused is refused before anything is drawn; then it is sent."""
    from shoal.service.admission import Invitation
    from shoal.service.client import Queued, default_directory
    from shoal.service.client.protocol import NEEDS_PROXY, codes_for
    from shoal.service.client.randomize import table_values, values_of
    from shoal.service.ops.invitations import read_table
    from shoal.service.survey.words import promise_document
    from shoal.values import attributes

    asks = not (options.yes or options.json) and sys.stdin.isatty()
    with _nothing_sent(options):
        place = default_directory() / _JOBS if options.file is not None else default_directory()
        client = stack.enter_context(options.client(options.outbox or place))
        # What follows a # in a link that people are handed is for their own machine alone.
        source, _, handed = (options.survey or "").partition("#")
        handed = options.invitation or handed
        invitations = [Invitation.read(handed)] if handed else None
        if options.invitations is not None:
            invitations = [each.invitation for each in read_table(options.invitations)]
        survey = client.survey(source)
        promised = client.promised(survey, occasion=options.occasion)
        codes_for(survey, options.occasion, invitations)
        answer = _answer(options, survey, asks=asks)
        values = None
        if options.file is not None:
            table = options.file, options.column
            if options.column is None and not survey.several:
                raise RefusedError(
                    "--file needs --column: which column of the table has the answers"
                )
            by, drop = options.by, options.drop_nulls
            values = table_values(survey, *table, by=by, drop_nulls=drop)
            if invitations is not None and len(invitations) != len(values):
                raise RefusedError(
                    f"{options.invitations} has {len(invitations):,} invitations, and "
                    f"{options.file} answers of {len(values):,} people: each person needs "
                    "one"
                )
        elif answer is not None:
            values = values_of(survey, [answer])
        if not options.json:
            print_lines(promise_document(survey))
        if asks and values is not None:
            sys.stderr.write("send? [y/N] ")
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise RefusedError(_NOTHING_SENT)
        elif asks:
            answer = _read_answer(survey)
            values = values_of(survey, [answer])
    assert values is not None  # noqa: S101 - of a table, or of an answer that was read
    outcome = _send(options, client, survey, answer, values, invitations)
    document = outcome.document()
    if isinstance(outcome, Queued):
        flushing = options.flushing(proxied=outcome.reason == NEEDS_PROXY)
        document = replace(document, sentences=(f"send it with {flushing}",))
    promise = attributes(promised, "epsilon", "delta", "local_epsilon")
    promise |= {"minimum": survey.batches.minimum, **attributes(survey, "reports_per_person")}
    name = type(outcome).__name__.lower()
    return {"outcome": name, **asdict(outcome), "promise": promise}, document


def _send(
    options: SubmitOptions,
    client: Client,
    survey: Survey,
    answer: Answer | None,
    values: Values,
    invitations: list[Invitation] | None,
) -> Any:  # noqa: ANN401 - an outcome of one person or of many
    from shoal.service.opening import executor

    job = options.job or str(Path(options.file or "").resolve())
    try:
        with working("sending") as progress:
            if options.file is None:
                invitation = invitations[0] if invitations else None
                given = "" if answer is None else answer
                return client.report(
                    survey, given, occasion=options.occasion, invitation=invitation
                )
            with executor(options.processes) as pool:
                return client.report_many(
                    survey,
                    values,
                    job=job,
                    occasion=options.occasion,
                    invitations=invitations,
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
                f"{len(values) - done['asked']:,} of {len(values):,} people still to come; "
                f"{_GOES_ON} from here, and randomizes nobody's answer twice"
            )
        typer.echo(f"interrupted: {rest}", err=True)
        raise


def _answer(options: SubmitOptions, survey: Survey, *, asks: bool) -> Answer | None:
    """What was given, or is read now; None if it is in a table, or asked for later."""
    if options.file is not None:
        return None
    if survey.several and options.answer not in (None, "-"):
        names = ", ".join(question.name for question in survey.questions)
        raise RefusedError(f"the survey has several questions: give --answer NAME=ANSWER ({names})")
    if options.answers is not None:
        if not survey.several:
            raise RefusedError("the survey has one question: give its ANSWER alone")
        return _paired(survey, _named("answer", options.answers), options.groups)
    if survey.several and options.groups is not None:
        raise RefusedError("--group needs --answer NAME=ANSWER: the survey has several questions")
    if options.groups is not None and not survey.only.groups:
        raise RefusedError("the survey does not count by groups: leave out --group")
    if options.answer not in (None, "-"):
        if not survey.only.groups:
            return options.answer
        if options.groups is None or len(options.groups) != 1:
            raise RefusedError("the survey counts by groups: give --group once")
        return options.groups[0], options.answer
    if options.groups is not None:
        raise RefusedError("--group needs ANSWER: standard input has both")
    return None if asks else _read_answer(survey)


def _named(option: str, texts: Sequence[str]) -> dict[str, str]:
    pairs = [each.partition("=") for each in texts]
    given = {name: text for name, _, text in pairs}
    if len(given) < len(pairs) or not all(sign for _, sign, _ in pairs):
        raise RefusedError(f"expected --{option} NAME={option.upper()}, each name once")
    return given


def _paired(survey: Survey, answers: dict[str, str], groups: list[str] | None) -> Answer:
    """Answers to several questions, with their groups where those are counted by groups."""
    inside = _named("group", groups or ())
    by_groups = [question.name for question in survey.questions if question.groups]
    if not set(inside) <= set(by_groups):
        listed = ", ".join(by_groups) or "none is"
        raise RefusedError(f"--group NAME=GROUP is for questions that are by groups: {listed}")
    return {**answers, **{name: (inside.get(name), answers.get(name)) for name in by_groups}}


def _read_answer(survey: Survey) -> Answer:
    """A line of the input, or one for each question: an empty one skips it.

    Where answers are counted by groups, the line of the group comes before that of the answer.
    """
    if not survey.several:
        if survey.only.groups:
            return _read_line(f"{survey.only.by}: "), _read_line("answer: ")
        return _read_line("answer: ")
    given: dict[str, One | None] = {}
    for each in survey.questions:
        group = _read_line(f"{each.by} ({each.name}): ") or None if each.groups else None
        own = _read_line(f"{each.text} ({each.name}): ") or None
        given[each.name] = (group, own) if each.groups else own
    return given


def _read_line(prompt: str) -> str:
    if sys.stdin.isatty():
        sys.stderr.write(prompt)
        sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise RefusedError("ANSWER is missing: give it, or write it to standard input")
    return line.removesuffix("\n").removesuffix("\r")


# ---------------------------------------------------------------------------- what was sent before


def _before(options: SubmitOptions, stack: ExitStack) -> tuple[dict[str, object], Document]:
    """By the person of this machine, and by the people of tables."""
    from shoal.service.client import Flushed

    with _nothing_sent(options):
        clients = [stack.enter_context(options.client(place)) for place in _places(options)]
    try:
        with working("sending"):
            if options.flush:
                flushed = Flushed.together([client.flush(everything=True) for client in clients])
                return {"outcome": "flushed", **asdict(flushed)}, flushed.document()
            if options.spent:
                own, *jobs = (client.spent() for client in clients)
                values, lines = own.to_dict(), str(own).splitlines()
                for ledger in jobs:
                    values |= {"jobs": ledger.to_dict()}
                    lines += ["", "each one of the people of tables, at most:"]
                    lines += str(ledger).splitlines()
                return values, Document(lines[0], sentences=tuple(lines[1:]))
            if options.opt_out:
                reports = sum(client.opt_out() for client in clients)
                wiped = f"{plural(reports, 'report')} {'was' if reports == 1 else 'were'} wiped"
                document = Document(
                    f"opted out: {wiped}, and this machine takes part in no more surveys"
                )
                return {"outcome": "wiped", "reports": reports}, document
            for client in clients:
                client.opt_in()
            return {"outcome": "wiped", "reports": None}, Document("opted in")
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {_GOES_ON}", err=True)
        raise


def _places(options: SubmitOptions) -> list[Path]:
    """The person's outbox, and that of jobs beside it.

    Opting out is for both, and for the latter also if it is only made later.
    """
    from shoal.service.client import default_directory
    from shoal.service.client.outbox import FILE

    own = options.outbox or default_directory()
    jobs = (own / _JOBS / FILE).exists()
    if options.outbox is not None and not (jobs or (own / FILE).exists()):
        raise RefusedError(f"{own} is not an outbox: nothing was sent or changed there")
    both = options.outbox is None and (options.opt_out or options.opt_in)
    return [own, own / _JOBS] if both or jobs else [own]

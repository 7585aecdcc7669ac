"""``shoal survey``: write a question down with its promise, read it, and let parties collect."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from shoal.cli import files
from shoal.cli.app import COLLECT, app, group, printable
from shoal.cli.options import (
    Bounds,
    Excludes,
    OneOf,
    Options,
    RefusedError,
    Required,
    Rule,
    argument,
    choice,
    command,
    number,
    option,
    read_bounds,
    read_number,
    read_whole,
    whole,
)
from shoal.cli.party import OUT, Directory, Json, Store, Suite
from shoal.cli.render import print_json, print_lines, show, working

if TYPE_CHECKING:
    from shoal.planning import Plan
    from shoal.protocols.base import Device
    from shoal.service.running.home import Home
    from shoal.service.survey import Survey
    from shoal.service.survey.design import Design

_ABOUT = "What people are told"
_ASKED = "What is asked: one of"
_PROMISE = "What is promised"
_WHEN = "When"
_WHO = "Who operates it"
_HOW = "How it is answered"
_DAY = 86_400
_UNSHOWN = ("Cc", "Zl", "Zp")  # control characters, separators of lines and paragraphs
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?P<number>\d{1,9})(?P<unit>[smhdw])")

survey = group("Surveys: a question, its promise, and who keeps it.")
app.add_typer(survey, name="survey", rich_help_panel=COLLECT)


class Small(StrEnum):
    """What becomes of a batch that is too small when it is old."""

    CARRY = "carry"
    EXPIRE = "expire"


def read_duration(text: str) -> int:
    """A length of time, in seconds.

    >>> read_duration("7d"), read_duration("90")
    (604800, 90)
    """
    match = _DURATION.fullmatch(str(text).strip())  # defaults come as numbers
    if match is not None:
        return int(match["number"]) * _UNITS[match["unit"]]
    try:
        return read_whole(text)
    except typer.BadParameter:
        message = f"expected a time such as 7d, 12h, 30m or 45s, got {text!r}"
        raise typer.BadParameter(message) from None


def read_moment(text: str) -> int:
    """A date, or a moment, in UTC unless it says otherwise; as seconds since 1970.

    >>> read_moment("2030-01-31"), read_moment("2030-01-31T12:00")
    (1896048000, 1896091200)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        message = f"expected a date such as 2030-01-31 or 2030-01-31T12:00, got {text!r}"
        raise typer.BadParameter(message) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


@dataclass(frozen=True, kw_only=True)
class NewOptions(Options):
    """A question, its promise, when, who, and how it is answered."""

    question: Annotated[str | None, option("Required: what people are asked.", _ABOUT, "TEXT")] = (
        None
    )
    purpose: Annotated[
        str | None, option("Required: what the answers are for.", _ABOUT, "TEXT")
    ] = None
    name: Annotated[str | None, option("A short name; else the question.", _ABOUT, "TEXT")] = None
    categories: Annotated[
        str | None, option("The public list of answers: a,b,c or a file.", _ASKED, "LIST")
    ] = None
    bounds: Annotated[
        Bounds | None, option("A number between bounds.", _ASKED, "LOW,HIGH", read_bounds)
    ] = None
    epsilon: Annotated[
        float | None,
        option(
            "Required: ε of one person over the survey's life.", _PROMISE, "NUMBER", read_number
        ),
    ] = None
    delta: Annotated[float, number("δ.", _PROMISE)] = 1e-6
    minimum: Annotated[
        int | None,
        whole("Required unless --plan is given: no smaller batch is ever released.", _PROMISE),
    ] = None
    reports_per_person: Annotated[int, whole("Reports that one person may send.", _PROMISE)] = 1
    dishonest: Annotated[
        float, number("The fraction of reports that may be from dishonest people.", _PROMISE)
    ] = 0.0
    participation: Annotated[
        float, number("Each device reports with this probability, by a coin.", _PROMISE)
    ] = 1.0
    target: Annotated[
        int | None, whole("A batch is closed at so many; twice --minimum if not given.", _WHEN)
    ] = None
    max_age: Annotated[
        int,
        typer.Option(
            help="Or at this age, with --minimum: 12h, 30m, 45s; 7d if not given.",
            rich_help_panel=_WHEN,
            metavar="TIME",
            parser=read_duration,
            show_default=False,
        ),
    ] = 604_800
    small: Annotated[
        Small, choice("A batch too small at that age waits, or is deleted.", _WHEN, Small)
    ] = Small.CARRY
    starts: Annotated[
        int | None, option("First moment (UTC), 2030-01-31; else now.", _WHEN, "DATE", read_moment)
    ] = None
    days: Annotated[int, whole("For so many days.", _WHEN)] = 30
    shuffler: Annotated[str | None, option("Required: address of the shuffler.", _WHO, "URL")] = (
        None
    )
    shuffler_key: Annotated[
        str | None, option("Required: its fingerprint, or a file with it or its keys.", _WHO, "KEY")
    ] = None
    analyzer: Annotated[str | None, option("Required: address of the analyzer.", _WHO, "URL")] = (
        None
    )
    analyzer_key: Annotated[
        str | None, option("Required: its fingerprint, or a file with it or its keys.", _WHO, "KEY")
    ] = None
    suite: Annotated[Suite, choice("The suite of algorithms.", _WHO, Suite)] = Suite.X25519
    randomizer: Annotated[
        str | None, option("Take this one instead of the best.", _HOW, "NAME")
    ] = None
    plan: Annotated[
        Path | None, option("What shoal plan --save wrote, as it is.", _HOW, "FILE")
    ] = None
    local_epsilon_cap: Annotated[
        float | None, number("The most that ε0 of one report may be.", _HOW)
    ] = None
    messages_cap: Annotated[
        float | None,
        number("Messages one person may send on average; above 1 brings in protocols.", _HOW),
    ] = None
    out: Annotated[Path | None, option("Write the survey to this file (.json).", OUT, "FILE")] = (
        None
    )
    json: Json = False

    rules: ClassVar[tuple[Rule, ...]] = (
        Required("question", "what people are asked"),
        Required("purpose", "what people are told the answers are for"),
        Required("epsilon", "what answering may cost each person"),
        Required("shuffler", "the address of the shuffler"),
        Required("shuffler_key", "the fingerprint that shoal keys show prints at the shuffler"),
        Required("analyzer", "the address of the analyzer"),
        Required("analyzer_key", "the fingerprint that shoal keys show prints at the analyzer"),
        OneOf(("categories", "bounds"), "what is asked"),
        Required("minimum", "the smallest crowd that is ever released", ("plan",)),
        Excludes(
            "plan",
            ("randomizer", "local_epsilon_cap", "messages_cap"),
            "--plan says what devices run",
        ),
    )

    def check(self) -> None:
        """The table of rules; text of one line; and a file that can be written."""
        Options.check(self)
        for name, text in self.only("question", "purpose", "name").items():
            if not text.strip():
                raise RefusedError(f"--{name} is empty: expected text that people can read")
            if any(unicodedata.category(letter) in _UNSHOWN for letter in text):
                raise RefusedError(
                    f"--{name} has a line break or another control character: write one line"
                )
        files.check(out=self.out, never=self.plan)

    def labels(self) -> tuple[str, ...]:
        """The public list of answers."""
        from shoal.cli.files import read_list

        return () if self.categories is None else tuple(read_list(self.categories))

    def design(self, labels: tuple[str, ...]) -> Design:
        """What is wanted of the survey."""
        from shoal.planning.planner import messages_limit
        from shoal.service.survey import Batches
        from shoal.service.survey.design import Design, least_minimum
        from shoal.service.survey.promise import Terms

        device = None if self.plan is None else self._planned(self.plan, len(labels))
        epsilon, minimum = self.epsilon or 0.0, self.minimum or 0
        terms = self.only("delta", "reports_per_person", "dishonest", "participation")
        if device is not None and self.minimum is None:
            minimum = least_minimum(device, epsilon=epsilon, terms=Terms(**terms))
        return Design(
            epsilon=epsilon,
            batches=Batches(
                minimum=minimum,
                target=2 * minimum if self.target is None else self.target,
                max_age=self.max_age,
                small=self.small.value,
            ),
            categories=len(labels) if self.bounds is None else None,
            bounds=self.bounds,
            local_epsilon_cap=self.local_epsilon_cap,
            messages_cap=messages_limit(self.messages_cap, self.randomizer),
            choose=self.randomizer,
            given=device,
            **terms,
        )

    def _planned(self, path: Path, answers: int) -> Device:
        from shoal.planning import Plan

        plan = Plan.load(path)
        question = plan.question
        if (question.categories or 0) != answers or question.bounds != self.bounds:
            raise RefusedError(f"{path} is a plan for another question: {_kind(plan)}")
        return plan.randomizer


def _kind(plan: Plan) -> str:
    question = plan.question
    if question.categories is not None:
        return f"one of {question.categories} answers"
    if question.bounds is not None:
        return f"a number from {question.bounds[0]:g} to {question.bounds[1]:g}"
    return f"a vector of {question.dimension} coordinates"


@command(survey)
def new(options: NewOptions) -> None:
    """Find the randomizer that keeps the promise, say what it costs, and write the survey."""
    with working("designing"):
        from shoal.service.client.policy import Policy
        from shoal.service.clock import system_clock
        from shoal.service.survey import summary
        from shoal.service.survey.design import telling_minimum, tells_nothing
        from shoal.service.survey.files import refuse_overwriting

        labels = options.labels()
        design = options.design(labels)
        made = _made(options, design, labels)
        if options.out is not None:
            refuse_overwriting(options.out, made)
        enough = 0  # for several reports of one person looking for it takes too long
        if made.reports_per_person == 1 and tells_nothing(made.device, made.batches.minimum):
            enough = telling_minimum(design) or 0
        exceeded = tuple(map(str, Policy().exceeded(made)))
        values = summary.to_dict(made, system_clock()) | {"warnings": list(exceeded)}
    if options.out is not None:
        data = made.to_bytes()
        with files.together() as write:
            write(options.out, lambda path: path.write_bytes(data))
    if options.json:
        print_json(values)
        return
    document = summary.document(made, system_clock(), enough=enough)
    show(replace(document, warnings=document.warnings + exceeded))
    if options.out is not None:
        typer.echo(f"written to {printable(str(options.out))}")
        typer.echo("next, each operator registers it: shoal survey add FILE --to DIR")


def _made(options: NewOptions, design: Design, labels: tuple[str, ...]) -> Survey:
    from shoal.service.clock import system_clock
    from shoal.service.survey import Party
    from shoal.service.survey.files import party_fingerprint
    from shoal.service.survey.survey import LONGEST_TEXT

    begins = system_clock() if options.starts is None else options.starts
    question = options.question or ""
    return design.survey(
        name=question[:LONGEST_TEXT] if options.name is None else options.name,
        question=question,
        purpose=options.purpose or "",
        answers=labels,
        not_before=begins,
        not_after=begins + options.days * _DAY,
        suite=options.suite.value,
        shuffler=Party(
            url=(options.shuffler or "").rstrip("/"),
            fingerprint=party_fingerprint("shuffler", options.shuffler_key or ""),
        ),
        analyzer=Party(
            url=(options.analyzer or "").rstrip("/"),
            fingerprint=party_fingerprint("analyzer", options.analyzer_key or ""),
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """Which survey."""

    file: Annotated[Path, argument("A survey.", "FILE")]
    json: Json = False


@command(survey, name="show")
def show_survey(options: ShowOptions) -> None:
    """What a person who answers is promised, in words."""
    with working("reading"):
        from shoal.service.client.policy import Policy
        from shoal.service.clock import system_clock
        from shoal.service.survey import summary
        from shoal.service.survey.files import read_survey

        read = read_survey(options.file)
        exceeded = [str(each) for each in Policy().exceeded(read)]
        values = summary.to_dict(read, system_clock()) | {"warnings": exceeded}
    if options.json:
        print_json(values)
    else:
        show(summary.document(read, system_clock()))


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """Which survey, and the name it must have."""

    file: Annotated[Path, argument("A survey.", "FILE")]
    survey_id: Annotated[str | None, option("The name it must have.", OUT, "HEX", name="--id")] = (
        None
    )
    json: Json = False


@command(survey, name="check")
def check_survey(options: CheckOptions) -> None:
    """Whether a file is a survey that keeps what it promises; its name, which is its hash."""
    with working("checking"):
        from shoal.explain.document import Document
        from shoal.explain.text import plain, up
        from shoal.service.clock import system_clock
        from shoal.service.survey.files import read_survey
        from shoal.service.survey.summary import closed_note

        read = read_survey(options.file, options.survey_id)
        kept = read.guarantee(read.batches.minimum).epsilon
        note = closed_note(read, system_clock())
    if options.json:
        print_json(
            {
                "note": note,
                "id": str(read.id),
                "name": read.name,
                "promised": {"epsilon": read.epsilon, "delta": read.delta},
                "kept": kept,
            }
        )
        return
    promise = f"the promised {plain(read.epsilon)} at δ = {plain(read.delta)}"
    sentence = f"{read.name}: keeps ε = {up(kept)} of {promise}"
    notes = () if note is None else (note,)
    print_lines(Document(str(read.id), sentences=(sentence,), notes=notes))


# ------------------------------------------------------------------------- what parties collect for


def _home(name: str, directory: Path, store: str | None) -> Home:
    from shoal.service.running.extras import need_party

    need_party(f"shoal survey {name}", store)
    from shoal.service.running import registering

    return registering.home_of(directory, store)


@dataclass(frozen=True, kw_only=True)
class AddOptions(Options):
    """Which survey, and who collects for it."""

    file: Annotated[Path, argument("The survey.", "FILE")]
    to: Annotated[Path, option("The directory of the shuffler or the analyzer.", _WHO, "DIR")]
    store: Store = None
    json: Json = False


@command(survey)
def add(options: AddOptions) -> None:
    """Let a shuffler or an analyzer collect for a survey. Both have to be told, each by itself."""
    from shoal.service.running.extras import need_party

    need_party("shoal survey add", options.store)
    from shoal.service.clock import system_clock
    from shoal.service.running import registering
    from shoal.service.survey.files import read_survey
    from shoal.service.survey.summary import closed_note

    read = read_survey(options.file)
    home = registering.home_of(options.to, options.store)
    new = registering.add_survey(read, home)
    if options.json:
        print_json({"survey": str(read.id), "role": home.role, "new": new})
        return
    collects = "collects for" if new else "collected already for"
    typer.echo(f"the {home.role} in {options.to} {collects} survey {read.id}")
    note = closed_note(read, system_clock())
    if note is not None:
        typer.echo(f"note: {note}")
    place = home.directory
    first, starts = {
        "shuffler": (
            f"shoal keys token {place} --survey {str(read.id)[:8]}, for the analyzer",
            f"shoal serve shuffler {place} and shoal serve worker {place}",
        ),
        "analyzer": (
            f"put the token of the shuffler's operator into {place}/token (mode 600)",
            f"shoal serve analyzer {place}",
        ),
    }[home.role]
    typer.echo(f"next: {first}; then {starts}")


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """Whose surveys."""

    directory: Directory
    store: Store = None
    json: Json = False


@command(survey, name="list")
def list_surveys(options: ListOptions) -> None:
    """List the surveys that a shuffler or an analyzer collects for."""
    home = _home("list", options.directory, options.store)
    from shoal.service.running import registering

    registered = registering.surveys_of(home)
    if options.json:
        surveys = [each.to_dict() for each in registered]
        print_json({"role": home.role, "surveys": surveys})
    else:
        print_lines(registering.surveys_document(home, registered))


@dataclass(frozen=True, kw_only=True)
class RemoveOptions(Options):
    """Which survey, and whose."""

    survey: Annotated[str, argument("The survey's name; its first digits will do.", "ID")]
    directory: Annotated[
        Path,
        option("The directory of the shuffler or the analyzer.", _WHO, "DIR", name="--from"),
    ]
    store: Store = None
    json: Json = False


@command(survey)
def remove(options: RemoveOptions) -> None:
    """Withdraw a survey that was added by mistake, as long as nothing was taken for it."""
    home = _home("remove", options.directory, options.store)
    from shoal.explain.text import plural
    from shoal.service.running import registering

    name, revoked = registering.remove_survey(home, options.survey)
    if options.json:
        print_json({"survey": str(name), "role": home.role, "revoked": revoked})
        return
    tokens = f", and {plural(revoked, 'token')} for it ended" if revoked else ""
    typer.echo(f"the {home.role} in {options.directory} collects no more for survey {name}{tokens}")
    typer.echo("note: what runs takes nothing for it from now on, and shows it until restarted")

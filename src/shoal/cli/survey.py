"""``shoal survey``: write a question down with its promise, read it, and let parties collect."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from shoal.cli import files
from shoal.cli.app import COLLECT, Commands, app
from shoal.cli.options import (
    Bounds,
    Excludes,
    Needs,
    OneOf,
    Options,
    Required,
    command,
    option,
    read_int,
)
from shoal.cli.party import X25519, PartyOptions, Suite
from shoal.cli.readers import read_file
from shoal.cli.render import answer, working
from shoal.cli.run import without
from shoal.errors import InvalidArgumentError, RefusedError
from shoal.explain.text import plural
from shoal.service.clock import system_clock

if TYPE_CHECKING:
    from shoal.mechanisms.base import Device
    from shoal.questions.domains import Domain
    from shoal.questions.kinds import Question
    from shoal.service.admission import Admission
    from shoal.service.survey.design import Design

_ABOUT = "What people are told"
_KIND = "What people answer: one of"
_BY = "By groups"
_PROMISE = "What is promised"
_ADMISSION = "Who may report"
_WHEN = "When"
_WHO = "Who operates it"
_HOW = "How it is answered"
_WITHOUT_ADMISSION = (
    "anybody may report, so say how many people may be dishonest (0 if you trust "
    "everybody), or invite people with --entitled"
)
_OF_QUESTION = ("question", "categories", "bounds", "randomizer", "groups", "by")
_PARTY = "The directory of the shuffler or the analyzer."
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?P<number>\d{1,9})(?P<unit>[smhdw])")

survey = typer.Typer(cls=Commands, help="Surveys: a question, its promise, and who keeps it.")
app.add_typer(survey, name="survey", rich_help_panel=COLLECT)


Kind = Literal["open", "invited"]
Small = Literal["carry", "expire"]  # what becomes of a batch that is too small when it is old


def read_duration(text: str) -> int:
    """A length of time, in seconds.

    >>> read_duration("7d"), read_duration("90")
    (604800, 90)
    """
    match = _DURATION.fullmatch(str(text).strip())  # defaults come as numbers
    if match is not None:
        return int(match["number"]) * _UNITS[match["unit"]]
    try:
        return int(read_int(text))
    except typer.BadParameter:
        message = f"expected a time such as 7d, 12h, 30m or 45s, got {text!r}"
        raise typer.BadParameter(message) from None


def read_people(text: str) -> int:
    """A number of people; a fraction of them is refused.

    >>> read_people("30")
    30
    """
    if "." in text or "%" in text:
        message = f"expected a number of people such as 0 or 25, not a fraction, got {text!r}"
        raise typer.BadParameter(message)
    return int(read_int(text))


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


class NewOptions(Options):
    """A question, its promise, when, who, and how it is answered."""

    question: str | None = option(
        "Required: the question that people see, unless --questions is given.",
        _ABOUT,
        "TEXT",
        keyword="text",
    )
    purpose: str = option("Required: what the answers are for.", _ABOUT, "TEXT")
    name: str | None = option(
        "A short name; default: the question. Required with --questions.", _ABOUT, "TEXT"
    )
    categories: str | None = option(
        "The public list of answers: a,b,c or a file.", _KIND, "LIST", keyword="labels"
    )
    bounds: Bounds | None = option("A number between bounds.", _KIND)
    questions: Path | None = option(
        "Questions, one or several: a file of them (.json), as for shoal run. Of kind choice or "
        "number, each with a text.",
        _KIND,
    )
    groups: str | None = option(
        "Count answers by groups: the public list of groups, a,b,c or a file.", _BY, "LIST"
    )
    by: str | None = option("The question about the group, such as 'Your region'.", _BY, "TEXT")
    epsilon: float = option("Required: ε of one person over the survey's life.", _PROMISE)
    delta: float = option("δ.", _PROMISE, default=1e-6)
    minimum: int | None = option(
        "Required, unless --plan is given: the smallest batch that is ever released.", _PROMISE
    )
    reports_per_person: int = option(
        "Number of reports that one person may send.", _PROMISE, default=1
    )
    admission: Kind | None = option(
        "Who may report: anybody (open) or invited people (invited); default: invited with "
        "--entitled, else open.",
        _ADMISSION,
    )
    entitled: int | None = option("Number of people who are invited.", _ADMISSION)
    dishonest: int | None = option(
        "Number of people who may break the protocol; required, unless people are invited.",
        _ADMISSION,
        "PEOPLE",
        parser=read_people,
    )
    participation: float = option(
        "Probability that a device takes part, by its own coin.", _PROMISE, default=1.0
    )
    target: int | None = option(
        "A batch closes at this many reports; default: twice --minimum, or everybody.", _WHEN
    )
    max_age: int = option(
        "A batch also closes at this age, if it has --minimum reports: 12h, 30m, 45s; default: 7d.",
        _WHEN,
        "TIME",
        parser=read_duration,
        show_default=False,
        default=604_800,
    )
    small: Small = option(
        "A batch that is too small at that age waits (carry) or is deleted.", _WHEN, default="carry"
    )
    starts: int | None = option(
        "First day or moment (UTC), such as 2030-01-31; default: now.",
        _WHEN,
        "DATE",
        parser=read_moment,
    )
    days: int = option("Number of days that it is open.", _WHEN, default=30)
    shuffler: str = option("Required: address of the shuffler.", _WHO, "URL")
    shuffler_key: str = option(
        "Required: its fingerprint, or a file with the fingerprint or its keys.", _WHO, "KEY"
    )
    analyzer: str = option("Required: address of the analyzer.", _WHO, "URL")
    analyzer_key: str = option(
        "Required: its fingerprint, or a file with the fingerprint or its keys.", _WHO, "KEY"
    )
    suite: Suite = option("Suite of algorithms that seals reports.", _WHO, default=X25519)
    randomizer: str | None = option(
        "Use this randomizer instead of the best.", _HOW, "NAME", keyword="choose"
    )
    plan: Path | None = option("A plan from shoal plan --save, used as it is.", _HOW)
    local_epsilon_cap: float | None = option(
        "Largest ε0 that one report may have.", _HOW, keyword="local_epsilon"
    )
    messages_cap: float | None = option(
        "Messages that one person may send on average; default: 1, or any number with "
        "--randomizer. More than 1 offers protocols whose error is near a curator's and which "
        "have no local ε0.",
        _HOW,
        keyword="messages",
    )
    out: Path | None = option("Write the survey to this file (.json).")

    rules = (
        Required("question", "the question that people see", ("questions",)),
        Required("name", "the name of the survey", when=("questions",)),
        Required("purpose", "what the answers are for"),
        Required("epsilon", "what answering may cost each person"),
        Required("shuffler", "the address of the shuffler"),
        Required("shuffler_key", "the fingerprint that shoal keys show prints at the shuffler"),
        Required("analyzer", "the address of the analyzer"),
        Required("analyzer_key", "the fingerprint that shoal keys show prints at the analyzer"),
        OneOf(("categories", "bounds", "questions"), "what people answer"),
        Excludes(
            "questions",
            ("question", "plan", "randomizer", "groups", "by"),
            "the file of --questions has the questions and their randomizers",
        ),
        Needs("groups", ("categories",), "the answers to count by groups"),
        Required("by", "the question about the group", when=("groups",)),
        Needs("by", ("groups",), "the public list of groups"),
        Required("entitled", "the number of people who are invited", when=("admission=invited",)),
        Excludes("admission=open", ("entitled",), "anybody may answer an open survey"),
        Required("dishonest", _WITHOUT_ADMISSION, unless=("entitled",)),
        Required("minimum", "the smallest batch that is ever released", ("plan",)),
        Excludes(
            "plan",
            ("randomizer", "local_epsilon_cap", "messages_cap"),
            "--plan says what devices run",
        ),
    )

    def standing(self) -> dict[str, str]:
        """Of questions in a file no option is."""
        standing = super().standing()
        return standing if self.questions is None else without(standing, *_OF_QUESTION)

    def check(self) -> None:
        """A file that can be written."""
        files.check(out=self.out, never=self.plan or self.questions)

    def asked(self) -> tuple[Question, ...]:
        """The questions of the file, or the one that the options say."""
        from shoal.questions.kinds import Choice, Groups, Number
        from shoal.service.survey.design import form
        from shoal.service.survey.older import ANSWER, GROUP

        if self.questions is not None:
            asked = read_file(self.questions)
            try:
                form(asked)
            except InvalidArgumentError as error:
                of = "of" if len(asked) > 1 else "in question 1 of"
                expected = f"{error.expected} {of} {self.questions}"
                name = "choose" if error.name == "randomizer" else error.name
                wrong = InvalidArgumentError(name, error.value, expected)
                raise RefusedError(str(wrong)) from error
            return asked
        about: dict[str, Any] = {"text": self.question or "", "choose": self.randomizer}
        if self.bounds is not None:
            return (Number(ANSWER, *self.bounds, **about),)
        if self.groups is not None:
            groups = files.read_list(self.groups, "groups")
            about["groups"] = Groups(GROUP, groups, text=self.by or "")
        return (Choice(ANSWER, files.read_list(self.categories or ""), **about),)

    def design(self) -> Design:
        """What is wanted of the survey."""
        from shoal.questions.terms import Limits
        from shoal.service.survey import Batches
        from shoal.service.survey.design import Design, form, least_minimum
        from shoal.service.survey.promise import Terms

        asked = self.asked()
        device = None if self.plan is None else self._planned(self.plan, form(asked)[0].domain)
        minimum = self.minimum or 0
        terms = self.only("delta", "reports_per_person", "participation")
        terms["admission"] = admission = self.who_may_report()
        if device is not None and self.minimum is None:
            minimum = least_minimum(device, epsilon=self.epsilon, terms=Terms(**terms))
        usual = Batches.of(minimum, admission, self.reports_per_person)
        return Design(
            questions=asked,
            batches=replace(usual, **self.only("target", "max_age", "small")),
            epsilon=self.epsilon,
            limits=Limits(**self.only("local_epsilon_cap", "messages_cap")),
            given=device,
            **terms,
        )

    def who_may_report(self) -> Admission:
        """Anybody, or so many people invited."""
        from shoal.service.admission import Invited, Open

        if self.entitled is not None:
            return Invited(entitled=self.entitled, dishonest=self.dishonest or 0)
        return Open(dishonest=self.dishonest or 0)

    def _planned(self, path: Path, domain: Domain) -> Device:
        from shoal.planning import Plan

        plan = Plan.load(path)
        planned = plan.only.ranking.setting
        if planned.domain != domain:
            raise RefusedError(f"{path} is a plan for another kind of question: {planned}")
        return plan.randomizer


@command(survey)
def new(options: NewOptions) -> None:
    """Find the randomizer that keeps the promise, show its error, and write the survey."""
    with working("designing"):
        from shoal.service.client.policy import Policy
        from shoal.service.survey import Party, summary
        from shoal.service.survey.browser import refusals
        from shoal.service.survey.design import (
            epsilon_in_browsers,
            telling_minimum,
            tells_nothing,
        )
        from shoal.service.survey.document import party_fingerprint, refuse_overwriting

        design = options.design()
        begins = system_clock() if options.starts is None else options.starts
        shuffler = party_fingerprint("shuffler", options.shuffler_key)
        analyzer = party_fingerprint("analyzer", options.analyzer_key)
        made = design.survey(
            name=options.name or options.question or "",
            purpose=options.purpose,
            not_before=begins,
            not_after=begins + options.days * _UNITS["d"],
            suite=options.suite,
            shuffler=Party(url=options.shuffler.rstrip("/"), fingerprint=shuffler),
            analyzer=Party(url=options.analyzer.rstrip("/"), fingerprint=analyzer),
        )
        if options.out is not None:
            refuse_overwriting(options.out, made)
        enough = 0  # for several reports of one person looking for it takes too long
        if made.reports_per_person == 1 and tells_nothing(made.devices, made.batches.minimum):
            enough = telling_minimum(design) or 0
        limits = Policy()
        exceeded = (
            *map(str, limits.exceeded(made)),
            *refusals(
                made,
                allowed=limits.epsilon,
                instead=lambda: epsilon_in_browsers(design, allowed=limits.epsilon),
            ),
        )
        values = summary.to_dict(made, system_clock()) | {"warnings": list(exceeded)}
    files.write((options.out, lambda path: path.write_bytes(made.to_bytes())))
    document = summary.document(made, system_clock(), enough=enough)
    written = (
        f"written to {options.out}",
        "next, each operator registers it: shoal survey add FILE --to DIR",
    )
    document = replace(document, warnings=document.warnings + exceeded)
    answer(options, values, document, *(written if options.out is not None else ()))


class ShowOptions(Options):
    """Which survey."""

    file: Path = option("A survey.", name="FILE")


@command(survey, name="show")
def show_survey(options: ShowOptions) -> None:
    """What a person who answers is promised, in words."""
    with working("reading"):
        from shoal.service.client.policy import Policy
        from shoal.service.survey import summary
        from shoal.service.survey.browser import refusals
        from shoal.service.survey.document import read_survey

        read, now, limits = read_survey(options.file), system_clock(), Policy()
        exceeded = [str(each) for each in limits.exceeded(read)]
        exceeded += refusals(read, allowed=limits.epsilon)
        values = summary.to_dict(read, now) | {"warnings": exceeded}
    answer(options, values, summary.in_words(read, now))


class CheckOptions(ShowOptions):
    """Which survey, and the id it must have."""

    survey_id: str | None = option("The id that it must have.", metavar="HEX", name="--id")


@command(survey, name="check")
def check_survey(options: CheckOptions) -> None:
    """Check that a file is a survey and keeps its promise; print its id, which is its hash."""
    with working("checking"):
        from shoal.service.survey import summary
        from shoal.service.survey.document import read_survey

        read = read_survey(options.file, options.survey_id)
        values, document = summary.checked(read, system_clock())
    answer(options, values, str(document))


# ------------------------------------------------------------------------- what parties collect for


class AddOptions(PartyOptions):
    """Which survey, and who collects for it."""

    file: Path = option("The survey.", name="FILE")
    directory: Path = option(_PARTY, _WHO, "DIR", name="--to", default=...)


@command(survey, server="shoal survey add")
def add(options: AddOptions) -> None:
    """Register a survey with a shuffler or an analyzer. Both need it: run this for each."""
    from shoal.service.ops import administration
    from shoal.service.ops.home import home_of
    from shoal.service.survey.document import read_survey
    from shoal.service.survey.summary import closed_note

    home, read = home_of(options.directory, options.store), read_survey(options.file)
    new = administration.add_survey(read, home)
    collects = "collects for" if new else "already collected for"
    note = closed_note(read, system_clock())
    answer(
        options,
        {"survey": str(read.id), "role": home.role, "new": new},
        f"the {home.role} in {options.directory} {collects} survey {read.id}",
        "" if note is None else f"note: {note}",
        f"next: {administration.next_steps(home, read)}",
    )


@command(survey, name="list", server="shoal survey list")
def list_surveys(options: PartyOptions) -> None:
    """List the surveys that a shuffler or an analyzer collects for."""
    with options.opened() as (home, store):
        from shoal.service.ops.administration import registered, surveys_document

        surveys = registered(store)
    values = {"role": home.role, "surveys": surveys}
    answer(options, values, str(surveys_document(home, surveys)))


class RemoveOptions(PartyOptions):
    """Which survey, and whose."""

    survey: str = option("The survey's id; its first digits are enough.", name="ID")
    directory: Path = option(_PARTY, _WHO, "DIR", name="--from", default=...)


@command(survey, server="shoal survey remove")
def remove(options: RemoveOptions) -> None:
    """Remove a survey that was added by mistake, as long as it has no reports."""
    with options.opened() as (home, store):
        from shoal.service.ops.administration import remove_survey

        name, revoked = remove_survey(store, options.survey)
    tokens = f", and {plural(revoked, 'token')} for it ended" if revoked else ""
    answer(
        options,
        {"survey": str(name), "role": home.role, "revoked": revoked},
        f"the {home.role} in {options.directory} collects no more for survey {name}{tokens}",
        "note: running services accept nothing for it from now on, and show it until they restart",
    )


class DeleteOptions(RemoveOptions):
    """Which survey, whose data, and whether somebody is asked before."""

    yes: bool = option("Delete without asking.", _WHO)


@command(survey, name="delete-data", server="shoal survey delete-data")
def delete_survey_data(options: DeleteOptions) -> None:
    """Delete everything that a party has of a survey that is over. Each party deletes its own.

    Results, and batches that were never collected, are deleted too; this cannot be undone.
    """
    with options.opened() as (home, store):
        from shoal.service.ops.administration import delete_data, survey_name

        name = survey_name(store, options.survey)
        whose = f"the {home.role} in {options.directory}"
        if not options.yes:
            if not sys.stdin.isatty():
                raise RefusedError(
                    "deleting cannot be undone: give --yes, or confirm it at a terminal"
                )
            typer.confirm(
                f"Delete everything that {whose} has of survey {name}?", abort=True, err=True
            )
        deleted = delete_data(store, name)
    counts = ", ".join(f"{kind} {count:,}" for kind, count in deleted.counts.items())
    answer(
        options,
        {"survey": str(name), "role": home.role, **deleted.to_dict()},
        f"{whose} deleted everything it had of survey {name} ({counts})",
        *(f"left: {each}" for each in deleted.left),
    )

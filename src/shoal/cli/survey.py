"""``shoal survey``: write down a question with its promise, and read what was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from shoal.cli import files, options
from shoal.cli.options import Bounds, choice, flag, number, option, whole
from shoal.cli.render import print_json, working
from shoal.cli.survey_asked import Small, Suite, SurveyAsked, moment, seconds

_ABOUT = "What people are told"
_ASKED = "What is asked: one of"
_PROMISE = "What is promised"
_WHEN = "When"
_WHO = "Who operates it"
_HOW = "How it is answered"
_OUT = "What to make of it"


def _needed(
    text: str, panel: str, metavar: str, parser: Callable[[str], float] | None = None
) -> OptionInfo:
    """An option without a default; what it is for is said again when it is missing."""
    return option(f"Required: {text}", panel, metavar, parser)


survey = typer.Typer(help="Surveys: a question, its promise, and who keeps it.")


@survey.callback()
def _survey() -> None:
    """Surveys: a question, its promise, and who keeps it."""


@survey.command()
def new(
    *,
    question: Annotated[str | None, _needed("what people are asked.", _ABOUT, "TEXT")] = None,
    purpose: Annotated[str | None, _needed("what the answers are for.", _ABOUT, "TEXT")] = None,
    name: Annotated[str | None, option("A short name; else the question.", _ABOUT, "TEXT")] = None,
    categories: Annotated[
        str | None, option("The public list of answers: a,b,c or a file.", _ASKED, "LIST")
    ] = None,
    bounds: Annotated[
        Bounds | None, option("A number between bounds.", _ASKED, "LOW,HIGH", options.read_bounds)
    ] = None,
    epsilon: Annotated[
        float | None,
        _needed("ε of one person over the survey's life.", _PROMISE, "NUMBER", options.read_number),
    ] = None,
    delta: Annotated[float, number("δ.", _PROMISE)] = 1e-6,
    minimum: Annotated[
        int | None,
        whole("Required unless --plan is given: no smaller batch is ever released.", _PROMISE),
    ] = None,
    reports_per_person: Annotated[int, whole("Reports that one person may send.", _PROMISE)] = 1,
    dishonest: Annotated[
        float, number("The share of reports that may be from dishonest people.", _PROMISE)
    ] = 0.0,
    participation: Annotated[
        float, number("Each device reports with this probability, by a coin.", _PROMISE)
    ] = 1.0,
    target: Annotated[
        int | None, whole("A batch is closed at so many; twice --minimum if not given.", _WHEN)
    ] = None,
    max_age: Annotated[
        int,
        typer.Option(
            help="Or at this age, with --minimum: 12h, 30m, 45s; 7d if not given.",
            rich_help_panel=_WHEN,
            metavar="TIME",
            parser=seconds,
            show_default=False,
        ),
    ] = 604_800,
    small: Annotated[
        Small, choice("A batch too small at that age waits, or is deleted.", _WHEN, Small)
    ] = Small.CARRY,
    starts: Annotated[
        int | None, option("First moment (UTC), 2030-01-31; else now.", _WHEN, "DATE", moment)
    ] = None,
    days: Annotated[int, whole("For so many days.", _WHEN)] = 30,
    shuffler: Annotated[str | None, _needed("address of the shuffler.", _WHO, "URL")] = None,
    shuffler_key: Annotated[
        str | None, _needed("its fingerprint, or a file with it or its keys.", _WHO, "KEY")
    ] = None,
    analyzer: Annotated[str | None, _needed("address of the analyzer.", _WHO, "URL")] = None,
    analyzer_key: Annotated[
        str | None, _needed("its fingerprint, or a file with it or its keys.", _WHO, "KEY")
    ] = None,
    suite: Annotated[Suite, choice("The suite of algorithms.", _WHO, Suite)] = Suite.X25519,
    randomizer: Annotated[
        str | None, option("Take this one instead of the best.", _HOW, "NAME")
    ] = None,
    plan: Annotated[
        Path | None, option("What shoal plan --save wrote, as it is.", _HOW, "FILE")
    ] = None,
    local_epsilon_cap: Annotated[
        float | None, number("The most that ε0 of one report may be.", _HOW)
    ] = None,
    messages_cap: Annotated[
        float | None,
        number("Messages one person may send on average; above 1 brings in protocols.", _HOW),
    ] = None,
    out: Annotated[
        Path | None, option("Write the survey to this file (.json).", _OUT, "FILE")
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Find the randomizer that keeps the promise, say what it costs, and write the survey."""
    asked = SurveyAsked(
        question=question,
        purpose=purpose,
        name=name,
        categories=categories,
        bounds=bounds,
        epsilon=epsilon,
        delta=delta,
        minimum=minimum,
        reports_per_person=reports_per_person,
        dishonest=dishonest,
        participation=participation,
        target=target,
        max_age=max_age,
        small=small,
        starts=starts,
        days=days,
        shuffler=shuffler,
        shuffler_key=shuffler_key,
        analyzer=analyzer,
        analyzer_key=analyzer_key,
        suite=suite,
        randomizer=randomizer,
        plan=plan,
        local_epsilon_cap=local_epsilon_cap,
        messages_cap=messages_cap,
    )
    asked.check()
    files.check(out=out, never=plan)
    with working("designing"):
        from shoal.cli import survey_answer, survey_show
        from shoal.service.clock import system_clock

        made = survey_answer.answer(asked)
        survey_answer.check_place(out, made)
        enough = survey_answer.enough(asked, made)
        values = survey_show.to_dict(made, system_clock())
    if out is not None:
        data = made.to_bytes()
        with files.together() as write:
            write(out, lambda path: path.write_bytes(data))
    if as_json:
        print_json(values)
    else:
        survey_show.show_new(made, system_clock(), written=out, enough=enough)


@survey.command()
def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A survey.", show_default=False)],
    *,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """What a person who answers is promised, in words."""
    with working("reading"):
        from shoal.cli import survey_answer, survey_show
        from shoal.service.clock import system_clock

        found = survey_answer.read(file)
        values = survey_show.to_dict(found, system_clock())
    if as_json:
        print_json(values)
    else:
        survey_show.show(found, note=survey_show.about_time(found, system_clock()))


@survey.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A survey.", show_default=False)],
    *,
    survey_id: Annotated[
        str | None,
        typer.Option("--id", help="The name it must have.", metavar="HEX", rich_help_panel=_OUT),
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Whether a file is a survey that keeps what it promises; its name, which is its hash."""
    with working("checking"):
        from shoal.cli import survey_answer, survey_show
        from shoal.service.clock import system_clock

        found = survey_answer.read(file, survey_id)
    if as_json:
        print_json(survey_show.checked(found, system_clock()))
    else:
        survey_show.show_checked(found, system_clock())

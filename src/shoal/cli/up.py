"""``shoal up``: a whole collection on this machine, to try it out."""

from __future__ import annotations

import shlex
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal import checks
from shoal.cli.app import COLLECT, app, printable
from shoal.cli.options import Needs, Options, command, option
from shoal.cli.render import chart, console, print_json, show, table, working
from shoal.errors import RefusedError
from shoal.explain.document import Row, Table
from shoal.explain.text import plain
from shoal.explain.text import up as rounded_up

if TYPE_CHECKING:
    from shoal.service.analyzer.results import SurveyResults
    from shoal.service.ops.up import Job, Local

_WHAT = "The survey"
_WHO = "Who answers"
_QUESTION = "How often did you feel lonely last week?"
_ANSWERS = "never, rarely, sometimes, often, all the time"
_PEOPLE = 1000  # of a batch, if nobody is simulated
_FEWEST = 10
_HIGHEST = 65_534
_LOOK_EVERY = 2.0
_PROMISED = ("epsilon", "delta", "randomizer")
_INVENTED = "the people and their answers are invented; what they sent, and how, is real"
_NOT_APART = (
    "one machine has both parties and unprotected keys: against anybody who reads the "
    "directory only the local ε0 holds"
)


class UpOptions(Options):
    """What is asked, who answers, and when it stops."""

    directory: Path = option(
        "Its directory; an existing one is continued.", name="DIR", default=Path("shoal-up")
    )
    simulate: int | None = option("Let this many invented people answer.", _WHO, keyword="people")
    question: str | None = option("The question of a new survey.", _WHAT, "TEXT")
    categories: str | None = option("Its answers: A,B,…", _WHAT, "A,B,…", keyword="answers")
    epsilon: float | None = option("The ε that it promises to everybody; default: 1.", _WHAT)
    delta: float | None = option("The δ that goes with it; default: 1e-6.", _WHAT)
    randomizer: str | None = option("Use this randomizer instead of the best.", _WHAT, "NAME")
    port: int | None = option(
        "The shuffler's port, and the next one for the analyzer; default: any free ones."
    )
    once: bool = option("Stop when the result is published.")
    json: bool = option("Print JSON; with --once.")

    rules = (
        Needs("json", ("once",), "then there is one result to print"),
        Needs("once", ("simulate",), "the people whose result it waits for"),
        Needs("categories", ("question",), "the question that these answer"),
        Needs("question", ("categories",), "its answers, A,B,…"),
    )

    def check(self) -> None:
        """Numbers."""
        if self.simulate is not None:
            checks.count(_FEWEST, simulate=self.simulate)
        if self.port is not None and not 0 <= self.port <= _HIGHEST:
            raise RefusedError(
                f"expected --port from 1 to {_HIGHEST} (the analyzer's is the next), or 0 for any, "
                f"got {self.port}"
            )


@command(app, COLLECT, server="shoal up")
def up(options: UpOptions) -> None:
    """Run a shuffler, worker and analyzer here, with keys, a survey and invented people.

    Ctrl-C stops it; the same command continues with the same keys, survey and results. Keys are
    not protected, and one person has both parties: for trying out, not for real answers.
    """
    began = time.monotonic()
    from shoal.service.ops import up as local
    from shoal.service.ops.processes import handling
    from shoal.service.ops.up import Embedded

    if Embedded(directory=options.directory).ports() is not None:
        for name in options.only("question", *_PROMISED, "port"):
            raise RefusedError(
                f"{options.directory} has a survey already, and --{name} cannot change it: "
                f"leave out --{name}, or choose another directory"
            )
    staying = False
    design = partial(  # the survey of a new directory
        local.trial_survey,
        question=options.question or _QUESTION,
        answers=tuple(each.strip() for each in (options.categories or _ANSWERS).split(",")),
        people=options.simulate or _PEOPLE,
        **options.only(*_PROMISED),
    )
    try:
        with (
            handling(signal.default_int_handler),  # SIGTERM is as good as Ctrl-C
            local.running(options.directory, design, port=options.port) as services,
        ):
            target = services.survey.batches.target
            if options.once and (options.simulate or target) < target:  # no result would come
                raise RefusedError(
                    f"the survey in {options.directory} closes a batch at {target:,} "
                    f"reports: give --simulate {target} or more, or leave out --once"
                )
            if not options.json:
                _introduce(services)
            with working("starting"):
                services.wait_until_ready()
            shown = _simulated(options, services, began)
            if options.once:
                return
            invite(services)
            staying = True
            _stay(services, shown)
    except KeyboardInterrupt:
        if not options.json:
            again = shlex.quote(str(options.directory))
            console().print(f"Stopped. Continue with: shoal up {again}")
        if not staying:
            raise


def _simulated(options: UpOptions, services: Local, began: float) -> int:
    """Let people answer, those first who were interrupted; how many results were shown.

    The same command again goes on with the crowd that was interrupted, and makes no second one.
    """
    from shoal.service.ops.up import invented

    survey, analyzer = services.survey, services.survey.analyzer.url
    known = len(services.results().batches)
    job = services.job()
    if not job.finished:
        _send(services, job)
    if options.simulate is None:
        return known
    if job.finished or job.people != options.simulate:
        job = services.begin(options.simulate, before=known)
        _send(services, job)
    if job.people < survey.batches.target:
        typer.echo(f"{job.people:,} people sent a report; the batch closes when it is full.")
        return known
    with working("publishing"):
        services.wait_for_more(job.before)
    answers = invented(survey, job.people)
    truth = {each: answers.count(each) / job.people for each in survey.answers}
    seconds = time.monotonic() - began
    results = services.results()
    if options.json:
        print_json(
            {
                "directory": str(options.directory),
                "shuffler": survey.shuffler.url,
                "analyzer": analyzer,
                "page": f"{analyzer}/answer/{survey.id}",
                "dashboard": f"{analyzer}/dashboard",
                "invented": truth,
                "seconds": seconds,
                "results": results.to_dict(),
                "notes": [_INVENTED, _NOT_APART, *missing_scripts()],
            }
        )
    else:
        _show(results, truth, seconds)
    return len(results.batches)


def _send(services: Local, job: Job) -> None:
    with working(f"{job.people:,} invented people randomize, seal and send") as progress:
        services.send(job, progress)


def _stay(services: Local, shown: int) -> None:
    """Keep everything running, and show what is published meanwhile."""
    while True:
        time.sleep(_LOOK_EVERY)
        services.children.check()
        results = services.results()
        if len(results.batches) > shown:
            shown = len(results.batches)
            _show(results, None, None)


def missing_scripts() -> list[str]:
    """A warning if the pages lack their scripts."""
    from shoal.web import assets

    without = (
        f"nobody can answer in a browser, because the pages' scripts are missing: {assets.BUILD}"
    )
    return [without] if assets.unbuilt() else []


def _introduce(services: Local) -> None:
    """Say what is started, where, and what it does not protect."""
    page, survey = console(), services.survey
    made = f"{'Made' if services.new else 'Continues'} {services.embedded.directory}"
    page.print(f"{made}: keys of a shuffler and an analyzer, and a survey.", soft_wrap=True)
    page.print(f"note: {_NOT_APART}", style="yellow")
    for warning in missing_scripts():
        page.print(f"warning: {warning}", style="yellow")
    page.print()
    page.print(f"  {printable(survey.question)}", style="bold")
    page.print(f"  {printable(', '.join(survey.answers))}")
    promise = f"ε of at most {plain(survey.epsilon)} at δ = {plain(survey.delta)}"
    facts = (
        ("  survey", str(survey.id)),
        ("  promise", f"{promise} in a batch of at least {survey.batches.minimum:,}"),
        ("  alone", f"local ε0 = {rounded_up(survey.device.local_epsilon)} (no trust needed)"),
        ("  closes", f"at {survey.batches.target:,} reports, or after a day with enough"),
        ("  shuffler", survey.shuffler.url),
        ("  analyzer", survey.analyzer.url),
        ("  dashboard", f"{survey.analyzer.url}/dashboard"),
        *((f"  {name}'s metrics", f"{at}/metrics") for name, at in services.metrics.items()),
    )
    for name, value in facts:  # names and addresses, to be copied: nothing is cut or wrapped
        typer.echo(printable(f"{name:<20}  {value}"))
    page.print()


def invite(services: Local) -> None:
    """Say what to type next."""
    from shoal.service.client import Policy

    survey, analyzer = services.survey, services.survey.analyzer.url
    file = shlex.quote(str(services.embedded.directory / "survey.json"))
    name = shlex.quote(str(services.embedded.directory))
    allowing = "".join(f" {each.option}" for each in Policy().exceeded(survey))
    spare = services.spare_invitations()
    invitation = f" --invitation {spare[0]}" if spare else ""
    page = f"{analyzer}/answer/{survey.id}{f'#{spare[0]}' if spare else ''}"
    lines = (
        "It runs until Ctrl-C. In another terminal:",
        "",
        f"  shoal submit {file} {shlex.quote(survey.answers[0])}{invitation}{allowing}",
        f"  shoal up {name} --simulate {survey.batches.target}    (after Ctrl-C)",
        f"  shoal doctor {name}",
        f"  curl {analyzer}/v1/surveys/{survey.id}/results",
        "",
        "In a browser:",
        "",
        f"  {page}    the page where people answer",
        f"  {analyzer}/dashboard    the results",
        f"  {services.embedded.directory}/dashboard: the link that shows its operator more",
        *[f"  {services.embedded.directory}/invitations: of {len(spare)} people"] * bool(spare),
        "",
    )
    for line in lines:
        typer.echo(printable(line))


def _show(results: SurveyResults, truth: dict[str, float] | None, seconds: float | None) -> None:
    """Print the chart, how many reports came how far, and what it costs."""
    import numpy as np

    rows = []
    for batch in results.batches:
        counts = (f"{count:,}" for count in (batch.reports, batch.valid, batch.honest))
        epsilon = "–" if batch.epsilon is None else rounded_up(batch.epsilon)
        rows.append(Row((batch.batch[:8], *counts, epsilon, batch.withheld or "")))
    headings = ("batch", "reports", "valid", "honest", "ε", "")
    funnel = table(Table(headings, tuple(rows), frozenset(range(1, 5))))
    page, result = console(), results.result
    if result is None:
        page.print("nothing was published", style="yellow")
        page.print(funnel)
        return
    (shown,) = result.columns
    if truth is not None:
        shown = replace(shown, truth=np.array([truth[label] for label in shown.labels]))
    for part in chart(shown):
        page.print(part)
    page.print()
    page.print(funnel)
    page.print()
    notes = (*result.notes, *[_INVENTED] * (truth is not None))
    guarantee = result.guarantee
    show(replace(guarantee.document(), notes=notes, warnings=guarantee.warnings))
    if seconds is not None:
        page.print(f"published {seconds:.1f} s after the start", style="dim")

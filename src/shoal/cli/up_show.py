"""``shoal up`` as people and programs read it: addresses, what to type next, and the result."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.table import Table

from shoal.cli.app import printable
from shoal.cli.render import console, panel
from shoal.cli.run import chart
from shoal.cli.survey_allowed import answering
from shoal.explain.text import plain, up
from shoal.service.analyzer.documents import Document
from shoal.service.analyzer.results import SurveyResults
from shoal.service.running.local import Local
from shoal.web import assets

INVENTED = "the people and their answers are invented; what they sent, and how, is real"
NOT_APART = (
    "one machine has both parties and unprotected keys: whoever reads the directory is left with "
    "the local epsilon alone"
)


def introduce(services: Local, *, new: bool) -> None:
    """Say what is started, where, and what it does not protect."""
    page = console()
    survey = services.survey
    made = "Made" if new else "Goes on with"
    page.print(f"{made} {services.directory}: keys of a shuffler and an analyzer, and a survey.")
    page.print(f"note: {NOT_APART}", style="yellow")
    for warning in without_scripts():
        page.print(f"warning: {warning}", style="yellow")
    page.print()
    page.print(f"  {printable(survey.question)}", style="bold")
    page.print(f"  {printable(', '.join(survey.answers))}")
    page.print()
    facts = list(_facts(services))
    wide = max(len(label) for label, _ in facts)
    for label, text in facts:  # names and addresses are to be copied: nothing is cut or wrapped
        page.print(f"  {label:<{wide}}  {text}", soft_wrap=True)
    page.print()


def without_scripts() -> Iterator[str]:
    """What is to be said if the pages lack their scripts."""
    if assets.unbuilt():
        yield f"nobody can answer in a browser, the pages' scripts are missing: {assets.BUILD}"


def _facts(services: Local) -> Iterator[tuple[str, str]]:
    survey, where = services.survey, services.addresses
    yield "survey", str(survey.id)
    least = f"in a batch of at least {survey.batches.minimum:,}"
    yield "promise", f"ε of at most {plain(survey.epsilon)} at δ = {plain(survey.delta)} {least}"
    yield "alone", f"ε0 = {up(survey.device.local_epsilon)}, whoever colludes"
    yield "closes", f"at {survey.batches.target:,} reports, or after a day with enough"
    yield "shuffler", where.shuffler
    yield "analyzer", where.analyzer
    yield "dashboard", where.dashboard
    for name, place in where.metrics.items():
        yield f"{name}'s metrics", f"{place}/metrics"


def invite(services: Local) -> None:
    """Say what to type next."""
    page = console()
    directory, survey = services.directory, services.survey
    file = shlex.quote(str(directory / "survey.json"))
    name = shlex.quote(str(directory))
    results = f"{services.addresses.analyzer}/v1/surveys/{survey.id}/results"
    page.print("It runs until Ctrl-C. In another terminal:")
    page.print()
    allowing = answering(survey)
    page.print(f"  shoal submit {file} {shlex.quote(survey.answers[0])}{allowing}", soft_wrap=True)
    page.print(f"  shoal up {name} --simulate {survey.batches.target}    (after Ctrl-C)")
    page.print(f"  shoal doctor {name}")
    page.print(f"  curl {results}", soft_wrap=True)
    page.print()
    page.print("In a browser:")
    page.print()
    page.print(f"  {services.page}    the page to answer on", soft_wrap=True)
    page.print(f"  {services.addresses.dashboard}    what comes of it", soft_wrap=True)
    page.print(f"  {services.login}: the link that shows its operator more", soft_wrap=True)
    page.print()


def leave(directory: Path) -> None:
    """Say how to go on."""
    console().print(f"Stopped. Go on with: shoal up {shlex.quote(str(directory))}")


def show(found: SurveyResults, truth: dict[str, float] | None, seconds: float | None) -> None:
    """Print the chart, how many came to count, and what it costs."""
    page = console()
    result = found.result()
    if result is None:
        page.print("nothing was published", style="yellow")
        page.print(_funnel(found))
        return
    column = result.only
    if truth is not None:
        column = replace(column, truth=np.array([truth[label] for label in column.labels]))
    for part in chart(column):
        page.print(part)
    page.print()
    page.print(_funnel(found))
    page.print()
    page.print(panel(result.guarantee.document()))
    for note in (*result.notes, *[INVENTED] * (truth is not None)):
        page.print(f"note: {note}")
    for warning in result.guarantee.warnings:
        page.print(f"warning: {warning}", style="yellow")
    if seconds is not None:
        page.print(f"published {seconds:.1f} s after the start", style="dim")


def _funnel(found: SurveyResults) -> Table:
    """How many reports of each batch came how far."""
    table = Table.grid(padding=(0, 2))
    for column in range(6):
        table.add_column(justify="left" if column in {0, 5} else "right")
    table.add_row("batch", "reports", "valid", "honest", "ε", "", style="dim")
    for document in found.batches:
        table.add_row(*_row(document))
    return table


def _row(document: Document) -> tuple[str, ...]:
    epsilon = document["epsilon"]
    told = "–" if epsilon is None else up(epsilon)
    counts = (f"{document[name]:,}" for name in ("reports", "valid", "honest"))
    return (document["batch"][:8], *counts, told, document["withheld"] or "")


def to_dict(
    services: Local, found: SurveyResults, truth: dict[str, float], seconds: float
) -> dict[str, object]:
    """Plain values."""
    where = services.addresses
    return {
        "directory": str(services.directory),
        "shuffler": where.shuffler,
        "analyzer": where.analyzer,
        "page": services.page,
        "dashboard": where.dashboard,
        "invented": truth,
        "seconds": seconds,
        "results": found.to_dict(),
        "notes": [INVENTED, NOT_APART, *without_scripts()],
    }

"""What a survey has found, in the terminal: what just happened, the chart, the guarantee."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.padding import Padding
from rich.text import Text

from shoal.cli.app import printable
from shoal.cli.render import console
from shoal.cli.run_show import show as show_result
from shoal.explain.text import plain, up
from shoal.service.analyzer.collector import Pass
from shoal.service.analyzer.documents import Document
from shoal.service.analyzer.results import SurveyResults
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.survey import Survey

_NAME = 8  # digits of a batch's name that tell it from the others


def show(found: SurveyResults, done: Pass) -> None:
    """Print what happened to its batches, and what all of them say together."""
    page = console()
    survey = found.survey
    page.print(f"{printable(survey.name)} ({str(survey.id)[:16]})", style="bold")
    for document in found.batches:
        mark = "new: " if document["batch"] in done.published else ""
        page.print(_item(f"{mark}{_line(document)}"))
    for refused in found.refused:
        line = f"batch {refused['batch'][:_NAME]} refused: {printable(refused['reason'])}"
        page.print(_item(line, "red"))
    for line in troubles(survey, done, named=False):
        page.print(_item(line, "yellow"))
    page.print()
    result = found.result()
    if result is None:
        page.print(_nothing(found))
        page.print()
        return
    show_result(result)
    page.print()


def happened(store: AnalyzerStore, survey: Survey, done: Pass) -> Iterator[str]:
    """A line for every batch that came to an end."""
    name = printable(survey.name)
    for batch in done.published:
        yield f"{name}: {_line(json.loads(store.result(survey.id, batch)))}"
    for batch in done.refused:
        reason = store.collection(survey.id, batch).reason or ""
        yield f"{name}: batch {batch[:_NAME]} refused: {printable(reason)}"


def troubles(survey: Survey, done: Pass, *, named: bool = True) -> Iterator[str]:
    """A line for everything that waits."""
    name = f"{printable(survey.name)}: " if named else ""
    for batch, reason in done.problems.items():
        about = f"batch {batch[:_NAME]} waits: " if batch else ""
        yield f"{name}{about}{printable(reason)}"


def _item(line: str, style: str = "") -> Padding:
    """A line under a heading, and so what is wrapped of it."""
    return Padding(Text(line, style=style), (0, 0, 0, 2))


def _line(document: Document) -> str:
    name = f"batch {document['batch'][:_NAME]}"
    left_out = ", ".join(
        f"{count:,} {reason}" for reason, count in document["rejected"].items() if count
    )
    reports = f"{document['valid']:,} of {document['reports']:,} reports valid"
    told = f"{reports} ({left_out})" if left_out else reports
    if document["withheld"] is not None:
        return f"{name} withheld: {told}; {document['withheld']}"
    worth = f"ε = {up(document['epsilon'])} at δ = {plain(document['delta'])}"
    return f"{name} published: {told}; {worth}"


def _nothing(found: SurveyResults) -> str:
    if found.counts is not None:
        return "the batches do not add up to one estimate: --json has each of them"
    return f"no estimates yet: a batch needs {found.survey.batches.minimum:,} valid reports"

"""``shoal demo``: one collection, from the question to the report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import files
from shoal.cli.files import writing_to
from shoal.cli.render import console, working

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REPORT = "shoal-report.html"


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write the report; made if missing.")
    ] = Path(),
) -> None:
    """A survey of 200,000 invented people: plan it, run it, look at the chart and its price."""
    with writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
    files.check(report=out / REPORT)
    with working("inventing people"):
        import shoal
        from shoal.cli import demo_data, tour

        answers = demo_data.answers()
    page = console()
    _tell(page, "The question", tour.question())
    with working("planning"):
        plan = shoal.plan(
            epsilon=tour.EPSILON,
            delta=tour.DELTA,
            n=demo_data.PEOPLE,
            categories=len(demo_data.TOPICS),
            local_epsilon_cap=tour.LOCAL_EPSILON,
        )
        _ = plan.guarantee
    _tell(page, "The plan", tour.planned(plan))
    with working("collecting"):
        result = shoal.run(answers, column=demo_data.QUESTION, plan=plan)
        truth = tour.true_shares(answers, result.labels)
    _tell(page, "The chart", tour.collected(result, truth))
    _tell(page, "What it gives away", tour.given_away(result))
    with working("comparing"):
        parts = list(tour.compared(result))
    _tell(page, "What if", parts)
    with working("writing"), files.together() as write:
        text = result.to_html()
        write(out / REPORT, lambda path: path.write_text(text, encoding="utf-8"))
    _tell(page, "To hand on", ["The same as a page, with all the numbers and assumptions:"])
    typer.echo(f"  {out / REPORT}")


def _tell(page: Console, heading: str, parts: Iterable[RenderableType]) -> None:
    page.print()
    page.rule(heading, style="bold", align="left")
    for part in parts:
        page.print(part)

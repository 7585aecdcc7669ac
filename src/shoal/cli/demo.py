"""``shoal demo``: one collection, from a question that nobody likes to answer to its report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from shoal.cli import files
from shoal.cli.app import ANALYSE, app
from shoal.cli.options import BareOptions, command, option
from shoal.cli.render import chart, console, panel, table, working
from shoal.explain.document import Row, Table
from shoal.explain.text import plain, up

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from shoal.intervals.estimates import Estimate
    from shoal.results.result import Result

REPORT = "shoal-report.html"
QUESTION = "health topic looked up last"
PEOPLE = 200_000
EPSILON = 1.0
LOCAL_EPSILON = 4.0
DELTA = 1e-6
_SEED = 2026
_COMPARED = ("blanket", "optimal-clones", "clones", "fmt21-closed")

# The topics and how popular each is among invented people.
TOPICS = {
    "colds and flu": 2400,
    "back pain": 1650,
    "headache": 1300,
    "sleep": 1150,
    "allergies": 900,
    "diet": 760,
    "skin rash": 620,
    "anxiety": 560,
    "blood pressure": 470,
    "pregnancy": 400,
    "depression": 360,
    "diabetes": 310,
    "knee pain": 270,
    "vaccination": 230,
    "tinnitus": 190,
    "contraception": 170,
    "hair loss": 140,
    "asthma": 120,
    "addiction": 95,
    "migraine": 80,
    "hepatitis": 50,
    "HIV": 38,
    "cancer": 30,
    "epilepsy": 22,
}


class DemoOptions(BareOptions):
    """Where the report goes."""

    out: Path = option("Where to write the report; made if missing.", metavar="DIR", default=Path())


@command(app, ANALYSE)
def demo(options: DemoOptions) -> None:
    """A survey of 200,000 invented people: plan it, run it, look at the chart and its price."""
    report = options.out / REPORT
    with files.writing_to(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
    files.check(report=report)
    with working("inventing people"):
        from rich.console import Group

        import shoal
        from shoal.explain.text import factor

        people = answers()
    question = (
        f"{PEOPLE:,} people are asked which of {len(TOPICS)} health topics they looked up last. "
        "A chart is wanted; who looked up what is nobody's business. So each phone adds noise to "
        "its answer, and a shuffler takes the names off and mixes the reports before anybody looks "
        f"at them. All of it together may cost each person ε = {plain(EPSILON)} at most, which "
        f"moves the odds between any two answers of theirs by a factor of {factor(EPSILON)}. And "
        f"even if the shuffler cheats, local ε0 = {plain(LOCAL_EPSILON)} has to hold."
    )
    _section("The question", [question])
    with working("planning"):
        asked = shoal.Choice(QUESTION, list(TOPICS), other=False, missing="refuse")
        limits = shoal.Limits(local_epsilon=LOCAL_EPSILON)
        plan = shoal.plan(asked, epsilon=EPSILON, delta=DELTA, n=PEOPLE, limits=limits)
        planned = plan.document()
    intro = "What the phones could run, and how many people off the chart would be:"
    options_table = [] if planned.table is None else [table(planned.table)]
    _section("The plan", [intro, *options_table, *planned.sentences])
    with working("collecting"):
        result = shoal.run(people, plan=plan)
    _section("The chart", [Group(*chart(result.only)), _truth(result, people)])
    guarantee = result.guarantee
    meaning = (
        "In words: whatever somebody believed about what you looked up, after seeing all "
        f"{guarantee.n:,} reports the odds have moved by at most a factor of "
        f"{factor(guarantee.epsilon)}, except with probability about δ = {plain(guarantee.delta)}. "
        f"If the shuffler keeps the names after all, local ε0 = {up(guarantee.local_epsilon)} "
        "still holds."
    )
    _section("What it gives away", [panel(guarantee.document()), meaning])
    with working("comparing"):
        rows = tuple(Row((what, up(epsilon))) for what, epsilon in _compared(result))
    compared = Table(("the same reports …", "ε"), rows, frozenset({1}))
    _section("What if", [table(compared)])
    with working("writing"):
        files.write(files.text(report, result.to_html))
    _section("To hand on", ["The same as a page, with all the numbers and assumptions:"])
    typer.echo(f"  {report}")


def answers() -> pl.DataFrame:
    """Everybody's answer: the same on every run, because it is made up; the reports are not."""
    import numpy as np
    import polars as pl

    from shoal import randomness

    codes = randomness.simulated(_SEED).weighted(list(TOPICS.values()), PEOPLE)
    return pl.DataFrame({QUESTION: np.array(list(TOPICS))[codes]})


def _section(heading: str, parts: Iterable[RenderableType]) -> None:
    from rich.padding import Padding

    page = console()
    page.print()
    page.rule(heading, style="bold", align="left")
    for part in parts:
        page.print(Padding(part, (1, 0, 0, 0)))


def _truth(result: Result, people: pl.DataFrame) -> str:
    """How far the chart is from what only this demo knows."""
    import numpy as np

    counts = dict(people[QUESTION].value_counts().iter_rows())
    truth = np.array([counts.get(label, 0) for label in result.labels]) / len(people)
    estimate = cast("Estimate", result.estimate)
    low, high = estimate.interval()
    inside = int(((low <= truth) & (truth <= high)).sum())
    largest = float(abs(estimate.frequencies - truth).max())
    return (
        "The people are made up, so the demo knows the truth: no fraction is wrong by more than "
        f"{100 * largest:.2g} percentage points, and {inside} of {truth.size} intervals hold it "
        "(95 % should)."
    )


def _compared(result: Result) -> Iterator[tuple[str, float]]:
    """The same reports under other proofs and other circumstances."""
    import shoal

    device = result.randomizer
    rows = {row.name: row for row in shoal.compare(device, n=PEOPLE, delta=DELTA)}
    amplify = partial(shoal.amplify, device, delta=DELTA)
    for row in (rows[name] for name in _COMPARED if name in rows):
        if row.epsilon is not None:
            yield f"proved by: {row.title}", row.epsilon
    half = amplify(n=PEOPLE, crowd=shoal.Crowd(honest_fraction=0.5)).epsilon
    yield "if half of the people lie or drop out", half
    yield "if one person in ten is asked", amplify(n=PEOPLE // 10).epsilon
    if math.isfinite(device.local_epsilon):
        yield "without a shuffler", device.local_epsilon

"""The story that ``shoal demo`` tells: from a question that nobody likes to answer to its chart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

import shoal
from shoal.cli import plan_show, run_show
from shoal.cli.demo_data import PEOPLE, QUESTION, TOPICS
from shoal.cli.render import panel
from shoal.explain.text import plain, up
from shoal.report.words import factor

if TYPE_CHECKING:
    import polars as pl

EPSILON = 1.0
LOCAL_EPSILON = 4.0
DELTA = 1e-6
_COMPARED = ("blanket", "optimal-clones", "clones", "fmt21-closed")


def question() -> Iterator[RenderableType]:
    """Who is asked what."""
    yield _text(
        f"{PEOPLE:,} people are asked which of {len(TOPICS)} health topics they looked up last. "
        "A chart is wanted; who looked up what is nobody's business. So each phone adds noise to "
        "its answer, and a shuffler takes the names off and mixes the reports before anybody looks "
        f"at them. All of it together may cost each person ε = {plain(EPSILON)} at most, which "
        f"moves the odds between any two answers of theirs by a factor of {factor(EPSILON)}. And "
        f"even if the shuffler cheats, ε0 = {plain(LOCAL_EPSILON)} has to be left."
    )


def planned(plan: shoal.Plan) -> Iterator[RenderableType]:
    """What the phones run."""
    yield _text("What the phones could run, and how many people off the chart would be:")
    yield Padding(plan_show.options(plan), (1, 0, 0, 0))
    yield _text(plan_show.recommendation(plan))


def collected(result: shoal.Result, truth: np.ndarray) -> Iterator[RenderableType]:
    """The chart, beside what only this demo knows."""
    (column,) = result.columns
    yield Padding("", (0, 0))
    yield from run_show.chart(column)
    estimate = result.estimate
    if not isinstance(estimate, shoal.Estimate):
        return
    low, high = estimate.interval()
    inside = int(((low <= truth) & (truth <= high)).sum())
    largest = float(abs(estimate.frequencies - truth).max())
    yield _text(
        f"The people are made up, so the demo knows the truth: no share is wrong by more than "
        f"{100 * largest:.2g} percentage points, and {inside} of {truth.size} intervals hold it "
        "(95 % should)."
    )


def given_away(result: shoal.Result) -> Iterator[RenderableType]:
    """What all of it says about one person."""
    found = result.guarantee
    yield Padding(panel(found.document()), (1, 0, 0, 0))
    yield _text(
        f"In words: whatever somebody believed about what you looked up, after seeing all "
        f"{found.n:,} reports the odds have moved by at most a factor of "
        f"{factor(found.epsilon)}, except with probability about δ = {plain(found.delta)}. If the "
        f"shuffler keeps the names after all, what is left is ε0 = {up(found.local_epsilon)}."
    )


def compared(result: shoal.Result) -> Iterator[RenderableType]:
    """The same reports under other proofs and other circumstances."""
    device = result.randomizer
    rows = {row.name: row for row in shoal.compare(device, n=PEOPLE, delta=DELTA)}
    ask = partial(shoal.amplify, device, delta=DELTA)
    cases = [
        (f"proved by: {rows[name].title}", rows[name].epsilon)
        for name in _COMPARED
        if name in rows and rows[name].epsilon is not None
    ]
    cases += [
        ("if half of the people lie or drop out", ask(n=PEOPLE, honest_fraction=0.5).epsilon),
        ("if one person in ten is asked", ask(n=PEOPLE // 10).epsilon),
        ("without a shuffler", device.local_epsilon),
    ]
    table = Table(box=box.HORIZONTALS)
    table.add_column("the same reports …")
    table.add_column("ε", justify="right")
    for what, epsilon in cases:
        if epsilon is not None and math.isfinite(epsilon):
            table.add_row(what, up(epsilon))
    yield Padding(table, (1, 0, 0, 0))


def true_shares(answers: pl.DataFrame, labels: tuple[str, ...]) -> np.ndarray:
    """The shares of the invented answers."""
    counted = dict(answers[QUESTION].value_counts().iter_rows())
    return np.array([counted.get(label, 0) for label in labels]) / len(answers)


def _text(words: str) -> Padding:
    return Padding(words, (1, 0, 0, 0))

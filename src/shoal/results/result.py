"""What a run gives back: estimates with their errors, the guarantee, and what to know.

And the page that says so, in the shape of ``page.html``: charts, what they mean, tables, how it was
done.
"""

from __future__ import annotations

import csv
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import (
    Item,
    down,
    environment,
    factor,
    finite,
    plain,
    plural,
    render,
    up,
    visible,
)
from shoal.explain.views import Tabular
from shoal.intervals.estimates import AnyEstimate, Estimate, MeanEstimate
from shoal.mechanisms.base import Device
from shoal.results import charts
from shoal.results.charts import Chart, counted
from shoal.values import Array, Counts, Record, attributes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from shoal.estimate.distribution import Distribution, Quantile, RangeCount
    from shoal.estimate.means import Mean
    from shoal.mechanisms.estimators import AnswerEstimator
    from shoal.planning import Plan, QuestionPlan
    from shoal.planning.plans import Task
    from shoal.planning.schemes import Rounded
    from shoal.questions.edges import Edges
    from shoal.questions.settled import Members

T = TypeVar("T")
TEMPLATES = Path(__file__).parent
FORMAT = "shoal privacy statement 1"
_SIZES = ("local_epsilon", "message_bits", "messages")
# Pixels of a frame in a notebook: what is around the rows of a chart, a row, and limits.
_FRAME, _ROW, _LEAST_FRAME, _MOST_FRAME = 400, 26, 620, 1600
_PANEL_ROWS = 3  # of the name and the scale of a group's chart
# Columns are named as terminal and pages name them. JSON has the keys that it was promised with:
# that of a run, and that of services.
_PUBLISHED = {"value": "answer", "frequency": "share"}
_IN_TABLES = {"frequency": "fraction", "share": "fraction"} | {
    f"fraction{end}": f"fraction_of_group{end}" for end in ("", "_low", "_high")
}
_ROUNDING = 1e-9  # of sums of fractions
_MOST_WITHOUT = 50  # percent
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnResult:
    """One column of a :func:`shoal.run`: answers, estimates, and how private it is by itself.

    Or the columns of a vector, which are its labels.

    Attributes:
        column: The name.
        by: What groups of people are by.
        labels: The answers or coordinates, in the order of the estimate.
        estimate: Fractions, a mean or a mean vector, with their errors.
        randomizer: What each device ran.
        order: The answers in the order that is their own; None for the most frequent first.
        scored: The numbers that answers stand for, of which there is a mean.
        bins: The bins of numbers or dates, if they were counted in bins.
        quantiles: Those that were asked for.
        ranges: First and last bin of each range that was asked for.
        levels: What was run on the coarser levels of a tree of bins.
        guarantee: That of this column alone.
        n: How many people reported.
        plan: The plan, if one was made.
        truth: The true values, if they are compared: then it is not private.
        notes: What was done, in words.
        warnings: What to know before relying on it.
    """

    column: str
    by: str = ""
    labels: tuple[str, ...]
    estimate: AnyEstimate
    randomizer: Device
    order: tuple[int, ...] | None = None
    scored: Scored | None = None
    bins: Edges | None = None
    quantiles: tuple[float, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    levels: tuple[Device, ...] = ()  # of a tree of bins: what was run on the coarser ones
    guarantee: Guarantee
    n: int
    plan: QuestionPlan | None = None
    truth: Array | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def distribution(self) -> Distribution:
        """Cumulative curve, quantiles and counts of ranges, of numbers in bins."""
        from shoal.estimate.distribution import Distribution

        if self.bins is None:
            expected = "a column collected in bins (bins=20, --bins 20)"
            raise InvalidArgumentError("column", self.column, expected)
        estimator = cast("AnswerEstimator", self.randomizer.estimator)
        return Distribution(self.bins, cast("Estimate", self.estimate), estimator)

    def items(self, most: int | None = None) -> list[Item]:
        """What there is to be shown: the largest answers first, or in the order of their own.

        More bins than ``most`` are shown several at a time.
        """
        items = charts.items(self.labels, self.estimate, self.truth, order=self.order)
        if self.bins is None or most is None or len(items) <= most:
            return items
        bins, size = self.bins, -(-len(self.bins) // (most - 1))
        merged = []
        for first in range(0, len(bins), size):
            last = min(first + size, len(bins)) - 1
            total = self.distribution.between(first, last)
            truth = None if self.truth is None else float(self.truth[first : last + 1].sum())
            merged.append(replace(total, label=bins.label(first, last), truth=truth).item)
        return merged + items[len(bins) :]

    @cached_property
    def ranked(self) -> list[charts.Answer]:
        """The answers that most people give, the largest first; none of a mean."""
        estimate = self.estimate
        return charts.ranked(self.labels, estimate) if isinstance(estimate, Estimate) else []

    @property
    def kind(self) -> charts.Kind:
        """What its chart is of."""
        if self.bins is not None:
            return "bins"
        if isinstance(self.estimate, MeanEstimate):
            return "mean"
        return "fractions" if isinstance(self.estimate, Estimate) else "coordinates"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The public bounds of a number, if there are any."""
        low, high = (getattr(self.randomizer, name, None) for name in ("low", "high"))
        return None if low is None or high is None else (float(low), float(high))

    @property
    def title(self) -> str:
        """What the chart is called: the column, and what groups are by."""
        return f"{self.column} by {self.by}" if self.by else self.column

    def panels(self) -> list[charts.Panel]:
        """A chart for each group of people, if they are in groups."""
        return []

    def records(self) -> list[Record]:
        """One row per answer or coordinate, or one for a mean; limits are of 95 % intervals.

        Bins have their ends, and the fraction of people up to there.
        """
        estimate, values = self.estimate, dict[str, Any]()
        if isinstance(estimate, Estimate):
            values["frequency"], values["count"] = estimate.frequencies, estimate.counts
        else:
            values["mean"], values["sum"] = estimate.mean, estimate.sum
            if not isinstance(estimate, MeanEstimate):
                values["standard_error"] = estimate.standard_errors
        values["low"], values["high"] = estimate.interval()
        if self.truth is not None:
            values["truth"] = self.truth
        columns = {name: np.atleast_1d(column).tolist() for name, column in values.items()}
        if not isinstance(estimate, MeanEstimate):
            name = "value" if isinstance(estimate, Estimate) else "coordinate"
            ends, curve = ({}, {}) if self.bins is None else self._beside(self.bins)
            columns = {name: list(self.labels)} | ends | columns | curve
        rows = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def published(self) -> list[Record]:
        """The same rows as services name them, with standard errors."""
        estimate = self.estimate
        if isinstance(estimate, MeanEstimate):
            errors = [estimate.standard_error]
        else:
            errors = estimate.standard_errors.tolist()
        return [
            {_PUBLISHED.get(name, name): cell for name, cell in record.items()}
            | {"standard_error": error}
            for record, error in zip(self.records(), errors, strict=True)
        ]

    def _beside(self, bins: Edges) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """The ends of each bin, and the cumulative curve; nothing for people without a value."""
        curve, more = self.distribution.cumulative(), [None] * (len(self.labels) - len(bins))
        spans = [bins.span(i, i) for i in range(len(bins))]
        ends = {"from": [low for low, _ in spans] + more, "to": [high for _, high in spans] + more}
        parts = {"": curve.fractions, "_low": curve.low, "_high": curve.high}
        return ends, {f"cumulative{end}": part.tolist() + more for end, part in parts.items()}

    @property
    def statistics(self) -> tuple[list[Quantile], list[RangeCount]]:
        """The quantiles and the counts of ranges that were asked for."""
        quantiles = [self.distribution.quantile(each) for each in self.quantiles]
        ranges = [self.distribution.between(*each) for each in self.ranges]
        if self.truth is None or self.bins is None:
            return quantiles, ranges
        true = np.append(0.0, np.cumsum(self.truth[: len(self.bins)]))
        for i, each in enumerate(quantiles if true[-1] > 0 else ()):
            place = int(np.searchsorted(true[1:], each.quantile * true[-1] - _ROUNDING))
            quantiles[i] = replace(each, truth=self.bins.label(place, place))
        for i, (first, last) in enumerate(self.ranges):
            ranges[i] = replace(ranges[i], truth=float(true[last + 1] - true[first]))
        return quantiles, ranges

    def doubts(self) -> list[str]:
        """Whether a column in bins, or of steps, has values at all, by the estimate."""
        places = self.bins or (self.scored.scores if self.scored else ())
        if not places or len(self.labels) != len(places) + 1:
            return []
        low, _ = cast("Estimate", self.estimate).interval()
        dates = self.bins is not None and self.bins.dates
        without, what = math.floor(100 * low[-1]), "dates" if dates else "numbers"
        if without < _MOST_WITHOUT:
            return []
        return [f"at least {without} % have no value: is {self.column} a column of {what}?"]

    @cached_property
    def means(self) -> tuple[Mean, ...]:
        """The mean of the numbers that answers stand for, or one for each group of people."""
        if self.scored is None:
            return ()
        from shoal.estimate.means import means

        estimator, scored = cast("AnswerEstimator", self.randomizer.estimator), self.scored
        cells = [np.array(group) for group in scored.cells]
        scores = [np.array(scored.scores)] * len(cells)
        estimate = cast("Estimate", self.estimate)
        return means(estimator, estimate, cells, scores, labels=scored.labels, steps=scored.steps)

    def mean_records(self) -> list[Record]:
        """One row per mean; with the true one, if it is compared."""
        return [
            mean.to_dict() | ({} if self.truth is None else {"truth": self.true_mean(i)})
            for i, mean in enumerate(self.means)
        ]

    def true_mean(self, group: int = 0) -> float | None:
        """The true one, if it is compared and there is one."""
        if self.truth is None or self.scored is None:
            return None
        true = self.truth[self.scored.cells[group]]
        total = float(true.sum())
        return float(true @ np.array(self.scored.scores)) / total if total > 0 else None

    def sentences(self) -> list[str]:
        """The mean, quantiles and counts of ranges in words."""
        if self.bins is None:
            means = self.means[:1] if self.scored is not None else ()
            return [mean_words(mean, self.true_mean()) for mean in means]
        quantiles, ranges = self.statistics
        return [*map(str, quantiles), *map(str, ranges)]

    def to_dict(self) -> Record:
        """Plain values."""
        statistics: Record = {}
        if self.scored is not None:
            statistics["means"] = self.mean_records()
        if self.bins is not None:
            quantiles, ranges = self.statistics
            statistics["quantiles"] = [quantile.to_dict() for quantile in quantiles]
            statistics["ranges"] = [count.to_dict() for count in ranges]
            statistics["levels"] = [
                each.described() | attributes(each, *_SIZES, "slots") for each in self.levels
            ]
        return {
            **attributes(self, "column", "n"),
            "guarantee": self.guarantee.to_dict(),
            "randomizer": self.randomizer.described()
            | attributes(self.randomizer, *_SIZES, "slots"),
            "estimates": self.records(),
            **({"by": self.by} if self.by else {}),
            **statistics,
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def table(self) -> Table:
        """The estimates with their 95 % intervals, to the digits of their error, largest first."""
        items = self.items()
        if self.kind == "mean":
            heads = ("mean", "95 % interval")
            return Table(heads, (Row(items[0].cells),), frozenset({0}), self.column)
        return items_table(items, self.column)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The estimates with their 95 % intervals, the largest first, at most 40 of them.

        Bins are in their order, several at a time if they are more.
        """
        items = self.items(charts.SHOWN)
        shown, more = items[: charts.SHOWN], len(items) - charts.SHOWN
        what = "fraction of the answers, %" if self.kind in {"fractions", "bins"} else "mean"
        rest = f"; {more:,} more" if more > 0 else ""
        colors = [plots.BLUE if item.significant else plots.FAINT for item in shown]
        with plots.on(ax, 1.5 + 0.26 * len(shown)) as axes:
            plots.dots(
                axes,
                [
                    (item.label, item.value, item.shown(item.value), color)
                    for item, color in zip(shown, colors, strict=True)
                ],
                intervals=[(item.low, item.high) for item in shown],
                xlabel=f"{what}, with 95 % intervals{rest}",
                title=self.column,
                log=False,
            )
        return axes


def result_of(task: Task, counts: Sequence[Counts], truth: Array | None = None) -> ColumnResult:
    """What everybody's reports say of a question: of a table, or of a survey."""
    settled, scheme = task.settled, task.scheme
    groups, answers, edges = settled.groups, settled.answers, settled.edges
    ways = (note for note in (scheme.note, task.plan and task.plan.note) if note)
    fields: dict[str, Any] = {
        "column": settled.question.name,
        "labels": settled.labels,
        "estimate": scheme.estimate(task.devices, counts),
        "randomizer": task.devices[0],
        "guarantee": task.guarantee,
        "n": settled.n,
        "plan": task.plan,
        "levels": task.devices[1:],
        "truth": truth,
        "notes": (*settled.notes, *settled.assumptions, *ways),
        "warnings": task.warnings,
        "order": settled.order,
    }
    if scheme.means:
        from shoal.results.means import MeansResult

        return MeansResult.of(settled, cast("Rounded", scheme), **fields)
    if settled.scores:
        named = ("mean",) if groups is None else groups.labels
        fields["scored"] = Scored(settled.cells_of_means, settled.scores, named)
    if groups is not None and answers is not None:
        from shoal.results.groups import GroupedResult

        fields |= {"answers": answers.labels, "inner": answers.edges}
        return GroupedResult(by=groups.name, group_labels=groups.labels, **fields)
    if edges is not None:
        quantiles = getattr(settled.question, "quantiles", ())
        fields |= {"bins": edges, "quantiles": quantiles, "ranges": settled.ranges}
    result = ColumnResult(**fields)
    doubts = result.doubts() if edges is not None or settled.scores else []
    coding = cast("Members", settled.coding)
    several = getattr(coding, "several", False)
    if several and not any(each.significant for each in result.items()):
        what = f"does {result.column} hold lists, or text with {coding.separator!r} between?"
        doubts.append(f"no answer can be told from nobody: {what}")
    return replace(result, warnings=(*result.warnings, *doubts)) if doubts else result


@dataclass(frozen=True)
class Scored:
    """The numbers that the cells of each group stand for; rounded to one of so many ``steps``."""

    cells: Sequence[Sequence[int]]
    scores: Sequence[float]
    labels: tuple[str, ...]  # of the groups
    steps: int = 0


def mean_words(mean: Mean, truth: float | None = None) -> str:
    """A mean in words, to the digits of its margin."""
    item = mean.item
    if item is None:
        return "no mean: there may be nobody with a value"
    value, interval = item.cells
    true = "" if truth is None else f", truly {item.shown(truth)}"
    return f"mean {value} (95 % interval {interval}){true}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(Tabular):
    """All columns of a :func:`shoal.run`, and the guarantee that holds for all of them together.

    It prints itself, shows itself in a notebook, and writes itself as JSON, CSV and HTML.

    Attributes:
        columns: A :class:`shoal.pipeline.ColumnResult` for each column.
        guarantee: The (ε, δ) of all columns together.
        notes: What was done, in words.
        stages: Seconds that each stage took.
        plan: The plan, if there was one.

    References:
        ``guarantee.theorem`` names the theorem; :doc:`/theory/index`.

    Example:
        >>> import shoal
        >>> result = shoal.run({"color": ["red", "blue"] * 5_000}, epsilon=1)
        >>> [row["value"] for row in result.records()]
        ['blue', 'red']
        >>> result.guarantee.theorem
        'privacy blanket'
    """

    columns: tuple[ColumnResult, ...]
    guarantee: Guarantee
    notes: tuple[str, ...]
    stages: Mapping[str, float] = field(default_factory=dict)
    plan: Plan | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        return (*remarks(self.columns, "warnings"), *self.guarantee.warnings)

    @property
    def contains_truth(self) -> bool:
        """Whether true values are in it: then it is not private."""
        return any(column.truth is not None for column in self.columns)

    @property
    def only(self) -> ColumnResult:
        """The column, if there is one only."""
        if len(self.columns) > 1:
            names = ", ".join(column.column for column in self.columns)
            raise InvalidArgumentError("columns", names, "one column (use .columns for several)")
        return self.columns[0]

    @property
    def estimate(self) -> AnyEstimate:
        """The estimate of the only column."""
        return self.only.estimate

    @property
    def distribution(self) -> Distribution:
        """Cumulative curve, quantiles and counts of ranges of the only column, if it has bins."""
        return self.only.distribution

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers of the only column, or the coordinates, in the order of its estimate."""
        return self.only.labels

    @property
    def randomizer(self) -> Device:
        """What each device ran for the only column."""
        return self.only.randomizer

    @property
    def truth(self) -> Array | None:
        """The true fractions, or the true mean, of the only column, if it is compared."""
        return self.only.truth

    @property
    def n(self) -> int:
        """How many people reported in the only column."""
        return self.only.n

    def __getitem__(self, column: str) -> ColumnResult:
        for each in self.columns:
            if each.column == column:
                return each
        names = ", ".join(each.column for each in self.columns)
        raise InvalidArgumentError("column", column, f"one of {names}")

    def records(self) -> list[Record]:
        """One row per answer, mean or coordinate; a leading column tells several columns apart."""
        several = len(self.columns) > 1
        rows = [
            ({"column": column.column} if several else {}) | record
            for column in self.columns
            for record in column.records()
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        return [dict.fromkeys(names) | row for row in rows]

    def _rows(self) -> list[Record]:
        return [in_table(row) for row in self.records()]

    def to_dict(self) -> Record:
        """Plain values, as the command line's ``--json`` prints them."""
        columns = [column.to_dict() for column in self.columns]
        return {
            "guarantee": self.guarantee.to_dict(),
            "columns": columns,
            "estimates": columns[0]["estimates"],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "randomizer": columns[0]["randomizer"],
            "stages": dict(self.stages),
            "contains_truth": self.contains_truth,
        }

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as a file."""
        text = json.dumps(finite(self.to_dict()), ensure_ascii=False, allow_nan=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    def to_csv(self, path: str | Path) -> None:
        """One line per answer, mean or coordinate; a leading column tells several columns apart.

        A name or an answer that a spreadsheet would run as a formula gets an apostrophe in front.
        """
        write_csv(path, self._rows())

    def to_html(self, *, scheme: str = "light dark") -> str:
        """One self-contained page.

        Args:
            scheme: Its colours: those that the reader's machine prefers, or "light" ones anywhere.
        """
        text = json.dumps(finite(statement(self)), allow_nan=False, indent=1)
        return render(
            environment(TEMPLATES),
            "page.html",
            scheme=scheme,
            result=self,
            guarantee=self.guarantee,
            charts=[Chart.of(column) for column in self.columns],
            counted=counted(self.guarantee),
            words=sentences(self.guarantee),
            # As JSON that may stand inside a script element.
            statement=text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        )

    @property
    def findings(self) -> tuple[str, ...]:
        """Means, quantiles and counts of ranges in words."""
        return tuple(
            f"{column.column}: {sentence}" if len(self.columns) > 1 else sentence
            for column in self.columns
            for sentence in column.sentences()
        )

    def document(self, *, table: bool = True) -> Document:
        """The estimates (of one column, unless there is to be no table), the guarantee, notes."""
        return replace(
            self.guarantee.document(),
            table=self.columns[0].table() if table and len(self.columns) == 1 else None,
            sentences=self.findings,
            notes=self.notes,
            warnings=self.warnings,
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """The estimates of the only column with their 95 % intervals."""
        return self.only.plot(ax)

    def _repr_html_(self) -> str:
        # A frame cannot ask the notebook around it, which need not be as dark as the machine is.
        first, most = self.columns[0], charts.SHOWN
        rows = [len(panel.items[:most]) + _PANEL_ROWS for panel in first.panels()]
        return _framed(self.to_html(scheme="light"), sum(rows) or len(first.items(most)[:most]))

    def __str__(self) -> str:
        """The estimates, the largest first, and the guarantee, as text."""
        tables = [str(Document(each.title, table=each.table())) for each in self.columns]
        return "\n\n".join([*tables, str(self.document(table=False))])


def remarks(columns: Sequence[ColumnResult], what: Literal["notes", "warnings"]) -> list[str]:
    """The notes or the warnings of all columns, under the name of each if they are several."""
    own = [(column.column, text) for column in columns for text in getattr(column, what)]
    return [f"{name}: {text}" if len(columns) > 1 else text for name, text in own]


def items_table(items: Sequence[Item], title: str) -> Table:
    """Answers, or coordinates, with their intervals, to the digits of their margins."""
    heads = ("answer", "fraction") if items and items[0].unit else ("coordinate", "mean")
    rows = tuple(Row((item.label, *item.cells)) for item in items)
    return Table((*heads, "95 % interval"), rows, frozenset({1}), title)


def _framed(page: str, rows: int) -> str:
    """A page inside another, a notebook say, neither of which restyles the other.

    It is high enough for the first chart, of so many rows, and the rest is below.
    """
    height = min(max(_FRAME + _ROW * rows, _LEAST_FRAME), _MOST_FRAME)
    frame = f"width:100%;height:{height}px;resize:vertical;border:1px solid #ccd3da;"
    frame += "border-radius:6px;background:#fff;"
    frame = frame.replace(";", " !important;")
    return f'<iframe sandbox="" title="report" style="{frame}" srcdoc="{escape(page)}"></iframe>'


def write_csv(path: str | Path, rows: Sequence[Record], names: Sequence[str] = ()) -> None:
    """One line per row; ``names`` head a file that has none."""
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(harmless, rows))


def in_table(row: Record) -> Record:
    """The row as data frames and CSV files have it: one word for the fraction of all people."""
    return {_IN_TABLES.get(name, name): cell for name, cell in row.items()}


def harmless(row: Record) -> Record:
    """The row, its texts shown by spreadsheets as they are and never run as formulas."""
    return {name: _harmless(cell) if isinstance(cell, str) else cell for name, cell in row.items()}


def _harmless(cell: str) -> str:
    return visible(f"'{cell}" if cell.startswith(_FORMULAS) else cell)


class Stages(dict[str, float]):
    """Seconds per stage of a collection."""

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """The time spent inside is the stage's."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self[stage] = self.get(stage, 0.0) + spent

    def each(self, stage: str, items: Iterable[T]) -> Iterator[T]:
        """The items; the time it takes to get them is the stage's."""
        iterator = iter(items)
        while True:
            with self(stage):
                item = next(iterator, None)
            if item is None:
                return
            yield item


# ------------------------------------------------------------ the guarantee, for everybody


def brief(guarantee: Guarantee, notes: int) -> tuple[str, str, str]:
    """The guarantee in three lines: the bound, what holds without trust, where there is more."""
    many = guarantee.rounds * guarantee.columns * guarantee.reports
    alone = "each report may give the datum away"
    if math.isfinite(guarantee.local_epsilon):
        delta = f", δ0 = {up(guarantee.local_delta)}" if guarantee.local_delta else ""
        sent = "each report keeps" if many == 1 else f"one person's {many:,} reports keep"
        alone = f"{sent} ε0 = {up(guarantee.local_epsilon)}{delta}"
    bound = f"ε = {up(guarantee.epsilon)} at δ = {plain(guarantee.delta)}"
    more = f"{plural(len(guarantee.assumptions), 'assumption')}, {plural(notes, 'note')}"
    return (
        f"{bound}, proved, for each of {guarantee.n:,} honest people",
        f"the shuffler is trusted: if it colludes, {alone}",
        f"{more}: --verbose prints them, --report FILE has it all",
    )


def sentences(guarantee: Guarantee) -> dict[str, str]:
    """The meaning of the numbers, who is trusted, what holds without trust, how good the proof is.

    And what the local epsilon is of: each person makes one report per column and round.
    """
    epsilon, local, lower = guarantee.epsilon, guarantee.local_epsilon, down(guarantee.lower)
    many = guarantee.rounds * guarantee.columns * guarantee.reports
    together = f"one person's {many} reports together"
    crowd = "people must have followed the protocol"
    datum, between = "answer", "any two answers"
    if guarantee.reports > 1:
        datum = f"answers, all {guarantee.reports:,} rows together,"
        between = "any two sets of them"
    if guarantee.rounds > 1:
        followed = "reports must be from people who have followed the protocol"
        crowd = f"{followed}, at most {guarantee.rounds:,} from each"
    untrusted = "Nothing: if the names are kept, a report may give its sender's answer away."
    if math.isfinite(local):
        own, whole = ("report", "it") if many == 1 else ("reports", together)
        delta = f" and δ0 = {up(guarantee.local_delta)}" if guarantee.local_delta else ""
        rarely = ", except with a probability of about δ0" if delta else ""
        untrusted = (
            "If everybody else colludes and the names are kept after all, each person still has "
            f"the noise in their own {own}: ε0 = {up(local)}{delta} for {whole}, so the odds "
            f"move by at most a factor of {factor(local)}{rarely}."
        )
    tightness = f"A proved upper bound (theorem: {guarantee.theorem})."
    if guarantee.lower > 0 and guarantee.columns > 1:
        tightness += f" Some data really lose at least {lower}, by one column alone."
    elif guarantee.lower > 0:
        least = f"No analysis of this collection can prove less than {lower}"
        tightness += f" {least}: some data really lose that much."
    return {
        "meaning": (
            "Take any one of the people in this collection. Whatever somebody believed about that "
            f"person's {datum} before, after seeing everything that comes out of the shuffler the "
            f"odds between {between} have moved by at most a factor of {factor(epsilon)} "
            f"(ε = {up(epsilon)}), except with a probability of about "
            f"δ = {plain(guarantee.delta)}. It does not matter what else they know, or how clever "
            "they are."
        ),
        "trusted": (
            f"One promise has to be kept: {guarantee.trust}. And at least {guarantee.n:,} of the "
            f"{crowd}: they are the crowd that hides each of them."
        ),
        "untrusted": untrusted,
        "tightness": tightness,
        "reports": "each report alone" if many == 1 else together,
    }


# ------------------------------------------------------------ the privacy statement, for programs


def statement(result: Result) -> dict[str, object]:
    """The guarantee and how it comes about, as plain values."""
    return {
        "format": FORMAT,
        "guarantee": result.guarantee.to_dict(),
        "columns": [
            {
                **attributes(column, "column", "n"),
                "randomizer": attributes(column.randomizer, "name", *_SIZES),
                **attributes(column.guarantee, "epsilon", "delta"),
                "notes": list(column.notes),
            }
            for column in result.columns
        ],
        "notes": list(result.notes),
        "warnings": list(result.warnings),
        "contains_true_values": result.contains_truth,
    }

"""``shoal run``: columns of a table, collected as the shuffle model would, with a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from shoal.cli import files
from shoal.cli.app import ANALYSE, app, printable
from shoal.cli.options import (
    Excludes,
    Needs,
    OneOf,
    Options,
    RefusedError,
    Required,
    Rule,
    argument,
    choice,
    command,
    flag,
    number,
    option,
    read_bounds,
    whole,
)
from shoal.cli.render import console, print_json, reporting, show

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shoal.open_answers import OpenResult
    from shoal.report.charts import Axis, Item
    from shoal.report.result import ColumnResult, Result
    from shoal.values import Estimate, MeanEstimate, VectorEstimate

_WHAT = "What is collected"
_HOW = "How private: one of"
_CROWD = "Who takes part"
_OUT = "What to make of it"
_COLLECTION = ("honest_fraction", "messages_cap", "compare_truth")


class Split(StrEnum):
    """How the budget is shared by several columns."""

    COMPOSE = "compose"
    DIVIDE = "divide"


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """What is collected, how private, from whom, and what to make of it."""

    data: Annotated[
        Path, argument("A table, one person per row: CSV, Parquet, Arrow.", metavar="FILE")
    ]
    column: Annotated[
        list[str] | None, option("The column to collect; several if repeated.", _WHAT, "NAME")
    ] = None
    columns: Annotated[
        str | None,
        option("The coordinates of a vector, whose mean is estimated.", _WHAT, "NAME,NAME,…"),
    ] = None
    norm: Annotated[
        float | None,
        number("With --columns: the public length that longer vectors are cut to.", _WHAT),
    ] = None
    categories: Annotated[
        list[str] | None,
        option(
            "The public list of answers: a,b,c (blanks around commas do not count) or a file with "
            "one per line, kept as it is. Beside several columns: NAME=a,b,c.",
            _WHAT,
            "LIST",
        ),
    ] = None
    bounds: Annotated[
        list[str] | None,
        option(
            "Public bounds of a column of numbers (or NAME=LOW,HIGH); a number outside counts as "
            "the nearest bound.",
            _WHAT,
            "LOW,HIGH",
        ),
    ] = None
    drop_nulls: Annotated[
        bool, flag("--drop-nulls", "Leave out rows without an answer.", _WHAT)
    ] = False
    open: Annotated[
        bool, flag("--open", "Text without a list of answers: find the frequent ones.", _WHAT)
    ] = False
    top: Annotated[int | None, whole("With --open: show so many (50).", _WHAT)] = None
    length: Annotated[
        int | None, whole("With --open: the longest answer, in bytes (32).", _WHAT)
    ] = None
    alphabet: Annotated[
        str | None,
        option("With --open: the only characters of answers; fewer find more.", _WHAT, "CHARS"),
    ] = None
    epsilon: Annotated[float | None, number("ε: plans the rest by itself.", _HOW)] = None
    delta: Annotated[float | None, number("δ; min(1e-6, 1/(10 n)) if not given.", _HOW)] = None
    randomizer: Annotated[
        str | None, option("A randomizer by name, with --local-epsilon.", _HOW, "NAME")
    ] = None
    local_epsilon: Annotated[float | None, number("Its ε0.", _HOW)] = None
    plan: Annotated[Path | None, option("A plan of shoal plan --save.", _HOW, "FILE")] = None
    allow_weaker: Annotated[
        bool, flag("--allow-weaker", "Go on if too few people keep the plan's ε.", _HOW)
    ] = False
    local_epsilon_cap: Annotated[
        float | None, number("The most that ε0 of one report may be.", _HOW)
    ] = None
    messages_cap: Annotated[
        float | None,
        number("With --epsilon: messages one person may send on average (1).", _HOW),
    ] = None
    choose: Annotated[
        str | None,
        option("With --epsilon: run this option of the plan, not the best.", _HOW, "NAME"),
    ] = None
    split: Annotated[
        Split | None,
        choice(
            "Several --column: divide ε and δ equally (as with --epsilon unless said), or compose: "
            "each has all of it, and the result says what they cost together.",
            _HOW,
            Split,
        ),
    ] = None
    honest_fraction: Annotated[
        float | None, number("The fraction of people that follows the protocol.", _CROWD)
    ] = None
    report: Annotated[Path | None, option("Write a page to hand on (.html).", _OUT, "FILE")] = None
    csv: Annotated[Path | None, option("Write the estimates (.csv).", _OUT, "FILE")] = None
    json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False
    compare_truth: Annotated[
        bool, flag("--compare-truth", "Show true values too: no longer private.", _OUT)
    ] = False

    rules: ClassVar[tuple[Rule, ...]] = (
        Excludes(
            "open",
            (
                *("columns", "norm", "categories", "bounds", "drop_nulls", "randomizer"),
                *("local_epsilon", "plan", "allow_weaker", "local_epsilon_cap", "choose", "split"),
            ),
            "--open finds the answers by itself",
        ),
        *(Needs(name, ("open",), "text without a list") for name in ("top", "length", "alphabet")),
        Needs("open", ("epsilon",), "what the collection may cost each person"),
        OneOf(("epsilon", "randomizer", "plan"), "how private"),
        Needs("randomizer", ("local_epsilon",), "its ε0"),
        Needs("local_epsilon", ("randomizer",), "what has this ε0"),
        Required(
            "column",
            "which column of the file to collect (or --columns for a vector)",
            ("columns",),
        ),
    )
    arguments: ClassVar[dict[str, str]] = {"name": "choose"}

    def keywords(self) -> dict[str, Any]:
        """The arguments of :func:`shoal.run`."""
        keywords = self.only(
            *("column", "norm", "drop_nulls", "epsilon", "delta", "randomizer", "local_epsilon"),
            *("allow_weaker", "local_epsilon_cap", "choose", "split", *_COLLECTION),
        )
        if self.columns is not None:
            names = (part.strip() for part in self.columns.split(","))
            keywords["columns"] = [name for name in names if name]
        for name, read in (("categories", files.read_list), ("bounds", read_bounds)):
            texts = getattr(self, name) or []
            if texts and self.columns is None:
                by_column = (self._of_column(name, text) for text in texts)
                keywords[name] = {column: read(text) for column, text in by_column}
            elif texts:
                keywords[name] = texts
        if self.plan is not None:
            from shoal.planning import Plan

            keywords["plan"] = Plan.load(self.plan)
        return keywords

    def _of_column(self, name: str, text: str) -> tuple[str, str]:
        """``NAME=TEXT`` is about one of the columns, ``TEXT`` about the only one."""
        columns = self.column or []
        for column in columns:
            if text.startswith(f"{column}="):
                return column, text.removeprefix(f"{column}=")
        if len(columns) > 1:
            names = ", ".join(columns)
            raise RefusedError(f"say which column --{name} is for: --{name} NAME=…, one of {names}")
        return columns[0], text


@command(app, ANALYSE)
def run(options: RunOptions) -> None:
    """Randomize, shuffle and estimate columns of a table: a chart with its error and its ε."""
    files.check(report=options.report, csv=options.csv, never=options.data)
    if options.open and len(options.column or []) != 1:
        raise RefusedError("--open takes one --column of text")
    result: Result | OpenResult
    with reporting("collecting") as progress:
        import shoal

        if options.open:
            (column,) = options.column or []
            keywords = options.only("epsilon", "delta", "top", "length", "alphabet", *_COLLECTION)
            result = shoal.heavy_hitters(options.data, column=column, progress=progress, **keywords)
        else:
            result = shoal.run(options.data, progress=progress, **options.keywords())
    with files.together() as write:
        if options.report is not None:
            page = result.to_html()
            write(options.report, lambda path: path.write_text(page, encoding="utf-8"))
        if options.csv is not None:
            write(options.csv, result.to_csv)
    if options.json:
        print_json(result.to_dict())
        return
    show_result(result)
    for path in (options.report, options.csv):
        if path is not None:
            typer.echo(f"wrote {path}")


# ------------------------------------------------------------------------ charts in the terminal

SHOWN = 30
WIDTH = 34
_LABEL = 24
_ENDS = ("?", "!", ".", "…", ":")


def show_result(result: Result | OpenResult) -> None:
    """Print the charts, the guarantee, notes and warnings."""
    from shoal.report.result import Result

    page = console()
    if result.contains_truth:
        page.print("CONTAINS TRUE VALUES: NOT PRIVATE", style="bold red")
    if isinstance(result, Result):
        charts = [chart(column) for column in result.columns]
    else:
        charts = [_open_chart(result)]
    for parts in charts:
        for part in parts:
            page.print(part)
        page.print()
    show(replace(result.document(), table=None))


def chart(column: ColumnResult) -> Iterator[RenderableType]:
    """A column as lines of text."""
    from rich.text import Text

    from shoal.values import Estimate, VectorEstimate

    name = printable(column.column)
    joined = f"{name} Estimated" if name.endswith(_ENDS) else f"{name}, estimated"
    yield Text(f"{joined} from {column.n:,} reports", style="bold")
    if isinstance(column.estimate, Estimate):
        yield from _share_chart(column, column.estimate)
    elif isinstance(column.estimate, VectorEstimate):
        yield from _vector_chart(column, column.estimate)
    else:
        yield from _mean_chart(column, column.estimate)


def _share_chart(column: ColumnResult, estimate: Estimate) -> Iterator[RenderableType]:
    from shoal.report import charts

    rows = charts.items(column.labels, estimate, column.truth)
    shown = rows[:SHOWN]
    yield bars(shown)
    if len(rows) > len(shown):
        yield _dim(f"and {len(rows) - len(shown):,} more answers: --csv or --report has them all")
    noise = "" if all(row.significant for row in shown) else "; ~ cannot be told from nobody"
    truth = "; ◆ true share" if shown[0].truth is not None else ""
    yield _dim(f"\n█ share, ▒ its 95 % interval{noise}{truth}")


def _open_chart(result: OpenResult) -> Iterator[RenderableType]:
    """The answers as lines of text, the most frequent first."""
    from rich.text import Text

    people = f"{result.n:,} people, {result.mechanism.messages:.2f} messages each"
    yield Text(f"{printable(result.column)}, found in the reports of {people}", style="bold")
    if not result.items:
        yield Text("\nno answer stands out from the noise")
        return
    yield bars([item.shown(result.n) for item in result.items])
    truth = "; ◆ true share" if result.contains_truth else ""
    yield _dim(f"\n█ share, ▒ its 95 % interval{truth}")


def bars(rows: Sequence[Item]) -> RenderableType:
    """A line for each answer: a bar with its interval, the share and its margin."""
    from shoal.explain.text import measured
    from shoal.report.charts import Axis

    axis = Axis(0.0, max(*(row.high for row in rows), 1e-9))
    lines = []
    for row in rows:
        margin = measured(row.margin, row.margin) + ("" if row.significant else " ~")
        lines.append((row.label, bar(row, axis), row.shown(row.value), f"± {margin}"))
    return _grid(lines, ["" if row.significant else "dim" for row in rows])


def _grid(lines: list[tuple[str, str, str, str]], styles: list[str]) -> RenderableType:
    """A label, what is drawn, the value and its margin in each line."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, max_width=_LABEL, overflow="ellipsis")
    table.add_column(no_wrap=True, width=WIDTH)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="dim")
    for (label, *cells), style in zip(lines, styles, strict=True):
        table.add_row(*map(Text, [printable(label), *cells]), style=style)
    return Padding(table, (1, 0, 0, 0))


def _dim(text: str) -> RenderableType:
    from rich.text import Text

    return Text(text, style="dim")


def bar(row: Item, axis: Axis, width: int = WIDTH) -> str:
    """Solid up to the lower limit, shaded up to the upper one.

    >>> from shoal.report.charts import Axis, Item
    >>> row = Item("red", 5.0, 4.0, 6.0)
    >>> bar(row, Axis(0.0, 10.0), width=10)
    '████▒▒'
    """
    low, high = (round(width * axis.at(end) / 100) for end in (row.low, row.high))
    drawn = "█" * low + "▒" * max(high - low, 1 if row.high > 0 else 0)
    if row.truth is None:
        return drawn[:width]
    place = min(width - 1, int(width * axis.at(row.truth) / 100))
    drawn = drawn.ljust(place + 1)
    return (drawn[:place] + "◆" + drawn[place + 1 :])[:width]


def _mean_chart(column: ColumnResult, estimate: MeanEstimate) -> Iterator[RenderableType]:
    from rich.text import Text

    from shoal.explain.text import measured
    from shoal.report import charts

    low, high = estimate.interval()
    margin = (high - low) / 2
    mean, reach, first, last = (
        measured(value, margin) for value in (estimate.mean, margin, low, high)
    )
    yield Text(f"\nmean {mean} ± {reach}   (95 % interval {first} to {last})")
    bounds = charts.bounds(column)
    if bounds is not None:
        place = round((WIDTH - 1) * charts.Axis(*bounds).at(estimate.mean) / 100)
        line = "─" * place + "◆" + "─" * (WIDTH - 1 - place)
        yield Text(f"{charts.number(bounds[0])} ├{line}┤ {charts.number(bounds[1])}")
    if column.truth is not None:
        yield Text(f"true mean {measured(float(column.truth.ravel()[0]), margin)}", style="red")


def _vector_chart(column: ColumnResult, estimate: VectorEstimate) -> Iterator[RenderableType]:
    from shoal.report import charts

    rows = charts.items(column.labels, estimate, column.truth)
    shown = rows[:SHOWN]
    axis = charts.axis_of(shown)
    lines = [
        (row.label, interval(row, axis), row.shown(row.value), f"± {row.shown(row.margin)}")
        for row in shown
    ]
    yield _grid(lines, [""] * len(lines))
    if len(rows) > len(shown):
        more = len(rows) - len(shown)
        yield _dim(f"and {more:,} more coordinates: --csv or --report has them all")
    ends = f"{charts.number(axis.low)} to {charts.number(axis.high)}"
    truth = "; ◆ true mean" if shown[0].truth is not None else ""
    yield _dim(f"\n● mean, ━ its 95 % interval, ┊ zero, from {ends}{truth}")


def interval(row: Item, axis: Axis, width: int = WIDTH) -> str:
    """The interval of a coordinate, its mean in it, and zero.

    >>> from shoal.report.charts import Axis, Item
    >>> row = Item("x", 5.0, 4.0, 6.0)
    >>> interval(row, Axis(0.0, 10.0), width=11)
    '┊   ━●━    '
    """

    def at(value: float) -> int:
        return round((width - 1) * axis.at(value) / 100)

    drawn = [" "] * width
    drawn[at(0.0)] = "┊"
    low, high = at(row.low), at(row.high)
    drawn[low : high + 1] = "━" * (high - low + 1)
    drawn[at(row.value)] = "●"
    if row.truth is not None:
        drawn[at(row.truth)] = "◆"
    return "".join(drawn)

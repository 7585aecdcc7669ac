"""``shoal run``: columns of a table, collected as the shuffle model would, with a chart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal.cli import files
from shoal.cli.app import ANALYSE, NARROW, RefusedError, app, printable
from shoal.cli.options import Bounds, Excludes, Needs, OneOf, Options, Required, command, option
from shoal.cli.render import answer, console, show, working

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shoal.open_answers import OpenResult
    from shoal.report.charts import Axis, Item
    from shoal.report.result import ColumnResult, Result

_WHAT = "What is collected"
_HOW = "How private: one of"
_CROWD = "Who takes part"
_COLLECTION = ("honest_fraction", "messages_cap", "compare_truth")


Split = Literal["compose", "divide"]  # how the budget is shared by several columns


class RunOptions(Options):
    """What is collected, how private, from whom, and what to make of it."""

    data: Path = option("A table, one person per row: CSV, Parquet, Arrow.", name="FILE")
    column: list[str] | None = option("The column to collect; several if repeated.", _WHAT, "NAME")
    columns: str | None = option(
        "The coordinates of a vector, whose mean is estimated.", _WHAT, "NAME,NAME,…"
    )
    norm: float | None = option(
        "With --columns: the public length that longer vectors are cut to.", _WHAT
    )
    categories: list[str] | None = option(
        "The public list of answers: a,b,c (blanks around commas do not count) or a file with "
        "one per line, kept as it is. Beside several columns: NAME=a,b,c.",
        _WHAT,
        "LIST",
    )
    bounds: list[str] | None = option(
        "Public bounds of a column of numbers (or NAME=LOW,HIGH); a number outside counts as "
        "the nearest bound.",
        _WHAT,
        "LOW,HIGH",
    )
    drop_nulls: bool = option("Leave out rows without an answer.", _WHAT)
    open: bool = option("Text without a list of answers: find the frequent ones.", _WHAT)
    top: int | None = option("With --open: show so many (50).", _WHAT)
    length: int | None = option("With --open: the longest answer, in bytes (32).", _WHAT)
    alphabet: str | None = option(
        "With --open: the only characters of answers; fewer find more.", _WHAT, "CHARS"
    )
    epsilon: float | None = option("ε: plans the rest by itself.", _HOW)
    delta: float | None = option("δ; the smaller of 1e-6 and 1/(10 n) if not given.", _HOW)
    randomizer: str | None = option("A randomizer by name, with --local-epsilon.", _HOW, "NAME")
    local_epsilon: float | None = option("Its ε0.", _HOW)
    plan: Path | None = option("A plan of shoal plan --save.", _HOW)
    allow_weaker: bool = option("Go on if too few people keep the plan's ε.", _HOW)
    local_epsilon_cap: float | None = option("The most that ε0 of one report may be.", _HOW)
    messages_cap: float | None = option(
        "With --epsilon: messages one person may send on average (1).", _HOW
    )
    choose: str | None = option(
        "With --epsilon: run this option of the plan, not the best.", _HOW, "NAME", keyword="name"
    )
    split: Split | None = option(
        "Several --column: divide ε and δ equally (as with --epsilon unless said), or compose: "
        "each has all of it, and the result says what they cost together.",
        _HOW,
    )
    honest_fraction: float | None = option(
        "The fraction of people that follows the protocol.", _CROWD
    )
    report: Path | None = option("Write a page to hand on (.html).")
    csv: Path | None = option("Write the estimates (.csv).")
    compare_truth: bool = option("Show true values too: no longer private.")

    rules = (
        Excludes(
            "open",
            (
                *("columns", "norm", "categories", "bounds", "drop_nulls", "randomizer"),
                *("local_epsilon", "plan", "allow_weaker", "local_epsilon_cap", "split"),
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

    def keywords(self) -> dict[str, Any]:
        """The arguments of :func:`shoal.run`."""
        keywords = self.only(
            *("column", "norm", "drop_nulls", "epsilon", "delta", "randomizer", "local_epsilon"),
            *("allow_weaker", "local_epsilon_cap", "split", *_COLLECTION),
        )
        if self.choose is not None:
            keywords["choose"] = self.choose
        if self.columns is not None:
            names = (part.strip() for part in self.columns.split(","))
            keywords["columns"] = [name for name in names if name]
        for name, read in (("categories", files.read_list), ("bounds", Bounds.read)):
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
    with working("collecting") as progress:
        import shoal

        if options.open:
            (column,) = options.column or []
            keywords = options.only("epsilon", "delta", "top", "length", "alphabet", *_COLLECTION)
            result = shoal.heavy_hitters(options.data, column=column, progress=progress, **keywords)
        else:
            result = shoal.run(options.data, progress=progress, **options.keywords())
    files.write(files.text(options.report, result.to_html), (options.csv, result.to_csv))
    if not options.json:
        show_charts(result)
    document = result.document(table=False)
    answer(options, result.to_dict(), document, options.report, options.csv)


# ------------------------------------------------------------------------ charts in the terminal

SHOWN = 30
WIDTH, _LABEL, _NUMBERS = 34, 24, 20  # letters of bars, labels, and numbers beside them
_ENDS = ("?", "!", ".", "…", ":")
_MARGIN = "± half of the 95 % interval"
_MORE = "--csv or --report has them all"


def show_result(result: Result | OpenResult) -> None:
    """Print the charts, the guarantee, notes and warnings."""
    show_charts(result)
    show(result.document(table=False))


def show_charts(result: Result | OpenResult) -> None:
    """Print what was estimated."""
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


def chart(column: ColumnResult) -> Iterator[RenderableType]:
    """A column as lines of text."""
    from rich.text import Text

    from shoal.report import charts
    from shoal.values import MeanEstimate, VectorEstimate

    name = printable(column.column)
    joined = f"{name} Estimated" if name.endswith(_ENDS) else f"{name}, estimated"
    yield Text(f"{joined} from {column.n:,} reports", style="bold")
    rows = charts.items(column.labels, column.estimate, column.truth)
    if isinstance(column.estimate, MeanEstimate):
        yield from _mean_chart(rows[0], charts.bounds(column))
    else:
        yield from bars(rows, signed=isinstance(column.estimate, VectorEstimate))


def bars(rows: list[Item], most: int = SHOWN, *, signed: bool = False) -> Iterator[RenderableType]:
    """A bar for each of the first answers, and what its signs mean.

    Of coordinates, which are ``signed``, an interval on a common axis.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from shoal.explain.text import measured, number
    from shoal.report.charts import Axis, axis_of

    shown = rows[:most]
    narrow = console().width < NARROW
    axis = Axis(0.0, max(*(max(row.high, row.truth or 0.0) for row in shown), 1e-9))
    if signed:
        axis = axis_of(shown)
    width = max(1, min(WIDTH, console().width - _LABEL - _NUMBERS))
    table = Table.grid(padding=(0, 1))
    if narrow:
        table.add_column(overflow="fold")
    else:
        table.add_column(no_wrap=True, max_width=_LABEL, overflow="ellipsis")
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="dim")
    for row in shown:
        faint = not (signed or row.significant)
        margin = row.shown(row.margin) if signed else measured(row.margin, row.margin)
        drawn = (interval if signed else bar)(row, axis, width)
        numbers = row.shown(row.value), f"± {margin}{' ~' * faint}"
        cells = [row.label, *numbers] if narrow else [row.label, drawn, *numbers]
        table.add_row(*map(printable, cells), style="dim" if faint else "")
    yield Padding(table, (1, 0))
    if len(rows) > len(shown):
        what = "coordinates" if signed else "answers"
        yield Text(f"and {len(rows) - len(shown):,} more {what}: {_MORE}", style="dim")
    noise = "; ~ cannot be told from nobody"
    if signed or all(row.significant for row in shown):
        noise = ""
    legend = "█ fraction, ▒ its 95 % interval"
    if signed:
        ends = f"{number(axis.low)} to {number(axis.high)}"
        legend = f"● mean, ━ its 95 % interval, ┊ zero, from {ends}"
    truth = f"; ◆ true {'mean' if signed else 'fraction'}" if shown[0].truth is not None else ""
    legend = f"{_MARGIN}{noise}" if narrow else f"{legend}{noise}{truth}"
    yield Text(printable(legend), style="dim")


def _open_chart(result: OpenResult) -> Iterator[RenderableType]:
    """The answers as lines of text, the most frequent first."""
    from rich.text import Text

    people = f"{result.n:,} people, {result.mechanism.messages:.2f} messages each"
    heading = printable(f"{result.column}, found in the reports of {people}")
    yield Text(heading, style="bold")
    if result.items:
        yield from bars([item.shown(result.n) for item in result.items], len(result.items))
    else:
        yield Text("\nno answer stands out from the noise")


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


def _mean_chart(mean: Item, bounds: tuple[float, float] | None) -> Iterator[RenderableType]:
    from rich.text import Text

    from shoal.explain.text import number
    from shoal.report.charts import Axis

    value, interval = mean.cells
    yield Text("")
    shown = f"mean {value} ± {mean.shown(mean.margin)}   (95 % interval {interval})"
    yield Text(printable(shown))
    if bounds is not None:
        start, end = map(number, bounds)
        last_place = min(WIDTH, console().width - len(start + end) - 4) - 1
        place = round(last_place * Axis(*bounds).at(mean.value) / 100)
        line = "─" * place + "◆" + "─" * (last_place - place)
        yield Text(printable(f"{start} ├{line}┤ {end}"))
    if mean.truth is not None:
        yield Text(f"true mean {mean.shown(mean.truth)}", style="red")


def interval(row: Item, axis: Axis, width: int = WIDTH) -> str:
    """The interval of a coordinate, its mean in it, and zero.

    >>> from shoal.report.charts import Axis, Item
    >>> row = Item("x", 5.0, 4.0, 6.0)
    >>> interval(row, Axis(0.0, 10.0), width=11)
    '┊   ━●━    '
    """
    zero, low, high, mean = (
        round((width - 1) * axis.at(value) / 100) for value in (0.0, row.low, row.high, row.value)
    )
    drawn = [" "] * width
    drawn[zero] = "┊"
    drawn[low : high + 1] = "━" * (high - low + 1)
    drawn[mean] = "●"
    if row.truth is not None:
        drawn[round((width - 1) * axis.at(row.truth) / 100)] = "◆"
    return "".join(drawn)

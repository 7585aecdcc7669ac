"""A result in the terminal: bars with their intervals, the guarantee, and what to know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from shoal.cli.app import printable
from shoal.cli.render import console, panel
from shoal.engines.limits import WEAKER
from shoal.report import mean, shares, vectors
from shoal.report.axis import Axis
from shoal.values import Estimate, MeanEstimate, VectorEstimate

if TYPE_CHECKING:
    from shoal.pipeline import ColumnResult, Result

SHOWN = 30
WIDTH = 34
_LABEL = 24
_ENDS = ("?", "!", ".", "…", ":")
NOT_PRIVATE = "contains true values: not private"


def show(result: Result) -> None:
    """Print the charts, the guarantee and the notes."""
    page = console()
    if result.contains_truth:
        page.print(NOT_PRIVATE.upper(), style="bold red")
    for column in result.columns:
        for part in chart(column):
            page.print(part)
        page.print()
    page.print(panel(result.guarantee.document()))
    for note in result.notes:
        weaker = WEAKER in note
        page.print(f"{'warning' if weaker else 'note'}: {note}", style="yellow" if weaker else "")
    for warning in result.guarantee.warnings:
        page.print(f"warning: {warning}", style="yellow")


def chart(column: ColumnResult) -> Iterator[RenderableType]:
    """A column as lines of text."""
    name = printable(column.column)
    joined = f"{name} Estimated" if name.endswith(_ENDS) else f"{name}, estimated"
    yield Text(f"{joined} from {column.n:,} reports", style="bold")
    if isinstance(column.estimate, Estimate):
        yield from _bars(column, column.estimate)
    elif isinstance(column.estimate, VectorEstimate):
        yield from _vector(column, column.estimate)
    else:
        yield from _mean(column, column.estimate)


def _bars(column: ColumnResult, estimate: Estimate) -> Iterator[RenderableType]:
    rows = shares.rows(column, estimate)
    shown = rows[:SHOWN]
    axis = Axis(0.0, max(*(row.high for row in shown), 1e-9))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, max_width=_LABEL, overflow="ellipsis")
    table.add_column(no_wrap=True, width=WIDTH)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="dim")
    for row in shown:
        style = "" if row.significant else "dim"
        cells = [printable(row.label), bar(row, axis), shares.percent(row.value), _margin(row)]
        table.add_row(*(Text(cell) for cell in cells), style=style)
    yield Padding(table, (1, 0, 0, 0))
    if len(rows) > len(shown):
        more = len(rows) - len(shown)
        yield Text(f"and {more:,} more answers: --csv or --report has them all", style="dim")
    yield Padding(Text(f"█ share, ▒ its 95 % interval{_said(shown)}", style="dim"), (1, 0, 0, 0))


def _said(shown: list[shares.Row]) -> str:
    dim = "" if all(row.significant for row in shown) else "; ~ cannot be told from nobody"
    return dim + ("; ◆ true share" if shown[0].truth is not None else "")


def bar(row: shares.Row, axis: Axis, width: int = WIDTH) -> str:
    """Solid up to the lower limit, shaded up to the upper one.

    >>> row = shares.Row("red", 5.0, 4.0, 6.0, 50.0, significant=True, truth=None)
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


def _margin(row: shares.Row) -> str:
    reach = (row.high - row.low) / 2
    return f"± {reach:.2f}" + ("" if row.significant else " ~")


def _mean(column: ColumnResult, estimate: MeanEstimate) -> Iterator[RenderableType]:
    low, high = estimate.interval()
    said = (
        f"mean {mean.number(estimate.mean)} ± {mean.margin(estimate)}   "
        f"(95 % interval {mean.number(low)} to {mean.number(high)})"
    )
    yield Padding(Text(said), (1, 0, 0, 0))
    bounds = mean.bounds(column)
    if bounds is not None:
        axis = Axis(*bounds)
        place = round((WIDTH - 1) * axis.at(estimate.mean) / 100)
        line = "─" * place + "◆" + "─" * (WIDTH - 1 - place)
        yield Text(f"{mean.number(axis.low)} ├{line}┤ {mean.number(axis.high)}")
    if column.truth is not None:
        yield Text(f"true mean {mean.number(float(column.truth.ravel()[0]))}", style="red")


def _vector(column: ColumnResult, estimate: VectorEstimate) -> Iterator[RenderableType]:
    rows = vectors.rows(column, estimate)
    shown = rows[:SHOWN]
    axis = vectors.spanned(shown)
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, max_width=_LABEL, overflow="ellipsis")
    table.add_column(no_wrap=True, width=WIDTH)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="dim")
    for row in shown:
        cells = [printable(row.label), line(row, axis), mean.number(row.value), f"± {row.margin}"]
        table.add_row(*(Text(cell) for cell in cells))
    yield Padding(table, (1, 0, 0, 0))
    if len(rows) > len(shown):
        more = len(rows) - len(shown)
        yield Text(f"and {more:,} more coordinates: --csv or --report has them all", style="dim")
    ends = f"{mean.number(axis.low)} to {mean.number(axis.high)}"
    truth = "; ◆ true mean" if shown[0].truth is not None else ""
    said = f"● mean, ━ its 95 % interval, ┊ zero, from {ends}{truth}"
    yield Padding(Text(said, style="dim"), (1, 0, 0, 0))


def line(row: vectors.Row, axis: Axis, width: int = WIDTH) -> str:
    """The interval of a coordinate, its mean in it, and zero.

    >>> row = vectors.Row("x", value=5.0, low=4.0, high=6.0, error=0.5, truth=None)
    >>> line(row, Axis(0.0, 10.0), width=11)
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

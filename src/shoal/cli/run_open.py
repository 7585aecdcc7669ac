"""Open answers in the terminal: bars with their intervals, what is sure, and the guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from shoal.cli.app import printable
from shoal.cli.render import console, panel
from shoal.cli.run_show import NOT_PRIVATE, WIDTH, bar
from shoal.report import shares
from shoal.report.axis import Axis

if TYPE_CHECKING:
    from shoal.open_results import OpenItem, OpenResult

_LABEL = 24


def show(result: OpenResult) -> None:
    """Print the answers, what is sure about them, the guarantee and the notes."""
    page = console()
    if result.contains_truth:
        page.print(NOT_PRIVATE.upper(), style="bold red")
    for part in chart(result):
        page.print(part)
    page.print()
    page.print(panel(result.guarantee.document()))
    page.print(f"list: {result.statement}")
    if result.missed is not None:
        page.print(f"of the answers above their threshold, {len(result.missed)} were missed")
    for note in result.notes:
        page.print(f"note: {note}", style="" if result.found.complete else "yellow")
    for warning in result.guarantee.warnings:
        page.print(f"warning: {warning}", style="yellow")


def chart(result: OpenResult) -> Iterator[RenderableType]:
    """The answers as lines of text, the most frequent first."""
    people = f"{result.n:,} people, {result.mechanism.messages:.2f} messages each"
    yield Text(f"{printable(result.column)}, found in the reports of {people}", style="bold")
    if not result.items:
        yield Padding(Text("no answer stands out from the noise"), (1, 0, 0, 0))
        return
    axis = Axis(0.0, 100 * max(item.high for item in result.items))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, max_width=_LABEL, overflow="ellipsis")
    table.add_column(no_wrap=True, width=WIDTH)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="dim")
    for item in result.items:
        row = _row(item)
        reach = (row.high - row.low) / 2
        cells = [printable(row.label), bar(row, axis), shares.percent(row.value), f"± {reach:.3f}"]
        table.add_row(*(Text(cell) for cell in cells))
    yield Padding(table, (1, 0, 0, 0))
    truth = "; ◆ true share" if result.contains_truth else ""
    yield Padding(Text(f"█ share, ▒ its 95 % interval{truth}", style="dim"), (1, 0, 0, 0))


def _row(item: OpenItem) -> shares.Row:
    per_person = item.share / item.count if item.count else 0.0
    return shares.Row(
        label=item.label,
        value=100 * item.share,
        low=100 * item.low,
        high=100 * item.high,
        people=item.count,
        significant=True,
        truth=None if item.truth is None else 100 * item.truth * per_person,
    )

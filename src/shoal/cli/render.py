"""What a command prints: a document for people, or JSON and nothing else; and its progress."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli.app import NARROW, printable
from shoal.explain.document import Document, Table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from shoal.cli.options import Options
    from shoal.cli.run import RunOptions
    from shoal.explain.text import Item
    from shoal.open_answers import OpenResult
    from shoal.results.charts import Axis, Panel
    from shoal.results.result import ColumnResult, Result

WIDEST = 100
_QUIET_SECONDS = 2.0  # without a bar
SHOWN = 30
WIDTH, _LABEL, _NUMBERS = 34, 24, 20  # letters of bars, labels, and numbers beside them
_ENDS = ("?", "!", ".", "…", ":")
_MARGIN = "± half of the 95 % interval"
_MORE = "--csv or --report has them all"
_STYLES = {"strong": "bold", "weak": "dim", "": ""}


def console() -> Console:
    """Standard output: no wider than is good to read, nothing in it read as markup."""
    from rich.console import Console

    page = Console(highlight=False, markup=False, emoji=False)
    page.width = min(page.width, WIDEST)
    return page


def show(document: Document) -> None:
    """Print a document: its table, its facts in a frame, sentences, notes and warnings."""
    page = console()
    if document.table is not None:
        page.print(table(document.table))
    for sentence in document.sentences:
        page.print(printable(sentence))
    if document.facts:
        page.print(panel(document))
    for note in document.notes:
        page.print(printable(f"note: {note}"))
    for warning in document.warnings:
        page.print(printable(f"warning: {warning}"), style="yellow")


def answer(options: Options, values: object, *parts: Document | str | Path | None) -> None:
    """Print the values if ``--json`` is given; else the parts, one after the other.

    A document in its frame, text as plain lines, and of a path that a file was written there.
    """
    if options.json:
        print_json(values)
        return
    for part in parts:
        if isinstance(part, Document):
            show(part)
        elif part is not None:
            print_lines(f"wrote {part}" if isinstance(part, Path) else part)


def answer_brief(options: RunOptions, result: Result | OpenResult, *written: Path | None) -> None:
    """Print the values if ``--json`` is given; else charts, findings and three lines on privacy.

    With ``--verbose`` the guarantee, its assumptions and all notes.
    """
    if not options.json:
        show_charts(result)
        if not options.verbose:
            from shoal.results.result import brief

            lines = (*result.findings, *brief(result.guarantee, len(result.notes)))
            show(Document("", sentences=lines, warnings=result.warnings))
            for path in filter(None, written):
                typer.echo(printable(f"wrote {path}"))
            return
    answer(options, result, result.document(table=False), *written)


def panel(document: Document) -> RenderableType:
    """The facts in a frame; where that has no room, one below the other."""
    from rich.panel import Panel
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(printable(document.title), style="bold")
    rows = RichTable.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    lines = [title]
    for label, text in document.facts:
        rows.add_row(printable(label), printable(text))
        lines.append(Text(printable(f"{label}: {text}" if label else text)))
    if console().width < NARROW:
        return Text("\n").join(lines)
    return Panel(rows, title=title, title_align="left")


def table(shown: Table) -> RenderableType:
    """A table between two lines; where its cells have no room, row by row."""
    from rich import box
    from rich.table import Table as RichTable

    headings, footer = ([*map(printable, cells)] for cells in (shown.headings, shown.footer))
    rows = [[*map(printable, row.cells)] for row in shown.rows]
    drawn = RichTable(
        box=box.HORIZONTALS,
        title=printable(shown.title) or None,
        title_justify="left",
        title_style="bold",
        show_footer=bool(footer),
    )
    room = 1
    for place, heading in enumerate(headings):
        cells = [heading, *(row[place] for row in [*rows, *([footer] if footer else [])])]
        whole = place in shown.numeric or place == 0
        drawn.add_column(
            heading,
            footer=footer[place] if footer else "",
            justify="right" if place in shown.numeric else "left",
            no_wrap=whole,
            overflow="fold",
        )
        parts = (part for cell in cells for part in ([cell] if whole else cell.split()))
        room += 3 + max(map(len, parts), default=0)
    for cells, row in zip(rows, shown.rows, strict=True):
        drawn.add_row(*cells, style=_STYLES[row.emphasis])
    if room <= console().width:
        return drawn
    lines = [printable(shown.title)]
    for cells in [*rows, *([footer] if footer else [])]:
        lines.append("")
        for place, (name, cell) in enumerate(zip(headings, cells, strict=True)):
            if cell:
                lines.append(f"{'  ' * (place > 0)}{f'{name}: ' * bool(name)}{cell}")
    return "\n".join(lines).strip() + "\n"


def print_lines(text: object) -> None:
    """Print a document or text as plain lines, to be copied: nothing is cut or wrapped."""
    for line in str(text).splitlines():
        typer.echo(printable(line))


def print_json(value: object) -> None:
    """Strict JSON, of values or of what turns into them; what is not finite is null."""
    from shoal.explain.text import finite

    if hasattr(value, "to_dict"):
        value = value.to_dict()
    typer.echo(json.dumps(finite(value), ensure_ascii=False, allow_nan=False, indent=2))


@contextmanager
def working(what: str) -> Iterator[Callable[..., None]]:
    """A spinner, and a progress bar on work over two seconds; call it with done and total.

    On standard error; silent if nobody watches. It may get the name of what is next, too.
    """
    from rich.console import Console
    from rich.progress import Progress, TaskID

    terminal = Console(stderr=True)
    began = time.monotonic()
    bars: list[tuple[Progress, TaskID]] = []
    with ExitStack() as stack:
        spinner = stack.enter_context(terminal.status(f"{what} …"))

        def advance(done: int, total: int, name: str = "") -> None:
            if not bars and terminal.is_terminal and time.monotonic() - began > _QUIET_SECONDS:
                spinner.stop()
                bar = stack.enter_context(Progress(console=terminal, transient=True))
                bars.append((bar, bar.add_task(what)))
            for bar, task in bars:
                bar.update(task, completed=done, total=total, description=f"{what} {name}".strip())

        yield advance


# ------------------------------------------------------------------------ charts in the terminal


def show_result(result: Result | OpenResult) -> None:
    """Print the charts, the guarantee, notes and warnings."""
    show_charts(result)
    show(result.document(table=False))


def show_charts(result: Result | OpenResult) -> None:
    """Print what was estimated."""
    from shoal.results.result import Result

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

    name = printable(column.title)
    joined = f"{name} Estimated" if name.endswith(_ENDS) else f"{name}, estimated"
    yield Text(f"{joined} from {column.n:,} reports", style="bold")
    rows, kind = column.items(SHOWN), column.kind
    if kind == "groups":
        yield from _multiples(column.panels())
    elif kind == "mean":
        yield from _mean_chart(rows[0], column.bounds)
    elif not rows:
        yield Text("\nno mean: there may be nobody with a number")
    else:
        yield from bars(rows, what=kind if kind in {"coordinates", "means"} else "answers")
        if column.bins is not None and len(rows) < len(column.labels):
            more = f"a bar is several of {len(column.bins):,} bins: {_MORE}"
            yield Text(more, style="dim")


def _multiples(panels: list[Panel]) -> Iterator[RenderableType]:
    """A chart for each group, all on one axis, and once what the signs mean."""
    from rich.text import Text

    drawn = [panel for panel in panels if panel.items]
    most = max((item.high for panel in drawn for item in panel.items[:SHOWN]), default=1.0)
    for panel in panels:
        yield Text("")
        yield Text(printable(f"{panel.label}: {panel.people}"), style="bold")
        if panel.items:
            yield from bars(panel.items, most=SHOWN, end=most, legend=panel is drawn[-1])


def bars(
    rows: list[Item],
    most: int = SHOWN,
    *,
    what: str = "answers",
    end: float = 0.0,
    legend: bool = True,
) -> Iterator[RenderableType]:
    """A bar for each of the first answers, and what its signs mean, unless that is said elsewhere.

    Of coordinates and means, which have signs, an interval on a common axis. Bars of several charts
    have one ``end``.
    """
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from shoal.explain.text import measured, number
    from shoal.results.charts import Axis, axis_of

    shown, signed = rows[:most], what != "answers"
    narrow = console().width < NARROW
    axis = Axis(0.0, max(end, *(max(row.high, row.truth or 0.0) for row in shown), 1e-9))
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
        drawn = drawn.ljust(width) if end else drawn
        numbers = row.shown(row.value), f"± {margin}{' ~' * faint}"
        cells = [row.label, *numbers] if narrow else [row.label, drawn, *numbers]
        table.add_row(*map(printable, cells), style="dim" if faint else "")
    yield Padding(table, (1, 0))
    if len(rows) > len(shown):
        yield Text(f"and {len(rows) - len(shown):,} more {what}: {_MORE}", style="dim")
    if not legend:
        return
    noise = "; ~ cannot be told from nobody"
    if signed or all(row.significant for row in shown):
        noise = ""
    signs = "█ fraction, ▒ its 95 % interval"
    if signed:
        ends = f"{number(axis.low)} to {number(axis.high)}"
        signs = f"● mean, ━ its 95 % interval, ┊ zero, from {ends}"
    truth = f"; ◆ true {'mean' if signed else 'fraction'}" if shown[0].truth is not None else ""
    signs = f"{_MARGIN}{noise}" if narrow else f"{signs}{noise}{truth}"
    yield Text(printable(signs), style="dim")


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

    >>> from shoal.explain.text import Item
    >>> from shoal.results.charts import Axis
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
    from shoal.results.charts import Axis

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
        uncut = "" if bounds is None else ", of numbers that are not cut to the bounds"
        yield Text(f"true mean {mean.shown(mean.truth)}{uncut}", style="red")


def interval(row: Item, axis: Axis, width: int = WIDTH) -> str:
    """The interval of a coordinate, its mean in it, and zero.

    >>> from shoal.explain.text import Item
    >>> from shoal.results.charts import Axis
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

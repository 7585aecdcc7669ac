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

WIDEST = 100
_QUIET_SECONDS = 2.0  # without a bar
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


def answer(options: Options, values: object, document: Document, *written: Path | None) -> None:
    """Print the values if ``--json`` is given; else the document, and which files were written."""
    if options.json:
        print_json(values)
        return
    show(document)
    for path in written:
        if path is not None:
            typer.echo(f"wrote {path}")


def answer_lines(options: Options, values: object, *parts: Document | str) -> None:
    """Print the values if ``--json`` is given; else plain lines."""
    if options.json:
        print_json(values)
    else:
        print_lines(*parts)


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


def print_lines(*parts: Document | str) -> None:
    """Print documents and texts as plain lines, to be copied: nothing is cut or wrapped."""
    for part in parts:
        for line in str(part).splitlines():
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

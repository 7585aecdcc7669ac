"""``shoal figures``: the published comparisons, redrawn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from shoal.cli.app import ACCOUNT, app
from shoal.cli.files import writing_to
from shoal.cli.options import Excludes, Options, Rule, command
from shoal.cli.render import counting, show
from shoal.explain.document import Document, Row, Table


@dataclass(frozen=True, kw_only=True)
class FiguresOptions(Options):
    """Which figures, and where they go."""

    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where to write them (shoal-figures); made if it is missing."
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option("--only", metavar="NAME", help="Draw this one only: see --list.")
    ] = None
    list: Annotated[bool, typer.Option("--list", help="List them instead of drawing.")] = False

    rules: ClassVar[tuple[Rule, ...]] = (Excludes("list", ("out",), "--list draws nothing"),)


@command(app, ACCOUNT)
def figures(options: FiguresOptions) -> None:
    """Draw how the published bounds compare: SVG, PNG and the numbers as CSV."""
    # Many small products: threads that multiply cost more than they give.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from shoal.figures import DRAWINGS, draw_all

    if options.list:
        rows = tuple(Row((drawing.name, drawing.title)) for drawing in DRAWINGS)
        show(Document("The figures", table=Table(("name", "figure"), rows)))
        return
    out = options.out or Path("shoal-figures")
    total = len(DRAWINGS) if options.name is None else 1
    with counting("drawing", total) as progress, writing_to(out):
        written = draw_all(out, only=options.name, progress=progress)
    for path in written:
        typer.echo(path)

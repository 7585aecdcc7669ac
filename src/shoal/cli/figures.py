"""``shoal figures``: the published comparisons, redrawn."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import typer

from shoal.cli.app import ACCOUNT, app
from shoal.cli.files import writing_to
from shoal.cli.options import BareOptions, Excludes, command, option
from shoal.cli.render import show, working
from shoal.explain.document import Document, Row, Table


class FiguresOptions(BareOptions):
    """Which figures, and where they go."""

    out: Path | None = option(
        "Directory for the figures, created if missing; default: shoal-figures.", metavar="DIR"
    )
    name: str | None = option(
        "Draw only this figure: --list shows the names.", metavar="NAME", name="--only"
    )
    list: bool = option("List the figures instead of drawing them.")

    rules = (Excludes("list", ("out",), "--list draws nothing"),)


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
    done = count()
    with working("drawing") as advance, writing_to(out):
        written = draw_all(
            out, only=options.name, progress=lambda name: advance(next(done), total, name)
        )
    for path in written:
        typer.echo(path)

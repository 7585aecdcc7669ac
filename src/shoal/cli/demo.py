"""``shoal demo``: a tour of one collection."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.output import console, working, writing_to


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write the figure; made if missing.")
    ] = Path("shoal-demo"),
) -> None:
    """A tour: one collection, what shuffling does for it, and what the numbers mean."""
    with writing_to(out):
        out.mkdir(parents=True, exist_ok=True)
    with working("loading"):
        from shoal.cli import tour, tour_figure

    page = console()
    for heading, section in tour.SECTIONS:
        with working(heading):
            parts = list(section())
        page.print()
        page.rule(heading, style="bold", align="left")
        for part in parts:
            page.print(part)
    with working("drawing"), writing_to(out):
        drawing = tour_figure.DRAWING
        written = drawing.write(drawing.table(), out)
    page.print()
    page.rule("A picture", style="bold", align="left")
    page.print("ε against the number of people, for this collection:")
    for path in written:
        typer.echo(f"  {path}")

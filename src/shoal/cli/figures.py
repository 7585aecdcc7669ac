"""``shoal figures``: the published comparisons, redrawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.files import writing_to
from shoal.cli.render import counting


def figures(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where to write them; made if it is missing.")
    ] = Path("shoal-figures"),
    only: Annotated[str | None, typer.Option(metavar="NAME", help="Draw this one only.")] = None,
) -> None:
    """Draw how the published bounds compare: SVG, PNG and the numbers as CSV."""
    from shoal.figures import NAMES, draw_all

    total = len(NAMES) if only is None else 1
    with counting("drawing", total) as progress, writing_to(out):
        written = draw_all(out, only=only, progress=progress)
    for path in written:
        typer.echo(path)

"""Notebooks of the documentation: run as a notebook runs them, and pictures for their gallery.

    python setup/notebooks.py docs/notebooks docs/notebooks/pictures

A picture is the figure of the cell with the tag ``picture``. The noise is new each time, so that
every run draws another one.
"""

from __future__ import annotations

import ast
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 480  # pixels of a picture
PICTURE = "picture"


@dataclass(frozen=True)
class Cell:
    """One cell, as the file has it."""

    kind: str
    name: str
    source: str
    metadata: dict[str, Any]

    @property
    def alt(self) -> str:
        """What is said in place of the cell's figure."""
        return str(self.metadata.get("mystnb", {}).get("image", {}).get("alt", ""))


@dataclass(frozen=True)
class Shown:
    """What a cell of code shows when it has run."""

    cell: Cell
    html: str
    figures: tuple[Figure, ...]


def cells(path: Path) -> list[Cell]:
    """The cells of a notebook, in their order."""
    return [
        Cell(each["cell_type"], each["id"], "".join(each["source"]), each["metadata"])
        for each in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]


def executed(path: Path) -> Iterator[Shown]:
    """Run all cells in one namespace, without a kernel.

    As in a notebook, a last expression without a semicolon shows itself, and so do the figures that
    were made.
    """
    from matplotlib import pyplot as plt

    names: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(path):
        if cell.kind != "code":
            continue
        file = f"{path.name}, {cell.name}"
        tree, last = ast.parse(cell.source, file), None
        if isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        exec(compile(tree, file, "exec"), names)  # noqa: S102 - a page of our own
        value = eval(compile(last, file, "eval"), names) if last else None  # noqa: S307 - the same
        silent = cell.source.rstrip().endswith(";")
        html = "" if silent or not hasattr(value, "_repr_html_") else str(value._repr_html_())
        figures = tuple(plt.figure(number) for number in plt.get_fignums())
        for figure in figures:
            figure.canvas.draw()
        yield Shown(cell, html, figures)
        plt.close("all")


def main() -> None:
    """Write one picture of each notebook."""
    import matplotlib as mpl
    from PIL import Image

    mpl.use("Agg")
    pages, pictures = map(Path, sys.argv[1:])
    pictures.mkdir(exist_ok=True)
    for path in sorted(pages.glob("*.ipynb")):
        for shown in executed(path):
            if PICTURE in shown.cell.metadata.get("tags", ()):
                file = io.BytesIO()
                shown.figures[0].savefig(file, dpi=160)
                with Image.open(file) as drawn:
                    height = round(drawn.height * WIDTH / drawn.width)
                    small = drawn.convert("RGB").resize((WIDTH, height), Image.Resampling.LANCZOS)
                small.quantize(64).save(pictures / f"{path.stem}.png", optimize=True)


if __name__ == "__main__":
    main()

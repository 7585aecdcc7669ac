"""A result put into words once: title, facts, a table, sentences, notes and warnings.

Guarantees, plans and results make one (``document()``); the terminal, HTML pages and notebooks
render it. JSON is made from the values themselves (``to_dict()``), with the same warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Cells = tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A line of a table; ``emphasis`` is "strong", "weak" or nothing."""

    cells: Cells
    emphasis: str = ""


@dataclass(frozen=True)
class Table:
    """Columns with headings; ``numeric`` are the columns whose cells are aligned as numbers."""

    headings: Cells
    rows: tuple[Row, ...]
    numeric: frozenset[int] = frozenset()
    title: str = ""
    footer: Cells = ()


@dataclass(frozen=True)
class Document:
    """A result in words, in the order in which it is read."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    table: Table | None = None
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Lines of text: the title, the facts in two columns, the table, and the rest."""
        lines = [self.title]
        lines += _columns(self.facts)
        if self.table is not None:
            lines += _columns([self.table.headings, *(row.cells for row in self.table.rows)])
        lines += self.sentences
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def to_html(self) -> str:
        """A fragment that keeps its style to itself, whatever page it stands in, light or dark.

        Everything is inside one element in which the page's own rules are reset (``all: initial``)
        and whose rules are inline: nothing of it reaches the page around it.
        """
        from shoal.explain.text import environment, render

        return render(environment(), "document.html", document=self)


def _columns(rows: Sequence[Cells]) -> list[str]:
    """Cells under each other, two blanks apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=False)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]

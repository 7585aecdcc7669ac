"""A result put into words once: title, facts, a table, sentences, notes and warnings.

Guarantees, plans and results make one (``document()``); the terminal, HTML pages and notebooks
render it. JSON is made from the values themselves (``to_dict()``), with the same warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

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
        parts = [_div(_BOLD, escape(self.title))]
        if self.facts:
            parts.append(_html_table([], [Row(fact) for fact in self.facts], frozenset()))
        if self.table is not None:
            if self.table.title not in {"", self.title}:
                parts.append(_div(_BOLD, escape(self.table.title)))
            rows = [*self.table.rows, *([Row(self.table.footer, "weak")] * bool(self.table.footer))]
            parts.append(_html_table(self.table.headings, rows, self.table.numeric))
        lines = [(_BLOCK, sentence) for sentence in self.sentences]
        lines += [(_BLOCK, f"note: {note}") for note in self.notes]
        lines += [(_WARNING, f"warning: {warning}") for warning in self.warnings]
        parts += [_div(style, escape(text)) for style, text in lines]
        return _div(_FRAME, "".join(parts))


# Colours that can be read on any ground: the frame brings its own.
_RESET = "all:initial;font:14px/1.45 system-ui,sans-serif;color:#1d2733;"
_FRAME = (
    f"{_RESET}display:block;background:#fff;border:1px solid #ccd3da;border-radius:6px;"
    "padding:10px 14px;max-width:56em;color-scheme:light;"
)
_BLOCK = f"{_RESET}display:block;margin:6px 0;"
_BOLD = f"{_BLOCK}font-weight:600;"
_WARNING = f"{_BLOCK}color:#8a5200;"
_TABLE = f"{_RESET}display:table;border-collapse:collapse;margin:6px 0;"
_ROW = f"{_RESET}display:table-row;"
_CELL = f"{_RESET}display:table-cell;padding:2px 14px 2px 0;vertical-align:top;"
_EMPHASIS = {"strong": "font-weight:600;", "weak": "color:#5b6875;", "": ""}


def _div(style: str, inner: str) -> str:
    """An element whose rules are important: no rule of the page is more so."""
    return f'<div style="{style.replace(";", " !important;")}">{inner}</div>'


def _html_table(headings: Cells | list[str], rows: list[Row], numeric: frozenset[int]) -> str:
    def cells(row: Row) -> str:
        style = f"{_CELL}{_EMPHASIS[row.emphasis]}"
        return "".join(
            _div(f"{style}text-align:right;" if place in numeric else style, escape(cell))
            for place, cell in enumerate(row.cells)
        )

    head = [Row(tuple(headings), "weak")] if headings else []
    return _div(_TABLE, "".join(_div(_ROW, cells(row)) for row in [*head, *rows]))


def _columns(rows: Sequence[Cells]) -> list[str]:
    """Cells under each other, two blanks apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=False)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]

"""Answers as people read them, 80 columns wide and without colour if need be, and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from shoal.accounting.comparison import Comparison
from shoal.accounting.guarantee import Guarantee
from shoal.accounting.rounding import decimals_for, down, down_to, plain, up, up_to
from shoal.cli.asked import Unknown
from shoal.cli.output import console, print_json

NOT_A_GUARANTEE = "for comparison only: not a guarantee"
LABELS = {"recalled": "recalled constant", "approximation": "approximation"}
NEIGHBOURS = {"replacement": "replacement: one person's datum becomes any other"}
_ALIKE = 1e-3
_EXACT = 7


@dataclass(frozen=True)
class Proved:
    """A guarantee; ``solved`` is what was looked for and its value.

    ``columns`` is how many reports each person makes at once, one of every column.
    """

    guarantee: Guarantee
    delta_is_answer: bool = False
    solved: tuple[Unknown, float] | None = None
    columns: int = 1

    def to_dict(self) -> dict[str, object]:
        """The guarantee's values, what was solved for, and the warnings."""
        values = self.guarantee.to_dict()
        if self.solved is not None:
            values |= {"solved": self.solved[0].value, "answer": self.solved[1]}
        return values | {"warnings": warnings(self.guarantee)}

    def show(self, *, as_json: bool) -> None:
        """Print it, for people or for programs."""
        if as_json:
            print_json(self.to_dict())
            return
        page = console()
        page.print(self.panel())
        for warning in warnings(self.guarantee):
            page.print(f"warning: {warning}", style="yellow")

    def panel(self) -> Panel:
        """The guarantee in a frame."""
        found = self.guarantee
        rows = Table.grid(padding=(0, 2))
        rows.add_column(no_wrap=True)
        rows.add_column()
        for label, text in _lines(found, self.columns):
            rows.add_row(label, text)
        return Panel(rows, title=Text(self._title(), style="bold"), title_align="left")

    def _title(self) -> str:
        found = self.guarantee
        if self.solved is not None:
            unknown, value = self.solved
            if unknown is Unknown.N:
                return f"n = {value:,} people are enough"
            return f"ε0 = {down(value, _EXACT)} on each device is private enough"
        if self.delta_is_answer:
            return f"δ = {up(found.delta)} at ε = {plain(found.epsilon)}"
        return f"ε = {up(found.epsilon)} at δ = {plain(found.delta)}"


@dataclass(frozen=True)
class Recalled:
    """One number that proves nothing, said so."""

    row: Comparison

    def show(self, *, as_json: bool) -> None:
        """Print it, for people or for programs."""
        if as_json:
            print_json(self.row.to_dict())
            return
        page = console()
        page.print(comparison_table((self.row,)))
        page.print(f"{self.row.name}: {LABELS[self.row.status]}, {NOT_A_GUARANTEE}", style="yellow")


@dataclass(frozen=True)
class Compared:
    """Every bound, tightest first."""

    rows: tuple[Comparison, ...]

    def show(self, *, as_json: bool) -> None:
        """Print them, for people or for programs."""
        if as_json:
            print_json([row.to_dict() for row in self.rows])
            return
        page = console()
        page.print(comparison_table(self.rows))
        for warning in _about_delta(self.rows[0].delta, self.rows[0].n):
            page.print(f"warning: {warning}", style="yellow")


def comparison_table(rows: tuple[Comparison, ...]) -> Table:
    """One line per bound, the lower bound under them."""
    first = rows[0]
    answers = [row.epsilon for row in rows if row.epsilon]
    decimals = decimals_for(min([first.lower or math.inf, *answers]))
    shown = Table(
        box=box.HORIZONTALS,
        title=_setting(first),
        title_justify="left",
        title_style="bold",
        show_footer=True,
    )
    shown.add_column("bound", footer="no bound below", no_wrap=True)
    shown.add_column("ε", footer=down_to(first.lower, decimals), justify="right", no_wrap=True)
    shown.add_column("theorem", footer="some data set really loses this much")
    for row in rows:
        style = "" if row.certified else "dim"
        value = "–" if row.epsilon is None else up_to(row.epsilon, decimals)
        shown.add_row(row.name, value, _theorem(row), style=style)
    return shown


def _setting(row: Comparison) -> str:
    local = plain(row.local_epsilon)
    return f"ε at δ = {plain(row.delta)}, {row.n:,} honest people, ε0 = {local}"


def warnings(found: Guarantee) -> list[str]:
    """What to know before relying on a guarantee."""
    said = _about_delta(found.delta, found.n)
    if 0 < found.local_epsilon * (1 - _ALIKE) <= found.epsilon:
        said.append("ε is hardly below ε0, if at all: that much holds without any shuffling")
    return said


def _about_delta(delta: float, n: int) -> list[str]:
    if delta < 1 / n:
        return []
    instead = f"publishing the datum of one of the {n:,} people, drawn at random, would pass too"
    return [f"δ is not smaller than 1/n: {instead}"]


def _theorem(row: Comparison) -> str:
    title = row.title[:1].upper() + row.title[1:]
    return f"{title} ({row.remark})" if row.remark else title


def _lines(found: Guarantee, columns: int) -> list[tuple[str, str]]:
    people = f"{found.n:,} honest"
    if found.rounds > 1:
        people += f", {found.rounds:,} rounds"
    room = [_room(found) if columns == 1 else ("really lost", _by_one_column(found))]
    return [
        ("epsilon", f"{up(found.epsilon)}, a proved upper bound"),
        ("delta", up(found.delta)),
        *(room if found.lower > 0 or found.delta == 0 or not found.epsilon else []),
        ("people", people),
        ("theorem", found.theorem),
        ("neighbours", NEIGHBOURS.get(found.neighbouring, found.neighbouring)),
        ("trusted", found.trust),
        ("without trust", _local(found, columns)),
        *zip(("assumes", *[""] * len(found.assumptions)), found.assumptions, strict=False),
    ]


def _room(found: Guarantee) -> tuple[str, str]:
    least = f"can prove less than {down(found.lower)}"
    if found.rounds > 1:
        return "lower bound", f"no analysis of the {found.rounds:,} rounds {least}"
    if found.delta == 0:
        return "room left", "none: δ cannot be below 0"
    if found.lower >= found.epsilon * (1 - _ALIKE):
        return "room left", f"none: no analysis {least}"
    below = 1 - found.lower / found.epsilon
    return "room left", f"{below:.1%}: no analysis {least}"


def _by_one_column(found: Guarantee) -> str:
    return f"at least {down(found.lower)}, by one column alone"


def _local(found: Guarantee, columns: int) -> str:
    reports = found.rounds * columns
    each = "each report" if reports == 1 else f"one person's {reports:,} reports together"
    if math.isinf(found.local_epsilon):
        return f"nothing: {each} may give the datum away"
    delta = f", δ0 = {up(found.local_delta)}" if found.local_delta else ""
    return f"ε0 = {up(found.local_epsilon, _EXACT)}{delta} for {each}, whoever colludes"

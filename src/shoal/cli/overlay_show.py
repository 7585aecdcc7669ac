"""Overlays as people and programs read them."""

from __future__ import annotations

from dataclasses import asdict

from rich import box
from rich.table import Table
from rich.text import Text

from shoal.accounting.guarantee import NEIGHBOURING
from shoal.cli.render import console
from shoal.explain.text import plain, up
from shoal.network.account import TRUST, WALKED
from shoal.network.overlays import MOST_ROUNDS, Comparison, Overlay

ADVERSARY = TRUST["final"]
_NEVER = f"> {MOST_ROUNDS:,}"


def to_dict(found: Comparison) -> dict[str, object]:
    """Plain values."""
    best = found.recommended
    return {
        "n": found.n,
        "degree": found.degree,
        **asdict(found.target),
        "overlays": [
            {**asdict(each), "most_messages": each.most_messages} for each in found.overlays
        ],
        "recommended": None if best is None else best.name,
        "adversary": ADVERSARY,
        "theorem": WALKED,
        "neighbouring": NEIGHBOURING,
    }


def show(found: Comparison) -> None:
    """Print the table and the recommendation."""
    page = console()
    page.print(Text(_title(found), style="bold"))
    page.print(table(found))
    page.print(
        Text(
            "An average peer holds one report and sends one message a round; the busiest, on "
            "average, as many as said.",
            style="dim",
        )
    )
    page.print()
    page.print(advice(found))
    page.print(
        f"For everybody, by the {WALKED}, replacement of one person's datum; {ADVERSARY}; nobody "
        f"who passes reports on works for it. Without that trust ε0 = "
        f"{plain(found.target.local_epsilon)} is what holds."
    )


def table(found: Comparison) -> Table:
    """One line for each overlay."""
    shown = Table(box=box.HORIZONTALS)
    shown.add_column("overlay", no_wrap=True)
    for heading in ("links", "rounds", "ε", "busiest: sends", "holds"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for each in found.overlays:
        shown.add_row(*_cells(each), style="bold" if each is found.recommended else "")
    return shown


def _title(found: Comparison) -> str:
    target = found.target
    return (
        f"{found.n:,} people, ε0 = {plain(target.local_epsilon)}, "
        f"ε <= {up(target.epsilon)} at δ = {plain(target.delta)}"
    )


def advice(found: Comparison) -> str:
    """Which one to build."""
    best = found.recommended
    central = up(found.target.central)
    if best is None:
        return (
            f"None with at most {found.degree:,} neighbours mixes in {MOST_ROUNDS:,} rounds: allow "
            "more neighbours."
        )
    return (
        f"Build {best.name}: {best.rounds} rounds keep ε = {up(best.epsilon or 0.0)} (a central "
        f"shuffler: {central}), with at most {found.degree:,} neighbours each."
    )


def _cells(each: Overlay) -> list[str]:
    if each.rounds is None:
        return [each.name, f"{each.neighbours:,}", _NEVER, "", "", ""]
    return [
        each.name,
        f"{each.neighbours:,}",
        f"{each.rounds:,}",
        up(each.epsilon or 0.0, 4),
        f"{each.most_messages or 0.0:,.0f}",
        f"{each.most_load:,.1f}",
    ]

"""A walk as people read it."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from shoal.cli.render import console, panel
from shoal.cli.walk_answer import Walked
from shoal.explain.text import decimals_for, plain, up_to
from shoal.network.simulation import Simulation


def show(found: Walked) -> None:
    """Print the table, the guarantee at its last row, what it costs, and what to know."""
    page = console()
    page.print(Text(_title(found), style="bold"))
    page.print(table(found))
    page.print(Text(_key(found), style="dim"))
    if found.asked.searched:
        page.print()
        page.print(_needed(found), style="bold")
    page.print(panel(found.guarantee.document()))
    for line in _costs(found):
        page.print(line)
    if found.simulation is not None:
        page.print(_simulated(found.simulation))
    for warning in found.warnings:
        page.print(f"note: {warning}", style="yellow")


def table(found: Walked) -> Table:
    """ε by rounds, one column for each share of people."""
    shown = Table(box=box.HORIZONTALS)
    shown.add_column("rounds", justify="right", no_wrap=True)
    for name in found.columns:
        shown.add_column(_heading(found, name), justify="right")
    decimals = decimals_for(found.central)
    for row in found.rows:
        cells = [up_to(epsilon, decimals) for epsilon in row.epsilons.values()]
        last = row.rounds == found.rounds
        shown.add_row(f"{row.rounds:,}", *cells, style="bold" if last else "")
    shown.add_section()
    references = (
        ("central shuffler", found.central),
        ("no amplification", found.guarantee.local_epsilon),
    )
    for name, epsilon in references:
        shown.add_row(name, *[up_to(epsilon, decimals)] * len(found.columns), style="dim")
    return shown


def _title(found: Walked) -> str:
    graph = found.graph
    return (
        f"ε at δ = {plain(found.guarantee.delta)}: {graph.n:,} people, {graph.edges:,} edges, "
        f"irregularity {graph.irregularity:.3g}"
    )


def _heading(found: Walked, name: str) -> str:
    return name if found.user is None else f"node {found.user}"


def _key(found: Walked) -> str:
    if found.user is not None:
        return (
            f"Of the report of node {found.user} alone, from {found.asked.runs:,} simulated runs."
        )
    others = ", ".join(found.columns[1:])
    return f"worst: of everybody; {others}: of that share of people, whose reports spread best."


def _needed(found: Walked) -> str:
    count = f"{found.rounds:,} round" + ("s" if found.rounds > 1 else "")
    if found.asked.epsilon is None:
        return f"{count}: within 10 % of a central shuffler's ε, for everybody"
    return f"{count} for ε = {plain(found.asked.epsilon)}, for everybody"


def _costs(found: Walked) -> list[str]:
    price = found.cost
    hub = price.most_messages / price.messages if price.messages else 1.0
    cost = (
        f"cost: {price.messages:,.0f} messages of {price.report_bytes:,} bytes by each peer "
        f"({_size(price.bytes_sent)}), {price.load:.0f} report held"
    )
    lines = [cost]
    if hub > 1.01:
        lines.append(
            f"      by the best connected peer {price.most_messages:,.0f} "
            f"({_size(price.most_bytes_sent)}), {price.most_load:.3g} held on average"
        )
    return lines


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.3g} {unit}"


def _simulated(found: Simulation) -> str:
    dummies = f", {found.dummies:,} dummies" if found.submit == "single" else ""
    return (
        f"simulated once: {found.moves:,} messages, {found.holders:,} holders, at most "
        f"{int(found.loads.max()):,} reports with one, {found.delivered_share:.1%} of the reports "
        f"arrive{dummies}"
    )

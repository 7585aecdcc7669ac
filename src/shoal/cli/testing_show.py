"""A test as people read it: the verdict first, then what it rests on."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from shoal.cli.app import printable
from shoal.cli.render import console, panel
from shoal.cli.testing_answer import Tested
from shoal.explain.text import plain
from shoal.protocols.partitioned import PartitionedDummies
from shoal.randomizers.partitioned import PartitionedResponse
from shoal.testing import Verdict

Partitioned = PartitionedResponse | PartitionedDummies


def show(found: Tested) -> None:
    """Print the verdict, its numbers, the guarantee, and what to know."""
    page = console()
    verdict = found.verdict
    page.print(Text(verdict.words, style="bold red" if verdict.rejected else "bold green"))
    page.print()
    page.print(_numbers(found))
    page.print(panel(verdict.guarantee.document()))
    for note in found.notes:
        page.print(f"note: {printable(note)}")
    for warning in found.warnings:
        page.print(f"warning: {warning}", style="yellow")


def p_value(verdict: Verdict) -> str:
    """The p-value; the smallest that so many simulations can show is a bound."""
    smallest = 1 / (verdict.simulations + 1)
    counted = f"({verdict.simulations:,} simulations)"
    if verdict.p_value <= smallest:
        return f"≤ {smallest:.2g} {counted}"
    return f"{verdict.p_value:.3g} {counted}"


def _numbers(found: Tested) -> Table:
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for label, text in _lines(found):
        rows.add_row(label, text)
    return rows


def _lines(found: Tested) -> list[tuple[str, str]]:
    verdict, best = found.verdict, found.design.recommended
    above = "above" if verdict.rejected else "not above"
    k = len(found.groups.answers.labels)
    return [
        ("p-value", p_value(verdict)),
        ("statistic", f"{verdict.statistic:,.5g}, {above} its threshold {verdict.threshold:,.5g}"),
        ("power", f"{verdict.power:.3f} at distance {plain(verdict.distance)} (predicted)"),
        ("people", f"{_people(found)}; one of {k:,} answers"),
        ("device", f"{_device(verdict)}, {best.coin} coins"),
        ("why", found.design.reason),
    ]


def _people(found: Tested) -> str:
    if len(found.groups.names) == 1:
        return f"{found.verdict.n:,}"
    sizes = zip(found.verdict.sizes, found.groups.names, strict=True)
    return " and ".join(f"{size:,} ({printable(name)})" for size, name in sizes)


def _device(verdict: Verdict) -> str:
    device = verdict.device
    if isinstance(device, Partitioned):
        layout = f" with {_count(device.partitions, 'partition')} of {device.symbols:,} symbols"
    else:
        layout = ""
    if math.isinf(device.local_epsilon):
        return f"{device.name}{layout}, {device.messages:,.4g} messages each"
    return f"{device.name}{layout}, ε0 = {device.local_epsilon:.4g}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"

"""What a load test found, as people read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.table import Table

from shoal.cli.app import printable
from shoal.cli.loadtest_answer import Tested
from shoal.cli.render import console
from shoal.service.loadtest import KINDS

_NAMES = {"fresh": "new reports", "replayed": "sent before", "forged": "forged"}
_BEHIND = 20.0  # milliseconds that a generator may be late before it is told


def show(tested: Tested) -> None:
    """Print it."""
    page = console()
    asked, found = tested.asked, tested.measured
    reports = f", {asked.bulk:,} reports in each" if asked.bulk > 1 else ""
    title = f"{printable(tested.survey.name)}: {asked.rate:,g} requests a second{reports}"
    page.print(title, style="bold", soft_wrap=True)
    page.print(_table(tested))
    for line in _lines(tested):
        page.print(line, soft_wrap=True)
    if found.interrupted:
        page.print("interrupted: this is what was measured until then", style="yellow")
    for line in _warnings(tested):
        page.print(f"warning: {line}", style="yellow", soft_wrap=True)
    for line in tested.broken:
        page.print(f"limit broken: {line}", style="red", soft_wrap=True)


def _table(tested: Tested) -> Table:
    made = Table(box=None, padding=(0, 2))
    made.add_column("milliseconds")
    for name in ("requests", "p50", "p95", "p99", "max"):
        made.add_column(name, justify="right")
    found = tested.measured
    rows = {_NAMES[kind]: (len(found.seconds[kind]), found.milliseconds(kind)) for kind in KINDS}
    shown = {name: row for name, row in rows.items() if row[0]}
    if len(shown) > 1:
        shown["all"] = (found.requests, found.milliseconds())
    for name, (count, figures) in shown.items():
        told = [f"{value:,.1f}" for value in (figures or {}).values()]
        made.add_row(name, f"{count:,}", *told)
    return made


def _lines(tested: Tested) -> Iterator[str]:
    found = tested.measured
    reports = f" ({found.rate * tested.asked.bulk:,.0f} reports)" if tested.asked.bulk > 1 else ""
    yield f"answered: {found.rate:,.1f} requests a second{reports} over {found.elapsed:,.1f} s"
    yield f"answers: {_counted(found.statuses)}"
    if found.refused_requests:
        yield f"refused requests: {_counted(found.refused_requests)}"
    if found.refused_reports:
        yield f"refused reports: {_counted(found.refused_reports)}"
    if found.longest_retry is not None:
        yield f"asked to wait: up to {found.longest_retry:,} s (Retry-After)"


def _warnings(tested: Tested) -> Iterator[str]:
    late = tested.measured.to_dict()["sent_late_milliseconds"]
    if isinstance(late, dict) and late["p99"] > _BEHIND:
        yield (
            f"this machine sent up to {late['p99']:,.0f} ms late (p99), and part of the latencies "
            "is its own: lower --rate, or send from another machine"
        )
    if tested.measured.refused_requests["too_many"]:
        yield (
            "the shuffler limits what comes from one address: test from its own machine, or start "
            "it with --behind-proxy for the test"
        )


def _counted(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} × {printable(name)}" for name, count in sorted(found.items()))

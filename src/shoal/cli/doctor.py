"""``shoal doctor``: whether everything is in order, and what to do if not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import flag
from shoal.cli.output import console, print_json, working
from shoal.cli.party_options import Store

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.service.running.findings import Finding

_OUT = "What to make of it"
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR|URL", help="Directories of parties, or addresses."),
    ] = None,
    *,
    store: Store = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
) -> None:
    """Look at this machine, a shuffler, an analyzer or both, and say what is not in order.

    Exits with status 1 if something is not. Needs no passphrase, and changes nothing.
    """
    from shoal.service.running.extras import need_database, need_server

    if targets:
        need_server("shoal doctor")
        need_database("shoal doctor", store)
    with working("looking"):
        if targets:
            from shoal.service.running.doctor import examine

            found = examine(targets, store=store)
            parts, state = found.parts, found.state.value
        else:
            parts, state = _machine()
    if as_json:
        checks = [
            {"of": name, **finding.to_dict()} for name, found in parts.items() for finding in found
        ]
        print_json({"state": state, "checks": checks})
    else:
        page = console()
        for name, findings in parts.items():
            page.print(name, style="bold")
            for finding in findings:
                _line(page, finding)
    if state == "fail":
        raise typer.Exit(1)


def _machine() -> tuple[dict[str, list[Finding]], str]:
    from shoal.service.running.doctor.machine import machine_findings
    from shoal.service.running.findings import worst

    found = list(machine_findings())
    return {"this machine": found}, worst(found).value


def _line(page: Console, finding: Finding) -> None:
    from rich.text import Text

    state = finding.state.value
    line = Text(f"  {state:<5}", style=_STYLES[state])
    line.append(f"{finding.check}: {finding.detail}", style="")
    page.print(line, soft_wrap=True)
    if finding.advice:
        page.print(f"        {finding.advice}", style="dim", soft_wrap=True)

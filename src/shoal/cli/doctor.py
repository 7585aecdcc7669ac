"""``shoal doctor``: whether everything is in order, and what to do if not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.options import flag
from shoal.cli.party_options import Store
from shoal.cli.render import console, print_json, working

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.service.running.findings import Examination, Finding

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
    with working("looking"):
        found = _with_scripts(_party(targets, store) if targets else _machine())
    if as_json:
        print_json(found.to_dict())
    else:
        page = console()
        for name, findings in found.parts.items():
            page.print(name, style="bold")
            for finding in findings:
                _line(page, finding)
    if found.state == "fail":
        raise typer.Exit(1)


def _party(targets: list[str], store: str | None) -> Examination:
    from shoal.service.running.extras import need_party

    need_party("shoal doctor", store)
    from shoal.service.running.doctor.examining import examine

    return examine(targets, store=store)


def _machine() -> Examination:
    """Also where nothing of the server is installed: that is one of the things to be told."""
    from shoal.service.running.doctor.machine import MACHINE, machine_findings
    from shoal.service.running.findings import Examination

    return Examination({MACHINE: list(machine_findings())})


def _with_scripts(found: Examination) -> Examination:
    """With whether the pages have their scripts, where an analyzer is or may come to be."""
    from shoal.service.running.doctor.machine import MACHINE
    from shoal.service.running.extras import SERVER, missing
    from shoal.service.running.findings import Examination, ok, warn

    others = [name for name in found.parts if name != MACHINE]
    concerned = not others or any(name.startswith("analyzer in ") for name in others)
    if not concerned or missing(SERVER):
        return found
    from shoal.web import assets

    lacking = assets.unbuilt()
    told = ok("pages", "their scripts are installed")
    if lacking:
        without = f"installed without {', '.join(lacking)}: nobody can answer in a browser"
        told = warn("pages", without, assets.BUILD)
    return Examination({**found.parts, MACHINE: [*found.parts[MACHINE], told]})


def _line(page: Console, finding: Finding) -> None:
    from rich.text import Text

    state = finding.state.value
    line = Text(f"  {state:<5}", style=_STYLES[state])
    line.append(f"{finding.check}: {finding.detail}", style="")
    page.print(line, soft_wrap=True)
    if finding.advice:
        page.print(f"        {finding.advice}", style="dim", soft_wrap=True)

"""``shoal doctor``: whether everything is in order, and what to do if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from shoal.cli.app import OPERATE, app
from shoal.cli.options import Options, command, option
from shoal.cli.party import STORE
from shoal.cli.render import console, print_json, working

if TYPE_CHECKING:
    from shoal.service.ops.health import Examination

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


class DoctorOptions(Options):
    """What is looked at; this machine if nothing is named."""

    targets: list[str] | None = option(
        "Directories of parties, or addresses.", name="DIR|URL", default=None
    )
    store: str | None = STORE


@command(app, OPERATE)
def doctor(options: DoctorOptions) -> None:
    """Check this machine, a shuffler, an analyzer or both, and say what is wrong and what to do.

    Exits with status 1 if something is wrong. Needs no passphrase, and changes nothing.
    """
    with working("looking"):
        examination = _examined(options)
    if options.json:
        print_json(examination)
    else:
        from rich.text import Text

        page = console()
        for name, findings in examination.parts.items():
            page.print(name, style="bold")
            for finding in findings:
                line = Text(f"  {finding.state.value:<5}", style=_STYLES[finding.state.value])
                line.append(f"{finding.check}: {finding.detail}", style="")
                page.print(line, soft_wrap=True)
                if finding.advice:
                    page.print(f"        {finding.advice}", style="dim", soft_wrap=True)
    if examination.state == "fail":
        raise typer.Exit(1)


def _examined(options: DoctorOptions) -> Examination:
    """With whether the pages have their scripts, where an analyzer is or may come to be."""
    from shoal.service.ops import health
    from shoal.service.ops.health import MACHINE

    if options.targets:
        health.need_server("shoal doctor", options.store)
        from shoal.service.ops.doctor import examine

        parts = examine(options.targets, store=options.store).parts
        analyzer = any(name.startswith("analyzer in ") for name in parts) or len(parts) == 1
    else:  # also where nothing of the server is installed: that is one of the findings
        parts = {MACHINE: list(health.machine_findings())}
        analyzer = True
    if analyzer and not health.missing(health.SERVER):
        from shoal.web import assets

        parts = parts | {MACHINE: [*parts[MACHINE], assets.finding()]}
    return health.Examination(parts)

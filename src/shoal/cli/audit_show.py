"""An audit as people read it."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from shoal.auditing import Audit, Evidence
from shoal.cli.render import console
from shoal.explain.text import down, plain, up

_SAYS = {
    "consistent": "consistent: nothing refutes what is claimed",
    "violated": "violated: more is lost than is claimed",
}
_STYLES = {"consistent": "bold green", "violated": "bold red"}


def show(found: Audit) -> None:
    """Print the verdict, the claims, and the evidence for each."""
    page = console()
    page.print(Text(_SAYS[found.verdict], style=_STYLES[found.verdict]))
    page.print(table(found))
    for each in found.evidences:
        page.print(f"{_name(each)}: {each.words}")
    page.print(
        f"{found.name}, {found.runs:,} runs on each data set; all lower bounds hold together with "
        f"confidence {plain(found.confidence)}, if runs are independent."
    )
    page.print(f"inputs tried: {found.tried}")
    for note in _notes(found):
        page.print(f"note: {note}", style="yellow")


def table(found: Audit) -> Table:
    """One line per claim."""
    shown = Table(box=box.HORIZONTALS)
    shown.add_column("claim")
    shown.add_column("claimed ε", justify="right", no_wrap=True)
    shown.add_column("ε is at least", justify="right", no_wrap=True)
    shown.add_column("")
    for each in found.evidences:
        what = "one message by itself"
        if each.claim == "crowd":
            what = f"{found.n:,} people, δ = {plain(each.delta)}"
        verdict = Text("violated", style="bold red") if each.violated else Text("not refuted")
        shown.add_row(what, up(each.claimed), down(each.lower), verdict)
    return shown


def _name(found: Evidence) -> str:
    return "crowd" if found.claim == "crowd" else "one message"


def _notes(found: Audit) -> list[str]:
    if found.warning is not None:
        return [found.warning]
    if found.verdict == "consistent" and found.lower == 0:
        return ["so few runs show nothing of the crowd's ε: more --runs, or a larger --delta"]
    return []

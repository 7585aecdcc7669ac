"""A training run as people read it."""

from __future__ import annotations

from rich import box
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from shoal.cli.render import console
from shoal.cli.sgd_answer import Accounted, Row
from shoal.cli.sgd_asked import Kind
from shoal.explain.text import down, plain, up
from shoal.learning.guarantee import LearningGuarantee, Route, counted


def show(found: Accounted) -> None:
    """Print all kinds of sampling beside each other, then the chosen one."""
    page = console()
    page.print(Text(_title(found), style="bold"))
    page.print(table(found))
    page.print(Text(_KEY, style="dim"))
    if found.asked.sampling is not Kind.ALL:
        page.print(panel(found))
    for warning in found.warnings:
        page.print(f"warning: {warning}", style="yellow")


_KEY = (
    "The data loader decides which row holds; no row says anything about another. "
    "Replacing an example costs more than adding or removing it."
)


def table(found: Accounted) -> Table:
    """One line for each kind of sampling."""
    shown = Table(box=box.HORIZONTALS)
    shown.add_column("sampling", no_wrap=True)
    shown.add_column("noise" if found.solved else "ε", justify="right", no_wrap=True)
    shown.add_column("neighbours", no_wrap=True)
    shown.add_column("which loader does it", overflow="fold")
    chosen = found.guarantee
    for row in found.rows:
        shown.add_row(
            row.sampling.value,
            _answer(row, solved=found.solved),
            row.neighbouring,
            row.remark or row.sampling.loader,
            style="bold" if _about(row) == _about(chosen) else "",
        )
    return shown


def panel(found: Accounted) -> Panel:
    """The chosen guarantee in a frame."""
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column()
    for label, text in _lines(found.guarantee):
        rows.add_row(label, text)
    return Panel(rows, title=Text(_headline(found), style="bold"), title_align="left")


def _title(found: Accounted) -> str:
    run = found.guarantee
    batches = f" in batches of {run.batch:,}" if run.batch > 1 else ""
    size = f"{counted(run.n, 'example')}{batches}, {counted(run.epochs, 'epoch')}"
    if found.solved:
        target = f"ε = {plain(found.asked.epsilon or 0.0)} at δ = {plain(run.delta)}"
        return f"Noise for {target}: {size}"
    noise = f"noise multiplier {plain(run.noise_multiplier)}"
    return f"ε at δ = {plain(run.delta)}: {size}, {noise}"


def _answer(row: Row, *, solved: bool) -> str:
    if row.epsilon is None or row.noise is None:
        return "–"
    return plain(row.noise) if solved else up(row.epsilon)  # noise that was found is rounded up


def _about(one: Row | LearningGuarantee) -> tuple[str, str]:
    return one.sampling, one.neighbouring


def _headline(found: Accounted) -> str:
    run = found.guarantee
    if found.solved:
        return f"noise multiplier {plain(run.noise_multiplier)} is enough"
    return f"ε = {up(run.epsilon)} at δ = {plain(run.delta)}"


def _lines(run: LearningGuarantee) -> list[tuple[str, str]]:
    room = []
    if run.lower > 0:
        room = [("lower bound", f"no analysis can prove less than {down(run.lower)}")]
    routes = [_route(route) for route in run.routes]
    return [
        ("epsilon", f"{up(run.epsilon)}, a proved upper bound"),
        ("delta", up(run.delta)),
        *room,
        ("sampling", run.sampling.words),
        ("steps", f"{run.steps:,}; one alone, not hidden: ε = {up(run.local)}"),
        ("theorem", run.theorem),
        ("neighbours", run.neighbouring),
        *zip(("routes", *[""] * len(routes)), routes, strict=False),
        *zip(("assumes", *[""] * len(run.assumptions)), run.assumptions, strict=False),
    ]


def _route(route: Route) -> str:
    if route.epsilon is None:
        return f"{route.name}: none, {route.remark}"
    return f"{route.name}: {up(route.epsilon)}"

"""Powers as people read them: one line for each number of people."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from shoal.cli.app import printable
from shoal.cli.render import console
from shoal.cli.testing_power import Powers
from shoal.explain.text import plain
from shoal.figures.testing_study import Point

_HEADINGS = {
    "non-private": "no privacy",
    "central": "curator",
    "several": "several",
    "public": "public",
    "private": "private",
}


def show(found: Powers) -> None:
    """Print the powers by number of people, the published rates, and how to read them."""
    page = console()
    page.print(Text(_asked(found), style="bold"))
    page.print(power_table(found))
    for line in _key(found):
        page.print(Text(line, style="dim"))
    for note in found.notes:
        page.print(f"note: {printable(note)}")


def power_table(found: Powers) -> Table:
    """One line for each number of people, one column for each model."""
    shown = Table(box=box.HORIZONTALS)
    shown.add_column("people", justify="right", no_wrap=True)
    models = found.study.models
    for model in models:
        shown.add_column(_HEADINGS[model], justify="right", no_wrap=True)
    for n in found.sizes:
        points = found.at(n)
        shown.add_row(f"{n:,}", *(_power(points[model]) for model in models))
    shown.add_section()
    shown.add_row("for 0.95", *(_people_or_nothing(found.needed.get(model)) for model in models))
    rates = found.study.rates
    shown.add_row("rate", *(_people_or_nothing(rates.get(model)) for model in models), style="dim")
    return shown


def _people_or_nothing(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def _key(found: Powers) -> list[str]:
    study = found.study
    several = "several: several messages each; " if "several" in study.models else ""
    power = f"Power: the share of {study.trials:,} simulated tests that noticed the hardest case"
    coins = "public, private: one message each, by coins that everybody knows or by the device's"
    needed = "for 0.95: people needed, predicted. rate: published, constant 1"
    return [
        f"{power}, ± the half width of its 95 % limits.",
        f"curator: sees all answers; {several}{coins} own.",
        f"{needed} (the papers leave the constant open).",
    ]


def _power(point: Point) -> str:
    if point.power is None or point.limits is None:
        return "–"
    low, high = point.limits
    return f"{point.power:.2f} ± {(high - low) / 2:.2f}"


def _asked(found: Powers) -> str:
    study = found.study
    return (
        f"The chance to notice a distance of {plain(study.distance)} among {found.k:,} answers "
        f"at level {plain(study.level)}, ε = {plain(study.epsilon)}, δ = {plain(study.delta)}"
    )

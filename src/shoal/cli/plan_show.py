"""A plan as people read it."""

from __future__ import annotations

import math

from rich import box
from rich.table import Table
from rich.text import Text

from shoal.cli.render import console
from shoal.explain.text import down, plain, up
from shoal.planning import Option, Plan, Question
from shoal.planning.errors import Errors


def show(plan: Plan) -> None:
    """Print the options, best first, and the recommendation."""
    page = console()
    page.print(options(plan))
    for option in plan.options:
        if option.errors is None:
            page.print(Text(f"not {option.name}: {option.remark}", style="dim"))
    if plan.question.categories is not None:
        page.print(
            "Errors of the counts, in people; per answer: of one that nobody gave.", style="dim"
        )
    page.print()
    page.print(recommendation(plan))
    for warning in plan.guarantee.warnings:
        page.print(f"warning: {warning}", style="yellow")


def options(plan: Plan) -> Table:
    """One line per randomizer, between what no shuffler and what a trusted curator would give."""
    shown = Table(
        box=box.HORIZONTALS, title=_title(plan.question), title_justify="left", title_style="bold"
    )
    shown.add_column("randomizer", no_wrap=True)
    shown.add_column("ε0", justify="right")
    for heading in _headings(plan.question):
        shown.add_column(heading, justify="right")
    if _several(plan):
        shown.add_column("msgs", justify="right")
    shown.add_column("bits", justify="right")
    for place, option in enumerate(plan.options):
        if option.errors is not None:
            shown.add_row(*_cells(option, plan), style="bold" if place == 0 else "")
    _add_references(shown, plan)
    return shown


def recommendation(plan: Plan) -> str:
    """What to run and why, and what that keeps."""
    best, kept = plan.recommended, plan.guarantee
    keeps = (
        f"That keeps ε = {up(kept.epsilon)} at δ = {plain(kept.delta)} among {kept.n:,} honest "
        f"people (replacement; {kept.theorem}), if {kept.trust}"
    )
    if math.isfinite(best.local_epsilon or 0.0):
        how, left = f"with ε0 = {down(best.local_epsilon or 0.0)}", "ε0 is what holds"
    else:
        how = f"with {best.messages or 1.0:.4g} messages per person"
        left = "nothing holds: one person's messages give the datum away"
    liar = ""
    if best.influence is not None:
        what = "an answer's count" if plan.question.categories else "the sum"
        if plan.question.dimension is not None:
            what = "each coordinate of the sum"
        liar = f" One dishonest person can add at most {people(best.influence)} to {what}."
    return f"Run {best.name} {how}: {plan.reason}. {keeps}; without that trust {left}.{liar}"


def people(value: float) -> str:
    """A number of people (or a sum): whole where it is large."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def _title(question: Question) -> str:
    if question.categories is not None:
        asked = f"one of {question.categories:,} answers"
    elif question.bounds is not None:
        low, high = map(plain, question.bounds)
        asked = f"a number from {low} to {high}"
    else:
        long = f"at most {plain(question.norm)} long" if question.norm else "of length 1"
        asked = f"a vector of {question.dimension:,} coordinates, {long}"
    target = f"ε = {plain(question.epsilon)}, δ = {plain(question.delta)}"
    return f"{question.n:,} people, {asked}, {target}"


def _headings(question: Question) -> tuple[str, ...]:
    if question.categories is not None:
        return ("L2 error", "largest", "per answer")
    return ("error of the sum", "of the mean")


def _several(plan: Plan) -> bool:
    """Whether anything sends several messages."""
    return any((option.messages or 1) > 1 for option in plan.options)


def _cells(option: Option, plan: Plan) -> list[str]:
    local = "" if option.local_epsilon is None else f"{option.local_epsilon:.3f}"
    if option.local_epsilon is not None and math.isinf(option.local_epsilon):
        local = "none"
    sent = [f"{option.messages or 1.0:,.4g}"] if _several(plan) else []
    bits = "" if option.bits is None else f"{option.bits:,.1f}"
    return [option.name, local, *_numbers(option.errors, plan.question), *sent, bits]


def _numbers(errors: Errors | None, question: Question) -> list[str]:
    if errors is None:
        return [""] * len(_headings(question))
    if question.categories is not None:
        return [people(value) for value in (errors.l2, errors.linf, errors.cell)]
    return [people(errors.l2), f"{errors.l2 / question.n:.3g}"]


def _add_references(shown: Table, plan: Plan) -> None:
    if plan.central is None and plan.local is None:
        return
    shown.add_section()
    rows = (("a trusted curator", "–", plan.central), ("no shuffler", None, plan.local))
    for name, local, errors in rows:
        if errors is not None:
            of_each = plain(plan.question.epsilon) if local is None else local
            empty = [""] * (2 if _several(plan) else 1)
            shown.add_row(name, of_each, *_numbers(errors, plan.question), *empty, style="dim")

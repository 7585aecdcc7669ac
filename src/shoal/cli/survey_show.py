"""A survey as people read it: what is asked, what is promised, who keeps it."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from shoal.cli.app import printable
from shoal.cli.render import console
from shoal.explain.text import moment, plain, up
from shoal.randomizers.base import NumberMechanism
from shoal.report import finite
from shoal.service.client.policy import Policy
from shoal.service.survey import Survey
from shoal.service.survey.design import expected_error, tells_nothing
from shoal.service.wire import Wire

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
_ANSWERS_SHOWN = 8


def to_dict(survey: Survey, now: int) -> dict[str, object]:
    """All of it, with what follows from it."""
    sizes = {"minimum": survey.batches.minimum, "target": survey.batches.target}
    return {
        "id": str(survey.id),
        "survey": survey.configuration(),
        "report_bytes": Wire.of(survey).report_bytes,
        "guarantee": {name: _guarantee(survey, size) for name, size in sizes.items()},
        "expected_error": {name: _error(survey, size) for name, size in sizes.items()},
        "note": about_time(survey, now),
        "warnings": [str(each) for each in Policy().exceeded(survey)],
    }


def about_time(survey: Survey, now: int) -> str | None:
    """That it takes no answers now, if so."""
    if now > survey.not_after:
        return f"it ended on {moment(survey.not_after)} (UTC), and takes no more answers"
    if now < survey.not_before:
        return f"it has not begun: it takes answers from {moment(survey.not_before)} (UTC) on"
    return None


def checked(survey: Survey, now: int) -> dict[str, object]:
    """That it is a survey, what it keeps, and what to know (None if it is open)."""
    return {
        "note": about_time(survey, now),
        "id": str(survey.id),
        "name": survey.name,
        "promised": {"epsilon": survey.epsilon, "delta": survey.delta},
        "kept": survey.guarantee(survey.batches.minimum).epsilon,
    }


def show_checked(survey: Survey, now: int) -> None:
    """In two lines, or three."""
    page = console()
    page.print(str(survey.id))
    kept = survey.guarantee(survey.batches.minimum).epsilon
    page.print(
        f"{printable(survey.name)}: keeps ε = {up(kept)} of the promised {plain(survey.epsilon)} "
        f"at δ = {plain(survey.delta)}"
    )
    note = about_time(survey, now)
    if note is not None:
        page.print(f"note: {note}", style="yellow", soft_wrap=True)


def show_new(survey: Survey, now: int, *, written: Path | None, enough: int) -> None:
    """What was made, whether anybody can answer it, and what to do with it.

    ``enough`` is a minimum with which the survey would tell something, if it does not.
    """
    page = console()
    show(survey, enough=enough)
    for warning in Policy().exceeded(survey):
        page.print(f"warning: {warning}", style="yellow")
    note = about_time(survey, now)
    if note is not None:
        page.print(f"note: {note}", style="yellow", soft_wrap=True)
    if written is not None:
        file = printable(str(written))
        page.print(f"written to {file}", soft_wrap=True)
        page.print("next, each operator registers it: shoal survey add FILE --to DIR")


def show(survey: Survey, *, note: str | None = None, enough: int = 0) -> None:
    """What a person who answers agrees to, and what the people who asked may expect."""
    page = console()
    told = _grid([*_asked(survey), *_promised(survey), *_operated(survey)])
    rows = Group(told, "", _grid(_named(survey)))
    title = Text(printable(survey.name), style="bold")
    page.print(Panel(rows, title=title, title_align="left"))
    for warning in survey.guarantee(survey.batches.minimum).warnings:
        page.print(f"warning: {warning}", style="yellow")
    if tells_nothing(survey.device, survey.batches.minimum):
        page.print(f"warning: {_blurred(survey, enough)}", style="yellow")
    if note is not None:
        page.print(f"note: {note}", style="yellow", soft_wrap=True)


def _grid(rows: list[tuple[str, str]]) -> Table:
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for label, text in rows:
        made.add_row(label, printable(text))
    return made


def _blurred(survey: Survey, enough: int) -> str:
    numbers = isinstance(survey.device, NumberMechanism)
    much = "a quarter of the range" if numbers else "25 percentage points"
    better = f"; --minimum {enough} would do" if enough else ""
    return (
        f"a batch of {survey.batches.minimum:,} tells hardly anything: its expected error is above "
        f"{much}{better}"
    )


def _asked(survey: Survey) -> list[tuple[str, str]]:
    return [
        ("question", survey.question),
        ("answers", _answers(survey)),
        ("purpose", survey.purpose),
        ("open", f"{moment(survey.not_before)} to {moment(survey.not_after)} (UTC)"),
    ]


def _promised(survey: Survey) -> list[tuple[str, str]]:
    batches, device = survey.batches, survey.device
    least, aimed = survey.guarantee(batches.minimum), survey.guarantee(batches.target)
    reports = survey.reports_per_person
    each = "your report" if reports == 1 else f"your {reports:,} reports together"
    alone = (
        f"ε0 = {up(least.local_epsilon)} for {each}, whoever colludes"
        if math.isfinite(least.local_epsilon)
        else f"nothing: {each} may give the answer away"
    )
    others = f"{batches.minimum:,} reports" + (
        f", {least.n:,} of them honest" if least.n < batches.minimum else ""
    )
    rows = [
        ("promised", f"ε = {plain(survey.epsilon)} at δ = {plain(survey.delta)} for {each}"),
        ("kept", f"ε = {up(least.epsilon)} among {others} (the fewest that are released)"),
        ("", f"ε = {up(aimed.epsilon)} among {batches.target:,} (what is aimed at)"),
        ("without trust", alone),
        ("your device", f"runs {device.name}: {_sent(survey)}"),
    ]
    if survey.participation < 1:
        rows.append(("", f"and reports with probability {plain(survey.participation)} only"))
        seen = f"δ = {up(survey.terms.delta_taking_part)} for whoever is seen to take part"
        rows.append(("once seen", seen))
    rows.append(("expected error", _errors(survey)))
    rows.append(("a batch", _closing(survey)))
    return rows


def _operated(survey: Survey) -> list[tuple[str, str]]:
    return [
        ("shuffler", survey.shuffler.url),
        ("analyzer", survey.analyzer.url),
        ("trusted", survey.guarantee(survey.batches.minimum).trust),
        ("sealed by", survey.suite),
    ]


def _named(survey: Survey) -> list[tuple[str, str]]:
    """What is compared digit by digit: of 64 digits each, whole in a terminal of 80 columns."""
    return [
        ("survey", str(survey.id)),
        ("shuffler", survey.shuffler.fingerprint),
        ("analyzer", survey.analyzer.fingerprint),
    ]


def _answers(survey: Survey) -> str:
    device = survey.device
    if isinstance(device, NumberMechanism):
        return f"a number from {plain(device.low)} to {plain(device.high)}"
    shown = survey.answers[:_ANSWERS_SHOWN]
    more = len(survey.answers) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _sent(survey: Survey) -> str:
    size = f"{Wire.of(survey).report_bytes:,} bytes, the same for everybody"
    if survey.slots == 1:
        return f"one message, {size}"
    return f"{survey.slots:,} messages or empty ones, {size}"


def _closing(survey: Survey) -> str:
    batches = survey.batches
    rest = "waits for more" if batches.small == "carry" else "is deleted unread"
    return (
        f"closes at {batches.target:,} reports, or after {_duration(batches.max_age)} with "
        f"{batches.minimum:,}; a smaller one {rest}"
    )


def _errors(survey: Survey) -> str:
    least, aimed = (
        _error(survey, size) for size in (survey.batches.minimum, survey.batches.target)
    )
    if isinstance(survey.device, NumberMechanism):
        return f"{least:.3g} of the mean, {aimed:.3g} at the target"
    return f"{100 * least:.3g} percentage points of a share, {100 * aimed:.3g} at the target"


def _error(survey: Survey, valid: int) -> float:
    return expected_error(survey.device, valid)


def _guarantee(survey: Survey, valid: int) -> object:
    return finite(survey.guarantee(valid).to_dict())


def _duration(seconds: int) -> str:
    for size, name in _UNITS:
        if seconds % size == 0:
            number = seconds // size
            return f"{number:,} {name}{'s' * (number > 1)}"
    return f"{seconds:,} seconds"

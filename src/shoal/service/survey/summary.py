"""A survey for whoever answers and whoever asks: what is asked, promised and kept, and by whom."""

from __future__ import annotations

import math
from pathlib import Path

from shoal.explain.document import Document
from shoal.explain.rendering import environment
from shoal.explain.text import duration, finite, moment, plain, up
from shoal.randomizers.base import NumberMechanism
from shoal.service.survey.design import expected_error, tells_nothing
from shoal.service.survey.document import Survey
from shoal.service.wire import Wire

_ANSWERS_SHOWN = 8


def to_dict(survey: Survey, now: int) -> dict[str, object]:
    """All of it as plain values, with what follows from it."""
    sizes = {"minimum": survey.batches.minimum, "target": survey.batches.target}
    return {
        "id": str(survey.id),
        "survey": survey.configuration(),
        "report_bytes": Wire.of(survey).report_bytes,
        "guarantee": {
            name: finite(survey.guarantee(size).to_dict()) for name, size in sizes.items()
        },
        "expected_error": {
            name: expected_error(survey.device, size) for name, size in sizes.items()
        },
        "note": closed_note(survey, now),
    }


def checked(survey: Survey, now: int) -> tuple[dict[str, object], Document]:
    """That it keeps what it promises, as plain values and in words."""
    epsilon = survey.guarantee(survey.batches.minimum).epsilon
    note = closed_note(survey, now)
    promise = f"the promised {plain(survey.epsilon)} at δ = {plain(survey.delta)}"
    values: dict[str, object] = {
        "note": note,
        "id": str(survey.id),
        "name": survey.name,
        "promised": {"epsilon": survey.epsilon, "delta": survey.delta},
        "kept": epsilon,
    }
    return values, Document(
        str(survey.id),
        sentences=(f"{survey.name}: keeps ε = {up(epsilon)} of {promise}",),
        notes=() if note is None else (note,),
    )


def closed_note(survey: Survey, now: int) -> str | None:
    """That it takes no answers now, if so."""
    if now > survey.not_after:
        return f"it ended on {moment(survey.not_after)} (UTC), and takes no more answers"
    if now < survey.not_before:
        return f"it has not begun: it takes answers from {moment(survey.not_before)} (UTC) on"
    return None


def document(survey: Survey, now: int, *, enough: int = 0) -> Document:
    """In words; ``enough`` is a minimum with which it would tell something, if it does not.

    What is compared digit by digit has lines of its own: 64 digits each.
    """
    warnings = list(survey.guarantee(survey.batches.minimum).warnings)
    if tells_nothing(survey.device, survey.batches.minimum):
        numbers = isinstance(survey.device, NumberMechanism)
        much = "a quarter of the range" if numbers else "25 percentage points"
        better = f"; --minimum {enough} would do" if enough else ""
        warnings.append(
            f"a batch of {survey.batches.minimum:,} tells hardly anything: its expected error is "
            f"above {much}{better}"
        )
    note = closed_note(survey, now)
    return Document(
        survey.name,
        facts=(
            ("question", survey.question),
            ("answers", _answers(survey)),
            ("purpose", survey.purpose),
            ("open", f"{moment(survey.not_before)} to {moment(survey.not_after)} (UTC)"),
            *_promised(survey),
            ("shuffler", survey.shuffler.url),
            ("analyzer", survey.analyzer.url),
            ("trusted", survey.guarantee(survey.batches.minimum).trust),
            ("sealed by", survey.suite),
        ),
        sentences=(
            f"id        {survey.id}",
            f"shuffler  {survey.shuffler.fingerprint}",
            f"analyzer  {survey.analyzer.fingerprint}",
        ),
        notes=() if note is None else (note,),
        warnings=tuple(warnings),
    )


def _promised(survey: Survey) -> list[tuple[str, str]]:
    """The facts of ``summary.txt``."""
    least = survey.guarantee(survey.batches.minimum)
    page = environment(Path(__file__).parent).get_template("summary.txt")
    text = page.render(
        survey=survey,
        least=least,
        aimed=survey.guarantee(survey.batches.target),
        local=math.isfinite(least.local_epsilon),
        report_bytes=Wire.of(survey).report_bytes,
        errors=_errors(survey),
        max_age=duration(survey.batches.max_age, exact=True),
    )
    facts = (line.partition("|") for line in text.splitlines() if line)
    return [(name.strip(), fact.strip()) for name, _, fact in facts]


def _answers(survey: Survey) -> str:
    device = survey.device
    if isinstance(device, NumberMechanism):
        return f"a number from {plain(device.low)} to {plain(device.high)}"
    shown = survey.answers[:_ANSWERS_SHOWN]
    more = len(survey.answers) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def _errors(survey: Survey) -> str:
    sizes = (survey.batches.minimum, survey.batches.target)
    least, aimed = (expected_error(survey.device, size) for size in sizes)
    if isinstance(survey.device, NumberMechanism):
        return f"{least:.3g} of the mean, {aimed:.3g} at the target"
    return f"{100 * least:.3g} percentage points of a fraction, {100 * aimed:.3g} at the target"

"""A survey for whoever answers and whoever asks: what is asked, promised and kept, and by whom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from shoal.explain.document import Document
from shoal.explain.text import duration, environment, finite, moment, plain, up
from shoal.mechanisms.base import Device
from shoal.service.survey.design import expected_error, tells_nothing
from shoal.service.survey.document import Survey
from shoal.service.survey.items import Item
from shoal.service.survey.texts import similar
from shoal.service.survey.words import sentences
from shoal.service.wire import Wire

# The robust histogram, as people choose it, is the one with carriers here.
_NAMES = {"near-central-carriers": "near-central-robust, with carriers of the noise"}
_ANSWERS_SHOWN = 8


def to_dict(survey: Survey, now: int) -> dict[str, object]:
    """All of it as plain values, with what follows from it."""
    sizes = {"minimum": survey.batches.minimum, "target": survey.batches.target}
    return {
        "id": str(survey.id),
        "survey": survey.configuration(),
        "report_bytes": Wire.of(survey).report_bytes,
        "records": {name: sum(survey.records(size)) for name, size in sizes.items()},
        "guarantee": {
            name: finite(survey.guarantee(size).to_dict()) for name, size in sizes.items()
        },
        "expected_error": {name: _expected(survey, size) for name, size in sizes.items()},
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
        return f"it ended on {moment(survey.not_after)} (UTC), and accepts no more answers"
    if now < survey.not_before:
        return f"it has not begun: it accepts answers from {moment(survey.not_before)} (UTC) on"
    return None


def document(survey: Survey, now: int, *, enough: int = 0) -> Document:
    """In words; ``enough`` is a minimum with which it would tell something, if it does not.

    What is compared digit by digit has lines of its own: 64 digits each.
    """
    warnings = list(survey.guarantee(survey.batches.minimum).warnings)
    blurred = [q for q in survey.questions if tells_nothing((q.device,), survey.batches.minimum)]
    if blurred:
        much = "25 percentage points" if blurred[0].answers else "a quarter of the range"
        much += f" for {blurred[0].name}" if survey.several else ""
        better = f"; --minimum {enough} would do" if enough else ""
        warnings.append(
            f"a batch of {survey.batches.minimum:,} says almost nothing: its expected error "
            f"is above {much}{better}"
        )
    warnings += [f"{one} and {other} look alike in many fonts" for one, other in similar(survey)]
    note = closed_note(survey, now)
    return Document(
        survey.name,
        facts=(
            *_asked(survey),
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


def in_words(survey: Survey, now: int) -> Document:
    """What a person who answers is promised, in the sentences of the survey page."""
    told = sentences(survey)
    asked = [*_asked(survey), ("purpose", survey.purpose), ("id", str(survey.id))]
    promised = [told.leaves, *(f"{each.title}: {each.text}" for each in told.statements)]
    lines = [survey.name, *(f"  {name}: {text}" for name, text in asked)]
    for paragraph in promised:
        lines += ["", paragraph]
    return replace(document(survey, now), facts=(), sentences=tuple(lines))


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
        devices=[(each, _runs(each.device)) for each in survey.questions],
        errors=partial(_errors, survey),
        to_open=round(sum(survey.records(survey.batches.minimum)) / survey.batches.minimum, 2),
        max_age=duration(survey.batches.max_age, exact=True),
    )
    facts = (line.partition("|") for line in text.splitlines() if line)
    return [(name.strip(), fact.strip()) for name, _, fact in facts]


def _runs(device: Device) -> str:
    messages = "one message" if device.slots == 1 else f"{device.slots:,} messages or empty ones"
    if device.uneven is not None:
        messages = f"1 to {device.slots:,} messages"
    return f"{_NAMES.get(device.name, device.name)}: {messages}"


def _asked(survey: Survey) -> Iterator[tuple[str, str]]:
    for question in survey.questions:
        yield f"question {question.name}" if survey.several else "question", question.text
        must = survey.several and not question.may_be_skipped
        yield "answers", _answers(question) + ", which has to be given" * must
        if question.groups:
            yield "by groups", f"{question.by}: {_listed(question.groups)}"
    if survey.several:
        yield "apart", "each question is randomized, sealed and mixed by itself"


def _answers(question: Item) -> str:
    if question.answers:
        return _listed(question.answers)
    low, high = question.bounds
    return f"a number from {plain(low)} to {plain(high)}"


def _listed(texts: tuple[str, ...]) -> str:
    more = len(texts) - _ANSWERS_SHOWN
    return ", ".join(texts[:_ANSWERS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _expected(survey: Survey, size: int) -> float | dict[str, float]:
    """Of the only question, or of each by its name."""
    errors = {each.name: expected_error(each.device, size) for each in survey.questions}
    return errors if survey.several else errors[survey.only.name]


def _errors(survey: Survey, question: Item) -> str:
    sizes = (survey.batches.minimum, survey.batches.target)
    least, aimed = (expected_error(question.device, size) for size in sizes)
    if question.answers:
        return f"{100 * least:.3g} percentage points of a fraction, {100 * aimed:.3g} at the target"
    return f"{least:.3g} of the mean, {aimed:.3g} at the target"

"""What one person is promised, in sentences: those of ``words.txt``, and of mechanisms."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from shoal.explain.document import Document
from shoal.explain.text import down, environment, factor, plain, up
from shoal.service.survey.document import Survey
from shoal.service.survey.items import Item, labels
from shoal.service.survey.promise import if_made_up
from shoal.service.wire import Wire

_TITLES = {
    "crowd": "Hidden in a crowd",
    "collude": "Who would have to work together",
    "alone": "What holds without trust",
    "reports": "How often",
    "admission": "Who can answer",
    "dishonest": "What is taken for granted",
    "coin": "Whether you take part",
    "open": "Until when",
}
_LINE_BREAK = re.compile(r"\s*\n\s*")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SCALES = tuple(10**digits for digits in range(2, 17))
_NEAR = Fraction(1, 4)  # by how much of the rarer case a number may be off
_TOGETHER = (
    "One report leaves your device, and chance decides for each question separately what it says."
)
_PAIR = "Your group and your answer count as one answer here: chance decides about both at once."
_HALF = Fraction(1, 2)
_QUARTER = Fraction(1, 4)
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


@dataclass(frozen=True)
class Statement:
    """One thing that is promised, or counted on."""

    name: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """What a person reads before answering.

    ``leaves`` is one sentence on what leaves the device, and ``each`` one for each of several
    questions. ``statements`` are what is promised, ``steps`` how it is kept, and ``served`` who
    hands out the page and what that means.
    """

    leaves: str
    each: tuple[str, ...]
    statements: tuple[Statement, ...]
    steps: tuple[str, ...]
    served: str


def sentences(survey: Survey) -> Sentences:
    """The sentences of a survey."""
    each = [_drawn(question) for question in survey.questions]
    leaves, how = each[0]["leaves"], [one["how"] for one in each]
    if survey.several:
        leaves = _TOGETHER
        quoted = (f"“{question.text}”" for question in survey.questions)
        how = [f"{text}: {one}" for text, one in zip(quoted, how, strict=True)]
    texts = _texts(
        "words.txt",
        survey=survey,
        guarantee=survey.guarantee(survey.batches.minimum),
        made_up=partial(if_made_up, survey.devices, survey.terms, survey.batches.minimum),
        report_bytes=Wire.of(survey).report_bytes,
        one_machine=one_machine(survey),
    )
    statements = (Statement(name, title, texts[name]) for name, title in _TITLES.items())
    return Sentences(
        leaves=leaves,
        each=tuple(one["leaves"] for one in each) if survey.several else (),
        statements=tuple(statement for statement in statements if statement.text),
        steps=(*how, *(texts[step] for step in ("sealed", "mixed", "published"))),
        served=texts["served"],
    )


def _drawn(question: Item) -> dict[str, str]:
    """What a device does with the answer to a question."""
    device = question.device
    texts = _texts(
        "mechanisms.txt",
        device.words,
        answers=labels(*question.spoken),
        device=device,
        drawn={
            # Large numbers are written as text.
            name: int(value) if isinstance(value, str) and value.isdecimal() else value
            for name, value in device.integers.items()
        },
    )
    if question.groups:  # what is drawn is a pair of both
        texts["leaves"] = f"{texts['leaves']} {_PAIR}"
    return texts


def _texts(template: str, more: str = "", **values: object) -> dict[str, str]:
    """The texts that a template sets, and what follows it; line breaks are for their readers."""
    functions = {
        "cases": cases,
        "day": day,
        "decimal": _decimal,
        "factor": factor,
        "host": host,
        "isfinite": math.isfinite,
        "moves": _moves,
        "odds": lambda part, whole: cases(Fraction(part, whole)),
        "one_in": _one_in,
        "power": _power,
    }
    made = environment(Path(__file__).parent).overlay(autoescape=False)
    text = (Path(__file__).parent / template).read_text(encoding="utf-8")
    page = made.from_string(text + more)
    texts = vars(page.make_module(functions | values))
    return {
        name: _LINE_BREAK.sub(" ", text).strip()
        for name, text in texts.items()
        if isinstance(text, str)
    }


def _decimal(value: float) -> Fraction:
    """A number as it was written: 0.1 is one tenth, not the float next to it."""
    return Fraction(repr(float(value)))


def cases(probability: Fraction) -> str:
    """A probability as people say it.

    >>> cases(Fraction(1, 2)), cases(Fraction(731, 1000)), cases(Fraction(99971, 100000))
    ('50 of 100 cases', 'about 73 of 100 cases', 'about 9,997 of 10,000 cases')
    """
    rarer = min(probability, 1 - probability)
    for scale in _SCALES:
        number = round(probability * scale)
        off = abs(Fraction(number, scale) - probability)
        if 0 < number < scale and off <= _NEAR * rarer:
            return f"{'about ' if off else ''}{number:,} of {scale:,} cases"
    return "almost all cases" if probability > _HALF else "hardly any cases"


def _moves(device: Any) -> tuple[float, Fraction]:  # noqa: ANN401 - of Laplace noise
    """How far noise moves every number at least, and the probability of that.

    Towards a bound a number is moved no further than the bound. Half of the range is free on one
    side at least, and so far it is moved there as often as if there were no bound.
    """
    tails, total = (cast("Any", device.integers[name]) for name in ("tails", "total"))
    last = len(tails) - 1
    further = [Fraction(int(tail), int(total)) for tail in tails[1 : max(last // 2, 1) + 1]]
    steps = max((step for step, odds in enumerate(further, 1) if odds >= _QUARTER), default=1)
    return float(down(steps * (device.high - device.low) / last, 2)), further[steps - 1]


def promise_document(survey: Survey) -> Document:
    """What answering costs at most, in a few lines: to be read before anything is sent."""
    least, terms = survey.batches.minimum, survey.terms
    guarantee = survey.guarantee(least)
    promised = f"ε of at most {plain(survey.epsilon)} at δ = {plain(guarantee.delta)}"
    if math.isfinite(guarantee.local_epsilon):
        alone = f"and local ε0 = {up(guarantee.local_epsilon)} (no trust needed)"
    else:
        reports = survey.reports_per_person
        each = "the report" if reports == 1 else f"one person's {reports:,} reports"
        alone = f"and nothing if the others collude: {each} may give the answer away"
    smallest = f"in the smallest crowd, of {least:,}, it is {up(guarantee.epsilon)},"
    lines = [f"promised: {promised}; {smallest}", alone]
    if terms.delta_taking_part > terms.delta:
        lines.append(f"for people who are seen to take part, δ = {up(terms.delta_taking_part)}")
    lines.append(f"admission: {survey.admission.fact}")
    return Document(f"survey: {survey.name}", sentences=tuple(lines))


def host(url: str) -> str:
    """The machine at an address, as people read it.

    >>> host("https://shuffler.example/base"), host("http://127.0.0.1:8001")
    ('shuffler.example', '127.0.0.1:8001')
    """
    return urlsplit(url).netloc


def day(when: int) -> str:
    """A time as people say it, in UTC.

    >>> day(1_578_096_000)
    '4 January 2020, 00:00'
    """
    try:
        moment = datetime.fromtimestamp(when, tz=UTC)
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{when} seconds after 1970"
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}, {moment:%H:%M}"


def one_machine(survey: Survey) -> bool:
    """Whether both services are at one machine, as far as their addresses tell."""
    return urlsplit(survey.shuffler.url).hostname == urlsplit(survey.analyzer.url).hostname


def _power(number: str) -> str:
    """A small number with its power of ten written out.

    >>> _power("1e-6"), _power("2.5e-7"), _power("0.01")
    ('10⁻⁶', '2.5·10⁻⁷', '0.01')
    """
    parts = re.fullmatch(r"(.+)e(-?\d+)", number)
    if parts is None:
        return number
    power = "10" + parts[2].translate(_RAISED)
    return power if parts[1] == "1" else f"{parts[1]}·{power}"


def _one_in(probability: float) -> str:
    """A small probability, never said smaller than it is.

    >>> _one_in(1e-6), _one_in(0.01)
    ('1 in 1,000,000', '1 in 100')
    """
    return f"1 in {math.floor(1 / _decimal(probability)):,}"

"""What one person is promised, in sentences: plain words first, the number behind them second."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from urllib.parse import urlsplit

from shoal.accounting.guarantee import Guarantee
from shoal.explain.document import Document
from shoal.explain.text import factor, plain, up
from shoal.service.survey.document import Survey
from shoal.service.survey.mechanisms import cases, device_words
from shoal.service.wire import Wire

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
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

    ``leaves`` is one sentence on what leaves the device, ``statements`` are what is promised,
    ``steps`` how it is kept, and ``served`` who hands out the page and what that means.
    """

    leaves: str
    statements: tuple[Statement, ...]
    steps: tuple[str, ...]
    served: str


def sentences(survey: Survey) -> Sentences:
    """The sentences of a survey."""
    guarantee = survey.guarantee(survey.batches.minimum)
    device = device_words(survey)
    statements = (
        Statement("crowd", "Hidden in a crowd", _crowd(survey, guarantee)),
        Statement("collude", "Who would have to work together", _collude(survey)),
        Statement("alone", "What holds without trust", _alone(survey, guarantee)),
        Statement("reports", "How often", _reports(survey)),
        Statement("dishonest", "What is taken for granted", _dishonest(survey)),
        Statement("coin", "Whether you take part", _coin(survey)),
        Statement("open", "Until when", _open(survey)),
    )
    return Sentences(
        leaves=device.leaves,
        statements=tuple(statement for statement in statements if statement.text),
        steps=(" ".join(device.how), *_steps(survey)),
        served=_served(survey),
    )


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
        lines.append(f"whoever is seen to take part has δ = {up(terms.delta_taking_part)}")
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


def _crowd(survey: Survey, guarantee: Guarantee) -> str:
    answer = "answer" if survey.answers else "number"
    return (
        f"Nobody reads a report before at least {survey.batches.minimum:,} are together and "
        f"mixed. Whatever somebody believed about your {answer} before, what comes out moves the "
        f"odds between any two {answer}s by at most a factor of {factor(guarantee.epsilon)} "
        f"(ε = {up(guarantee.epsilon)}), except with a chance of about "
        f"{_one_in(guarantee.delta)} (δ = {_power(plain(guarantee.delta))})."
    )


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


def _one_in(chance: float) -> str:
    """A small chance, never said smaller than it is.

    >>> _one_in(1e-6), _one_in(0.01)
    ('1 in 1,000,000', '1 in 100')
    """
    return f"1 in {math.floor(1 / Fraction(repr(chance))):,}"


def _collude(survey: Survey) -> str:
    shuffler, analyzer = host(survey.shuffler.url), host(survey.analyzer.url)
    alone = (
        "The shuffler knows who sent a report but cannot read it, the analyzer reads the mixed "
        "reports but does not know who sent which."
    )
    if one_machine(survey):
        return (
            f"{alone} Here both are at one machine ({shuffler} and {analyzer}): whoever runs it "
            "can put the two together."
        )
    return (
        f"{alone} To connect a report with you, whoever runs {shuffler} (the shuffler) and whoever "
        f"runs {analyzer} (the analyzer) would have to work together."
    )


def _alone(survey: Survey, guarantee: Guarantee) -> str:
    reports = survey.reports_per_person
    if not math.isfinite(guarantee.local_epsilon):
        return (
            "If that happens, nothing is left: your report may then give your answer away. Only "
            "the crowd hides it."
        )
    whole = "your report" if reports == 1 else f"your {reports:,} reports together"
    return (
        f"If that happens, the chance in {whole} still protects you: the odds move by at most a "
        f"factor of {factor(guarantee.local_epsilon)} (ε0 = {up(guarantee.local_epsilon)}), "
        "whoever works together."
    )


def _reports(survey: Survey) -> str:
    reports = survey.reports_per_person
    if reports == 1:
        return (
            "You can answer once. Your browser sees to it here, but knows nothing of other sites, "
            "browsers and devices: a second report from there would tell more."
        )
    return (
        f"You can answer up to {reports:,} times, and all of it is counted above. Your browser "
        "sees to it here, but knows nothing of other sites, browsers and devices: more reports "
        "from there would tell more."
    )


def _dishonest(survey: Survey) -> str:
    dishonest = Fraction(repr(float(survey.dishonest)))
    if not dishonest:
        return "It is taken for granted that everybody follows the rules. Nobody can check that."
    fraction = cases(dishonest).removesuffix(" cases")
    least = survey.honest(survey.batches.minimum)
    return (
        f"It is taken for granted that at most {fraction} reports are made up by people who break "
        f"the rules, so that at least {least:,} real ones, yours included, are the crowd. Nobody "
        "can check that."
    )


def _coin(survey: Survey) -> str:
    if survey.participation == 1:
        return ""
    share = cases(Fraction(repr(float(survey.participation))))
    seen = survey.terms.delta_taking_part
    return (
        f"Your device tosses a coin first: it takes part in {share}, and sends nothing otherwise. "
        f"If somebody sees that it takes part, δ is {_power(up(seen))} for you."
    )


def _open(survey: Survey) -> str:
    return (
        f"Open until {day(survey.not_after)} (UTC). What was sent cannot be called back: nobody "
        "can find it in the crowd."
    )


def _served(survey: Survey) -> str:
    analyzer = host(survey.analyzer.url)
    return (
        f"What you read here and its script come from the analyzer ({analyzer}), which sees that "
        "your device loads them, and its address, but not what you answer. The script runs on "
        "your device: whoever serves it, or a site that shows it among its own pages, could put "
        "another one in its place. To trust nobody with that, answer with the command shoal "
        "submit, or on a site of your choice that pins the script."
    )


def _steps(survey: Survey) -> tuple[str, ...]:
    batches = survey.batches
    rest = (
        "A smaller batch waits for more."
        if batches.small == "carry"
        else "A smaller batch is deleted unread."
    )
    sealed = (
        "The result is sealed in two envelopes, the inner one for the analyzer, the outer one for "
        f"the shuffler. Everybody's report has {Wire.of(survey).report_bytes:,} bytes, whatever "
        "they answer."
    )
    mixed = (
        "The shuffler opens the outer envelope, keeps no addresses, waits until at least "
        f"{batches.minimum:,} reports are together, mixes them, and hands them on once. {rest}"
    )
    published = (
        "The analyzer opens the mixed inner envelopes, takes the chance out of the counts, and "
        "publishes the counts with their error."
    )
    return sealed, mixed, published

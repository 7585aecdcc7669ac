"""A survey's page as HTML: the question, the form, what is promised, and how it is kept.

The script ``survey.js`` builds the same elements where a survey is embedded; it finds them by their
classes, and here it finds them made already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from shoal.explain.text import plain, up
from shoal.randomizers.base import NumberMechanism
from shoal.report.markup import Markup, element
from shoal.service.survey import Survey
from shoal.service.survey.words import Sentences, host, sentences
from shoal.service.wire import Wire

FEW = 12  # answers that are all shown; of more, some, and a field to find the others
SHOWN = 50


def survey_element(survey: Survey, *, over: str = "") -> Markup:
    """All of it, for the script to bring to life; ``over`` says why it takes no answers, if so."""
    words = sentences(survey)
    return element(
        "shoal-survey",
        _form(survey, words, over),
        element("div", *_beginning(over), class_="told", role="status", tabindex="-1"),
        _without_script(survey),
        element("h2", "What you are promised", class_="title"),
        _promise(words),
        element("p", _claimed(survey), class_="checked"),
        _how(survey, words),
        survey=str(survey.id),
        analyzer="/",
        offline="/answer/offline.js",
    )


def _form(survey: Survey, words: Sentences, over: str) -> Markup:
    question = element("h1", survey.question, class_="question", dir="auto")
    fields = element(
        "fieldset",
        element("legend", question),
        element("p", survey.purpose, id="purpose", class_="purpose", dir="auto"),
        element("p", words.leaves, id="leaves", class_="leaves"),
        element("div", *_closed(over), class_="failed", role="alert", tabindex="-1"),
        *(_choices(survey) if survey.answers else _number(survey)),
        disabled="",
        aria_describedby="purpose leaves",
    )
    send = element("button", "Send", type="submit", disabled="")
    return element("form", fields, send, novalidate="", autocomplete="off")


def _choices(survey: Survey) -> Iterator[Markup]:
    answers = survey.answers
    many = len(answers) > FEW
    if many:
        find = element("input", type="search", class_="find", autocomplete="off")
        yield element("label", "Find your answer", find, class_="field")
        shown = f"{min(len(answers), SHOWN):,} of {len(answers):,} answers are shown."
        yield element("p", shown, class_="count", role="status")
    listed = (_choice(index, answer) for index, answer in enumerate(answers[:SHOWN]))
    yield element("div", *listed, class_="choices many" if many else "choices")


def _choice(index: int, answer: str) -> Markup:
    return element(
        "label",
        element("input", type="radio", name="answer", value=index),
        element("span", answer, dir="auto"),
        class_="choice",
    )


def _number(survey: Survey) -> Iterator[Markup]:
    device = cast("NumberMechanism", survey.device)
    low, high = plain(device.low), plain(device.high)
    field = element(
        "input",
        type="number",
        name="answer",
        class_="number",
        min=repr(float(device.low)),
        max=repr(float(device.high)),
        step="any",
        inputmode="decimal",
    )
    yield element("label", f"Your number, from {low} to {high}", field, class_="field")


def _closed(over: str) -> list[Markup]:
    if not over:
        return []
    return [element("p", element("strong", over)), element("p", "Nothing can be sent.")]


def _beginning(over: str) -> list[Markup]:
    """What stays where the script does not begin; hidden where no script would run at all."""
    if over:
        return []
    text = (
        "Getting ready. If this does not go away, this browser is too old to answer safely, or the "
        "script did not arrive. Nothing was sent."
    )
    return [element("p", text, class_="beginning")]


def _without_script(survey: Survey) -> Markup:
    address = f"{survey.shuffler.url}/v1/surveys/{survey.id}"
    return element(
        "noscript",
        element(
            "p",
            element("strong", "Answering needs JavaScript. "),
            "The chance that protects you is drawn on your own device, before anything is sent, "
            "and this page cannot do that without it. Nothing was sent. You can read below what "
            "would be, or answer with a program: ",
            element("code", f"shoal submit {address} -", class_="name"),
            class_="notice",
        ),
    )


def _promise(words: Sentences) -> Markup:
    items = (element("li", element("b", each.title), each.text) for each in words.statements)
    return element("ul", *items, class_="promise")


def _claimed(survey: Survey) -> str:
    return (
        f"These numbers are worked out by the analyzer ({host(survey.analyzer.url)}) from the "
        "survey; your browser has not checked them."
    )


def _how(survey: Survey, words: Sentences) -> Markup:
    steps = (element("li", step) for step in words.steps)
    return element(
        "details",
        element("summary", "How this protects you"),
        element("ol", *steps, class_="steps"),
        element("p", words.served),
        element("dl", *_numbers(survey), class_="numbers"),
    )


def _numbers(survey: Survey) -> Iterator[Markup]:
    kept = survey.guarantee(survey.batches.minimum)
    alone = up(kept.local_epsilon) if kept.local_epsilon < float("inf") else "none"
    exact = element("a", "the survey, exactly as it is", href=f"/v1/surveys/{survey.id}")
    promised = element("a", "this promise for programs", href=f"/v1/surveys/{survey.id}/promise")
    rows: list[tuple[str, str]] = [
        ("ε at the smallest crowd", up(kept.epsilon)),
        ("ε promised at most", plain(survey.epsilon)),
        ("δ", plain(kept.delta)),
        ("ε0 without trust", alone),
        (
            "smallest crowd",
            f"{survey.batches.minimum:,} reports, of which {kept.n:,} count as honest",
        ),
        ("reports of a person", f"{survey.reports_per_person:,}"),
        ("randomizer", survey.device.name),
        ("theorem", kept.theorem),
        ("a report", f"{Wire.of(survey).report_bytes:,} bytes"),
        ("shuffler", survey.shuffler.url),
        ("analyzer", survey.analyzer.url),
        ("survey", element("span", str(survey.id), class_="name")),
        ("documents", element("span", exact, ", ", promised)),
    ]
    for name, value in rows:
        yield element("dt", name)
        yield element("dd", value)

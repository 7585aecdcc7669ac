"""What an operator tells a party: which surveys it collects for, and who may ask it what."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from shoal.errors import InvalidArgumentError, RefusedError
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import moment, plural
from shoal.sealing import SurveyId
from shoal.service.analyzer import collect
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.db.surveys import Deleted
from shoal.service.db.tokens import TokenScope
from shoal.service.errors import NotReadyError
from shoal.service.keyring import Keyring
from shoal.service.ops.home import Home, check_party, opened
from shoal.service.shuffler.store import ShufflerStore
from shoal.service.survey import Survey
from shoal.service.survey.texts import check_texts
from shoal.values import attributes

Store = ShufflerStore | AnalyzerStore
_DIGITS = re.compile(r"[0-9a-f]{4,64}")


def add_survey(survey: Survey, home: Home) -> bool:
    """Let a party collect for a survey that names it; whether it did not know it before."""
    check_texts(survey)
    keyring = Keyring.open(home.keys, protection=None)
    check_party([survey], keyring, survey.not_before)
    if survey.suite not in keyring.suites:
        raise RefusedError(
            f"reports of the survey are sealed with {survey.suite}, and the {home.role} has keys "
            f"for {', '.join(keyring.suites)} only; add one by shoal keys rotate --suite "
            f"{survey.suite}"
        )
    expired, max_age = keyring.schedule.expired, survey.batches.max_age
    if home.role == "analyzer" and expired < max_age:
        raise RefusedError(
            f"these keys are deleted {expired:,} s after they expire, and a batch of the survey "
            f"may wait for {max_age:,} s; make keys with a longer --expired, or a survey with a "
            "shorter --max-age"
        )
    with opened(home) as store:
        known = survey.id in store.surveys.names()
        store.surveys.add(survey)
    return not known


def next_steps(home: Home, survey: Survey) -> str:
    """What the operator of a party does once it collects for a survey."""
    place = home.directory
    if home.role == "shuffler":
        token = f"shoal keys token {place} --survey {str(survey.id)[:8]}, for the analyzer"
        return f"{token}; then shoal serve shuffler {place} and shoal serve worker {place}"
    token = f"put the token of the shuffler's operator into {place}/token (mode 600)"
    return f"{token}; then shoal serve analyzer {place}"


def registered(store: Store) -> list[dict[str, Any]]:
    """The surveys that a party collects for, and whether anything was ever taken for each."""
    return [
        {
            "survey": str(each.id),
            "question": each.title,
            "questions": len(each.questions),
            **attributes(each, "name", "not_before", "not_after"),
            "taken": store.surveys.taken(each.id),
        }
        for each in store.surveys.all()
    ]


def surveys_document(home: Home, surveys: Sequence[dict[str, Any]]) -> Document:
    """What a party collects for, in words."""
    party = f"the {home.role} in {home.directory}"
    if not surveys:
        return Document(f"{party} collects for no survey: shoal survey add")
    rows = (
        (
            each["survey"][:16],
            each["name"],
            moment(each["not_before"]),
            moment(each["not_after"]),
            "yes" if each["taken"] else "nothing",
        )
        for each in surveys
    )
    headings = ("survey", "name", "from", "to (UTC)", "taken")
    title = f"{party} collects for {plural(len(surveys), 'survey')}"
    return Document(title, table=Table(headings, tuple(map(Row, rows))))


def survey_name(store: Store, digits: str) -> SurveyId:
    """The one survey of a party whose name begins with these digits."""
    names = store.surveys.names()
    fitting = [name for name in names if str(name).startswith(digits)]
    if not _DIGITS.fullmatch(digits) or len(fitting) != 1:
        known = ", ".join(str(name)[:12] for name in names) or "none"
        expected = f"the first digits of one name here ({known})"
        raise InvalidArgumentError("survey", digits, expected)
    return fitting[0]


def remove_survey(store: Store, digits: str) -> tuple[SurveyId, int]:
    """Let a party forget a survey that nothing was taken for; its name, and how many tokens went.

    The first digits of its name are enough, and nothing else of it is looked at: one that this
    version would not add can be removed as well.
    """
    name = survey_name(store, digits)
    try:
        return name, store.surveys.remove(name)
    except RefusedError as error:
        taken = "reports" if isinstance(store, ShufflerStore) else "collected batches"
        ends = moment(store.surveys.get(name).not_after)
        raise RefusedError(error.what, f"it has {taken}", f"it closes on {ends} (UTC)") from error


def delete_data(store: Store, survey: SurveyId) -> Deleted:
    """Delete all that a party has of a survey that is over; how much it was, and what is left."""
    try:
        return store.delete_survey(survey)
    except NotReadyError as error:
        over = store.surveys.get(survey)
        until = moment(over.not_after + over.batches.max_age)
        raise RefusedError(
            f"survey {survey} is not over: its last batch may close until {until} (UTC); "
            "nothing was deleted"
        ) from error


def tokens_document(tokens: Sequence[TokenScope], now: int) -> Document:
    """Tokens in words."""
    if not tokens:
        return Document("no tokens: make one with shoal keys token")
    rows = (
        (
            token.label,
            "all" if token.survey is None else str(token.survey)[:16],
            f"{'ended ' * (token.expires <= now)}{moment(token.expires)} UTC",
        )
        for token in tokens
    )
    table = Table(("label", "survey", "until"), tuple(map(Row, rows)))
    return Document(plural(len(tokens), "token"), table=table)


def revoke_token(store: Store, label: str) -> int:
    """Make every token of a label worthless from now on; how many there were."""
    revoked = store.tokens.revoke(label)
    if not revoked:
        known = ", ".join(sorted({token.label for token in store.tokens.listed()}))
        expected = f"the label of a token here ({known or 'there is none'})"
        raise InvalidArgumentError("label", label, expected)
    return revoked


def ask_again(store: AnalyzerStore, surveys: Sequence[Survey], digits: str) -> None:
    """Let a batch that was refused be fetched once more; the first digits of its name will do."""
    survey, batch = _batch(store, surveys, schema.REFUSED, again=digits)
    store.collections.again(survey.id, batch)


def release(store: AnalyzerStore, surveys: Sequence[Survey], digits: str) -> str:
    """Publish a batch that is held; the first digits of its name will do."""
    survey, batch = _batch(store, surveys, schema.HELD, release=digits)
    collect.release(store, survey, batch)
    return batch


def _batch(
    store: AnalyzerStore, surveys: Sequence[Survey], state: str, **option: str
) -> tuple[Survey, str]:
    """The one batch in a state whose name begins with the digits of an option."""
    ((name, digits),) = option.items()
    every = [(survey, each) for survey in surveys for each in store.collections.of(survey.id)]
    fitting = [(survey, each) for survey, each in every if digits and each.batch.startswith(digits)]
    chosen = [(survey, each.batch) for survey, each in fitting if each.state == state]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(each.batch[:8] for _, each in every if each.state == state) or "none"
    expected = f"the first digits of one {state.lower()} batch ({known})"
    if len(fitting) == 1:
        expected = f"{expected}; this one is {fitting[0][1].state.lower()}"
    raise InvalidArgumentError(name, digits, expected)

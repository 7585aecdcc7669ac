"""What an operator tells a party: which surveys it collects for, and who may ask it what."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal import checks
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import moment, plural
from shoal.sealing import SurveyId
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.store import AnalyzerStore
from shoal.service.db.surveys import Deleted
from shoal.service.db.tokens import TokenScope
from shoal.service.errors import NotReadyError, SurveyInUseError
from shoal.service.keyring import Keyring
from shoal.service.ops.home import Home, check_named, opened
from shoal.service.survey import Survey

DAY = 86_400
_SHOWN = ("name", "question", "not_before", "not_after")  # of a survey, in JSON
_DIGITS = re.compile(r"[0-9a-f]{4,64}")


class AdministrationError(ShoalError):
    """A survey that a party cannot collect for, or cannot forget."""


def add_survey(survey: Survey, home: Home) -> bool:
    """Let a party collect for a survey that names it; whether it did not know it before."""
    keyring = Keyring.open(home.keys, protection=None)
    check_named(survey, keyring)
    if survey.suite not in keyring.suites:
        raise AdministrationError(
            f"reports of the survey are sealed with {survey.suite}, and the {home.role} has keys "
            f"for {', '.join(keyring.suites)} only; add one by shoal keys rotate --suite "
            f"{survey.suite}"
        )
    expired, max_age = keyring.schedule.expired, survey.batches.max_age
    if home.role == "analyzer" and expired < max_age:
        raise AdministrationError(
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


@dataclass(frozen=True)
class Registered:
    """A survey that a party collects for, and whether anything was ever taken for it."""

    survey: Survey
    taken: bool

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "survey": str(self.survey.id),
            **{name: getattr(self.survey, name) for name in _SHOWN},
            "taken": self.taken,
        }


def surveys_of(home: Home) -> list[Registered]:
    """The surveys that a party collects for, in the order they were added."""
    with opened(home) as store:
        return [Registered(each, store.surveys.taken(each.id)) for each in store.surveys.all()]


def surveys_document(home: Home, registered: Sequence[Registered]) -> Document:
    """What a party collects for, in words."""
    party = f"the {home.role} in {home.directory}"
    if not registered:
        return Document(f"{party} collects for no survey: shoal survey add")
    rows = (
        (
            str(each.survey.id)[:16],
            each.survey.name,
            moment(each.survey.not_before),
            moment(each.survey.not_after),
            "yes" if each.taken else "nothing",
        )
        for each in registered
    )
    headings = ("survey", "name", "from", "to (UTC)", "taken")
    title = f"{party} collects for {plural(len(registered), 'survey')}"
    return Document(title, table=Table(headings, tuple(map(Row, rows))))


def remove_survey(home: Home, digits: str) -> tuple[SurveyId, int]:
    """Let a party forget a survey that nothing was taken for; its name, and how many tokens went.

    The first digits of its name are enough, and nothing else of it is looked at: one that this
    version would not add can be removed as well.
    """
    with opened(home) as store:
        name = _named(store.surveys.names(), digits)
        try:
            return name, store.surveys.remove(name)
        except SurveyInUseError as error:
            taken = "reports" if home.role == "shuffler" else "collected batches"
            ends = moment(store.surveys.get(name).not_after)
            message = f"it has {taken}: it ends by itself on {ends} (UTC)"
            raise AdministrationError(f"survey {name} stays: {message}") from error


def survey_name(home: Home, digits: str) -> SurveyId:
    """The one survey of a party whose name begins with these digits."""
    with opened(home) as store:
        return _named(store.surveys.names(), digits)


def delete_data(home: Home, survey: SurveyId) -> Deleted:
    """Delete all that a party has of a survey that is over; how much it was, and what is left."""
    with opened(home) as store:
        try:
            return store.delete_survey(survey)
        except NotReadyError as error:
            over = store.surveys.get(survey)
            until = moment(over.not_after + over.batches.max_age)
            raise AdministrationError(
                f"survey {survey} is not over: its last batch may close until {until} (UTC); "
                "nothing was deleted"
            ) from error


def make_token(
    home: Home, *, survey: str | None = None, days: int, label: str
) -> tuple[str, Survey | None]:
    """A token for one survey (its first digits are enough) or for all; it is nowhere else."""
    lifetime = checks.count(days=days) * DAY
    with opened(home) as store:
        chosen = None if survey is None else find_survey(store.surveys.all(), survey)
        return store.tokens.add(label, None if chosen is None else chosen.id, lifetime), chosen


def tokens_of(home: Home) -> list[TokenScope]:
    """The tokens that a party has made, as far as it knows them."""
    with opened(home) as store:
        return store.tokens.listed()


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


def revoke_token(home: Home, label: str) -> int:
    """Make every token of a label worthless from now on; how many there were."""
    with opened(home) as store:
        revoked = store.tokens.revoke(label)
        known = sorted({token.label for token in store.tokens.listed()})
    if not revoked:
        expected = f"the label of a token here ({', '.join(known) or 'there is none'})"
        raise InvalidArgumentError("label", label, expected)
    return revoked


def find_survey(surveys: list[Survey], digits: str) -> Survey:
    """The one survey whose name begins with these digits."""
    name = _named([survey.id for survey in surveys], digits)
    return next(survey for survey in surveys if survey.id == name)


def _named(names: Iterable[SurveyId], digits: str) -> SurveyId:
    names = list(names)
    fitting = [name for name in names if str(name).startswith(digits)]
    if not _DIGITS.fullmatch(digits) or len(fitting) != 1:
        known = ", ".join(str(name)[:12] for name in names) or "none"
        expected = f"the first digits of one name here ({known})"
        raise InvalidArgumentError("survey", digits, expected)
    return fitting[0]


def ask_again(store: AnalyzerStore, surveys: Sequence[Survey], digits: str) -> None:
    """Let a batch that was refused be fetched once more; the first digits of its name will do."""
    refused = [
        (survey, each.batch)
        for survey in surveys
        for each in store.collections.of(survey.id)
        if each.state == schema.REFUSED
    ]
    chosen = [pair for pair in refused if digits and pair[1].startswith(digits)]
    if len(chosen) != 1:
        known = ", ".join(batch[:8] for _, batch in refused) or "none"
        expected = f"the first digits of one refused batch ({known})"
        raise InvalidArgumentError("again", digits, expected)
    ((survey, batch),) = chosen
    store.collections.again(survey.id, batch)

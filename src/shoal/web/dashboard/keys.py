"""How old keys are and what comes next: the analyzer's own, and its copy of the shuffler's list."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.explain.text import duration
from shoal.report.markup import Markup, element
from shoal.sealing import SealingError
from shoal.service.keyring import KeyInfo, KeyList, Keyring, KeyringError
from shoal.service.keyring.words import advice, coming
from shoal.service.survey import Survey
from shoal.web.dashboard.parts import day, note, panel, sentence, table

_HEADS = ("key", "suite", "state", "age", "next")


def keys(survey: Survey, keyring: Keyring, copies: dict[str, bytes], now: int) -> Markup:
    """Both lists, and advice where somebody has to act."""
    return panel(
        "keys",
        "Keys",
        element("h3", "The analyzer's own"),
        _table(keyring.list().keys, now, "The analyzer's keys"),
        *(note(sentence(text), kind="warning") for text in advice(keyring)),
        element("h3", "The shuffler's, as it showed them here"),
        *_copied(survey, copies, now),
    )


def _table(found: Sequence[KeyInfo], now: int, caption: str) -> Markup:
    rows = [
        (
            str(key.number),
            key.suite,
            key.state.value,
            duration(now - key.created),
            coming(key, now),
        )
        for key in found
    ]
    kinds = ("n", "text", "text", "text", "text")
    return table(_HEADS, rows, caption=caption, classes=kinds)


def _copied(survey: Survey, copies: dict[str, bytes], now: int) -> list[Markup]:
    name = survey.shuffler.fingerprint
    if name not in copies:
        return [note("None was collected yet.")]
    try:
        found = KeyList.verified(copies[name], fingerprint=name, now=now, role="shuffler")
    except (KeyringError, SealingError) as error:
        return [note(sentence(str(error)), kind="warning")]
    return [
        _table(found.keys, now, "The shuffler's keys"),
        element("p", "Signed ", day(found.issued), ", valid until ", day(found.valid_until), "."),
    ]

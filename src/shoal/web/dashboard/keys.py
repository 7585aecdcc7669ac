"""How old keys are and what comes next: the analyzer's own, and its copy of the shuffler's list."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.report.markup import Markup, element
from shoal.sealing import SealingError
from shoal.service.keyring import KeyInfo, KeyList, Keyring, KeyringError, KeyState
from shoal.service.keyring.lifecycle import NUMBERS
from shoal.service.survey import Survey
from shoal.web.dashboard.parts import DAY, day, duration, note, panel, table

_FEW_NUMBERS = 12
_SOON = 3 * DAY
_HEADS = ("key", "suite", "state", "age", "next")


def keys(survey: Survey, keyring: Keyring, copies: dict[str, bytes], now: int) -> Markup:
    """Both lists, and advice where somebody has to act."""
    own = keyring.list()
    return panel(
        "keys",
        "Keys",
        element("h3", "The analyzer's own"),
        _table(own.keys, now, "The analyzer's keys"),
        *(note(text, kind="warning") for text in _advice(keyring, own, now)),
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
            _next(key, now),
        )
        for key in found
    ]
    kinds = ("n", "text", "text", "text", "text")
    return table(_HEADS, rows, caption=caption, classes=kinds)


def _next(key: KeyInfo, now: int) -> str:
    match key.state:
        case KeyState.PENDING:
            return f"in use in {duration(key.active_from - now)}"
        case KeyState.ACTIVE if key.expires_at > now:
            return f"expires in {duration(key.expires_at - now)}"
        case KeyState.ACTIVE:
            return "expires when its successor is in use"
        case KeyState.EXPIRED if key.deletes_at > now:
            return f"deleted in {duration(key.deletes_at - now)} or later"
        case KeyState.EXPIRED:
            return "deleted when the service next looks"
    return "leaves the list when it is signed again"


def _advice(keyring: Keyring, own: KeyList, now: int) -> list[str]:
    """What somebody has to do; a ring whose identity is here changes its keys by itself."""
    said = []
    if now > own.valid_until:
        said.append("The list is no longer valid: devices send nothing until it is signed again.")
    elif own.valid_until - now < _SOON and not keyring.can_sign:
        left = duration(own.valid_until - now)
        said.append(f"The list is valid for {left} more: sign it again with shoal keys rotate.")
    said += [
        f"Key {key.number} is overdue: run shoal keys rotate."
        for key in own.keys
        if key.state is KeyState.ACTIVE and key.expires_at <= now
    ]
    if not keyring.has_identity:
        said.append("The identity is kept elsewhere: keys do not change by themselves.")
    if keyring.numbers_left < _FEW_NUMBERS:
        said.append(f"{keyring.numbers_left} of {NUMBERS} key numbers are left: plan a new ring.")
    return said


def _copied(survey: Survey, copies: dict[str, bytes], now: int) -> list[Markup]:
    name = survey.shuffler.fingerprint
    if name not in copies:
        return [note("None was collected yet.")]
    try:
        found = KeyList.verified(copies[name], fingerprint=name, now=now, role="shuffler")
    except (KeyringError, SealingError) as error:
        return [note(f"{str(error)[:1].upper()}{str(error)[1:]}.", kind="warning")]
    return [
        _table(found.keys, now, "The shuffler's keys"),
        element("p", "Signed ", day(found.issued), ", valid until ", day(found.valid_until), "."),
    ]

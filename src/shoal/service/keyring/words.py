"""Keys in words: what comes next for each, and what somebody has to do about a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.explain.document import Document, Row, Table
from shoal.explain.text import duration, environment, moment
from shoal.service.keyring.key_list import DAY, HOUR, KeyInfo, KeyState
from shoal.service.keyring.keys import Keyring, Rotation
from shoal.service.keyring.rotation import CACHE_SECONDS, NUMBERS

_FEW_NUMBERS = 12
_SOON = 3 * DAY


def document(ring: Keyring) -> Document:
    """What surveys say of a ring."""
    secrets = ring.protection
    return Document(
        f"keys of the {ring.role} in {ring.directory}",
        facts=(
            ("fingerprint", ring.fingerprint),
            ("suites", ", ".join(ring.suites)),
            ("list until", f"{moment(ring.list().valid_until)} UTC"),
            ("secrets", "not protected" if secrets == "none" else f"protected by a {secrets}"),
        ),
    )


def _lines(part: str, *values: object) -> tuple[str, ...]:
    """The sentences of one part of ``words.txt``."""
    page: Any = environment(Path(__file__).parent).get_template("words.txt").module
    lines = map(str.strip, getattr(page, part)(*values).splitlines())
    return tuple(line for line in lines if line)


def new_document(ring: Keyring, key_file: Path | None) -> Document:
    """What a new ring is, and what to do with it."""
    in_the_clear = ring.protection == "none" and key_file is None
    return replace(
        document(ring),
        sentences=_lines("new", ring, key_file),
        warnings=("the secrets are stored unencrypted",) if in_the_clear else (),
    )


def list_document(ring: Keyring) -> Document:
    """Every key that is not deleted: its state, its age, and what happens to it next."""
    now = ring.now()
    rows = (
        (
            str(key.number),
            key.suite,
            key.state.value,
            duration(now - key.created),
            coming(key, now),
        )
        for key in ring.list().keys
    )
    table = Table(("key", "suite", "state", "age", "next"), tuple(map(Row, rows)))
    return replace(document(ring), table=table, warnings=tuple(advice(ring)))


def rotation_document(rotations: Sequence[Rotation], *, done: bool) -> Document:
    """What a rotation did, or would do."""
    title, *others = _lines("rotated", rotations, done)
    return Document(title, sentences=tuple(others))


def retired_document(
    ring: Keyring, number: int, left: KeyInfo | None, instead: KeyInfo
) -> Document:
    """What retiring a key did, and what it costs; ``left`` is what the list still has of it."""
    # The shuffler's copy of an analyzer's list is up to an hour old when a device takes it.
    hours = CACHE_SECONDS // HOUR + (ring.role == "analyzer")
    title, *others = _lines("retired", ring.role, number, left, instead, hours)
    return Document(title, sentences=tuple(others))


def coming(key: KeyInfo, now: int) -> str:
    """What happens to a key next."""
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
            return "deleted at the service's next check"
    return "stays listed until the list is signed again"


def regain(ring: Keyring, number: int) -> str:
    """What to do about a key whose secret is lost."""
    retire = f"shoal keys retire {ring.directory} {number} --delete"
    return (
        f"restore {ring.secret_path(number).name} from a backup; if there is none, {retire} "
        "makes devices use another key, and reports sealed for this one are lost"
    )


def advice(ring: Keyring) -> list[str]:
    """What somebody has to do; a service that has the identity changes keys by itself."""
    now, listed = ring.now(), ring.list()
    soon = listed.valid_until - now < min(_SOON, ring.schedule.listed // 4) and not ring.can_sign
    overdue = [key for key in listed.keys if key.state is KeyState.ACTIVE and key.expires_at <= now]
    lacking = [
        f"the secret of key {number} {why}: {regain(ring, number)}"
        for number, why in ring.lacking().items()
    ]
    values = (listed.valid_until, soon, overdue, lacking, NUMBERS, _FEW_NUMBERS)
    return [*_lines("advice", ring, now, *values)]

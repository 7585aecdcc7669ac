"""Keys in words: what comes next for each, and what somebody has to do about a ring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shoal.explain.document import Document, Row, Table
from shoal.explain.text import duration, moment
from shoal.service.keyring.key_list import DAY, HOUR, KeyInfo, KeyState
from shoal.service.keyring.keys import Keyring, Rotation
from shoal.service.keyring.rotation import CACHE_SECONDS, NUMBERS

_FEW_NUMBERS = 12
_SOON = 3 * DAY
_LOSSES = {
    "shuffler": "who sent which inner envelope, which stays sealed for the analyzer",
    "analyzer": "randomized answers, and whose they are with the shuffler's help",
}


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


def new_document(ring: Keyring, key_file: Path | None) -> Document:
    """What a new ring is, and what to do with it."""
    warnings: tuple[str, ...] = ()
    keep = "keep the passphrase: without it these keys open nothing"
    if key_file is not None:
        keep = f"keep {key_file} apart from {ring.directory}: together they open everything"
    elif ring.protection == "none":
        keep = ""
        warnings = ("secrets are on the disk in the clear",)
    sentences = (
        keep,
        "put the fingerprint into surveys",
        f"keep a copy of {ring.directory}/identity elsewhere: surveys end without it",
    )
    return replace(document(ring), sentences=tuple(filter(None, sentences)), warnings=warnings)


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
    will, expires = ("will be", "expires") if done else ("would be", "would expire")
    lines = []
    for rotation in rotations:
        new = rotation.new
        active = f"{moment(new.active_from)} UTC"
        lines.append(f"key {new.number} ({new.suite}) {will} in use from {active}")
        for key in rotation.replaced:
            until = f"{moment(key.deletes_at)} UTC"
            lines.append(f"key {key.number} {expires} then, and opens until {until} at least")
    title, *others = lines if done else [*lines, "nothing was changed"]
    return Document(title, sentences=tuple(others))


def retired_document(
    ring: Keyring, number: int, left: KeyInfo | None, instead: KeyInfo
) -> Document:
    """What retiring a key did, and what it costs; ``left`` is what the list still has of it."""
    if left is None:
        lines = [f"key {number} is shredded: reports sealed with it that wait are lost"]
    else:
        # The shuffler's copy of an analyzer's list is up to an hour old when a device takes it.
        hours = CACHE_SECONDS // HOUR + (ring.role == "analyzer")
        lines = [
            f"devices with an older list use key {number} for up to {hours} hours more;",
            "reports that were sealed before and wait on a device are sent as they are;",
            f"what arrives is opened until {moment(left.deletes_at)} UTC at least",
            "(--delete would end that now, and lose the reports that wait)",
        ]
    lines.append(f"whoever has its secret and recorded reports learns {_LOSSES[ring.role]}")
    return Document(
        f"devices that fetch the list now seal with key {instead.number}",
        sentences=tuple(lines),
    )


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
            return "deleted when the service next looks"
    return "leaves the list when it is signed again"


def regain(ring: Keyring, number: int) -> str:
    """What to do about a key whose secret is lost."""
    retire = f"shoal keys retire {ring.directory} {number} --delete"
    return (
        f"bring {ring.secret_path(number).name} back from a backup; if there is none, {retire} "
        "lets devices seal with another, and what waits for this one is lost"
    )


def advice(ring: Keyring) -> list[str]:
    """What somebody has to do; a service that has the identity changes keys by itself."""
    now, listed = ring.now(), ring.list()
    until = f"{moment(listed.valid_until)} UTC"
    left = listed.valid_until - now
    lines = []
    if left < 0:
        lines.append("the list is no longer valid: devices send nothing until it is signed again")
    elif left < min(_SOON, ring.schedule.listed // 4) and not ring.can_sign:
        lines.append(f"the list is valid until {until} only: shoal keys rotate signs it again")
    lines += [
        f"key {key.number} is overdue: run the service with the identity, or shoal keys rotate"
        for key in listed.keys
        if key.state is KeyState.ACTIVE and key.expires_at <= now
    ]
    lines += [
        f"the secret of key {number} {why}: {regain(ring, number)}"
        for number, why in ring.lacking().items()
    ]
    if not ring.has_identity:
        lines.append(f"the identity is elsewhere: run shoal keys rotate with it before {until}")
    if ring.numbers_left < _FEW_NUMBERS:
        lines.append(f"{ring.numbers_left} of {NUMBERS} key numbers are left: plan a new ring")
    return lines

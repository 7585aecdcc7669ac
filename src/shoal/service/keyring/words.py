"""Keys in words: what comes next for each, and what somebody has to do about a ring."""

from __future__ import annotations

from shoal.explain.text import duration, moment
from shoal.service.keyring.key_list import KeyInfo
from shoal.service.keyring.keyring import Keyring
from shoal.service.keyring.lifecycle import NUMBERS
from shoal.service.keyring.schedule import DAY, KeyState

_FEW_NUMBERS = 12
_SOON = 3 * DAY


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
    said = []
    if left < 0:
        said.append("the list is no longer valid: devices send nothing until it is signed again")
    elif left < min(_SOON, ring.schedule.listed // 4) and not ring.can_sign:
        said.append(f"the list is valid until {until} only: shoal keys rotate signs it again")
    said += [
        f"key {key.number} is overdue: run the service with the identity, or shoal keys rotate"
        for key in listed.keys
        if key.state is KeyState.ACTIVE and key.expires_at <= now
    ]
    said += [
        f"the secret of key {number} {why}: {regain(ring, number)}"
        for number, why in ring.lacking().items()
    ]
    if not ring.has_identity:
        said.append(f"the identity is elsewhere: run shoal keys rotate with it before {until}")
    if ring.numbers_left < _FEW_NUMBERS:
        said.append(f"{ring.numbers_left} of {NUMBERS} key numbers are left: plan a new ring")
    return said

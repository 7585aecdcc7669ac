"""What time does to keys: pure functions of a ring and the moment it is looked at.

::

    pending ──▶ active ──▶ expired ──▶ deleted
    published   handed out  accepted    shredded

A pending key is published before it is used, so that everybody has heard of it. Devices seal with
the active key. An expired one still opens what was sealed before: devices keep lists for a while,
and reports wait in batches. A deleted one opens nothing any more, whoever asks.

Three rules make clocks that are wrong harmless.

* States only move forward, and are recorded. A clock set back takes no key out of use again.
* A key in use expires when its successor is in use, and not before: nobody is ever without a key.
* An expired key is deleted after it was *seen* expired for the whole period. Between two looks at
  most ``Schedule.believed`` seconds count, and a clock set back counts nothing.

Published times follow what happens: a time that a wrong clock made too far away is drawn in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace

from shoal import checks
from shoal.sealing import PublicKey
from shoal.service.keyring.errors import KeyGoneError, KeyringError
from shoal.service.keyring.key_list import DAY, HOUR, MOST_KEYS, KeyInfo, KeyState

NUMBERS = 256  # a key's number is one byte of every envelope
# How long a device may keep a list before it asks again; expired keys live more than twice as long.
CACHE_SECONDS = DAY
# Clocks of devices may be fast by so much: a key may open what was sealed before it is in use.
CLOCK_TOLERANCE = 300
_MOST_EXPIRED = 5


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Seconds of each state, how long a signed list is valid, and the longest believable pause.

    ``believed``: the time between two looks at the clock counts towards an expired key's end up to
    this many seconds. A clock that jumps forward a year ends no key a year early.
    """

    pending: int = HOUR
    active: int = 30 * DAY
    expired: int = 14 * DAY
    listed: int = 14 * DAY
    believed: int = DAY

    def __post_init__(self) -> None:
        for field in fields(self):
            value = checks.count(1, **{field.name: getattr(self, field.name)})
            object.__setattr__(self, field.name, value)
        expected = f"at most half of active={self.active}"
        checks.refuse(2 * self.pending > self.active, expected, pending=self.pending)
        expected = f"at most {_MOST_EXPIRED} times active={self.active}, or lists grow long"
        too_many = self.pending + self.expired > _MOST_EXPIRED * self.active
        checks.refuse(too_many, expected, expired=self.expired)

    @property
    def lead(self) -> int:
        """Seconds before it is needed that a successor is made: lists that are kept have it."""
        return self.pending + min(CACHE_SECONDS, self.active // 10)

    @property
    def closing(self) -> int:
        """Seconds before its deletion in which a key takes no more, so that all it took opens."""
        return min(HOUR, self.expired // 10)


@dataclass(frozen=True, kw_only=True)
class Ring:
    """All keys that are not deleted, in the order of their numbers, which is that of their making.

    ``unused`` is the lowest number that no key ever had; ``looked`` when the ring was last looked
    at. A key that is deleted while nobody can sign stays as ``DELETED`` until somebody does.
    """

    schedule: Schedule
    unused: int = 0
    looked: int = 0
    keys: tuple[KeyInfo, ...] = ()

    @property
    def alive(self) -> frozenset[int]:
        """The numbers of the keys that are not deleted."""
        return frozenset(key.number for key in self.keys if key.state is not KeyState.DELETED)

    def find(self, number: int) -> KeyInfo | None:
        """The key of a number, if it is here."""
        return next((key for key in self.keys if key.number == number), None)

    def believed(self, now: int) -> int:
        """Seconds since the last look, as far as a clock is believed."""
        return min(max(now - self.looked, 0), self.schedule.believed)


def added(ring: Ring, public: PublicKey, now: int, *, begins: int | None = None) -> Ring:
    """With a new key: pending until it ``begins``, or in use if that is now."""
    begins = now + ring.schedule.pending if begins is None else begins
    key = KeyInfo(
        number=public.number,
        suite=public.suite.name,
        public=public,
        state=KeyState.ACTIVE if begins == now else KeyState.PENDING,
        created=now,
        active_from=begins,
        expires_at=begins + ring.schedule.active,
        deletes_at=begins + ring.schedule.active + ring.schedule.expired,
    )
    return replace(ring, keys=(*ring.keys, key), unused=public.number + 1)


def check_room(ring: Ring) -> None:
    """Refuse one more key where there is no number or no room in the list for it."""
    if ring.unused >= NUMBERS:
        raise KeyringError(
            f"all {NUMBERS} key numbers are used; make a new key ring (shoal keys new) and "
            "new surveys with its fingerprint"
        )
    if len(ring.keys) >= MOST_KEYS:
        first = min(key.deletes_at for key in ring.keys)
        raise KeyringError(
            f"{len(ring.keys)} keys are still needed, more than a list may have; wait until the "
            f"first of them is deleted (at {first}), or retire one with --delete"
        )


def has_room(ring: Ring) -> bool:
    """Whether one more key fits."""
    return ring.unused < NUMBERS and len(ring.keys) < MOST_KEYS


def passed(ring: Ring, now: int, keep: Collection[int] = ()) -> Ring:
    """The ring after the changes of state that are due; those of ``keep`` are not deleted yet."""
    enough, gap = ring.schedule.expired, ring.believed(now)
    keys = [replace(key, state=state_at(key, now)) for key in ring.keys]
    newest = {key.suite: key.number for key in keys if key.state is KeyState.ACTIVE}
    for place, key in enumerate(keys):
        if key.state is KeyState.ACTIVE and key.number < newest[key.suite]:
            keys[place] = replace(key, state=KeyState.EXPIRED)
        elif key.state is KeyState.EXPIRED:
            seen = min(key.seen_expired + gap, enough)
            deleted = seen >= enough and key.number not in keep
            state = KeyState.DELETED if deleted else KeyState.EXPIRED
            keys[place] = replace(key, state=state, seen_expired=0 if deleted else seen)
    return replace(ring, keys=tuple(keys), looked=now)


def seen(ring: Ring, now: int) -> Ring:
    """The same without deleting any: how a change that is asked for begins."""
    return passed(ring, now, keep=[key.number for key in ring.keys])


def due_successors(ring: Ring, now: int) -> dict[str, int]:
    """The suites whose newest key needs a successor by now, and when that one is to begin."""
    lasts = {key.suite: key for key in _chain(ring)}
    return {
        suite: max(key.expires_at, now + ring.schedule.pending)
        for suite, key in sorted(lasts.items())
        if key.expires_at <= now + ring.schedule.lead
    }


def settled(ring: Ring, now: int) -> Ring:
    """The ring with times that fit together and are not further away than the schedule allows.

    Deleted keys are left out: this is what the next list says.
    """
    schedule = ring.schedule
    timed: dict[int, KeyInfo] = {}
    ends: dict[str, int] = {}  # when the next key of a suite begins, or the last one's plan is over
    for key in reversed([*_chain(ring)]):
        latest = now if key.state is KeyState.ACTIVE else now + schedule.lead
        begins = min(key.active_from, latest)
        if key.suite not in ends:
            planned = max(begins, now) + schedule.active
            ends[key.suite] = min(key.expires_at, planned) if key.expires_at > now else planned
        end = ends[key.suite]
        begins = min(begins, end)  # one that would begin after its successor begins with it
        timed[key.number] = replace(
            key,
            created=min(key.created, begins),
            active_from=begins,
            expires_at=end,
            deletes_at=end + schedule.expired,
        )
        ends[key.suite] = begins
    keys = (
        timed.get(key.number) or _leaving(key, schedule, now)
        for key in ring.keys
        if key.state is not KeyState.DELETED
    )
    return replace(ring, keys=tuple(keys))


def needs_replacement(ring: Ring, number: int) -> str | None:
    """The suite that would have no key in use, nor one to come, without this key."""
    suite = _known(ring, number).suite
    others = any(key.suite == suite and key.number != number for key in _chain(ring))
    return None if others else suite


def retired(ring: Ring, number: int, now: int, *, delete: bool) -> Ring:
    """The ring with one key out of use now: expired, or deleted; the next one steps in at once.

    A key that was never in use is deleted: nobody sealed anything with it.
    """
    chosen = _known(ring, number)
    gone = delete or chosen.state is KeyState.PENDING
    if chosen.state is KeyState.EXPIRED and not gone:
        return ring
    out = replace(
        chosen,
        state=KeyState.DELETED if gone else KeyState.EXPIRED,
        seen_expired=0,
        expires_at=min(now, chosen.expires_at),
    )
    ring = _with(ring, out)
    heirs = [key for key in _chain(ring) if key.suite == chosen.suite]
    if any(key.state is KeyState.ACTIVE for key in heirs):
        return ring
    begins = min(now, heirs[0].active_from)
    return _with(ring, replace(heirs[0], state=KeyState.ACTIVE, active_from=begins))


def state_at(key: KeyInfo, now: int) -> KeyState:
    """The recorded state, or the next one of a pending key whose time has come."""
    due = key.state is KeyState.PENDING and now >= key.active_from
    return KeyState.ACTIVE if due else key.state


def accepts(key: KeyInfo, ring: Ring, now: int) -> bool:
    """Whether new reports may be sealed for a key: not shortly before it is deleted."""
    if key.state is not KeyState.EXPIRED:
        return state_at(key, now + CLOCK_TOLERANCE) is KeyState.ACTIVE
    left = ring.schedule.expired - key.seen_expired - ring.believed(now)
    return left > ring.schedule.closing


def _chain(ring: Ring) -> Iterator[KeyInfo]:
    """Keys in use or to come."""
    return (key for key in ring.keys if key.state in {KeyState.PENDING, KeyState.ACTIVE})


def _known(ring: Ring, number: int) -> KeyInfo:
    key = ring.find(number)
    if key is None or key.state is KeyState.DELETED:
        known = ", ".join(str(key.number) for key in ring.keys)
        raise KeyGoneError(number, f"this key ring has keys {known}")
    return key


def _with(ring: Ring, changed: KeyInfo) -> Ring:
    keys = (changed if key.number == changed.number else key for key in ring.keys)
    return replace(ring, keys=tuple(keys))


def _leaving(key: KeyInfo, schedule: Schedule, now: int) -> KeyInfo:
    """An expired key, with the time that it is kept for at least."""
    left = schedule.expired - key.seen_expired
    begins = min(key.active_from, now)
    ends = max(begins, min(key.expires_at, now))
    deletes = key.deletes_at
    if not now < deletes <= now + left:
        deletes = now + (left or max(schedule.closing, 1))
    return replace(
        key,
        created=min(key.created, begins),
        active_from=begins,
        expires_at=ends,
        deletes_at=max(deletes, ends),
    )

"""What time does to keys: pure functions of a ring and the moment it is looked at.

Three rules make clocks that are wrong harmless.

* States only move forward, and are recorded. A clock set back takes no key out of use again.
* A key in use expires when its successor is in use, and not before: nobody is ever without a key.
* An expired key is deleted after it was *seen* expired for the whole period. Between two looks at
  most ``Schedule.believed`` seconds count, and a clock set back counts nothing.

Published times follow what happens: a time that a wrong clock made too far away is drawn in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from shoal.sealing import PublicKey
from shoal.service.keyring.errors import KeyGoneError, KeyringError
from shoal.service.keyring.key_list import MOST_KEYS, KeyInfo
from shoal.service.keyring.schedule import CLOCK_TOLERANCE, HOUR, KeyState, Schedule

NUMBERS = 256  # a key's number is one byte of every envelope


@dataclass(frozen=True)
class Held:
    """A key of a ring, and for how many seconds it was seen expired."""

    key: KeyInfo
    counted: int = 0


@dataclass(frozen=True, kw_only=True)
class Ring:
    """All keys that are not deleted, in the order of their numbers, which is that of their making.

    ``unused`` is the lowest number that no key ever had; ``looked`` when the ring was last looked
    at. A key that is deleted while nobody can sign stays as ``DELETED`` until somebody does.
    """

    schedule: Schedule
    unused: int = 0
    looked: int = 0
    held: tuple[Held, ...] = ()

    @property
    def keys(self) -> tuple[KeyInfo, ...]:
        """The keys with their recorded states."""
        return tuple(held.key for held in self.held)

    @property
    def alive(self) -> frozenset[int]:
        """The numbers of the keys that are not deleted."""
        return frozenset(key.number for key in self.keys if key.state is not KeyState.DELETED)

    @property
    def suites(self) -> tuple[str, ...]:
        """The suites there are keys for."""
        return tuple(sorted({key.suite for key in self.keys}))

    def find(self, number: int) -> Held | None:
        """The key of a number, if it is here."""
        return next((held for held in self.held if held.key.number == number), None)


def added(
    ring: Ring, public: PublicKey, now: int, *, begins: int | None = None, at_once: bool = False
) -> Ring:
    """With a new key: pending until it ``begins``, or in use at once."""
    begins = now + ring.schedule.pending if begins is None else begins
    begins = now if at_once else begins
    key = KeyInfo(
        number=public.number,
        suite=public.suite.name,
        public=public,
        state=KeyState.ACTIVE if at_once else KeyState.PENDING,
        created=now,
        active_from=begins,
        expires_at=begins + ring.schedule.active,
        deletes_at=begins + ring.schedule.active + ring.schedule.expired,
    )
    return replace(ring, held=(*ring.held, Held(key)), unused=public.number + 1)


def check_room(ring: Ring) -> None:
    """Refuse one more key where there is no number or no room in the list for it."""
    if ring.unused >= NUMBERS:
        raise KeyringError(
            f"all {NUMBERS} numbers of this ring are used; make a new ring (shoal keys new) and "
            "new surveys with its fingerprint"
        )
    if len(ring.held) >= MOST_KEYS:
        first = min(key.deletes_at for key in ring.keys)
        raise KeyringError(
            f"{len(ring.held)} keys are still needed, more than a list may have; wait until the "
            f"first of them is deleted (at {first}), or retire one with --delete"
        )


def has_room(ring: Ring) -> bool:
    """Whether one more key fits."""
    return ring.unused < NUMBERS and len(ring.held) < MOST_KEYS


def passed(ring: Ring, now: int, keep: Collection[int] = ()) -> Ring:
    """The ring after the changes of state that are due; those of ``keep`` are not deleted yet."""
    gap = min(max(now - ring.looked, 0), ring.schedule.believed)
    held = [_activated(item, now) for item in ring.held]
    newest = {item.key.suite: item.key.number for item in held if _is(item, KeyState.ACTIVE)}
    moved = []
    for item in held:
        if _is(item, KeyState.ACTIVE) and item.key.number < newest[item.key.suite]:
            moved.append(_in_state(item, KeyState.EXPIRED))
        elif _is(item, KeyState.EXPIRED):
            moved.append(_counted(item, gap, ring.schedule, item.key.number in keep))
        else:
            moved.append(item)
    return replace(ring, held=tuple(moved), looked=now)


def seen(ring: Ring, now: int) -> Ring:
    """The same without deleting any: how a change that is asked for begins."""
    return passed(ring, now, keep=[key.number for key in ring.keys])


def due_successors(ring: Ring, now: int) -> dict[str, int]:
    """The suites whose newest key needs a successor by now, and when that one is to begin."""
    lasts = {item.key.suite: item.key for item in _chain(ring)}
    return {
        suite: max(key.expires_at, now + ring.schedule.pending)
        for suite, key in sorted(lasts.items())
        if key.expires_at <= now + ring.schedule.lead
    }


def settled(ring: Ring, now: int) -> Ring:
    """The ring with times that fit together and are not further away than the schedule allows.

    Deleted keys are left out: this is what the next list says.
    """
    alive = [item for item in ring.held if not _is(item, KeyState.DELETED)]
    chains: dict[str, list[KeyInfo]] = {}
    for item in _chain(ring):
        chains.setdefault(item.key.suite, []).append(_started(item.key, ring.schedule, now))
    timed = {
        key.number: key for chain in chains.values() for key in _ended(chain, ring.schedule, now)
    }
    held = [
        replace(item, key=timed[item.key.number])
        if item.key.number in timed
        else _leaving(item, ring.schedule, now)
        for item in alive
    ]
    return replace(ring, held=tuple(held))


def is_due(ring: Ring, now: int, keep: Collection[int] = ()) -> bool:
    """Whether a look at the ring would change a state, or is worth remembering."""
    looked = passed(ring, now, keep)
    if [key.state for key in looked.keys] != [key.state for key in ring.keys]:
        return True
    waiting = any(_is(item, KeyState.EXPIRED) for item in ring.held)
    return waiting and not 0 <= now - ring.looked < min(HOUR, ring.schedule.believed)


def needs_replacement(ring: Ring, number: int) -> str | None:
    """The suite that would have no key in use, nor one to come, without this key."""
    found = _found(ring, number).key
    others = [item for item in _chain(ring) if item.key.suite == found.suite]
    return None if any(item.key.number != number for item in others) else found.suite


def retired(ring: Ring, number: int, now: int, *, delete: bool) -> Ring:
    """The ring with one key out of use now: expired, or deleted; the next one steps in at once.

    A key that was never in use is deleted: nobody sealed anything with it.
    """
    chosen = _found(ring, number)
    gone = delete or _is(chosen, KeyState.PENDING)
    if _is(chosen, KeyState.EXPIRED) and not gone:
        return ring
    out = _in_state(chosen, KeyState.DELETED if gone else KeyState.EXPIRED)
    out = replace(out, key=replace(out.key, expires_at=min(now, out.key.expires_at)))
    left = replace(ring, held=tuple(out if item is chosen else item for item in ring.held))
    heirs = [item for item in _chain(left) if item.key.suite == chosen.key.suite]
    if any(_is(item, KeyState.ACTIVE) for item in heirs):
        return left
    heir = heirs[0]
    started = replace(heir.key, state=KeyState.ACTIVE, active_from=min(now, heir.key.active_from))
    return replace(
        left,
        held=tuple(replace(item, key=started) if item is heir else item for item in left.held),
    )


def state_at(item: Held, now: int) -> KeyState:
    """The recorded state, or the next one of a pending key whose time has come."""
    return _activated(item, now).key.state


def opens(item: Held, now: int) -> bool:
    """Whether a key may open what was sealed for it; clocks of devices may be a little fast."""
    state = state_at(item, now + CLOCK_TOLERANCE)
    return state in {KeyState.ACTIVE, KeyState.EXPIRED}


def accepts(item: Held, ring: Ring, now: int) -> bool:
    """Whether new reports may be sealed for a key: not shortly before it is deleted."""
    if not _is(item, KeyState.EXPIRED):
        return opens(item, now)
    gap = min(max(now - ring.looked, 0), ring.schedule.believed)
    return ring.schedule.expired - item.counted - gap > ring.schedule.closing


def _chain(ring: Ring) -> Iterator[Held]:
    """Keys in use or to come."""
    return (item for item in ring.held if item.key.state in {KeyState.PENDING, KeyState.ACTIVE})


def _found(ring: Ring, number: int) -> Held:
    found = ring.find(number)
    if found is None or _is(found, KeyState.DELETED):
        known = ", ".join(str(key.number) for key in ring.keys)
        raise KeyGoneError(number, f"this ring has keys {known}")
    return found


def _activated(item: Held, now: int) -> Held:
    due = _is(item, KeyState.PENDING) and now >= item.key.active_from
    return _in_state(item, KeyState.ACTIVE) if due else item


def _counted(item: Held, gap: int, schedule: Schedule, kept: bool) -> Held:  # noqa: FBT001
    counted = min(item.counted + gap, schedule.expired)
    if counted >= schedule.expired and not kept:
        return _in_state(item, KeyState.DELETED)
    return replace(item, counted=counted)


def _is(item: Held, state: KeyState) -> bool:
    return item.key.state is state


def _in_state(item: Held, state: KeyState) -> Held:
    return Held(replace(item.key, state=state))


def _started(key: KeyInfo, schedule: Schedule, now: int) -> KeyInfo:
    latest = now if key.state is KeyState.ACTIVE else now + schedule.lead
    return replace(key, active_from=min(key.active_from, latest))


def _ended(chain: list[KeyInfo], schedule: Schedule, now: int) -> Iterator[KeyInfo]:
    """Each key until the next one begins, the last one for as long as it is planned.

    A key that would begin after its successor begins with it.
    """
    last = chain[-1]
    planned = max(last.active_from, now) + schedule.active
    ends = min(last.expires_at, planned) if last.expires_at > now else planned
    for key in reversed(chain):
        begins = min(key.active_from, ends)
        yield replace(
            key,
            created=min(key.created, begins),
            active_from=begins,
            expires_at=ends,
            deletes_at=ends + schedule.expired,
        )
        ends = begins


def _leaving(item: Held, schedule: Schedule, now: int) -> Held:
    """An expired key, with the time that it is kept for at least."""
    key, left = item.key, schedule.expired - item.counted
    created, begins = min(key.created, now), min(key.active_from, now)
    ends = max(begins, min(key.expires_at, now))
    deletes = key.deletes_at
    if not now < deletes <= now + left:
        deletes = now + (left or max(schedule.closing, 1))
    return replace(
        item,
        key=replace(
            key,
            created=min(created, begins),
            active_from=begins,
            expires_at=ends,
            deletes_at=max(deletes, ends),
        ),
    )

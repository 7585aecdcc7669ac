"""How long a key is in which state.

::

    pending ──▶ active ──▶ expired ──▶ deleted
    published   handed out  accepted    shredded

A pending key is published before it is used, so that everybody has heard of it. Devices seal with
the active key. An expired one still opens what was sealed before: devices keep lists for a while,
and reports wait in batches. A deleted one opens nothing any more, whoever asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Literal

from shoal import checks
from shoal.errors import InvalidArgumentError

Role = Literal["shuffler", "analyzer"]
ROLES: tuple[Role, ...] = ("shuffler", "analyzer")

HOUR = 3600
DAY = 24 * HOUR
# How long a device may keep a list before it asks again; expired keys live more than twice as long.
CACHE_SECONDS = DAY
# Clocks of devices and services may differ by so much.
CLOCK_TOLERANCE = 300
_MOST_EXPIRED = 5


class KeyState(StrEnum):
    """What a key is good for."""

    PENDING = "pending"
    ACTIVE = "active"
    EXPIRED = "expired"
    DELETED = "deleted"


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
        if 2 * self.pending > self.active:
            expected = f"at most half of active={self.active}"
            raise InvalidArgumentError("pending", self.pending, expected)
        if self.pending + self.expired > _MOST_EXPIRED * self.active:
            expected = f"at most {_MOST_EXPIRED} times active={self.active}, or lists grow long"
            raise InvalidArgumentError("expired", self.expired, expected)

    @property
    def lead(self) -> int:
        """Seconds before it is needed that a successor is made: lists that are kept have it."""
        return self.pending + min(CACHE_SECONDS, self.active // 10)

    @property
    def closing(self) -> int:
        """Seconds before its deletion in which a key takes no more, so that all it took opens."""
        return min(HOUR, self.expired // 10)

    def to_dict(self) -> dict[str, int]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def restored(cls, stored: Mapping[str, int]) -> Schedule:
        """From plain values."""
        return cls(**{field.name: stored[field.name] for field in fields(cls)})

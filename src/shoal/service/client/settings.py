"""How a client sends: how often it tries, how long it waits, through whom, how much it keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError

_STEPS = 1 << 30  # of a random wait
_SMALLEST_STORE = 1 << 17
_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a client.

    ``tries`` a call, ``wait`` seconds after the first and twice as long after each next one, up to
    ``longest_wait``; every wait is shortened by up to a half at random. A wait above ``patience``
    ends the call: the report stays queued. A report leaves the device
    at a random moment within ``delay`` seconds. ``timeout`` of a request. ``proxy`` hides the
    device's address from the services: a report that was made or tried with one never leaves
    without. ``compare_keys`` asks the analyzer for both parties' keys too, and compares: it then
    sees the device's address. ``storage`` is how many bytes the outbox may have on disk.
    """

    tries: int = 3
    wait: float = 1.0
    longest_wait: float = 3600.0
    patience: float = 10.0
    delay: float = 0.0
    timeout: float = 20.0
    proxy: str | None = None
    compare_keys: bool = False
    storage: int = 64 << 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "tries", checks.count(tries=self.tries))
        checks.positive(wait=self.wait, timeout=self.timeout)
        checks.non_negative(delay=self.delay, patience=self.patience)
        checks.positive(longest_wait=self.longest_wait)
        if self.longest_wait < self.wait:
            raise InvalidArgumentError("longest_wait", self.longest_wait, f">= wait={self.wait}")
        storage = checks.count(_SMALLEST_STORE, storage=self.storage)
        object.__setattr__(self, "storage", storage)

    def wait_after(self, tries: int, *, asked: float = 0.0) -> float:
        """Seconds to wait after so many tries; what a service asked for, at the least."""
        longest = min(self.longest_wait, self.wait * 2.0 ** min(tries - 1, _DOUBLINGS))
        return max(longest * (0.5 + 0.5 * _share()), min(asked, self.longest_wait))

    def drawn_delay(self) -> int:
        """Whole seconds until a new report may leave."""
        return math.ceil(self.delay * _share())


def _share() -> float:
    """Uniform below 1, nobody else knows it."""
    return int(randomness.secure().below(_STEPS, 1)[0]) / _STEPS

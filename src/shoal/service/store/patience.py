"""How long something must look useless before it is deleted.

One look may be wrong: a clock that is ahead for a moment, a commit that the server has not finished
though whoever asked for it is dead, a database that was restored a minute ago. What is found
useless at every look for a while, by a clock that nobody sets, is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from shoal import checks

HOUR = 3600
Thing = TypeVar("Thing", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds: of ``files`` that nobody refers to, of small batches that are due to ``expire``."""

    files: float = HOUR
    expiry: float = HOUR

    def __post_init__(self) -> None:
        checks.non_negative(files=self.files, expiry=self.expiry)


AT_ONCE = Patience(files=0, expiry=0)


@dataclass
class Doubts(Generic[Thing]):
    """What looked useless, and since when; of one process, forgotten with it."""

    wait: float
    steady: Callable[[], float] = time.monotonic
    _since: dict[Thing, float] = field(default_factory=dict, init=False)

    def settled(self, found: Iterable[Thing]) -> set[Thing]:
        """Those of what is found now that were found at every look for long enough."""
        now = self.steady()
        self._since = {thing: self._since.get(thing, now) for thing in found}
        return {thing for thing, since in self._since.items() if now - since >= self.wait}

"""What takes too long for a page: worked out beside it, and shown by the next one."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")
Found = TypeVar("Found")

PATIENCE = 0.1  # seconds that a page waits for what may be there in a moment
_log = logging.getLogger(__name__)


@dataclass
class _Entry(Generic[Found]):
    done: threading.Event = field(default_factory=threading.Event)
    found: Found | None = None
    since: float = 0.0
    working: bool = False


class Later(Generic[Key, Found]):
    """Values by key, made in a thread; ``lasts`` says for how many seconds one is good.

    Whoever asks while the next one is made gets the one before. A value of which ``make`` raises
    is missing for ``again`` seconds.
    """

    def __init__(
        self,
        make: Callable[[Key], Found],
        *,
        lasts: Callable[[Found], float] = lambda _: float("inf"),
        again: float = 60.0,
        patience: float = PATIENCE,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._lasts = lasts
        self._again = again
        self._patience = patience
        self._timer = timer
        self._entries: dict[Key, _Entry[Found]] = {}
        self._lock = threading.Lock()

    def get(self, key: Key) -> Found | None:
        """The value, if there is one in a moment."""
        return self.all([key])[0]

    def all(self, keys: Iterable[Key]) -> list[Found | None]:
        """The values that are there in a moment, the same one for all of them."""
        entries = [self._begun(key) for key in keys]
        until = time.monotonic() + self._patience
        for entry in entries:
            entry.done.wait(max(0.0, until - time.monotonic()))
        return [entry.found for entry in entries]

    def _begun(self, key: Key) -> _Entry[Found]:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            begin = not entry.working and self._is_stale(entry)
            if begin:
                entry.working = True
        if begin:
            name = f"later-{self._make.__name__}"
            threading.Thread(target=self._work, args=(key, entry), name=name, daemon=True).start()
        return entry

    def _is_stale(self, entry: _Entry[Found]) -> bool:
        if not entry.done.is_set():
            return True
        good = self._again if entry.found is None else self._lasts(entry.found)
        return self._timer() - entry.since >= good

    def _work(self, key: Key, entry: _Entry[Found]) -> None:
        found = None
        try:
            found = self._make(key)
        except Exception:  # noqa: BLE001 - whatever it was, the page goes without
            _log.warning("not_found_out", exc_info=True)
        with self._lock:
            entry.found = found
            entry.since = self._timer()
            entry.working = False
            entry.done.set()

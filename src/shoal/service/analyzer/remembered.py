"""Documents and files of a survey that take long to make: kept until there are other results."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TypeAlias

from shoal.sealing import SurveyId

# What is another one whenever the results of a survey are.
Version: TypeAlias = tuple[object, ...]


class Remembered:
    """Whatever is made from the results of a survey, for one version of them.

    So many bytes of it at ``most``, and the newest whatever its size.
    """

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._kept: dict[tuple[SurveyId, str], tuple[Version, bytes]] = {}
        self._lock = Lock()
        self._making: dict[SurveyId, Lock] = {}

    def get(self, name: SurveyId, what: str, version: Version, make: Callable[[], bytes]) -> bytes:
        """As it was made before, or made now; of one survey one at a time."""
        with self._making.setdefault(name, Lock()):
            with self._lock:
                kept = self._kept.get((name, what))
            if kept is None or kept[0] != version:
                kept = version, make()
            with self._lock:
                self._keep((name, what), kept)
            return kept[1]

    def _keep(self, key: tuple[SurveyId, str], made: tuple[Version, bytes]) -> None:
        self._kept.pop(key, None)
        self._kept[key] = made  # the newest is the last
        held = sum(len(body) for _, body in self._kept.values())
        while held > self._most and len(self._kept) > 1:
            held -= len(self._kept.pop(next(iter(self._kept)))[1])

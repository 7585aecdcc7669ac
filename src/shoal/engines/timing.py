"""How long each stage takes, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

Tell = Callable[[int, int], None]
T = TypeVar("T")


@dataclass
class Progress:
    """Tells how many of all reports are made."""

    tell: Tell | None
    total: int
    done: int = 0

    def add(self, reports: int) -> None:
        """So many more are made."""
        self.done += reports
        if self.tell is not None:
            self.tell(self.done, self.total)


@dataclass
class Clock:
    """Seconds per stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """The time spent inside is the stage's."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

    def each(self, stage: str, items: Iterable[T]) -> Iterator[T]:
        """The items; the time it takes to get them is the stage's."""
        iterator = iter(items)
        while True:
            with self(stage):
                found = next(iterator, None)
            if found is None:
                return
            yield found

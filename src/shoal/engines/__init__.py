"""Where counting happens, how long each stage of it takes, and how far it is.

Everything above asks an :class:`Engine` and does not know where it counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.protocols.base import MultiMessageMechanism
from shoal.randomizers.base import Mechanism, Randomizer, Reports
from shoal.values import Counts, Envelopes

Tell = Callable[[int, int], None]
T = TypeVar("T")
_CHUNK = 1 << 20


class Engine(Protocol):
    """Adds up messages."""

    def count(self, mechanism: Mechanism, chunks: Iterable[Reports]) -> Counts:
        """The mechanism's counts over all chunks of reports."""


@dataclass(frozen=True)
class LocalEngine:
    """Counts on this machine, a chunk at a time: memory does not grow with the reports."""

    chunk: int = _CHUNK

    def count(self, mechanism: Mechanism, chunks: Iterable[Reports]) -> Counts:
        """The mechanism's counts over all chunks of reports."""
        total: Counts | None = None
        for reports in chunks:
            for part in self._parts(mechanism, reports):
                total = part if total is None else total + part
        if total is None:
            raise InvalidArgumentError("chunks", 0, "at least one report")
        return total

    def _parts(self, mechanism: Mechanism, reports: Reports) -> Iterator[Counts]:
        if isinstance(reports, Envelopes) and isinstance(mechanism, MultiMessageMechanism):
            yield mechanism.tally(reports)
        elif isinstance(mechanism, Randomizer) and not isinstance(reports, Envelopes):
            for start in range(0, len(reports), self.chunk):
                yield mechanism.tally(np.asarray(reports[start : start + self.chunk]))
        else:
            expected = f"reports that {mechanism.name} made"
            raise InvalidArgumentError("reports", type(reports).__name__, expected)


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
                item = next(iterator, None)
            if item is None:
                return
            yield item

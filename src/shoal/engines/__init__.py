"""Where counting happens. Everything above asks an :class:`Engine` and does not know where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.protocols.base import Protocol as SeveralMessages
from shoal.randomizers.base import Mechanism, Randomizer, Reports
from shoal.values import Counts, Envelopes

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
        if isinstance(reports, Envelopes) and isinstance(mechanism, SeveralMessages):
            yield mechanism.tally(reports)
        elif isinstance(mechanism, Randomizer) and not isinstance(reports, Envelopes):
            for start in range(0, len(reports), self.chunk):
                yield mechanism.tally(np.asarray(reports[start : start + self.chunk]))
        else:
            expected = f"reports that {mechanism.name} made"
            raise InvalidArgumentError("reports", type(reports).__name__, expected)

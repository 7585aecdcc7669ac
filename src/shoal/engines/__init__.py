"""Where counting happens. Everything above asks an :class:`Engine` and does not know where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import Randomizer
from shoal.values import Counts, Messages

_CHUNK = 1 << 20


class Engine(Protocol):
    """Adds up messages."""

    def count(self, randomizer: Randomizer, chunks: Iterable[Messages]) -> Counts:
        """The randomizer's counts over all chunks of messages."""


@dataclass(frozen=True)
class LocalEngine:
    """Counts on this machine, a chunk at a time: memory does not grow with the reports."""

    chunk: int = _CHUNK

    def count(self, randomizer: Randomizer, chunks: Iterable[Messages]) -> Counts:
        """The randomizer's counts over all chunks of messages."""
        total: Counts | None = None
        for messages in chunks:
            for start in range(0, len(messages), self.chunk):
                part = randomizer.tally(np.asarray(messages[start : start + self.chunk]))
                total = part if total is None else total + part
        if total is None:
            raise InvalidArgumentError("chunks", 0, "at least one report")
        return total

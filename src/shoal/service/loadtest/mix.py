"""What is sent, in which order: fresh reports, such that were sent before, and forged ones.

Kinds are spread evenly, so that any second of a test has its share of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from shoal import checks
from shoal.errors import InvalidArgumentError

Kind: TypeAlias = Literal["fresh", "replayed", "forged"]
_STRIDE = 7919  # a prime, so that repetitions go round all bodies out of order


@dataclass(frozen=True)
class Request:
    """A body, and what kind it is."""

    kind: Kind
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Mix:
    """How many requests, and which shares of them are forged and replayed.

    >>> Mix(requests=10, forged=0.2, replayed=0.5).fresh
    3
    """

    requests: int
    forged: float = 0.0
    replayed: float = 0.0

    def __post_init__(self) -> None:
        checks.count(requests=self.requests)
        for name in ("forged", "replayed"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidArgumentError(name, getattr(self, name), "a share from 0 to 1")
        if self.replayed and self.forged + self.replayed >= 1:
            expected = "less than what is not forged: something has to be sent a first time"
            raise InvalidArgumentError("replayed", self.replayed, expected)

    def kinds(self) -> Iterator[Kind]:
        """The kind of every request, in order."""
        for number in range(self.requests):
            if _falls(number, self.forged):
                yield "forged"
            elif _falls(number - math.floor(number * self.forged), self._replayed_of_honest):
                yield "replayed"
            else:
                yield "fresh"

    @property
    def _replayed_of_honest(self) -> float:
        return self.replayed / (1 - self.forged) if self.replayed else 0.0

    @property
    def fresh(self) -> int:
        """How many bodies are sent for the first time."""
        return sum(kind == "fresh" for kind in self.kinds())

    def drawn(self, fresh: Sequence[bytes], forged: Callable[[], bytes]) -> Iterator[Request]:
        """The requests: as many ``fresh`` bodies are needed as there are fresh requests."""
        sent = replayed = 0
        for kind in self.kinds():
            if kind == "forged":
                yield Request(kind, forged())
            elif kind == "replayed":
                replayed += 1
                yield Request(kind, fresh[replayed * _STRIDE % sent])
            else:
                yield Request(kind, fresh[sent])
                sent += 1


def _falls(number: int, share: float) -> bool:
    """Whether the count of a share grows with this number."""
    return math.floor((number + 1) * share) > math.floor(number * share)

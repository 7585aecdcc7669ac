"""Many people's reports at once: for simulations, load, and answers collected otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from shoal.randomness import Randomness
from shoal.sealing import PublicKey
from shoal.service.client.drawing import Values, draw
from shoal.service.survey import Survey
from shoal.service.wire import Wire

MOST_REPORTS = 10_000  # that a shuffler takes in one request
MOST_BYTES = 8 << 20
_SHOWN = 32  # digits of a fingerprint
_PIECE = 500  # reports that one process seals at a time


@dataclass(frozen=True)
class Keys:
    """The keys a report is sealed with."""

    analyzer: PublicKey
    shuffler: PublicKey

    @property
    def named(self) -> str:
        """Which keys they are: a number alone could be that of another key one day."""
        both = (self.analyzer, self.shuffler)
        return ",".join(f"{key.number}:{key.fingerprint[:_SHOWN]}" for key in both)


def seal_many(
    survey: Survey,
    values: Values,
    keys: Keys,
    *,
    randomness: Randomness | None = None,
    pool: Executor | None = None,
) -> list[bytes]:
    """Everybody's randomized and sealed report; those who do not take part have none.

    ``values`` are what the mechanism takes: numbers of answers, or numbers within bounds.
    """
    drawn = draw(survey, values, randomness=randomness)
    return sealed(Wire.of(survey), drawn.messages, keys, pool=pool)


def sealed(wire: Wire, messages: bytes, keys: Keys, *, pool: Executor | None = None) -> list[bytes]:
    """Reports of messages that were drawn: ``slots`` of them make one."""
    each = wire.slots * wire.message_bytes
    size = _PIECE * each
    pieces = [messages[start : start + size] for start in range(0, len(messages), size)]
    if pool is None or len(pieces) < 2:
        return [report for piece in pieces for report in _seal_piece(wire, piece, keys)]
    return [
        report
        for part in pool.map(_seal_piece, repeat(wire), pieces, repeat(keys))
        for report in part
    ]


def people_a_chunk(wire: Wire) -> int:
    """How many people's reports go into one request."""
    return max(1, min(MOST_REPORTS, MOST_BYTES // wire.report_bytes))


def chunks(people: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Number, first and end of each chunk of people."""
    for number, start in enumerate(range(0, people, size)):
        yield number, start, min(people, start + size)


def _seal_piece(wire: Wire, messages: bytes, keys: Keys) -> list[bytes]:
    rows = np.frombuffer(messages, dtype=np.uint8)
    people = rows.reshape(-1, wire.slots, wire.message_bytes)
    return [wire.seal(slots, analyzer=keys.analyzer, shuffler=keys.shuffler) for slots in people]

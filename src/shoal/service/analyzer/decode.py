"""What is in a batch: its records opened, and those left out that may not count.

A record counts if it opens, holds a message that a device can have sent, and was not counted
before, in this batch or in an earlier one. Everything else is left out by itself, counted by its
reason, and never stops the rest.

With one slot, what is left is one valid report per record. With m slots nobody knows which records
belong together, but each one left out spoils at most one report: of N reports at least
N - (records left out) have all of their messages.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from shoal.protocols.base import Device
from shoal.sealing import KeyPair
from shoal.service.opening import TAG_BYTES, Pool, Rows, batch_of
from shoal.service.wire import Wire
from shoal.values import Counts

AT_ONCE = 50_000  # records opened at a time

UNOPENED = "unopened"
INADMISSIBLE = "inadmissible"
REPEATED = "repeated"
REPLAYED = "replayed"
REASONS = {
    UNOPENED: "records that do not open with the key they name",
    INADMISSIBLE: "messages that no device can have sent",
    REPEATED: "records that are in this batch more than once",
    REPLAYED: "records that an earlier batch had already",
}


@dataclass(frozen=True, eq=False)
class Admitted:
    """Messages that a device can have sent, each once, with the tags of their records."""

    messages: Rows
    tags: Rows
    rejected: dict[str, int]


def decode(
    device: Device,
    wire: Wire,
    pair: KeyPair,
    body: memoryview,
    *,
    pool: Pool,
) -> Admitted:
    """The records of a body that may count."""
    messages, tags = (
        [np.empty((0, width), dtype=np.uint8)] for width in (wire.message_bytes, TAG_BYTES)
    )
    unopened = inadmissible = 0
    length = AT_ONCE * wire.record_bytes
    for start in range(0, len(body), length):
        piece = bytes(body[start : start + length])
        opened = pool.open_records(wire, pair, piece)
        sound = device.admissible(opened.messages)
        messages.append(opened.messages[sound])
        tags.append(opened.tags[sound])
        unopened += opened.rejected
        inadmissible += int(sound.size - sound.sum())
    every, marks = np.concatenate(messages), np.concatenate(tags)
    whole = np.ascontiguousarray(marks).view(f"V{TAG_BYTES}").ravel()
    first = np.sort(np.unique(whole, return_index=True)[1])  # where each tag is for the first time
    rejected = {
        UNOPENED: unopened,
        INADMISSIBLE: inadmissible,
        REPEATED: len(marks) - len(first),
        REPLAYED: 0,
    }
    return Admitted(every[first], marks[first], rejected)


def tallied(
    device: Device, records: Admitted, *, reports: int, slots: int
) -> tuple[int, Counts | None]:
    """How many of the reports count at least, and their messages added up; None of none."""
    valid = len(records.messages)
    if slots > 1:
        valid = max(0, reports - sum(records.rejected.values()))
    return valid, device.counted(batch_of(device, records.messages, valid)) if valid else None


def packed(counts: Counts) -> bytes:
    """Counts as they are kept.

    >>> unpacked(packed(Counts(np.array([3, 0, 4]), 7)), 7).cells.tolist()
    [3, 0, 4]
    """
    return zlib.compress(counts.cells.astype("<i8").tobytes(), 1)


def unpacked(data: bytes, n: int) -> Counts:
    """Counts of n people, as they were."""
    cells = np.frombuffer(zlib.decompress(data), dtype="<i8")
    return Counts(cells.astype(np.int64), n)

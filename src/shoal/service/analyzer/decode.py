"""What is in a batch: its records opened, and those left out that may not count.

A record counts if it opens, holds a message that a device can have sent, and was not counted
before, in this batch or in an earlier one. Everything else is left out by itself, counted by its
reason, and never stops the rest.

Which records are the same is known by their hashes, before any is opened: of each only one is. So
records can be opened and counted in parts, here or elsewhere, and the counts added up.

With one slot, what is left is one valid report per record. With m slots nobody knows which records
belong together, but each one left out spoils at most one report: of N reports at least
N - (records left out) have all of their messages.

The records of several questions are decoded apart, each section by its own device. A record opens
in its own section only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from shoal.mechanisms.base import Device
from shoal.sealing import KeyPair
from shoal.service.opening import TAG_BYTES, Pool, Rows, tags_of
from shoal.service.wire import Section
from shoal.values import Counts

AT_ONCE = 50_000  # records opened at a time

UNOPENED = "unopened"
INADMISSIBLE = "inadmissible"
REPEATED = "repeated"
REPLAYED = "replayed"
_SEVERAL = b"\x00"  # no compressed data begins with it
REASONS = {
    UNOPENED: "records that cannot be decrypted with the key they name",
    INADMISSIBLE: "messages that no device can have sent",
    REPEATED: "records that are in this batch more than once",
    REPLAYED: "records that were in an earlier batch",
}

Mask = npt.NDArray[np.bool_]
Cells = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Opened:
    """Records of which some were opened.

    ``opens`` and ``counts`` say of each whether it does; ``cells`` are the counts of those that do,
    None of none.
    """

    opens: Mask
    counts: Mask
    cells: Cells | None


class Records(Protocol):
    """The records of a batch, wherever they are opened."""

    def tags(self) -> Rows:
        """16 bytes of each record's SHA-256: equal ones are the same record."""

    def opened(self, wanted: Mask) -> Opened:
        """Those that are wanted, opened and counted."""


@dataclass(frozen=True, eq=False)
class LocalRecords:
    """Records that are opened on this machine, so many at a time as fit into memory with ease."""

    device: Device
    section: Section
    body: memoryview
    pair: KeyPair
    pool: Pool

    def tags(self) -> Rows:
        """Of all records, in their order."""
        size = self.section.record_bytes
        parts = range(0, len(self.body), AT_ONCE * size)
        tags = (tags_of(self.body[at : at + AT_ONCE * size], size) for at in parts)
        hashed = b"".join(tag for part in tags for tag in part)
        return np.frombuffer(hashed, dtype=np.uint8).reshape(-1, TAG_BYTES)

    def opened(self, wanted: Mask) -> Opened:
        """Those that are wanted."""
        opens, counts = np.zeros(len(wanted), dtype=bool), np.zeros(len(wanted), dtype=bool)
        cells: Cells | None = None
        size = self.section.record_bytes
        places = np.flatnonzero(wanted)
        rows = np.frombuffer(self.body, dtype=np.uint8).reshape(-1, size)
        for start in range(0, len(places), AT_ONCE):
            part = places[start : start + AT_ONCE]
            records = self.pool.open_records(self.section, self.pair, rows[part].tobytes())
            opens[part] = records.opens
            admissible = self.device.codec.admissible(records.messages)
            counts[part[records.opens][admissible]] = True
            if admissible.any():
                more = cells_of(self.device, records.messages[admissible])
                cells = more if cells is None else cells + more
        return Opened(opens, counts, cells)


def cells_of(device: Device, rows: Rows) -> Cells:
    """Admissible messages added up: of any part of a batch, whosever they are."""
    return device.codec.cells(device.codec.used(rows))


@dataclass(frozen=True, eq=False)
class Admitted:
    """What counts of a batch: the tags of its records, sorted, and their messages added up."""

    tags: Rows
    rejected: dict[str, int]
    cells: Cells | None = None

    def tallied(self, *, reports: int, slots: int) -> tuple[int, Counts | None]:
        """How many of the reports count at least, and their counts; None of none."""
        valid = len(self.tags)
        if slots > 1:
            valid = max(0, reports - sum(self.rejected.values()))
        return valid, None if not valid or self.cells is None else Counts(self.cells, valid)


def decode(batch: Records, replayed: Callable[[Rows], Mask]) -> Admitted:
    """The records of a batch that may count; ``replayed``: whether an earlier batch had them."""
    tags = batch.tags()
    each = np.ascontiguousarray(tags).view(f"V{TAG_BYTES}").ravel()
    _, first, copies = np.unique(each, return_index=True, return_counts=True)  # in sorted order
    known = replayed(tags[first])
    wanted = np.zeros(len(tags), dtype=bool)
    wanted[first[~known]] = True
    opened = batch.opened(wanted)
    opens, fresh = opened.opens[first], opened.counts[first]
    rejected = {
        UNOPENED: int(copies[~known & ~opens].sum()),
        INADMISSIBLE: int(copies[~known & opens & ~fresh].sum()),
        REPEATED: int((copies[known | fresh] - 1).sum()),
        REPLAYED: int(known.sum()),
    }
    return Admitted(tags[first[fresh]], rejected, opened.cells)


def joined(sections: Sequence[Admitted]) -> Admitted:
    """The tags and the records left out of all questions together."""
    if len(sections) == 1:
        return sections[0]
    tags = np.concatenate([section.tags for section in sections])
    order = np.argsort(np.ascontiguousarray(tags).view(f"V{TAG_BYTES}").ravel())
    rejected = {reason: sum(section.rejected[reason] for section in sections) for reason in REASONS}
    return Admitted(tags[order], rejected)


def packed(counts: Sequence[Counts]) -> bytes:
    """The counts of each question as they are kept.

    Of one question its cells; of several, after a zero byte, n, how many cells, and the cells.

    >>> stored = packed([Counts(np.array([3, 0, 4]), 7), Counts(np.array([1, 5]), 6)])
    >>> [(each.n, each.cells.tolist()) for each in unpacked(stored, 6)]
    [(7, [3, 0, 4]), (6, [1, 5])]
    """
    if len(counts) == 1:
        return zlib.compress(counts[0].cells.astype("<i8").tobytes(), 1)
    numbers = [number for each in counts for number in (each.n, len(each.cells), *each.cells)]
    return _SEVERAL + zlib.compress(np.array(numbers, dtype="<i8").tobytes(), 1)


def unpacked(data: bytes, valid: int) -> tuple[Counts, ...]:
    """The counts of each question, as they were; those of only one are of the valid reports."""
    several = data.startswith(_SEVERAL)
    numbers = np.frombuffer(zlib.decompress(data[several:]), dtype="<i8").astype(np.int64)
    if not several:
        return (Counts(numbers, valid),)
    counts, start = [], 0
    while start < len(numbers):
        n, size = numbers[start : start + 2].tolist()
        start += 2
        counts.append(Counts(numbers[start : start + size], n))
        start += size
    return tuple(counts)

"""One uniformly random order for the records of a batch, however large it is.

*In memory.* Records are sorted by independent random keys, drawn again where two are equal: every
order has the same probability.

*On disk.* What does not fit is spread first: every record goes into one of B buckets, chosen by
itself and uniformly, and the buckets are mixed one after the other (Rao, "Generation of Random
Permutation of Given Number of Elements Using Random Sampling Numbers", Sankhya A 23, 1961;
Sandelius, "A Simple Randomization Procedure", JRSS B 24, 1962). The order is exactly uniform too.
Let every record have an independent uniform number in [0, 1). Sorted by it, all orders are equally
likely. The first log2 B binary digits of the number are a uniform bucket; given the buckets, the
other digits are independent and uniform still, so that inside a bucket all orders are equally
likely. Nothing has to be corrected for the sizes of the buckets, which are what the digits make
them, and a bucket that turns out too large may be spread again.

Buckets are files without a name: they are gone when the process is, however it ends.

*What the last gatherings took* is mixed anew with every one, so that none of them shows.
A gathering at low traffic takes one report. Were its record a file, and its tag and code rows of
their own, then the time of the file, the place of the rows or the transaction that both are of
would tell when it came, and whose record it is. So a gathering takes what the last ones have
written (the part of the open batch that grows, the recent tags and the recent codes), adds its own,
and writes all of it again: records in a fresh random order, rows in the order of their bytes. What
is there afterwards is of one moment, whatever came when.

So that a large batch is not written again and again, at ``FULL`` all but ``CROWD`` of them, chosen
at random, leave for good: as a part that stays as it is until the batch is mixed, as rows among
those that stay. Those that remain are a crowd for whoever comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.randomness import Randomness, source
from shoal.sealing import MalformedError
from shoal.service import failpoints
from shoal.service.wire import Wire

MEMORY = 256 << 20
MOST_BUCKETS = 256  # files open at a time
_BESIDE = 40  # bytes of keys and order while one record is sorted
_BLOCK_BYTES = 4 << 20
_FEWEST = 16  # records read at a time, however little memory there is

CROWD = 1000
FULL = 2 * CROWD

Rows = npt.NDArray[np.uint8]
Part = tuple[bytes, int]  # records, and of how many reports


class Digest(Protocol):
    """What is told of everything that is written, such as ``hashlib.sha256()``."""

    def update(self, data: memoryview, /) -> None:
        """Take these bytes in."""


@dataclass(frozen=True)
class Span:
    """The bytes of a file from ``start`` to ``end``."""

    path: Path
    start: int
    end: int

    @classmethod
    def whole(cls, path: Path) -> Span:
        """All of a file."""
        with path.open("rb") as file:
            return cls(path, 0, file.seek(0, 2))

    def part(self, start: int, end: int, of: int) -> Span:
        """What these bytes of every ``of`` are together, where such parts lie one after another."""
        count = (self.end - self.start) // of
        return Span(self.path, self.start + count * start, self.start + count * end)

    def opened(self) -> IO[bytes]:
        """The file, at its beginning."""
        file = self.path.open("rb")
        file.seek(self.start)
        return file


def mix_records(
    sources: Sequence[Path | Span],
    destination: BinaryIO,
    *,
    record_bytes: int,
    scratch: Path,
    randomness: Randomness | None = None,
    memory: int = MEMORY,
    digest: Digest | None = None,
) -> int:
    """Write the records of all sources to an open file, in one uniformly random order.

    Returns how many there were. Secure randomness unless a simulation's is given. ``memory`` is how
    many bytes may be used; beyond it, unnamed files in the directory ``scratch`` are.
    """
    length = checks.count(record_bytes=record_bytes)
    files = []
    for each in sources:
        span = each if isinstance(each, Span) else Span.whole(each)
        size = span.end - span.start
        if size % length:
            raise MalformedError(
                f"a file of {size} bytes", f"whole records of {length} in {span.path}"
            )
        files.append(_Records(span.opened, size // length))
    total = sum(file.number for file in files)
    fits = max(1, checks.count(memory=memory) // (length + _BESIDE))
    mixer = _Mixer(
        length=length,
        fits=fits,
        block=min(max(1, _BLOCK_BYTES // length), max(_FEWEST, fits // 4)),
        scratch=scratch,
        randomness=source(randomness),
        out=_Destination(destination, digest, half=total * length // 2),
    )
    mixer.mix(files)
    return total


@dataclass(frozen=True)
class _Records:
    """So many records, and how they are read: of a source, or of a bucket, from its beginning.

    A source is opened when it is read and no longer: there may be more than a process may open.
    """

    reading: Callable[[], AbstractContextManager[IO[bytes]]]
    number: int


@contextmanager
def _rewound(bucket: IO[bytes]) -> Iterator[IO[bytes]]:
    bucket.seek(0)
    yield bucket


@dataclass
class _Destination:
    """Where the records go, and how far they have got."""

    file: BinaryIO
    digest: Digest | None
    half: int
    written: int = 0

    def write(self, rows: Rows) -> None:
        view = rows.reshape(-1).data
        if self.digest is not None:
            self.digest.update(view)
        while view:
            view = view[self.file.write(view) :]
        before, self.written = self.written, self.written + rows.size
        if before <= self.half < self.written:
            failpoints.reached("shuffle.half-written")


@dataclass(frozen=True)
class _Mixer:
    """``fits`` records of ``length`` bytes are mixed in memory, more of them through buckets.

    A ``block`` of them is read or written at a time.
    """

    length: int
    fits: int
    block: int
    scratch: Path
    randomness: Randomness
    out: _Destination

    def mix(self, files: Sequence[_Records]) -> None:
        """Write the records of files in a uniformly random order."""
        total = sum(file.number for file in files)
        if total <= self.fits:
            rows, start = np.empty((total, self.length), dtype=np.uint8), 0
            for each in files:
                with each.reading() as file:
                    _read_into(file, rows[start : start + each.number])
                start += each.number
            order = self.randomness.permutation(total)
            for start in range(0, total, self.block):
                self.out.write(rows.take(order[start : start + self.block], axis=0))
            return
        # Twice as many as needed: hardly any bucket will be too large.
        wanted = 1 << (2 * total // self.fits).bit_length()
        with ExitStack() as stack:
            buckets = [
                stack.enter_context(TemporaryFile(dir=self.scratch))
                for _ in range(min(MOST_BUCKETS, wanted))
            ]
            counts = self._spread(files, buckets)
            for bucket, count in zip(buckets, counts.tolist(), strict=True):
                self.mix([_Records(partial(_rewound, bucket), count)])
                bucket.close()  # frees the disk at once

    def _spread(
        self, files: Sequence[_Records], buckets: Sequence[IO[bytes]]
    ) -> npt.NDArray[np.int64]:
        """Every record into a bucket of its own choice; how many each bucket got."""
        counts = np.zeros(len(buckets), dtype=np.int64)
        for rows in self._blocks(files):
            chosen = self.randomness.below(len(buckets), len(rows)).astype(np.intp)
            sizes = np.bincount(chosen, minlength=len(buckets))
            grouped = rows.take(np.argsort(chosen, kind="stable"), axis=0)
            ends = np.cumsum(sizes)
            for number in np.flatnonzero(sizes).tolist():
                end = int(ends[number])
                buckets[number].write(grouped[end - int(sizes[number]) : end].data)
            counts += sizes
        return counts

    def _blocks(self, files: Sequence[_Records]) -> Iterator[Rows]:
        for each in files:
            with each.reading() as file:
                for start in range(0, each.number, self.block):
                    size = min(self.block, each.number - start)
                    rows = np.empty((size, self.length), dtype=np.uint8)
                    _read_into(file, rows)
                    yield rows


def _read_into(file: IO[bytes], rows: Rows) -> None:
    """Fill the rows from a file that has at least as many."""
    view = rows.reshape(-1).data
    while view:
        got = file.readinto(view)  # type: ignore[attr-defined]
        if not got:
            raise MalformedError(f"the end of {file.name}", f"{len(view)} more bytes")
        view = view[got:]


# What the last gatherings took


def turned_over(
    rows: Iterable[bytes], randomness: Randomness | None = None
) -> tuple[list[bytes], list[bytes]]:
    """Which of these remain recent, and which leave; in the order of their bytes."""
    every = sorted(rows)
    if len(every) < FULL:
        return every, []
    remains = np.zeros(len(every), dtype=bool)
    remains[source(randomness).permutation(len(every))[:CROWD]] = True
    return (
        [row for row, stays in zip(every, remains, strict=True) if stays],
        [row for row, stays in zip(every, remains, strict=True) if not stays],
    )


def mixed(wire: Wire, parts: Sequence[Part], randomness: Randomness | None = None) -> list[Part]:
    """All records in one new order, section by section: the part that grows, then what leaves.

    Which messages were one report's does not matter any more, but how many reports there were.
    """
    drawn, reports = source(randomness), sum(count for _, count in parts)
    sections = []
    for section in wire.sections:
        joined = b"".join(
            records
            if wire.absent is not None
            else records[count * section.start : count * section.end]
            for records, count in parts
        )
        rows = np.frombuffer(joined, dtype=np.uint8).reshape(-1, section.record_bytes)
        sections.append(rows[drawn.permutation(len(rows))])
    if reports < FULL:
        return [(b"".join(rows.tobytes() for rows in sections), reports)]
    # Of every section alike; where reports leave slots out, as many of the records.
    cut = [(rows, len(rows) * CROWD // reports) for rows in sections]
    small = b"".join(rows[:end].tobytes() for rows, end in cut)
    leaving = b"".join(rows[end:].tobytes() for rows, end in cut)
    return [(small, CROWD), (leaving, reports - CROWD)]

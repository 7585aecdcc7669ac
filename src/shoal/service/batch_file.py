r"""A batch as one file: what it is, and all its records in a uniformly random order.

::

    "shoal/1 batch\n" length[4] header records

The header is canonical JSON (RFC 8785) of survey, batch, key, reports, records and record_bytes;
its length is big-endian. One object holds everything, so that no reader ever sees the header of one
run beside the records of another. Its digest is the SHA-256 of the whole file.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.sealing import MalformedError, SurveyId, canonical, parsed

MAGIC = b"shoal/1 batch\n"
LARGEST_HEADER = 4096
_LENGTH_BYTES = 4
_LARGEST = 10**15
_BATCH = re.compile(r"[0-9a-f]{32}")
_FIELDS = {"survey", "batch", "key", "reports", "records", "record_bytes"}


@dataclass(frozen=True, kw_only=True)
class BatchHeader:
    """What a batch says about itself: ``key`` is the number of the analyzer's key."""

    survey: SurveyId
    batch: str
    key: int
    reports: int
    records: int
    record_bytes: int

    def __post_init__(self) -> None:
        if not _BATCH.fullmatch(self.batch):
            raise _malformed("a batch named by 32 lower-case hexadecimal digits")
        _check_whole("key", self.key, least=0, most=255)
        _check_whole("reports", self.reports)
        _check_whole("records", self.records)
        _check_whole("record_bytes", self.record_bytes)
        if self.records % self.reports:
            raise _malformed("the same number of records in every report")

    def to_bytes(self) -> bytes:
        """The beginning of the file, up to the first record."""
        written = canonical(vars(self) | {"survey": str(self.survey)})
        return MAGIC + len(written).to_bytes(_LENGTH_BYTES, "big") + written

    @classmethod
    def from_bytes(cls, written: bytes) -> BatchHeader:
        """The header that these bytes of canonical JSON are."""
        stored: dict[str, Any] = dict(parsed(written))
        if set(stored) != _FIELDS:
            raise _malformed(f"a header of {', '.join(sorted(_FIELDS))}")
        if not isinstance(stored["survey"], str) or not isinstance(stored["batch"], str):
            raise _malformed("text as survey and batch")
        return cls(**stored | {"survey": SurveyId.from_text(stored["survey"])})


@dataclass(frozen=True)
class BatchFile:
    """A batch that was read: its header, and a view of its records one after the other."""

    header: BatchHeader
    body: memoryview

    @classmethod
    def read(cls, source: Path | bytes) -> BatchFile:
        """Read a batch; anything that is not exactly one is refused.

        A path is mapped into memory instead of copied.
        """
        if isinstance(source, bytes):
            data = memoryview(source)
        else:
            with source.open("rb") as file:
                size = source.stat().st_size  # nothing cannot be mapped
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
                data = memoryview(mapped)
        start = len(MAGIC) + _LENGTH_BYTES
        if len(data) < start or data[: len(MAGIC)] != MAGIC:
            raise _malformed(f"a file that begins with {MAGIC!r}")
        length = int.from_bytes(data[len(MAGIC) : start], "big")
        if length > LARGEST_HEADER or len(data) < start + length:
            raise _malformed(f"a whole header of at most {LARGEST_HEADER} bytes")
        header = BatchHeader.from_bytes(bytes(data[start : start + length]))
        body = data[start + length :]
        if len(body) != header.records * header.record_bytes:
            raise _malformed(f"{header.records} records of {header.record_bytes} bytes")
        return cls(header, body)


def _malformed(expected: str) -> MalformedError:
    return MalformedError("the batch", expected)


def _check_whole(name: str, value: object, *, least: int = 1, most: int = _LARGEST) -> None:
    if type(value) is not int or not least <= value <= most:
        raise _malformed(f"a whole number {name} from {least} to {most}")

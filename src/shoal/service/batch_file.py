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
_COUNTS = ("reports", "records", "record_bytes")
_LIMITS = {"key": (0, 255), **dict.fromkeys(_COUNTS, (1, _LARGEST))}
_FIELDS = {"survey", "batch", *_LIMITS}


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
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise _malformed(f"a whole number {name} from {least} to {most}")
        if self.records % self.reports:
            raise _malformed("the same number of records in every report")

    def to_bytes(self) -> bytes:
        """The beginning of the file, up to the first record."""
        written = canonical({**vars(self), "survey": str(self.survey)})
        return MAGIC + len(written).to_bytes(_LENGTH_BYTES, "big") + written

    @classmethod
    def from_bytes(cls, written: bytes) -> BatchHeader:
        """The header that these bytes of canonical JSON are."""
        stored: dict[str, Any] = dict(parsed(written))
        texts = [stored.get(name) for name in ("survey", "batch")]
        if set(stored) != _FIELDS or not all(isinstance(text, str) for text in texts):
            raise _malformed(f"a header of {', '.join(sorted(_FIELDS))}")
        return cls(**{**stored, "survey": SurveyId.from_text(stored["survey"])})


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
        elif not source.stat().st_size:
            data = memoryview(b"")  # nothing cannot be mapped
        else:
            with source.open("rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
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

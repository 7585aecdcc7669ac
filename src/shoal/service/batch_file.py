r"""A batch as one file: what it is, and all its records in a uniformly random order.

::

    "shoal/1 batch\n" length[4] header records
    "shoal/1 batch\n" length[4] header records of question 1 ... records of question q

The header is canonical JSON (RFC 8785) of survey, batch, key, reports, records and record_bytes;
its length is big-endian. With several questions it has a list ``sections`` of records and
record_bytes instead, one of each; every section is in a random order of its own. One object holds
everything, so that no reader ever sees the header of one run beside the records of another. Its
digest is the SHA-256 of the whole file.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from shoal.sealing import MalformedError, SurveyId, canonical, parsed
from shoal.values import attributes

MAGIC = b"shoal/1 batch\n"
LARGEST_HEADER = 4096
_LENGTH_BYTES = 4
_LARGEST = 10**15
_BATCH = re.compile(r"[0-9a-f]{32}")
_COUNTS = ("records", "record_bytes")  # of a section
_LIMITS = {"key": (0, 255), "reports": (1, _LARGEST)}
_FIELDS = {"survey", "batch", *_LIMITS}


@dataclass(frozen=True, kw_only=True)
class BatchHeader:
    """What a batch says about itself: ``key`` is the number of the analyzer's key.

    ``sections`` are the number of records, and the bytes of one, for each question.
    """

    survey: SurveyId
    batch: str
    key: int
    reports: int
    sections: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not _BATCH.fullmatch(self.batch):
            raise _malformed("a batch named by 32 lower-case hexadecimal digits")
        counts = [(name, getattr(self, name), *limits) for name, limits in _LIMITS.items()]
        for section in self.sections:
            counts += [(*count, 1, _LARGEST) for count in zip(_COUNTS, section, strict=True)]
        for name, value, least, most in counts:
            if type(value) is not int or not least <= value <= most:
                raise _malformed(f"a whole number {name} from {least} to {most}")
        if any(records < self.reports for records, _ in self.sections):
            raise _malformed("a record of every report at least")

    @property
    def records(self) -> int:
        """Of all sections."""
        return sum(records for records, _ in self.sections)

    def to_bytes(self) -> bytes:
        """The beginning of the file, up to the first record."""
        sections = [dict(zip(_COUNTS, section, strict=True)) for section in self.sections]
        counts = {"sections": sections} if len(sections) > 1 else sections[0]
        about = {"survey": str(self.survey), **attributes(self, "batch", *_LIMITS)}
        written = canonical({**about, **counts})
        return MAGIC + len(written).to_bytes(_LENGTH_BYTES, "big") + written

    @classmethod
    def from_bytes(cls, written: bytes) -> BatchHeader:
        """The header that these bytes of canonical JSON are."""
        stored: dict[str, Any] = dict(parsed(written))
        several = stored.pop("sections", None)
        sections: list[Any] = [{name: stored.pop(name, None) for name in _COUNTS}]
        if several is not None:
            one = any(value is not None for value in sections[0].values())
            if one or not isinstance(several, list) or len(several) < 2:
                raise _malformed("records and record_bytes, or a list of several sections")
            sections = several
        texts = [stored.get(name) for name in ("survey", "batch")]
        if set(stored) != _FIELDS or not all(isinstance(text, str) for text in texts):
            raise _malformed(f"a header of {', '.join(sorted(_FIELDS))} and records")
        if not all(isinstance(each, dict) and set(each) == set(_COUNTS) for each in sections):
            raise _malformed(f"sections of {' and '.join(_COUNTS)}")
        shapes = tuple((each["records"], each["record_bytes"]) for each in sections)
        survey = SurveyId.from_text(stored["survey"])
        return cls(**{**stored, "survey": survey}, sections=shapes)


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
        if len(body) != sum(records * size for records, size in header.sections):
            content = " and ".join(
                f"{records} records of {size}" for records, size in header.sections
            )
            raise _malformed(f"{content} bytes")
        return cls(header, body)

    @property
    def sections(self) -> list[memoryview]:
        """The records of each question, one after the other."""
        sizes = (records * size for records, size in self.header.sections)
        ends = accumulate(sizes, initial=0)
        return [self.body[start:end] for start, end in pairwise(ends)]


def _malformed(expected: str) -> MalformedError:
    return MalformedError("the batch", expected)

"""A report on the wire, version 1: messages sealed for the analyzer, sealed for the shuffler.

::

    inner   = Envelope(role "inner", capacity = message bytes)          one per slot
    section = inner(message 1) ... inner(message m)                     one per question
    outer   = Envelope(role "outer", capacity = sections + token)
    report  = outer(section 1 ... section q token)

An envelope begins with its version and the number of the key that opens it (see
:mod:`shoal.sealing.envelope`). All slots of a report are sealed with one key of the analyzer, so
that what the analyzer can see of a message is the message; unused slots hold an empty message that
looks like any other. All reports of a survey have one length.

Where the shuffler may see how many messages a person sends (a mechanism with slots that are
``absent``), the outer envelope holds only those, and is padded to the length of all slots.

Of several questions each has its number, from 0 on, in the ``details`` of its inner envelopes: a
message opens nowhere but in its own section. What follows a report keeps the sections apart: they
lie one after the other in parts and batches, each in an order of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidArgumentError
from shoal.sealing import Envelope, KeyPair, NotOpenableError, PublicKey, SurveyId, records
from shoal.sealing.envelope import LARGEST_CAPACITY
from shoal.service.survey import Survey

HEADER_BYTES = 2  # version and key number, at the beginning of every envelope
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Section:
    """What a report holds for one question: so many sealed messages of one length.

    It begins at ``start`` of an opened report; ``context`` tells its messages from those of others.
    A slot whose bytes are ``absent`` is not sent.
    """

    survey: SurveyId
    suite: str
    slots: int
    message_bytes: int
    start: int = 0
    context: bytes = b""
    absent: bytes | None = None

    @cached_property
    def inner(self) -> Envelope:
        """What the analyzer opens: one message."""
        return Envelope(
            survey=self.survey, role="inner", capacity=self.message_bytes, suite=self.suite
        )

    @cached_property
    def record_bytes(self) -> int:
        """Bytes of one record of a batch: one sealed message."""
        return self.inner.size

    @cached_property
    def end(self) -> int:
        """Where it ends in an opened report."""
        return self.start + self.slots * self.record_bytes

    def seal(self, messages: npt.NDArray[np.uint8], analyzer: PublicKey) -> bytes:
        """One person's sealed messages: a row per slot, as the mechanism encodes them."""
        if messages.shape != (self.slots, self.message_bytes):
            expected = f"{self.slots} rows of {self.message_bytes} bytes"
            raise InvalidArgumentError("messages", messages.shape, expected)
        rows = (row.tobytes() for row in messages)
        return b"".join(
            self.inner.seal(row, analyzer, details=self.context)
            for row in rows
            if row != self.absent
        )

    def open_record(self, record: bytes, pair: KeyPair) -> bytes:
        """The message in one record of a batch."""
        message = self.inner.open(record, pair, details=self.context)
        if len(message) != self.message_bytes:
            raise NotOpenableError
        return message

    def split(self, sealed: bytes) -> list[bytes]:
        """The records of opened reports, or of a batch."""
        return records(sealed, length=self.record_bytes)


@dataclass(frozen=True, kw_only=True)
class Wire:
    """The envelopes of a survey, and what goes into what.

    ``shapes`` are the slots and the bytes of a message of each section. Of a single one, slots that
    are ``absent`` may be left out. Small enough to hand to the processes that do the opening.
    """

    survey: SurveyId
    shapes: tuple[tuple[int, int], ...]
    token_bytes: int
    suite: str
    absent: bytes | None = None

    def __post_init__(self) -> None:
        if self.opened_bytes + self.token_bytes > LARGEST_CAPACITY:
            expected = f"slots and messages that fit into {LARGEST_CAPACITY} bytes"
            raise InvalidArgumentError("slots", sum(slots for slots, _ in self.shapes), expected)

    @classmethod
    def of(cls, survey: Survey) -> Wire:
        """The envelopes of a survey."""
        return cls(
            survey=survey.id,
            shapes=tuple((device.slots, device.message_bytes) for device in survey.devices),
            token_bytes=survey.token_bytes,
            suite=survey.suite,
            absent=None if survey.uneven is None else survey.uneven.absent,
        )

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """What a report holds, question by question."""
        sections: list[Section] = []
        for number, (slots, message_bytes) in enumerate(self.shapes):
            sections.append(
                Section(
                    survey=self.survey,
                    suite=self.suite,
                    slots=slots,
                    message_bytes=message_bytes,
                    start=sections[-1].end if sections else 0,
                    context=bytes([number]) if len(self.shapes) > 1 else b"",
                    absent=self.absent,
                )
            )
        return tuple(sections)

    @cached_property
    def outer(self) -> Envelope:
        """What the shuffler opens: a person's sealed messages, and a token."""
        capacity = self.opened_bytes + self.token_bytes
        return Envelope(survey=self.survey, role="outer", capacity=capacity, suite=self.suite)

    @cached_property
    def opened_bytes(self) -> int:
        """Bytes of a person's sealed messages together."""
        return self.sections[-1].end

    @cached_property
    def report_bytes(self) -> int:
        """Bytes of every report."""
        return self.outer.size

    def sections_of(self, length: int) -> tuple[Section, ...]:
        """The sections of a report whose content has so many bytes; none if no report's has."""
        size = length - self.token_bytes
        if self.absent is None:
            return self.sections if size == self.opened_bytes else ()
        (section,) = self.sections
        slots, rest = divmod(size, section.record_bytes)
        fits = not rest and 1 <= slots <= section.slots
        return (replace(section, slots=slots),) if fits else ()

    def seal(
        self,
        *messages: npt.NDArray[np.uint8],
        analyzer: PublicKey,
        shuffler: PublicKey,
        token: bytes = b"",
    ) -> bytes:
        """One person's report: the messages of each section, a row per slot."""
        if len(token) != self.token_bytes:
            raise InvalidArgumentError("token", len(token), f"{self.token_bytes} bytes")
        pairs = zip(self.sections, messages, strict=True)
        sealed = b"".join(section.seal(rows, analyzer) for section, rows in pairs)
        return self.outer.seal(sealed + token, shuffler)

    def open_report(self, report: bytes, pair: KeyPair) -> tuple[int, bytes]:
        """The number of the analyzer's key, and the sealed messages; the token is cut off."""
        opened = self.outer.open(report, pair)
        sections = self.sections_of(len(opened))
        if not sections:
            raise NotOpenableError
        sealed = opened[: sections[-1].end]
        heads = {
            record[:HEADER_BYTES]
            for section in sections
            for record in section.split(sealed[section.start : section.end])
        }
        head = heads.pop()
        if heads or head[0] != VERSION:
            raise NotOpenableError
        return head[1], sealed

"""A report on the wire, version 1: messages sealed for the analyzer, sealed for the shuffler.

::

    inner   = Envelope(role "inner", capacity = message bytes)          one per slot
    outer   = Envelope(role "outer", capacity = slots · inner + token)
    report  = outer(inner(message 1) ... inner(message m) token)

An envelope begins with its version and the number of the key that opens it (see
:mod:`shoal.sealing.envelope`). All slots of a report are sealed with one key of the analyzer, so
that what the analyzer can see of a message is the message; unused slots hold an empty message that
looks like any other. All reports of a survey have one length.
"""

from __future__ import annotations

from dataclasses import dataclass
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
class Wire:
    """The two kinds of envelopes of a survey, and what goes into what.

    Small enough to hand to the processes that do the opening.
    """

    survey: SurveyId
    slots: int
    message_bytes: int
    token_bytes: int
    suite: str

    def __post_init__(self) -> None:
        if self.opened_bytes + self.token_bytes > LARGEST_CAPACITY:
            expected = f"slots and messages that fit into {LARGEST_CAPACITY} bytes"
            raise InvalidArgumentError("slots", self.slots, expected)

    @classmethod
    def of(cls, survey: Survey) -> Wire:
        """The envelopes of a survey."""
        return cls(
            survey=survey.id,
            slots=survey.device.slots,
            message_bytes=survey.device.message_bytes,
            token_bytes=survey.token_bytes,
            suite=survey.suite,
        )

    @cached_property
    def inner(self) -> Envelope:
        """What the analyzer opens: one message."""
        return Envelope(
            survey=self.survey, role="inner", capacity=self.message_bytes, suite=self.suite
        )

    @cached_property
    def outer(self) -> Envelope:
        """What the shuffler opens: a person's sealed messages, and a token."""
        capacity = self.opened_bytes + self.token_bytes
        return Envelope(survey=self.survey, role="outer", capacity=capacity, suite=self.suite)

    @cached_property
    def opened_bytes(self) -> int:
        """Bytes of a person's sealed messages together."""
        return self.slots * self.inner.size

    @cached_property
    def record_bytes(self) -> int:
        """Bytes of one record of a batch: one sealed message."""
        return self.inner.size

    @cached_property
    def report_bytes(self) -> int:
        """Bytes of every report."""
        return self.outer.size

    def seal(
        self,
        messages: npt.NDArray[np.uint8],
        *,
        analyzer: PublicKey,
        shuffler: PublicKey,
        token: bytes = b"",
    ) -> bytes:
        """One person's report: ``messages`` has a row per slot, as the mechanism encodes them."""
        if messages.shape != (self.slots, self.message_bytes):
            expected = f"{self.slots} rows of {self.message_bytes} bytes"
            raise InvalidArgumentError("messages", messages.shape, expected)
        if len(token) != self.token_bytes:
            raise InvalidArgumentError("token", len(token), f"{self.token_bytes} bytes")
        sealed = b"".join(self.inner.seal(row.tobytes(), analyzer) for row in messages)
        return self.outer.seal(sealed + token, shuffler)

    def open_report(self, report: bytes, pair: KeyPair) -> tuple[int, bytes]:
        """The number of the analyzer's key, and the sealed messages; the token is cut off."""
        opened = self.outer.open(report, pair)
        if len(opened) != self.outer.capacity:
            raise NotOpenableError
        sealed = opened[: self.opened_bytes]
        heads = {bytes(record[:HEADER_BYTES]) for record in self.split(sealed)}
        head = heads.pop()
        if heads or head[0] != VERSION:
            raise NotOpenableError
        return head[1], sealed

    def open_record(self, record: bytes, pair: KeyPair) -> bytes:
        """The message in one record of a batch."""
        message = self.inner.open(record, pair)
        if len(message) != self.message_bytes:
            raise NotOpenableError
        return message

    def split(self, sealed: bytes) -> list[bytes]:
        """The records of opened reports."""
        return records(sealed, length=self.record_bytes)

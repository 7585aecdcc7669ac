"""What peers say to each other inside an envelope.

::

    frame = kind[1] sender[4] token[16] payload

A *report* asks for a *receipt*: a frame back with the same token, which only the addressee can have
read. *Cover* looks like a report from outside and carries none; it is answered all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from shoal.randomness import Randomness
from shoal.sealing.errors import NotOpenableError

TOKEN_BYTES = 16
NUMBER_BYTES = 4
HEADER_BYTES = 1 + NUMBER_BYTES + TOKEN_BYTES


class Kind(IntEnum):
    """What a frame is."""

    COVER = 0
    REPORT = 1
    RECEIPT = 2


_KINDS = frozenset(Kind)


@dataclass(frozen=True)
class Frame:
    """One thing said, before it is sealed."""

    kind: Kind
    sender: int
    token: bytes
    payload: bytes = b""

    def to_bytes(self) -> bytes:
        """Kind, sender, token and payload, one after the other."""
        sender = self.sender.to_bytes(NUMBER_BYTES, "big")
        return bytes([self.kind]) + sender + self.token + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Frame:
        """The frame written by ``to_bytes``."""
        if len(data) < HEADER_BYTES or data[0] not in _KINDS:
            raise NotOpenableError
        sender = int.from_bytes(data[1 : 1 + NUMBER_BYTES], "big")
        return cls(
            Kind(data[0]), sender, data[1 + NUMBER_BYTES : HEADER_BYTES], data[HEADER_BYTES:]
        )

    def receipt(self, sender: int) -> Frame:
        """The receipt for this frame."""
        return Frame(Kind.RECEIPT, sender, self.token)


def new_token(randomness: Randomness) -> bytes:
    """Sixteen bytes that nobody guesses."""
    return randomness.words(TOKEN_BYTES // 8).tobytes()

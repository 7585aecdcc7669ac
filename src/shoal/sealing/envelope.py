"""Envelopes of one size: hybrid public key encryption, bound to a survey and to a purpose.

The suite is DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM in base mode (Barnes, Bhargavan,
Lipp, Wood, "Hybrid Public Key Encryption", RFC 9180): the sender is anonymous, and every envelope
has a key of its own. What an envelope is for goes into HPKE's ``info``, so that it opens nowhere
else:

::

    info      = "shoal/1 " role 00 survey[32] key number[1] details
    plaintext = 01 length[2] message zeros, up to the capacity
    envelope  = 01 key number[1] enc[32] ciphertext[3 + capacity + 16]

A role has no zero byte and the survey's name a fixed length, so two different purposes never have
the same ``info``. All envelopes of one kind have one size, whatever is in them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing.errors import NotOpenableError
from shoal.sealing.identity import SurveyId
from shoal.sealing.keys import KeyPair, PublicKey

VERSION = 1
LARGEST_CAPACITY = (1 << 16) - 1
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
_HEADER_BYTES = 2  # version, key number
_LENGTH_BYTES = 2
_PADDING_BYTES = 1 + _LENGTH_BYTES  # version, length
_TAG_BYTES = 16
_ENC_BYTES = 32
OVERHEAD = _HEADER_BYTES + _ENC_BYTES + _PADDING_BYTES + _TAG_BYTES
_ROLE = re.compile(r"[a-z]{1,32}")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """One kind of envelope: of a survey, for a role, with room for ``capacity`` bytes.

    ``details`` narrow the purpose further (a round, an addressee): sealing and opening must name
    the same.

    >>> owner = KeyPair.generate()
    >>> kind = Envelope(survey=SurveyId(bytes(32)), role="inner", capacity=8)
    >>> kind.open(kind.seal(b"red", owner.public), owner)
    b'red'
    >>> len(kind.seal(b"", owner.public)) == len(kind.seal(b"12345678", owner.public)) == kind.size
    True
    """

    survey: SurveyId
    role: str
    capacity: int

    def __post_init__(self) -> None:
        if not _ROLE.fullmatch(self.role):
            raise InvalidArgumentError("role", self.role, "1 to 32 lower-case letters")
        checks.count(0, capacity=self.capacity)
        if self.capacity > LARGEST_CAPACITY:
            raise InvalidArgumentError("capacity", self.capacity, f"at most {LARGEST_CAPACITY}")

    @property
    def size(self) -> int:
        """Bytes of every envelope of this kind."""
        return OVERHEAD + self.capacity

    def seal(self, message: bytes, key: PublicKey, *, details: bytes = b"") -> bytes:
        """A fresh envelope that only the owner of the key opens."""
        padded = pad(message, self.capacity)
        sealed = _SUITE.encrypt(padded, key.point, info=self._info(key, details))
        return bytes([VERSION, key.number]) + sealed

    def open(self, envelope: bytes, pair: KeyPair, *, details: bytes = b"") -> bytes:
        """The message in an envelope, if it is ours and of this kind."""
        header = bytes([VERSION, pair.public.number])
        if len(envelope) != self.size or envelope[:_HEADER_BYTES] != header:
            raise NotOpenableError
        try:
            info = self._info(pair.public, details)
            padded = _SUITE.decrypt(envelope[_HEADER_BYTES:], pair.secret, info=info)
        except (InvalidTag, ValueError):  # the latter for a sender's point of small order
            raise NotOpenableError from None
        return unpad(padded)

    def _info(self, key: PublicKey, details: bytes) -> bytes:
        purpose = f"shoal/{VERSION} {self.role}".encode() + b"\x00"
        return purpose + self.survey.digest + bytes([key.number]) + details


def key_number(envelope: bytes) -> int:
    """Which of its owner's keys opens an envelope."""
    if len(envelope) < OVERHEAD or envelope[0] != VERSION:
        raise NotOpenableError
    return envelope[1]


def pad(message: bytes, capacity: int) -> bytes:
    """Version, length and message, with zeros up to the capacity."""
    if len(message) > capacity:
        raise InvalidArgumentError("message", len(message), f"at most {capacity} bytes")
    length = len(message).to_bytes(_LENGTH_BYTES, "big")
    return bytes([VERSION]) + length + message + bytes(capacity - len(message))


def unpad(padded: bytes) -> bytes:
    """The message that was padded; bytes that no message pads to do not open."""
    if len(padded) < _PADDING_BYTES or padded[0] != VERSION:
        raise NotOpenableError
    length = int.from_bytes(padded[1:_PADDING_BYTES], "big")
    end = _PADDING_BYTES + length
    if end > len(padded) or any(padded[end:]):
        raise NotOpenableError
    return padded[_PADDING_BYTES:end]

"""Envelopes of one size: hybrid public key encryption, bound to a survey and to a purpose.

The suite is DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM in base mode (Barnes, Bhargavan,
Lipp, Wood, "Hybrid Public Key Encryption", RFC 9180), or the hybrid one of
:mod:`shoal.sealing.keys`: the sender is anonymous, and every envelope has a key of its own.
What an envelope is for goes into HPKE's ``info``, so that it opens nowhere else:

::

    info      = "shoal/1 " role 00 survey[32] key number[1] details
    plaintext = 01 length[2] message zeros, up to the capacity
    envelope  = 01 key number[1] enc[32 or 1120] ciphertext[3 + capacity + 16]

A role has no zero byte and the survey's name a fixed length, so two different purposes never have
the same ``info``. All envelopes of one kind have one size, whatever is in them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag

from shoal import checks
from shoal.sealing.errors import MalformedError, NotOpenableError
from shoal.sealing.identity import SurveyId
from shoal.sealing.keys import X25519, KeyPair, PublicKey, by_name

VERSION = 1
LARGEST_CAPACITY = (1 << 16) - 1
_HEADER_BYTES = 2  # version, key number
_LENGTH_BYTES = 2
_PADDING_BYTES = 1 + _LENGTH_BYTES  # version, length
_TAG_BYTES = 16
_BESIDE_ENC = _HEADER_BYTES + _PADDING_BYTES + _TAG_BYTES
OVERHEAD = X25519.enc_bytes + _BESIDE_ENC  # of the suite without a lattice
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
    suite: str = X25519.name

    def __post_init__(self) -> None:
        by_name(self.suite)
        checks.refuse(not _ROLE.fullmatch(self.role), "1 to 32 lower-case letters", role=self.role)
        checks.count(0, capacity=self.capacity)
        checks.at_most(LARGEST_CAPACITY, capacity=self.capacity)

    @property
    def size(self) -> int:
        """Bytes of every envelope of this kind."""
        return by_name(self.suite).enc_bytes + _BESIDE_ENC + self.capacity

    def seal(self, message: bytes, key: PublicKey, *, details: bytes = b"") -> bytes:
        """A fresh envelope that only the owner of the key opens."""
        fits = key.suite.name == self.suite
        checks.refuse(not fits, f"a key for {self.suite}", key=key.suite.name)
        padded = pad(message, self.capacity)
        sealed = key.suite.hpke.encrypt(padded, key.point, info=self._info(key, details))
        return bytes([VERSION, key.number]) + sealed

    def open(self, envelope: bytes, pair: KeyPair, *, details: bytes = b"") -> bytes:
        """The message in an envelope, if it is ours and of this kind."""
        whole = len(envelope) == self.size
        (message,) = self.open_all(envelope, pair, details=details) if whole else (None,)
        if message is None:
            raise NotOpenableError
        return message

    def open_all(self, body: bytes, pair: KeyPair, *, details: bytes = b"") -> list[bytes | None]:
        """The messages of envelopes that lie one after the other; None for what does not open."""
        ours = pair.public.suite.name == self.suite
        decrypt, secret = pair.public.suite.hpke.decrypt, pair.secret
        info, header = self._info(pair.public, details), bytes([VERSION, pair.public.number])

        messages: list[bytes | None] = []
        for envelope in records(body, length=self.size):
            message = None
            if ours and envelope[:_HEADER_BYTES] == header:
                # A ValueError for small orders, and for wrong padding too.
                with suppress(InvalidTag, ValueError):
                    message = unpad(decrypt(envelope[_HEADER_BYTES:], secret, info=info))
            messages.append(message)
        return messages

    def _info(self, key: PublicKey, details: bytes) -> bytes:
        purpose = f"shoal/{VERSION} {self.role}".encode() + b"\x00"
        return purpose + self.survey.digest + bytes([key.number]) + details


def records(body: bytes, *, length: int) -> list[bytes]:
    """What lies in a body one after the other: one or more records of one length, all whole."""
    length = checks.count(1, length=length)
    if not body or len(body) % length:
        raise MalformedError(
            f"a body of {len(body)} bytes", f"one or more records of {length} bytes"
        )
    return [bytes(body[start : start + length]) for start in range(0, len(body), length)]


def key_number(envelope: bytes) -> int:
    """Which of its owner's keys opens an envelope."""
    if len(envelope) < OVERHEAD or envelope[0] != VERSION:
        raise NotOpenableError
    return envelope[1]


def pad(message: bytes, capacity: int) -> bytes:
    """Version, length and message, with zeros up to the capacity."""
    size = len(message)
    checks.refuse(size > capacity, f"at most {capacity} bytes", message=size)
    return bytes([VERSION]) + size.to_bytes(_LENGTH_BYTES, "big") + message + bytes(capacity - size)


def unpad(padded: bytes) -> bytes:
    """The message that was padded; bytes that no message pads to do not open."""
    if len(padded) < _PADDING_BYTES or padded[0] != VERSION:
        raise NotOpenableError
    end = _PADDING_BYTES + int.from_bytes(padded[1:_PADDING_BYTES], "big")
    if end > len(padded) or any(padded[end:]):
        raise NotOpenableError
    return padded[_PADDING_BYTES:end]

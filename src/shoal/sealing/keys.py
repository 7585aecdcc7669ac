"""X25519 keys of those who open envelopes: pairs, public halves, numbers and fingerprints.

A key's number (0 to 255) travels with every envelope, so that an owner who changes keys knows which
one to take. Its fingerprint names it in a configuration, and is what people compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing.errors import MalformedError

KEY_BYTES = 32
_VERSION = b"\x01"
_PUBLIC, _PRIVATE = b"\x00", b"\x01"
_WRITTEN_BYTES = 3 + KEY_BYTES
_FINGERPRINTED = b"shoal/1 key\x00"
# X25519 maps the few points of small order to zero whatever the secret: any secret finds them.
_PROBE = X25519PrivateKey.from_private_bytes(b"\x01" * KEY_BYTES)


@dataclass(frozen=True)
class PublicKey:
    """The public half of a key, and its number."""

    raw: bytes
    number: int = 0

    def __post_init__(self) -> None:
        _check_number(self.number)
        if len(self.raw) != KEY_BYTES:
            raise InvalidArgumentError("raw", self.raw, f"{KEY_BYTES} bytes")
        try:
            _PROBE.exchange(self.point)
        except ValueError:
            expected = "a point of large order (this key would seal for everybody)"
            raise InvalidArgumentError("raw", self.raw.hex(), expected) from None

    @cached_property
    def point(self) -> X25519PublicKey:
        """The key as the cryptographic library knows it."""
        return X25519PublicKey.from_public_bytes(self.raw)

    def __reduce__(self) -> tuple[type[PublicKey], tuple[bytes, int]]:
        return PublicKey, (self.raw, self.number)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key (not of its number), in hexadecimal digits."""
        return sha256(_FINGERPRINTED + self.raw).hexdigest()

    def to_bytes(self) -> bytes:
        """Version, kind, number and key: 35 bytes."""
        return _VERSION + _PUBLIC + bytes([self.number]) + self.raw

    @classmethod
    def from_bytes(cls, data: bytes) -> PublicKey:
        """The key written by ``to_bytes``."""
        number, raw = _read(data, _PUBLIC, "the public key")
        try:
            return cls(raw, number)
        except InvalidArgumentError as error:
            raise MalformedError("the public key", error.expected) from None


@dataclass(frozen=True)
class KeyPair:
    """A secret key with its public half. Neither ``repr`` nor comparison touches the secret."""

    secret: X25519PrivateKey = field(repr=False, compare=False)
    public: PublicKey

    @classmethod
    def generate(cls, *, number: int = 0) -> KeyPair:
        """A fresh pair, from the operating system's randomness."""
        return cls._of(X25519PrivateKey.generate(), number)

    @classmethod
    def from_secret(cls, raw: bytes, *, number: int = 0) -> KeyPair:
        """The pair of a secret of 32 bytes."""
        if len(raw) != KEY_BYTES:
            raise InvalidArgumentError("raw", "a secret", f"a secret of {KEY_BYTES} bytes")
        return cls._of(X25519PrivateKey.from_private_bytes(raw), number)

    @classmethod
    def _of(cls, secret: X25519PrivateKey, number: int) -> KeyPair:
        return cls(secret, PublicKey(secret.public_key().public_bytes_raw(), number))

    def to_bytes(self) -> bytes:
        """Version, kind, number and secret: 35 bytes to keep to oneself."""
        number = bytes([self.public.number])
        return _VERSION + _PRIVATE + number + self.secret.private_bytes_raw()

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyPair:
        """The pair written by ``to_bytes``."""
        number, raw = _read(data, _PRIVATE, "the key pair")
        return cls.from_secret(raw, number=number)


def _read(data: bytes, kind: bytes, what: str) -> tuple[int, bytes]:
    if len(data) != _WRITTEN_BYTES or data[:2] != _VERSION + kind:
        raise MalformedError(what, f"{_WRITTEN_BYTES} bytes beginning with {_VERSION + kind!r}")
    return data[2], bytes(data[3:])


def _check_number(number: int) -> None:
    if checks.count(0, number=number) > 255:
        raise InvalidArgumentError("number", number, "a whole number from 0 to 255")

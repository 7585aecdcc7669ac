"""Keys of those who open envelopes: pairs, public halves, numbers and fingerprints.

A key's number (0 to 255) travels with every envelope, so that an owner who changes keys knows which
one to take. Its fingerprint names it in a configuration, and is what people compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError
from shoal.sealing import suites
from shoal.sealing.errors import MalformedError
from shoal.sealing.suites import X25519, Point, SealingSuite, Secret

_VERSION = b"\x01"
_PUBLIC, _PRIVATE = b"\x00", b"\x01"
_HEADER_BYTES = 3  # version, kind, number
_CURVE_BYTES = X25519.public_bytes
_FINGERPRINTED = b"shoal/1 key\x00"
# X25519 maps the few points of small order to zero whatever the secret: any secret finds them.
_PROBE = X25519PrivateKey.from_private_bytes(b"\x01" * _CURVE_BYTES)


@dataclass(frozen=True)
class PublicKey:
    """The public half of a key, and its number."""

    raw: bytes
    number: int = 0

    def __post_init__(self) -> None:
        _check_number(self.number)
        if suites.by_public_length(len(self.raw)) is None:
            raise InvalidArgumentError("raw", self.raw, "32 bytes, or 1216 of a hybrid key")
        try:
            # The curve's part is the last in a hybrid key too.
            _PROBE.exchange(X25519PublicKey.from_public_bytes(self.raw[-_CURVE_BYTES:]))
            _ = self.point
        except ValueError:
            expected = "a point of large order (this key would seal for everybody)"
            raise InvalidArgumentError("raw", self.raw.hex(), expected) from None

    @cached_property
    def suite(self) -> SealingSuite:
        """The algorithms it is for."""
        found = suites.by_public_length(len(self.raw))
        assert found is not None  # noqa: S101 - checked when it was made
        return found

    @cached_property
    def point(self) -> Point:
        """The key as the cryptographic library knows it."""
        return self.suite.point(self.raw)

    def __reduce__(self) -> tuple[type[PublicKey], tuple[bytes, int]]:
        return PublicKey, (self.raw, self.number)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key (not of its number), in hexadecimal digits."""
        return sha256(_FINGERPRINTED + self.raw).hexdigest()

    def to_bytes(self) -> bytes:
        """Version, kind, number and key: 35 bytes, or 1219."""
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

    secret: Secret = field(repr=False, compare=False)
    public: PublicKey
    raw: bytes = field(repr=False, compare=False)

    @classmethod
    def generate(cls, *, number: int = 0, suite: str = X25519.name) -> KeyPair:
        """A fresh pair, from the operating system's randomness."""
        chosen = suites.by_name(suite)
        if chosen is None:
            raise InvalidArgumentError("suite", suite, f"one of {', '.join(suites.SUITES)}")
        words = randomness.secure().words(-(-chosen.secret_bytes // 8))
        return cls.from_secret(words.tobytes()[: chosen.secret_bytes], number=number)

    @classmethod
    def from_secret(cls, raw: bytes, *, number: int = 0) -> KeyPair:
        """The pair of a secret: 32 bytes, or 96 of a hybrid one."""
        suite = suites.by_secret_length(len(raw))
        if suite is None:
            raise InvalidArgumentError("raw", "a secret", "a secret of 32 bytes, or 96 (hybrid)")
        raw = bytes(raw)
        return cls(suite.secret(raw), PublicKey(suite.public_raw(raw), number), raw)

    def __reduce__(self) -> tuple[Callable[[bytes], KeyPair], tuple[bytes]]:
        # For other processes of the owner: the library's objects do not travel, the secret does.
        return KeyPair.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Version, kind, number and secret: 35 bytes, or 99, to keep to oneself."""
        return _VERSION + _PRIVATE + bytes([self.public.number]) + self.raw

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyPair:
        """The pair written by ``to_bytes``."""
        number, raw = _read(data, _PRIVATE, "the key pair")
        return cls.from_secret(raw, number=number)


def _read(data: bytes, kind: bytes, what: str) -> tuple[int, bytes]:
    find = suites.by_public_length if kind == _PUBLIC else suites.by_secret_length
    if find(len(data) - _HEADER_BYTES) is None or data[:2] != _VERSION + kind:
        expected = f"a key of a known length beginning with {_VERSION + kind!r}"
        raise MalformedError(what, expected)
    return data[2], bytes(data[_HEADER_BYTES:])


def _check_number(number: int) -> None:
    if checks.count(0, number=number) > 255:
        raise InvalidArgumentError("number", number, "a whole number from 0 to 255")

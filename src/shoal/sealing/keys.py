"""Keys of those who open envelopes: suites of algorithms, pairs, public halves, fingerprints.

There are two suites: today's, and one that also resists quantum computers. Both use HKDF-SHA256 and
AES-128-GCM in HPKE's base mode (RFC 9180). The key is agreed by DHKEM(X25519, HKDF-SHA256), or by
the hybrid of ML-KEM-768 and X25519, which holds as long as either does (Connolly, Barnes, Grubbs,
"Hybrid PQ/T Key Encapsulation Mechanisms"; X-Wing's combination). The lengths of keys tell the
suites apart; in a hybrid key the lattice's part comes first and the curve's last.

A key's number (0 to 255) travels with every envelope, so that an owner who changes keys knows which
one to take. Its fingerprint names it in a configuration, and is what people compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import TypeAlias, TypeVar

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError
from shoal.sealing.errors import MalformedError

Secret: TypeAlias = X25519PrivateKey | MLKEM768X25519PrivateKey
Point: TypeAlias = X25519PublicKey | MLKEM768X25519PublicKey
Key = TypeVar("Key")

_VERSION = b"\x01"
_PUBLIC, _PRIVATE = b"\x00", b"\x01"
_HEADER_BYTES = 3  # version, kind, number
_CURVE_BYTES = 32
_FINGERPRINTED = b"shoal/1 key\x00"
# X25519 maps the few points of small order to zero whatever the secret: any secret finds them.
_PROBE = X25519PrivateKey.from_private_bytes(b"\x01" * _CURVE_BYTES)


@dataclass(frozen=True)
class SealingSuite:
    """Algorithms by one name, and the lengths of their keys and encapsulations."""

    name: str
    kem: KEM
    secret_bytes: int
    public_bytes: int
    enc_bytes: int

    @cached_property
    def hpke(self) -> Suite:
        """The algorithms themselves."""
        return Suite(self.kem, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


X25519 = SealingSuite("x25519-aes128gcm", KEM.X25519, 32, 32, 32)
HYBRID = SealingSuite(
    "mlkem768x25519-aes128gcm", KEM.MLKEM768_X25519, 64 + 32, 1184 + 32, 1088 + 32
)
_ALL = (X25519, HYBRID)
SUITES = tuple(suite.name for suite in _ALL)


def by_name(name: str) -> SealingSuite:
    """The suite of a name."""
    checks.refuse(name not in SUITES, f"one of {', '.join(SUITES)}", suite=name)
    return _ALL[SUITES.index(name)]


@dataclass(frozen=True)
class PublicKey:
    """The public half of a key, and its number."""

    raw: bytes
    number: int = 0

    def __post_init__(self) -> None:
        beyond = checks.count(0, number=self.number) > 255
        checks.refuse(beyond, "a whole number from 0 to 255", number=self.number)
        fits = any(len(self.raw) == suite.public_bytes for suite in _ALL)
        checks.refuse(not fits, "32 bytes, or 1216 of a hybrid key", raw=self.raw)
        try:
            _PROBE.exchange(X25519PublicKey.from_public_bytes(self.raw[-_CURVE_BYTES:]))
            _ = self.point
        except ValueError:
            expected = "a point of large order (this key would seal for everybody)"
            raise InvalidArgumentError("raw", self.raw.hex(), expected) from None

    @cached_property
    def suite(self) -> SealingSuite:
        """The algorithms it is for."""
        return X25519 if len(self.raw) == X25519.public_bytes else HYBRID

    @cached_property
    def point(self) -> Point:
        """The key as the cryptographic library knows it."""
        curve = X25519PublicKey.from_public_bytes(self.raw[-_CURVE_BYTES:])
        if self.suite is X25519:
            return curve
        lattice = MLKEM768PublicKey.from_public_bytes(self.raw[:-_CURVE_BYTES])
        return MLKEM768X25519PublicKey(lattice, curve)

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
        return _read(data, _PUBLIC, "the public key", cls)


@dataclass(frozen=True)
class KeyPair:
    """A secret key with its public half. Neither ``repr`` nor comparison touches the secret."""

    secret: Secret = field(repr=False, compare=False)
    public: PublicKey
    raw: bytes = field(repr=False, compare=False)

    @classmethod
    def generate(cls, *, number: int = 0, suite: str = X25519.name) -> KeyPair:
        """A fresh pair, from the operating system's randomness."""
        length = by_name(suite).secret_bytes
        words = randomness.secure().words(-(-length // 8))
        return cls.from_secret(words.tobytes()[:length], number=number)

    @classmethod
    def from_secret(cls, raw: bytes, number: int = 0) -> KeyPair:
        """The pair of a secret: 32 bytes, or 96 of a hybrid one."""
        fits = any(len(raw) == suite.secret_bytes for suite in _ALL)
        checks.refuse(not fits, "a secret of 32 bytes, or 96 (hybrid)", raw="a secret")
        raw = bytes(raw)
        curve = X25519PrivateKey.from_private_bytes(raw[-_CURVE_BYTES:])
        public = curve.public_key().public_bytes_raw()
        if len(raw) == X25519.secret_bytes:
            return cls(curve, PublicKey(public, number), raw)
        lattice = MLKEM768PrivateKey.from_seed_bytes(raw[:-_CURVE_BYTES])
        public = lattice.public_key().public_bytes_raw() + public
        return cls(MLKEM768X25519PrivateKey(lattice, curve), PublicKey(public, number), raw)

    def __reduce__(self) -> tuple[Callable[[bytes], KeyPair], tuple[bytes]]:
        # For other processes of the owner: the library's objects do not travel, the secret does.
        return KeyPair.from_bytes, (self.to_bytes(),)

    def to_bytes(self) -> bytes:
        """Version, kind, number and secret: 35 bytes, or 99, to keep to oneself."""
        return _VERSION + _PRIVATE + bytes([self.public.number]) + self.raw

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyPair:
        """The pair written by ``to_bytes``."""
        return _read(data, _PRIVATE, "the key pair", cls.from_secret)


def _read(data: bytes, kind: bytes, what: str, make: Callable[[bytes, int], Key]) -> Key:
    if len(data) < _HEADER_BYTES or data[:2] != _VERSION + kind:
        raise MalformedError(what, f"bytes beginning with {_VERSION + kind!r}")
    try:
        return make(bytes(data[_HEADER_BYTES:]), data[2])
    except InvalidArgumentError as error:
        raise MalformedError(what, error.expected) from None

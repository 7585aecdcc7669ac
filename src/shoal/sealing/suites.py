"""The two suites of algorithms: today's, and one that also resists quantum computers.

Both use HKDF-SHA256 and AES-128-GCM in HPKE's base mode (RFC 9180). The key is agreed by
DHKEM(X25519, HKDF-SHA256), or by the hybrid of ML-KEM-768 and X25519, which holds as long as either
does (Connolly, Barnes, Grubbs, "Hybrid PQ/T Key Encapsulation Mechanisms"; X-Wing's combination).
The lengths of keys tell the suites apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

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

Secret: TypeAlias = X25519PrivateKey | MLKEM768X25519PrivateKey
Point: TypeAlias = X25519PublicKey | MLKEM768X25519PublicKey

_CURVE_BYTES = 32
_LATTICE_SEED_BYTES = 64
_LATTICE_PUBLIC_BYTES = 1184


@dataclass(frozen=True)
class SealingSuite:
    """Algorithms by one name, the lengths they have, and how their keys are read."""

    name: str
    hpke: Suite
    secret_bytes: int
    public_bytes: int
    enc_bytes: int
    secret: Callable[[bytes], Secret]
    point: Callable[[bytes], Point]
    public_raw: Callable[[bytes], bytes]


def _hybrid_parts(raw: bytes) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    lattice = MLKEM768PrivateKey.from_seed_bytes(raw[:_LATTICE_SEED_BYTES])
    return lattice, X25519PrivateKey.from_private_bytes(raw[_LATTICE_SEED_BYTES:])


def _hybrid_secret(raw: bytes) -> Secret:
    return MLKEM768X25519PrivateKey(*_hybrid_parts(raw))


def _hybrid_point(raw: bytes) -> Point:
    lattice = MLKEM768PublicKey.from_public_bytes(raw[:_LATTICE_PUBLIC_BYTES])
    curve = X25519PublicKey.from_public_bytes(raw[_LATTICE_PUBLIC_BYTES:])
    return MLKEM768X25519PublicKey(lattice, curve)


def _hybrid_public_raw(raw: bytes) -> bytes:
    lattice, curve = _hybrid_parts(raw)
    return lattice.public_key().public_bytes_raw() + curve.public_key().public_bytes_raw()


def _curve_public_raw(raw: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(raw).public_key().public_bytes_raw()


X25519 = SealingSuite(
    name="x25519-aes128gcm",
    hpke=Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM),
    secret_bytes=_CURVE_BYTES,
    public_bytes=_CURVE_BYTES,
    enc_bytes=KEM.enc_length(KEM.X25519),
    secret=X25519PrivateKey.from_private_bytes,
    point=X25519PublicKey.from_public_bytes,
    public_raw=_curve_public_raw,
)
HYBRID = SealingSuite(
    name="mlkem768x25519-aes128gcm",
    hpke=Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM),
    secret_bytes=_LATTICE_SEED_BYTES + _CURVE_BYTES,
    public_bytes=_LATTICE_PUBLIC_BYTES + _CURVE_BYTES,
    enc_bytes=KEM.enc_length(KEM.MLKEM768_X25519),
    secret=_hybrid_secret,
    point=_hybrid_point,
    public_raw=_hybrid_public_raw,
)
_ALL = (X25519, HYBRID)
SUITES = tuple(suite.name for suite in _ALL)


def by_name(name: str) -> SealingSuite | None:
    """The suite of a name, if there is one."""
    return next((suite for suite in _ALL if suite.name == name), None)


def by_public_length(length: int) -> SealingSuite | None:
    """The suite whose public keys have this length."""
    return next((suite for suite in _ALL if suite.public_bytes == length), None)


def by_secret_length(length: int) -> SealingSuite | None:
    """The suite whose secrets have this length."""
    return next((suite for suite in _ALL if suite.secret_bytes == length), None)

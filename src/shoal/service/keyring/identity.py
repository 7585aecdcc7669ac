"""The key that signs a party's list of keys, and the fingerprint by which surveys name it.

The fingerprint is SHA-256 of ``"shoal/1 identity" 00 role 00 key``: it names a role too, so that
what an analyzer signed is never taken for a shuffler's, not even if one key serves both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from shoal import randomness
from shoal.errors import InvalidArgumentError
from shoal.service.keyring.schedule import ROLES, Role

SECRET_BYTES = PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
_FINGERPRINTED = b"shoal/1 identity\x00"
_SIGNED = b"shoal/1 keys\x00"


def fresh_bytes(length: int) -> bytes:
    """Unpredictable bytes."""
    return randomness.secure().words(-(-length // 8)).tobytes()[:length]


def fingerprint(role: Role, public: bytes) -> str:
    """What a survey says about the key that signs for a party: 64 hexadecimal digits."""
    return sha256(_FINGERPRINTED + role.encode() + b"\x00" + public).hexdigest()


def is_signed(public: bytes, signature: bytes, content: bytes) -> bool:
    """Whether the owner of this key signed this list."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _SIGNED + content)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Identity:
    """An Ed25519 key with the role it signs for."""

    role: Role
    raw: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise InvalidArgumentError("role", self.role, f"one of {', '.join(ROLES)}")
        if len(self.raw) != SECRET_BYTES:
            raise InvalidArgumentError("raw", "a secret", f"a secret of {SECRET_BYTES} bytes")

    @classmethod
    def generate(cls, role: Role) -> Identity:
        """A fresh one, from the operating system's randomness."""
        return cls(role, fresh_bytes(SECRET_BYTES))

    @cached_property
    def _secret(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.raw)

    @cached_property
    def public(self) -> bytes:
        """The key that everybody may know."""
        return self._secret.public_key().public_bytes_raw()

    def sign(self, content: bytes) -> bytes:
        """A signature of a list's canonical bytes; the same for the same bytes."""
        return self._secret.sign(_SIGNED + content)

"""Keys of a shuffler or an analyzer: their lifetimes, their signed list, their secrets at rest."""

from __future__ import annotations

from shoal.service.keyring.errors import (
    ContradictionError,
    DamagedKeyringError,
    IdentityOfflineError,
    KeyGoneError,
    KeyListError,
    KeyringBusyError,
    KeyringError,
    UnsafePermissionsError,
    WrongSecretError,
)
from shoal.service.keyring.key_list import KeyInfo, KeyList
from shoal.service.keyring.keyring import Inheritance, Keyring, Rotation
from shoal.service.keyring.protection import Protection
from shoal.service.keyring.schedule import CACHE_SECONDS, KeyState, Role, Schedule

__all__ = [
    "CACHE_SECONDS",
    "ContradictionError",
    "DamagedKeyringError",
    "IdentityOfflineError",
    "Inheritance",
    "KeyGoneError",
    "KeyInfo",
    "KeyList",
    "KeyListError",
    "KeyState",
    "Keyring",
    "KeyringBusyError",
    "KeyringError",
    "Protection",
    "Role",
    "Rotation",
    "Schedule",
    "UnsafePermissionsError",
    "WrongSecretError",
]

"""Keys of a shuffler or an analyzer: their lifetimes, their signed list, their secrets at rest."""

from __future__ import annotations

from shoal.service.keyring.errors import (
    ContradictionError,
    DamagedKeyringError,
    KeyGoneError,
    KeyListError,
    KeyringError,
)
from shoal.service.keyring.key_list import ROLES, KeyInfo, KeyList, KeyState, Role
from shoal.service.keyring.keys import Keyring, Rotation
from shoal.service.keyring.rotation import CACHE_SECONDS, Schedule
from shoal.service.keyring.secrets import Protection

__all__ = [
    "CACHE_SECONDS",
    "ROLES",
    "ContradictionError",
    "DamagedKeyringError",
    "KeyGoneError",
    "KeyInfo",
    "KeyList",
    "KeyListError",
    "KeyState",
    "Keyring",
    "KeyringError",
    "Protection",
    "Role",
    "Rotation",
    "Schedule",
]

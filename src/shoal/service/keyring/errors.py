"""What goes wrong with keys.

::

    KeyringError (ShoalError)
    ├── KeyListError               a list of keys that may not be relied on (ValueError)
    │   └── ContradictionError     a list that says otherwise than one signed before
    ├── KeyGoneError               a key that cannot open anything here (LookupError)
    ├── WrongSecretError           a passphrase or key file that does not open the secrets
    ├── UnsafePermissionsError     others on the machine could read the secrets
    ├── IdentityOfflineError       the identity is elsewhere, so nothing can be signed
    ├── KeyringBusyError           another process holds the ring and does not let go
    └── DamagedKeyringError        files that are not what they were when they were written
"""

from __future__ import annotations

from pathlib import Path

from shoal.errors import ShoalError


class KeyringError(ShoalError):
    """A ring of keys cannot do what is asked of it."""


class KeyListError(KeyringError, ValueError):
    """A list of keys that is well written and must not be relied on all the same."""

    def __init__(self, reason: str, advice: str) -> None:
        self.reason = reason
        self.advice = advice
        super().__init__(f"the list of keys cannot be relied on: {reason}; {advice}")


class ContradictionError(KeyListError):
    """Two lists that one identity signed, and of which only one can be right: a proof, if kept."""


class KeyGoneError(KeyringError, LookupError):
    """A key that is not there to open anything: unknown, not yet in use, or deleted."""

    def __init__(self, number: int, why: str) -> None:
        self.number = number
        self.why = why
        super().__init__(f"key {number} opens nothing here: {why}")


class WrongSecretError(KeyringError):
    """A passphrase or a key file that does not open a ring's secrets."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"cannot open {path}: {why}")


class UnsafePermissionsError(KeyringError):
    """A file or directory that others on the machine may read or change.

    ``known`` is what they have if they read it, where it is not keys.
    """

    def __init__(self, path: Path, mode: int, advised: int, known: str | None = None) -> None:
        then = "retire the keys in it"
        if known is not None:
            then = f"count {known} as known to them: keep them from the keys, and from backups"
        self.path = path
        self.mode = mode
        self.advised = advised
        super().__init__(
            f"{path} is open to other users (mode {mode:04o}); run chmod {advised:o} {path} and, "
            f"if anybody else could have read it, {then}"
        )


class IdentityOfflineError(KeyringError):
    """Something has to be signed, and the key that signs is not here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"the list of keys has to be signed and there is no identity at {path}; bring it and "
            "name it (--identity FILE)"
        )


class KeyringBusyError(KeyringError):
    """Another process has the ring's lock."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path = path
        self.seconds = seconds
        super().__init__(
            f"another process has held {path} for {seconds:g} seconds; try again, or find out "
            "which one it is (fuser, lsof)"
        )


class DamagedKeyringError(KeyringError):
    """A file of the ring that is not as it was written."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path} is damaged: {why}; restore it from a backup")

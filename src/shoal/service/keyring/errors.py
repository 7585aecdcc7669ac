"""What goes wrong with keys.

::

    KeyringError (ShoalError)
    ├── KeyListError               a list of keys that may not be relied on (ValueError)
    │   └── ContradictionError     a list that says otherwise than one signed before
    ├── KeyGoneError               a key that cannot open anything here (LookupError)
    └── DamagedKeyringError        files that are not what they were when they were written
"""

from __future__ import annotations

from pathlib import Path

from shoal.errors import ShoalError


class KeyringError(ShoalError):
    """A ring of keys cannot do what is asked of it."""


class KeyListError(KeyringError, ValueError):
    """A list of keys that is well written and must not be relied on all the same.

    Attributes:
        reason: Why not.
        advice: What to do.

    Example:
        >>> print(KeyListError("it is not signed", "fetch it again"))
        the list of keys cannot be trusted: it is not signed; fetch it again
    """

    def __init__(self, reason: str, advice: str) -> None:
        self.reason = reason
        self.advice = advice
        super().__init__(f"the list of keys cannot be trusted: {reason}; {advice}")


class ContradictionError(KeyListError):
    """Two lists that one identity signed, and of which only one can be right: a proof, if kept."""


class KeyGoneError(KeyringError, LookupError):
    """A key that is not there to open anything: unknown, not yet in use, or deleted."""

    def __init__(self, number: int, why: str) -> None:
        self.number = number
        self.why = why
        super().__init__(f"key {number} cannot decrypt here: {why}")


class DamagedKeyringError(KeyringError):
    """A file of the ring that is not as it was written."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"{path} is damaged: {why}; restore it from a backup")

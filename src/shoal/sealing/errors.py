"""What goes wrong with bytes from outside. Wrong arguments of a caller are errors of another kind.

::

    SealingError (ShoalError, ValueError)
    ├── NotOpenableError     an envelope does not open; why is nobody's business
    ├── FramingError         a stream of bytes does not divide into frames
    └── MalformedError       a key or a configuration is not written as it must be
"""

from __future__ import annotations

from shoal.errors import ShoalError


class SealingError(ShoalError, ValueError):
    """Bytes from outside that are not what they should be."""


class NotOpenableError(SealingError):
    """An envelope that does not open.

    Wrong key, wrong survey, wrong role, a flipped bit, wrong length, wrong padding: one error with
    one sentence for all, so that nobody can learn anything from provoking it.
    """

    def __init__(self) -> None:
        super().__init__("not openable")


class FramingError(SealingError):
    """A stream that announces a frame of a length it may not have."""

    def __init__(self, length: int, expected: str) -> None:
        self.length = length
        self.expected = expected
        super().__init__(f"expected {expected}, got {length} bytes")


class MalformedError(SealingError):
    """A key or a configuration that is not written in its one form."""

    def __init__(self, what: str, expected: str) -> None:
        self.what = what
        self.expected = expected
        super().__init__(f"{what} is malformed: expected {expected}")

"""What goes wrong with bytes from outside. Wrong arguments of a caller are errors of another kind.

::

    SealingError (ShoalError, ValueError)
    ├── NotOpenableError     an envelope does not open; why is nobody's business
    └── MalformedError       a key, a configuration or a row of records is not written as it must be
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


class MalformedError(SealingError):
    """A key, a configuration or a row of records that is not written in its one form.

    ``contradiction``: it is, and its values do not follow from each other; what they were refused
    with.
    """

    def __init__(self, what: str, expected: str, *, contradiction: Exception | None = None) -> None:
        self.what = what
        self.expected = expected
        self.contradiction = contradiction
        super().__init__(f"{what} is malformed: expected {expected}")

"""What is decided about reports that wait, when a shuffler is brought back."""

from __future__ import annotations

from enum import StrEnum


class Waiting(StrEnum):
    """What becomes of reports that a shuffler had not released when the backup was made."""

    KEEP = "keep"
    DROP = "drop"

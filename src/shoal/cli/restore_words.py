"""Words of ``shoal restore`` that its options are read with."""

from __future__ import annotations

from enum import StrEnum


class Waiting(StrEnum):
    """What becomes of reports that had not been released when the backup was made."""

    KEEP = "keep"
    DROP = "drop"

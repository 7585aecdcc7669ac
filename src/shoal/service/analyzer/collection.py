"""One batch on its way to a result: what it is called, how far it is, who works on it.

::

    REQUESTED ─▶ RECEIVED ─▶ OPENED ─▶ BUDGETED ─▶ PUBLISHED ─▶ (acknowledged)
        └────────────┴─▶ REFUSED ─▶ (REQUESTED, if an operator asks for it again)

Every step is one transaction that names the state it starts from and the owner who takes it, so
that it happens once, whoever else tries. A crash leaves the state before or the state after.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.errors import InvalidArgumentError
from shoal.service.analyzer import schema
from shoal.service.analyzer.opened import unpacked
from shoal.values import Counts

LARGEST_BATCH = 1 << 40  # bytes; no shuffler has one
MOST_KEY = 255
BATCH_NAME = re.compile(r"[0-9a-f]{32}")
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A batch that a shuffler has ready, as it announces it.

    ``key`` is the number of the analyzer's key that its records are sealed for, if it is told.
    """

    batch: str
    digest: str
    size: int
    key: int | None = None

    def __post_init__(self) -> None:
        if not BATCH_NAME.fullmatch(self.batch):
            raise InvalidArgumentError("batch", self.batch, "32 lower-case hexadecimal digits")
        if not DIGEST.fullmatch(self.digest):
            raise InvalidArgumentError("digest", self.digest, "64 lower-case hexadecimal digits")
        if type(self.size) is not int or not 0 <= self.size <= LARGEST_BATCH:
            raise InvalidArgumentError("size", self.size, f"0 to {LARGEST_BATCH} bytes")
        if self.key is not None and not (type(self.key) is int and 0 <= self.key <= MOST_KEY):
            raise InvalidArgumentError("key", self.key, f"a number from 0 to {MOST_KEY}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Collection:
    """A row of the table of that name.

    ``survey`` is the survey's number in this store. What is not known yet is None; ``cells`` are
    read with one collection only, not with a list of them.
    """

    survey: int
    batch: str
    request: str
    state: str
    digest: str
    size: int
    key: int | None
    reports: int | None
    records: int | None
    valid: int | None
    rejected: dict[str, int] | None
    reason: str | None
    acknowledged: bool
    owner: str | None
    lease_until: int | None
    cells: bytes | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Collection:
        """From a row."""
        rejected = row["rejected"]
        changed = {
            "rejected": None if rejected is None else json.loads(rejected),
            "acknowledged": bool(row["acknowledged"]),
        }
        return cls(**{**row, **changed})

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.state == schema.REFUSED or (
            self.state == schema.PUBLISHED and self.acknowledged
        )

    @property
    def counts(self) -> Counts | None:
        """What its records added up to, if that may be used."""
        if self.cells is None or self.valid is None:
            return None
        return unpacked(self.cells, self.valid)

    @property
    def received(self) -> dict[str, Any]:
        """What its document says about how it came."""
        return {"batch": self.batch, "reports": self.reports, "rejected": self.rejected or {}}

"""What ``shoal loadtest`` was asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from shoal import checks
from shoal.cli.options import RefusedError
from shoal.errors import InvalidArgumentError

_MOST = 50_000_000  # requests of one test


@dataclass(frozen=True, kw_only=True)
class LoadtestAsked:
    """The options; None is an option that was not given."""

    survey: Path
    for_testing: bool
    rate: float
    seconds: float
    connections: int
    to: str | None
    processes: int | None
    patience: float
    bulk: int
    forged: float
    replays: float
    p99: float | None
    errors: float | None

    @property
    def requests(self) -> int:
        """How many it will be."""
        return max(1, round(self.rate * self.seconds))

    @property
    def sealing(self) -> int:
        """How many processes seal."""
        return self.processes if self.processes is not None else os.cpu_count() or 1

    def check(self) -> None:
        """Refuse what makes no sense, and what would spoil a survey."""
        checks.positive(rate=self.rate, seconds=self.seconds, patience=self.patience)
        checks.count(connections=self.connections)
        checks.count(bulk=self.bulk)
        checks.count(processes=self.sealing)
        for name, value in (("forged", self.forged), ("replays", self.replays)):
            if not 0 <= value <= 1:
                raise InvalidArgumentError(name, value, "a share from 0 to 1")
        if self.replays and self.forged + self.replays >= 1:
            message = "--forged and --replays leave nothing to be sent a first time: lower one"
            raise RefusedError(message)
        if self.p99 is not None:
            checks.positive(p99=self.p99)
        if self.errors is not None and not 0 <= self.errors <= 1:
            raise InvalidArgumentError("errors", self.errors, "a share from 0 to 1")
        if self.requests > _MOST:
            raise RefusedError(f"{self.requests:,} requests are too many: at most {_MOST:,}")
        if not self.for_testing:
            raise RefusedError(
                "a load test's reports are counted like people's, and change what the survey says "
                "for good: make a survey for the test, register it, and say "
                "--this-survey-is-for-testing"
            )

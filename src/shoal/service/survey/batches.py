"""When the crowd is large enough, and what becomes of one that never is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.sealing import Plain

Small = Literal["carry", "expire"]

MOST_REPORTS = 10**10  # in a batch: more people than there are


@dataclass(frozen=True, kw_only=True)
class Batches:
    """When a batch is closed.

    At ``target`` valid reports, or ``max_age`` seconds after its first one if it has at least
    ``minimum`` by then. One that has fewer is never released as it is: it waits for more
    (``small="carry"``), or its reports are deleted unread (``small="expire"``).
    """

    minimum: int
    target: int
    max_age: int
    small: Small = "carry"

    def __post_init__(self) -> None:
        for name, least in (("minimum", 2), ("target", 2), ("max_age", 1)):
            object.__setattr__(self, name, checks.count(least, **{name: getattr(self, name)}))
        for name in ("minimum", "target"):
            if getattr(self, name) > MOST_REPORTS:
                expected = f"at most {MOST_REPORTS:,} reports in a batch"
                raise InvalidArgumentError(name, getattr(self, name), expected)
        if self.target < self.minimum:
            raise InvalidArgumentError("target", self.target, f"target >= minimum={self.minimum}")
        if self.small not in get_args(Small):
            raise InvalidArgumentError("small", self.small, "'carry' or 'expire'")

    def configuration(self) -> dict[str, Plain]:
        """As plain values."""
        return {
            "minimum": self.minimum,
            "target": self.target,
            "max_age": self.max_age,
            "small": self.small,
        }

    @classmethod
    def restored(cls, stored: Mapping[str, Plain]) -> Batches:
        """From plain values."""
        wholes = cast("Mapping[str, int]", stored)
        return cls(
            minimum=wholes["minimum"],
            target=wholes["target"],
            max_age=wholes["max_age"],
            small=cast("Small", stored["small"]),
        )

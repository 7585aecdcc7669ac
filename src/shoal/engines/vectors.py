"""From several columns to a vector per person, at most as long as a public norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from shoal.engines.coding import PUBLIC_NULLS, Found, Values, lacking, people
from shoal.engines.reading import Rows
from shoal.errors import InvalidArgumentError
from shoal.randomizers.ball import Ball
from shoal.randomizers.base import Mechanism, VectorMechanism
from shoal.values import Array, VectorEstimate

SHORTENED = "vectors longer than the norm count as scaled down to it"
_NAMED = 6


@dataclass(frozen=True, eq=False)
class Vectors:
    """Columns of numbers, a coordinate each, and the norm that no vector is longer than."""

    rows: Rows
    ball: Ball
    n: int
    notes: tuple[str, ...]

    @classmethod
    def bounded(cls, rows: Rows, norm: float, *, drop_nulls: bool) -> Vectors:
        """Vectors, those longer than the norm shortened; a row without a number is none."""
        ball = Ball(dimension=len(rows.names), norm=norm)
        total, nulls, without = rows.size()
        n = people(spelled(rows.names), total, without, drop_nulls=drop_nulls)
        if without and not drop_nulls:
            raise lacking(next(name for name, each in zip(rows.names, nulls, strict=True) if each))
        return cls(rows, ball, n, (SHORTENED, PUBLIC_NULLS) if drop_nulls else (SHORTENED,))

    @property
    def name(self) -> str:
        """The columns' names."""
        return spelled(self.rows.names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The coordinates."""
        return self.rows.names

    @property
    def question(self) -> dict[str, Any]:
        """How many coordinates, and how long."""
        return {"dimension": self.ball.dimension, "norm": self.ball.norm}

    def chunks(self) -> Iterator[Values]:
        """Everybody's vector, as it is."""
        yield from self.rows.vectors()

    def given(self, values: Values, device: Mechanism) -> Values:
        """Vectors no longer than the norm, of length 1 for devices that want them so."""
        return self.ball.given(self.ball.shortened(values), cast("VectorMechanism", device))

    def estimated(self, found: Found, device: Mechanism) -> VectorEstimate:
        """The mean of the vectors themselves."""
        mean, taken = cast("VectorEstimate", found), cast("VectorMechanism", device)
        return self.ball.estimated(mean, taken)

    def totals(self, values: Values) -> Array:
        """The true sum, of the vectors as they are: what shortening costs has to show."""
        total: Array = values.sum(axis=0)
        return total

    def require(self, randomizer: Mechanism, *, planned: bool = False) -> None:
        """The randomizer takes vectors of this many coordinates and this length."""
        if self.ball.suits(randomizer):
            return
        d, norm = self.ball.dimension, self.ball.norm
        if planned:
            expected = f"a plan with dimension={d}, norm={norm:g} (--dimension {d} --norm {norm:g})"
        else:
            expected = (
                f"a randomizer of vectors of {d} coordinates: privunit of dimension {d + 1}, or "
                f"split-and-mix-vectors of dimension {d} and bound {self.ball.bound:g}"
            )
        raise InvalidArgumentError("randomizer", randomizer, expected)


def spelled(names: Sequence[str]) -> str:
    """The names of the coordinates, or of the first and the last if they are many.

    >>> spelled(["x", "y"]), spelled([f"v{i}" for i in range(100)])
    ('x, y', 'v0, ..., v99 (100 columns)')
    """
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]}, ..., {names[-1]} ({len(names)} columns)"

"""One estimate made of several: of labels of which everybody may select some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal import checks
from shoal.values import Array, Estimate


@dataclass(frozen=True, eq=False)
class Piece:
    """Some cells of an estimate, each ``times`` its fraction."""

    estimate: Estimate
    cells: tuple[int, ...]
    times: int = 1

    def of(self, values: object) -> Array:
        """These cells of one number for each cell of the estimate, or one for all of them."""
        every = np.broadcast_to(
            np.asarray(values, dtype=np.float64), self.estimate.frequencies.shape
        )
        return self.times * every[list(self.cells)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined(Estimate):
    """Fractions that are cells of several estimates; their limits are those of their pieces.

    A piece that counts several reports of everybody has the fraction of reports: ``times`` that is
    the fraction of people.
    """

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, pieces: Sequence[Piece], *, n: int) -> Joined:
        """Of n people."""
        fractions = [each.of(each.estimate.frequencies) for each in pieces]
        deviations = [each.of(each.estimate.standard_errors) for each in pieces]
        empty = [
            each.of(
                each.estimate.standard_errors
                if each.estimate.empty_error is None
                else each.estimate.empty_error
            )
            for each in pieces
        ]
        return cls(
            np.concatenate(fractions),
            np.concatenate(deviations),
            n,
            empty_error=np.concatenate(empty),
            pieces=tuple(pieces),
        )

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Array, Array]:
        """Limits of each fraction; together by Bonferroni.

        Half of the allowance is for counts that are not normal so far out in their tails.
        """
        checks.open_probability(level=level)
        each = 1 - (1 - level) / (2 * self.frequencies.size) if simultaneous else level
        lows, highs = zip(*(piece.estimate.interval(each) for piece in self.pieces), strict=True)
        return self._together(lows), self._together(highs)

    def noise_floor(self, level: float = 0.95) -> Array:
        """What a label must reach so that, with probability ``level``, no mere noise does."""
        checks.open_probability(level=level)
        each = 1 - (1 - level) / len(self.pieces)
        return self._together([piece.estimate.noise_floor(each) for piece in self.pieces])

    def _together(self, values: Sequence[Array]) -> Array:
        parts = zip(self.pieces, values, strict=True)
        return np.concatenate([piece.of(each) for piece, each in parts])

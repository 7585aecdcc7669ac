"""Walks whose rounds differ: people who come and go, and graphs that change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.network import kernels
from shoal.network.walk import Positions, Walk
from shoal.randomness import Randomness, secure
from shoal.values import Array

_ABSENT = 4  # roundings more: the stay is a sum, a product, and added to what arrives


@dataclass(frozen=True, eq=False)
class Absences(Positions):
    """A walk with given people online in each round: ``online`` has a row a round, a column a node.

    A report stays put unless its holder and the neighbour chosen are both there. Every such round
    is symmetric with respect to the walk's π, so π is kept whatever the pattern. Given the pattern
    the reports' walks are independent.
    """

    walk: Walk
    online: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        shown = f"{self.online.dtype} of shape {self.online.shape}"
        if self.online.dtype != np.bool_ or self.online.shape[1:] != (self.walk.n,):
            expected = f"true or false for each of {self.walk.n} nodes, a row a round"
            raise InvalidArgumentError("online", shown, expected)
        if self.walk.online < 1:
            expected = "a walk with online=1: the pattern says who is there"
            raise InvalidArgumentError("walk", self.walk.online, expected)

    @classmethod
    def drawn(
        cls, walk: Walk, rounds: int, *, online: float, randomness: Randomness | None = None
    ) -> Absences:
        """Everybody online with the same probability, independently in each round.

        The probability is that of the nearest multiple of 2^-32.
        """
        rounds = checks.count(0, rounds=rounds)
        checks.share(online=online)
        source = secure() if randomness is None else randomness
        limit = np.uint64(round(online * 2**32))
        words = source.words(rounds * walk.n) >> np.uint64(32)
        return cls(walk, (words < limit).reshape(rounds, walk.n))

    @property
    def n(self) -> int:
        """How many nodes."""
        return self.walk.n

    @property
    def longest(self) -> int | None:
        """As many rounds as the pattern has."""
        return len(self.online)

    @property
    def stationary(self) -> Array:
        """The walk's own π."""
        return self.walk.stationary

    @cached_property
    def _parts(self) -> tuple[csr_array, csr_array, Array]:
        moves, stays = kernels.without_diagonal(self.walk.transitions)
        return moves, moves.T.tocsr(), stays

    def advance(self, laws: Array, at: int) -> Array:
        """Laws in columns, a round later."""
        outgoing, incoming, stays = self._parts
        here = self.online[at].astype(np.float64)
        # Sums of positive terms alone: 1 - (probability of leaving) would cancel.
        staying = np.where(self.online[at], stays + outgoing @ (1 - here), 1.0)
        arriving = here[:, None] * (incoming @ (here[:, None] * laws))
        return np.asarray(arriving + staying[:, None] * laws)

    def rounding(self, rounds: int) -> float:
        """The relative error of every probability after so many rounds, at most."""
        roundings = self.walk.roundings + _ABSENT
        return kernels.growth(checks.count(0, rounds=rounds) * roundings)


@dataclass(frozen=True, eq=False)
class Varying(Positions):
    """A walk on a graph that changes: one walk a round, all on the same nodes.

    All of them must keep one law for :attr:`stationary` to exist; laws of positions and what they
    have in common are there either way.
    """

    walks: Sequence[Walk]

    def __post_init__(self) -> None:
        sizes = {walk.n for walk in self.walks}
        if len(sizes) != 1:
            raise InvalidArgumentError("walks", sorted(sizes), "walks on the same nodes")

    @property
    def n(self) -> int:
        """How many nodes."""
        return self.walks[0].n

    @property
    def longest(self) -> int | None:
        """As many rounds as there are walks."""
        return len(self.walks)

    @cached_property
    def stationary(self) -> Array:
        """The law that all rounds keep."""
        law = self.walks[0].stationary
        if any(not np.array_equal(law, walk.stationary) for walk in self.walks):
            expected = "walks that keep one law, such as on graphs of equal degrees"
            raise InvalidArgumentError("walks", "several stationary laws", expected)
        return law

    def advance(self, laws: Array, at: int) -> Array:
        """Laws in columns, a round later."""
        return self.walks[at].advance(laws, at)

    def rounding(self, rounds: int) -> float:
        """The relative error of every probability after so many rounds, at most."""
        rounds = checks.count(0, rounds=rounds)
        return kernels.growth(sum(walk.roundings for walk in self.walks[:rounds]))

"""Where everybody's report may be after some rounds, as far as it is known.

Of some people the law of the holder is computed, of the others only moments are known: their
χ² = Σ (P/π - 1)² π, and bounds on P/π. Either way there is a stop-loss function for any group of
people, and so one law that covers them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shoal import checks
from shoal.network import kernels, law
from shoal.network.graph import Nodes, node_numbers
from shoal.network.law import Floor, Moments, StopLoss
from shoal.values import Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """What is known after ``rounds`` rounds.

    ``laws`` are those of the people in ``known``, one a row, each with a relative error of at most
    ``rounding``. Of everybody, ``chi_squared`` and ``highest`` (of P/π) are upper bounds, unless
    everybody is known. ``minimum`` is at most everybody's P(v). All of it holds but for a
    probability ``failure``.
    """

    rounds: int
    minimum: Array
    stationary: Array
    chi_squared: Array
    highest: Array
    known: Nodes
    laws: Array = field(repr=False)
    rounding: float
    failure: float
    method: str

    @property
    def n(self) -> int:
        """How many people."""
        return len(self.minimum)

    @cached_property
    def order(self) -> Nodes:
        """Everybody, those whose reports are spread best first."""
        return np.argsort(self.chi_squared, kind="stable")

    @cached_property
    def places(self) -> Nodes:
        """Where somebody's law is in ``laws``; -1 if it is not."""
        found = np.full(self.n, -1)
        found[self.known] = np.arange(len(self.known))
        return found

    @cached_property
    def floor(self) -> Floor:
        """How far the common part is below the stationary law."""
        return Floor.of(self.minimum, self.stationary)

    def group(self, *, quantile: float = 1.0, user: int | None = None) -> Nodes:
        """One person, or the share ``quantile`` of all whose reports are spread best."""
        if user is not None:
            return node_numbers([user], self.n, name="user")
        checks.share(quantile=quantile)
        return self.order[: max(1, math.ceil(quantile * self.n * (1 - 1e-12)))]

    def total_variation(self) -> float:
        """Σ_u TV(P_u, π) <= Σ_u √χ²_u / 2, rounded up."""
        return float(np.sqrt(self.chi_squared).sum()) / 2 * (1 + 1e-9)

    def stop_loss(self, users: Nodes, *, count: int) -> StopLoss:
        """Of all these people's reports at once."""
        at = law.points(self.largest(users), count=count)
        return StopLoss(at, self.losses(users, at))

    def losses(self, users: Nodes, at: Array) -> Array:
        """The largest stop-loss of these people at given points, the first of them 0."""
        rows = self._rows(users)
        found = law.stop_loss(rows, self.minimum, at) if len(rows) else np.zeros(at.size)
        known = self._moments(users)
        if known is not None:
            found = np.maximum(found, self.floor.stop_loss(known, at))
        found[0] = 1.0
        return np.minimum(found, 1.0)

    def largest_sums(self, users: Nodes) -> Array:
        """At least the sum of the j largest probabilities of anybody among these, for each j.

        On holders of share a of π, P is at most a + √(χ² a), and at most the highest ratio times a.
        """
        found = np.zeros(self.n + 1)
        for row in self._rows(users):
            found[1:] = np.maximum(found[1:], np.cumsum(np.sort(row)[::-1]))
        known = self._moments(users)
        if known is not None:
            share = np.cumsum(np.sort(self.stationary)[::-1])
            spread = np.minimum(share + np.sqrt(known.variance * share), known.highest * share)
            found[1:] = np.maximum(found[1:], spread * (1 + 1e-9))
        found[1:] = np.minimum(found[1:] * (1 + kernels.growth(self.n)), 1.0)
        found[-1] = 1.0
        return found

    def largest(self, users: Nodes) -> float:
        """The largest weight P/μ of these people, where it is finite."""
        common = self.minimum > 0
        if not common.any():
            return 1.0
        found = 1.0
        for row in self._rows(users):
            found = max(found, float((row[common] / self.minimum[common]).max()))
        known = self._moments(users)
        if known is not None:
            found = max(found, known.highest / max(self.floor.least, 1e-3))
        return found

    def uses_laws(self, users: Nodes) -> bool:
        """Whether computed laws, with their rounding, are behind the answer."""
        return bool((self.places[users] >= 0).any())

    def _rows(self, users: Nodes) -> Array:
        places = self.places[users]
        return self.laws[places[places >= 0]]

    def _moments(self, users: Nodes) -> Moments | None:
        others = users[self.places[users] < 0]
        if not others.size:
            return None
        highest = float(self.highest[others].max())
        return Moments(float(self.chi_squared[others].max()), self.floor.least, highest)


def normalised(laws: Array) -> Array:
    """Laws in rows whose sums are 1 again, as rounding may have left them."""
    return np.asarray(laws / laws.sum(axis=1, keepdims=True))

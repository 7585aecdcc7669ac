"""Permuted Gaussian steps hidden by a blanket of Gaussian noise: sharper than their (eps0, delta0).

Each step shows N(g, 1) (in units of the noise). Suppose that, whatever the past, some point is
within r of both sums that one block may have and within R of the sums of all other blocks. For any
a >= 1, n steps on randomly permuted blocks satisfy, both orders, adaptively,

    delta(epsilon) <= (1/n) E[(Z_1 + ... + Z_n)_+] + (e^epsilon + 1) (n - 1) t,
    Z = a (e^{r U - r^2/2} - e^epsilon e^{-r U - r^2/2}) with probability 1/a, else 0,

with U standard normal and t = (1/a) D_a(N(0, 1), N(R, 1)). Proved in docs/theory/permuted-sgd.md:
the noise around that point, over a, is the blanket; everybody else's step is exchanged for one
that contains it, at total variation t; opposite sums at full distance are the worst pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from shoal.accounting import gaussian, integral
from shoal.accounting.atoms import PairLaw
from shoal.accounting.gaussian import Cells
from shoal.accounting.search import Side, crossing, gaussian_guess
from shoal.learning import many_steps
from shoal.learning.many_steps import StepLaw

_TOLERANCE = 0.06  # of delta: worth 0.3 % of epsilon and less
_WIDTH = 0.2  # of a cell, in deviations of the noise: costs about 0.3 % of epsilon
_LOST = 3e-3  # share of delta for outputs beyond the last cell
_SHARES = (0.1, 0.3, 0.03)  # of delta for the exchange
_NEGLIGIBLE = 1e-3  # of delta: where a curve that is composed may end
_DEEPEST = 40.0  # deviations: beyond, nothing has a probability
_HOPELESS = 700.0  # an epsilon that guarantees nothing, and whose exponential is still a float
_LEAST_HIDDEN = 2.0  # people whose step is noise and nothing else, on average


@dataclass(frozen=True)
class Distances:
    """From a point known in advance: to the sums of one block, and to those of all others."""

    own: float
    others: float


@dataclass(frozen=True)
class Blanket:
    """The curve of one epoch for one a = e^level; ``lost`` is the mass cut off the Gaussians."""

    distances: Distances
    n: int
    level: float
    lost: float

    @property
    def distance(self) -> float:
        """Total variation between the real steps and those that contain the blanket."""
        each = gaussian.delta(self.distances.others, self.level) * math.exp(-self.level)
        return (self.n - 1) * each

    @cached_property
    def pair(self) -> PairLaw:
        """Atoms above the continuous law in convex order, at every epsilon at once.

        In each cell both ratios are spread to their values at its ends with their means kept. Of
        all ways to join the two, the one where they are never large together is the worst.
        """
        mu, a = self.distances.own, math.exp(self.level)
        end = mu - float(special.ndtri(self.lost))
        cells = Cells.between(-end, end, _WIDTH)
        up, down = cells.ratios(mu), cells.ratios(-mu)
        weight, first = cells.masses(0.0), cells.raised(mu)
        second = np.minimum(cells.raised(-mu), weight - first)
        mass = np.concatenate([first, second, weight - first - second]) / a
        rho0 = a * np.concatenate([up[1:], up[:-1], up[:-1]])
        rho1 = a * np.concatenate([down[1:], down[:-1], down[1:]])
        near, far = float(special.ndtr(mu - end)), float(special.ndtr(-mu - end))
        atoms = zip(mass.tolist(), rho0.tolist(), rho1.tolist(), strict=True)
        return PairLaw.of(atoms, lost=[(near, 0.0), (0.0, near), (far, 0.0), (0.0, far)])

    def delta(self, epsilon: float) -> float:
        """The certified bound at this epsilon."""
        pure = integral.enclose(self.pair, n=self.n, epsilon=epsilon, tolerance=_TOLERANCE).upper
        return min(1.0, pure + (math.exp(epsilon) + 1) * self.distance)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon proved at this delta; infinite if there is none."""
        if 2 * self.distance >= delta:
            return math.inf
        target = math.log(delta)
        guess = gaussian_guess(self.pair.spread(self.n), target)
        cap = guess
        while not self._spent(cap, delta) and self.delta(cap) > delta:
            cap *= 1.4
        if self._spent(cap, delta):
            return math.inf
        return crossing(
            lambda at: math.log(self.delta(at)), target, cap=cap, guess=guess, side=Side.UPPER
        )

    def _spent(self, epsilon: float, delta: float) -> bool:
        """Whether this epsilon is out of reach: the exchange alone costs delta, as is soon seen."""
        return epsilon > _HOPELESS or (math.exp(epsilon) + 1) * self.distance >= delta

    def law(self, delta: float) -> StepLaw:
        """The curve as the loss of one round of many, sampled to where delta is negligible."""
        end = max(_NEGLIGIBLE * delta, 3 * self.distance)
        return StepLaw.sampled(self.delta, spread=self.pair.spread(self.n), end=end)


def best(candidates: Iterable[Distances], *, n: int, delta: float) -> tuple[float, Blanket | None]:
    """The smallest epsilon at this delta, of a few shares of delta for the exchange.

    Infinite where every level that leaves something of delta hides nobody.
    """
    reached: float = math.inf
    found: Blanket | None = None
    for blanket in _blankets(candidates, n, delta):
        if math.isinf(reached) or blanket.delta(reached) < delta:
            here = blanket.epsilon(delta)
            reached, found = (here, blanket) if here < reached else (reached, found)
    return reached, found


def _blankets(candidates: Iterable[Distances], n: int, delta: float) -> Iterator[Blanket]:
    for distances in candidates:
        for share in _SHARES:
            level = _level(distances.others, n, share * delta)
            if n * math.exp(-level) >= _LEAST_HIDDEN:
                yield Blanket(distances, n, level, _LOST * delta)


def epsilon(candidates: Iterable[Distances], *, n: int, epochs: int, delta: float) -> float:
    """epsilon of so many epochs, each with a permutation of its own; infinite if none is proved."""
    once, blanket = best(candidates, n=n, delta=delta / epochs)
    if epochs == 1 or blanket is None:
        return once
    law = blanket.law(delta / epochs)
    if epochs * law.infinite >= delta:
        return math.inf
    return many_steps.epsilon(law, epochs, delta)


def _level(others: float, n: int, cost: float) -> float:
    """The smallest level whose exchange costs this much of delta when epsilon is small."""
    low, high = 0.0, others * (others / 2 + _DEEPEST)
    for _ in range(60):
        middle = (low + high) / 2
        if 2 * (n - 1) * gaussian.delta(others, middle) * math.exp(-middle) > cost:
            low = middle
        else:
            high = middle
    return high

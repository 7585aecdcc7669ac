"""The Gaussian blanket: noise around one point hides noise around points near it.

Where others may be anywhere in a ball of any dimension, what all their Gaussian reports have in
common is thin. Instead the noise around one point, over a = e^level, is the blanket, and every
other person's report is exchanged for one that contains it: with r the distance of the two data in
question from that point, R that of the others', in units of sigma,

    delta(epsilon) <= (1/n) E[(Z_1 + ... + Z_n)_+] + (e^epsilon + 1) (n - 1) t,
    Z = a (e^{r U - r^2/2} - e^epsilon e^{-r U - r^2/2}) with probability 1/a, else 0,

U standard normal and t = (1/a) D_a(N(0, 1), N(R, 1)), for every a >= 1. Proved in
docs/theory/permuted-sgd.md, for steps of gradient descent, of which shuffled reports are a special
case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy

from shoal import checks
from shoal.accounting import gaussian, integral
from shoal.accounting.atoms import PairLaw
from shoal.accounting.gaussian import Cells
from shoal.accounting.law import FIXED
from shoal.accounting.profile import Curve
from shoal.accounting.search import Side, crossing, gaussian_guess, least
from shoal.errors import UnreachableTargetError

LOST = 3e-3  # fraction of delta for outputs beyond the last cell
FRACTIONS = (0.1, 0.3, 0.03)  # of delta for the exchange
LEAST_HIDDEN = 2.0  # people whose report is noise and nothing else, on average
_TOLERANCE = 0.06  # of delta: worth 0.3 % of epsilon and less
_WIDTH = 0.2  # of a cell, in deviations of the noise: costs about 0.3 % of epsilon
_DEEPEST = 40.0  # deviations: beyond, nothing has a probability
_HOPELESS = 700.0  # an epsilon that guarantees nothing, and whose exponential is still a float
_WITNESS_WIDTH = 0.25
_WITNESS_TOLERANCE = 0.03
_WITNESS_DEPTH = 9.0
_LEAST_WEIGHT = 1e-300  # below, probabilities have lost digits
_SCALE = 1e-6  # the delta whose level the spread is that of
_DELTAS = tuple(10.0**-power for power in range(2, 16))  # that blankets are made for


@dataclass(frozen=True)
class Blanket:
    """The curve for one a = e^level.

    ``own`` and ``others`` are r and R, ``lost`` is the mass cut off the Gaussians.
    """

    own: float
    others: float
    n: int
    level: float
    lost: float

    @property
    def distance(self) -> float:
        """Total variation between the real steps and those that contain the blanket."""
        return (self.n - 1) * (gaussian.delta(self.others, self.level) * math.exp(-self.level))

    @cached_property
    def pair(self) -> PairLaw:
        """Atoms above the continuous law in convex order, at every epsilon at once.

        In each cell both ratios are spread to their values at its ends with their means kept. Of
        all ways to join the two, the one where they are never large together is the worst.
        """
        mu, a = self.own, math.exp(self.level)
        end = mu - float(scipy.special.ndtri(self.lost))
        cells = Cells.between(-end, end, _WIDTH)
        up, down = cells.ratios(mu), cells.ratios(-mu)
        weight, first = cells.masses(0.0), cells.raised(mu)
        second = np.minimum(cells.raised(-mu), weight - first)
        mass = np.concatenate([first, second, weight - first - second]) / a
        rho0 = a * np.concatenate([up[1:], up[:-1], up[:-1]])
        rho1 = a * np.concatenate([down[1:], down[:-1], down[1:]])
        near, far = float(scipy.special.ndtr(mu - end)), float(scipy.special.ndtr(-mu - end))
        atoms = zip(mass.tolist(), rho0.tolist(), rho1.tolist(), strict=True)
        return PairLaw.of(atoms, lost=[(near, 0.0), (0.0, near), (far, 0.0), (0.0, far)])

    @property
    def spread(self) -> float:
        """About the deviation of the loss."""
        return self.pair.spread(self.n)

    @property
    def smallest_delta(self) -> float:
        """No epsilon has a smaller one."""
        return 2 * self.distance

    def quick_delta(self, epsilon: float) -> float:
        """The certified bound at this epsilon."""
        pure = integral.enclose(self.pair, n=self.n, epsilon=epsilon, tolerance=_TOLERANCE).upper
        return min(1.0, pure + (math.exp(epsilon) + 1) * self.distance)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon proved at this delta; infinite if there is none."""

        def curve(at: float) -> float:
            return math.log(self.quick_delta(at))

        if self.smallest_delta >= delta:
            return math.inf
        target = math.log(delta)
        cap = guess = gaussian_guess(self.spread, target)
        # The exchange alone may cost delta, as is soon seen.
        while cap <= _HOPELESS and (math.exp(cap) + 1) * self.distance < delta:
            if self.quick_delta(cap) <= delta:
                return crossing(curve, target, cap=cap, guess=guess, side=Side.UPPER)
            cap *= 1.4
        return math.inf


def exchange_level(others: float, n: int, cost: float) -> float:
    """The smallest level whose exchange costs this much of delta when epsilon is small."""
    return least(
        lambda level: 2 * (n - 1) * gaussian.delta(others, level) * math.exp(-level) <= cost,
        0.0,
        others * (others / 2 + _DEEPEST),
        steps=60,
    )


def witnessed(
    first: float, second: float, *, n: int, delta: float, above: float, step: float = 0.0
) -> float:
    """What N(first) and N(second) among draws from N(0, 1), seen through cells, give away.

    If that is no more than ``above``, it is ``above``. With a ``step`` draws are rounded to its
    multiples, which the means are: cells are cut half-way between these.
    """
    low, high = min(0.0, first, second) - _WITNESS_DEPTH, max(0.0, first, second) + _WITNESS_DEPTH
    cells = Cells.between(low, high, _WITNESS_WIDTH)
    if step:
        places = np.unique(np.round(cells.edges / step))
        cells = Cells((places + 0.5) * step)
    weights = [cells.masses(mean) for mean in (0.0, first, second)]
    for weight, mean in zip(weights, (0.0, first, second), strict=True):
        below_all, above_all = cells.tails(mean)
        weight[0] += below_all
        weight[-1] += above_all
        np.maximum(weight, _LEAST_WEIGHT, out=weight)  # no output is impossible
    pair = PairLaw.over(*weights)

    enclosed = partial(integral.enclose, pair, n=n, tolerance=_WITNESS_TOLERANCE)

    def log_lower(epsilon: float) -> float:
        return enclosed(epsilon=epsilon).log_lower

    target = math.log(delta)
    if above > 0 and log_lower(above) < target:
        return above
    guess = gaussian_guess(min(pair.spread(n), 1.0), target)
    cap = gaussian.epsilon(abs(first - second), delta)
    reached = crossing(log_lower, target, cap=cap, guess=min(guess, 0.9 * cap), side=Side.LOWER)
    return max(above, reached)


@dataclass(frozen=True)
class BallProfile(Curve):
    """delta(epsilon) of n shuffled Gaussian reports of vectors within a ball, in any dimension.

    ``reach`` is the radius over sigma. The best of a few blankets, which depend on the delta in
    question, and of the Gaussian mechanism, which needs no crowd. ``lost`` is the probability that
    fewer are there than assumed. Where reports are rounded, lower bounds are of vectors that are
    multiples of a ``step``, over sigma, and at most ``attained`` long.
    """

    reach: float
    n: int
    lost: float = 0.0
    attained: float | None = None
    step: float = 0.0

    local_epsilon = math.inf
    theorem = "Gaussian blanket of a ball"
    scope = FIXED

    def _blankets(self, delta: float) -> list[Blanket]:
        """Those whose exchange costs a few fractions of delta, if they hide anybody."""
        if self.n < 2:
            return []
        levels = [exchange_level(self.reach, self.n, part * delta) for part in FRACTIONS]
        return [
            Blanket(self.reach, self.reach, self.n, level, LOST * delta)
            for level in levels
            if self.n * math.exp(-level) >= LEAST_HIDDEN
        ]

    @cached_property
    def _ladder(self) -> list[Blanket]:
        """A blanket for each of a few deltas, falling."""
        return [blanket for delta in _DELTAS for blanket in self._blankets(delta)[:1]]

    def quick_delta(self, epsilon: float) -> float:
        """The bound of the best blanket of the ladder: down it while that is an improvement."""
        best = gaussian.delta(2 * self.reach, epsilon)
        for blanket in self._ladder:
            tried = blanket.quick_delta(epsilon)
            if tried > best and blanket is not self._ladder[0]:
                break
            best = min(best, tried)
        return min(1.0, best + self.lost)

    def _delta(self, epsilon: float) -> float:
        best = self.quick_delta(epsilon)
        for blanket in self._blankets(min(max(best, _DELTAS[-1]), _DELTAS[0])):
            best = min(best, blanket.quick_delta(epsilon) + self.lost)
        return best

    def _epsilon(self, delta: float) -> float:
        left = delta - self.lost
        if left <= 0:
            raise UnreachableTargetError(
                f"delta={delta:g}",
                f"with probability {self.lost:g} fewer people take part than are counted on",
                "ask for a larger delta",
            )
        epsilons = (each.epsilon(left) for each in self._blankets(left))
        return min(gaussian.epsilon(2 * self.reach, left), *epsilons, math.inf)

    @property
    def smallest_delta(self) -> float:
        """No epsilon has a smaller one."""
        return self.lost

    @cached_property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        return min((each.spread for each in self._blankets(_SCALE)), default=2 * self.reach)

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:  # noqa: ARG002
        """What opposite vectors give away, all others at 0 or at one of the two."""
        checks.open_probability(delta=delta)
        r = self.reach if self.attained is None else self.attained
        if self.n == 1 and not self.step:
            return gaussian.epsilon(2 * r, delta, side=Side.LOWER)
        best = 0.0
        for means in ((r, -r), (2 * r, 0.0), (0.0, 2 * r)):
            best = witnessed(*means, n=self.n, delta=delta, above=best, step=self.step)
        return best

"""Very many adaptive steps composed at once, certified, at a cost free of their number.

Let every step be dominated by one pair (P, Q) with atoms: privacy loss l_i = log P/Q with
P-probability p_i, an infinite loss with probability p_inf, and otherwise no loss. With
M(s) = E_P[e^{s l}] over finite losses, k steps have, for every theta > 0,

    delta(epsilon) <= k p_inf + (1/2 pi) int M(s)^k e^{-s epsilon} / (s (s + 1)) dt

with s = theta + it. As in :mod:`shoal.accounting.integral` four steps make a certificate of the
trapezoid sum. One more step, a Gaussian mechanism of tiny mu = eta, can only add to delta and
multiplies the integrand by e^{eta^2 s (s + 1)/2}, which truncates it; aliases are positive; the
tail of the sum is bounded and added; so is floating-point error, which grows like k 2^-53.
docs/theory/permuted-sgd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from shoal.accounting.atoms import Array
from shoal.accounting.profile import convex_minorant
from shoal.accounting.search import Side, crossing
from shoal.errors import UnreachableTargetError

_UNIT = 2.0**-53
_SMOOTHING = 0.05  # deviation of the added step, in deviations of the tilted loss
_DECAY = 36.0  # the sum stops where its terms are below e^-36
_WIDTHS = 8.0  # deviations of the tilted loss between aliases
_ALIAS = 9.0  # log of how much smaller than delta the alias at smaller epsilon is
_MOST_NODES = 6_000
_ATTEMPTS = 4
_SETTLED = 0.05
_CHUNK = 400_000
_PER_SPREAD = 6  # samples of a curve to a deviation of its loss
_FINE, _STRETCH = 36, 1.08  # so many at that distance, then farther and farther apart
_FINEST = 1e-10  # between samples: the slopes of a curve in closer ones are those of rounding
_FARTHEST = 60.0
_ORDERS = (-12.0, 18.0)  # log theta
_INFINITE = 1e100


@dataclass(frozen=True, eq=False)
class StepLaw:
    """Atoms of the privacy loss of one step: finite losses, their masses, an infinite one."""

    losses: Array
    masses: Array
    infinite: float = 0.0

    @classmethod
    def of(cls, losses: Array, masses: Array, *, infinite: float = 0.0) -> StepLaw:
        """Without the atoms that have no mass."""
        return cls(losses[masses > 0], masses[masses > 0], infinite)

    @classmethod
    def of_curve(cls, x: Array, divergences: Array) -> StepLaw:
        """The pair whose curve is the largest convex function below these certified points.

        ``x`` ascends to the end of the curve; below 1 it is reflected, so both orders must be
        covered. Chords of a convex curve are above it: connecting the dots is pessimistic.
        """
        below = 1 / x[:0:-1]
        both = np.concatenate([[0.0], below, x])
        mirrored = 1 - below + below * divergences[:0:-1]
        dots = np.concatenate([[1.0], mirrored, divergences])
        convex = convex_minorant(both, np.minimum(dots, 1.0))
        slopes = np.append(np.diff(convex) / np.diff(both), 0.0)
        weights = np.maximum(np.diff(slopes), 0.0) * both[1:]  # under P
        finite = both[1:] != 1.0
        return cls.of(np.log(both[1:][finite]), weights[finite], infinite=float(convex[-1]))

    @classmethod
    def sampled(cls, curve: Callable[[float], float], *, spread: float, end: float) -> StepLaw:
        """The same from a certified curve delta(epsilon), up to where it is ``end`` or rises.

        ``spread`` is about the deviation of its loss. What is left of delta where the samples stop
        is the mass of an infinite loss.
        """
        epsilons, deltas = [0.0], [curve(0.0)]
        width = max(spread / _PER_SPREAD, _FINEST)  # farther apart is only more pessimistic
        while deltas[-1] > end and epsilons[-1] < _FARTHEST:
            if len(deltas) > _FINE:
                width *= _STRETCH
            epsilons.append(epsilons[-1] + width)
            deltas.append(min(curve(epsilons[-1]), deltas[-1]))
            if deltas[-1] == deltas[-2]:
                break
        return cls.of_curve(np.exp(epsilons), np.array(deltas))

    def log_moment(self, theta: float) -> float:
        """log E_P[e^{theta l}], accurate near 0."""
        with np.errstate(over="ignore"):
            growth = float(self.masses @ np.expm1(theta * self.losses))
        return math.log1p(growth) if growth < math.inf else math.inf


def epsilon(law: StepLaw, steps: int, delta: float) -> float:
    """The smallest epsilon proved at this delta for so many steps."""
    target = delta - steps * law.infinite
    if target <= 0:
        raise UnreachableTargetError(
            f"delta={delta:g}",
            f"outputs that give one example away have probability {steps * law.infinite:.3g}",
            "ask for a larger delta, or for fewer steps",
        )
    if not law.losses.size:  # nothing but the infinite loss, which delta has room for
        return 0.0
    best, theta = _chernoff(law, steps, target)
    for _ in range(_ATTEMPTS):
        line = _Line.through(law, steps, theta, target)
        found = _solved(line, target, best)
        moved = abs(found - best) > _SETTLED * best
        best = min(best, found)
        theta = _saddle(law, steps, best)
        if not moved:
            break
    return best


def delta(law: StepLaw, steps: int, epsilon_: float) -> float:
    """The smallest delta proved at this epsilon for so many steps."""
    if not law.losses.size:
        return min(1.0, steps * law.infinite)
    theta = _saddle(law, steps, epsilon_)
    guess = math.exp(max(-700.0, min(0.0, steps * law.log_moment(theta) - theta * epsilon_)))
    line = _Line.through(law, steps, theta, guess)
    return min(1.0, math.exp(min(0.0, line.log_upper(epsilon_))) + steps * law.infinite)


def _chernoff(law: StepLaw, steps: int, delta_: float) -> tuple[float, float]:
    """epsilon by the best single moment, and its order.

    (1 - e^(epsilon - l))_+ <= e^(theta (l - epsilon)) theta^theta/(1 + theta)^(1 + theta).
    """

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        peak = theta * math.log(theta) - (1 + theta) * math.log1p(theta)
        return (steps * law.log_moment(theta) + peak - math.log(delta_)) / theta

    found = _lowest(bound)
    return max(0.0, bound(found)), math.exp(found)


def _saddle(law: StepLaw, steps: int, epsilon_: float) -> float:
    def exponent(log_theta: float) -> float:
        theta = math.exp(log_theta)
        peak = math.log(theta) + math.log1p(theta)
        return steps * law.log_moment(theta) - theta * epsilon_ - peak

    return math.exp(_lowest(exponent))


def _lowest(function: Callable[[float], float]) -> float:
    """Where a function of log theta is smallest: on a coarse grid, then between its neighbours."""
    grid = np.linspace(*_ORDERS, 121).tolist()
    best = min(range(len(grid)), key=lambda i: function(grid[i]))
    ends = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    # SciPy takes differences of values, and moments of large losses may be infinite.
    found = optimize.minimize_scalar(
        lambda at: min(function(at), _INFINITE), bounds=ends, method="bounded"
    )
    return float(found.x)


def _solved(line: _Line, target: float, guess: float) -> float:
    cap = max(guess, 1e-12)
    while line.log_upper(cap) > math.log(target):
        cap *= 1.5
    return crossing(line.log_upper, math.log(target), cap=cap, guess=0.97 * guess, side=Side.UPPER)


@dataclass(frozen=True, eq=False)
class _Line:
    """The integrand on Re s = theta at its nodes, for every epsilon at once."""

    theta: float
    step: float
    log_peak: float
    sizes: Array  # |integrand| e^{theta epsilon} / peak, halved at the first node
    angles: Array  # its argument at epsilon = 0
    extra: float  # tail and rounding, relative to the peak
    doubt: float  # of the logarithm of the peak

    @classmethod
    def through(cls, law: StepLaw, steps: int, theta: float, delta_: float) -> _Line:
        """Nodes dense enough for aliases to be negligible at about this delta, and far enough."""
        log_moment = law.log_moment(theta)
        tilted = law.masses * np.exp(theta * law.losses - log_moment)
        mean = float(tilted @ law.losses)
        spread = math.sqrt(max(steps * (float(tilted @ law.losses**2) - mean**2), 1e-300))
        period = max(_WIDTHS * spread, (_ALIAS - math.log(delta_)) / theta)
        step, reach = 2 * math.pi / period, math.sqrt(2 * _DECAY)
        eta = max(_SMOOTHING * min(spread, 1 / theta), reach / (_MOST_NODES * step))
        last = reach / eta
        t = step * np.arange(math.ceil(last / step) + 1, dtype=np.float64)
        log_size, angle = _power(law, tilted, steps, t)
        log_size = log_size - (eta * t) ** 2 / 2
        angle = angle + eta**2 * (2 * theta + 1) * t / 2
        s = theta + 1j * t
        scale = s * (s + 1)
        size = np.exp(log_size) / np.abs(scale)
        size[0] /= 2
        drift = law.losses.size * steps * float(tilted @ np.abs(law.losses))
        noise = float((size * _UNIT * (16 * drift * t + 64)).sum()) * step / math.pi
        curvature = (eta * t[-1]) ** 2
        tail = math.exp(-curvature / 2) / (math.pi * t[-1]) * min(1.0, 1 / curvature)
        growth = float(law.masses @ np.abs(np.expm1(theta * law.losses))) * math.exp(-log_moment)
        doubt = 8 * _UNIT * steps * law.losses.size * (growth + theta * drift / steps)
        return cls(
            theta,
            step,
            steps * log_moment + eta**2 * theta * (theta + 1) / 2,
            size,
            angle - np.angle(scale),
            noise + tail,
            doubt,
        )

    def log_upper(self, epsilon_: float) -> float:
        """log of an upper bound of delta at this epsilon, without the infinite losses."""
        t = self.step * np.arange(self.sizes.size)
        total = float(self.sizes @ np.cos(self.angles - t * epsilon_)) * self.step / math.pi
        rounding = (abs(self.log_peak) + self.theta * abs(epsilon_)) * 4 * _UNIT + self.doubt
        exponent = self.log_peak - self.theta * epsilon_ + rounding
        return exponent + math.log(max(total + self.extra, 1e-300))


def _power(law: StepLaw, tilted: Array, steps: int, t: Array) -> tuple[Array, Array]:
    """log |psi^k| and arg psi^k for psi = M(theta + it)/M(theta) = 1 + sum p (e^{itl} - 1)."""
    log_size, angle = np.empty(t.size), np.empty(t.size)
    rows = max(1, _CHUNK // law.losses.size)
    for start in range(0, t.size, rows):
        part = slice(start, start + rows)
        half = np.outer(t[part] / 2, law.losses)
        sine = np.sin(half)
        real, imaginary = -2 * sine**2 @ tilted, 2 * (sine * np.cos(half)) @ tilted
        square = np.maximum(2 * real + real**2 + imaginary**2, -1 + _UNIT)
        log_size[part] = steps / 2 * np.log1p(square)
        angle[part] = steps * np.arctan2(imaginary, 1 + real)
    return log_size, angle

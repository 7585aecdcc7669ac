"""The privacy loss of one step, and of very many composed at once, at a cost free of their number.

Let every step be dominated by one pair (P, Q) with atoms: privacy loss l_i = log P/Q with
P-probability p_i, an infinite loss with probability p_inf, and otherwise no loss. With
M(s) = E_P[e^{s l}] over finite losses, k adaptive steps have, for every theta > 0,

    delta(epsilon) <= k p_inf + (1/2 pi) int M(s)^k e^{-s epsilon} / (s (s + 1)) dt

with s = theta + it. As in :mod:`shoal.accounting.integral` four steps make a certificate of the
trapezoid sum. One more step, a Gaussian mechanism of tiny mu = eta, can only add to delta and
multiplies the integrand by e^{eta^2 s (s + 1)/2}, which truncates it; aliases are positive; the
tail of the sum is bounded and added; so is floating-point error, which grows like k 2^-53.
docs/theory/permuted-sgd.md.

Steps may draw their examples anew. *With replacement*: each step draws ``batch`` of the n examples,
uniformly and independently of other steps (distinct ones within a step). With q = batch/n,
replace-one and mu = 2/noise, one step has the curve

    D_{1 + q (y - 1)} <= q D_y(N(0, 1), N(mu, 1)),   y >= 1

(Balle, Barthe, Gaboardi, "Privacy Amplification by Subsampling", NeurIPS 2018, arXiv 1807.01647,
Theorem 11). *Poisson*: each example takes part with probability q, independently. Adding or
removing one example, mu = 1/noise, the pair (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1) dominates
a step, in both orders (Zhu, Dong, Wang, AISTATS 2022, arXiv 2106.08567, Theorem 11). Replacing one,
the pair (1 - q) N(0, 1) + q N(mu, 1) against (1 - q) N(0, 1) + q N(-mu, 1) does (proved in
docs/theory/permuted-sgd.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy import optimize, special

from shoal.accounting import gaussian
from shoal.accounting.atoms import Array
from shoal.accounting.compose import advanced
from shoal.accounting.gaussian import Cells
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
_WIDTH = 0.05  # of a cell: costs about 2e-4 of epsilon
_LOST = 1e-5  # fraction of delta for outputs beyond the last cell
_DEEPEST = 37.0  # deviations out
_SMALLEST = 1e-290
_LARGEST_MU = 15.0  # with more, ratios are too large for floats and sampling saves nobody
_MOST_CELLS = 1_500
_ROUNDING = 1e-13  # of the mass of a cell: what differences of Phi may lose
_LARGE = 30.0
_LARGEST_TAIL = 0.15  # so that cells reach at least one deviation out
_EXPONENTS = tuple(0.25 * i for i in range(2, 57))


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
    def sampled(cls, curve: Callable[[float], float], *, spread: float, end: float) -> StepLaw:
        """The pair whose curve is the largest convex function below samples of a certified one.

        They go up to where delta(epsilon) is ``end`` or rises; ``spread`` is about the deviation of
        the loss. Below 0 the curve is reflected, so both orders must be covered. Chords of a convex
        curve are above it: connecting the dots is pessimistic. What is left of delta where the
        samples stop is the mass of an infinite loss.
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
        above, divergences = np.exp(epsilons), np.array(deltas)
        below = 1 / above[:0:-1]
        x = np.concatenate([[0.0], below, above])
        mirrored = 1 - below + below * divergences[:0:-1]
        dots = np.concatenate([[1.0], mirrored, divergences])
        convex = convex_minorant(x, np.minimum(dots, 1.0))
        slopes = np.append(np.diff(convex) / np.diff(x), 0.0)
        weights = np.maximum(np.diff(slopes), 0.0) * x[1:]  # under P
        finite = x[1:] != 1.0
        return cls.of(np.log(x[1:][finite]), weights[finite], infinite=float(convex[-1]))

    def log_moment(self, theta: float) -> float:
        """log E_P[e^{theta l}], accurate near 0."""
        with np.errstate(over="ignore"):
            growth = float(self.masses @ np.expm1(theta * self.losses))
        return math.log1p(growth) if growth < math.inf else math.inf


Laws: TypeAlias = tuple[StepLaw, ...]


def composed_epsilon(law: StepLaw, steps: int, delta: float) -> float:
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
        log_upper = certificate(law, steps, theta, target)
        cap = max(best, 1e-12)
        while log_upper(cap) > math.log(target):
            cap *= 1.5
        reached = crossing(log_upper, math.log(target), cap=cap, guess=0.97 * best, side=Side.UPPER)
        settled = abs(reached - best) <= _SETTLED * best
        best = min(best, reached)
        theta = saddle(law, steps, best)
        if settled:
            break
    return best


def _chernoff(law: StepLaw, steps: int, delta_: float) -> tuple[float, float]:
    """epsilon by the best single moment, and its order.

    (1 - e^(epsilon - l))_+ <= e^(theta (l - epsilon)) theta^theta/(1 + theta)^(1 + theta).
    """

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        peak = theta * math.log(theta) - (1 + theta) * math.log1p(theta)
        return (steps * law.log_moment(theta) + peak - math.log(delta_)) / theta

    lowest = _lowest(bound)
    return max(0.0, bound(lowest)), math.exp(lowest)


def saddle(law: StepLaw, steps: int, epsilon: float) -> float:
    """The theta on whose line the integral for this epsilon is easiest."""

    def exponent(log_theta: float) -> float:
        theta = math.exp(log_theta)
        peak = math.log(theta) + math.log1p(theta)
        return steps * law.log_moment(theta) - theta * epsilon - peak

    return math.exp(_lowest(exponent))


def _lowest(function: Callable[[float], float]) -> float:
    """Where a function of log theta is smallest: on a coarse grid, then between its neighbours."""
    grid = np.linspace(*_ORDERS, 121).tolist()
    best = min(range(len(grid)), key=lambda i: function(grid[i]))
    ends = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    # SciPy takes differences of values, and moments of large losses may be infinite.
    lowest = optimize.minimize_scalar(
        lambda at: min(function(at), _INFINITE), bounds=ends, method="bounded"
    )
    return float(lowest.x)


def certificate(law: StepLaw, steps: int, theta: float, delta: float) -> Callable[[float], float]:
    """log of an upper bound of delta, infinite losses aside, as a function of epsilon.

    The integrand on Re s = theta is computed once for every epsilon, at nodes that are dense enough
    for aliases to be negligible at about this delta, and go far enough.
    """
    log_moment = law.log_moment(theta)
    tilted = law.masses * np.exp(theta * law.losses - log_moment)
    mean = float(tilted @ law.losses)
    spread = math.sqrt(max(steps * (float(tilted @ law.losses**2) - mean**2), 1e-300))
    period = max(_WIDTHS * spread, (_ALIAS - math.log(delta)) / theta)
    step, reach = 2 * math.pi / period, math.sqrt(2 * _DECAY)
    eta = max(_SMOOTHING * min(spread, 1 / theta), reach / (_MOST_NODES * step))
    t = step * np.arange(math.ceil(reach / eta / step) + 1, dtype=np.float64)
    log_size, angle = _power(law, tilted, steps, t)
    log_size = log_size - (eta * t) ** 2 / 2
    angle = angle + eta**2 * (2 * theta + 1) * t / 2
    s = theta + 1j * t
    scale = s * (s + 1)
    size = np.exp(log_size) / np.abs(scale)  # |integrand| e^{theta epsilon} / peak
    size[0] /= 2
    drift = law.losses.size * steps * float(tilted @ np.abs(law.losses))
    rounding = float((size * _UNIT * (16 * drift * t + 64)).sum()) * step / math.pi
    curvature = (eta * t[-1]) ** 2
    tail = math.exp(-curvature / 2) / (math.pi * t[-1]) * min(1.0, 1 / curvature)
    growth = float(law.masses @ np.abs(np.expm1(theta * law.losses))) * math.exp(-log_moment)
    doubt = 8 * _UNIT * steps * law.losses.size * (growth + theta * drift / steps)
    log_peak = steps * log_moment + eta**2 * theta * (theta + 1) / 2
    angles = angle - np.angle(scale)

    def log_upper(epsilon: float) -> float:
        total = float(size @ np.cos(angles - t * epsilon)) * step / math.pi
        error = (abs(log_peak) + theta * abs(epsilon)) * 4 * _UNIT + doubt
        exponent = log_peak - theta * epsilon + error
        return exponent + math.log(max(total + (rounding + tail), 1e-300))

    return log_upper


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


@lru_cache(maxsize=256)
def sampled_epsilon(
    sampling: Callable[..., Laws], moved: int, noise: float, rate: float, steps: int, delta: float
) -> float:
    """epsilon of all steps that draw their examples anew; never above no sampling.

    ``sampling`` gives the laws of a step, of which the worst counts: :func:`replacement_laws`,
    :func:`poisson_laws` or :func:`poisson_replaced_laws`. ``moved`` is how far one example moves
    the sum of a batch, in clipping norms.
    """
    mu = moved / noise  # what one step without sampling shows
    most = gaussian.epsilon(mu * math.sqrt(steps), delta)
    if rate >= 1 or mu > _LARGEST_MU:
        return most
    # The divergence, before sampling, of outputs that may be cut off a step.
    laws = sampling(noise=noise, rate=rate, beyond=_LOST * delta / (steps * rate))
    return min(most, max(composed_epsilon(law, steps, delta) for law in laws))


def published_epsilon(noise: float, rate: float, steps: int, delta: float) -> float:
    """Subsampling of one (eps0, delta0), then advanced composition; the best delta0.

    The analysis of Bassily, Smith, Thakurta, "Private Empirical Risk Minimization", FOCS 2014,
    arXiv 1405.7085, with exact constants: the analytic Gaussian mechanism for a step, and the
    composition of Kairouz, Oh, Viswanath 2015, arXiv 1311.0776, Theorem 3.5.
    """
    best = math.inf
    for exponent in _EXPONENTS:
        fraction = 10.0**-exponent  # of delta, for the deltas of the steps
        step_delta = min(0.5, fraction * delta / (rate * steps))
        local = gaussian.epsilon(2 / noise, step_delta)
        # log(1 + q (e^local - 1)), also where it is tiny or e^local too large for a float.
        each = math.log1p(rate * math.expm1(min(local, _LARGE)))
        if local >= _LARGE:
            each = local + math.log(rate + (1 - rate) * math.exp(-local))
        best = min(best, advanced([(each, steps)], slack=(1 - fraction) * delta))
    return best


def replacement_laws(*, noise: float, rate: float, beyond: float) -> Laws:
    """The loss of one step with replacement when an example is replaced.

    ``beyond`` is the divergence of what is cut off.
    """
    mu = 2 / noise
    cells = _cut(mu / 2, mu + _depth(mu, beyond), mu)
    ratios, masses, infinite = _split(cells, mu)
    growth = rate * (ratios - 1)
    growth[0] = 0.0  # the first cut is where both Gaussians are alike
    return _mirrored(growth, masses, infinite=rate * infinite)


def poisson_laws(*, noise: float, rate: float, beyond: float) -> Laws:
    """The loss of one Poisson-sampled step when an example is removed, and when it is added."""
    mu = 1 / noise
    low = float(special.ndtri(max(beyond * rate, _SMALLEST)))
    cells = _cut(low, mu + _depth(mu, beyond), mu)
    ratios, masses, infinite = _split(cells, mu)
    # Below the first cut the ratio lies between 0 and its value there.
    (below, _), (below_shifted, _) = cells.tails(0.0), cells.tails(mu)
    raised = min(below, below_shifted / float(ratios[0]))
    masses[0] += raised
    growth = rate * (ratios - 1)
    losses = np.log1p(growth)
    left = (below - raised) * (1 - rate)  # where the ratio is as small as it can be
    removed = StepLaw.of(
        np.append(math.log1p(-rate), losses),
        np.append(left, masses * (1 + growth)),
        infinite=rate * infinite,
    )
    return removed, StepLaw.of(-losses, masses, infinite=below - raised)


def poisson_replaced_laws(*, noise: float, rate: float, beyond: float) -> Laws:
    """The loss of one Poisson-sampled step when an example is replaced by its opposite.

    The pair is its own mirror image, so cells from 0 on are enough and both orders have one law.
    In each cell the ratio of the two mixtures is spread to its ends with both masses kept. Of what
    lies beyond the last cell, the second mixture's mass is given the ratio at the last cut.
    """
    mu = 1 / noise
    tail = min(max(beyond, _SMALLEST), _LARGEST_TAIL)
    cells = _cut(0.0, mu - float(special.ndtri(tail)), 2 * mu)
    apart = 2 * math.exp(-(mu**2) / 2) * np.sinh(mu * cells.edges)  # ratios of the two Gaussians
    excess = rate * apart / (1 + rate * (cells.ratios(-mu) - 1))  # of the mixtures' ratio, over 1
    alone, near, far = cells.masses(0.0), cells.masses(mu), cells.masses(-mu)
    weights = (1 - rate) * alone + rate * far
    gained = rate * (near - far) - excess[:-1] * weights + _ROUNDING * rate * (near + far)
    raised = np.clip(gained / np.diff(excess), 0.0, weights)
    masses = np.append(weights - raised, 0.0) + np.append(0.0, raised)
    (_, above), (_, above_near), (_, above_far) = map(cells.tails, (0.0, mu, -mu))
    masses[-1] += (1 - rate) * above + rate * above_far
    return _mirrored(excess, masses, infinite=rate * above_near)


def _mirrored(growth: Array, masses: Array, *, infinite: float) -> Laws:
    """The law of a pair that is its own mirror image, from the ratios over 1 on one side of it."""
    losses = np.log1p(growth)[1:]
    both = np.concatenate([masses[1:] * (1 + growth[1:]), masses[1:]])
    return (StepLaw.of(np.concatenate([losses, -losses]), both, infinite=infinite),)


def _cut(low: float, high: float, mu: float) -> Cells:
    width = max(_WIDTH * min(1.0, 1 / mu), (high - low) / _MOST_CELLS)
    return Cells.between(low, high, width)


def _depth(mu: float, beyond: float) -> float:
    """How many deviations out N(mu, 1) may be cut off at the price of ``beyond``."""
    if beyond >= 0.5:
        return 1.0 + mu
    at = gaussian.epsilon(mu, max(beyond, _SMALLEST), side=Side.UPPER)
    return min(max(1.0, at / mu - mu / 2), _DEEPEST)


def _split(cells: Cells, mu: float) -> tuple[Array, Array, float]:
    """Ratios at the cuts and the N(0, 1)-mass each gets; what is left of N(mu, 1) at the end."""
    ratios, weights, raised = cells.ratios(mu), cells.masses(0.0), cells.raised(mu)
    masses = np.append(weights - raised, 0.0) + np.append(0.0, raised)
    (_, above), (_, above_shifted) = cells.tails(0.0), cells.tails(mu)
    masses[-1] += above
    return ratios, masses, max(0.0, above_shifted - float(ratios[-1]) * above)

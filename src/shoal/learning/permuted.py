"""One pass over a random permutation, and several: every route to its epsilon.

An epoch cuts a uniformly random order of the examples into blocks of ``batch`` and takes one noisy
step on each (Feldman, McMillan, Talwar, "Hiding Among the Clones", FOCS 2021, arXiv 2012.12803,
Algorithm 2). Given which examples share a block, the order of the blocks is uniform: n is the
number of blocks. Other blocks have to be able to stand in for one another, so amplification counts
on the *whole* block: its sum lies in a ball of radius ``batch`` (in clipping norms), and the noise
has to hide 2 batch (replacement) or batch (deletion), not the 2 that one example can move it. All
routes are upper bounds for replacing one example and for releasing every iterate. The Gaussian
blanket needs the whole block only to hide among others; what it hides is the 2 of one example.

*The Gaussian blanket* is sharper than the (eps0, delta0) of the steps. Each step shows N(g, 1) (in
units of the noise). Suppose that, whatever the past, some point is within r of both sums that one
block may have and within R of the sums of all other blocks. For any a >= 1, n steps on randomly
permuted blocks satisfy, both orders, adaptively,

    delta(epsilon) <= (1/n) E[(Z_1 + ... + Z_n)_+] + (e^epsilon + 1) (n - 1) t,
    Z = a (e^{r U - r^2/2} - e^epsilon e^{-r U - r^2/2}) with probability 1/a, else 0,

with U standard normal and t = (1/a) D_a(N(0, 1), N(R, 1)). Proved in docs/theory/permuted-sgd.md:
the noise around that point, over a, is the blanket; everybody else's step is exchanged for one
that contains it, at total variation t; opposite sums at full distance are the worst pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy

from shoal.accounting import gaussian, integral
from shoal.accounting.approximate import ApproximateProfile, optimal_distance
from shoal.accounting.atoms import PairLaw
from shoal.accounting.devices import Crowd, Devices, Profile
from shoal.accounting.gaussian import Cells
from shoal.accounting.search import Side, crossing, gaussian_guess, largest, least
from shoal.errors import UnreachableTargetError
from shoal.learning.run import Run
from shoal.learning.steps import StepLaw, composed_epsilon

FIXED = "Gaussian mechanism, no amplification"
BLANKET = "Gaussian blanket"
DELETION = "deletion clones"
CLONES = "optimal clones"

_FRACTIONS = (0.1, 0.3, 0.03, 0.01)  # of delta for the exchange
_BLANKET_FRACTIONS = (0.1, 0.3, 0.03)
_LEAST_HIDDEN = 2.0  # people whose step is noise and nothing else, on average
_NEGLIGIBLE = 1e-3  # of delta: where a curve that is composed may end
_TOLERANCE = 0.06  # of delta: worth 0.3 % of epsilon and less
_WIDTH = 0.2  # of a cell, in deviations of the noise: costs about 0.3 % of epsilon
_LOST = 3e-3  # fraction of delta for outputs beyond the last cell
_DEEPEST = 40.0  # deviations: beyond, nothing has a probability
_HOPELESS = 700.0  # an epsilon that guarantees nothing, and whose exponential is still a float
_TELLING = 3.0  # deviations of the loss: epsilon is larger at any delta of interest
_SMALLEST = 1e-280
_WITNESS_WIDTH = 0.25
_WITNESS_TOLERANCE = 0.03
_WITNESS_DEPTH = 9.0
_LINES = 2_000
_ROUNDING = 1e-9


def fixed_epsilon(noise: float, epochs: int, delta: float) -> float:
    """No amplification: an example is used once an epoch, in whatever order.

    Until its step nothing depends on it; its step is a Gaussian mechanism with mu = 2/noise, and
    what follows is post-processing. T epochs are the Gaussian mechanism with mu = 2 sqrt(T)/noise.
    """
    return gaussian.epsilon(2 * math.sqrt(epochs) / noise, delta)


@dataclass(frozen=True)
class Blanket:
    """The curve of one epoch for one a = e^level.

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


def distances(run: Run) -> list[tuple[float, float]]:
    """r and R from points between 0 and the middle of the two sums that one block may have.

    The middle is within ``reach`` of 0, each of the two sums within 1/noise of it.
    """
    between = (0.0, 0.5, 1.0) if run.batch > 1 else (0.0,)
    return [
        (min(run.reach, 1 / run.noise + (1 - part) * run.reach), (1 + part) * run.reach)
        for part in between
    ]


def blanket_epsilon(run: Run) -> float:
    """The Gaussian blanket; infinite where every level that leaves some of delta hides nobody."""

    def blankets() -> Iterator[Blanket]:
        for own, others in distances(run):
            for fraction in _BLANKET_FRACTIONS:
                level = _level(others, run.blocks, fraction * run.each)
                if run.blocks * math.exp(-level) >= _LEAST_HIDDEN:
                    yield Blanket(own, others, run.blocks, level, _LOST * run.each)

    if run.blocks < 2:
        return math.inf
    return _best(run, blankets(), margin=1.5)


def deletion_epsilon(run: Run) -> float:
    """Every step is deletion (eps, delta0)-DP with reference N(0, noise^2): FMT21, Lemma 3.7."""

    def exchanged(cost: float) -> tuple[float, Devices]:
        local_delta = max(cost / (2 * run.blocks), _SMALLEST)
        local = gaussian.epsilon(run.reach, local_delta)
        return local, Devices(deletion_epsilon=local, local_delta=local_delta)

    return _best_profile(run, exchanged)


def clones_epsilon(run: Run) -> float:
    """Every step is replacement (eps0, delta0)-DP: FMT21, Theorem 3.8, with optimal clones too."""

    def exchanged(cost: float) -> tuple[float, Devices]:
        """The largest local delta whose exchange costs at most this much of delta."""

        def affordable(log_delta: float) -> bool:
            local = gaussian.epsilon(2 * run.reach, math.exp(log_delta))
            moved = optimal_distance(
                local_epsilon=min(local, 700.0), local_delta=math.exp(log_delta), n=run.blocks
            )
            return 2 * moved <= cost

        local_delta = math.exp(largest(affordable, math.log(_SMALLEST), 0.0, steps=40))
        local = gaussian.epsilon(2 * run.reach, local_delta)
        return local, Devices(local_epsilon=local, local_delta=local_delta)

    return _best_profile(run, exchanged)


ROUTES: dict[str, Callable[[Run], float]] = {
    BLANKET: blanket_epsilon,
    DELETION: deletion_epsilon,
    CLONES: clones_epsilon,
}


def why_none(run: Run) -> str:
    """Why a route through other blocks has no epsilon: what is hidden among is whole blocks."""
    if run.blocks == 1:
        return f"there is no other {'batch' if run.batch > 1 else 'example'} to hide among"
    if run.batch == 1:
        return "too few other steps could look like one of them"
    return "too few other batches could have the sum of one of them"


def lower_epsilon(run: Run) -> float:
    """What one epoch of explicit data really gives away: no analysis goes below.

    All other blocks have one and the same sum. Near by, the divergence of one epoch is known
    exactly (docs/theory/lower-bounds.md), and outputs are cut into cells, which can only hide
    something. As far away as can be, it is enough to ask whether any output is beyond a line.
    """
    unit = 1 / run.noise
    if run.blocks == 1:
        return gaussian.epsilon(2 * unit, run.delta, side=Side.LOWER)
    lower = _alone(run)
    for means in ((unit, -unit), (2 * unit, 0.0), (0.0, 2 * unit)):
        lower = _witnessed(*means, run, above=lower)
    return lower


def _alone(run: Run) -> float:
    """The others' sums are as far as they can be from those of the block in question.

    "Some output is beyond t" has probability at least Phi(far - t) on one data set and at most
    Phi(far - 2 unit - t) + others Phi(-t) on the other.
    """
    lines = np.linspace(0.0, 2 * run.reach + _WITNESS_DEPTH, _LINES)
    first = scipy.special.ndtr(2 * run.reach - lines) * (1 - _ROUNDING) - run.delta
    second = scipy.special.ndtr(2 * run.reach - 2 / run.noise - lines)
    second = (second + (run.blocks - 1) * scipy.special.ndtr(-lines)) * (1 + _ROUNDING)
    telling = (first > 0) & (second > 0)
    losses = np.log(first[telling] / second[telling])
    return max(0.0, float(losses.max(initial=0.0)))


def _witnessed(first: float, second: float, run: Run, *, above: float) -> float:
    """What N(first) and N(second) among draws from N(0, 1), seen through cells, give away.

    If that is no more than ``above``, it is ``above``.
    """
    low, high = min(0.0, first, second) - _WITNESS_DEPTH, max(0.0, first, second) + _WITNESS_DEPTH
    cells = Cells.between(low, high, _WITNESS_WIDTH)
    weights = [cells.masses(mean) for mean in (0.0, first, second)]
    for weight, mean in zip(weights, (0.0, first, second), strict=True):
        below_all, above_all = cells.tails(mean)
        weight[0] += below_all
        weight[-1] += above_all
    pair = PairLaw.over(*weights)

    enclosed = partial(integral.enclose, pair, n=run.blocks, tolerance=_WITNESS_TOLERANCE)

    def log_lower(epsilon: float) -> float:
        return enclosed(epsilon=epsilon).log_lower

    target = math.log(run.delta)
    if above > 0 and log_lower(above) < target:
        return above
    guess = gaussian_guess(min(pair.spread(run.blocks), 1.0), target)
    cap = gaussian.epsilon(2 / run.noise, run.delta)
    reached = crossing(log_lower, target, cap=cap, guess=min(guess, 0.9 * cap), side=Side.LOWER)
    return max(above, reached)


def _best_profile(run: Run, exchanged: Callable[[float], tuple[float, Devices]]) -> float:
    """The best of a few fractions of delta for the exchange."""
    most = fixed_epsilon(run.noise, run.epochs, run.delta)

    def profiles() -> Iterator[Profile]:
        for fraction in _FRACTIONS:
            local, devices = exchanged(fraction * run.each)
            if run.blocks * math.exp(-local) >= _LEAST_HIDDEN:
                profile = devices.profile(Crowd(run.blocks))
                # Otherwise it could not win, and a law with such jumps takes long.
                if _TELLING * profile.spread * math.sqrt(run.epochs) <= most:
                    yield profile

    return _best(run, profiles(), margin=1 + 1e-2)


def _best(run: Run, curves: Iterator[Blanket | Profile], *, margin: float) -> float:
    """The smallest epsilon of one of these curves; epochs are composed, each with its own order.

    A curve that is composed ends at the latest at this multiple of its smallest delta.
    """
    once, chosen = math.inf, None
    for curve in curves:
        if math.isinf(once) or _at(curve, once) < run.each:
            with suppress(UnreachableTargetError):
                here = curve.epsilon(run.each)
                once, chosen = (here, curve) if here < once else (once, chosen)
    if run.epochs == 1 or chosen is None:
        return once
    end = max(_NEGLIGIBLE * run.each, margin * chosen.smallest_delta)
    law = StepLaw.sampled(chosen.quick_delta, spread=chosen.spread, end=end)
    if run.epochs * law.infinite >= run.delta:
        return math.inf
    return composed_epsilon(law, run.epochs, run.delta)


def _at(curve: Blanket | Profile, epsilon: float) -> float:
    """delta at this epsilon, without looking for a better one at a smaller epsilon."""
    if isinstance(curve, ApproximateProfile):
        return min(exchange.delta(epsilon) for exchange in curve.exchanges)
    return curve.quick_delta(epsilon)


def _level(others: float, n: int, cost: float) -> float:
    """The smallest level whose exchange costs this much of delta when epsilon is small."""
    return least(
        lambda level: 2 * (n - 1) * gaussian.delta(others, level) * math.exp(-level) <= cost,
        0.0,
        others * (others / 2 + _DEEPEST),
        steps=60,
    )

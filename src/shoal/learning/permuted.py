"""One pass over a random permutation, and several: every route to its epsilon.

An epoch cuts a uniformly random order of the examples into blocks of ``batch`` and takes one noisy
step on each (Feldman, McMillan, Talwar, "Hiding Among the Clones", FOCS 2021, arXiv 2012.12803,
Algorithm 2). Given which examples share a block, the order of the blocks is uniform: n is the
number of blocks. Other blocks have to be able to stand in for one another, so amplification counts
on the *whole* block: its sum lies in a ball of radius ``batch`` (in clipping norms), and the noise
has to hide 2 batch (replacement) or batch (deletion), not the 2 that one example can move it. All
routes are upper bounds for replacing one example and for releasing every iterate. The Gaussian
blanket needs the whole block only to hide among others; what it hides is the 2 of one example.

*The Gaussian blanket* (:mod:`shoal.accounting.blanket`) is sharper than the (eps0, delta0) of the
steps. Each step shows N(g, 1) in units of the noise; some point is, whatever the past, within r of
both sums that one block may have and within R of the sums of all other blocks. Proved in
docs/theory/permuted-sgd.md: the noise around that point, over a, is the blanket; everybody else's
step is exchanged for one that contains it; opposite sums at full distance are the worst pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np
import scipy

from shoal.accounting import gaussian
from shoal.accounting.approximate import ApproximateProfile, optimal_distance
from shoal.accounting.blanket import (
    FRACTIONS,
    LEAST_HIDDEN,
    LOST,
    Blanket,
    exchange_level,
    witnessed,
)
from shoal.accounting.devices import Devices, People, Profile
from shoal.accounting.search import Side, largest
from shoal.errors import UnreachableTargetError
from shoal.learning.run import Run
from shoal.learning.steps import StepLaw, composed_epsilon

FIXED = "Gaussian mechanism, no amplification"
BLANKET = "Gaussian blanket"
DELETION = "deletion clones"
CLONES = "optimal clones"

_FRACTIONS = (0.1, 0.3, 0.03, 0.01)  # of delta for the exchange
_NEGLIGIBLE = 1e-3  # of delta: where a curve that is composed may end
_TELLING = 3.0  # deviations of the loss: epsilon is larger at any delta of interest
_SMALLEST = 1e-280
_WITNESS_DEPTH = 9.0
_LINES = 2_000
_ROUNDING = 1e-9


def fixed_epsilon(noise: float, epochs: int, delta: float) -> float:
    """No amplification: an example is used once an epoch, in whatever order.

    Until its step nothing depends on it; its step is a Gaussian mechanism with mu = 2/noise, and
    what follows is post-processing. T epochs are the Gaussian mechanism with mu = 2 sqrt(T)/noise.
    """
    return gaussian.epsilon(2 * math.sqrt(epochs) / noise, delta)


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
            for fraction in FRACTIONS:
                level = exchange_level(others, run.blocks, fraction * run.each)
                if run.blocks * math.exp(-level) >= LEAST_HIDDEN:
                    yield Blanket(own, others, run.blocks, level, LOST * run.each)

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
        lower = witnessed(*means, n=run.blocks, delta=run.delta, above=lower)
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


def _best_profile(run: Run, exchanged: Callable[[float], tuple[float, Devices]]) -> float:
    """The best of a few fractions of delta for the exchange."""
    most = fixed_epsilon(run.noise, run.epochs, run.delta)

    def profiles() -> Iterator[Profile]:
        for fraction in _FRACTIONS:
            local, devices = exchanged(fraction * run.each)
            if run.blocks * math.exp(-local) >= LEAST_HIDDEN:
                profile = devices.profile(People(run.blocks))
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

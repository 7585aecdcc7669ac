"""One pass over a random permutation, and several: every route to its epsilon.

An epoch cuts a uniformly random order of the examples into blocks of ``batch`` and takes one noisy
step on each (Feldman, McMillan, Talwar, "Hiding Among the Clones", FOCS 2021, arXiv 2012.12803,
Algorithm 2). Given which examples share a block, the order of the blocks is uniform: n is the
number of blocks. Other blocks have to be able to stand in for one another, so amplification counts
on the *whole* block: its sum lies in a ball of radius ``batch`` (in clipping norms), and the noise
has to hide 2 batch (replacement) or batch (deletion), not the 2 that one example can move it. All
routes are upper bounds for replacing one example and for releasing every iterate. The Gaussian
blanket needs the whole block only to hide among others; what it hides is the 2 of one example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from shoal.accounting import gaussian, integral
from shoal.accounting.approximate import ApproximateProfile, optimal_distance
from shoal.accounting.atoms import PairLaw
from shoal.accounting.devices import Crowd, Devices, Profile
from shoal.accounting.gaussian import Cells
from shoal.accounting.search import Side, crossing, gaussian_guess
from shoal.errors import UnreachableTargetError
from shoal.learning import gaussian_blanket, many_steps
from shoal.learning.gaussian_blanket import Distances
from shoal.learning.many_steps import StepLaw

FIXED = "Gaussian mechanism, no amplification"
BLANKET = "Gaussian blanket"
DELETION = "deletion clones"
CLONES = "optimal clones"

_SHARES = (0.1, 0.3, 0.03, 0.01)
_LEAST_HIDDEN = 2.0
_NEGLIGIBLE = 1e-3
_TELLING = 3.0  # deviations of the loss: epsilon is larger at any delta of interest
_SMALLEST = 1e-280
_WITNESS_WIDTH = 0.25
_WITNESS_TOLERANCE = 0.03
_WITNESS_DEPTH = 9.0
_LINES = 2_000
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """What is accounted for: so many epochs, each over so many blocks."""

    noise: float
    blocks: int
    batch: int
    epochs: int
    delta: float

    @property
    def reach(self) -> float:
        """How far the sum of a block may be from 0, over the deviation of the noise."""
        return self.batch / self.noise

    @property
    def distances(self) -> tuple[Distances, ...]:
        """Points between 0 and the middle of the two sums that the block in question may have.

        The middle is within ``reach`` of 0, each of the two sums within 1/noise of it.
        """
        shares = (0.0, 0.5, 1.0) if self.batch > 1 else (0.0,)
        return tuple(
            Distances(
                own=min(self.reach, 1 / self.noise + (1 - share) * self.reach),
                others=(1 + share) * self.reach,
            )
            for share in shares
        )

    @property
    def each(self) -> float:
        """The delta of one epoch, for choosing what is free in a route."""
        return self.delta / self.epochs


def fixed_epsilon(*, noise: float, epochs: int, delta: float) -> float:
    """No amplification: an example is used once an epoch, in whatever order.

    Until its step nothing depends on it; its step is a Gaussian mechanism with mu = 2/noise, and
    what follows is post-processing. T epochs are the Gaussian mechanism with mu = 2 sqrt(T)/noise.
    """
    return gaussian.epsilon(2 * math.sqrt(epochs) / noise, delta)


def blanket_epsilon(asked: Epochs) -> float:
    """The Gaussian blanket (:mod:`shoal.learning.gaussian_blanket`); infinite if it has none."""
    if asked.blocks < 2:
        return math.inf
    return gaussian_blanket.epsilon(
        asked.distances, n=asked.blocks, epochs=asked.epochs, delta=asked.delta
    )


def deletion_epsilon(asked: Epochs) -> float:
    """Every step is deletion (eps, delta0)-DP with reference N(0, noise^2): FMT21, Lemma 3.7."""

    def candidates() -> Iterator[Devices]:
        for share in _SHARES:
            local_delta = max(share * asked.each / (2 * asked.blocks), _SMALLEST)
            local = gaussian.epsilon(asked.reach, local_delta)
            if asked.blocks * math.exp(-local) >= _LEAST_HIDDEN:
                yield Devices(deletion_epsilon=local, local_delta=local_delta)

    return _best_profile(asked, candidates())


def clones_epsilon(asked: Epochs) -> float:
    """Every step is replacement (eps0, delta0)-DP: FMT21, Theorem 3.8, with optimal clones too."""

    def candidates() -> Iterator[Devices]:
        for share in _SHARES:
            local, local_delta = _replacement(asked, share * asked.each)
            if asked.blocks * math.exp(-local) >= _LEAST_HIDDEN:
                yield Devices(local_epsilon=local, local_delta=local_delta)

    return _best_profile(asked, candidates())


ROUTES: dict[str, Callable[[Epochs], float]] = {
    BLANKET: blanket_epsilon,
    DELETION: deletion_epsilon,
    CLONES: clones_epsilon,
}


def why_none(asked: Epochs) -> str:
    """Why a route through other blocks has no epsilon: what is hidden among is whole blocks."""
    what = "batch" if asked.batch > 1 else "example"
    if asked.blocks == 1:
        return f"there is no other {what} to hide among"
    if asked.batch == 1:
        return "too few other steps could look like one of them"
    return "too few other batches could have the sum of one of them"


def lower_epsilon(asked: Epochs) -> float:
    """What one epoch of explicit data really gives away: no analysis goes below.

    All other blocks have one and the same sum. Near by, the divergence of one epoch is known
    exactly (docs/theory/lower-bounds.md), and outputs are cut into cells, which can only hide
    something. As far away as can be, it is enough to ask whether any output is beyond a line.
    """
    unit, others = 1 / asked.noise, asked.blocks - 1
    if others == 0:
        return gaussian.epsilon(2 * unit, asked.delta, side=Side.LOWER)
    near = ((unit, -unit), (2 * unit, 0.0), (0.0, 2 * unit))
    found = _alone(asked)
    for means in near:
        found = _witnessed(_witness(means), asked, above=found)
    return found


def _alone(asked: Epochs) -> float:
    """The others' sums are as far as they can be from those of the block in question.

    "Some output is beyond t" has probability at least Phi(far - t) on one data set and at most
    Phi(far - 2 unit - t) + others Phi(-t) on the other.
    """
    lines = np.linspace(0.0, 2 * asked.reach + _WITNESS_DEPTH, _LINES)
    first = special.ndtr(2 * asked.reach - lines) * (1 - _ROUNDING) - asked.delta
    second = special.ndtr(2 * asked.reach - 2 / asked.noise - lines)
    second = (second + (asked.blocks - 1) * special.ndtr(-lines)) * (1 + _ROUNDING)
    telling = (first > 0) & (second > 0)
    found = np.log(first[telling] / second[telling])
    return max(0.0, float(found.max(initial=0.0)))


def _best_profile(asked: Epochs, candidates: Iterator[Devices]) -> float:
    crowd = Crowd(asked.blocks)
    most = fixed_epsilon(noise=asked.noise, epochs=asked.epochs, delta=asked.delta)
    once, chosen = math.inf, None
    for profile in (devices.profile(crowd) for devices in candidates):
        if _TELLING * profile.spread * math.sqrt(asked.epochs) > most:
            continue  # it could not win, and a law with such jumps takes long
        if math.isfinite(once) and _at(profile, once) >= asked.each:
            continue
        here = _once(profile, asked.each)
        once, chosen = (here, profile) if here < once else (once, chosen)
    if asked.epochs == 1 or chosen is None:
        return once
    end = max(_NEGLIGIBLE * asked.each, chosen.smallest_delta * (1 + 1e-2))
    law = StepLaw.sampled(chosen.quick_delta, spread=chosen.spread, end=end)
    if asked.epochs * law.infinite >= asked.delta:
        return math.inf
    return many_steps.epsilon(law, asked.epochs, asked.delta)


def _at(profile: Profile, epsilon: float) -> float:
    """delta at this epsilon, without looking for a better one at a smaller epsilon."""
    if isinstance(profile, ApproximateProfile):
        return min(exchange.delta(epsilon) for exchange in profile.exchanges)
    return profile.quick_delta(epsilon)


def _once(profile: Profile, delta: float) -> float:
    try:
        return profile.epsilon(delta)
    except UnreachableTargetError:
        return math.inf


def _replacement(asked: Epochs, cost: float) -> tuple[float, float]:
    """The largest local delta whose exchange costs at most this much of delta, and its epsilon."""
    low, high = math.log(_SMALLEST), 0.0
    for _ in range(40):
        middle = (low + high) / 2
        local = gaussian.epsilon(2 * asked.reach, math.exp(middle))
        moved = optimal_distance(
            local_epsilon=min(local, 700.0), local_delta=math.exp(middle), n=asked.blocks
        )
        low, high = (middle, high) if 2 * moved <= cost else (low, middle)
    return gaussian.epsilon(2 * asked.reach, math.exp(low)), math.exp(low)


def _witness(means: tuple[float, float]) -> PairLaw:
    """N(first) and N(second) among draws from N(0, 1), seen through cells."""
    first, second = means
    low, high = min(0.0, first, second) - _WITNESS_DEPTH, max(0.0, first, second) + _WITNESS_DEPTH
    cells = Cells.between(low, high, _WITNESS_WIDTH)
    weights = [cells.masses(mean) for mean in (0.0, first, second)]
    tails = [cells.tails(mean) for mean in (0.0, first, second)]
    for weight, (below, above) in zip(weights, tails, strict=True):
        weight[0] += below
        weight[-1] += above
    others, held0, held1 = weights
    return PairLaw.over(others, held0, held1)


def _witnessed(pair: PairLaw, asked: Epochs, *, above: float) -> float:
    """What this pair gives away, if that is more than ``above``; otherwise ``above``."""

    def log_lower(epsilon: float) -> float:
        return integral.enclose(
            pair, n=asked.blocks, epsilon=epsilon, tolerance=_WITNESS_TOLERANCE
        ).log_lower

    target = math.log(asked.delta)
    if above > 0 and log_lower(above) < target:
        return above
    spread = pair.spread(asked.blocks)
    guess = gaussian_guess(min(spread, 1.0), target)
    cap = gaussian.epsilon(2 / asked.noise, asked.delta)
    found = crossing(log_lower, target, cap=cap, guess=min(guess, 0.9 * cap), side=Side.LOWER)
    return max(above, found)

"""The privacy profile of a protocol with several messages, and the least noise for a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from shoal import checks
from shoal.accounting.profile import Curve
from shoal.accounting.search import Side, crossing, log
from shoal.errors import OutOfRegimeError, UnreachableTargetError

LARGEST_EPSILON = 300.0
_STEP = 1.5
_FIRST = 0.25
_REACH = (0.125, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
_REFINEMENTS = 24
_TOTAL_VARIATION = 0.4  # of two normals whose loss has standard deviation 1, to leading order


@dataclass(frozen=True)
class Divergence:
    """An upper bound on a hockey-stick divergence: a function of epsilon and fixed parameters.

    >>> from shoal.accounting.noise.zero_sum import one_bin_delta
    >>> bound = Divergence.of(one_bin_delta, n=10_000, gamma=0.00341)
    >>> f"{bound(1.0):.2e}"
    '9.88e-07'
    """

    function: Callable[..., float]
    parameters: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, function: Callable[..., float], **parameters: float) -> Divergence:
        """The function at these parameters."""
        return cls(function, tuple(parameters.items()))

    def __call__(self, epsilon: float) -> float:
        """The bound at this epsilon, for both orders of the neighbours."""
        return self.function(epsilon=epsilon, **dict(self.parameters))


@dataclass(frozen=True, kw_only=True)
class NoiseProfile(Curve):
    """delta(epsilon) of everybody's messages: an upper bound for both orders of any neighbours.

    ``divergence`` is that of the noise as analysed. The sampler may differ from it by a total
    variation of ``slack``, over all honest people together: with x = e^epsilon that adds at most
    (1 + x) slack. ``lost`` is the probability that fewer honest people are there than assumed,
    which is the same for both neighbours and adds itself. ``local_epsilon`` is infinite if one of
    a person's messages is the truth.
    """

    divergence: Divergence
    n: int
    theorem: str
    scope: str
    slack: float = 0.0
    lost: float = 0.0
    local_epsilon: float = math.inf

    @property
    def smallest_delta(self) -> float:
        """The delta that no epsilon goes below."""
        return self._floor[1]

    @property
    def ceiling(self) -> float:
        """No epsilon makes delta exactly 0, unless each message by itself is private."""
        return self.local_epsilon if self.slack == self.lost == 0 else math.inf

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the privacy loss to leading order: a scale, not a bound."""
        return max(self.delta(0.0) / _TOTAL_VARIATION, 1e-12)

    def _delta(self, epsilon: float) -> float:
        bound = self._bound(epsilon)
        if epsilon < self._valley[0]:
            return bound
        # The true delta never grows with epsilon, although what the slack adds does.
        end, least = self._floor
        return min(least, bound) if epsilon >= end else bound

    def _epsilon(self, delta: float) -> float:
        end, least = self._floor
        if least > delta:
            raise UnreachableTargetError(
                f"delta={delta:g}",
                f"noise of {self.n} honest people, as precisely as it is drawn, leaves {least:.3g}",
                "ask for a larger delta, or make the noise for fewer honest people",
            )
        return crossing(
            lambda epsilon: log(self.delta(epsilon)),
            math.log(delta),
            cap=end,
            guess=min(end / 2, 4 * self.spread),
            side=Side.UPPER,
        )

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:  # noqa: ARG002
        """Nothing is claimed from below."""
        checks.open_probability(delta=delta)
        return 0.0

    @cached_property
    def _valley(self) -> tuple[float, tuple[float, float], float]:
        """The smallest bound of those tried and its epsilon, between the epsilons beside it.

        The latter are the same where there is no slack: the bound only falls then.
        """
        ends = (self.local_epsilon,) if math.isfinite(self.local_epsilon) else ()
        tried = [(self._bound(epsilon), epsilon) for epsilon in sorted((*_REACH, *ends))]
        best = min(tried)
        place, beside = tried.index(best), 1 if self.slack else 0
        low, high = max(place - beside, 0), min(place + beside, len(tried) - 1)
        return tried[low][1], best, tried[high][1]

    @cached_property
    def _floor(self) -> tuple[float, float]:
        """Where the bound is smallest, and how small it is there.

        It falls with the divergence and rises with what the slack adds, so the search closes in on
        a corner or a minimum between its neighbours.
        """
        low, best, high = self._valley
        for _ in range(_REFINEMENTS if self.slack else 0):
            inner = [low + (high - low) * part for part in (0.382, 0.618)]
            pair = [(self._bound(epsilon), epsilon) for epsilon in inner]
            best = min(best, *pair)
            low, high = (low, inner[1]) if pair[0] <= pair[1] else (inner[0], high)
        return best[1], best[0]

    def _bound(self, epsilon: float) -> float:
        if epsilon >= self.local_epsilon:
            return 0.0
        added = (1 + math.exp(epsilon)) * self.slack + self.lost
        return min(1.0, self.divergence(epsilon) + added)


def least_mean(
    delta_of: Callable[[float], float], *, delta: float, largest: float = math.inf
) -> float:
    """Return the least mean in (0, largest] with ``delta_of(mean) <= delta``, or infinity.

    ``delta_of`` falls from 1 at mean 0 like ``exp(-c mean)``, so the search runs over the square
    root of the mean. The mean returned is one at which ``delta_of`` was evaluated and met the
    target: nothing depends on the curve being monotone except that no smaller mean would do.
    """

    def log_delta(root: float) -> float:
        return log(delta_of(min(root * root, largest)))

    target, cap, end = math.log(delta), min(_FIRST, math.sqrt(largest)), math.sqrt(largest)
    while log_delta(cap) > target:
        if cap >= end:
            return math.inf
        cap = min(_STEP * cap, end)
    root = crossing(log_delta, target, cap=cap, guess=cap * 0.9, side=Side.UPPER, at_zero=0.0)
    return min(root * root, largest)


def published_mean(
    bound: str, instead: str, epsilon: float, delta: float, *, factor: float, numerator: float
) -> float:
    """factor/ε² · log(numerator/δ), the mean noise that a paper prescribes for ε <= 1.

    To be set beside the exact calibration ``instead``, in its unit: never an answer.
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    if epsilon > 1:
        raise OutOfRegimeError(bound, "epsilon <= 1", {"epsilon": float(epsilon)}, instead)
    return factor * math.log(numerator / delta) / epsilon**2


def checked_epsilon(epsilon: float) -> float:
    """A central epsilon whose exponential is a float."""
    checks.non_negative(epsilon=epsilon)
    checks.refuse(epsilon > LARGEST_EPSILON, f"epsilon <= {LARGEST_EPSILON:g}", epsilon=epsilon)
    return float(epsilon)

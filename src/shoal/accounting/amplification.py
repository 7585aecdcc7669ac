"""The questions people ask: how private, how noisy may it be, how many people.

Each takes a randomizer (anything with a ``law()``), a :class:`BlanketLaw`, or a ``local_epsilon``
standing for *any* randomizers with that local guarantee, even adaptively chosen ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import optimize

from shoal import checks
from shoal.accounting import catalog, compose
from shoal.accounting.compose import Method
from shoal.accounting.crowd import Crowd
from shoal.accounting.devices import (
    CLONES,
    OPTIMAL_CLONES,
    Devices,
    Profile,
    Randomizer,
    member,
)
from shoal.accounting.guarantee import Guarantee
from shoal.accounting.law import BlanketLaw
from shoal.errors import InvalidArgumentError, OutOfRegimeError, UnreachableTargetError

DEFAULT_DELTA = 1e-6
LARGEST_N = 10**15
LARGEST_LOCAL_EPSILON = 50.0
_SOLVE_TOLERANCE = 1e-7
_SLOW_SOLVE_TOLERANCE = 1e-5  # compositions take half a second each
_AGREEMENT = 1e-7
_SMALLEST_LOCAL_EPSILON = 1e-9  # as a share of the target
_FAR_BELOW = 30.0  # deeper than this the logarithm would only mislead the root finder

Family = Callable[..., Randomizer]


@dataclass(frozen=True)
class Question:
    """epsilon at this delta, unless an epsilon is given: then delta is the answer."""

    delta: float
    epsilon: float | None

    @classmethod
    def of(cls, *, epsilon: float | None, delta: float | None) -> Question:
        """At most one of the two; delta 1e-6 if neither."""
        if epsilon is None:
            delta = DEFAULT_DELTA if delta is None else delta
            checks.open_probability(delta=delta)
            return cls(delta, None)
        if delta is not None:
            raise InvalidArgumentError("delta", delta, "epsilon or delta, not both")
        checks.non_negative(epsilon=epsilon)
        return cls(DEFAULT_DELTA, epsilon)


def profile(
    randomizer: Randomizer | None = None,
    *,
    n: int,
    local_epsilon: float | None = None,
    local_delta: float = 0.0,
    deletion_epsilon: float | None = None,
    bound: str | None = None,
    participation: float = 1.0,
    honest_fraction: float = 1.0,
    honest_n: int | None = None,
) -> Profile:
    """The whole curve delta(epsilon) of n shuffled reports.

    >>> profile(local_epsilon=1, n=1000).delta(0.2) < 1e-8
    True
    """
    devices = Devices(
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        deletion_epsilon=deletion_epsilon,
        local_delta=local_delta,
    )
    return devices.profile(Crowd(n, honest_fraction, honest_n, participation), bound=bound)


def amplify(
    randomizer: Randomizer | None = None,
    *,
    n: int,
    local_epsilon: float | None = None,
    delta: float | None = None,
    epsilon: float | None = None,
    local_delta: float = 0.0,
    deletion_epsilon: float | None = None,
    bound: str | None = None,
    rounds: int = 1,
    composition: Method = "pld",
    participation: float = 1.0,
    honest_fraction: float = 1.0,
    honest_n: int | None = None,
) -> Guarantee:
    """The (epsilon, delta) that shuffling gives n reports.

    ``delta`` (1e-6 unless said) asks for epsilon; ``epsilon`` asks for delta instead. ``rounds``
    adaptive rounds are composed by ``composition``. ``deletion_epsilon`` says that every report is
    within that much of one reference distribution (Gaussian noise on bounded data, for example).
    ``bound`` names a published bound; by default a known randomizer is accounted by its own law
    and anything else by the optimal clones.

    >>> g = amplify(local_epsilon=4, n=100_000, delta=1e-6)
    >>> round(g.epsilon, 4), g.theorem
    (0.1182, 'optimal clones')
    """
    devices = Devices(
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        deletion_epsilon=deletion_epsilon,
        local_delta=local_delta,
    )
    crowd = Crowd(n, honest_fraction, honest_n, participation)
    rounds = checks.count(rounds=rounds)
    question = Question.of(epsilon=epsilon, delta=delta)
    if bound is None or bound in {OPTIMAL_CLONES, CLONES}:
        found = devices.profile(crowd, bound=bound)
        return _by_profile(found, crowd, question, rounds=rounds, composition=composition)
    if question.epsilon is not None:
        raise InvalidArgumentError("epsilon", epsilon, f"a delta ({bound} answers with epsilon)")
    return _by_entry(catalog.get(bound), devices, crowd, delta=question.delta, rounds=rounds)


def local_epsilon(
    family: Family | None = None,
    *,
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    n: int,
    rounds: int = 1,
    participation: float = 1.0,
    honest_fraction: float = 1.0,
    honest_n: int | None = None,
    cap: float = LARGEST_LOCAL_EPSILON,
) -> float:
    """The largest local epsilon, at most ``cap``, whose shuffled reports keep (epsilon, delta).

    For any randomizers, or for a ``family``: a callable that takes ``epsilon=`` and returns a
    randomizer or a law. The answer is rounded down: it keeps the target.

    >>> round(local_epsilon(epsilon=1, delta=1e-6, n=10**6), 2)
    10.06
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    crowd = Crowd(n, honest_fraction, honest_n, participation)
    rounds = checks.count(rounds=rounds)
    make: Family = _any_randomizers if family is None else family

    def excess(candidate: float) -> float:
        """log of the delta that the candidate has, over the target; <= 0 if it is kept."""
        found = Devices(randomizer=member(make, epsilon=candidate)).profile(crowd)
        return _log_excess(found, rounds, epsilon, delta)

    checks.positive(cap=cap)
    low = min(epsilon / rounds, cap)
    while excess(low) > 0:
        low /= 2
        if low < _SMALLEST_LOCAL_EPSILON * epsilon:
            raise UnreachableTargetError(
                f"({epsilon:g}, {delta:g})-DP",
                f"not even a local epsilon of {low:.2g} is small enough",
                "use another family of randomizers or a weaker target",
            )
    high = min(2 * low, cap)
    while excess(high) <= 0:
        if high >= cap:
            return high
        low, high = high, min(2 * high, cap)
    tolerance = _SOLVE_TOLERANCE if rounds == 1 else _SLOW_SOLVE_TOLERANCE
    root = float(optimize.brentq(excess, low, high, xtol=tolerance * low, rtol=tolerance))
    step = tolerance * root
    while root > low and excess(root) > 0:
        root, step = root - step, 2 * step
    return max(root, low)


def required_n(
    randomizer: Randomizer | None = None,
    *,
    epsilon: float,
    delta: float = DEFAULT_DELTA,
    local_epsilon: float | None = None,
    local_delta: float = 0.0,
    deletion_epsilon: float | None = None,
    rounds: int = 1,
    participation: float = 1.0,
    honest_fraction: float = 1.0,
) -> int:
    """The smallest crowd whose shuffled reports keep (epsilon, delta).

    >>> required_n(epsilon=1, local_epsilon=4, delta=1e-6)
    2203
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    checks.share(honest_fraction=honest_fraction)
    rounds = checks.count(rounds=rounds)
    devices = Devices(
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        deletion_epsilon=deletion_epsilon,
        local_delta=local_delta,
    )

    def keeps(n: int) -> bool:
        crowd = Crowd(n, participation=participation)
        try:
            return _log_excess(devices.profile(crowd), rounds, epsilon, delta) <= 0
        except (OutOfRegimeError, UnreachableTargetError):  # noise that was made for more people
            return False

    low, high = 0, 1
    while not keeps(high):
        low, high = high, 4 * high
        if high > LARGEST_N:
            raise UnreachableTargetError(
                f"({epsilon:g}, {delta:g})-DP",
                f"not even {low:.2g} people are enough",
                "use a smaller local epsilon or local delta, or a weaker target",
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return math.ceil(high / honest_fraction * (1 - 1e-12))


def _any_randomizers(*, epsilon: float) -> BlanketLaw:
    return BlanketLaw.generic(epsilon)


def _log_excess(found: Profile, rounds: int, epsilon: float, delta: float) -> float:
    """log(delta(epsilon) / delta), a hair before epsilon so that solving for epsilon agrees."""
    curve = found if rounds == 1 else found * rounds
    if curve.local_delta == 0 and epsilon >= curve.local_epsilon:
        return -_FAR_BELOW
    reached = curve.delta(epsilon * (1 - _AGREEMENT))
    return max(math.log(reached / delta) if reached > 0 else -math.inf, -_FAR_BELOW)


def _by_profile(
    found: Profile, crowd: Crowd, question: Question, *, rounds: int, composition: Method
) -> Guarantee:
    curve = found if rounds == 1 else found * rounds
    theorem = found.theorem
    if question.epsilon is not None:
        if composition not in {"pld", "best"}:
            expected = "composition 'pld' or 'best' when epsilon is given"
            raise InvalidArgumentError("composition", composition, expected)
        epsilon, delta = question.epsilon, curve.delta(question.epsilon)
        if rounds > 1:
            theorem = f"{theorem}, {compose.THEOREMS['pld']}"
    elif rounds == 1:
        epsilon, delta = found.epsilon(question.delta), question.delta
    else:
        epsilon, how = (found * rounds).answer(question.delta, method=composition)
        theorem, delta = f"{theorem}, {how}", question.delta
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        n=crowd.honest,
        local_epsilon=curve.local_epsilon,
        local_delta=curve.local_delta,
        theorem=theorem,
        rounds=rounds,
        assumptions=(found.scope, *crowd.assumptions),
        lower_bound=lambda: found.lower_rounds_epsilon(rounds, delta) if 0 < delta < 1 else 0.0,
    )


def _by_entry(
    entry: catalog.Entry, devices: Devices, crowd: Crowd, *, delta: float, rounds: int
) -> Guarantee:
    if not entry.certified:
        expected = f"a proved bound ({entry.name} is {entry.status.value}: for comparisons only)"
        raise InvalidArgumentError("bound", entry.name, expected)
    local, local_delta = devices.replacement_guarantee
    unsupported = {
        "rounds": rounds if rounds > 1 else None,
        "participation": crowd.participation if crowd.participation < 1 else None,
        "local_delta": local_delta or None,
    }
    for name, value in unsupported.items():
        if value is not None:
            expected = f"no {name} beside bound {entry.name} (use {OPTIMAL_CLONES})"
            raise InvalidArgumentError(name, value, expected)
    query = catalog.Query(local_epsilon=local, n=crowd.honest, delta=delta, k=devices.categories)
    reference = devices.profile(crowd)
    return Guarantee(
        epsilon=entry.epsilon(query),
        delta=delta,
        n=crowd.honest,
        local_epsilon=local,
        theorem=f"{entry.title}: {entry.citation}",
        assumptions=(entry.scope, *crowd.assumptions),
        lower_bound=lambda: reference.lower_epsilon(delta),
    )

"""The questions people ask: how private, how noisy may it be, how many people.

Each takes a randomizer (anything with a ``law()``), a :class:`BlanketLaw`, or a ``local_epsilon``
standing for *any* randomizers with that local guarantee, even adaptively chosen ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from shoal import checks
from shoal.accounting import search
from shoal.accounting.compose import THEOREMS, ComposedProfile, Method
from shoal.accounting.devices import (
    CLONES,
    OPTIMAL_CLONES,
    Crowd,
    Devices,
    Profile,
    Randomizer,
    member,
)
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.accounting.law import BlanketLaw
from shoal.errors import OutOfRegimeError, UnreachableTargetError

LARGEST_N = 10**15
LARGEST_LOCAL_EPSILON = 50.0
_TOLERANCE = 1e-7
_SLOW_TOLERANCE = 1e-5  # compositions take half a second each
_AGREEMENT = 1e-7
_SMALLEST_LOCAL_EPSILON = 1e-9  # as a share of the target
_STEP = 1.05  # the first one to a bracket: curves far from the target take long
_AHEAD = (0.3, 0.15)  # about what other sets of outputs are worth
_FAR_BELOW = 30.0  # deeper than this the logarithm would only mislead the root finder

Family = Callable[..., Randomizer]


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
    devices = Devices(randomizer, local_epsilon, deletion_epsilon, local_delta)
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

    ``delta`` (the smaller of 1e-6 and 1/(10 n) unless said) asks for epsilon; ``epsilon`` asks for
    delta instead. ``rounds`` adaptive rounds are composed by ``composition``. ``deletion_epsilon``
    says that every report is within that much of one reference distribution (Gaussian noise on
    bounded data, for example).
    ``bound`` names a published bound; by default a known randomizer is accounted by its own law
    and anything else by the optimal clones.

    >>> g = amplify(local_epsilon=4, n=100_000, delta=1e-6)
    >>> round(g.epsilon, 4), g.theorem
    (0.1182, 'optimal clones')
    """
    devices = Devices(randomizer, local_epsilon, deletion_epsilon, local_delta)
    crowd = Crowd(n, honest_fraction, honest_n, participation)
    rounds = checks.count(rounds=rounds)
    if epsilon is not None:
        checks.non_negative(epsilon=epsilon)
        checks.refuse(delta is not None, "epsilon or delta, not both", delta=delta)
    at = default_delta(crowd.n) if delta is None else delta
    checks.open_probability(delta=at)
    if bound not in {None, OPTIMAL_CLONES, CLONES}:
        expected = f"a delta ({bound} answers with epsilon)"
        checks.refuse(epsilon is not None, expected, epsilon=epsilon)
        return _published(str(bound), devices, crowd, delta=at, rounds=rounds)
    once = devices.profile(crowd, bound=bound)
    curve = once if rounds == 1 else once * rounds
    theorem = once.theorem
    if epsilon is not None:
        expected = "composition 'pld' or 'best' when epsilon is given"
        checks.refuse(composition not in {"pld", "best"}, expected, composition=composition)
        reached, at = epsilon, curve.delta(epsilon)
        how = THEOREMS["pld"]
    elif isinstance(curve, ComposedProfile):
        reached, how = curve.answer(at, method=composition)
    else:
        reached, how = curve.epsilon(at), ""
    return Guarantee(
        epsilon=reached,
        delta=at,
        n=crowd.honest,
        local_epsilon=curve.local_epsilon,
        local_delta=curve.local_delta,
        theorem=theorem if rounds == 1 else f"{theorem}, {how}",
        rounds=rounds,
        assumptions=(once.scope, *crowd.assumptions),
        lower_bound=lambda: once.lower_epsilon(at, rounds) if 0 < at < 1 else 0.0,
        profile=curve,
    )


def local_epsilon(
    family: Family | None = None,
    *,
    epsilon: float,
    delta: float | None = None,
    n: int,
    rounds: int = 1,
    participation: float = 1.0,
    honest_fraction: float = 1.0,
    honest_n: int | None = None,
    cap: float = LARGEST_LOCAL_EPSILON,
) -> float:
    """The largest local epsilon, at most ``cap``, whose shuffled reports keep (epsilon, delta).

    For any randomizers, or for a ``family``: a callable that takes ``epsilon=`` and returns a
    randomizer or a law. The answer is rounded down: it keeps the target. Where a family takes
    other sets of outputs as epsilon grows (subset selection, Hadamard response), delta falls there:
    a little beyond a first answer is looked at, too.

    >>> round(local_epsilon(epsilon=1, delta=1e-6, n=10**6), 2)
    10.06
    """
    crowd = Crowd(n, honest_fraction, honest_n, participation)
    delta = default_delta(crowd.n) if delta is None else delta
    checks.positive(epsilon=epsilon, cap=cap)
    checks.open_probability(delta=delta)
    rounds = checks.count(rounds=rounds)

    @cache
    def excess(candidate: float) -> float:
        """log of the delta that the candidate has, over the target; <= 0 if it is kept."""
        randomizer = BlanketLaw.generic(candidate) if family is None else member(family, candidate)
        return _log_excess(Devices(randomizer).profile(crowd), rounds, epsilon, delta)

    # Where the Gaussian that the shuffled reports resemble would keep it; steps grow from there.
    logs = math.log(crowd.honest) - math.log(4 * (math.log(4) - math.log(delta)))
    about = logs + 2 * search.log(epsilon / rounds)
    low, step = min(max(epsilon / rounds, about, 1e-300), cap), _STEP
    while excess(low) > 0:
        low, step = low / step, step * step
        if low <= _SMALLEST_LOCAL_EPSILON * epsilon:
            raise UnreachableTargetError(
                f"({epsilon:g}, {delta:g})-DP",
                f"not even a local epsilon of {low:.2g} is small enough",
                "use another family of randomizers or a weaker target",
            )
    tolerance = _TOLERANCE if rounds == 1 else _SLOW_TOLERANCE
    ahead = [low]
    while ahead:
        low = high = ahead[0]
        step = _STEP
        while excess(high) <= 0:
            if high >= cap:
                return high
            low, high, step = high, min(step * high, cap), step * step
        low = search.root_below(excess, low, high, tolerance=tolerance * low)
        ahead = [low + more for more in _AHEAD if low + more <= cap and excess(low + more) <= 0]
    return low


def required_n(
    randomizer: Randomizer | None = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
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
    checks.fraction(honest_fraction=honest_fraction)
    rounds = checks.count(rounds=rounds)
    devices = Devices(randomizer, local_epsilon, deletion_epsilon, local_delta)

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
    return math.ceil(search.least(keeps, low, high) / honest_fraction * (1 - 1e-12))


def _log_excess(once: Profile, rounds: int, epsilon: float, delta: float) -> float:
    """log(delta(epsilon) / delta), a hair before epsilon so that solving for epsilon agrees."""
    curve = once if rounds == 1 else once * rounds
    if curve.local_delta == 0 and epsilon >= curve.local_epsilon:
        return -_FAR_BELOW
    reached = curve.delta(epsilon * (1 - _AGREEMENT))
    return max(math.log(reached / delta) if reached > 0 else -math.inf, -_FAR_BELOW)


def _published(
    bound: str, devices: Devices, crowd: Crowd, *, delta: float, rounds: int
) -> Guarantee:
    from shoal.accounting import catalog

    entry = catalog.get(bound)
    expected = f"a proved bound ({entry.name} is {entry.status.value}: for comparisons only)"
    checks.refuse(not entry.certified, expected, bound=entry.name)
    local, local_delta = devices.replacement_guarantee
    unsupported = {
        "rounds": rounds if rounds > 1 else None,
        "participation": crowd.participation if crowd.participation < 1 else None,
        "local_delta": local_delta or None,
    }
    for name, value in unsupported.items():
        expected = f"no {name} beside bound {entry.name} (use {OPTIMAL_CLONES})"
        checks.refuse(value is not None, expected, **{name: value})
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

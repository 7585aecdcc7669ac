"""The questions people ask: how private, how noisy may it be, how many people.

Each takes a randomizer (anything with a ``law()``), a :class:`BlanketLaw`, or a ``local_epsilon``
standing for *any* randomizers with that local guarantee, even adaptively chosen ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial

from shoal import checks
from shoal.accounting import search
from shoal.accounting.compose import THEOREMS, ComposedProfile, Method
from shoal.accounting.devices import (
    ALONE,
    CLONES,
    OPTIMAL_CLONES,
    Devices,
    People,
    Profile,
    Randomizer,
    member,
)
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.accounting.law import BlanketLaw
from shoal.errors import OutOfRegimeError, UnreachableTargetError
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, require

LARGEST_N = 10**15
LARGEST_LOCAL_EPSILON = 50.0
_LARGEST_OF_A_FAMILY = 30.0  # as far as the odds of a randomizer go
_TOLERANCE = 1e-7
_SLOW_TOLERANCE = 1e-5  # compositions take half a second each
_AGREEMENT = 1e-7
_OF_ONE_REPORT = "Gaussian mechanism, which each report is by itself"
_SMALLEST_LOCAL_EPSILON = 1e-9  # as a share of the target
_STEP = 1.05  # the first one to a bracket: curves far from the target take long
_AHEAD, _STEPS_AHEAD, _HALVINGS = 0.9, 6, 12  # where other sets of outputs are looked for
_SETS = frozenset({"blocks", "width", "q", "t", "size"})  # what sets of outputs go by
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
    crowd: Crowd = EVERYBODY,
    honest_n: int | None = None,
) -> Profile:
    """The whole curve δ(ε) of n shuffled reports.

    Args:
        randomizer: What every device runs; or a :class:`shoal.BlanketLaw`. Exactly one
            of randomizer, local_epsilon and deletion_epsilon.
        n: People who report, at least 1.
        local_epsilon: ε₀ from 0 to 300 of any randomizers, even adaptively chosen ones.
        local_delta: δ₀ in [0, 1) that goes with either ε₀: each is (ε₀, δ₀)-DP.
        deletion_epsilon: Every report is within this much of one reference
            distribution.
        bound: "clones" or "optimal-clones" in place of the randomizer's own law.
        crowd: Which fraction of the people follows the protocol, and how likely each
            one takes part. The guarantee is that of the honest people alone.
        honest_n: How many people follow the protocol, in place of a fraction.

    Returns:
        A curve with ``delta(epsilon)``, ``epsilon(delta)``, ``lower_epsilon(delta)``,
        ``renyi(order)`` and ``pld()``: upper bounds, but for the lower one. Curves
        compose with ``*`` (rounds) and ``+``.

    Raises:
        InvalidArgumentError: A number is out of its range, or two that exclude each
            other are given.
        InvalidTypeError: ``randomizer`` is not one, and has no ``law()``.

    References:
        :doc:`The privacy blanket </theory/blanket>` for a randomizer, :doc:`optimal
        clones </theory/optimal-clones>` for a local_epsilon, :doc:`/theory/approximate`
        for a local_delta, :doc:`/theory/deletion`, :doc:`/theory/participation`.

    Example:
        >>> import shoal
        >>> shoal.profile(local_epsilon=1, n=1000).delta(0.2) < 1e-8
        True
    """
    devices = Devices(randomizer, local_epsilon, deletion_epsilon, local_delta)
    return devices.profile(People(n, crowd, honest_n), bound=bound)


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
    crowd: Crowd = EVERYBODY,
    honest_n: int | None = None,
) -> Guarantee:
    """The (ε, δ) that shuffling gives n reports.

    Args:
        randomizer: What every device runs; or a :class:`shoal.BlanketLaw`. Exactly one
            of randomizer, local_epsilon and deletion_epsilon.
        n: People who report, at least 1.
        local_epsilon: ε₀ from 0 to 300 of any randomizers, even adaptively chosen ones.
        delta: The δ at which ε is wanted; min(1e-6, 1/(10 n)) unless given.
        epsilon: The ε at which δ is wanted instead.
        local_delta: δ₀ in [0, 1) that goes with either ε₀: each is (ε₀, δ₀)-DP.
        deletion_epsilon: Every report is within this much of one reference
            distribution, as with Laplace noise on bounded data.
        bound: The name of a published bound that :func:`shoal.compare` lists, in place
            of the tightest one that is proved here.
        rounds: Adaptive rounds of reports, composed.
        composition: "pld", "renyi", "advanced", or "best" of them.
        crowd: Which fraction of the people follows the protocol, and how likely each
            one takes part. The guarantee is that of the honest people alone.
        honest_n: How many people follow the protocol, in place of a fraction.

    Returns:
        A :class:`shoal.Guarantee` with ε and δ, the theorem, assumptions and a lower
        bound.

    Raises:
        InvalidArgumentError: A number is out of its range, or two that exclude each
            other are given.
        InvalidTypeError: ``randomizer`` is not one, and has no ``law()``.
        OutOfRegimeError: The published ``bound`` does not cover these parameters.
        UnreachableTargetError: No ε is proved at so small a δ.
        PrecisionError: δ is below what the composition can certify.

    References:
        :doc:`The privacy blanket </theory/blanket>` of a randomizer, :doc:`optimal
        clones </theory/optimal-clones>` for a local_epsilon,
        :doc:`/theory/composition`.

    Example:
        >>> import shoal
        >>> g = shoal.amplify(local_epsilon=4, n=100_000, delta=1e-6)
        >>> round(g.epsilon, 4), g.theorem
        (0.1182, 'optimal clones')
    """
    devices = Devices(randomizer, local_epsilon, deletion_epsilon, local_delta)
    people = People(n, crowd, honest_n)
    rounds = checks.count(rounds=rounds)
    if epsilon is not None:
        checks.non_negative(epsilon=epsilon)
        checks.refuse(delta is not None, "epsilon or delta, not both", delta=delta)
    at = default_delta(people.n) if delta is None else delta
    checks.open_probability(delta=at)
    if bound not in {None, OPTIMAL_CLONES, CLONES}:
        expected = f"a delta ({bound} answers with epsilon)"
        checks.refuse(epsilon is not None, expected, epsilon=epsilon)
        return _published(str(bound), devices, people, delta=at, rounds=rounds)
    once = devices.profile(people, bound=bound)
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
    alone = devices.alone(at) if rounds == 1 and math.isinf(curve.local_epsilon) else None
    local, local_delta_ = alone or (curve.local_epsilon, curve.local_delta)
    if alone is not None and reached >= local * (1 - ALONE):
        theorem = _OF_ONE_REPORT
    return Guarantee(
        epsilon=reached,
        delta=at,
        n=people.honest,
        local_epsilon=local,
        local_delta=local_delta_,
        theorem=theorem if rounds == 1 else f"{theorem}, {how}",
        rounds=rounds,
        assumptions=(once.scope, *people.assumptions),
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
    crowd: Crowd = EVERYBODY,
    honest_n: int | None = None,
    cap: float = LARGEST_LOCAL_EPSILON,
    near: float | None = None,
) -> float:
    """The largest local ε, at most ``cap``, whose shuffled reports keep (ε, δ).

    Rounded down: the answer keeps the target. Where a family takes other sets of
    outputs as ε₀ grows (subset selection, Hadamard response) δ falls, and a little
    beyond the first answer is looked at too.

    Args:
        family: A callable that takes ``epsilon=`` and returns a randomizer or a law,
            such as ``partial(RandomizedResponse, k=4)``. None stands for any
            randomizers.
        epsilon: The target ε > 0 of the shuffled reports.
        delta: The target δ; min(1e-6, 1/(10 n)) unless given.
        n: People who report.
        rounds: Adaptive rounds of reports, composed.
        crowd: Which fraction of the people follows the protocol, and how likely each
            one takes part. The guarantee is that of the honest people alone.
        honest_n: How many people follow the protocol, in place of a fraction.
        cap: The largest ε₀ that is looked at; of a family it is at most 30.
        near: A guess, such as the answer for a similar family: it only saves time.

    Returns:
        ε₀.

    Raises:
        InvalidArgumentError: A number is out of its range.
        InvalidTypeError: ``family`` is no such callable.
        UnreachableTargetError: No ε₀, however small, keeps the target.

    References:
        :doc:`Solving for ε </theory/solving>`, on the theorems of
        :func:`shoal.amplify`.

    Example:
        >>> import shoal
        >>> round(shoal.local_epsilon(epsilon=1, delta=1e-6, n=10**6), 2)
        10.06
    """
    people = People(n, crowd, honest_n)
    delta = default_delta(people.n) if delta is None else delta
    checks.positive(epsilon=epsilon, cap=cap)
    checks.open_probability(delta=delta)
    rounds = checks.count(rounds=rounds)
    cap = cap if family is None else min(cap, _LARGEST_OF_A_FAMILY)

    known: dict[float, float] = {}

    def excess(candidate: float) -> float:
        """log of the delta that the candidate has, over the target; <= 0 if it is kept."""
        if candidate not in known:
            law = BlanketLaw.generic(candidate) if family is None else member(family, candidate)
            curve = Devices(law).profile(people)
            known[candidate] = _log_excess(curve, rounds, epsilon, delta)
        return known[candidate]

    # Where the Gaussian that the shuffled reports resemble would keep it; steps grow from there.
    logs = math.log(people.honest) - math.log(4 * (math.log(4) - math.log(delta)))
    about = logs + 2 * search.log(epsilon / rounds)
    low = start = min(max(epsilon / rounds, about, 1e-300), cap)
    start = start if near is None else min(near, cap)
    tolerance = _TOLERANCE if rounds == 1 else _SLOW_TOLERANCE
    depth = -math.log(delta)

    def shallowness(candidate: float) -> float:
        """log(-log delta) of the target less the candidate's, which is nearly linear."""
        own = depth - excess(candidate)
        return math.log(depth / own) if own > 0 else math.inf

    # -log(delta) falls like e^-local_epsilon where that is large, and like its square where not.
    slope = max(1.0, 2 / start)
    solved = search.secant_below(shallowness, start, slope, tolerance=tolerance, cap=cap)
    if solved is None:
        feasible = max((at for at, value in known.items() if value <= 0), default=None)
        low = _feasible_below(excess, low, epsilon, delta) if feasible is None else feasible
        solved = _largest_feasible(excess, low, cap, tolerance, known)
    while family is not None:
        ahead = [at for at in _other_outputs(family, solved, cap) if excess(at) <= 0]
        if not ahead:
            break
        solved = _largest_feasible(excess, ahead[-1], cap, tolerance, known)
    return solved


def _other_outputs(family: Family, local: float, cap: float) -> list[float]:
    """Where, a little beyond, the randomizers of a family begin to have other sets of outputs.

    Whole numbers of theirs tell them apart; of what has none, some places are looked at.
    """

    def outputs(at: float) -> dict[str, int] | None:
        numbers = getattr(member(family, at), "integers", None)
        return numbers and {name: n for name, n in numbers.items() if name in _SETS}

    end, changes = min(local + _AHEAD, cap), list[float]()
    if outputs(local) is None:
        return [at for at in (local + _AHEAD / 6, local + _AHEAD / 3) if at <= end]
    for step in range(1, _STEPS_AHEAD + 1):
        last = local + (end - local) * step / _STEPS_AHEAD
        while (here := outputs(local)) != outputs(last):
            changed = partial(lambda here, at: outputs(at) != here, here)
            local = search.least(changed, local, last, steps=_HALVINGS)
            changes.append(local)
        local = last
    return changes


def _feasible_below(
    excess: Callable[[float], float], local: float, epsilon: float, delta: float
) -> float:
    """This local epsilon, or a smaller one that keeps the target."""
    step = _STEP
    while excess(local) > 0:
        local, step = local / step, step * step
        if local <= _SMALLEST_LOCAL_EPSILON * epsilon:
            raise UnreachableTargetError(
                f"({epsilon:g}, {delta:g})-DP",
                f"not even a local epsilon of {local:.2g} is small enough",
                "use another family of randomizers or a weaker target",
            )
    return local


def _largest_feasible(
    excess: Callable[[float], float],
    low: float,
    cap: float,
    tolerance: float,
    known: Mapping[float, float],
) -> float:
    """From a local epsilon that keeps the target on to the first that does not, or the cap."""
    failed = [at for at, value in known.items() if at > low and value > 0]
    high, step = min(failed, default=low), _STEP
    while excess(high) <= 0:
        if high >= cap:
            return high
        low, high, step = high, min(step * high, cap), step * step
    return search.root_below(excess, low, high, tolerance=tolerance * low)


def required_n(
    randomizer: Randomizer | None = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    local_epsilon: float | None = None,
    local_delta: float = 0.0,
    deletion_epsilon: float | None = None,
    rounds: int = 1,
    crowd: Crowd = EVERYBODY,
) -> int:
    """The smallest number of people whose shuffled reports keep (ε, δ).

    Args:
        randomizer: What every device runs; or a :class:`shoal.BlanketLaw`. Exactly one
            of randomizer, local_epsilon and deletion_epsilon.
        epsilon: The target ε > 0.
        delta: The target δ in (0, 1).
        local_epsilon: ε₀ from 0 to 300 of any randomizers, even adaptively chosen ones.
        local_delta: δ₀ in [0, 1) that goes with either ε₀.
        deletion_epsilon: Every report is within this much of one reference
            distribution.
        rounds: Adaptive rounds of reports, composed.
        crowd: Which fraction of the people follows the protocol, and how likely each
            one takes part. The guarantee is that of the honest people alone.

    Returns:
        n, the dishonest people included.

    Raises:
        InvalidArgumentError: A number is out of its range.
        InvalidTypeError: ``randomizer`` is not one, and has no ``law()``.
        UnreachableTargetError: Not even 10¹⁵ people are enough.

    References:
        The theorems of :func:`shoal.amplify`; :doc:`/theory/solving`.

    Example:
        >>> import shoal
        >>> shoal.required_n(epsilon=1, local_epsilon=4, delta=1e-6)
        2203
    """
    checks.positive(epsilon=epsilon)
    checks.open_probability(delta=delta)
    require(crowd, NO_LIMITS)
    rounds = checks.count(rounds=rounds)
    devices = Devices(randomizer, local_epsilon, deletion_epsilon, local_delta)
    all_honest = replace(crowd, honest_fraction=1.0)

    def keeps(n: int) -> bool:
        try:
            return _log_excess(devices.profile(People(n, all_honest)), rounds, epsilon, delta) <= 0
        except (OutOfRegimeError, UnreachableTargetError):  # noise that was made for more people
            return False

    low, high = 0, 1
    while not keeps(high):
        if high == LARGEST_N:
            raise UnreachableTargetError(
                f"({epsilon:g}, {delta:g})-DP",
                f"not even {high:.2g} people are enough",
                "use a smaller local epsilon or local delta, or a weaker target",
            )
        low, high = high, min(4 * high, LARGEST_N)
    return math.ceil(search.least(keeps, low, high) / crowd.honest_fraction * (1 - 1e-12))


@lru_cache(maxsize=64)  # odds are whole numbers: local epsilons close together have the same law
def _log_excess(once: Profile, rounds: int, epsilon: float, delta: float) -> float:
    """log(delta(epsilon) / delta), a hair before epsilon so that solving for epsilon agrees."""
    curve = once if rounds == 1 else once * rounds
    if curve.local_delta == 0 and epsilon >= curve.local_epsilon:
        return -_FAR_BELOW
    reached = curve.delta(epsilon * (1 - _AGREEMENT))
    return max(math.log(reached / delta) if reached > 0 else -math.inf, -_FAR_BELOW)


def _published(
    bound: str, devices: Devices, people: People, *, delta: float, rounds: int
) -> Guarantee:
    from shoal.accounting import catalog

    entry = catalog.get(bound)
    expected = f"a proved bound ({entry.name} is {entry.status.value}: for comparisons only)"
    checks.refuse(not entry.certified, expected, bound=entry.name)
    local, local_delta = devices.replacement_guarantee
    unsupported = {
        "rounds": rounds if rounds > 1 else None,
        "participation": people.participation if people.participation < 1 else None,
        "local_delta": local_delta or None,
    }
    for name, value in unsupported.items():
        expected = f"no {name} with bound {entry.name} (use {OPTIMAL_CLONES})"
        checks.refuse(value is not None, expected, **{name: value})
    query = catalog.Query(local_epsilon=local, n=people.honest, delta=delta, k=devices.categories)
    reference = devices.profile(people)
    return Guarantee(
        epsilon=entry.epsilon(query),
        delta=delta,
        n=people.honest,
        local_epsilon=local,
        theorem=f"{entry.title}: {entry.citation}",
        assumptions=(entry.scope, *people.assumptions),
        lower_bound=lambda: reference.lower_epsilon(delta),
    )

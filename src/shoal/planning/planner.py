"""Every applicable randomizer at the largest local epsilon its own law allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import cast

from shoal import checks
from shoal.accounting import amplification, search
from shoal.accounting.amplification import local_epsilon
from shoal.accounting.guarantee import default_delta
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.planning import errors
from shoal.planning.errors import Errors
from shoal.planning.plan import Option, Plan, Question
from shoal.protocols.base import Device, MultiMessageMechanism
from shoal.protocols.registry import calibration
from shoal.randomizers.base import (
    AnswerMechanism,
    Mechanism,
    NumberMechanism,
    Randomizer,
    VectorMechanism,
)
from shoal.randomizers.registry import CATEGORIES, by_name
from shoal.randomizers.vectors import LARGEST_DIMENSION

Family = Callable[..., Randomizer]

LARGEST_VECTOR = 10_000  # answers: beyond, a message with a bit per answer is too long
LARGEST_DECODING = 1e10  # reports times answers: beyond, trying every answer takes hours
MOST_COINS = 1_000_000  # answers: beyond, a coin for each of them takes too long
_HASHED = (256, 1024, 4096, 16384, 65536)
_BUCKETS = (2, 4, 8, 16, 64, 256, 1024, 4096)
_FEW_LEVELS = (16, 11, 8, 6, 4, 3, 2, 1)  # more than that, and a split sum needs fewer messages
_LARGEST_ENVELOPE = 20.0  # levels over epsilon: a thousand slots for each of it
_LEVELS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 256, 512)
_LARGEST_N = 10**12
_ALIKE = 1.02
_STRIDE = 2.0  # in logarithms
_FAR = 20.0  # stands for "impossible" in logarithms


def plan(
    *,
    epsilon: float,
    n: int,
    delta: float | None = None,
    categories: int | None = None,
    bounds: tuple[float, float] | None = None,
    dimension: int | None = None,
    norm: float | None = None,
    local_epsilon_cap: float | None = None,
    honest_fraction: float = 1.0,
    participation: float = 1.0,
    messages_cap: float | None = 1.0,
) -> Plan:
    """What each device should run, and how wrong the result will be.

    One of so many ``categories``, a number between ``bounds``, or a vector of ``dimension``
    coordinates: of length 1, or of any length up to ``norm``.

    ``delta`` is min(1e-6, 1/(10 n)) unless it is given. ``messages_cap`` is how many messages one
    person may send on average (None: any number); above 1 it lets in protocols that hide the truth
    among further messages.

    >>> found = plan(epsilon=1, delta=1e-6, n=10**6, categories=100)
    >>> found.recommended.name, found.recommended.errors.l2 < 94
    ('grr', True)
    >>> found = plan(epsilon=1, delta=1e-6, n=10**6, categories=100, messages_cap=2)
    >>> found.recommended.name, found.recommended.errors.l2 < 66
    ('dummies', True)
    """
    n = checks.count(n=n)
    question = Question(
        epsilon=epsilon,
        delta=default_delta(n) if delta is None else delta,
        n=n,
        categories=categories,
        bounds=bounds,
        dimension=dimension,
        norm=norm,
        local_epsilon_cap=local_epsilon_cap,
        honest_fraction=honest_fraction,
        participation=participation,
        messages_cap=messages_cap,
    )
    options, reason = _ranked(_options(question), question)
    if options[0].errors is None:
        advice = "collect more reports or weaken the target"
        if dimension is not None and dimension >= LARGEST_DIMENSION:
            advice = "ask for fewer coordinates"
        raise UnreachableTargetError(
            f"({epsilon:g}, {question.delta:g})-DP with n={n}",
            "; ".join(f"{option.name}: {option.remark}" for option in options),
            advice,
        )
    central = local = None
    if question.categories is not None:
        central = errors.central(question.categories, epsilon)
        local = errors.local(question.categories, epsilon, n)
    return Plan(question, options, central, local, reason)


def messages_limit(messages_cap: float | None, choose: str | None) -> float | None:
    """Messages per person: one, unless more are allowed or an option is chosen by name."""
    return 1.0 if messages_cap is None and choose is None else messages_cap


# ------------------------------------------------------------------------- the other way round


def required_n_for(error: float, **asked: object) -> int:
    """The smallest crowd whose predicted L2 error, as a fraction of it, is at most ``error``.

    Takes the other arguments of :func:`plan`; without ``delta``, that of each crowd.
    """
    checks.positive(error=error)
    log_n = _crossing(
        lambda log_n: _log_excess(error, n=math.ceil(math.exp(log_n)), **asked),
        math.log(16),
        math.log(_LARGEST_N),
    )
    if log_n is None:
        raise UnreachableTargetError(
            f"an error of {error:g}", f"not even {_LARGEST_N:,} people are enough", "allow more"
        )
    return math.ceil(math.exp(log_n))


def required_epsilon_for(error: float, *, n: int, **asked: object) -> float:
    """The smallest epsilon at which n people reach a predicted L2 error of this fraction."""
    checks.positive(error=error)
    log_epsilon = _crossing(
        lambda log_epsilon: _log_excess(error, n=n, **asked | {"epsilon": math.exp(log_epsilon)}),
        math.log(1e-3),
        math.log(16),
    )
    if log_epsilon is None:
        raise UnreachableTargetError(
            f"an error of {error:g}", f"{n:,} people are too few", "collect more reports"
        )
    return math.exp(log_epsilon)


def _crossing(excess: Callable[[float], float], low: float, high: float) -> float | None:
    """Where a falling function reaches 0, from the side where it is <= 0; None if it never does."""
    excess = cache(excess)
    if excess(low) <= 0:
        return low
    strides = math.ceil((high - low) / _STRIDE)
    for start, end in pairwise(
        [low, *(min(high, low + _STRIDE * i) for i in range(1, strides + 1))]
    ):
        if excess(end) <= 0:
            return search.kept(excess, start, end, tolerance=1e-4, step=1e-3)
    return None


def _log_excess(error: float, **asked: object) -> float:
    """log of the predicted error, as a fraction of the crowd, over the one allowed."""
    try:
        made = plan(**asked)  # type: ignore[arg-type]
    except UnreachableTargetError:
        return _FAR
    return math.log(cast("Errors", made.recommended.errors).l2 / made.question.n / error)


# ------------------------------------------------- the randomizers and protocols worth considering


@dataclass(frozen=True)
class Candidate:
    """What makes a randomizer of ``epsilon=``, or the reason why it is out of question.

    A protocol with several messages is calibrated for so many people instead (``protocol``): it is
    made of ``n=``, ``epsilon=`` and ``delta=``.
    """

    name: str
    family: Family | None = None
    remark: str = ""
    largest_epsilon: float = 25.0
    protocol: Callable[..., MultiMessageMechanism] | None = None


def for_categories(k: int, n: int, *, messages_cap: float | None = 1.0) -> list[Candidate]:
    """One of k answers; local hashing with several numbers of buckets; fewest messages first."""
    limited = dict.fromkeys(("subset", "unary", "hashing"), "")
    if k > LARGEST_VECTOR:
        limited["subset"] = limited["unary"] = f"a message of {k:,} bits is too long"
    if n * k > LARGEST_DECODING:
        limited["hashing"] = f"decoding tries {k:,} answers on each of {n:,} reports"
    found = []
    for name in CATEGORIES:
        sizes = [{"buckets": buckets} for buckets in _BUCKETS] if name == "hashing" else [{}]
        if limited.get(name):
            found.append(Candidate(name, remark=limited[name]))
        else:
            found += [Candidate(name, partial(by_name(name), k=k, **size)) for size in sizes]
    if messages_cap is not None and messages_cap <= 1:
        return found
    if k == 2:
        found += [_protocol("near-central"), _protocol("coins")]
    found.append(_protocol("dummies", k=k))
    if k <= MOST_COINS:
        found.append(_protocol("sparse", k=k))
        # Everybody sends about a message per answer: worth a look only where that is allowed.
        if k <= (LARGEST_VECTOR if messages_cap is None else messages_cap):
            found.append(_protocol("zero-sum", k=k))
    if k > n and limited["hashing"]:
        remark = f"decoding tries {k:,} answers on each of {n:,} messages"
        found.append(Candidate("hashed-dummies", remark=remark))
    elif k > n:
        found += [_protocol("hashed-dummies", k=k, buckets=b) for b in _HASHED if b < k]
    return found


def for_numbers(
    low: float, high: float, *, epsilon: float = 1.0, messages_cap: float | None = 1.0
) -> list[Candidate]:
    """A number between bounds; rounding to several numbers of levels; sums by several messages."""
    made = partial(partial, low=low, high=high)
    found = [Candidate(name, made(by_name(name))) for name in ("duchi", "piecewise")]
    # Beyond, the law of Laplace noise has too many atoms that matter to be searched.
    found.append(Candidate("laplace", made(by_name("laplace")), largest_epsilon=8.0))
    rounded = by_name("rounded")
    found += [Candidate("rounded", made(rounded, levels=levels + 1)) for levels in _LEVELS]
    if messages_cap is not None and messages_cap <= 1:
        return found
    most = math.inf if messages_cap is None else messages_cap
    few = [levels for levels in _FEW_LEVELS if levels <= min(most, _LARGEST_ENVELOPE * epsilon)]
    if few:
        central = partial(_near_central_sum, few, most, low=low, high=high)
        found.append(Candidate("near-central-sum", protocol=central))
    else:
        found.append(Candidate("near-central-sum", remark="an envelope would need too many slots"))
    return [*found, _protocol("split-and-mix", low=low, high=high)]


def for_vectors(
    dimension: int, norm: float | None = None, *, messages_cap: float | None = 1.0
) -> list[Candidate]:
    """A vector: of length 1, or no longer than ``norm``, which takes a coordinate more."""
    directions = dimension if norm is None else dimension + 1
    found = [
        Candidate(name, partial(by_name(name), dimension=directions))
        for name in ("privunit", "privunitg")
    ]
    if messages_cap is None or messages_cap > 1:
        # The most that the absolute values of the coordinates add up to.
        bound = math.sqrt(dimension) * (1.0 if norm is None else norm)
        found.append(_protocol("split-and-mix-vectors", dimension=dimension, bound=bound))
    return found


def _protocol(name: str, **parameters: float) -> Candidate:
    return Candidate(name, protocol=partial(calibration(name), **parameters))


def _near_central_sum(few: list[int], most: float, **target: float) -> MultiMessageMechanism:
    """With as many levels as the messages allow: the more of them, the less rounding."""
    for levels in few:
        made = calibration("near-central-sum")(levels=levels, **target)
        if made.messages <= most:
            break
    return made


# --------------------------------------------------------------------------------- their options


def _options(question: Question) -> dict[str, Option]:
    """The best option of each name."""
    cap = question.messages_cap
    if question.categories is not None:
        tried = for_categories(question.categories, question.n, messages_cap=cap)
    elif question.bounds is not None:
        tried = for_numbers(*question.bounds, epsilon=question.epsilon, messages_cap=cap)
    else:
        tried = for_vectors(question.dimension or 0, question.norm, messages_cap=cap)
    best: dict[str, Option] = {}
    for name in dict.fromkeys(candidate.name for candidate in tried):
        # The likeliest first: most others are then seen to be worse without a search.
        likely = max((each.local_epsilon or 0.0 for each in best.values()), default=0.0)
        rivals = [candidate for candidate in tried if candidate.name == name]
        if len(rivals) > 1 and rivals[0].family is not None and 0 < likely < math.inf:
            rivals.sort(key=lambda rival: _predicted_error(rival, likely, question))
        for candidate in rivals:
            known = best.get(name)
            if known is None or not _surely_worse(candidate, known, question):
                option = _option(candidate, question)
                if known is None or _error(option) < _error(known):
                    best[name] = option
    return best


def _error(option: Option) -> float:
    return math.inf if option.errors is None else option.errors.l2


def _surely_worse(candidate: Candidate, known: Option, question: Question) -> bool:
    """Whether no local epsilon that keeps the target makes the candidate better than the option.

    The error falls as the local epsilon grows: at the largest one that is no better than what is
    known, one evaluation of the candidate's law tells whether it can go beyond.
    """
    if candidate.family is None or known.errors is None:
        return False
    target = known.errors.l2

    cap = min(question.local_epsilon_cap or math.inf, candidate.largest_epsilon)
    low = min(question.epsilon, cap)
    if _predicted_error(candidate, cap, question) >= target:
        return True
    if _predicted_error(candidate, low, question) < target:
        return False
    reach = search.largest(
        lambda local: _predicted_error(candidate, local, question) >= target,
        low,
        cap,
        tolerance=1e-3,
    )
    curve = amplification.profile(
        candidate.family(epsilon=reach),
        n=question.n,
        honest_fraction=question.honest_fraction,
        participation=question.participation,
    )
    return curve.delta(question.epsilon) > question.delta


def _predicted_error(candidate: Candidate, local: float, question: Question) -> float:
    """The L2 error of the candidate at this local epsilon; 0 where there is none to predict."""
    try:
        return _predicted(cast("Family", candidate.family)(epsilon=local), question).l2
    except (InvalidArgumentError, UnreachableTargetError):
        return 0.0


def _option(candidate: Candidate, question: Question) -> Option:
    """The candidate at its largest local epsilon, or with its least noise; or why there is none."""
    name, cap, most = candidate.name, question.local_epsilon_cap, question.messages_cap
    made: Device
    try:
        if candidate.protocol is not None:
            crowd = question.crowd
            made = candidate.protocol(
                n=crowd.present, epsilon=question.epsilon, delta=question.delta - 2 * crowd.absence
            )
            local = made.local_epsilon
        elif candidate.family is not None:
            local = local_epsilon(
                candidate.family,
                epsilon=question.epsilon,
                delta=question.delta,
                n=question.n,
                honest_fraction=question.honest_fraction,
                participation=question.participation,
                cap=min(cap or math.inf, candidate.largest_epsilon),
            )
            made = candidate.family(epsilon=local)
        else:
            return Option(name, remark=candidate.remark)
    except (InvalidArgumentError, UnreachableTargetError) as error:
        return Option(name, remark=str(error))
    if most is not None and made.messages > most:
        sent = f"{made.messages:.4g} messages per person on average"
        return Option(name, remark=f"{sent} are over the cap of {most:g}")
    if cap is not None and local > cap:
        remark = f"one of its messages is the truth: no ε0, let alone one below {cap:g}"
        return Option(name, remark=remark)
    return Option(name, made, local, _predicted(made, question))


def _predicted(randomizer: Mechanism, question: Question) -> Errors:
    """Errors for all n people, scaled up from those who take part."""
    reporting = max(1, math.floor(question.n * question.participation))
    if isinstance(randomizer, AnswerMechanism):
        found = errors.of_categories(randomizer, reporting)
        spread = 1 - 1 / randomizer.k  # of one person's answer, over all answers together
    elif isinstance(randomizer, NumberMechanism):
        found = errors.of_numbers(randomizer, reporting)
        spread = ((randomizer.high - randomizer.low) / 2) ** 2
    else:
        vectors = cast("VectorMechanism", randomizer)
        found = errors.of_vectors(vectors, reporting, question.ball)
        spread = (question.norm or 1.0) ** 2
    return found.scaled_up(question.n, reporting, spread)


def _ranked(best: dict[str, Option], question: Question) -> tuple[tuple[Option, ...], str]:
    """Smallest L2 error first, impossible ones last, and why the first is the first.

    Among those within 2 % of the smallest error the one that sends least comes first.
    """
    ordered = sorted(best.values(), key=_error)
    alike = [option for option in ordered if _error(option) <= _ALIKE * _error(ordered[0])]
    simplest = list(best)  # the candidates come simplest first
    first = min(
        alike,
        key=lambda option: (round(option.bits or math.inf, 3), simplest.index(option.name)),
    )
    others = [option for option in ordered if option is not first]
    cap = question.local_epsilon_cap
    if not others or others[0].errors is None:
        return (first, *others), "it is the only one possible"
    second, ratio = others[0].name, _error(others[0]) / _error(first)
    if ratio <= _ALIKE:
        why = f"it sends least of those with the smallest error ({second} ties)"
    else:
        why = f"its error is the smallest: {second}, the next, has {ratio:.2f} times as much"
    if cap is not None and first.local_epsilon is not None and first.local_epsilon >= cap:
        why += f"; the cap on ε0 binds, so that less than ε = {question.epsilon:g} is used"
    return (first, *others), why

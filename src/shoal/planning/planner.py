"""Every applicable randomizer at the largest local epsilon its own law allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import cast

from scipy import optimize

from shoal import checks
from shoal.accounting.amplification import local_epsilon
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.planning import candidates, errors
from shoal.planning.candidates import Calibration, Candidate
from shoal.planning.errors import Errors
from shoal.planning.plan import Option, Plan, Question
from shoal.randomizers.base import AnswerMechanism, Mechanism, NumberMechanism, VectorMechanism
from shoal.randomizers.vectors import LARGEST_DIMENSION

_LARGEST_N = 10**12
_SEARCH_TOLERANCE = 1e-3
_ALIKE = 1.02
_STRIDE = 2.0  # in logarithms
_FAR = 20.0  # stands for "impossible" in logarithms


def plan(
    *,
    epsilon: float,
    n: int,
    delta: float = 1e-6,
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

    ``messages_cap`` is how many messages one person may send on average (None: any number); above
    1 it lets in protocols that hide the truth among further messages.

    >>> found = plan(epsilon=1, delta=1e-6, n=10**6, categories=100)
    >>> found.recommended.name, found.recommended.errors.l2 < 94
    ('grr', True)
    >>> found = plan(epsilon=1, delta=1e-6, n=10**6, categories=100, messages_cap=2)
    >>> found.recommended.name, found.recommended.errors.l2 < 66
    ('dummies', True)
    """
    question = Question(
        epsilon=epsilon,
        delta=delta,
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
    options = _ordered(_option(candidate, question) for candidate in _candidates(question))
    if options[0].errors is None:
        raise UnreachableTargetError(
            f"({epsilon:g}, {delta:g})-DP with n={question.n}",
            "; ".join(f"{option.name}: {option.remark}" for option in options),
            _advice(question),
        )
    return Plan(question, options, *_references(question), _reason(options, question))


def messages_limit(messages_cap: float | None, choose: str | None) -> float | None:
    """Messages per person: one, unless more are allowed or an option is chosen by name."""
    return 1.0 if messages_cap is None and choose is None else messages_cap


def _advice(question: Question) -> str:
    """What to do if nothing is possible."""
    if question.dimension is not None and question.dimension >= LARGEST_DIMENSION:
        return "ask for fewer coordinates"
    return "collect more reports or weaken the target"


def required_n_for(error: float, **asked: object) -> int:
    """The smallest crowd whose predicted L2 error, as a share of the crowd, is at most ``error``.

    Takes the other arguments of :func:`plan`.
    """
    checks.positive(error=error)

    def excess(log_n: float) -> float:
        return _log_excess(math.ceil(math.exp(log_n)), asked, error)

    found = _crossing(excess, math.log(16), math.log(_LARGEST_N))
    if found is None:
        raise UnreachableTargetError(
            f"an error of {error:g}", f"not even {_LARGEST_N:,} people are enough", "allow more"
        )
    return math.ceil(math.exp(found))


def required_epsilon_for(error: float, *, n: int, **asked: object) -> float:
    """The smallest epsilon at which n people reach a predicted L2 error of this share."""
    checks.positive(error=error)

    def excess(log_epsilon: float) -> float:
        return _log_excess(n, {**asked, "epsilon": math.exp(log_epsilon)}, error)

    found = _crossing(excess, math.log(1e-3), math.log(16))
    if found is None:
        raise UnreachableTargetError(
            f"an error of {error:g}", f"{n:,} people are too few", "collect more reports"
        )
    return math.exp(found)


def _crossing(excess: Callable[[float], float], low: float, high: float) -> float | None:
    """Where a falling function reaches 0, from the side where it is <= 0; None if it never does."""
    seen = cache(excess)
    if seen(low) <= 0:
        return low
    while low < high:
        ahead = min(low + _STRIDE, high)
        if seen(ahead) <= 0:
            root = float(optimize.brentq(seen, low, ahead, xtol=_SEARCH_TOLERANCE))
            while seen(root) > 0:
                root += _SEARCH_TOLERANCE
            return root
        low = ahead
    return None


def _log_excess(n: int, asked: dict[str, object], error: float) -> float:
    """log of the predicted share of error over the one allowed."""
    found = _share_error(n, asked)
    return math.log(found / error) if math.isfinite(found) else _FAR


def _share_error(n: int, asked: dict[str, object]) -> float:
    try:
        best = plan(n=n, **asked).recommended.errors  # type: ignore[arg-type]
    except UnreachableTargetError:
        return math.inf
    return math.inf if best is None else best.l2 / n


def _candidates(question: Question) -> list[Candidate]:
    cap = question.messages_cap
    several = cap is None or cap > 1
    if question.categories is not None:
        k, n = question.categories, question.n
        found = candidates.for_categories(k, n)
        return found + (candidates.with_messages(k, n, cap=cap) if several else [])
    if question.bounds is not None:
        found = candidates.for_numbers(*question.bounds)
        if several:
            epsilon = question.epsilon
            found += candidates.sums_with_messages(question.bounds, epsilon=epsilon, cap=cap)
        return found
    d, ball = question.dimension or 0, question.ball
    found = candidates.for_vectors(d if ball is None else d + 1)
    bound = math.sqrt(d) if ball is None else ball.bound
    return found + (candidates.vectors_with_messages(d, bound) if several else [])


def _protocol_option(calibration: Calibration, name: str, question: Question) -> Option:
    """The least noise that the honest people need, if they may send so many messages."""
    cap, crowd = question.local_epsilon_cap, question.crowd
    try:
        protocol = calibration(
            n=crowd.present, epsilon=question.epsilon, delta=question.delta - 2 * crowd.absence
        )
    except (InvalidArgumentError, UnreachableTargetError) as error:
        return Option(name, None, None, None, str(error))
    refused = ""
    if question.messages_cap is not None and protocol.messages > question.messages_cap:
        refused = (
            f"{protocol.messages:.4g} messages per person on average are over the cap of "
            f"{question.messages_cap:g}"
        )
    elif cap is not None and protocol.local_epsilon > cap:
        refused = f"one of its messages is the truth: no ε0, let alone one below {cap:g}"
    if refused:
        return Option(name, None, None, None, refused)
    return Option(name, protocol, protocol.local_epsilon, _predicted(protocol, question))


def _option(candidate: Candidate, question: Question) -> Option:
    if candidate.calibration is not None:
        return _protocol_option(candidate.calibration, candidate.name, question)
    if candidate.family is None:
        return Option(candidate.name, None, None, None, candidate.remark)
    cap = min(question.local_epsilon_cap or math.inf, candidate.largest_epsilon)
    try:
        local = local_epsilon(
            candidate.family,
            epsilon=question.epsilon,
            delta=question.delta,
            n=question.n,
            honest_fraction=question.honest_fraction,
            participation=question.participation,
            cap=cap,
        )
        randomizer = candidate.family(epsilon=local)
    except (InvalidArgumentError, UnreachableTargetError) as error:
        return Option(candidate.name, None, None, None, str(error))
    return Option(candidate.name, randomizer, local, _predicted(randomizer, question))


def _predicted(randomizer: Mechanism, question: Question) -> Errors:
    """Errors for all n people, scaled up from those who take part."""
    share = question.participation
    reporting = max(1, math.floor(question.n * share))
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


def _ordered(options: Iterable[Option]) -> tuple[Option, ...]:
    """The best of each name, smallest L2 error first, impossible ones last.

    Among those within 2 % of the smallest error the one that sends least comes first.
    """

    def error(option: Option) -> float:
        return math.inf if option.errors is None else option.errors.l2

    best: dict[str, Option] = {}
    for option in options:
        if option.name not in best or error(option) < error(best[option.name]):
            best[option.name] = option
    ordered = sorted(best.values(), key=error)
    alike = [option for option in ordered if error(option) <= _ALIKE * error(ordered[0])]
    simplest = list(best)  # the candidates come simplest first
    first = min(
        alike,
        key=lambda option: (round(option.bits or math.inf, 3), simplest.index(option.name)),
    )
    return (first, *(option for option in ordered if option is not first))


def _references(question: Question) -> tuple[Errors | None, Errors | None]:
    if question.categories is None:
        return None, None
    k, epsilon = question.categories, question.epsilon
    return errors.central(k, epsilon), errors.local(k, epsilon, question.n)


def _reason(options: tuple[Option, ...], question: Question) -> str:
    best = options[0]
    rivals = [option for option in options[1:] if option.errors is not None]
    if best.errors is None or not rivals:
        return "it is the only one possible"
    second = rivals[0]
    ratio = second.errors.l2 / best.errors.l2 if second.errors else math.inf
    if ratio <= _ALIKE:
        why = f"it sends least of those with the smallest error ({second.name} ties)"
    else:
        why = f"its error is the smallest: {second.name}, the next, has {ratio:.2f} times as much"
    cap = question.local_epsilon_cap
    if cap is not None and best.local_epsilon is not None and best.local_epsilon >= cap:
        why += f"; the cap on ε0 binds, so that less than ε = {question.epsilon:g} is used"
    return why

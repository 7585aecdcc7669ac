"""Choosing the device and the coin for a test: every family, calibrated, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Unpack

import numpy.typing as npt
from scipy import optimize, stats

from shoal.accounting.amplification import local_epsilon
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.protocols.base import Device
from shoal.protocols.dummies import UniformDummies
from shoal.protocols.registry import described
from shoal.randomizers.base import source
from shoal.randomizers.registry import CATEGORIES, by_name
from shoal.randomness import Randomness
from shoal.testing import rates
from shoal.testing.layouts import (
    LARGEST_LOCAL_EPSILON,
    one_message_devices,
    several_messages_devices,
)
from shoal.testing.question import Question, Wishes, hypothesis
from shoal.testing.tester import Tester

TARGET_POWER = 0.95
PRIVATE = ("grr", "hadamard")
ONE_MESSAGE = "partitioned"
SEVERAL_MESSAGES = "partitioned-dummies"
DUMMIES = "dummies"
PUBLIC = (ONE_MESSAGE, SEVERAL_MESSAGES)
NAMES = (*PRIVATE, "projective", DUMMIES, *PUBLIC)
_LARGEST_N = 10**13
_CLOSE = 2e-3  # of n: how precisely a required n is found
_SURE = 1e-12
_TIGHTENED = 0.999  # of what is left for one of two batches, when both cost a little too much
_TRIES = 8
_ALIKE = 0.02  # of power: what public coins, or more messages, have to gain to be worth it
_HOPELESS = 2.0  # times the level: a power below this says nothing
_COINS = 1 << 48

Family = Callable[[Question], list[Device]]


@dataclass(frozen=True, eq=False)
class Option:
    """One way to run a test. Without a device it is impossible, and ``remark`` says why."""

    name: str
    coin: str
    question: Question = field(repr=False)
    device: Device | None = None
    power: float = 0.0
    remark: str = ""

    @property
    def local_epsilon(self) -> float | None:
        """What one person's messages reveal by themselves (infinite for several messages)."""
        return None if self.device is None else self.device.local_epsilon

    @property
    def messages(self) -> float | None:
        """Expected messages of one person."""
        return None if self.device is None else self.device.messages

    @cached_property
    def required_n(self) -> int | None:
        """People with whom this way has a predicted power of 0.95; None if it never has.

        Bins and partitions stay as they are; epsilon and the noise are made for those people.
        """
        if self.device is None:
            return None
        fixed = self._as_laid_out()
        return least_n(lambda n: _best_option(self.name, replace(fixed, n=n)).power, guess=fixed.n)

    def tester(self) -> Tester:
        """The test that this option is.

        Where people may be in both batches, what one of them may cost was estimated; here the two
        are composed, and the noise is raised if they cost more than they may.
        """
        epsilon, option = self.question.epsilon, self
        for _ in range(_TRIES):
            if option.device is None:
                raise UnreachableTargetError(
                    f"a test with {self.name}", option.remark, "choose another way, or ask for less"
                )
            made = tester(option.device, self.question)
            if not self.question.overlapping or made.guarantee.epsilon <= epsilon:
                return made
            option = option._tightened(epsilon / made.guarantee.epsilon)
        raise UnreachableTargetError(
            f"({epsilon:g}, {self.question.delta:g})-DP for people in both batches",
            f"{self.name} costs them more",
            "ask for a smaller delta, or compare people who are in one batch only",
        )

    def _tightened(self, factor: float) -> Option:
        """The same way and layout with less for one batch."""
        return _best_option(
            self.name,
            replace(self._as_laid_out(), tightened=self.question.tightened * factor * _TIGHTENED),
        )

    def _as_laid_out(self) -> Question:
        return replace(
            self.question,
            symbols=getattr(self.device, "symbols", None),
            partitions=getattr(self.device, "partitions", None),
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        local = self.local_epsilon
        return {
            "name": self.name,
            "coin": self.coin,
            "device": None if self.device is None else described(self.device),
            "local_epsilon": None if local is None or math.isinf(local) else local,
            "messages": self.messages,
            "power": None if self.device is None else self.power,
            "remark": self.remark,
        }


def tester(device: Device, question: Question) -> Tester:
    """The test of a question by this device."""
    return Tester(
        device=device,
        reference=question.reference,
        n=question.n,
        distance=question.distance,
        level=question.level,
        delta=question.delta,
        honest_fraction=question.honest_fraction,
        closeness=question.closeness,
        overlapping=question.overlapping,
    )


def names(question: Question) -> tuple[str, ...]:
    """The ways worth considering, simplest first."""
    if question.randomizer is not None:
        return (_checked_name(question),)
    one_only = question.closeness or question.messages_cap == 1
    families: list[str] = []
    if question.coin != "public" and question.partitions is None and question.symbols is None:
        families += [*PRIVATE, *([] if one_only else [DUMMIES])]
    if question.coin != "private":
        families += [ONE_MESSAGE, *([] if one_only else [SEVERAL_MESSAGES])]
    return tuple(families)


def _checked_name(question: Question) -> str:
    name = question.randomizer
    if name not in {*CATEGORIES, *NAMES}:
        raise InvalidArgumentError("randomizer", name, f"one of {', '.join(NAMES)}")
    coin = "public" if name in PUBLIC else "private"
    if question.coin not in {"auto", coin}:
        expected = f"coin {coin} or auto with {name}"
        raise InvalidArgumentError("coin", question.coin, expected)
    for field_name in ("partitions", "symbols"):
        value = getattr(question, field_name)
        if value is not None and coin == "private":
            expected = f"no {field_name} with {name} (use {' or '.join(PUBLIC)})"
            raise InvalidArgumentError(field_name, value, expected)
    if question.closeness and name in {DUMMIES, SEVERAL_MESSAGES}:
        expected = (
            "a randomizer with one message for closeness (the several messages of one person are "
            "not exchangeable, so two batches of them cannot be split anew)"
        )
        raise InvalidArgumentError("randomizer", name, expected)
    return str(name)


def _best_option(name: str, question: Question) -> Option:
    """The best that this family can do, or why it can do nothing."""
    coin = "public" if name in PUBLIC else "private"
    empty = Option(name, coin, question)
    try:
        made = [tester(device, question) for device in _family(name)(question)]
        powers = {each.device: each.power() for each in made}
    except ShoalError as error:
        return replace(empty, remark=str(error))
    cap = question.messages_cap
    within = [
        each for each in made if cap is None or each.device.messages <= max(cap, 1.0) * (1 + _SURE)
    ]
    if not within:
        fewest = min((each.device.messages for each in made), default=math.inf)
        remark = f"{fewest:.4g} messages per person on average are over the cap of {cap:g}"
        return replace(empty, remark=remark)
    best = max((each.device for each in within), key=powers.__getitem__)
    return replace(empty, device=best, power=powers[best])


def _family(name: str) -> Family:
    if name == ONE_MESSAGE:
        return one_message_devices
    if name == SEVERAL_MESSAGES:
        return several_messages_devices
    return _dummies if name == DUMMIES else partial(_randomizer, name)


def _randomizer(name: str, question: Question) -> list[Device]:
    family = partial(by_name(name), k=question.k)
    epsilon0 = local_epsilon(
        family,
        epsilon=question.batch_epsilon,
        delta=question.delta,
        n=question.n,
        honest_fraction=question.honest_fraction,
        cap=LARGEST_LOCAL_EPSILON,
    )
    return [family(epsilon=epsilon0)]


def _dummies(question: Question) -> list[Device]:
    honest = question.crowd.honest
    made = UniformDummies.calibrated(
        k=question.k, n=honest, epsilon=question.batch_epsilon, delta=question.delta
    )
    return [made]


def least_n(
    power: Callable[[int], float], *, guess: int, target: float = TARGET_POWER
) -> int | None:
    """The least n, to 0.2 %, whose power is the target; None above 10^13."""
    aim = float(stats.norm.ppf(target))
    seen: dict[int, float] = {}

    def excess(log_n: float) -> float:
        n = max(2, math.ceil(math.exp(log_n)))
        if n not in seen:
            reached = min(max(power(n), _SURE), 1 - _SURE)
            seen[n] = float(stats.norm.ppf(reached)) - aim
        return seen[n]

    low = high = math.log(max(2, guess))
    while excess(high) < 0:
        low, high = high, high + math.log(2)
        if high > math.log(_LARGEST_N):
            return None
    while excess(low) >= 0:
        if low <= math.log(2):
            return 2
        low, high = max(low - math.log(2), math.log(2)), low
    root = float(optimize.brentq(excess, low, high, xtol=_CLOSE))
    enough = [n for n, surplus in seen.items() if surplus >= 0]
    near = math.ceil(math.exp(root + _CLOSE))
    return min([n for n in enough if n >= math.exp(root - _CLOSE)] or [near])


def first_guess(question: Question) -> int:
    """Where to start looking for n."""
    guess = rates.sample_size(
        k=question.k,
        distance=question.distance,
        epsilon=question.batch_epsilon,
        delta=question.delta,
    )
    return min(guess, _LARGEST_N)


# --------------------------------------------------------------------------------------- the design


@dataclass(frozen=True, eq=False)
class Design:
    """Ways to run a test, best first."""

    question: Question
    options: tuple[Option, ...]
    reason: str

    @property
    def recommended(self) -> Option:
        """The first option."""
        return self.options[0]

    def option(self, name: str) -> Option:
        """The option of this name."""
        for option in self.options:
            if option.name == name:
                return option
        expected = f"one of {', '.join(option.name for option in self.options)}"
        raise InvalidArgumentError("option", name, expected)

    def tester(self, option: Option | str | None = None) -> Tester:
        """The test of an option, if it can notice what it shall notice."""
        chosen = self.option(option) if isinstance(option, str) else option or self.recommended
        made = chosen.tester()
        level = self.question.level
        tried = [chosen] if option else sorted(self.options, key=lambda each: -each.power)
        best = tried[0]
        if best.power < min(_HOPELESS * level, (1 + level) / 2):
            # What is best with few people may never be good: few public bins hide some departures.
            enough = (each.required_n for each in tried)
            needed = next((number for number in enough if number is not None), None)
            advice = "ask for a larger distance"
            if needed is not None:
                advice = f"about {needed:,} people are needed, or a larger distance or epsilon"
            raise UnreachableTargetError(
                f"a distance of {self.question.distance:g}",
                f"{self.question.n:,} people would notice it with probability {best.power:.2f}, "
                f"at level {level:g}",
                advice,
            )
        return made

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "question": self.question.to_dict(),
            "recommended": self.recommended.name,
            "reason": self.reason,
            "options": [option.to_dict() for option in self.options],
        }


def design(
    *,
    n: int,
    epsilon: float,
    distance: float,
    k: int | None = None,
    reference: npt.ArrayLike | None = None,
    coins: int | None = None,
    closeness: bool = False,
    overlapping: bool = False,
    **wishes: Unpack[Wishes],
) -> Design:
    """The ways to notice a total variation ``distance`` from uniform on k answers, or a reference.

    ``wishes`` are delta (1e-6), level (0.05), coin ("auto", "private" or "public"), messages_cap
    (1), randomizer (a name), partitions, symbols and honest_fraction (1).

    Every way keeps (epsilon, delta) among n people, of whom ``honest_fraction`` follow the
    protocol; they are ranked by their predicted power at ``level``, each against the distribution
    at the distance that is hardest for it to notice. Public coins, or several
    messages (allowed by a ``messages_cap`` above 1; None is no cap), have to gain two points of
    power over something simpler to come first. ``coins`` fixes the public partitions; by default
    they are drawn at random, as they have to be for the power to hold against any distribution.
    ``closeness`` asks whether two batches of n people each agree. Nobody is in both of them, unless
    they are ``overlapping``: epsilon is then what two reports of one person cost together.

    >>> plan = design(n=60_000, epsilon=0.25, distance=0.1, k=1024, coin="private")
    >>> plan.recommended.name, round(plan.recommended.power, 2)
    ('grr', 1.0)
    """
    question = Question(
        n=n,
        epsilon=epsilon,
        distance=distance,
        reference=hypothesis(k, reference),
        coins=fresh_coins() if coins is None else coins,
        closeness=closeness,
        overlapping=overlapping,
        **wishes,
    )
    _ = question.crowd  # refused here: no way to run the test would have an honest person more
    return answered(question)


def fresh_coins(randomness: Randomness | None = None) -> int:
    """Public coins that no distribution can have been made for."""
    return int(source(randomness).below(_COINS, 1)[0])


def answered(question: Question) -> Design:
    """All options of a question, in order."""
    simplest = [_best_option(name, question) for name in names(question)]
    ordered = sorted(simplest, key=lambda option: -option.power)
    alike = [option for option in simplest if option.power >= ordered[0].power - _ALIKE]
    first = next((option for option in alike if option.device is not None), ordered[0])
    rest = [option for option in ordered if option is not first]
    return Design(question, (first, *rest), _reason(first, rest))


def required_n(
    *,
    epsilon: float,
    distance: float,
    power: float = 0.95,
    k: int | None = None,
    reference: npt.ArrayLike | None = None,
    coins: int | None = None,
    closeness: bool = False,
    overlapping: bool = False,
    **wishes: Unpack[Wishes],
) -> int:
    """How many people (in each batch, for closeness) give the best way this predicted power.

    The power is that against the hardest distribution at the distance. Takes the other arguments of
    :func:`design`.

    >>> required_n(k=64, epsilon=1.0, distance=0.1, coin="private")
    2837
    """
    question = Question(
        n=2,
        epsilon=epsilon,
        distance=distance,
        reference=hypothesis(k, reference),
        coins=fresh_coins() if coins is None else coins,
        closeness=closeness,
        overlapping=overlapping,
        **wishes,
    )
    level = question.level
    if not level < power < 1:
        raise InvalidArgumentError("power", power, f"level = {level:g} < power < 1")
    return _fewest(question, power)


def _fewest(question: Question, power: float) -> int:
    """Solve for the way that looks best, then for any that beats it there."""
    pending = list(names(question))
    best = first_guess(question)
    known: int | None = None
    while pending:
        here = replace(question, n=best)
        reached = {name: _best_option(name, here).power for name in pending}
        name = max(pending, key=reached.__getitem__)
        if known is not None and reached[name] <= power:
            break
        pending.remove(name)
        fewest = least_n(
            lambda n, name=name: _best_option(name, replace(question, n=n)).power,  # type: ignore[misc]
            guess=best,
            target=power,
        )
        if fewest is not None:
            known = best = fewest if known is None else min(known, fewest)
    if known is None:
        raise UnreachableTargetError(
            f"power {power:g} at a distance of {question.distance:g}",
            "not even 10^13 people are enough",
            "ask for a larger distance or epsilon"
            + (", or private coins" if question.coin == "public" else ""),
        )
    return known


def _reason(first: Option, rest: list[Option]) -> str:
    if first.device is None:
        return "none is possible"
    rivals = [option for option in rest if option.device is not None]
    if not rivals:
        return "it is the only one possible"
    second = max(rivals, key=lambda option: option.power)
    gain = first.power - second.power
    if gain < 0:
        return (
            f"{second.name} would gain {max(-gain, 0):.3f} of power only, which is not worth "
            + ("public coins" if second.coin != first.coin else "what it costs")
        )
    if gain <= _ALIKE:
        return f"it is the simplest of those with the most power ({second.name} comes close)"
    return f"its power is the largest: {first.power:.2f}, and {second.name} has {second.power:.2f}"

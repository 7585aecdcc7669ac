"""Choosing the device and the coin for a test: every family, calibrated, and the best of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property, partial
from typing import Any, Unpack

import numpy.typing as npt
from scipy import stats

from shoal import checks
from shoal.accounting import search
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.protocols.base import Device
from shoal.protocols.dummies import UniformDummies
from shoal.randomizers.base import source
from shoal.randomizers.registry import CATEGORIES, by_name, described
from shoal.randomness import Randomness
from shoal.testing import rates
from shoal.testing.layouts import calibrated, one_message_devices, several_messages_devices
from shoal.testing.question import Question, Test, Wishes, hypothesis
from shoal.testing.tester import ONE_MESSAGE_EACH, Tester
from shoal.values import attributes

TARGET_POWER = 0.95
DUMMIES = "dummies"
# Public coins, one message each or several.
PUBLIC = ONE_MESSAGE, SEVERAL_MESSAGES = ("partitioned", "partitioned-dummies")
_SEVERAL = (DUMMIES, SEVERAL_MESSAGES)
NAMES = ("grr", "hadamard", "projective", DUMMIES, *PUBLIC)
_LARGEST_N = 10**13
_CLOSE = 2e-3  # of n: how precisely a required n is found
_SURE = 1e-12
_TIGHTENED = 0.999  # of what is left for one of two batches, when both cost a little too much
_TRIES = 8
_ALIKE = 0.02  # of power: what public coins, or more messages, have to gain to be worth it
_HOPELESS = 2.0  # times the level: a power below this says nothing
_COINS = 1 << 48


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
        return _least_n(self.name, self._as_laid_out(), self.question.n, TARGET_POWER)

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
            # The same way and layout, with less for one batch.
            tightened = option.question.tightened * (epsilon / made.guarantee.epsilon) * _TIGHTENED
            option = _best_option(self.name, replace(option._as_laid_out(), tightened=tightened))
        raise UnreachableTargetError(
            f"({epsilon:g}, {self.question.delta:g})-DP for people in both batches",
            f"{self.name} costs them more",
            "ask for a smaller delta, or compare people who are in one batch only",
        )

    def _as_laid_out(self) -> Question:
        symbols, partitions = (getattr(self.device, x, None) for x in ("symbols", "partitions"))
        return replace(self.question, symbols=symbols, partitions=partitions)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        local, device = self.local_epsilon, self.device
        return attributes(self, "name", "coin") | {
            "device": None if device is None else described(device),
            "local_epsilon": None if local is None or math.isinf(local) else local,
            "messages": self.messages,
            "power": None if device is None else self.power,
            "remark": self.remark,
        }


def tester(device: Device, question: Question) -> Tester:
    """The test of a question by this device."""
    return Tester(device=device, **attributes(question, *(each.name for each in fields(Test))))


def names(question: Question) -> tuple[str, ...]:
    """The ways worth considering, simplest first."""
    if question.randomizer is not None:
        return (_checked_name(question),)
    one_only = question.closeness or question.messages_cap == 1
    families: list[str] = []
    if question.coin != "public" and question.partitions is None and question.symbols is None:
        families += ["grr", "hadamard", DUMMIES]
    if question.coin != "private":
        families += PUBLIC
    return tuple(name for name in families if not (one_only and name in _SEVERAL))


def _checked_name(question: Question) -> str:
    name = question.randomizer
    public = name in PUBLIC
    checks.refuse(name not in {*CATEGORIES, *NAMES}, f"one of {', '.join(NAMES)}", randomizer=name)
    coin, coins = question.coin, "public" if public else "private"
    checks.refuse(coin not in {"auto", coins}, f"coin {coins} or auto with {name}", coin=coin)
    for field_name in ("partitions", "symbols"):
        value = getattr(question, field_name)
        expected = f"no {field_name} with {name} (use {' or '.join(PUBLIC)})"
        checks.refuse(value is not None and not public, expected, **{field_name: value})
    several = question.closeness and name in _SEVERAL
    checks.refuse(several, f"a randomizer {ONE_MESSAGE_EACH}", randomizer=name)
    return str(name)


def _best_option(name: str, question: Question) -> Option:
    """The best that this family can do, or why it can do nothing."""
    coin = "public" if name in PUBLIC else "private"
    empty = Option(name, coin, question)
    try:
        powers = {each: tester(each, question).power() for each in _devices(name, question)}
    except ShoalError as error:
        return replace(empty, remark=str(error))
    cap = question.messages_cap
    most = math.inf if cap is None else max(cap, 1.0) * (1 + _SURE)
    within = [device for device in powers if device.messages <= most]
    if not within:
        fewest = min((device.messages for device in powers), default=math.inf)
        remark = f"{fewest:.4g} messages per person on average are over the cap of {cap:g}"
        return replace(empty, remark=remark)
    best = max(within, key=powers.__getitem__)
    return replace(empty, device=best, power=powers[best])


def _devices(name: str, question: Question) -> list[Device]:
    """Those of a family that are worth a try."""
    if name == ONE_MESSAGE:
        return one_message_devices(question)
    if name == SEVERAL_MESSAGES:
        return several_messages_devices(question)
    if name == DUMMIES:
        honest, epsilon = question.crowd.honest, question.batch_epsilon
        return [
            UniformDummies.calibrated(k=question.k, n=honest, epsilon=epsilon, delta=question.delta)
        ]
    family = partial(by_name(name), k=question.k)
    return [family(epsilon=calibrated(family, question))]


def _least_n(name: str, question: Question, guess: int, target: float) -> int | None:
    """The least n, to 0.2 %, whose power with this family is the target; None above 10^13."""
    aim = float(stats.norm.ppf(target))

    def people(log_n: float) -> int:
        return max(2, math.ceil(math.exp(log_n)))

    @cache
    def surplus(n: int) -> float:
        power = _best_option(name, replace(question, n=n)).power
        return float(stats.norm.ppf(min(max(power, _SURE), 1 - _SURE))) - aim

    def excess(log_n: float) -> float:
        return surplus(people(log_n))

    low = high = math.log(max(2, guess))
    while excess(high) < 0:
        low, high = high, high + math.log(2)
        if high > math.log(_LARGEST_N):
            return None
    while excess(low) >= 0:
        if low <= math.log(2):
            return 2
        low, high = max(low - math.log(2), math.log(2)), low
    return people(search.reached(excess, low, high, tolerance=_CLOSE))


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
    kind = {"closeness": closeness, "overlapping": overlapping}
    target = {"n": n, "epsilon": epsilon, "distance": distance}
    question = _question(k, reference, coins, **target, **kind, **wishes)
    _ = question.crowd  # refused here: no way to run the test would have an honest person more
    simplest = [_best_option(name, question) for name in names(question)]
    ordered = sorted(simplest, key=lambda option: -option.power)
    alike = [option for option in simplest if option.power >= ordered[0].power - _ALIKE]
    first = next((option for option in alike if option.device is not None), ordered[0])
    rest = [option for option in ordered if option is not first]
    return Design(question, (first, *rest), _reason(first, rest))


def _question(
    k: int | None,
    reference: npt.ArrayLike | None,
    coins: int | None,
    **wishes: Any,  # noqa: ANN401 - the fields of a question
) -> Question:
    coins = fresh_coins() if coins is None else coins
    return Question(reference=hypothesis(k, reference), coins=coins, **wishes)


def fresh_coins(randomness: Randomness | None = None) -> int:
    """Public coins that no distribution can have been made for."""
    return int(source(randomness).below(_COINS, 1)[0])


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
    kind = {"closeness": closeness, "overlapping": overlapping}
    target = {"n": 2, "epsilon": epsilon, "distance": distance}
    question = _question(k, reference, coins, **target, **kind, **wishes)
    level = question.level
    checks.refuse(not level < power < 1, f"level = {level:g} < power < 1", power=power)
    # Solve for the way that looks best, then for any that beats it there.
    pending = list(names(question))
    price = {"epsilon": question.batch_epsilon, "delta": question.delta}
    guess = rates.sample_size(k=question.k, distance=distance, **price)
    best, known = min(guess, _LARGEST_N), None
    while pending:
        here = replace(question, n=best)
        powers = {name: _best_option(name, here).power for name in pending}
        name = max(pending, key=powers.__getitem__)
        if known is not None and powers[name] <= power:
            break
        pending.remove(name)
        fewest = _least_n(name, question, best, power)
        if fewest is not None:
            known = best = fewest if known is None else min(known, fewest)
    if known is None:
        raise UnreachableTargetError(
            f"power {power:g} at a distance of {distance:g}",
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

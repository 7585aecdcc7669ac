"""Ways to run a test: every family of devices, calibrated for the question."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from scipy import optimize, stats

from shoal.accounting.amplification import local_epsilon
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.protocols.base import Device
from shoal.protocols.dummies import UniformDummies
from shoal.protocols.registry import described
from shoal.randomizers.registry import CATEGORIES, by_name
from shoal.testing import rates
from shoal.testing.layouts import one_message_devices, several_messages_devices
from shoal.testing.question import Question
from shoal.testing.tester import Tester

TARGET_POWER = 0.95
LARGEST_LOCAL_EPSILON = 25.0
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
        return least_n(lambda n: option(self.name, replace(fixed, n=n)).power, guess=fixed.n)

    def tester(self) -> Tester:
        """The test that this option is.

        Where people may be in both batches, what one of them may cost was estimated; here the two
        are composed, and the noise is raised if they cost more than they may.
        """
        asked, found = self.question.epsilon, self
        for _ in range(_TRIES):
            if found.device is None:
                raise UnreachableTargetError(
                    f"a test with {self.name}", found.remark, "choose another way, or ask for less"
                )
            made = tester(found.device, self.question)
            if not self.question.overlapping or made.guarantee.epsilon <= asked:
                return made
            found = found._tightened(asked / made.guarantee.epsilon)
        raise UnreachableTargetError(
            f"({asked:g}, {self.question.delta:g})-DP for people in both batches",
            f"{self.name} costs them more",
            "ask for a smaller delta, or compare people who are in one batch only",
        )

    def _tightened(self, factor: float) -> Option:
        """The same way and layout with less for one batch."""
        return option(
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
    found: list[str] = []
    if question.coin != "public" and question.partitions is None and question.symbols is None:
        found += [*PRIVATE, *([] if one_only else [DUMMIES])]
    if question.coin != "private":
        found += [ONE_MESSAGE, *([] if one_only else [SEVERAL_MESSAGES])]
    return tuple(found)


def _checked_name(question: Question) -> str:
    name = question.randomizer
    if name not in {*CATEGORIES, *NAMES}:
        raise InvalidArgumentError("randomizer", name, f"one of {', '.join(NAMES)}")
    given = "public" if name in PUBLIC else "private"
    if question.coin not in {"auto", given}:
        expected = f"coin {given} or auto with {name}"
        raise InvalidArgumentError("coin", question.coin, expected)
    for field_name in ("partitions", "symbols"):
        value = getattr(question, field_name)
        if value is not None and given == "private":
            expected = f"no {field_name} with {name} (use {' or '.join(PUBLIC)})"
            raise InvalidArgumentError(field_name, value, expected)
    if question.closeness and name in {DUMMIES, SEVERAL_MESSAGES}:
        expected = (
            "a randomizer with one message for closeness (the several messages of one person are "
            "not exchangeable, so two batches of them cannot be split anew)"
        )
        raise InvalidArgumentError("randomizer", name, expected)
    return str(name)


def option(name: str, question: Question) -> Option:
    """The best that this family can do, or why it can do nothing."""
    coin = "public" if name in PUBLIC else "private"
    empty = Option(name, coin, question)
    try:
        made = [tester(device, question) for device in _family(name)(question)]
        powers = {found.device: found.power() for found in made}
    except ShoalError as error:
        return replace(empty, remark=str(error))
    cap = question.messages_cap
    within = [
        found
        for found in made
        if cap is None or found.device.messages <= max(cap, 1.0) * (1 + _SURE)
    ]
    if not within:
        fewest = min((found.device.messages for found in made), default=math.inf)
        remark = f"{fewest:.4g} messages per person on average are over the cap of {cap:g}"
        return replace(empty, remark=remark)
    best = max((found.device for found in within), key=powers.__getitem__)
    return replace(empty, device=best, power=powers[best])


def _family(name: str) -> Family:
    if name == ONE_MESSAGE:
        return one_message_devices
    if name == SEVERAL_MESSAGES:
        return several_messages_devices
    return _dummies if name == DUMMIES else partial(_randomizer, name)


def _randomizer(name: str, question: Question) -> list[Device]:
    family = partial(by_name(name), k=question.k)
    found = local_epsilon(
        family,
        epsilon=question.batch_epsilon,
        delta=question.delta,
        n=question.n,
        honest_fraction=question.honest_fraction,
        cap=LARGEST_LOCAL_EPSILON,
    )
    return [family(epsilon=found)]


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
    kept = [n for n, found in seen.items() if found >= 0]
    near = math.ceil(math.exp(root + _CLOSE))
    return min([n for n in kept if n >= math.exp(root - _CLOSE)] or [near])


def first_guess(question: Question) -> int:
    """Where to start looking for n."""
    guess = rates.sample_size(
        k=question.k,
        distance=question.distance,
        epsilon=question.batch_epsilon,
        delta=question.delta,
    )
    return min(guess, _LARGEST_N)

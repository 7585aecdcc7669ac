"""Choosing the device and the coin for a test: every family, calibrated, and the best of them.

Where coins are public it is also to be chosen how many partitions and bins to make.
A forecast
says which layouts are worth a calibration. The noise for another number of bins follows from one
calibration to leading order: (e − 1)²/(e + L − 1), e being e^ε0, stays what it is (the variance of
the privacy loss), and so do the dummies per bin.

The forecast is the power before the coins are drawn. A random partition of k answers into L equal
bins keeps of a departure its projection on L − 1 of k − 1 dimensions. With Π_g these
projections, S = Σ_g Π_g and ρ dummies, uniform answers give

    one message:       MΣ ~ (k/(L² G)) S,         mean of T ~ (λ k/(L G))² d'S²d,
    several messages:  MΣ ~ (k/L²) (S² + ρ S),    mean of T ~ (k/L)² d'S²d.

The projections of independent random partitions are nearly free, which gives the moments of S from
the free cumulants of a projection (Voiculescu; Nica and Speicher, "Lectures on the Combinatorics of
Free Probability", 2006). How much of d survives is random: d'S²d is taken for a gamma variable with
relative variance 2 tr(S⁴)/tr(S²)².

Answers that are not uniform make some bins vary more, and the statistic counts these less: in place
of ‖d‖² stands Σ_x w_x d_x², the weight being that of the bin of x with the mean of all other bins.
Its least value over all departures is taken (:mod:`shoal.testing.power`). If one answer can
lose all that another gains, nothing is seen where they share all their bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np
from scipy import stats

from shoal import checks
from shoal.accounting import search
from shoal.accounting.amplification import local_epsilon
from shoal.accounting.noise.dummies import dummies_rho
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.mechanisms.base import Device
from shoal.mechanisms.dummies import PartitionedDummies, UniformDummies
from shoal.mechanisms.partitioned import PartitionedResponse
from shoal.mechanisms.registry import by_name
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits
from shoal.randomness import Randomness, source
from shoal.testing import power, rates
from shoal.testing.hypothesis import Hypothesis
from shoal.testing.scores import MOST_CELLS, Departure, Spread
from shoal.testing.setting import (
    ANY_WAY,
    DELTA,
    DUMMIES,
    ONE_MESSAGE,
    PUBLIC,
    SEVERAL,
    SEVERAL_MESSAGES,
    Setting,
    Way,
)
from shoal.testing.tester import Tester
from shoal.values import Array, attributes

TARGET_POWER = 0.95
_LARGEST_N = 10**13
_CLOSE = 2e-3  # of n: how precise a required n is
_SURE = 1e-12
_TIGHTENED = 0.999  # of what is left for one of two batches, when both cost a little too much
_TRIES = 8
_ALIKE = 0.02  # of power: what public coins, or more messages, have to gain to be worth it
_HOPELESS = 2.0  # times the level: a power below this says nothing
_COINS = 1 << 48
MOST_SYMBOLS = 1 << 20
_MOST_SHARED = 64  # bins of each of several partitions, unless chosen: one with more sees more
_TRIED = 2  # layouts of the best forecast that are calibrated
_LARGEST_LOCAL_EPSILON = 25.0
_SAMPLE = 16
_NODES = (np.arange(24) + 0.5) / 24
_ALONE = 2048  # of the most frequent answers, and as many groups of the others


@dataclass(frozen=True, eq=False)
class Option:
    """One way to run a test, as :func:`shoal.testing.design` ranks them.

    Attributes:
        name: What the randomizer of a :class:`shoal.testing.Way` takes.
        setting: What is to be found out.
        device: What each device would run; None if it is impossible.
        power: Predicted probability to notice the distance.
        remark: Why it is impossible, or what to know.
    """

    name: str
    setting: Setting = field(repr=False)
    device: Device | None = None
    power: float = 0.0
    remark: str = ""

    @property
    def coin(self) -> str:
        """Private, or public where everybody has to know the partitions."""
        return "public" if self.name in PUBLIC else "private"

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
        return _least_n(self.name, self._as_laid_out(), self.setting.n, TARGET_POWER)

    def tester(self) -> Tester:
        """The test that this option is.

        Where people may be in both batches, what one of them may cost was estimated; here the two
        are composed, and the noise is raised if they cost more than they may.
        """
        epsilon, option = self.setting.epsilon, self
        for _ in range(_TRIES):
            if option.device is None:
                raise UnreachableTargetError(
                    f"a test with {self.name}", option.remark, "choose another way, or ask for less"
                )
            made = tester(option.device, self.setting)
            if not self.setting.hypothesis.overlapping or made.guarantee.epsilon <= epsilon:
                return made
            # The same way and layout, with less for one batch.
            tightened = option.setting.tightened * (epsilon / made.guarantee.epsilon) * _TIGHTENED
            option = _best_option(self.name, replace(option._as_laid_out(), tightened=tightened))
        raise UnreachableTargetError(
            f"({epsilon:g}, {self.setting.delta:g})-DP for people in both batches",
            f"{self.name} costs them more",
            "ask for a smaller delta, or compare people who are in one batch only",
        )

    def _as_laid_out(self) -> Setting:
        symbols, partitions = (getattr(self.device, x, None) for x in ("symbols", "partitions"))
        way = replace(self.setting.way, symbols=symbols, partitions=partitions)
        return replace(self.setting, way=way)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        local, device = self.local_epsilon, self.device
        return attributes(self, "name", "coin") | {
            "device": None if device is None else device.described(),
            "local_epsilon": None if local is None or math.isinf(local) else local,
            "messages": self.messages,
            "power": None if device is None else self.power,
            "remark": self.remark,
        }


def tester(device: Device, setting: Setting) -> Tester:
    """The test of a hypothesis by this device."""
    return Tester(device, setting.hypothesis, **attributes(setting, "n", "delta", "crowd"))


def names(setting: Setting) -> tuple[str, ...]:
    """The ways worth considering, simplest first."""
    way = setting.way
    if way.randomizer is not None:
        return (way.randomizer,)
    one_only = setting.hypothesis.closeness or setting.messages == 1
    families: list[str] = []
    if way.coin != "public" and way.partitions is None and way.symbols is None:
        families += ["grr", "hadamard", DUMMIES]
    if way.coin != "private":
        families += PUBLIC
    return tuple(name for name in families if not (one_only and name in SEVERAL))


def _best_option(name: str, setting: Setting) -> Option:
    """The best that this family can do, or why it can do nothing."""
    empty = Option(name, setting)
    try:
        powers = {each: tester(each, setting).power() for each in _devices(name, setting)}
    except ShoalError as error:
        return replace(empty, remark=str(error))
    cap = setting.messages
    most = cap * (1 + _SURE)
    within = [device for device in powers if device.messages <= most]
    if not within:
        fewest = min((device.messages for device in powers), default=math.inf)
        remark = f"{fewest:.4g} messages per person on average are over the cap of {cap:g}"
        return replace(empty, remark=remark)
    best = max(within, key=powers.__getitem__)
    return replace(empty, device=best, power=powers[best])


def _devices(name: str, setting: Setting) -> list[Device]:
    """Those of a family that are worth a try."""
    if name == ONE_MESSAGE:
        return one_message_devices(setting)
    if name == SEVERAL_MESSAGES:
        return several_messages_devices(setting)
    if name == DUMMIES:
        return [UniformDummies.calibrated(k=setting.k, **setting.price)]
    family = partial(by_name(name), k=setting.k)
    return [family(epsilon=calibrated(family, setting))]


def _least_n(name: str, setting: Setting, guess: int, target: float) -> int | None:
    """The least n, to 0.2 %, whose power with this family is the target; None above 10^13."""
    aim = float(stats.norm.ppf(target))

    def people(log_n: float) -> int:
        return max(2, math.ceil(math.exp(log_n)))

    @cache
    def surplus(n: int) -> float:
        power = _best_option(name, replace(setting, n=n)).power
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
    return people(search.root_below(lambda x: -excess(x), low, high, tolerance=_CLOSE))


# --------------------------------------------------------------------------------------- the design


@dataclass(frozen=True, eq=False)
class Design:
    """Ways to run a test, best first: what :func:`shoal.testing.design` returns.

    Attributes:
        setting: What is to be found out.
        options: A :class:`shoal.testing.Option` for each way, best first.
        reason: Why the first one is recommended.
    """

    setting: Setting
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
        tested, level = self.setting.hypothesis, self.setting.hypothesis.level
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
                f"a distance of {tested.distance:g}",
                f"{self.setting.n:,} people would notice it with probability {best.power:.2f}, "
                f"at level {level:g}",
                advice,
            )
        return made

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "question": self.setting.to_dict(),
            "recommended": self.recommended.name,
            "reason": self.reason,
            "options": [option.to_dict() for option in self.options],
        }


def design(
    hypothesis: Hypothesis,
    *,
    n: int,
    epsilon: float,
    delta: float = DELTA,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    way: Way = ANY_WAY,
) -> Design:
    """The ways to notice a departure from a hypothesis, best first.

    Every way keeps (ε, δ) among the honest people of the crowd; they are ranked by
    their predicted power at the level, each against the distribution at the distance
    that is hardest for it to notice. Public coins, or several messages, have to gain
    two points of power over something simpler to come first.

    Args:
        hypothesis: What is to be found out: a :class:`shoal.testing.Hypothesis`.
        n: People who report, in each batch for closeness; at least 2.
        epsilon: ε > 0 of each person.
        delta: δ in (0, 1).
        crowd: Who follows the protocol.
        limits: Messages that one person may send: 1 on average, or any number of a
            randomizer chosen by name, unless given.
        way: How devices report, where that is not to be chosen.

    Returns:
        A :class:`shoal.testing.Design` with options, best first.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.

    References:
        :doc:`/theory/testing`; privacy by the theorems of :func:`shoal.amplify`.

    Example:
        >>> from shoal import testing
        >>> uniform = testing.Hypothesis(k=64, distance=0.1)
        >>> made = testing.design(uniform, n=60_000, epsilon=0.25)
        >>> made.recommended.name, round(made.recommended.power, 2)
        ('grr', 1.0)
    """
    setting = Setting(
        hypothesis=hypothesis,
        n=n,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        limits=limits,
        way=with_coins(way),
    )
    return designed(setting)


def designed(setting: Setting) -> Design:
    """The design for a setting whose coins are drawn."""
    _ = setting.people  # refused here: no way to run the test would have an honest person more
    simplest = [_best_option(name, setting) for name in names(setting)]
    ordered = sorted(simplest, key=lambda option: -option.power)
    alike = [option for option in simplest if option.power >= ordered[0].power - _ALIKE]
    first = next((option for option in alike if option.device is not None), ordered[0])
    rest = [option for option in ordered if option is not first]
    return Design(setting, (first, *rest), _reason(first, rest))


def with_coins(way: Way, randomness: Randomness | None = None) -> Way:
    """The same, with public coins that no distribution can have been made for."""
    if way.coins is not None:
        return way
    return replace(way, coins=int(source(randomness).below(_COINS, 1)[0]))


def required_n(
    hypothesis: Hypothesis,
    *,
    epsilon: float,
    power: float = TARGET_POWER,
    delta: float = DELTA,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    way: Way = ANY_WAY,
) -> int:
    """How many people give the best way to run a test this predicted power.

    The power is that against the hardest distribution at the distance; for closeness,
    the people are those of each batch.

    Args:
        hypothesis: What is to be found out: a :class:`shoal.testing.Hypothesis`.
        epsilon: ε > 0 of each person.
        power: Probability to notice the distance, above the level.
        delta: δ in (0, 1).
        crowd: Who follows the protocol.
        limits: Messages that one person may send, as for :func:`shoal.testing.design`.
        way: How devices report, where that is not to be chosen.

    Returns:
        n.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.
        UnreachableTargetError: Not even 10¹³ people are enough.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> from shoal import testing
        >>> uniform = testing.Hypothesis(k=64, distance=0.1)
        >>> testing.required_n(uniform, epsilon=1.0, way=testing.Way("private"))
        2837
    """
    setting = Setting(
        hypothesis=hypothesis,
        n=2,
        epsilon=epsilon,
        delta=delta,
        crowd=crowd,
        limits=limits,
        way=with_coins(way),
    )
    least = fewest(setting, power)
    if least is None:
        raise UnreachableTargetError(
            f"power {power:g} at a distance of {hypothesis.distance:g}",
            "not even 10^13 people are enough",
            "ask for a larger distance or epsilon"
            + (", or private coins" if way.coin == "public" else ""),
        )
    return least


def fewest(setting: Setting, power: float) -> int | None:
    """The least n of all ways, None if none is enough.

    It is that of the way that looks best, then of any that beats it there.
    """
    level = setting.hypothesis.level
    checks.refuse(not level < power < 1, f"level = {level:g} < power < 1", power=power)
    pending = list(names(setting))
    price = {"epsilon": setting.batch_epsilon, "delta": setting.delta}
    guess = rates.sample_size(k=setting.k, distance=setting.hypothesis.distance, **price)
    best, known = min(guess, _LARGEST_N), None
    while pending:
        here = replace(setting, n=best)
        powers = {name: _best_option(name, here).power for name in pending}
        name = max(pending, key=powers.__getitem__)
        if known is not None and powers[name] <= power:
            break
        pending.remove(name)
        least = _least_n(name, setting, best, power)
        if least is not None:
            known = best = least if known is None else min(known, least)
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


# ----------------------------------------------------------- forecasts of layouts for public coins


class Target:
    """What so many people shall notice: all departures at this distance from a reference.

    ``probabilities`` are those of its answers; of very many, rare ones are taken together in
    groups of similar ones, with their mean probability and their number in ``sizes``.
    """

    def __init__(self, reference: Array, distance: float, *, people: float, level: float) -> None:
        self.distance, self.people, self.level = distance, people, level
        ordered = np.sort(reference)
        alone = max(0, ordered.size - _ALONE)
        groups = np.linspace(0, alone, _ALONE, endpoint=False).astype(np.int64)
        starts = np.unique(np.append(groups, np.arange(alone, ordered.size)))
        self.sizes = np.diff(np.append(starts, ordered.size)).astype(np.float64)
        self.probabilities: Array = np.add.reduceat(ordered, starts) / self.sizes

    def square(self, variances: Array) -> float:
        """The least Σ_x w_x d_x², with the weights of these variances beside their mean."""
        relative = variances / np.average(variances, weights=self.sizes)
        weights, mass = relative ** (-2 / 3) / self.sizes, self.probabilities * self.sizes
        hardest = power.hardest(mass, self.distance, weights=weights)
        return float(weights @ (hardest - mass) ** 2)

    @property
    def exchange(self) -> bool:
        """Whether one answer can lose all that another gains."""
        return bool(self.probabilities[-1] >= self.distance)


@dataclass(frozen=True)
class Shape:
    """k answers, in each of ``partitions`` partitions sorted into ``symbols`` bins."""

    k: int
    symbols: int
    partitions: int

    @property
    def moments(self) -> tuple[float, float, float, float]:
        """tr(S^i)/(k − 1) for i = 1, ..., 4.

        >>> [round(moment, 9) for moment in Shape(9, 9, 3).moments]
        [3.0, 9.0, 27.0, 81.0]
        """
        r, g = (self.symbols - 1) / (self.k - 1), self.partitions
        first, second = g * r, g * (r - r**2)
        third = g * (r - 3 * r**2 + 2 * r**3)
        fourth = g * (r - 6 * r**2 + 10 * r**3 - 5 * r**4)
        return (
            first,
            second + first**2,
            third + 3 * second * first + first**3,
            fourth + 4 * third * first + 2 * second**2 + 6 * second * first**2 + first**4,
        )

    def one_message(self, truth: float, target: Target) -> float:
        """Predicted power of randomized response whose true symbol is likelier by λ = truth."""
        first, second, _, _ = self.moments
        noise = self.k / (self.symbols**2 * self.partitions)
        noises = (noise * first, noise**2 * second)
        seen = (truth * self.k / (self.symbols * self.partitions)) ** 2
        probabilities = (1 - truth) / self.symbols + truth * self._bins(target)
        return self._averaged(noises, seen, probabilities * (1 - probabilities), target)

    def several_messages(self, dummies: float, target: Target) -> float:
        """Predicted power of histograms with so many dummies per person and partition."""
        first, second, third, fourth = self.moments
        noise = self.k / self.symbols**2
        square = fourth + 2 * dummies * third + dummies**2 * second
        noises = (noise * (second + dummies * first), noise**2 * square)
        bins = self._bins(target)
        variances = bins * (1 - bins) + dummies / self.symbols
        return self._averaged(noises, (self.k / self.symbols) ** 2, variances, target)

    def _averaged(
        self, noises: tuple[float, float], seen: float, variances: Array, target: Target
    ) -> float:
        """From tr(MΣ) and tr((MΣ)²) per dimension, and the variance of the bin of each answer."""
        _, second, _, fourth = self.moments
        spread = Spread(*((self.k - 1) * np.array(noises)))
        variance = 2 * fourth / ((self.k - 1) * second**2)
        factors = stats.gamma.ppf(_NODES, 1 / variance, scale=variance)
        signals = seen * second * target.square(variances) * factors
        powers = power.predicted(
            spread,
            Departure(signals, signals * spread.scale, spread),
            people=target.people,
            level=target.level,
        )
        return min(float(powers.mean()), 1 - self._together * (1 - target.level) * target.exchange)

    def _bins(self, target: Target) -> Array:
        """How likely the bin of each answer is, on average over the others in it."""
        others = (self.k / self.symbols - 1) / (self.k - 1)
        return target.probabilities + others * (1 - target.probabilities)

    @property
    def _together(self) -> float:
        """The probability that two answers share all their bins."""
        return ((self.k / self.symbols - 1) / (self.k - 1)) ** self.partitions


# --------------------------------------------------------------------------- layouts to choose from


def shapes(setting: Setting, partitions: tuple[int, ...] = (1, 4)) -> list[Shape]:
    """The layouts to choose from: powers of two below k, unless they are chosen."""
    k = setting.k
    symbols = [1 << i for i in range(1, min(k, MOST_SYMBOLS).bit_length()) if 1 << i < k] or [k]
    way = setting.way
    if way.symbols is not None:
        symbols = [way.symbols]
    most = _MOST_SHARED
    if way.partitions is not None:
        partitions, most = (way.partitions,), MOST_CELLS // way.partitions
    layouts = [Shape(k, many, parts) for parts in partitions for many in symbols]
    fitting = [shape for shape in layouts if shape.partitions == 1 or shape.symbols <= most]
    return fitting or layouts[:1]  # the choice may be refused later, with a reason


def one_message_devices(setting: Setting) -> list[Device]:
    """The best layouts, by forecast, of randomized response on partitions."""

    def family(shape: Shape) -> partial[PartitionedResponse]:
        return partial(PartitionedResponse, coins=setting.coins, **asdict(shape))

    choice = shapes(setting)
    if len(choice) > 1:
        sample = min(choice, key=lambda shape: abs(shape.symbols - _SAMPLE))
        growth = math.exp(calibrated(family(sample), setting))
        constant = (growth - 1) ** 2 / (growth + sample.symbols - 1)
        target = _target(setting)
        choice.sort(key=lambda shape: -shape.one_message(_truth(constant, shape.symbols), target))
    families = [family(shape) for shape in choice[:_TRIED]]
    return [each(epsilon=calibrated(each, setting)) for each in families]


def calibrated(family: Callable[..., Device], setting: Setting) -> float:
    """The largest local epsilon of a family that keeps what one batch may cost."""
    return local_epsilon(
        family,
        epsilon=setting.batch_epsilon,
        delta=setting.delta,
        n=setting.n,
        crowd=setting.crowd,
        cap=_LARGEST_LOCAL_EPSILON,
    )


def _truth(constant: float, symbols: int) -> float:
    """λ = y/(y + L) with y² = constant (y + L)."""
    excess = (constant + math.sqrt(constant**2 + 4 * constant * symbols)) / 2
    return excess / (excess + symbols)


def several_messages_devices(setting: Setting) -> list[Device]:
    """The best layout, by forecast, of histograms among dummies that keeps the cap.

    One partition unless more are chosen: they send as many times as much for the same power.
    Of the layouts within the cap and nearly the best forecast, it is the one that sends least.
    """
    choice = shapes(setting, (1,))
    if len(choice) > 1:
        # Dummies per person and bin, as for Gaussian noise.
        bins, parts = min(setting.k, _SAMPLE), choice[0].partitions
        part = setting.batch_epsilon / math.sqrt(parts)
        each = dummies_rho(**setting.price | {"epsilon": part}, k=bins) / bins

        def messages(shape: Shape) -> float:
            return parts * (1 + shape.symbols * each)

        target = _target(setting)
        within = [shape for shape in choice if messages(shape) <= setting.messages]
        powers = {s: s.several_messages(s.symbols * each, target) for s in within}
        enough = max(powers.values(), default=0.0) - _ALIKE
        # Nothing within the cap: the least there is will be named, and refused.
        alike = [shape for shape in within if powers[shape] >= enough] or choice
        choice = [min(alike, key=messages)]
    layout = asdict(choice[0]) | {"coins": setting.coins}
    return [PartitionedDummies.calibrated(**setting.price, **layout)]


def _target(setting: Setting) -> Target:
    tested = setting.hypothesis
    people = power.effective(setting.n, setting.n if tested.closeness else None)
    return Target(tested.probabilities, tested.distance, people=people, level=tested.level)

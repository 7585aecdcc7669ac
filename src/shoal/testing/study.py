"""The measured power of tests, model by model, against the number of people.

The power of a test is the probability that it rejects, here against the distribution that is
hardest to notice for it among all at the same total variation from the hypothesis
(:mod:`shoal.testing.power`). All of them are simulated, each model at its own best:

* no privacy: the true counts;
* a trusted curator: one number of the true counts, with Laplace noise: ε-DP, δ = 0;
* one message each, shuffled, with private or with public coins;
* several messages each, shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, cast

import numpy as np

from shoal import checks
from shoal.errors import UnreachableTargetError
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import plain
from shoal.mechanisms.base import Device
from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits
from shoal.randomness import simulator
from shoal.testing import power, ranks, rates
from shoal.testing.designing import designed, fewest, tester
from shoal.testing.hypothesis import Hypothesis
from shoal.testing.ranks import ENOUGH, Simulations
from shoal.testing.setting import ANY_WAY, DELTA, Coin, Setting, Way
from shoal.values import Array, attributes

MODELS = {
    "non-private": "no privacy",
    "central": "curator",
    "several": "several",
    "public": "public",
    "private": "private",
}  # and their headings
TRIALS = 400
POWER = 0.95
_ONE_MESSAGE = frozenset({"private", "public"})
_FEWEST_TRIALS = 10
_FEWEST_PEOPLE = 10
_STEPS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 1.5)  # of the people that one message each needs
_NORMAL = NormalDist().inv_cdf(0.975)  # of 95 % limits
_TRUTHFUL = 30.0  # ε₀ of a randomizer that lies once in 10¹³ times

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Point:
    """The measured power of one model with n people; None where the model has no device."""

    model: str
    n: int
    rejected: int | None
    trials: int
    device: Device | None = None

    @property
    def power(self) -> float | None:
        """The fraction of trials in which the test noticed."""
        return None if self.rejected is None else self.rejected / self.trials

    @property
    def limits(self) -> tuple[float, float] | None:
        """95 % limits of the power (Wilson's): the binomial error of the simulation.

        >>> low, high = Point("private", 100, 390, 400).limits
        >>> round(low, 3), round(high, 3)
        (0.955, 0.986)
        """
        if self.rejected is None:
            return None
        fraction, spread = self.rejected / self.trials, _NORMAL**2 / self.trials
        middle = (fraction + spread / 2) / (1 + spread)
        reach = math.sqrt(spread * (fraction * (1 - fraction) + spread / 4)) / (1 + spread)
        return max(0.0, middle - reach), min(1.0, middle + reach)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        device = None if self.device is None else self.device.described()
        return attributes(self, "n", "model", "power", "limits") | {"device": device}

    def __str__(self) -> str:
        if self.power is None or self.limits is None:
            return "–"
        low, high = self.limits
        return f"{self.power:.2f} ± {(high - low) / 2:.2f}"


@dataclass(frozen=True, eq=False)
class Study:
    """A hypothesis that is put to several numbers of people: how the power grows with n.

    Args:
        hypothesis: What is to be found out, of one batch.
        epsilon: ε > 0 of each person.
        delta: δ in (0, 1).
        crowd: Who follows the protocol.
        limits: Messages that one person may send on average.
        way: Whose coins there are, and the layout of public ones; each model has the best
            randomizer of its own.
        trials: Made-up batches for each number of people and model.
        simulations: How the null distribution is simulated; the seed, 0 unless given, is
            that of all that is drawn.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.

    References:
        :doc:`/theory/testing`.

    Example:
        >>> from shoal.testing import Hypothesis
        >>> study = Study(Hypothesis(k=4, distance=0.2), epsilon=1.0, trials=50)
        >>> powers = study.run([1_000])
        >>> powers.points[0].power
        1.0
    """

    hypothesis: Hypothesis
    epsilon: float = field(kw_only=True)
    delta: float = field(default=DELTA, kw_only=True)
    crowd: Crowd = field(default=EVERYBODY, kw_only=True)
    limits: Limits = field(default=NO_LIMITS, kw_only=True)
    way: Way = field(default=ANY_WAY, kw_only=True)
    trials: int = field(default=TRIALS, kw_only=True)
    simulations: Simulations = field(default=ENOUGH, kw_only=True)

    def __post_init__(self) -> None:
        two = self.hypothesis.closeness
        checks.refuse(two, "a hypothesis about one batch", closeness=two)
        chosen = self.way.randomizer
        expected = "no randomizer: each model has the best of its own"
        checks.refuse(chosen is not None, expected, randomizer=chosen)
        checks.count(_FEWEST_TRIALS, trials=self.trials)
        _ = self._made, self.setting(2)

    @property
    def seed(self) -> int:
        """That of all that is drawn."""
        return self.simulations.seed or 0

    @property
    def _made(self) -> int:
        """Simulations of the null distribution."""
        return self.simulations.of(self.hypothesis.level)

    @property
    def models(self) -> tuple[str, ...]:
        """Which models there are to measure: names of :data:`MODELS`."""
        left_out = {"several"} if self.setting(2).messages <= 1 else set()
        if self.way.coin != "auto":
            left_out.add("public" if self.way.coin == "private" else "private")
        return tuple(name for name in MODELS if name not in left_out)

    @property
    def rates(self) -> dict[str, float]:
        """Published numbers of people with the constant 1: marks to compare with, no promises."""
        said: dict[str, Any] = attributes(self.hypothesis, "k", "distance")
        private = said | {"epsilon": self.epsilon, "delta": self.delta}
        return {
            "non-private": rates.non_private(**said),
            "central": rates.central(**said, epsilon=self.epsilon),
            "public": rates.shuffle_public(**private),
            "private": rates.shuffle_private(**private),
        }

    def setting(self, n: int, model: str = "several") -> Setting:
        """What so many people are asked for, by the ways of a model."""
        way, limits = replace(self.way, coins=self.seed), self.limits
        if model in _ONE_MESSAGE:
            coin, limits = cast("Coin", model), Limits(messages=1.0)
            layout = {"partitions": None, "symbols": None} if model == "private" else {}
            way = replace(way, coin=coin, **layout)
        return Setting(
            hypothesis=self.hypothesis,
            n=n,
            way=way,
            limits=limits,
            **attributes(self, "epsilon", "delta", "crowd"),
        )

    def run(self, sizes: Sequence[int] = (), progress: Progress | None = None) -> Powers:
        """The power with so many people, or with some numbers around those that are needed."""
        needed = {name: self.needed(name) for name in reversed(self.models) if name in _ONE_MESSAGE}
        return Powers(self, tuple(self.points(sizes or self._around(needed), progress)), needed)

    def needed(self, model: str, power: float = POWER) -> int | None:
        """How many people one message each needs, predicted; None if nothing is enough."""
        return fewest(self.setting(2, model), power)

    def points(self, sizes: Sequence[int], progress: Progress | None = None) -> list[Point]:
        """The measured power of every model with so many people, in the order of the sizes.

        ``progress`` is called with the points done and all.
        """
        pairs = [(model, checks.count(2, n=n)) for n in sizes for model in self.models]
        points = []
        for done, (model, n) in enumerate(pairs, start=1):
            points.append(self.measured(model, n))
            if progress is not None:
                progress(done, len(pairs))
        return points

    def measured(self, model: str, n: int) -> Point:
        """The power of a model with n people."""
        seed = (self.seed << 64) + n * len(MODELS) + list(MODELS).index(model)
        if model == "central":
            return Point(model, n, self._noticed_by_curator(n, seed), self.trials)
        device = self._device(model, n)
        if device is None:
            return Point(model, n, None, self.trials)
        rejected = tester(device, self.setting(n)).noticed(self.trials, self._made, simulator(seed))
        return Point(model, n, rejected, self.trials, device)

    def _device(self, model: str, n: int) -> Device | None:
        """What people run; None if nothing keeps the target."""
        if model == "non-private":
            return RandomizedResponse(k=self.setting(n).k, epsilon=_TRUTHFUL)
        options = [o for o in designed(self.setting(n, model)).options if o.device is not None]
        if model == "several":
            options = [option for option in options if (option.messages or 1) > 1]
        return max(options, key=lambda option: option.power).device if options else None

    def _around(self, needed: dict[str, int | None]) -> list[int]:
        """Numbers of people below and above enough, with two digits."""
        enough = next(iter(needed.values()))
        if enough is None:
            raise UnreachableTargetError(
                f"power {POWER:g} at a distance of {self.hypothesis.distance:g}",
                "no number of people is enough",
                "say which numbers of people n to try",
            )
        digits = [10 ** max(0, len(str(int(step * enough))) - 2) for step in _STEPS]
        sizes = (round(s * enough / d) * d for s, d in zip(_STEPS, digits, strict=True))
        return sorted({max(_FEWEST_PEOPLE, n) for n in sizes})

    def _noticed_by_curator(self, n: int, seed: int) -> int:
        """In how many trials a curator notices who knows all answers and publishes one number.

        The number is the total variation between counts and hypothesis, ½ Σ_j |N_j/n − q_j|, with
        Laplace noise in proportion to its sensitivity: ε-DP. The statistic is that of Diakonikolas,
        Gouleakis, Peebles, Price, "Sample-Optimal Identity Testing with High Probability", ICALP
        2018, arXiv:1708.02728.
        """
        generator, tested = simulator(seed), self.hypothesis
        reference = tested.probabilities
        scale = sensitivity(reference, n) / self.epsilon

        def published(probabilities: Array, size: int | None) -> Array:
            counts = generator.multinomial(n, probabilities / probabilities.sum(), size=size)
            away = np.abs(counts / n - reference).sum(axis=1) / 2
            return np.asarray(away + generator.laplace(scale=scale, size=size))

        null = published(reference, self._made)
        # Where d_j is below the deviation s_j of N_j/n, |N_j/n − q_j| grows by d_j²/s_j.
        deviations = np.sqrt(np.maximum(reference * (1 - reference), 1 / n) / n)
        hardest = power.hardest(reference, tested.distance, weights=1 / deviations)
        numbers = published(hardest, self.trials)
        return int(np.count_nonzero(numbers > ranks.threshold(null, level=tested.level)))


@dataclass(frozen=True, eq=False)
class Powers:
    """Measured powers by number of people: what :meth:`shoal.testing.Study.run` returns.

    An example is at :class:`shoal.testing.Study`.

    Attributes:
        study: What was measured.
        points: The power of each model with each number of people.
        needed: How many people one message each needs for a power of 0.95, predicted.
    """

    study: Study
    points: tuple[Point, ...]
    needed: dict[str, int | None]

    def at(self, n: int) -> dict[str, Point]:
        """The points of one number of people, by model."""
        return {point.model: point for point in self.points if point.n == n}

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of people tried."""
        return tuple(dict.fromkeys(point.n for point in self.points))

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        said = attributes(self.study.hypothesis, "k", "distance", "level")
        return (
            said
            | attributes(self.study, "epsilon", "delta", "trials", "seed")
            | {
                f"people_for_power_{POWER:g}": self.needed,
                "points": [point.to_dict() for point in self.points],
                "published_rates_at_constant_1": self.study.rates,
            }
        )

    def rows(self) -> list[dict[str, float | None]]:
        """Powers with their limits, what devices run, and the rates: a row for each n."""
        study = self.study
        tested = attributes(study.hypothesis, "k", "distance", "level")
        known = tested | attributes(study, "epsilon", "delta", "trials")
        rows = []
        for n in self.sizes:
            row: dict[str, float | None] = {"n": n, **known}
            for model, point in self.at(n).items():
                low, high = point.limits or (None, None)
                row |= {model: point.power, f"{model}-low": low, f"{model}-high": high}
                if model == "several" or model in _ONE_MESSAGE:
                    device = point.device
                    local = math.inf if device is None else device.local_epsilon
                    row[f"{model}-local-epsilon"] = None if math.isinf(local) else local
                    row[f"{model}-messages"] = None if device is None else device.messages
            rows.append(row | {f"rate-{name}": value for name, value in study.rates.items()})
        return rows

    def document(self) -> Document:
        """One line for each number of people, one column for each model."""
        study, tested, models = self.study, self.study.hypothesis, self.study.models

        def people(numbers: dict[str, Any]) -> tuple[str, ...]:
            values = (numbers.get(model) for model in models)
            return tuple("" if value is None else f"{value:,.0f}" for value in values)

        rows = [Row((f"{n:,}", *(str(self.at(n)[model]) for model in models))) for n in self.sizes]
        rows.append(Row((f"for {POWER:g}", *people(self.needed)), "strong"))
        rows.append(Row(("rate", *people(study.rates)), "weak"))
        title = (
            f"Power with {tested.k:,} answers at distance {plain(tested.distance)}, "
            f"level {plain(tested.level)}, ε = {plain(study.epsilon)}, δ = {plain(study.delta)}"
        )
        power = f"Power: the fraction of {study.trials:,} simulated tests that noticed"
        several = "several: several messages each; " if "several" in models else ""
        coins = "public, private: one message each, by coins that all know or by the device's own"
        needed = f"for {POWER:g}: people needed, predicted. rate: published, constant 1"
        return Document(
            title,
            table=Table(
                ("people", *(MODELS[model] for model in models)),
                tuple(rows),
                numeric=frozenset(range(len(models) + 1)),
                title=title,
            ),
            sentences=(
                f"{power} the hardest case, ± the half width of its 95 % limits.",
                f"curator: sees all answers; {several}{coins}.",
                f"{needed} (the papers leave the constant open).",
            ),
        )


def sensitivity(reference: Array, n: int) -> float:
    """By how much replacing one of n answers changes ½ Σ_j |N_j/n − q_j|, at most.

    Two counts move by one, so by 1/n at most. For uniform q and n < k by 1/k: an answer given at
    least once is above its fraction, so the changes of two such answers cancel, and one that nobody
    gave adds 1/n − 2/k when it is given (Acharya, Sun, Zhang, NeurIPS 2018, arXiv:1707.05128).
    """
    uniform = not np.ptp(reference)
    return min(1 / n, 1 / reference.size) if uniform else 1 / n

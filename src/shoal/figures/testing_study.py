"""The measured power of tests, model by model.

The power of a test is the chance that it rejects, here against the distribution that is hardest to
notice for it among all at the same total variation from the hypothesis
(:mod:`shoal.testing.alternatives`). All of them are simulated, each model at its own best:

* no privacy: the true counts;
* a trusted curator: one number of the true counts, with Laplace noise: ε-DP, δ = 0;
* one message each, shuffled, with private or with public coins;
* several messages each, shuffled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from shoal.errors import UnreachableTargetError
from shoal.figures.table import Table, Value
from shoal.protocols.base import Device
from shoal.randomizers.response import RandomizedResponse
from shoal.randomness import simulator
from shoal.testing import Tester, alternatives, design, ranks, rates, required_n
from shoal.testing.question import Coin
from shoal.values import Array

MODELS = ("non-private", "central", "several", "public", "private")
TRIALS = 400
LEVEL = 0.05
_SURE = NormalDist().inv_cdf(0.975)  # of 95 % limits
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
        """The share of trials in which the test noticed."""
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
        share, spread = self.rejected / self.trials, _SURE**2 / self.trials
        middle = (share + spread / 2) / (1 + spread)
        reach = math.sqrt(spread * (share * (1 - share) + spread / 4)) / (1 + spread)
        return max(0.0, middle - reach), min(1.0, middle + reach)


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """A hypothesis, a distance to be noticed and a price: how the power grows with n.

    ``coin``, ``partitions`` and ``symbols`` narrow down what devices may do, as for a design.
    """

    reference: Array
    epsilon: float
    delta: float
    distance: float
    level: float = LEVEL
    messages_cap: float = 1.0
    honest_fraction: float = 1.0
    coin: Coin = "auto"
    partitions: int | None = None
    symbols: int | None = None
    trials: int = TRIALS
    simulations: int = 1999
    seed: int = 0

    @property
    def models(self) -> tuple[str, ...]:
        """Which models there are to measure: names of :data:`MODELS`."""
        left_out = {"several"} if self.messages_cap <= 1 else set()
        if self.coin != "auto":
            left_out.add("public" if self.coin == "private" else "private")
        return tuple(name for name in MODELS if name not in left_out)

    @property
    def rates(self) -> dict[str, float]:
        """Published numbers of people with the constant 1: marks to compare with, no promises."""
        asked: dict[str, Any] = {"k": self.reference.size, "distance": self.distance}
        private = asked | {"epsilon": self.epsilon, "delta": self.delta}
        return {
            "non-private": rates.non_private(**asked),
            "central": rates.central(**asked, epsilon=self.epsilon),
            "public": rates.shuffle_public(**private),
            "private": rates.shuffle_private(**private),
        }

    def needed(self, model: str, power: float = 0.95) -> int | None:
        """How many people one message each needs, predicted; None if nothing is enough."""
        hidden = model == "private"
        try:
            return required_n(
                power=power,
                reference=self.reference,
                epsilon=self.epsilon,
                delta=self.delta,
                distance=self.distance,
                level=self.level,
                coin="private" if hidden else "public",
                partitions=None if hidden else self.partitions,
                symbols=None if hidden else self.symbols,
                coins=self.seed,
                honest_fraction=self.honest_fraction,
            )
        except UnreachableTargetError:
            return None

    def points(self, sizes: Sequence[int], progress: Progress | None = None) -> list[Point]:
        """The measured power of every model with so many people, in the order of the sizes.

        ``progress`` is called with the points done and all.
        """
        asked = [(model, n) for n in sizes for model in self.models]
        found = []
        for done, (model, n) in enumerate(asked, start=1):
            found.append(self.measured(model, n))
            if progress is not None:
                progress(done, len(asked))
        return found

    def table(self, points: Sequence[Point]) -> Table:
        """Powers with their limits, and the rates: one row for each number of people."""
        sizes = dict.fromkeys(point.n for point in points)
        return Table.of(self._row(n, [point for point in points if point.n == n]) for n in sizes)

    def _row(self, n: int, points: Sequence[Point]) -> dict[str, Value]:
        row: dict[str, Value] = {
            "n": n,
            "k": self.reference.size,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "distance": self.distance,
            "level": self.level,
            "trials": self.trials,
        }
        for point in points:
            low, high = point.limits or (None, None)
            row |= {
                point.model: point.power,
                f"{point.model}-low": low,
                f"{point.model}-high": high,
            }
            if point.model in {"private", "public", "several"}:
                row |= _told(point)
        return row | {f"rate-{name}": value for name, value in self.rates.items()}

    def measured(self, model: str, n: int) -> Point:
        """The power of a model with n people."""
        seed = (self.seed << 64) + n * len(MODELS) + MODELS.index(model)
        if model == "central":
            return Point(model, n, self._noticed_by_curator(n, seed), self.trials)
        device = self._device(model, n)
        if device is None:
            return Point(model, n, None, self.trials)
        tester = Tester(
            device=device,
            reference=self.reference,
            n=n,
            distance=self.distance,
            level=self.level,
            delta=self.delta,
        )
        share = tester.simulated_power(trials=self.trials, simulations=self.simulations, seed=seed)
        return Point(model, n, round(share * self.trials), self.trials, device)

    def _device(self, model: str, n: int) -> Device | None:
        """What people run; None if nothing keeps the target."""
        if model == "non-private":
            return RandomizedResponse(k=self.reference.size, epsilon=_TRUTHFUL)
        several = model == "several"
        one: Coin = "private" if model == "private" else "public"
        coin = self.coin if several else one
        hidden = coin == "private"
        found = design(
            n=n,
            reference=self.reference,
            epsilon=self.epsilon,
            delta=self.delta,
            distance=self.distance,
            level=self.level,
            coin=coin,
            messages_cap=self.messages_cap if several else 1.0,
            partitions=None if hidden else self.partitions,
            symbols=None if hidden else self.symbols,
            coins=self.seed,
            honest_fraction=self.honest_fraction,
        )
        made = [option for option in found.options if option.device is not None]
        if several:
            made = [option for option in made if (option.messages or 1) > 1]
        return max(made, key=lambda option: option.power).device if made else None

    def _noticed_by_curator(self, n: int, seed: int) -> int:
        """In how many trials a curator notices who knows all answers and publishes one number.

        The number is the total variation between counts and hypothesis, ½ Σ_j |N_j/n − q_j|, with
        Laplace noise in proportion to its sensitivity: ε-DP. The statistic is that of Diakonikolas,
        Gouleakis, Peebles, Price, "Sample-Optimal Identity Testing with High Probability", ICALP
        2018, arXiv:1708.02728.
        """
        generator = simulator(seed)
        scale = sensitivity(self.reference, n) / self.epsilon

        def published(shares: Array, size: int) -> Array:
            counts = generator.multinomial(n, shares / shares.sum(), size=size)
            away = np.abs(counts / n - self.reference).sum(axis=1) / 2
            return np.asarray(away + generator.laplace(scale=scale, size=size))

        null = published(self.reference, self.simulations)
        # Where d_j is below the deviation s_j of N_j/n, |N_j/n − q_j| grows by d_j²/s_j.
        deviations = np.sqrt(np.maximum(self.reference * (1 - self.reference), 1 / n) / n)
        hardest = alternatives.split(self.reference, self.distance, weights=1 / deviations)
        numbers = published(hardest, self.trials)
        return int(np.count_nonzero(numbers > ranks.threshold(null, level=self.level)))


def sensitivity(reference: Array, n: int) -> float:
    """By how much replacing one of n answers changes ½ Σ_j |N_j/n − q_j|, at most.

    Two counts move by one, so by 1/n at most. For uniform q and n < k by 1/k: an answer given at
    least once is above its share, so the changes of two such answers cancel, and one that nobody
    gave adds 1/n − 2/k when it is given (Acharya, Sun, Zhang, NeurIPS 2018, arXiv:1707.05128).
    """
    uniform = not np.ptp(reference)
    return min(1 / n, 1 / reference.size) if uniform else 1 / n


def _told(point: Point) -> dict[str, Value]:
    """What the devices of a model run, as numbers."""
    device = point.device
    local = None if device is None or math.isinf(device.local_epsilon) else device.local_epsilon
    return {
        f"{point.model}-local-epsilon": local,
        f"{point.model}-messages": None if device is None else device.messages,
    }

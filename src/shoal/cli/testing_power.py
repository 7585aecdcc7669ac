"""Before there are data: how many people ``shoal test`` would need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shoal.cli import options, testing_data
from shoal.cli.options import RefusedError
from shoal.cli.testing_answer import Progress
from shoal.cli.testing_asked import AskedTest
from shoal.engines.reading import MOST_ANSWERS
from shoal.figures.table import Table
from shoal.figures.testing_study import TRIALS, Point, Study
from shoal.protocols.registry import described
from shoal.testing import ranks
from shoal.values import Array

_STEPS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 1.5)  # of the people that one message each needs
_FEWEST = 10


@dataclass(frozen=True, eq=False)
class Powers:
    """Measured powers, and what they were measured for."""

    asked: AskedTest
    study: Study
    points: tuple[Point, ...]
    needed: dict[str, int | None]
    notes: tuple[str, ...]

    @property
    def k(self) -> int:
        """How many answers there are."""
        return self.study.reference.size

    @property
    def table(self) -> Table:
        """The numbers as a table."""
        return self.study.table(self.points)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of people tried."""
        return tuple(dict.fromkeys(point.n for point in self.points))

    def at(self, n: int) -> dict[str, Point]:
        """The points of one number of people, by model."""
        return {point.model: point for point in self.points if point.n == n}

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "k": self.k,
            "distance": self.study.distance,
            "level": self.study.level,
            "epsilon": self.study.epsilon,
            "delta": self.study.delta,
            "trials": self.study.trials,
            "seed": self.study.seed,
            "people_for_power_0.95": self.needed,
            "points": [_told(point) for point in self.points],
            "published_rates_at_constant_1": self.study.rates,
            "notes": list(self.notes),
        }


def answer(asked: AskedTest, progress: Progress) -> Powers:
    """Simulate tests of every model, with the numbers of people given or some around enough."""
    assert asked.distance is not None  # noqa: S101 - checked before
    assert asked.epsilon is not None  # noqa: S101 - checked before
    reference, notes = _hypothesis(asked)
    study = Study(
        reference=reference,
        epsilon=asked.epsilon,
        delta=asked.delta,
        distance=asked.distance,
        level=asked.level,
        messages_cap=asked.messages_cap,
        honest_fraction=asked.honest_fraction,
        coin=asked.coin.value,
        partitions=asked.partitions,
        symbols=asked.symbols,
        trials=TRIALS if asked.trials is None else asked.trials,
        simulations=ranks.number(asked.level, asked.simulations),
        seed=0 if asked.seed is None else asked.seed,
    )
    one_message = [name for name in study.models if name in {"private", "public"}]
    needed = {name: study.needed(name) for name in reversed(one_message)}
    sizes = asked.sizes or _around(next(iter(needed.values())), asked)
    return Powers(asked, study, tuple(study.points(sizes, progress)), needed, notes)


def _around(enough: int | None, asked: AskedTest) -> tuple[int, ...]:
    """Numbers of people below and above enough."""
    if enough is None:
        raise RefusedError(
            f"no number of people is enough to notice a distance of {asked.distance:g}: give --n"
        )
    return tuple(sorted({max(_FEWEST, _round(step * enough)) for step in _STEPS}))


def _hypothesis(asked: AskedTest) -> tuple[Array, tuple[str, ...]]:
    """Uniform on so many answers, or the reference."""
    k = _number(asked.categories)
    found = None if k is not None else testing_data.public_list(asked)
    if found is not None:
        k = len(found.labels)
        if found.probabilities is not None:
            return np.array(found.probabilities), found.notes
    if k is None or not 2 <= k <= MOST_ANSWERS:
        raise RefusedError(f"expected --categories from 2 to {MOST_ANSWERS:,}, got {k}")
    return np.full(k, 1 / k), ()


def _number(categories: str | None) -> int | None:
    """A number of answers, if that is what was given and not a list or a file."""
    if categories is None or "," in categories or Path(categories).is_file():
        return None
    return options.read_whole(categories)


def _round(n: float) -> int:
    """A number of people with two digits.

    >>> _round(30113.6)
    30000
    """
    step = 10 ** max(0, len(str(int(n))) - 2)
    return int(round(n / step) * step)


def _told(point: Point) -> dict[str, object]:
    """A point as plain values."""
    return {
        "n": point.n,
        "model": point.model,
        "power": point.power,
        "limits": point.limits,
        "device": None if point.device is None else described(point.device),
    }

"""What a test has to find out: which hypothesis, how far a departure, how private, how surely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.devices import Crowd
from shoal.engines.reading import MOST_ANSWERS
from shoal.errors import InvalidArgumentError
from shoal.testing import overlap
from shoal.values import Array

Coin = Literal["auto", "private", "public"]
Kind = Literal["uniformity", "identity", "closeness"]

SMALLEST_DISTANCE = 1e-8  # without any noise it takes sqrt(k)/distance^2 people to notice
_SUM_TOLERANCE = 1e-6
_EVEN = 1e-9


class Wishes(TypedDict, total=False):
    """What every test may be told beside its hypothesis; what is left out is as in Question."""

    delta: float  # 1e-6
    level: float  # 0.05
    coin: Coin
    messages_cap: float | None
    randomizer: str | None
    partitions: int | None
    symbols: int | None
    honest_fraction: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """n people, (epsilon, delta), and a departure of total variation ``distance`` to be noticed.

    ``reference`` is the hypothesis; for closeness it is only what the plan reckons with.
    ``overlapping`` says that people may be in both of two batches: epsilon is then that of both
    together, and ``tightened`` a further factor of what is left for one of them.
    """

    n: int
    epsilon: float
    distance: float
    reference: Array
    delta: float = 1e-6
    level: float = 0.05
    coin: Coin = "auto"
    messages_cap: float | None = 1.0
    randomizer: str | None = None
    partitions: int | None = None
    symbols: int | None = None
    coins: int = 0
    honest_fraction: float = 1.0
    closeness: bool = False
    overlapping: bool = False
    tightened: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.count(2, n=self.n))
        checks.target(epsilon=self.epsilon, delta=self.delta)
        checks.open_probability(level=self.level, distance=self.distance)
        checks.share(honest_fraction=self.honest_fraction)
        check_distance(self.distance, self.reference)
        if self.coin not in get_args(Coin):
            raise InvalidArgumentError("coin", self.coin, f"one of {', '.join(get_args(Coin))}")
        if self.messages_cap is not None and not self.messages_cap >= 1:
            raise InvalidArgumentError("messages_cap", self.messages_cap, "messages_cap >= 1")
        if self.overlapping and not self.closeness:
            raise InvalidArgumentError("overlapping", True, "two batches (closeness) to overlap")  # noqa: FBT003
        self._check_layout()

    def _check_layout(self) -> None:
        for name in ("partitions", "symbols"):
            value = getattr(self, name)
            if value is not None and self.coin == "private":
                expected = f"no {name} with private coins (partitions are public)"
                raise InvalidArgumentError(name, value, expected)
        if self.partitions is not None:
            checks.count(partitions=self.partitions)
        if self.symbols is not None and checks.count(2, symbols=self.symbols) > self.k:
            raise InvalidArgumentError("symbols", self.symbols, f"symbols <= k = {self.k}")

    @cached_property
    def batch_epsilon(self) -> float:
        """What one batch may cost: all of epsilon, or less where people may be in two."""
        if not self.overlapping:
            return self.epsilon
        return self.epsilon * self.tightened * overlap.fraction(self.epsilon, self.delta)

    @property
    def k(self) -> int:
        """How many answers there are."""
        return self.reference.size

    @property
    def kind(self) -> Kind:
        """Which of the three tests it is."""
        if self.closeness:
            return "closeness"
        return "uniformity" if is_uniform(self.reference) else "identity"

    @property
    def crowd(self) -> Crowd:
        """Whom the guarantee counts on."""
        return Crowd(self.n, self.honest_fraction)

    def to_dict(self) -> dict[str, object]:
        """Plain values; a uniform reference is None."""
        even = is_uniform(self.reference)
        return {
            "kind": self.kind,
            "n": self.n,
            "k": self.k,
            "reference": None if even else self.reference.tolist(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "distance": self.distance,
            "level": self.level,
            "coin": self.coin,
            "messages_cap": self.messages_cap,
            "randomizer": self.randomizer,
            "partitions": self.partitions,
            "symbols": self.symbols,
            "honest_fraction": self.honest_fraction,
            "overlapping": self.overlapping,
        }


def hypothesis(k: int | None, reference: npt.ArrayLike | None) -> Array:
    """The uniform distribution on k answers, or the reference, checked and normalised."""
    if (k is None) == (reference is None):
        given = "both" if k is not None else "neither"
        raise InvalidArgumentError("given", given, "exactly one of k and a reference")
    if reference is None:
        k = checks.count(2, k=k)  # type: ignore[arg-type]
        if k > MOST_ANSWERS:
            raise InvalidArgumentError("k", k, f"2 <= k <= {MOST_ANSWERS:,} answers")
        return np.full(k, 1 / k)
    try:
        probabilities = np.array(reference, dtype=np.float64)
    except (TypeError, ValueError) as error:
        shown = type(reference).__name__
        raise InvalidArgumentError("reference", shown, "a list of probabilities") from error
    if probabilities.ndim != 1 or probabilities.size < 2:
        expected = "a reference with at least two answers"
        raise InvalidArgumentError("reference", f"shape {probabilities.shape}", expected)
    wrong = ~(np.isfinite(probabilities) & (probabilities >= 0))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        expected = "probabilities that are finite and not negative"
        raise InvalidArgumentError(f"reference[{place}]", float(probabilities[place]), expected)
    total = float(probabilities.sum())
    if abs(total - 1) > _SUM_TOLERANCE:
        raise InvalidArgumentError("sum of reference", total, "probabilities that sum to 1")
    return probabilities / total


def is_uniform(reference: Array) -> bool:
    """Whether all answers are equally likely."""
    return float(np.ptp(reference)) <= _EVEN / reference.size


def check_distance(distance: float, reference: Array) -> None:
    """No distribution is further from the reference than all mass on its rarest answer."""
    check_noticeable(distance)
    limit = 1 - float(reference.min())
    if distance > limit:
        expected = f"distance <= {limit:.6g}, the largest from this reference"
        raise InvalidArgumentError("distance", distance, expected)


def check_noticeable(distance: float) -> None:
    """A distance that some number of people may notice."""
    checks.open_probability(distance=distance)
    if distance < SMALLEST_DISTANCE:
        expected = f"distance >= {SMALLEST_DISTANCE:g} (10^15 people would not notice less)"
        raise InvalidArgumentError("distance", distance, expected)

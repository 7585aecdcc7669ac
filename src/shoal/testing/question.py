"""What a test has to find out: which hypothesis, how far a departure, how private, how surely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypedDict, get_args

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import gaussian
from shoal.accounting.devices import Crowd
from shoal.accounting.search import root_below
from shoal.engines.columns import MOST_ANSWERS
from shoal.errors import InvalidArgumentError
from shoal.randomness import Randomness
from shoal.values import Array, attributes

Coin = Literal["auto", "private", "public"]
Kind = Literal["uniformity", "identity", "closeness"]

SMALLEST_DISTANCE = 1e-8  # without any noise it takes sqrt(k)/distance^2 people to notice
_SUM_TOLERANCE = 1e-6
_EVEN = 1e-9
_LEAST_FRACTION = 0.05
_CLOSE = 1e-12


class Wishes(TypedDict, total=False):
    """What every test takes beside its hypothesis; what is left out is as in Question."""

    delta: float  # 1e-6
    level: float  # 0.05
    coin: Coin
    messages_cap: float | None
    randomizer: str | None
    partitions: int | None
    symbols: int | None
    honest_fraction: float


class DesignOptions(Wishes, total=False):
    """The hypothesis too: uniform on k answers or a reference; of one batch, or of two alike."""

    k: int | None
    reference: npt.ArrayLike | None
    coins: int | None
    closeness: bool
    overlapping: bool


class RunOptions(Wishes, total=False):
    """How the messages are randomized, and the null distribution is simulated."""

    simulations: int | None
    seed: int | None
    randomness: Randomness | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Test:
    """n people, a hypothesis, and a departure of total variation ``distance`` to be noticed.

    ``closeness`` asks whether two batches of n people each agree, ``overlapping`` says that people
    may be in both of them.
    """

    n: int
    distance: float
    reference: Array
    delta: float = 1e-6
    level: float = 0.05
    honest_fraction: float = 1.0
    closeness: bool = False
    overlapping: bool = False

    def __post_init__(self) -> None:
        checks.counts(self, n=2)
        checks.open_probability(level=self.level, delta=self.delta)
        check_distance(self.distance, self.reference)
        alone = self.overlapping and not self.closeness
        checks.refuse(alone, "two batches (closeness) to overlap", overlapping=self.overlapping)

    @property
    def k(self) -> int:
        """How many answers there are."""
        return self.reference.size

    @property
    def kind(self) -> Kind:
        """Which of the three tests it is."""
        return "closeness" if self.closeness else self.kind_of_one

    @property
    def kind_of_one(self) -> Kind:
        """Which test of one batch it is."""
        return "uniformity" if is_uniform(self.reference) else "identity"


@dataclass(frozen=True, eq=False, kw_only=True)
class Question(Test):
    """What a test has to find out, at (ε, δ), and by which ways it may.

    :func:`shoal.testing.design` makes one of its arguments.

    Args:
        n: People who report, in each batch for closeness.
        distance: Total variation that is to be noticed.
        reference: The hypothesis; for closeness it is only what the plan reckons with.
        delta: δ in (0, 1).
        level: Probability to reject a hypothesis that is true.
        honest_fraction: Fraction in (0, 1] of the people who follow the protocol, by
            default 1. The guarantee is that of the honest people alone: count only
            those you are sure of.
        closeness: Whether two batches of n people each agree.
        overlapping: Whether people may be in both of them.
        epsilon: ε > 0 of each person; of both batches together if they overlap.
        coin: "auto", "private" or "public".
        messages_cap: Messages that one person may send on average; None for any number.
        randomizer: The name of the only way that is allowed.
        partitions: Public partitions of the answers.
        symbols: Bins of each of them.
        coins: The number that the public partitions are drawn by.
        tightened: A further factor of what is left of epsilon for one of two batches.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.

    References:
        :doc:`/theory/testing`.
    """

    epsilon: float
    coin: Coin = "auto"
    messages_cap: float | None = 1.0
    randomizer: str | None = None
    partitions: int | None = None
    symbols: int | None = None
    coins: int = 0
    tightened: float = 1.0

    def __post_init__(self) -> None:
        checks.target(epsilon=self.epsilon, delta=self.delta)
        checks.fraction(honest_fraction=self.honest_fraction)
        super().__post_init__()
        coins, cap = get_args(Coin), self.messages_cap
        checks.refuse(self.coin not in coins, f"one of {', '.join(coins)}", coin=self.coin)
        checks.refuse(cap is not None and not cap >= 1, "messages_cap >= 1", messages_cap=cap)
        for name, value in (("partitions", self.partitions), ("symbols", self.symbols)):
            expected = f"no {name} with private coins (partitions are public)"
            checks.refuse(value is not None and self.coin == "private", expected, **{name: value})
        checks.counts(self, partitions=1, symbols=2)
        many = self.symbols is not None and self.symbols > self.k
        checks.refuse(many, f"symbols <= k = {self.k}", symbols=self.symbols)

    @cached_property
    def batch_epsilon(self) -> float:
        """What one batch may cost: all of epsilon, or less where people may be in two."""
        if not self.overlapping:
            return self.epsilon
        return self.epsilon * self.tightened * batch_fraction(self.epsilon, self.delta)

    @property
    def crowd(self) -> Crowd:
        """Whom the guarantee counts on."""
        return Crowd(self.n, self.honest_fraction)

    @property
    def price(self) -> dict[str, Any]:
        """The honest people of one batch, and what it may cost: what noise is made for."""
        honest = self.crowd.honest
        return {"n": honest, "epsilon": self.batch_epsilon, "delta": self.delta}

    def to_dict(self) -> dict[str, object]:
        """Plain values; a uniform reference is None."""
        reference = None if is_uniform(self.reference) else self.reference.tolist()
        names = ("kind", "n", "k", "reference", "epsilon", "delta", "distance", "level", "coin")
        ways = ("messages_cap", "randomizer", "partitions", "symbols", "honest_fraction")
        return attributes(self, *names, *ways, "overlapping") | {"reference": reference}


@lru_cache(maxsize=64)
def batch_fraction(epsilon: float, delta: float) -> float:
    """The fraction of epsilon that one of two batches may cost, about: 0.69 at (1, 1e-6).

    It is estimated as for Gaussian noise, whose privacy curve (Dong, Roth, Su, "Gaussian
    Differential Privacy", J. R. Stat. Soc. B 84, 2022, arXiv:1905.02383) with two looks is that of
    a √2 times as large μ. The guarantee does not rest on that: it is composed from the profiles
    themselves.
    """
    high = 1.0
    while gaussian.delta(high, epsilon) < delta:
        high *= 2
    low = high / 2
    while gaussian.delta(low, epsilon) > delta:
        low /= 2
    two = root_below(lambda mu: gaussian.delta(mu, epsilon) - delta, low, high, tolerance=_CLOSE)
    one = two / math.sqrt(2)
    if gaussian.delta(one, _LEAST_FRACTION * epsilon) <= delta:
        return _LEAST_FRACTION
    return root_below(
        lambda part: gaussian.delta(one, part * epsilon) - delta,
        _LEAST_FRACTION,
        1.0,
        tolerance=_CLOSE,
    )


def hypothesis(k: int | None, reference: npt.ArrayLike | None) -> Array:
    """The uniform distribution on k answers, or the reference, checked and normalised."""
    both = "neither" if k is None else "both"
    checks.refuse(
        (k is None) == (reference is None), "exactly one of k and a reference", given=both
    )
    if reference is None:
        k = checks.count(2, k=k)  # type: ignore[arg-type]
        checks.refuse(k > MOST_ANSWERS, f"2 <= k <= {MOST_ANSWERS:,} answers", k=k)
        return np.full(k, 1 / k)
    try:
        probabilities = np.array(reference, dtype=np.float64)
    except (TypeError, ValueError) as error:
        shown = type(reference).__name__
        raise InvalidArgumentError("reference", shown, "a list of probabilities") from error
    shape = probabilities.shape
    few = len(shape) != 1 or shape[0] < 2
    checks.refuse(few, "a reference with at least two answers", reference=f"shape {shape}")
    for place in np.flatnonzero(~(np.isfinite(probabilities) & (probabilities >= 0))):
        expected = "probabilities that are finite and not negative"
        raise InvalidArgumentError(f"reference[{place}]", float(probabilities[place]), expected)
    total = float(probabilities.sum())
    off = abs(total - 1) > _SUM_TOLERANCE
    checks.refuse(off, "probabilities that sum to 1", **{"sum of reference": total})
    return probabilities / total


def is_uniform(reference: Array) -> bool:
    """Whether all answers are equally likely."""
    return float(np.ptp(reference)) <= _EVEN / reference.size


def check_distance(distance: float, reference: Array) -> None:
    """No distribution is further from the reference than all mass on its rarest answer."""
    check_noticeable(distance)
    limit = 1 - float(reference.min())
    expected = f"distance <= {limit:.6g}, the largest from this reference"
    checks.refuse(distance > limit, expected, distance=distance)


def check_noticeable(distance: float) -> None:
    """A distance that some number of people may notice."""
    checks.open_probability(distance=distance)
    expected = f"distance >= {SMALLEST_DISTANCE:g} (10^15 people would not notice less)"
    checks.refuse(distance < SMALLEST_DISTANCE, expected, distance=distance)

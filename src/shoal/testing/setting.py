"""How a hypothesis is tested: by whom, how privately, and by which ways of devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

from shoal import checks
from shoal.accounting import gaussian
from shoal.accounting.devices import People
from shoal.accounting.search import root_below
from shoal.mechanisms import registry
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits, require
from shoal.testing.hypothesis import Hypothesis
from shoal.values import attributes

Coin = Literal["auto", "private", "public"]

DELTA = 1e-6
DUMMIES = "dummies"
# Public coins, one message each or several.
PUBLIC = ONE_MESSAGE, SEVERAL_MESSAGES = ("partitioned", "partitioned-dummies")
SEVERAL = (DUMMIES, SEVERAL_MESSAGES)
NAMES = ("grr", "hadamard", "projective", DUMMIES, *PUBLIC)
ONE_MESSAGE_EACH = (
    "with one message for closeness (the several messages of one person are not exchangeable, so "
    "two batches of them cannot be split anew)"
)
_LEAST_FRACTION = 0.05
_CLOSE = 1e-12


@dataclass(frozen=True)
class Way:
    """How devices report for a test; whatever is not said is chosen, by predicted power.

    Args:
        coin: "private": each device draws its own noise alone; "public": answers are first sorted
            into the bins of random partitions that everybody knows; or "auto".
        randomizer: The name of the only mechanism that is allowed.
        partitions: Public partitions of the answers.
        symbols: Bins of each of them.
        coins: The number that the public partitions are drawn by; drawn at random unless given,
            as it has to be for the power to hold against any distribution.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.

    Example:
        >>> Way("public", partitions=2, symbols=8).coin
        'public'
    """

    coin: Coin = "auto"
    randomizer: str | None = None
    partitions: int | None = None
    symbols: int | None = None
    coins: int | None = None

    def __post_init__(self) -> None:
        coins, name = get_args(Coin), self.randomizer
        checks.refuse(self.coin not in coins, f"one of {', '.join(coins)}", coin=self.coin)
        checks.counts(self, partitions=1, symbols=2, coins=0)
        for field, value in self.layout.items():
            expected = f"no {field} with private coins (partitions are public)"
            checks.refuse(value is not None and self.coin == "private", expected, **{field: value})
        if name is None:
            return
        known = {*registry.names("answers", local=True), *NAMES}
        checks.refuse(name not in known, f"one of {', '.join(NAMES)}", randomizer=name)
        its = "public" if name in PUBLIC else "private"
        expected = f"coin {its} or auto with {name}"
        checks.refuse(self.coin not in {"auto", its}, expected, coin=self.coin)
        for field, value in self.layout.items():
            expected = f"no {field} with {name} (use {' or '.join(PUBLIC)})"
            checks.refuse(value is not None and its == "private", expected, **{field: value})

    @property
    def layout(self) -> dict[str, int | None]:
        """The partitions and their bins, as far as they are chosen."""
        return attributes(self, "partitions", "symbols")


ANY_WAY = Way()


@dataclass(frozen=True, eq=False, kw_only=True)
class Setting:
    """A hypothesis, the people who report, how private it has to be, and the ways that may be.

    :func:`shoal.testing.design` makes one of its arguments.

    Args:
        hypothesis: What is to be found out.
        n: People who report, in each batch for closeness.
        epsilon: ε > 0 of each person; of both batches together if they overlap.
        delta: δ in (0, 1).
        crowd: Who follows the protocol.
        limits: Messages that one person may send.
        way: How devices report.
        tightened: A further factor of what is left of epsilon for one of two batches.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.

    References:
        :doc:`/theory/testing`.
    """

    hypothesis: Hypothesis
    n: int
    epsilon: float
    delta: float = DELTA
    crowd: Crowd = EVERYBODY
    limits: Limits = NO_LIMITS
    way: Way = ANY_WAY
    tightened: float = 1.0

    def __post_init__(self) -> None:
        checks.target(epsilon=self.epsilon, delta=self.delta)
        checks.counts(self, n=2)
        require(self.crowd, self.limits)
        require_reporting(self.crowd)
        for limit, value in self.limits.to_dict().items():
            expected = f"no {limit} (a test has a limit on messages alone)"
            checks.refuse(limit != "messages", expected, **{limit: value})
        name, symbols = self.way.randomizer, self.way.symbols
        several = self.hypothesis.closeness and name in SEVERAL
        checks.refuse(several, f"a randomizer {ONE_MESSAGE_EACH}", randomizer=name)
        many = symbols is not None and symbols > self.k
        checks.refuse(many, f"symbols <= k = {self.k}", symbols=symbols)

    @property
    def k(self) -> int:
        """How many answers there are."""
        return self.hypothesis.probabilities.size

    @property
    def coins(self) -> int:
        """The number that the public partitions are drawn by."""
        return self.way.coins or 0

    @property
    def messages(self) -> float:
        """The most that one person may send on average."""
        return self.limits.most(chosen=self.way.randomizer is not None)

    @cached_property
    def batch_epsilon(self) -> float:
        """What one batch may cost: all of epsilon, or less where people may be in two."""
        if not self.hypothesis.overlapping:
            return self.epsilon
        return self.epsilon * self.tightened * batch_fraction(self.epsilon, self.delta)

    @property
    def people(self) -> People:
        """Whom the guarantee counts on."""
        return People(self.n, self.crowd)

    @property
    def price(self) -> dict[str, Any]:
        """The honest people of one batch, and what it may cost: what noise is made for."""
        honest = self.people.honest
        return {"n": honest, "epsilon": self.batch_epsilon, "delta": self.delta}

    def to_dict(self) -> dict[str, object]:
        """Plain values; a uniform reference is None, and so is any number of messages."""
        tested, cap = self.hypothesis, self.messages
        reference = None if tested.uniform else tested.probabilities.tolist()
        return (
            {"kind": tested.kind, **attributes(self, "n", "k"), "reference": reference}
            | attributes(self, "epsilon", "delta")
            | attributes(tested, "distance", "level")
            | {"coin": self.way.coin, "messages_cap": None if math.isinf(cap) else cap}
            | attributes(self.way, "randomizer", "partitions", "symbols")
            | {"honest_fraction": self.crowd.honest_fraction, "overlapping": tested.overlapping}
        )


def require_reporting(crowd: Crowd) -> None:
    """Whoever is counted reports."""
    expected = "no participation: everybody who is counted reports"
    checks.refuse(crowd.participation < 1, expected, participation=crowd.participation)


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

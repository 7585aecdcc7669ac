"""The verdict of a test."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from shoal.accounting.guarantee import Guarantee
from shoal.explain.document import Document
from shoal.explain.text import plain, up
from shoal.mechanisms.base import Device
from shoal.testing.hypothesis import Kind
from shoal.testing.ranks import Rank
from shoal.values import Array, attributes

# Rejected, and not.
_WORDS = {
    "uniformity": ("The answers are not uniform", "departure from uniform"),
    "identity": ("The answers do not follow the reference", "departure from the reference"),
    "closeness": ("The two groups do not answer alike", "difference between the two groups"),
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the hypothesis is rejected, and how surely a departure would have been noticed.

    :func:`shoal.testing.decide` returns it.

    Attributes:
        kind: "uniformity", "identity" or "closeness".
        statistic: That of the batch.
        null: The simulated statistics.
        rank: Its p-value among them, the threshold, and whether it is above.
        level: Probability to reject a hypothesis that is true.
        distance: Total variation that was to be noticed.
        power: Predicted probability to notice it, against the hardest distribution.
        sizes: People in each batch.
        guarantee: The (ε, δ) of everybody.
        device: What each device ran.

    References:
        :doc:`/theory/testing`.
    """

    kind: Kind
    statistic: float
    null: Array = field(repr=False, compare=False)
    rank: Rank
    level: float
    distance: float
    power: float
    sizes: tuple[int, ...]
    guarantee: Guarantee
    device: Device

    @property
    def rejected(self) -> bool:
        """Whether the p-value is at most the level: the statistic is above the threshold."""
        return self.rank.rejected

    @property
    def p_value(self) -> float:
        """The rank (1 + simulated statistics at least as large)/(1 + simulated ones).

        Under the hypothesis it is at most any level with at most that probability, exactly,
        whatever n.
        """
        return self.rank.p_value

    @property
    def threshold(self) -> float:
        """What the statistic has to be above."""
        return self.rank.threshold

    @property
    def simulations(self) -> int:
        """How many statistics were simulated."""
        return self.null.size

    @property
    def coin(self) -> str:
        """Private, or public where everybody has to know the partitions."""
        return coin_of(self.device)

    @property
    def n(self) -> int:
        """People in all batches together."""
        return sum(self.sizes)

    @property
    def words(self) -> str:
        """One sentence."""
        p_value = f"p = {self.p_value:.2g}"
        if self._smallest:
            p_value = f"p ≤ {self.p_value:.2g} ({self.simulations:,} simulations)"
        rejected, unseen = _WORDS[self.kind]
        if self.rejected:
            return f"{rejected}: {p_value}, at level {self.level:g}."
        return (
            f"No {unseen} was seen: {p_value}, at level {self.level:g}; a distance of "
            f"{self.distance:g} would have been noticed with probability {self.power:.2f}."
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on the guarantee."""
        return self.guarantee.warnings

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return (
            attributes(self, "kind", "rejected", "p_value", "statistic", "threshold", "level")
            | attributes(self, "distance", "power", "sizes", "simulations", "coin")
            | {"sizes": list(self.sizes), "device": self.device.described(), "words": self.words}
            | {"guarantee": self.guarantee.to_dict(), "warnings": list(self.warnings)}
        )

    def document(self) -> Document:
        """The verdict in a sentence, and the numbers that it rests on; its guarantee has its own.

        The smallest p-value that so many simulations can show is a bound.
        """
        above = "above" if self.rejected else "not above"
        bound = "≤ " if self._smallest else ""
        return Document(
            f"Test of {self.kind}",
            sentences=(self.words,),
            facts=(
                ("p-value", f"{bound}{self.p_value:.3g} ({self.simulations:,} simulations)"),
                (
                    "statistic",
                    f"{self.statistic:,.5g}, {above} its threshold {self.threshold:,.5g}",
                ),
                ("power", f"{self.power:.3f} at distance {plain(self.distance)} (predicted)"),
                ("people", " and ".join(f"{size:,}" for size in self.sizes)),
                ("device", f"{_described(self.device)}, {self.coin} coins"),
            ),
            warnings=self.warnings,
        )

    @property
    def _smallest(self) -> bool:
        return self.p_value <= 1 / (self.simulations + 1)

    def __str__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        return self.document().to_html() + self.guarantee.document().to_html()


def coin_of(device: Device) -> str:
    """Private, or public where everybody has to know the partitions."""
    return "public" if device.public_coins else "private"


def _described(device: Device) -> str:
    partitions, symbols = getattr(device, "partitions", 0), getattr(device, "symbols", 0)
    layout = f"{partitions:,} partition{'s' * (partitions != 1)} of {symbols:,} symbols"
    name = f"{device.name} with {layout}" if partitions else device.name
    if math.isinf(device.local_epsilon):
        return f"{name}, {device.messages:,.4g} messages each"
    return f"{name}, ε0 = {up(device.local_epsilon)}"

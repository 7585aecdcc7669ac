"""What a test found."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.accounting.guarantee import Guarantee
from shoal.protocols.base import Device
from shoal.protocols.registry import described
from shoal.testing.question import Kind

_DEPARTED = {
    "uniformity": "The answers are not uniform",
    "identity": "The answers do not follow the reference",
    "closeness": "The two groups do not answer alike",
}
_UNSEEN = {
    "uniformity": "No departure from uniform was seen",
    "identity": "No departure from the reference was seen",
    "closeness": "No difference between the two groups was seen",
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the hypothesis is rejected, and how surely a departure would have been noticed.

    ``p_value`` is the rank (1 + number of simulated statistics at least as large)/(1 + number
    simulated). Under the hypothesis it is at most any level with at most that probability, exactly,
    whatever n; ``rejected`` says that it is at most ``level``, which is that ``statistic`` is above
    ``threshold``. ``power`` is predicted: the chance to reject at ``distance``, against the
    distribution that is hardest to notice.
    """

    kind: Kind
    rejected: bool
    p_value: float
    statistic: float
    threshold: float
    level: float
    distance: float
    power: float
    sizes: tuple[int, ...]
    simulations: int
    guarantee: Guarantee
    coin: str
    device: Device

    @property
    def n(self) -> int:
        """People in all batches together."""
        return sum(self.sizes)

    @property
    def p_words(self) -> str:
        """The p-value; the smallest possible one says that it only is an upper limit."""
        least = 1 / (self.simulations + 1)
        if self.p_value <= least:
            return f"p ≤ {least:.2g} ({self.simulations:,} simulations)"
        return f"p = {self.p_value:.2g}"

    @property
    def words(self) -> str:
        """One sentence."""
        if self.rejected:
            return f"{_DEPARTED[self.kind]}: {self.p_words}, at level {self.level:g}."
        return (
            f"{_UNSEEN[self.kind]}: {self.p_words}, at level {self.level:g}; a distance of "
            f"{self.distance:g} would have been noticed with probability {self.power:.2f}."
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "kind": self.kind,
            "rejected": self.rejected,
            "p_value": self.p_value,
            "statistic": self.statistic,
            "threshold": self.threshold,
            "level": self.level,
            "distance": self.distance,
            "power": self.power,
            "sizes": list(self.sizes),
            "simulations": self.simulations,
            "coin": self.coin,
            "device": described(self.device),
            "words": self.words,
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self) -> str:
        return self.words

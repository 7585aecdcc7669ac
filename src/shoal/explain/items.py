"""An estimate as everybody shows it: to the digits of its margin of error."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shoal.explain.text import measured


@dataclass(frozen=True)
class Item:
    """A fraction in percent, a mean or a coordinate of it, and its 95 % interval.

    ``total`` is people, about, or the sum over them. What is not ``significant`` may be mere noise.
    """

    label: str
    value: float
    low: float
    high: float
    total: float = 0.0
    significant: bool = True
    truth: float | None = None
    error: float = 0.0
    unit: str = ""

    @property
    def margin(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def shown(self, value: float) -> str:
        """A value to the digits of the margin."""
        return measured(value, self.margin) + self.unit

    def scaled(self, factor: float) -> Item:
        """The same, so many times as large."""
        truth = None if self.truth is None else factor * self.truth
        value, low, high = (factor * each for each in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high, truth=truth)

    @property
    def percent(self) -> Item:
        """A fraction of one as one of a hundred."""
        return replace(self.scaled(100), unit=" %")

    @property
    def cells(self) -> tuple[str, str]:
        """The value and its interval."""
        return self.shown(self.value), f"{self.shown(self.low)} to {self.shown(self.high)}"

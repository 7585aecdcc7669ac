"""Randomized response on randomly rounded numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from shoal.randomizers.windows import WindowRandomizer


@dataclass(frozen=True, kw_only=True)
class RoundedResponse(WindowRandomizer):
    """Round at random to one of ``levels`` values, then randomized response among them.

    Citations: Balle, Bell, Gascón, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019
    (arXiv 1903.02837), whose error is of the best order for one message.
    Runtime: two draws and one division per report; O(n + levels) to estimate.
    Utility: with g = k/(e + k - 1), k = m + 1 levels and range 1, n Var is at most about
    g/(3 (1 - g)^2) + 1/(4 m^2): more levels round less and lie more. About (n/28)^(1/3) levels are
    best for a shuffled (1, 1e-6).

    >>> RoundedResponse(low=0, high=1, epsilon=1.0, levels=3).table().round(3)[0].tolist()
    [0.576, 0.212, 0.212]
    """

    name: ClassVar[str] = "rounded"

    low: float
    high: float
    epsilon: float
    levels: int = 16

    @property
    def width(self) -> int:
        """One likelier output: the level itself."""
        return 1

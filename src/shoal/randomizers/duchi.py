"""One bit per number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from shoal.randomizers.windows import WindowRandomizer


@dataclass(frozen=True, kw_only=True)
class Duchi(WindowRandomizer):
    """Send "high" with a probability linear in the number, from 1/(e + 1) to e/(e + 1).

    The same as rounding at random to ``low`` or ``high`` and one bit of randomized response, so
    every report is a mixture of those of the two bounds, which are the worst pair of inputs.

    Citations: Duchi, Jordan, Wainwright, "Minimax Optimal Procedures for Locally Private
    Estimation", JASA 2018 (arXiv 1604.02390), in one dimension.
    Runtime: two draws and one division per report; O(n) to estimate.
    Utility: with C = (e + 1)/(e - 1) and x scaled to [-1, 1], n Var = C^2 - x^2. Best for epsilon
    below about 1; for a large epsilon the rounding alone costs up to 1.

    >>> Duchi(low=-1, high=1, epsilon=1.0).table().round(3)[0].tolist()
    [0.731, 0.269]
    """

    name: ClassVar[str] = "duchi"

    low: float
    high: float
    epsilon: float
    levels: int = field(default=2, init=False, repr=False)

    @property
    def width(self) -> int:
        """One likelier output: the bound itself."""
        return 1

"""A window of likelier outputs around the number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from shoal.randomizers.windows import WindowRandomizer


@dataclass(frozen=True, kw_only=True)
class Piecewise(WindowRandomizer):
    """Send a point of a window around the number with odds e^epsilon : 1 against the rest.

    The piecewise mechanism on a grid: the window has about ``m e^(-epsilon/2)`` of the
    ``m (1 + e^(-epsilon/2))`` outputs, for ``levels = m + 1``. After shuffling it is worth as much
    as randomized response among e^(epsilon/2) + 1 answers.

    Citations: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and Analyzing
    Multidimensional Data with Local Differential Privacy", ICDE 2019 (arXiv 1907.00782).
    Runtime: two draws and two divisions per report; O(n + levels) to estimate.
    Utility: with s = e^(epsilon/2) and x scaled to [-1, 1], n Var is about
    x^2/(s - 1) + (s + 3)/(3 (s - 1)^2): below one bit's for epsilon above about 1.3.

    >>> Piecewise(low=-1, high=1, epsilon=2.0).width
    376
    """

    name: ClassVar[str] = "piecewise"

    low: float
    high: float
    epsilon: float
    levels: int = 1024

    @property
    def width(self) -> int:
        """The published share of the outputs, rounded, at least one."""
        return max(1, round((self.levels - 1) * math.exp(-self.epsilon / 2)))

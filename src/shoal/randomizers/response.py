"""k-ary randomized response."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.law import BlanketLaw


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """Tell the truth with probability e^epsilon / (e^epsilon + k - 1), else another answer.

    Warner 1965 for two answers; Kairouz, Bonawitz, Ramage 2016 (arXiv 1602.07387) for k.

    >>> RandomizedResponse(k=3, epsilon=1.0).table().round(3)[0].tolist()
    [0.576, 0.212, 0.212]
    """

    k: int
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", checks.count(2, k=self.k))
        checks.positive(epsilon=self.epsilon)

    def law(self) -> BlanketLaw:
        """The blanket law: by symmetry one list of atoms serves all pairs of answers."""
        return BlanketLaw.randomized_response(k=self.k, epsilon=self.epsilon)

    def table(self) -> npt.NDArray[np.float64]:
        """Pr[report y | answer x], one row per answer."""
        weights = np.ones((self.k, self.k))
        np.fill_diagonal(weights, math.exp(self.epsilon))
        normalised: npt.NDArray[np.float64] = weights / weights[0].sum()
        return normalised

"""Unit vectors from a cap of the sphere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from shoal.randomizers.vectors import CapRandomizer
from shoal.values import Array


@dataclass(frozen=True, kw_only=True)
class PrivUnit(CapRandomizer):
    """A random unit vector, likelier from a cap around the true one by e^epsilon.

    On the sphere, (1 + <u, v>)/2 has the law Beta(a, a) with a = (d - 1)/2. A cap of share c
    reaches I(c) = (1 - g^2)^a/((d - 1) B(1/2, a)), g the height of its rim. Reports have length 1.

    Citations: Bhowmick, Duchi, Freudiger, Kapoor, Rogers, "Protection Against Reconstruction and
    Its Applications in Private Federated Learning" (arXiv 1812.00984), with the exact odds and the
    best cap of Asi, Feldman, Talwar, "Optimal Algorithms for Mean Estimation under Local
    Differential Privacy", ICML 2022 (arXiv 2205.02466), where it is shown to be optimal.
    Runtime: d + 2 draws and one inverse beta function per report; O(n d) to estimate.
    Utility: squared error 1/m^2 - 1 per report, the same for every vector.

    >>> randomizer = PrivUnit(dimension=100, epsilon=8.0)
    >>> round(randomizer.variance(n=1), 1)
    12.7
    """

    name: ClassVar[str] = "privunit"

    dimension: int
    epsilon: float

    @property
    def _half(self) -> float:
        return (self.dimension - 1) / 2

    def _reach(self, shares: Array) -> Array:
        a = self._half
        rim = special.betaincinv(a, a, shares)
        logs = a * np.log(4 * rim * (1 - rim)) - np.log(2 * a) - special.betaln(0.5, a)
        return np.asarray(np.exp(logs), dtype=np.float64)

    def _square(self, shares: Array, contrasts: Array) -> Array:
        del contrasts
        return np.ones_like(shares)

    def _along(self, share: float, contrast: float) -> float:
        """Under the reference law E<u, v>^2 = 1/d, of which ((d - 1) g I(c) + c)/d in the cap."""
        a, d = self._half, self.dimension
        height = 1 - 2 * float(special.betaincinv(a, a, share))
        reach = float(self._reach(np.asarray(share)))
        inside = ((d - 1) * height * reach + share) / d
        # The density is 1 - contrast c outside the cap, and larger by the contrast within.
        return (1 - contrast * share) / d + contrast * inside

    def _heights(self, ranks: Array) -> Array:
        return np.asarray(2 * special.betaincinv(self._half, self._half, ranks) - 1)

    def _assembled(self, heights: Array, across: Array) -> Array:
        lengths = np.sqrt(np.einsum("ij,ij->i", across, across))
        return np.asarray(np.sqrt((1 - heights) * (1 + heights)) / lengths)

    @property
    def _lengths(self) -> tuple[float, float]:
        """One, but for the rounding of every coordinate by up to 2^-25."""
        slack = 1e-9 + 2.0**-25 * self.dimension**0.5
        return 1 - slack, 1 + slack

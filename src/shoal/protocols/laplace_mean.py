"""The error of a sum that was rounded at random and got Laplace noise, and its limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from shoal import checks
from shoal.values import MeanEstimate


@dataclass(frozen=True)
class LaplaceMean(MeanEstimate):
    """A mean whose error is Laplace noise of this ``scale``, and a little that is nearly normal.

    ``granularity`` is half a step of the noise, which comes in whole steps.
    """

    scale: float = 0.0
    spread: float = 0.0
    granularity: float = 0.0

    @classmethod
    def noisy(
        cls, mean: float, *, n: int, unit: float, rate: float | None, people: int
    ) -> LaplaceMean:
        """Of n people, rounded to levels worth ``unit`` each; rounding counts at its worst.

        ``people`` of them together add noise of Pr[Z = z] ∝ e^(−rate |z|), in levels.
        """
        rounding = unit * math.sqrt(n / 4)
        if rate is None:
            return cls(mean, rounding, n, spread=rounding)
        parts = n / people
        noise = unit * math.sqrt(parts / 2) / math.sinh(rate / 2)
        return cls(
            mean,
            math.hypot(rounding, noise),
            n,
            scale=unit * math.sqrt(max(1.0, parts)) / rate,
            spread=rounding,
            granularity=unit / 2,
        )

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence limits of the mean: Laplace noise has more in its tails than normal noise."""
        checks.open_probability(level=level)
        normal = NormalDist().inv_cdf((1 + level) / 2) * self.standard_error
        reach = max(normal, self._quantile(1 - level) + self.granularity)
        return self.mean - reach, self.mean + reach

    def _quantile(self, outside: float) -> float:
        """Where |Laplace + normal| is beyond with this probability, from above."""
        low, high = 0.0, 40 * (self.scale + self.spread) * (1 - math.log(outside))
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self._beyond(middle) > outside else (low, middle)
        return high

    def _beyond(self, reach: float) -> float:
        """Pr[|L + N| > t] = Pr[|N| > t] + e^(κ²/2) (e^(−t/b) Φ(t/s−κ) − e^(t/b) Φ(−t/s−κ)), κ=s/b.

        Where the spread s is too small to matter, the Laplace tail alone.
        """
        if not self.scale:
            return math.erfc(reach / self.spread / math.sqrt(2)) if self.spread else 0.0
        decay, ratio = reach / self.scale, self.spread / self.scale
        if not 1e-6 < ratio < 30:
            alone = math.exp(-decay)
            return alone if ratio <= 1e-6 else math.erfc(reach / self.spread / math.sqrt(2))
        at = reach / self.spread
        near = math.exp(ratio**2 / 2 - decay) * _normal(at - ratio)
        # The second product is a huge number times a tiny one; far out it is nothing.
        far = math.exp(ratio**2 / 2 + decay) * _normal(-at - ratio) if at + ratio < 36 else 0.0
        return math.erfc(at / math.sqrt(2)) + near - far


def _normal(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2

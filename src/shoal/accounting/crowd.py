"""How many people a guarantee may count on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from shoal import checks
from shoal.errors import InvalidArgumentError

_ABSENCE = 1e-12  # what a crowd smaller than counted on may cost of delta


@dataclass(frozen=True)
class Crowd:
    """People asked, the share of them that is honest, and how likely each one takes part.

    Dropped-out and dishonest people hide nobody: the guarantee counts on ``honest`` of them.
    ``participation`` is each person's own coin, which the analyzer does not see.
    """

    n: int
    honest_fraction: float = 1.0
    honest_n: int | None = None
    participation: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.count(n=self.n))
        checks.share(honest_fraction=self.honest_fraction, participation=self.participation)
        if self.honest_n is not None:
            object.__setattr__(self, "honest_n", checks.count(honest_n=self.honest_n))
            if self.honest_n > self.n:
                raise InvalidArgumentError("honest_n", self.honest_n, f"honest_n <= n = {self.n}")
            if self.honest_fraction != 1.0:
                expected = "either honest_n or honest_fraction, not both"
                raise InvalidArgumentError("honest_n", self.honest_n, expected)
        if self.honest < 1:
            expected = f"at least one honest person among n = {self.n}"
            raise InvalidArgumentError("honest_fraction", self.honest_fraction, expected)

    @property
    def honest(self) -> int:
        """Honest people, rounded down."""
        if self.honest_n is not None:
            return self.honest_n
        # The share as it was written: 0.9 is nine tenths, not the float next to it.
        return min(self.n, math.floor(self.n * Fraction(repr(float(self.honest_fraction)))))

    @property
    def present(self) -> int:
        """So many honest people, one given among them, take part but for :attr:`absence`."""
        if self.participation == 1:
            return self.honest
        from scipy import stats

        others = stats.binom(self.honest - 1, self.participation)
        return 1 + max(0, int(others.ppf(_ABSENCE)) - 1)

    @property
    def absence(self) -> float:
        """Probability that fewer than :attr:`present` take part."""
        return 0.0 if self.participation == 1 else _ABSENCE

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the crowd is taken to be, in words."""
        stated = [f"at least {self.honest:,} of {self.n:,} people follow the protocol"]
        if self.participation < 1:
            coin = f"each takes part with probability {self.participation:g}"
            stated.append(f"{coin}, and nobody sees who did")
        return tuple(stated)

"""The privacy profile: the whole curve delta(epsilon) of n shuffled reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from shoal import checks
from shoal.accounting import integral, lower, renyi
from shoal.accounting.atoms import PairLaw
from shoal.accounting.curve import Curve
from shoal.accounting.law import BlanketLaw
from shoal.accounting.search import Side
from shoal.errors import UnreachableTargetError


@dataclass(frozen=True)
class PrivacyProfile(Curve):
    """delta(epsilon) of n shuffled reports under a blanket law, an upper bound everywhere.

    ``n`` counts the honest reports; replacement of one person's datum; both orders covered.

    >>> profile = PrivacyProfile(BlanketLaw.generic(4.0), n=100_000)
    >>> round(profile.epsilon(1e-6), 4)
    0.1182
    """

    law: BlanketLaw
    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.count(n=self.n))

    @property
    def theorem(self) -> str:
        """What the upper bound rests on."""
        return self.law.claim.theorem

    @property
    def scope(self) -> str:
        """Which randomizers it speaks about."""
        return self.law.claim.scope

    @property
    def local_epsilon(self) -> float:
        """What one report reveals by itself, without trusting the shuffler."""
        return self.law.local_epsilon

    def delta(self, epsilon: float) -> float:
        """The smallest delta proved at this epsilon (a negative epsilon is allowed)."""
        if epsilon < 0:
            # D_x(P, Q) = 1 - x + x D_{1/x}(Q, P), and both orders are covered.
            x = math.exp(epsilon)
            return min(1.0, -math.expm1(epsilon) + x * self.delta(-epsilon))
        checks.non_negative(epsilon=epsilon)
        return max(self._delta_of(pair, epsilon) for pair in self.law.pairs)

    def quick_delta(self, epsilon: float) -> float:
        """The same bound, at most 3e-4 relative above the curve."""
        if epsilon >= self.local_epsilon:
            return 0.0
        return max(
            integral.enclose(pair, n=self.n, epsilon=epsilon, tolerance=integral.TOLERANCE).upper
            for pair in self.law.pairs
        )

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon proved at this delta, to 1e-7 relative."""
        checks.open_probability(delta=delta)
        if self.smallest_delta >= delta:
            raise UnreachableTargetError(
                f"delta={delta:g}",
                f"outputs possible under one input only have probability {self.smallest_delta:g}",
                "ask for a larger delta, or give every input a share of every output",
            )
        pairs: Sequence[PairLaw] = self.law.pairs
        answer = 0.0
        # The pair that is worst at one answer is usually worst at the next: solve it first.
        while pairs:
            deltas = [self._delta_of(pair, answer) for pair in pairs]
            worst = max(range(len(pairs)), key=deltas.__getitem__)
            if deltas[worst] <= delta:
                break
            at_zero = math.log(deltas[worst]) if answer == 0 else None
            solved = integral.epsilon(
                pairs[worst],
                self.n,
                delta,
                cap=float(self.local_epsilon),
                side=Side.UPPER,
                at_zero=at_zero,
            )
            answer = max(answer, solved)
            exceeding = [i for i, found in enumerate(deltas) if found > delta and i != worst]
            pairs = [pairs[i] for i in exceeding]
        return answer

    def lower_delta(self, epsilon: float) -> float:
        """A delta that some data set really has: no analysis of the same claim can beat it."""
        checks.non_negative(epsilon=epsilon)
        return lower.delta(self.law, n=self.n, epsilon=epsilon)

    def lower_epsilon(self, delta: float) -> float:
        """An epsilon that no analysis of the same claim can go below."""
        checks.open_probability(delta=delta)
        return lower.epsilon(self.law, n=self.n, delta=delta)

    def lower_rounds_epsilon(self, rounds: int, delta: float) -> float:
        """An epsilon that no analysis of so many adaptive rounds can go below."""
        once = self.lower_epsilon(delta)
        if rounds == 1 or self.law.claim.clone_probability is None or self.local_epsilon == 0:
            return once
        from shoal.accounting import ternary

        repeated = ternary.epsilon(
            local_epsilon=self.local_epsilon, n=self.n, rounds=rounds, delta=delta
        )
        return max(once, repeated)

    def renyi(self, order: float) -> float:
        """Upper bound on the Rényi divergence of this real order > 1.

        Exact for the (optimal) clones while the crowd is small enough to sum over.
        """
        clones = self.law.claim.clone_probability
        if clones is not None and self.n * clones <= renyi.LARGEST_EXACT_CROWD:
            return renyi.ClonePair(self.local_epsilon, clones, self.n).divergence(order)
        return super().renyi(order)

    @property
    def smallest_delta(self) -> float:
        """Probability of outputs that are possible under one input only."""
        return max(_impossible_elsewhere(pair) for pair in self.law.pairs)

    @cached_property
    def spread(self) -> float:
        """Standard deviation of the privacy loss to leading order: a scale, not a bound."""
        return max(pair.spread(self.n) for pair in self.law.pairs)

    def _delta_of(self, pair: PairLaw, epsilon: float) -> float:
        if epsilon >= self.local_epsilon:
            return 0.0
        return integral.enclose(pair, n=self.n, epsilon=epsilon).upper


def _impossible_elsewhere(pair: PairLaw) -> float:
    return float(pair.lost0[pair.lost1 == 0].sum())

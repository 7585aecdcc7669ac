"""Several adaptive rounds, of the same or of different profiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args, overload

import numpy as np

from shoal import checks
from shoal.accounting import renyi
from shoal.accounting.atoms import Array
from shoal.accounting.profile import Curve, Numbers, each, pure_samples
from shoal.errors import OutOfRegimeError, PrecisionError, UnreachableTargetError

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Method = Literal["pld", "renyi", "advanced", "best"]
METHODS: tuple[Method, ...] = get_args(Method)
THEOREMS = {
    "pld": "composed as privacy loss distributions",
    "renyi": "composed as Rényi divergences",
    "advanced": "advanced composition (KOV15)",
}
_PLD_CURE = "use Rényi composition (method 'renyi' or 'best') or a larger delta"
_MANY_ROUNDS = 10_000
_TRUSTED_FRACTION = 0.05  # of delta: how much of it floating point may use up
_SLACKS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)  # of delta, in advanced composition
_ORDERS = np.concatenate([np.linspace(1.05, 2.0, 12), np.geomspace(2.2, 1e5, 60)])


@dataclass(frozen=True)
class ComposedProfile(Curve):
    """Adaptive composition; equal rounds are counted, so ``p * 2`` equals ``p + p``.

    >>> from shoal.accounting.law import BlanketLaw
    >>> from shoal.accounting.profile import PrivacyProfile
    >>> once = PrivacyProfile(BlanketLaw.generic(1.0), n=10_000)
    >>> once * 3 == once + once + once
    True
    """

    terms: tuple[tuple[Curve, int], ...]

    @classmethod
    def of(cls, terms: Iterable[tuple[Curve, int]]) -> ComposedProfile:
        """Join equal rounds."""
        counts: dict[Curve, int] = {}
        for term, rounds in terms:
            counts[term] = counts.get(term, 0) + rounds
        return cls(tuple(counts.items()))

    @property
    def rounds(self) -> int:
        """How many rounds there are."""
        return sum(rounds for _, rounds in self.terms)

    def __post_init__(self) -> None:
        each = [(rounds, term.local_epsilon, term.local_delta) for term, rounds in self.terms]
        local_epsilon = sum(rounds * epsilon for rounds, epsilon, _ in each)
        local_delta = sum(rounds * delta for rounds, _, delta in each)
        vars(self).update(local_epsilon=local_epsilon, local_delta=local_delta)

    @property
    def spread(self) -> float:
        """A scale of the privacy loss, not a bound."""
        return math.sqrt(sum(rounds * term.spread**2 for term, rounds in self.terms))

    @overload
    def epsilon(self, delta: float, *, method: Method = "pld") -> float: ...
    @overload
    def epsilon(self, delta: Numbers, *, method: Method = "pld") -> Array: ...
    def epsilon(self, delta: float | Numbers, *, method: Method = "pld") -> float | Array:
        """The smallest epsilon proved at this delta, or at each; ``method="best"`` tries all."""
        if isinstance(delta, Sequence | np.ndarray):
            return each(lambda one: self.epsilon(one, method=method), delta)
        return self.answer(delta, method=method)[0]

    def answer(self, delta: float, *, method: Method = "pld") -> tuple[float, str]:
        """epsilon and the theorem it comes from."""
        checks.open_probability(delta=delta)
        checks.refuse(method not in METHODS, f"one of {', '.join(METHODS)}", method=method)
        answers: list[tuple[float, str]] = []
        refused: Exception | None = None
        for name in THEOREMS if method == "best" else (method,):
            try:
                answers.append((self._by(name, delta), THEOREMS[name]))
            except (PrecisionError, OutOfRegimeError, UnreachableTargetError) as error:
                if method != "best":
                    raise
                refused = error
        if refused is not None and not answers:
            raise refused
        value, theorem = min(answers)
        if math.isinf(value):
            raise UnreachableTargetError(
                f"delta={delta:g} over {self.rounds} rounds",
                "whatever epsilon is, their delta is larger (losses above 700 count as infinite)",
                "ask for a larger delta, or use randomizers with more noise",
            )
        return value, theorem if refused is None else f"{theorem} ({refused})"

    def tightest(self, delta: float) -> tuple[float, str]:
        """epsilon and its theorem: by loss distributions, by what else can be had, or added up.

        Basic composition, to add epsilons and equal parts of delta, is the tightest where a curve
        falls off at once; and no precision keeps it from an answer.
        """
        answers: list[tuple[float, str]] = []
        refused: Exception | None = None
        for method in ("pld", "best"):
            try:
                answers.append(self.answer(delta, method=method))
                break
            except PrecisionError as error:
                refused = error
            except UnreachableTargetError as error:
                refused = error
                break
        try:
            each = delta / self.rounds
            added = math.fsum(rounds * term.epsilon(each) for term, rounds in self.terms)
            answers.append((added, "epsilons and deltas added up"))
        except UnreachableTargetError as error:  # a part of delta may be too little for one of them
            refused = refused or error
        if refused is not None and not answers:
            raise refused
        return min(answers)

    def _epsilon(self, delta: float) -> float:
        return self.answer(delta)[0]

    def _delta(self, epsilon: float) -> float:
        """By privacy loss distributions."""
        if epsilon >= self.local_epsilon:
            return self.local_delta
        distribution, error = self._loss
        computed = max(0.0, float(distribution.get_delta_for_epsilon(epsilon)))
        return min(1.0, computed + error)

    def lower_epsilon(self, delta: float, rounds: int = 1) -> float:
        """No analysis can go below: all rounds reveal at least what one kind of them does."""
        return max(term.lower_epsilon(delta, rounds * times) for term, times in self.terms)

    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (("rounds", f"{self.rounds:,}, {THEOREMS['pld']}"),)

    def _renyi(self, order: float) -> float:
        """Rényi divergences add up over adaptive rounds."""
        return sum(rounds * term.renyi(order) for term, rounds in self.terms)

    def pld(self, discretization: float | None = None) -> PrivacyLossDistribution:
        """The composed ``dp_accounting`` distribution (its FFT rounding is not included).

        To compose it with one of ``dp_accounting``, take that one's grid (there 1e-4 by default).
        """
        from shoal.accounting import loss

        if discretization is None:
            return self._loss[0]
        return loss.composed(self.terms, discretization=discretization)[0]

    def __mul__(self, rounds: int) -> ComposedProfile:
        """Repeat the whole sequence."""
        times = checks.count(rounds=rounds)
        return ComposedProfile.of((term, count * times) for term, count in self.terms)

    __rmul__ = __mul__

    def __add__(self, other: Curve) -> ComposedProfile:
        """One sequence of rounds after the other."""
        return ComposedProfile.of([*self.terms, *(other * 1).terms])

    @cached_property
    def _loss(self) -> tuple[PrivacyLossDistribution, float]:
        """The composed distribution, and the delta that rounding may have hidden."""
        from shoal.accounting import loss

        # Very many rounds are not worth composing only to be refused.
        _require_precision(loss.least_error(self.terms), 1.0)
        return loss.composed(self.terms)

    def _by(self, method: str, delta: float) -> float:
        by = {"pld": self._by_loss, "renyi": self._by_renyi, "advanced": self._by_advanced}
        epsilon = by[method](delta)
        return min(epsilon, self.local_epsilon) if delta >= self.local_delta else epsilon

    def _by_loss(self, delta: float) -> float:
        if self.rounds > _MANY_ROUNDS:
            from shoal.accounting import loss

            _require_precision(loss.least_error(self.terms), delta)
        distribution, error = self._loss
        _require_precision(error, delta)
        return max(0.0, float(distribution.get_epsilon_for_delta(delta - error)))

    def _by_renyi(self, delta: float) -> float:
        samples = [(pure_samples(term), rounds) for term, rounds in self.terms]
        best = math.inf
        for order in _ORDERS.tolist():
            divergence = sum(rounds * renyi.from_samples(term, order) for term, rounds in samples)
            best = min(best, renyi.to_epsilon(divergence, order, delta))
        return best

    def _by_advanced(self, delta: float) -> float:
        """The best of several slacks; what they leave of delta is that of the rounds."""
        best = math.inf
        for fraction in _SLACKS:
            per_round = (1 - fraction) * delta / self.rounds
            parts = [(term.epsilon(per_round), count) for term, count in self.terms]
            best = min(best, advanced(parts, slack=fraction * delta))
        return best


def _require_precision(error: float, delta: float) -> None:
    if error > _TRUSTED_FRACTION * delta:
        quantity = "composition by privacy loss distribution: delta"
        raise PrecisionError(quantity, delta, error / _TRUSTED_FRACTION, _PLD_CURE)


def advanced(parts: Sequence[tuple[float, int]], *, slack: float) -> float:
    """Kairouz, Oh, Viswanath 2015, Theorem 3.5 (arXiv 1311.0776), for (epsilon, rounds).

    Rounds that are (eps_i, delta_i)-DP compose to eps with
    1 - (1 - slack) prod (1 - delta_i) <= slack + sum delta_i, where

        eps = min{ sum eps_i,
                   m + sqrt(2 v log(1/slack)),
                   m + sqrt(2 v log(e + sqrt(v)/slack)) },
        m = sum eps_i (e^eps_i - 1)/(e^eps_i + 1),  v = sum eps_i^2.
    """
    drift = sum(count * eps * math.tanh(eps / 2) for eps, count in parts)
    squares = sum(count * eps**2 for eps, count in parts)
    logs = min(math.log(1 / slack), math.log(math.e + math.sqrt(squares) / slack))
    return min(sum(count * eps for eps, count in parts), drift + math.sqrt(2 * squares * logs))

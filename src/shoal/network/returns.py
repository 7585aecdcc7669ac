"""Leading eigenpairs, and how soon a report comes back: what the eigenpairs leave out is smaller.

With S = Q̂ Θ Q̂ᵀ + N + E as in :mod:`shoal.network.leading` and y_u = S² e_u, for t >= 4

    S^t(u, v) = y_uᵀ S^(t-4) y_v,    |y_uᵀ N^(t-4) y_v| <= λ^(t-4) √(r_u r_v),

    r_u >= ‖(I - Π) y_u‖² = S⁴(u, u) - Σ_k (Q̂ᵀ y_u)_k²,

where S⁴(u, u) = P⁴(u, u), the chance of being back after four rounds. For a peer that hangs on a
well connected one it is far less than 1, which is all that the eigenpairs know. S² Q̂ differs
from Q̂ Θ² by 2 ρ at most, off √π, so that

    |S^t(u, v) - Σ_k θ_k^t Q_uk Q_vk| <= λ^(t-4) √(r_u r_v) + 2 t ρ b^(t-5) + (8 ρ + 3 o) b^(t-4),

with rounding added. S⁴(u, u) = Σ_v S²(u, v)² is computed for those for whom it matters;
r_u <= (λ √s_u + ρ)² for the others, s_u the same with one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shoal.network import kernels
from shoal.network.graph import Nodes
from shoal.network.leading import Leading
from shoal.network.walk import Walk
from shoal.values import Array

_STEPS = 2
_SHORTEST = 2 * _STEPS + 1
_WORK = 3e7  # products for chances of being back
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class Refined:
    """Eigenpairs of a walk with what they leave out of each node, two steps later."""

    walk: Walk
    pairs: Leading

    @property
    def failure(self) -> float:
        """The probability that the bound on the remaining eigenvalues does not hold."""
        return self.pairs.failure

    def unseen(self, rounds: int) -> Array:
        """About how much the eigenpairs leave open of P_u(u)/π_u: who should be looked at."""
        if rounds < _SHORTEST:
            return np.asarray(self.pairs.unseen / self.pairs.stationary)
        return np.asarray(self.left / self.pairs.stationary)

    def allowance(self, rounds: int, excepted: int) -> float:
        """About how much is left open of anybody's P_u(v)/π_v, but for a few people's."""
        steps = 2 * _STEPS if rounds >= _SHORTEST else 0
        unseen = np.sort(self.unseen(rounds))[::-1]
        return float(unseen[min(excepted // 2, unseen.size - 1)]) * (
            self.pairs.remainder.decay(rounds - steps)
        )

    def factors(self, rounds: int) -> tuple[Array, Array]:
        """F and G with P^t(u, v)/π_v >= (F Gᵀ)(u, v); the last two columns are the allowance."""
        if rounds < _SHORTEST:
            return self.pairs.factors(rounds)
        scale = 1 / np.sqrt(self.pairs.stationary)
        error, root = self._error(rounds), np.sqrt(self.left)
        decay = self.pairs.remainder.decay(rounds - 2 * _STEPS)
        powers = self.pairs.vectors * self.pairs.values**rounds
        lost = np.column_stack([decay * root, np.full_like(scale, error)])
        kept = np.column_stack([self.pairs.vectors, root, np.ones_like(scale)])
        return np.column_stack([powers, -lost]) * scale[:, None], kept * scale[:, None]

    def chi_squared(self, rounds: int) -> Array:
        """χ²_u(t) = P^(2t)(u, u)/π_u - 1, rounded up."""
        known = self.pairs.chi_squared(rounds)
        if 2 * rounds < _SHORTEST:
            return known
        powers = self.pairs.values[1:] ** (2 * rounds)
        inside = np.square(self.pairs.vectors[:, 1:]) @ powers
        inside += self.pairs.remainder.decay(2 * rounds - 2 * _STEPS) * self.left
        inside += self._error(2 * rounds)
        found = inside / self.pairs.stationary * (1 + kernels.growth(16))
        return np.asarray(np.minimum(known, found))

    @cached_property
    def left(self) -> Array:
        """r_u, rounded up."""
        once = self._without(self._chances_once, 1)
        left = np.square(self.pairs.remainder.value * np.sqrt(once) + self.pairs.residual)
        chosen = self._chosen(once)
        left[chosen] = np.minimum(
            left[chosen], self._without(self._chances_twice(chosen), 2, chosen)
        )
        return left * (1 + 1e-12)

    @property
    def _chances_once(self) -> Array:
        """S²(u, u) = Σ_v S(u, v)²."""
        kernel = self.walk.symmetric
        return np.asarray(kernel.multiply(kernel).sum(axis=1), dtype=np.float64).ravel()

    def _chances_twice(self, nodes: Nodes) -> Array:
        """S⁴(u, u) = Σ_v S²(u, v)² for some nodes."""
        kernel = self.walk.symmetric
        found = np.empty(len(nodes))
        for first in range(0, len(nodes), _BLOCK):
            part = slice(first, first + _BLOCK)
            squares = kernel[nodes[part]] @ kernel
            squares.data = np.square(squares.data)
            found[part] = np.asarray(squares.sum(axis=1)).ravel()
        return found

    def _chosen(self, once: Array) -> Nodes:
        """Those of whom most is left out, as far as there is time for."""
        degrees = np.diff(self.walk.transitions.indptr)
        products = self.walk.graph.adjacency @ degrees + degrees
        order = np.argsort(-once / self.pairs.stationary)
        return np.sort(order[np.cumsum(products[order]) <= _WORK])

    def _without(self, chances: Array, steps: int, nodes: Nodes | None = None) -> Array:
        """The part of S^steps e_u that the vectors do not see, squared and rounded up."""
        vectors = self.pairs.vectors if nodes is None else self.pairs.vectors[nodes]
        seen = np.square(vectors) @ self.pairs.values ** (2 * steps)
        rows = kernels.longest_row(self.walk.transitions)
        roundings = kernels.growth(4 * (rows + self.walk.roundings) + len(self.pairs.values) + 64)
        added = 3 * self.pairs.skew + 8 * self.pairs.residual + 2 * roundings
        return np.asarray(np.maximum(chances - seen, 0.0) + added)

    def _error(self, rounds: int) -> float:
        """The error of S^t(u, v) that has nothing to do with the remainder."""
        others = float(np.abs(self.pairs.values[1:]).max())
        others = max(others, self.pairs.remainder.value) + 2 * self.pairs.residual
        drift = 2 * rounds * self.pairs.residual * others ** (rounds - _SHORTEST)
        start = (8 * self.pairs.residual + 3 * self.pairs.skew) * others ** (rounds - 2 * _STEPS)
        return (drift + start + kernels.growth(4 * len(self.pairs.values) + 64)) * (1 + 1e-9)

"""Some leading eigenpairs of a walk, and a proved bound on all the others.

S = √π P/√π has the eigenvector √π with eigenvalue 1. Take n x k columns Q, the first √π and all
nearly orthonormal, and values Θ, the first 1. Orthonormal columns Q̂ with the first exactly √π lie
within o of Q in norm, o = 2 ‖QᵀQ - I‖ + 8 u: take √π out of the others, and of what remains the
polar factor. Let Π = Q̂ Q̂ᵀ and ρ >= ‖S Q - Q Θ‖ + 2 o >= ‖S Q̂ - Q̂ Θ‖. Then

    S = Q̂ Θ Q̂ᵀ + (I - Π) S (I - Π) + E,   ‖E‖ <= 2 ρ,   E √π = 0,

and with λ >= ‖(I - Π) S (I - Π)‖ and b = max(|θ_2|, λ) + 2 ρ, the norm of S off √π at most,

    |S^t(u, v) - Σ_k θ_k^t Q_uk Q_vk| <= λ^t √(r_u r_v) + 2 t ρ b^(t-1) + 3 o b^t + 8 u,

where r_u = 1 - Σ_k Q_uk² + 3 o is at least (I - Π)_uu. λ is proved by random starts.

*Refined*: how soon a report comes back says more of what the eigenpairs leave out. With N the term
in the middle and y_u = S² e_u, for t >= 4

    S^t(u, v) = y_uᵀ S^(t-4) y_v,    |y_uᵀ N^(t-4) y_v| <= λ^(t-4) √(r_u r_v),

    r_u >= ‖(I - Π) y_u‖² = S⁴(u, u) - Σ_k (Q̂ᵀ y_u)_k²,

where S⁴(u, u) = P⁴(u, u), the probability of being back after four rounds. For a peer that hangs
on a well connected one it is far less than 1, which is all that the eigenpairs know. S² Q̂ differs
from Q̂ Θ² by 2 ρ at most, off √π, so that

    |S^t(u, v) - Σ_k θ_k^t Q_uk Q_vk| <= λ^(t-4) √(r_u r_v) + 2 t ρ b^(t-5) + (8 ρ + 3 o) b^(t-4),

with rounding added. S⁴(u, u) = Σ_v S²(u, v)² is computed for those for whom it matters;
r_u <= (λ √s_u + ρ)² for the others, s_u the same with one step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from shoal import checks
from shoal.errors import InvalidArgumentError, UnreachableTargetError
from shoal.network import kernels
from shoal.network.certificates import random_start
from shoal.network.certificates.operator import Operator, cube_points
from shoal.network.graph import Nodes
from shoal.network.spectrum import FAILURE, PRECISION, SpectralBound
from shoal.network.walk import Walk
from shoal.randomness import Randomness, secure
from shoal.values import Array

_PAIRS = 60
_STEPS = 2
_SHORTEST = 2 * _STEPS + 1
_WORK = 3e7  # products for probabilities of being back
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class Leading:
    """Eigenpairs of the symmetrised walk, √π first, and a bound on the remaining eigenvalues."""

    stationary: Array
    values: Array  # (k,)
    vectors: Array  # (n, k)
    remainder: SpectralBound
    residual: float  # ρ
    skew: float  # o

    @property
    def failure(self) -> float:
        """The probability that the bound on the remaining eigenvalues does not hold."""
        return self.remainder.failure

    def factors(self, rounds: int) -> tuple[Array, Array]:
        """F and G with P^t(u, v)/π_v >= (F Gᵀ)(u, v), for all u and v."""
        left, error = self._scaled(rounds)
        unseen, scale = np.sqrt(self.unseen), 1 / np.sqrt(self.stationary)
        lost = np.column_stack([self.remainder.decay(rounds) * unseen, np.full_like(scale, error)])
        kept = np.column_stack([self.vectors, unseen, np.ones_like(scale)])
        return np.column_stack([left, -lost]) * scale[:, None], kept * scale[:, None]

    def chi_squared(self, rounds: int) -> Array:
        """χ²_u(t) = P^(2t)(u, u)/π_u - 1, rounded up; the first pair makes up for the 1."""
        left, error = self._scaled(2 * checks.count(0, rounds=rounds))
        inside: Array = np.einsum("uk,uk->u", left[:, 1:], self.vectors[:, 1:])
        inside += self.remainder.decay(2 * rounds) * self.unseen + error
        return np.asarray(inside / self.stationary * (1 + kernels.growth(8)))

    @property
    def unseen(self) -> Array:
        """r_u, how much of each node the vectors do not see."""
        seen: Array = np.einsum("uk,uk->u", self.vectors, self.vectors)
        rounding = kernels.growth(len(self.values) + 4)
        return np.asarray(np.maximum(1 - seen, 0.0) + 3 * self.skew + rounding)

    def _scaled(self, rounds: int) -> tuple[Array, float]:
        """Q Θ^t, and the error of S^t(u, v) that has nothing to do with the remainder."""
        rounds = checks.count(0, rounds=rounds)
        others = max(float(np.abs(self.values[1:]).max()), self.remainder.value) + 2 * self.residual
        drift = 2 * rounds * self.residual * others ** max(rounds - 1, 0)
        # Of a sum of k products of sizes that add up to 1, with powers and scales rounded too.
        rounding = kernels.growth(4 * len(self.values) + 64)
        error = drift + 3 * self.skew * others**rounds + rounding
        return self.vectors * self.values**rounds, error * (1 + 1e-9)


def leading(
    walk: Walk,
    *,
    pairs: int = _PAIRS,
    failure: float = FAILURE,
    precision: float = PRECISION,
    randomness: Randomness | None = None,
) -> Leading:
    """The eigenpairs of largest size, computed, and a proof about the rest."""
    pairs = checks.count(1, pairs=pairs)
    checks.open_probability(failure=failure, precision=precision)
    if 2 * pairs + 2 >= walk.n:
        raise InvalidArgumentError("pairs", pairs, f"fewer than half of {walk.n} nodes")
    source = secure() if randomness is None else randomness
    operator = Operator.of(walk)
    values, vectors = _computed(operator, pairs, source)
    residual, skew = _quality(operator, values, vectors)
    # An eigenvector of the rest meets Q only by its skew, S Q by the residual, and a projection
    # rounds: k terms a component, √k times the norm at most.
    rounding = kernels.growth(vectors.shape[1] ** 1.5 + 16)
    rest = replace(operator, basis=vectors, leak=2 * residual + 4 * skew + rounding)
    value = random_start.certified(rest, failure=failure, precision=precision, randomness=source)
    bound = SpectralBound(value, failure, "random")
    return Leading(walk.stationary, values, vectors, bound, residual, skew)


def _computed(operator: Operator, pairs: int, source: Randomness) -> tuple[Array, Array]:
    start = operator.deflated(cube_points(operator.n, 1, source))[:, 0]
    room = min(operator.n - 1, max(3 * pairs + 20, 80))
    try:
        values, vectors = eigsh(operator.matrix, k=pairs + 1, which="LM", v0=start, ncv=room)
    except ArpackNoConvergence as error:
        reason, advice = "the iteration did not converge", "ask for fewer, or use spectral_bound"
        raise UnreachableTargetError(f"{pairs} eigenpairs", reason, advice) from error
    # One of them is √π, which is known better than any iteration finds it.
    top = operator.basis[:, 0]
    known = int(np.abs(top @ vectors).argmax())
    others = np.asarray([pair for pair in np.argsort(-np.abs(values)) if pair != known])
    basis, triangle = np.linalg.qr(np.column_stack([top, vectors[:, others]]))
    basis *= np.sign(np.diag(triangle))
    basis[:, 0] = top
    return np.concatenate([[1.0], values[others]]), basis


def _quality(operator: Operator, values: Array, vectors: Array) -> tuple[float, float]:
    """ρ and o of the module's inequality, with the rounding of their own computation."""
    n, k = vectors.shape
    # Long doubles, where the machine has them: n roundings of a double would be most of it.
    wide = vectors.astype(np.longdouble)
    gram = (wide.T @ wide - np.eye(k)).astype(np.float64)
    rounded = float(np.finfo(np.longdouble).eps) * (n + 4) + kernels.growth(4)
    skew = 2 * (float(np.linalg.norm(gram)) + k * rounded) + kernels.growth(8)
    image = operator.matrix @ vectors - vectors * values
    terms = np.diff(operator.matrix.indptr)[:, None] + operator.roundings + 8.0
    # Row by row, a sum of d products rounds d times; long rows have small entries.
    errors = kernels.UNIT * terms * (operator.matrix @ np.abs(vectors) + np.abs(vectors))
    residual = float(np.linalg.norm(image)) + float(np.linalg.norm(errors))
    return residual * (1 + 1e-9) + 2 * skew, skew


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
        refined = inside / self.pairs.stationary * (1 + kernels.growth(16))
        return np.asarray(np.minimum(known, refined))

    @cached_property
    def left(self) -> Array:
        """r_u, rounded up."""
        once = self._without(self._returns_once, 1)
        left = np.square(self.pairs.remainder.value * np.sqrt(once) + self.pairs.residual)
        chosen = self._chosen(once)
        left[chosen] = np.minimum(
            left[chosen], self._without(self._returns_twice(chosen), 2, chosen)
        )
        return left * (1 + 1e-12)

    @property
    def _returns_once(self) -> Array:
        """S²(u, u) = Σ_v S(u, v)²."""
        kernel = self.walk.symmetric
        return np.asarray(kernel.multiply(kernel).sum(axis=1), dtype=np.float64).ravel()

    def _returns_twice(self, nodes: Nodes) -> Array:
        """S⁴(u, u) = Σ_v S²(u, v)² for some nodes."""
        kernel = self.walk.symmetric
        returns = np.empty(len(nodes))
        for first in range(0, len(nodes), _BLOCK):
            part = slice(first, first + _BLOCK)
            squares = kernel[nodes[part]] @ kernel
            squares.data = np.square(squares.data)
            returns[part] = np.asarray(squares.sum(axis=1)).ravel()
        return returns

    def _chosen(self, once: Array) -> Nodes:
        """Those of whom most is left out, as far as there is time for."""
        degrees = np.diff(self.walk.transitions.indptr)
        products = self.walk.graph.adjacency @ degrees + degrees
        order = np.argsort(-once / self.pairs.stationary)
        return np.sort(order[np.cumsum(products[order]) <= _WORK])

    def _without(self, returns: Array, steps: int, nodes: Nodes | None = None) -> Array:
        """The part of S^steps e_u that the vectors do not see, squared and rounded up."""
        vectors = self.pairs.vectors if nodes is None else self.pairs.vectors[nodes]
        seen = np.square(vectors) @ self.pairs.values ** (2 * steps)
        rows = kernels.longest_row(self.walk.transitions)
        roundings = kernels.growth(4 * (rows + self.walk.roundings) + len(self.pairs.values) + 64)
        added = 3 * self.pairs.skew + 8 * self.pairs.residual + 2 * roundings
        return np.asarray(np.maximum(returns - seen, 0.0) + added)

    def _error(self, rounds: int) -> float:
        """The error of S^t(u, v) that has nothing to do with the remainder."""
        others = float(np.abs(self.pairs.values[1:]).max())
        others = max(others, self.pairs.remainder.value) + 2 * self.pairs.residual
        drift = 2 * rounds * self.pairs.residual * others ** (rounds - _SHORTEST)
        start = (8 * self.pairs.residual + 3 * self.pairs.skew) * others ** (rounds - 2 * _STEPS)
        return (drift + start + kernels.growth(4 * len(self.pairs.values) + 64)) * (1 + 1e-9)

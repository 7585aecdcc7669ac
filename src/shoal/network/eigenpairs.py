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
from shoal.network.graph import Nodes
from shoal.network.spectrum import (
    FAILURE,
    PRECISION,
    Operator,
    SpectralBound,
    cube_points,
    random_bound,
)
from shoal.network.walk import UNIT, Walk, growth, longest_row
from shoal.randomness import Randomness, secure
from shoal.values import Array

_PAIRS = 60
_BACK = 4  # rounds: twice the steps from both ends
_WORK = 3e7  # products for probabilities of being back
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class Leading:
    """Eigenpairs of the symmetrised walk, √π first, and a bound on the remaining eigenvalues."""

    walk: Walk
    values: Array  # (k,)
    vectors: Array  # (n, k)
    remainder: SpectralBound
    residual: float  # ρ
    skew: float  # o

    @property
    def failure(self) -> float:
        """The probability that the bound on the remaining eigenvalues does not hold."""
        return self.remainder.failure

    def factors(self, rounds: int, *, refined: bool = True) -> tuple[Array, Array]:
        """F and G with P^t(u, v)/π_v >= (F Gᵀ)(u, v); the last two columns are the allowance."""
        rounds = checks.count(0, rounds=rounds)
        unseen, decay, error = self._left_out(rounds, refined=refined)
        root, scale = np.sqrt(unseen), 1 / np.sqrt(self.walk.stationary)
        lost = np.column_stack([decay * root, np.full_like(scale, error)])
        left = np.column_stack([self.vectors * self.values**rounds, -lost])
        right = np.column_stack([self.vectors, root, np.ones_like(scale)])
        return left * scale[:, None], right * scale[:, None]

    def chi_squared(self, rounds: int) -> Array:
        """χ²_u(t) = P^(2t)(u, u)/π_u - 1, rounded up; the first pair makes up for the 1."""
        rounds, stationary = 2 * checks.count(0, rounds=rounds), self.walk.stationary
        unseen, decay, error = self._left_out(rounds, refined=False)
        powers = self.vectors * self.values**rounds
        inside: Array = np.einsum("uk,uk->u", powers[:, 1:], self.vectors[:, 1:])
        inside += decay * unseen + error
        plain = np.asarray(inside / stationary * (1 + growth(8)))
        if rounds <= _BACK:
            return plain
        unseen, decay, error = self._left_out(rounds)
        inside = np.square(self.vectors[:, 1:]) @ self.values[1:] ** rounds
        inside += decay * unseen
        inside += error
        return np.asarray(np.minimum(plain, inside / stationary * (1 + growth(16))))

    def unseen(self, rounds: int) -> Array:
        """About how much the eigenpairs leave open of P_u(u)/π_u: who should be looked at."""
        return np.asarray(self._left_out(rounds)[0] / self.walk.stationary)

    def allowance(self, rounds: int, excepted: int) -> float:
        """About how much is left open of anybody's P_u(v)/π_v, but for a few people's."""
        unseen = np.sort(self.unseen(rounds))[::-1]
        return float(unseen[min(excepted // 2, unseen.size - 1)]) * self._left_out(rounds)[1]

    def _left_out(self, rounds: int, *, refined: bool = True) -> tuple[Array, float, float]:
        """r_u, the power of λ it comes with, and the error that has nothing to do with either."""
        refined = refined and rounds > _BACK
        steps = rounds - _BACK if refined else rounds
        others = max(float(np.abs(self.values[1:]).max()), self.remainder.value) + 2 * self.residual
        drift = 2 * rounds * self.residual * others ** max(steps - 1, 0)
        start = ((8 * self.residual if refined else 0.0) + 3 * self.skew) * others**steps
        # Of a sum of k products of sizes that add up to 1, with powers and scales rounded too.
        error = (drift + start + growth(4 * len(self.values) + 64)) * (1 + 1e-9)
        unseen = self.returning if refined else self._plain
        return unseen, self.remainder.decay(steps), error

    @property
    def _plain(self) -> Array:
        """r_u, how much of each node the vectors do not see."""
        seen: Array = np.einsum("uk,uk->u", self.vectors, self.vectors)
        rounding = growth(len(self.values) + 4)
        return np.asarray(np.maximum(1 - seen, 0.0) + 3 * self.skew + rounding)

    @cached_property
    def returning(self) -> Array:
        """r_u of the refined inequality, from S²(u, u) and S⁴(u, u), rounded up."""
        kernel = self.walk.symmetric
        squares = np.asarray(kernel.multiply(kernel).sum(axis=1), dtype=np.float64).ravel()
        once = self._without(squares, self.vectors, 1)
        left = np.square(self.remainder.value * np.sqrt(once) + self.residual)
        # Those of whom most is left out, as far as there is time for.
        degrees = np.diff(self.walk.transitions.indptr)
        products = self.walk.graph.adjacency @ degrees + degrees
        order = np.argsort(-once / self.walk.stationary)
        chosen: Nodes = np.sort(order[np.cumsum(products[order]) <= _WORK])
        twice = np.empty(len(chosen))
        for first in range(0, len(chosen), _BLOCK):
            part = slice(first, first + _BLOCK)
            steps = kernel[chosen[part]] @ kernel
            steps.data = np.square(steps.data)
            twice[part] = np.asarray(steps.sum(axis=1)).ravel()
        twice = self._without(twice, self.vectors[chosen], 2)
        left[chosen] = np.minimum(left[chosen], twice)
        return left * (1 + 1e-12)

    def _without(self, returns: Array, vectors: Array, steps: int) -> Array:
        """The part of S^steps e_u that the vectors do not see, squared and rounded up."""
        seen = np.square(vectors) @ self.values ** (2 * steps)
        rows = longest_row(self.walk.transitions)
        roundings = growth(4 * (rows + self.walk.roundings(1)) + len(self.values) + 64)
        added = 3 * self.skew + 8 * self.residual + 2 * roundings
        return np.asarray(np.maximum(returns - seen, 0.0) + added)


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
    rounding = growth(vectors.shape[1] ** 1.5 + 16)
    rest = replace(operator, basis=vectors, leak=2 * residual + 4 * skew + rounding)
    value = random_bound(rest, failure=failure, precision=precision, randomness=source)
    return Leading(walk, values, vectors, SpectralBound(value, failure, "random"), residual, skew)


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
    rounded = float(np.finfo(np.longdouble).eps) * (n + 4) + growth(4)
    skew = 2 * (float(np.linalg.norm(gram)) + k * rounded) + growth(8)
    image = operator.matrix @ vectors - vectors * values
    terms = np.diff(operator.matrix.indptr)[:, None] + operator.roundings + 8.0
    # Row by row, a sum of d products rounds d times; long rows have small entries.
    errors = UNIT * terms * (operator.matrix @ np.abs(vectors) + np.abs(vectors))
    residual = float(np.linalg.norm(image)) + float(np.linalg.norm(errors))
    return residual * (1 + 1e-9) + 2 * skew, skew

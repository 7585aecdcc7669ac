"""How fast a walk forgets where it began: an upper bound on its second largest eigenvalue.

λ = max(|λ_2|, |λ_n|) of P. A computed eigenvalue is no bound, not even with its residual added: a
residual proves that an eigenvalue is near, not that none is larger (an expander with a clique
hanging on one node shows nothing of the clique to a few steps of any iteration). Three proofs:

- ``dense``: all eigenvalues, proved by Cholesky factorisations; small graphs (:func:`dense_bound`);
- ``inertia``: an L D Lᵀ factorisation counts the eigenvalues above a number; sparse graphs whose
  factors stay sparse (:func:`inertia_bound`);
- ``random``: random starts and a Chebyshev recurrence; any graph, with a failure probability that
  belongs into δ (:func:`random_bound`).

:func:`leading` computes some eigenpairs and proves a bound on all the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh, eigvalsh_tridiagonal
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackNoConvergence, eigsh, splu

from shoal import checks
from shoal.accounting.search import largest
from shoal.errors import PrecisionError, UnreachableTargetError
from shoal.network.generators import uniform
from shoal.network.graph import Nodes
from shoal.network.walk import UNIT, Walk, growth, longest_row
from shoal.randomness import Randomness, secure
from shoal.values import Array

Method = Literal["auto", "dense", "inertia", "random"]

FAILURE = 1e-12
PRECISION = 0.02

_DENSE_NODES = 1500
_FACTORING = 1e9  # products that take about a second
_POWER_SLACK = 1e-13
_LANCZOS_CHUNK = 40
_LANCZOS_MOST = 1200
_TINY = 1e-12  # a Krylov space that ends early


@dataclass(frozen=True)
class SpectralBound:
    """What :func:`shoal.network.spectral_bound` proves: ``|λ_i| <= value`` for i >= 2.

    Attributes:
        value: The bound.
        failure: Probability over the method's coins that it does not hold.
        method: How it was proved.
    """

    value: float
    failure: float
    method: str

    @property
    def gap(self) -> float:
        """A lower bound on the spectral gap 1 - λ."""
        return 1 - self.value

    def decay(self, rounds: int) -> float:
        """λ^t, rounded up."""
        power = self.value ** checks.count(0, rounds=rounds)
        return min(power * (1 + _POWER_SLACK), 1.0)


def spectral_bound(
    walk: Walk,
    *,
    method: Method = "auto",
    failure: float = FAILURE,
    precision: float = PRECISION,
    randomness: Randomness | None = None,
) -> SpectralBound:
    """An upper bound on the size of every eigenvalue of the walk but the first.

    Args:
        walk: A walk that is the same every round.
        method: "dense", "inertia", "random", or "auto" by the size of the graph.
        failure: The largest failure probability of the random method, which alone has
            one.
        precision: How far the bound may be above the truth, relative to the gap: a wish
            that tiny gaps or large degrees may not grant; the bound is one all the
            same.
        randomness: For the random method; None is secure.

    Returns:
        A :class:`shoal.network.SpectralBound`.

    Raises:
        InvalidArgumentError: A number is out of its range, or there is no such method.
        PrecisionError: The gap is too small for double precision.

    References:
        :doc:`/theory/network`.

    Example:
        >>> from shoal import network
        >>> walk = network.Walk(network.random_regular(100, 10))
        >>> bound = network.spectral_bound(walk)
        >>> 0.5 < bound.value < 0.7, bound.failure
        (True, 0.0)
    """
    checks.one_of(get_args(Method), method=method)
    checks.open_probability(failure=failure, precision=precision)
    operator = Operator.of(walk)
    source = randomness or secure()
    small, automatic = operator.n <= _DENSE_NODES, method == "auto"
    if method == "dense" or (automatic and small):
        return SpectralBound(min(dense_bound(operator), 1.0), 0.0, "dense")
    if method == "inertia" or (automatic and _factoring_work(operator.matrix) <= _FACTORING):
        start = cube_points(operator.n, 1, source)[:, 0]
        suggested = operator.estimate(start, precision=precision)
        value = inertia_bound(operator, suggested=suggested, precision=precision)
        return SpectralBound(min(value, 1.0), 0.0, "inertia")
    value = random_bound(operator, failure=failure, precision=precision, randomness=source)
    return SpectralBound(min(value, 1.0), failure, "random")


@dataclass(frozen=True, eq=False)
class Operator:
    """S = √π P/√π and eigenvectors to be taken out: √π, known exactly, and perhaps more.

    ``leak`` bounds how much a step adds to an eigenvector of what is left, relative to the size of
    the vector, because the vectors taken out are neither quite orthonormal nor quite invariant.
    The entries are not negative, and |error| <= r u S entry by entry after r roundings: the norm of
    what they changed is at most r u.
    """

    matrix: csr_array
    basis: Array  # (n, k): √π first
    roundings: int  # of each entry of the matrix, at most
    leak: float = 0.0

    @classmethod
    def of(cls, walk: Walk) -> Operator:
        """The operator of a walk."""
        return cls(walk.symmetric, np.sqrt(walk.stationary)[:, None], walk.entry_roundings)

    @property
    def n(self) -> int:
        """Its size."""
        return len(self.basis)

    def deflated(self, vectors: Array) -> Array:
        """Columns without their part along the basis."""
        if self.basis.shape[1] > 1:
            return np.asarray(vectors - self.basis @ (self.basis.T @ vectors))
        top = self.basis[:, 0]
        parts: Array = np.einsum("u,u...->...", top, vectors)
        return vectors - np.multiply.outer(top, parts)

    def estimate(self, start: Array, *, precision: float) -> float:
        """The largest size of the other eigenvalues, as Lanczos sees it: never a bound.

        Steps without reorthogonalisation: extreme Ritz values stay within the spectrum up to
        rounding, which is all that an estimate needs.
        """
        diagonal: list[float] = []
        beside: list[float] = []
        before, vector = np.zeros(self.n), self.deflated(start)
        vector = vector / max(math.sqrt(_dot(vector, vector)), _TINY)
        seen = 0.0
        while len(diagonal) < min(_LANCZOS_MOST, self.n):
            for _ in range(_LANCZOS_CHUNK):
                image = self.deflated(self.matrix @ vector)
                diagonal.append(_dot(vector, image))
                image -= diagonal[-1] * vector + (beside[-1] if beside else 0.0) * before
                beside.append(math.sqrt(_dot(image, image)))
                if beside[-1] < _TINY:
                    return _extreme(diagonal, beside)
                before, vector = vector, image / beside[-1]
            latest = _extreme(diagonal, beside)
            if latest - seen < precision * (1 - latest) / 4:
                return latest
            seen = latest
        return seen


def cube_points(n: int, size: int, randomness: Randomness) -> Array:
    """Points of the cube [-1/2, 1/2]^n in columns, within 2^-53 of uniform ones."""
    return uniform(randomness, n * size).reshape(n, size) - 0.5


def _dot(one: Array, other: Array) -> float:
    """Without BLAS, whose threads cost more than they help vectors of this size."""
    return float(np.einsum("i,i->", one, other))


def _extreme(diagonal: list[float], beside: list[float]) -> float:
    values = eigvalsh_tridiagonal(np.asarray(diagonal), np.asarray(beside[: len(diagonal) - 1]))
    return min(float(np.abs(values).max()), 1.0)


# ------------------------------------------------------------- small graphs: two factorisations

_FORMING = 32  # roundings in forming T and θ I ± T, relative to entries of norm 2 together


def dense_bound(operator: Operator) -> float:
    """Every eigenvalue's size but the first's, at most, proved by two Cholesky factorisations.

    If the Cholesky factorisation of a symmetric matrix M of size n runs to its end in floating
    point, then M + E is positive definite for some E with ‖E‖ <= γ_(n+1)/(1 - γ_(n+1)) trace(M),
    γ_k = k u/(1 - k u) (Demmel 1989, On floating point errors in Cholesky, LAPACK Working Note 14;
    Rump 2006, Verification of positive definiteness, BIT 46). Applied to θ I - T and θ I + T with
    T = S - √π √πᵀ: every eigenvalue of T is at most θ + ‖E‖ in size. Computed eigenvalues only
    suggest θ.
    """
    deflated = operator.matrix.toarray() - operator.basis @ operator.basis.T
    suggested = float(np.abs(eigvalsh(deflated)[[0, -1]]).max())
    # trace(θ I ± T) <= 2 n + 2, and slack for the first attempt
    margin = error = 4 * operator.n * growth(operator.n + 2)
    while suggested + margin < 1:
        claimed = suggested + margin
        if _definite(deflated, claimed) and _definite(-deflated, claimed):
            return claimed + error + (growth(_FORMING) + growth(operator.roundings))
        margin *= 10
    return 1.0


def _definite(matrix: Array, shift: float) -> bool:
    shifted = -matrix
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        cholesky(shifted, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


# ----------------------------------------------------------- sparse factors: counting eigenvalues

_HALVINGS = 60
_WORST_ERROR = 1e-3  # relative to the gap: more than that, and the factors are no use


def inertia_bound(operator: Operator, *, suggested: float, precision: float) -> float:
    """Every eigenvalue's size but the first's, at most, proved by counting negative pivots.

    By Sylvester's law of inertia, L D Lᵀ has as many negative eigenvalues as D. If θ I - S has one
    and θ I + S none, then 1 is the only eigenvalue of S above θ in size. The factors come from an
    LU factorisation with pivots on the diagonal alone: the same permutation of rows and columns,
    and U = D Lᵀ up to rounding. With the computed factors, B = L D Lᵀ and M the shifted
    matrix,

        ‖M - B‖ <= ‖M - L U‖ + ‖L (U - D Lᵀ)‖ <= γ_k ‖|L| |U| 1‖_∞ + ‖|L| |U - D Lᵀ| 1‖_∞ = η,

    where k is the largest number of terms in a sum (Higham 2002, Accuracy and Stability of
    Numerical Algorithms, Theorem 9.3); M and B are symmetric, so the norm in the middle is at most
    the one by rows. Eigenvalues of M and B differ by η at most (Weyl): the count proves θ + η.
    """
    proofs: dict[float, float] = {}  # by gap

    def proves(gap: float) -> bool:
        claimed = 1 - gap
        above = count_above(operator.matrix, claimed)
        below = count_above(-operator.matrix, claimed)
        if above is None or below is None or above[0] > 1 or below[0] > 0:
            return False
        error = max(above[1], below[1]) + growth(operator.roundings) + growth(4)
        proofs[gap] = claimed + error
        return error <= _WORST_ERROR * (1 - claimed)

    first = max(1 - suggested, math.ulp(1.0)) * (1 - precision)
    gap = next((first / 2**k for k in range(_HALVINGS) if proves(first / 2**k)), None)
    if gap is None:
        smallest = first / 2**_HALVINGS
        advice = "use method='random' or a lazier walk"
        raise PrecisionError("gap", smallest, math.ulp(1.0), advice)
    if gap < first:
        tolerance = precision / (1 + precision)
        gap = largest(proves, gap, 2 * gap, tolerance=tolerance, geometric=True)
    return proofs[gap]


def count_above(matrix: csr_array, shift: float) -> tuple[int, float] | None:
    """How many eigenvalues of a symmetric matrix exceed ``shift``: negative ones of the shifted.

    They are those of a matrix that differs by the error, the second number. None if the
    factorisation left the diagonal or met a zero pivot.
    """
    shifted = csc_array(diags_array(np.full(matrix.shape[0], shift), format="csc") - matrix)
    try:
        factors = splu(
            shifted,
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True, "Equil": False},
        )
    except RuntimeError:  # exactly singular
        return None
    pivots = factors.U.diagonal()
    diagonal = np.array_equal(factors.perm_r, factors.perm_c)
    if not diagonal or not np.isfinite(pivots).all() or not pivots.all():
        return None
    lower, upper, ones = csr_array(factors.L), csr_array(factors.U), np.ones(matrix.shape[0])
    left, right = abs(lower), abs(upper)
    backward = growth(longest_row(lower) + 4) * (left @ (right @ ones))
    asymmetric = abs(upper - diags_array(upper.diagonal(), format="csr") @ lower.T.tocsr())
    total = float(np.asarray(backward + left @ (asymmetric @ ones)).max())
    error = total * (1 + 1e-9) if math.isfinite(total) else math.inf  # η, rounded up
    return int((pivots < 0).sum()), error


def _factoring_work(matrix: csr_array) -> float:
    """How many products a factorisation takes in a banded order; a good order takes fewer."""
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=order.dtype)
    rows = np.repeat(np.arange(len(order)), np.diff(matrix.indptr))
    reach = np.zeros(len(order))
    np.maximum.at(reach, places[rows], places[rows] - places[matrix.indices])
    return float(np.square(reach).sum())


# -------------------------------------------------------------------- any graph: random starts

_FEW = 1e-3  # the failure probability of one start, or somewhat less
_MOST_STEPS = 20_000
_ATTEMPTS = 8
_LEAST = 1e-3  # an interval narrower than this would gain nothing
_ROOM = 0.25  # of τ, for rounding errors
_GROWN = 1e4  # θ was so small that vectors grow: choose another
_SLACK = 1e-12  # relative error of cosh and arcosh, with plenty to spare


def random_bound(
    operator: Operator, *, failure: float, precision: float, randomness: Randomness
) -> float:
    """Every eigenvalue's size but the first's, at most, except with this failure probability.

    Let T = S without its first eigenvector, λ its eigenvalue of largest size with unit eigenvector
    q, x uniform in the cube [-1/2, 1/2]^n, and T_k Chebyshev's polynomial. For any θ > 0

        ‖T_k(T/θ) x‖ >= |x·q| T_k(|λ|/θ),        so that, if |x·q| >= τ and |λ| >= θ,

        |λ| <= θ cosh(arcosh(‖T_k(T/θ) x‖/τ)/k).

    The density of x·q is at most √2 (Ball 1986, Cube slicing in R^n, Proc. AMS 97): |x·q| < τ has
    probability at most 2√2 τ, and it happens to all of m independent starts with (2√2 τ)^m at most.
    That is the only event in which the bound fails; θ and k may be chosen after seeing x. This is
    the argument of Kuczyński and Woźniakowski (1992, Estimating the largest eigenvalue by the power
    and Lanczos algorithms with a random start, SIAM J. Matrix Anal. Appl. 13) with a polynomial
    chosen beforehand instead of the one that Lanczos finds, because rounding can then be followed:

    The components a_j of the computed vectors along q obey a_(j+1) = 2 (λ/θ) a_j - a_(j-1) + e_j
    with |e_j| <= e = u (2/θ) (2 r + 2 s + 64) max_j ‖w_j‖, r the longest row and s the roundings of
    an entry, so that a_k differs from T_k a_0 by at most e Σ_(i<k) U_i(λ/θ) <= e T_k(λ/θ) k (k +
    1)/2, as U_i <= (i + 1) T_i where they are >= 1. It suffices to take τ - e k (k + 1)/2 in the
    place of τ. Where more eigenvectors are taken out than the first, what leaks back from them adds
    to e.
    """
    count, smallest = starts_for(failure, operator.n)
    starts = operator.deflated(cube_points(operator.n, count, randomness))
    suggested: float | None = operator.estimate(starts[:, 0], precision=precision)
    best, attempts = 1.0, 0
    while suggested is not None and attempts < _ATTEMPTS:
        attempts += 1
        interval = max(suggested + precision / 4 * (1 - suggested), _LEAST)
        value, suggested = chebyshev_bound(operator, starts, interval, smallest, precision)
        best = min(best, value)
    return best


def starts_for(failure: float, n: int) -> tuple[int, float]:
    """How many starts, and τ: all have smaller parts along q with this probability at most."""
    starts = max(1, math.ceil(math.log(failure) / math.log(_FEW)))
    each = failure ** (1 / starts) * (1 - _SLACK)
    coarse = 2.0**-53 * math.sqrt(n)  # between a point drawn and a uniform one
    return starts, each / (2 * math.sqrt(2)) - coarse


def chebyshev_bound(
    operator: Operator, starts: Array, interval: float, smallest: float, precision: float
) -> tuple[float, float | None]:
    """The best bound of all steps of T_k(T/θ) x: each is one unless every start fell short.

    So many steps as take it to within ``precision`` of the gap. If θ, the interval, was so small
    that the vectors outgrow it, also about how large the largest eigenvalue is.
    """
    roundings = 2 * longest_row(operator.matrix) + 2 * operator.roundings + 64
    error = 2 / interval * (UNIT * roundings + operator.leak)
    first = longest = _norm(starts)
    rate = math.acosh(1 + precision * (1 - interval) / interval + _SLACK)
    steps = min(_MOST_STEPS, math.ceil(math.acosh(first / smallest) / rate))
    before, now = starts, 1 / interval * (operator.matrix @ starts)
    best = 1.0
    for step in range(1, steps + 1):
        size = _norm(now)
        longest = max(longest, size)
        noise = error * longest * (step * (step + 1) / 2 + 1)
        if noise > _ROOM * smallest:
            break
        angle = math.acosh(max(size / (smallest - noise), 1.0)) / step
        if angle <= 1:  # else nothing below 1 comes of it, and cosh might overflow
            best = min(best, interval * math.cosh(angle) * (1 + _SLACK))
        if size > _GROWN * first:
            # ‖T_k(T/θ) x‖ <= T_k(|λ|/θ) ‖x‖: not proved to the last digit, but a good hint.
            return best, interval * math.cosh(math.acosh(size / first) / step)
        after = 2 / interval * (operator.matrix @ now)
        before, now = now, operator.deflated(after - before)
    return best, None


def _norm(vectors: Array) -> float:
    return float(np.sqrt(np.einsum("ij,ij->j", vectors, vectors).max())) * (1 + _SLACK)


# --------------------------------------------------------------- leading eigenpairs, and the rest

_BACK = 4  # rounds: twice the steps from both ends
_WORK = 3e7  # products for probabilities of being back
_BLOCK = 512


@dataclass(frozen=True, eq=False)
class Leading:
    """Eigenpairs of the symmetrised walk, √π first, and a bound on the remaining eigenvalues.

    S = √π P/√π has the eigenvector √π with eigenvalue 1. Take n x k columns Q, the first √π and
    all nearly orthonormal, and values Θ, the first 1. Orthonormal columns Q̂ with the first exactly
    √π lie within o of Q in norm, o = 2 ‖QᵀQ - I‖ + 8 u: take √π out of the others, and of what
    remains the polar factor. Let Π = Q̂ Q̂ᵀ and ρ >= ‖S Q - Q Θ‖ + 2 o >= ‖S Q̂ - Q̂ Θ‖. Then

        S = Q̂ Θ Q̂ᵀ + (I - Π) S (I - Π) + E,   ‖E‖ <= 2 ρ,   E √π = 0,

    and with λ >= ‖(I - Π) S (I - Π)‖ and b = max(|θ_2|, λ) + 2 ρ, the norm of S off √π at most,

        |S^t(u, v) - Σ_k θ_k^t Q_uk Q_vk| <= λ^t √(r_u r_v) + 2 t ρ b^(t-1) + 3 o b^t + 8 u,

    where r_u = 1 - Σ_k Q_uk² + 3 o is at least (I - Π)_uu. λ is proved by random starts.

    *Refined*: how soon a report comes back says more of what the eigenpairs leave out. With N the
    term in the middle and y_u = S² e_u, for t >= 4

        S^t(u, v) = y_uᵀ S^(t-4) y_v,    |y_uᵀ N^(t-4) y_v| <= λ^(t-4) √(r_u r_v),

        r_u >= ‖(I - Π) y_u‖² = S⁴(u, u) - Σ_k (Q̂ᵀ y_u)_k²,

    where S⁴(u, u) = P⁴(u, u), the probability of being back after four rounds. For a peer that
    hangs on a well connected one it is far less than 1, which is all that the eigenpairs know. S² Q̂
    differs from Q̂ Θ² by 2 ρ at most, off √π, so that

        |S^t(u, v) - Σ_k θ_k^t Q_uk Q_vk|
            <= λ^(t-4) √(r_u r_v) + 2 t ρ b^(t-5) + (8 ρ + 3 o) b^(t-4),

    with rounding added. S⁴(u, u) = Σ_v S²(u, v)² is computed for those for whom it matters;
    r_u <= (λ √s_u + ρ)² for the others, s_u the same with one step.
    """

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
        steps = 2 * checks.count(0, rounds=rounds)
        seen = np.square(self.vectors[:, 1:]) @ self.values[1:] ** steps
        bounds = []
        for refined in (False, True):
            unseen, decay, error = self._left_out(steps, refined=refined)
            bounds.append((seen + decay * unseen + error) / self.walk.stationary)
        return np.asarray(np.minimum(*bounds) * (1 + growth(16)))

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
        if refined:
            return self.returning, self.remainder.decay(steps), error
        seen: Array = np.einsum("uk,uk->u", self.vectors, self.vectors)
        unseen = np.maximum(1 - seen, 0.0) + 3 * self.skew + growth(len(self.values) + 4)
        return unseen, self.remainder.decay(steps), error

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


def leading(walk: Walk, *, pairs: int, randomness: Randomness | None = None) -> Leading:
    """The eigenpairs of largest size, computed, and a proof about the rest."""
    pairs = checks.count(1, pairs=pairs)
    checks.refuse(2 * pairs + 2 >= walk.n, f"fewer than half of {walk.n} nodes", pairs=pairs)
    source = randomness or secure()
    operator = Operator.of(walk)
    values, vectors = _computed(operator, pairs, source)
    residual, skew = _quality(operator, values, vectors)
    # An eigenvector of the rest meets Q only by its skew, S Q by the residual, and a projection
    # rounds: k terms a component, √k times the norm at most.
    rounding = growth(vectors.shape[1] ** 1.5 + 16)
    rest = replace(operator, basis=vectors, leak=2 * residual + 4 * skew + rounding)
    value = random_bound(rest, failure=FAILURE, precision=PRECISION, randomness=source)
    return Leading(walk, values, vectors, SpectralBound(value, FAILURE, "random"), residual, skew)


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

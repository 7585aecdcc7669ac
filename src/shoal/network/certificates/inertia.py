"""Counting eigenvalues of a sparse graph by a factorisation.

By Sylvester's law of inertia, L D Lᵀ has as many negative eigenvalues as D. If θ I - S has one and
θ I + S none, then 1 is the only eigenvalue of S above θ in size. The factors come from an LU
factorisation with pivots on the diagonal alone: the same permutation of rows and columns, and U =
D Lᵀ up to rounding. With the computed factors, B = L D Lᵀ and M the matrix that was asked about,

    ‖M - B‖ <= ‖M - L U‖ + ‖L (U - D Lᵀ)‖ <= γ_k ‖|L| |U| 1‖_∞ + ‖|L| |U - D Lᵀ| 1‖_∞ = η,

where k is the largest number of terms in a sum (Higham 2002, Accuracy and Stability of Numerical
Algorithms, Theorem 9.3); M and B are symmetric, so the norm in the middle is at most the one by
rows. Eigenvalues of M and B differ by η at most (Weyl): the count proves θ + η.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from shoal.errors import PrecisionError
from shoal.network import kernels
from shoal.network.certificates.operator import Operator

_HALVINGS = 60
_WORST_ERROR = 1e-3  # relative to the gap: more than that, and the factors are no use


@dataclass(frozen=True)
class Count:
    """Negative eigenvalues of a matrix within ``error`` of the one asked about."""

    negative: int
    error: float


def certified(operator: Operator, *, suggested: float, precision: float) -> float:
    """An upper bound on every eigenvalue's size but the first's."""
    gap = max(1 - suggested, math.ulp(1.0)) * (1 - precision)
    refused = math.inf
    for _ in range(_HALVINGS):
        proved = _proved(operator, 1 - gap)
        if proved is None:
            refused, gap = gap, gap / 2
        elif refused / gap <= 1 + precision:
            return proved
        else:
            return _refined(operator, proved, (gap, refused), precision)
    raise PrecisionError("gap", gap, math.ulp(1.0), "use method='random' or a lazier walk")


def _refined(
    operator: Operator, proved: float, gaps: tuple[float, float], precision: float
) -> float:
    gap, refused = gaps
    while math.isfinite(refused) and refused / gap > 1 + precision:
        middle = math.sqrt(gap * refused)
        better = _proved(operator, 1 - middle)
        if better is None:
            refused = middle
        else:
            proved, gap = better, middle
    return proved


def _proved(operator: Operator, claimed: float) -> float | None:
    """The claim with its rounding error, or none if the factors do not prove it."""
    above, below = count(operator.matrix, claimed), count(-operator.matrix, claimed)
    if above is None or below is None or above.negative > 1 or below.negative > 0:
        return None
    error = max(above.error, below.error) + operator.entry_error + kernels.growth(4)
    return claimed + error if error <= _WORST_ERROR * (1 - claimed) else None


def count(matrix: csr_array, shift: float) -> Count | None:
    """How many eigenvalues of a symmetric matrix exceed ``shift``: negative ones of the shifted.

    None if the factorisation left the diagonal or met a zero pivot.
    """
    size = matrix.shape[0]
    shifted = csc_array(diags_array(np.full(size, shift), format="csc") - matrix)
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
    if not np.array_equal(factors.perm_r, factors.perm_c) or not np.isfinite(pivots).all():
        return None
    error = _error(csr_array(factors.L), csr_array(factors.U))
    return Count(int((pivots < 0).sum()), error) if pivots.all() else None


def _error(lower: csr_array, upper: csr_array) -> float:
    """η, rounded up."""
    ones = np.ones(lower.shape[0])
    terms = kernels.longest_row(lower) + 4
    left, right = abs(lower), abs(upper)
    backward = kernels.growth(terms) * (left @ (right @ ones))
    asymmetric = abs(upper - diags_array(upper.diagonal(), format="csr") @ lower.T.tocsr())
    total = float((backward + left @ (asymmetric @ ones)).max())
    return total * (1 + 1e-9) if math.isfinite(total) else math.inf


def work(matrix: csr_array) -> float:
    """How many products a factorisation takes in a banded order; a good order takes fewer."""
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=order.dtype)
    rows = np.repeat(np.arange(len(order)), np.diff(matrix.indptr))
    reach = np.zeros(len(order))
    np.maximum.at(reach, places[rows], places[rows] - places[matrix.indices])
    return float(np.square(reach).sum())

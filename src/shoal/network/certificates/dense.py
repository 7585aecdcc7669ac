"""Eigenvalues of a small graph, proved by two Cholesky factorisations.

If the Cholesky factorisation of a symmetric matrix M of size n runs to its end in floating point,
then M + E is positive definite for some E with ‖E‖ <= γ_(n+1)/(1 - γ_(n+1)) trace(M),
γ_k = k u/(1 - k u) (Demmel 1989, On floating point errors in Cholesky, LAPACK Working Note 14;
Rump 2006, Verification of positive definiteness, BIT 46). Applied to θ I - T and θ I + T with
T = S - √π √πᵀ: every eigenvalue of T is at most θ + ‖E‖ in size. Computed eigenvalues only
suggest θ.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigvalsh

from shoal.network import kernels
from shoal.network.certificates.operator import Operator
from shoal.values import Array

_ROUNDINGS = 32  # in forming T and θ I ± T, relative to entries of norm 2 together


def certified(operator: Operator) -> float:
    """An upper bound on every eigenvalue's size but the first's."""
    deflated = operator.matrix.toarray() - operator.basis @ operator.basis.T
    suggested = float(np.abs(eigvalsh(deflated)[[0, -1]]).max())
    margin = _factorisation_error(operator.n)
    while suggested + margin < 1:
        claimed = suggested + margin
        if _definite(deflated, claimed) and _definite(-deflated, claimed):
            formed = kernels.growth(_ROUNDINGS) + operator.entry_error
            return claimed + _factorisation_error(operator.n) + formed
        margin *= 10
    return 1.0


def _factorisation_error(n: int) -> float:
    gamma = kernels.growth(n + 2)
    return 4 * n * gamma  # trace(θ I ± T) <= 2 n + 2, and slack for the first attempt


def _definite(matrix: Array, shift: float) -> bool:
    shifted = -matrix
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        cholesky(shifted, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True

"""A symmetrised walk with known eigenvectors taken out, and what is left of its eigenvalues."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal
from scipy.sparse import csr_array

from shoal.network import kernels
from shoal.network.walk import Walk
from shoal.randomness import Randomness
from shoal.values import Array

_LANCZOS_CHUNK = 40
_LANCZOS_MOST = 1200
_TINY = 1e-12  # a Krylov space that ends before it was asked to


@dataclass(frozen=True, eq=False)
class Operator:
    """S = √π P/√π and eigenvectors to be taken out: √π, known exactly, and perhaps more.

    ``leak`` bounds how much a step adds to an eigenvector of what is left, relative to the size of
    the vector, because the vectors taken out are neither quite orthonormal nor quite invariant.
    """

    matrix: csr_array
    basis: Array  # (n, k): √π first
    roundings: int  # of each entry of the matrix, at most
    leak: float = 0.0

    @classmethod
    def of(cls, walk: Walk) -> Operator:
        """The operator of a walk."""
        extra = int(walk.graph.degrees.max()) if walk.kind == "metropolis" else 0
        top = np.sqrt(walk.stationary)
        return cls(walk.symmetric, top[:, None], kernels.ENTRY_ROUNDINGS + extra)

    @property
    def n(self) -> int:
        """Its size."""
        return len(self.basis)

    @property
    def entry_error(self) -> float:
        """A bound on the norm of what rounding the entries changed.

        The entries are not negative, and |error| <= r u S entry by entry: the norm is at most r u.
        """
        return kernels.growth(self.roundings)

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
        before, vector = np.zeros(self.n), self._unit(start)
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

    def _unit(self, start: Array) -> Array:
        vector = self.deflated(start)
        return vector / max(math.sqrt(_dot(vector, vector)), _TINY)


def cube_points(n: int, size: int, randomness: Randomness) -> Array:
    """Points of the cube [-1/2, 1/2]^n in columns, within 2^-53 of uniform ones."""
    words = randomness.words(n * size).reshape(n, size) >> np.uint64(11)
    return words.astype(np.float64) * 2.0**-53 - 0.5


def _dot(one: Array, other: Array) -> float:
    """Without BLAS, whose threads cost more than they help vectors of this size."""
    return float(np.einsum("i,i->", one, other))


def _extreme(diagonal: list[float], beside: list[float]) -> float:
    values = eigvalsh_tridiagonal(np.asarray(diagonal), np.asarray(beside[: len(diagonal) - 1]))
    return min(float(np.abs(values).max()), 1.0)

"""Quadratic forms of message counts, and their moments.

A score gives every message m a vector φ(m). With weights w the form

    κ(m, m') = Σ_j w_j φ_j(m) φ_j(m')

says how alike two messages are, and everything a test needs of the scores is the matrix M of
κ over all messages: a diagonal one where different messages have nothing in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.values import Array


@dataclass(frozen=True, eq=False)
class Spread:
    """tr(MΣ) and tr((MΣ)²), Σ being the covariance of one person's counts.

    Of n people, the form of their centred counts has mean n tr(MΣ), and variance
    2n² tr((MΣ)²) to leading order. Either number, or one for each of several distributions.
    """

    trace: Array
    square: Array

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of the χ² with the same mean and variance (Satterthwaite)."""
        return self.trace**2 / self.square

    @property
    def scale(self) -> Array:
        """What that χ² is to be multiplied by."""
        return self.square / self.trace


@dataclass(frozen=True, eq=False)
class Departure:
    """What people of another distribution do to the form; with δ the change of the mean counts.

    ``signal`` is δ'Mδ, and ``noise`` δ'MΣMδ with their covariance Σ: by how much the signal itself
    is uncertain. ``spread`` is theirs as well.
    """

    signal: Array
    noise: Array
    spread: Spread


@dataclass(frozen=True, eq=False)
class Gram:
    """The matrix M of κ, or, unless it is ``dense``, its diagonal alone.

    Diagonals of several matrices may be rows; vectors then are rows for each of them.
    """

    entries: Array
    dense: bool = False

    @property
    def diagonal(self) -> Array:
        """κ(m, m)."""
        return np.diagonal(self.entries) if self.dense else self.entries

    def times(self, vectors: Array) -> Array:
        """Each row times M."""
        return vectors @ self.entries if self.dense else vectors * self.entries

    def own(self, law: Array) -> Array:
        """Σ_j w_j (φ_j(m) − E φ_j)² of each message m, its own part of the form.

        ``law`` is the law of a message; centring costs −2(Mr)_m + r'Mr.
        """
        mean = self.times(law)
        return self.diagonal - 2 * mean + dot(mean, law)[..., None]

    def spread(self, law: Array) -> Spread:
        """The moments for one message of this law, or of each: Σ = diag(r) − rr'."""
        if self.dense:
            pairs = [self._dense_spread(row) for row in law.reshape(-1, law.shape[-1])]
            trace, square = np.array(pairs).T.reshape(2, *law.shape[:-1])
            return Spread(trace, square)
        variances = self.entries * law * others(law)
        square = dot(variances, variances) + apart(self.entries * law**2)
        return Spread(variances.sum(axis=-1), square)

    def _dense_spread(self, law: Array) -> tuple[float, float]:
        # Centred first: the squares of what is left are not taken from larger numbers.
        mean = self.times(law)
        centred = self.entries - mean[:, None]
        centred -= mean
        centred += float(mean @ law)
        trace = float(np.diagonal(centred) @ law)
        centred *= centred
        return trace, float(law @ (centred @ law))


def dot(first: Array | npt.NDArray[np.int64], second: Array) -> Array:
    """Σ_m of the products, row by row."""
    sums: Array = first @ second if second.ndim == 1 else np.einsum("...m,...m->...", first, second)
    return sums


def others(law: Array) -> Array:
    """1 − r_m of each message, as the sum of the other probabilities where r_m is near 1."""
    rest: Array = 1 - law
    top = law.argmax(axis=-1, keepdims=True)
    np.put_along_axis(rest, top, _without(law, top).sum(axis=-1, keepdims=True), axis=-1)
    return rest


def apart(values: Array) -> Array:
    """Σ_{i≠j} v_i v_j of numbers that are not negative, also where one is nearly all of the sum.

    >>> float(apart(np.array([1.0, 1e-12])))
    2e-12
    """
    top = values.argmax(axis=-1, keepdims=True)
    rest = _without(values, top)
    total = rest.sum(axis=-1)
    largest = np.take_along_axis(values, top, axis=-1)[..., 0]
    among = np.maximum(0.0, total**2 - dot(rest, rest))
    sums: Array = 2 * largest * total + among
    return sums


def _without(values: Array, places: npt.NDArray[np.intp]) -> Array:
    """The same with 0 at these places."""
    rest = values.copy()
    np.put_along_axis(rest, places, 0.0, axis=-1)
    return rest

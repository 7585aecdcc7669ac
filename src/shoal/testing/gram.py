"""Quadratic forms of message counts, and their moments.

A score gives every message m a vector φ(m). With weights w the form

    κ(m, m') = Σ_j w_j φ_j(m) φ_j(m')

says how alike two messages are, and everything a test needs of the scores is the matrix M of
κ over all messages: a diagonal one where different messages have nothing in common.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.values import Array


@dataclass(frozen=True)
class Spread:
    """tr(MΣ) and tr((MΣ)²), Σ being the covariance of one person's counts.

    Of n people, the form of their centred counts has mean n tr(MΣ), and variance
    2n² tr((MΣ)²) to leading order.
    """

    trace: float
    square: float

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the χ² with the same mean and variance (Satterthwaite)."""
        return self.trace**2 / self.square

    @property
    def scale(self) -> float:
        """What that χ² is to be multiplied by."""
        return self.square / self.trace


@dataclass(frozen=True, eq=False)
class Gram:
    """The matrix M of κ: the diagonal alone if ``entries`` is a vector."""

    entries: Array

    @property
    def is_diagonal(self) -> bool:
        """Whether different messages have nothing in common."""
        return self.entries.ndim == 1

    @property
    def diagonal(self) -> Array:
        """κ(m, m)."""
        return self.entries if self.is_diagonal else np.diagonal(self.entries)

    def times(self, vectors: Array) -> Array:
        """Each row times M."""
        return vectors * self.entries if self.is_diagonal else vectors @ self.entries

    def quadratic(self, vectors: Array) -> Array:
        """The form of each row."""
        found: Array = np.einsum("...m,...m->...", self.times(vectors), vectors)
        return found

    def own(self, law: Array) -> Array:
        """Σ_j w_j (φ_j(m) − E φ_j)² of each message m, its own share of the form.

        ``law`` is the law of a message; centring costs −2(Mr)_m + r'Mr.
        """
        mean = self.times(law)
        return self.diagonal - 2 * mean + float(mean @ law)

    def spread(self, law: Array) -> Spread:
        """The moments for one message of this law: Σ = diag(r) − rr'."""
        if self.is_diagonal:
            variances = law * others(law)
            square = float(((self.entries * variances) ** 2).sum())
            return Spread(float(self.entries @ variances), square + apart(self.entries * law**2))
        # Centred first: the squares of what is left are not taken from larger numbers.
        mean = self.times(law)
        centred = self.entries - mean[:, None]
        centred -= mean
        centred += float(mean @ law)
        trace = float(np.diagonal(centred) @ law)
        centred *= centred
        return Spread(trace, float(law @ (centred @ law)))


def others(law: Array) -> Array:
    """1 − r_m of each message, as the sum of the other probabilities where r_m is near 1."""
    rest: Array = 1 - law
    top = int(law.argmax())
    rest[top] = np.delete(law, top).sum()
    return rest


def apart(values: Array) -> float:
    """Σ_{i≠j} v_i v_j of numbers that are not negative, also where one is nearly all of the sum.

    >>> apart(np.array([1.0, 1e-12]))
    2e-12
    """
    top = int(values.argmax())
    rest = np.delete(values, top)
    total = float(rest.sum())
    return 2 * float(values[top]) * total + max(0.0, total**2 - float(rest @ rest))

"""The blanket of one ordered pair of inputs, as a finite list of atoms.

Let ``b`` be a *blanket*: a measure that every input's output law contains, ``b(y) <= R_x(y)``.
For the ordered pair of inputs (0, 1) the only thing the shuffle model's guarantee depends on is
the joint law, under ``b``, of the two likelihoods ``rho_j = R_j / b``. A :class:`PairLaw` stores
it as atoms ``(mass, rho0, rho1)``; mass that ``b`` does not have is the mass of the value 0.
Outputs with ``b(y) = 0`` are *lost*: nobody else can have sent them, so they are kept apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidTableError

Array = npt.NDArray[np.float64]
AtomLike = tuple[float, float, float]

NORMALISATION_TOLERANCE = 1e-11
_SAME_RATIO_DIGITS = 13


@dataclass(frozen=True, eq=False)
class PairLaw:
    """Atoms of one ordered pair of inputs: ``sum m rho_j + sum lost_j = 1`` for j = 0 and 1."""

    mass: Array
    rho0: Array
    rho1: Array
    lost0: Array
    lost1: Array

    @classmethod
    def of(cls, atoms: Iterable[AtomLike], *, lost: Iterable[tuple[float, float]] = ()) -> PairLaw:
        """Validate, drop empty atoms, merge atoms of equal ratios and freeze."""
        rows = np.array([tuple(atom) for atom in atoms], dtype=float).reshape(-1, 3)
        gone = np.array([tuple(pair) for pair in lost], dtype=float).reshape(-1, 2)
        _check_atoms(rows, gone)
        rows = _merged(rows[rows[:, 0] > 0])
        gone = gone[gone[:, 0] + gone[:, 1] > 0]
        gone = gone[np.lexsort((gone[:, 1], gone[:, 0]))]
        columns = (rows[:, 0], rows[:, 1], rows[:, 2], gone[:, 0], gone[:, 1])
        return cls(*(_frozen(column) for column in columns))

    @cached_property
    def rest(self) -> float:
        """Probability that a report does not come from the blanket."""
        left = 1.0 - math.fsum(self.mass.tolist())
        return left if left > 1e-14 else 0.0

    @cached_property
    def local_epsilon(self) -> float:
        """Largest log-ratio of the first input's output law over the second's (0 or more)."""
        over = np.concatenate([self.rho0, self.lost0])
        under = np.concatenate([self.rho1, self.lost1])
        possible = over > 0
        with np.errstate(divide="ignore"):
            ratios = np.log(over[possible]) - np.log(under[possible])
        return float(ratios.max(initial=0.0))

    def values(self, epsilon: float) -> Array:
        """The value ``z = rho0 - e^epsilon rho1`` of each atom, without cancellation near 0."""
        return (self.rho0 - self.rho1) - math.expm1(epsilon) * self.rho1

    def sizes(self, epsilon: float) -> Array:
        """``rho0 + e^epsilon rho1``: the value of each atom errs by a few ulps of this."""
        return self.rho0 + math.exp(epsilon) * self.rho1

    def check_blanket(self) -> None:
        """A blanket lies below both output laws, so no ratio is below 1."""
        ratios = np.concatenate([self.rho0, self.rho1])
        lowest = float(ratios.min(initial=1.0))
        if lowest < 1 - NORMALISATION_TOLERANCE:
            expected = "atoms of a blanket: rho0 >= 1 and rho1 >= 1"
            raise InvalidTableError("rho", lowest, expected)

    def lost_divergence(self, epsilon: float) -> float:
        """Contribution of outputs nobody else can send: ``sum (lost0 - e^epsilon lost1)_+``."""
        gain = self.lost0 - math.exp(epsilon) * self.lost1
        return float(np.maximum(gain, 0.0).sum())

    def reversed(self) -> PairLaw:
        """The same pair of inputs in the other order."""
        keys = _rounded(np.array([self.rho0, self.rho1]), _SAME_RATIO_DIGITS)
        order = np.lexsort(keys)
        columns = (self.mass[order], self.rho1[order], self.rho0[order], self.lost1, self.lost0)
        return PairLaw(*(_frozen(column) for column in columns))

    def participating(self, probability: float) -> PairLaw:
        """The law when each person reports only with this probability.

        Staying silent is one more output, sent with the same probability whatever the input:
        an atom of mass ``1 - probability`` with both ratios 1.
        """
        if probability == 1.0:
            return self
        silent: list[AtomLike] = [(1.0 - probability, 1.0, 1.0)]
        kept = np.column_stack([self.mass * probability, self.rho0, self.rho1])
        lost = np.column_stack([self.lost0, self.lost1]) * probability
        return PairLaw.of([*map(tuple, kept.tolist()), *silent], lost=map(tuple, lost.tolist()))

    @cached_property
    def signature(self) -> bytes:
        """A key under which laws equal up to float noise coincide."""
        parts = (self.mass, self.rho0, self.rho1, self.lost0, self.lost1)
        return b"|".join(_rounded(part, _SAME_RATIO_DIGITS).tobytes() for part in parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairLaw) and self.signature == other.signature

    def __hash__(self) -> int:
        return hash(self.signature)


def distinct(pairs: Iterable[PairLaw]) -> tuple[PairLaw, ...]:
    """The laws that differ, in order of appearance."""
    return tuple(dict.fromkeys(pairs))


def _check_atoms(rows: Array, gone: Array) -> None:
    for name, block in (("atoms", rows), ("lost", gone)):
        if not np.isfinite(block).all() or (block < 0).any():
            raise InvalidTableError(name, block.tolist(), f"finite, non-negative {name}")
    mass = math.fsum(rows[:, 0].tolist())
    if mass > 1.0 + NORMALISATION_TOLERANCE:
        raise InvalidTableError("atoms", mass, "atoms of total mass <= 1")
    for side in (0, 1):
        total = math.fsum((rows[:, 0] * rows[:, side + 1]).tolist())
        total += math.fsum(gone[:, side].tolist())
        if abs(total - 1.0) > NORMALISATION_TOLERANCE:
            expected = f"atoms with sum of mass * rho{side} (plus lost mass) equal to 1"
            raise InvalidTableError("atoms", total, expected)


def _merged(rows: Array) -> Array:
    """Join atoms whose ratios agree to float noise, keeping the means of both ratios exact."""
    if len(rows) == 0:
        return rows
    keys = _rounded(rows[:, 1:], _SAME_RATIO_DIGITS)
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    mass = np.bincount(group, weights=rows[:, 0])
    means = [np.bincount(group, weights=rows[:, 0] * rows[:, j]) / mass for j in (1, 2)]
    return np.column_stack([mass, *means])


def _rounded(values: Array, digits: int) -> Array:
    """Round to significant digits."""
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log10(np.abs(values)))
    power = np.where(np.isfinite(exponent), exponent, 0.0)
    unit = 10.0 ** (digits - 1 - power)
    return np.round(values * unit) / unit


def _frozen(column: Array) -> Array:
    frozen = np.array(column, dtype=float)
    frozen.flags.writeable = False
    return frozen

"""The blanket of one ordered pair of inputs, as a finite list of atoms.

Let ``b`` be a *blanket*: a measure that every input's output law contains, ``b(y) <= R_x(y)``.
For the ordered pair of inputs (0, 1) the only thing the shuffle model's guarantee depends on is
the joint law, under ``b``, of the two likelihoods ``rho_j = R_j / b``. A :class:`PairLaw` stores
it as atoms ``(mass, rho0, rho1)``; mass that ``b`` does not have is the mass of the value 0.
Outputs with ``b(y) = 0`` are *lost*: nobody else can have sent them, so they are kept apart.

Any measure below a blanket is one, too. Outputs with a ratio above e^300 are therefore counted as
lost: that hardly costs anything, as nobody sends them, and keeps every number representable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from shoal.accounting.search import ZERO, Enclosure
from shoal.errors import InvalidArgumentError

Array = npt.NDArray[np.float64]
AtomLike = tuple[float, float, float]

NORMALISATION_TOLERANCE = 1e-11
LARGEST_LOG_RATIO = 300.0
ROUNDING = 8 * 2.0**-53  # relative, of a ratio, a mass and the value computed from them
_LARGEST_RATIO = math.exp(LARGEST_LOG_RATIO)
_LARGEST_PRODUCT = 1e300
_SAME_BITS = 43
_FULL_MASS = 1 - 2.0**-51


@dataclass(frozen=True, eq=False)
class PairLaw:
    """Atoms of one ordered pair of inputs: ``sum m rho_j + sum lost_j = 1`` for j = 0 and 1.

    One list of atoms may stand for laws that differ from it a little: each of their masses and
    ratios is within a factor ``1 +- error`` of the stored one, beyond :data:`ROUNDING`.
    ``local_epsilon`` is an upper bound on the log-ratio of the first input's output law over the
    second's, ``reversed_epsilon`` on that of the second over the first: 0 only if the two are the
    same, number for number.
    ``dropped`` is the blanket's mass on outputs that are counted as lost although it covers them.
    ``tolerance`` is the relative width that delta is worth being enclosed to, if the atoms
    themselves are no closer to the law that they stand for.
    """

    mass: Array
    rho0: Array
    rho1: Array
    lost0: Array
    lost1: Array
    local_epsilon: float
    reversed_epsilon: float
    error: float = 0.0
    dropped: float = 0.0
    tolerance: float | None = None

    @classmethod
    def of(
        cls,
        atoms: Iterable[AtomLike] | Array,
        *,
        lost: Iterable[tuple[float, float]] | Array = (),
        log_ratios: tuple[float, float] | None = None,
        dropped: float = 0.0,
    ) -> PairLaw:
        """Validate, drop empty atoms, merge atoms of equal ratios and freeze."""
        rows = np.array(list(atoms), dtype=float).reshape(-1, 3)
        gone = np.array(list(lost), dtype=float).reshape(-1, 2)
        for name, block in (("atoms", rows), ("lost", gone)):
            if not np.isfinite(block).all() or (block < 0).any():
                raise InvalidArgumentError(name, block.tolist(), f"finite, non-negative {name}")
        if (mass := math.fsum(rows[:, 0])) > 1.0 + NORMALISATION_TOLERANCE:
            raise InvalidArgumentError("atoms", mass, "atoms of total mass <= 1")
        for side in (0, 1):
            total = math.fsum(rows[:, 0] * rows[:, side + 1]) + math.fsum(gone[:, side])
            if abs(total - 1.0) > NORMALISATION_TOLERANCE:
                expected = f"atoms with sum of mass * rho{side} (plus lost mass) equal to 1"
                raise InvalidArgumentError("atoms", total, expected)
        rows = rows[rows[:, 0] > 0]
        if log_ratios is None:
            log_ratios = _log_ratios(*np.concatenate([rows[:, 1:], gone]).T)
        steep = rows[:, 1:].max(axis=1, initial=0.0) > _LARGEST_RATIO
        gone = np.concatenate([gone, rows[steep, :1] * rows[steep, 1:]])
        dropped += math.fsum(rows[steep, 0])
        gone = gone[gone[:, 0] + gone[:, 1] > 0]
        gone = gone[np.lexsort((gone[:, 1], gone[:, 0]))]
        rows, error = _merged(rows[~steep])
        parts = [np.array(column) for column in (*rows.T, *gone.T)]
        for part in parts:
            part.flags.writeable = False
        return cls(parts[0], parts[1], parts[2], parts[3], parts[4], *log_ratios, error, dropped)

    @classmethod
    def over(cls, base: Array, first: Array, second: Array) -> PairLaw:
        """The law of two output laws over what the others send, each as masses of the outputs."""
        covered = (base > 0) & (base >= np.maximum(first, second) / _LARGEST_RATIO)
        mass = base[covered]
        return cls.of(
            np.column_stack([mass, first[covered] / mass, second[covered] / mass]),
            lost=np.column_stack([first[~covered], second[~covered]]),
            log_ratios=_log_ratios(first, second),
            dropped=math.fsum(base[~covered]),
        )

    def spread(self, n: int) -> float:
        """Standard deviation of n people's privacy loss, to leading order."""
        return math.sqrt(float(self.mass @ self.values(0.0) ** 2) / n)

    @cached_property
    def rest(self) -> float:
        """Probability that a report does not come from the blanket: 0 if rounding explains it."""
        covered = math.fsum(self.mass)
        return 1.0 - covered if covered < _FULL_MASS else 0.0

    def values(self, epsilon: float) -> Array:
        """The value ``z = rho0 - e^epsilon rho1`` of each atom, without cancellation near 0."""
        if epsilon > LARGEST_LOG_RATIO:
            return self.rho0 - _grown(self.rho1, epsilon)
        return (self.rho0 - self.rho1) - math.expm1(epsilon) * self.rho1

    def sizes(self, epsilon: float) -> Array:
        """The value of each atom errs by at most :data:`ROUNDING` times this."""
        return (self.rho0 + _grown(self.rho1, epsilon)) * (1 + self.error / ROUNDING)

    def summands(self, n: int, epsilon: float) -> tuple[Array, Array]:
        """Values and their sizes, for the positive part of a sum of n of them.

        A value below -n times the largest makes the sum negative whatever the others are, so it
        may as well be -2 n times the largest: the values then span no more than n orders.
        """
        values, sizes = self.values(epsilon), self.sizes(epsilon)
        floor = -2.0 * n * max(0.0, values.max(initial=0.0))
        return np.maximum(values, floor), np.where(values > floor, sizes, -floor)

    def lost_divergence(self, epsilon: float) -> Enclosure:
        """Contribution of outputs nobody else can send: ``sum (lost0 - e^epsilon lost1)_+``."""
        if not self.lost0.size:
            return ZERO
        opposing = _grown(self.lost1, epsilon)
        error = 2 * ROUNDING * (1 + self.error / ROUNDING) * (self.lost0 + opposing)
        gain = self.lost0 - opposing
        return Enclosure.between(
            float(np.maximum(gain - error, 0.0).sum()), float(np.maximum(gain + error, 0.0).sum())
        )

    def reversed(self) -> PairLaw:
        """The same pair of inputs in the other order."""
        order = np.lexsort(_rounded(np.array([self.rho0, self.rho1])))
        lost_order = np.lexsort((self.lost0, self.lost1))
        return replace(
            self,
            mass=self.mass[order],
            rho0=self.rho1[order],
            rho1=self.rho0[order],
            lost0=self.lost1[lost_order],
            lost1=self.lost0[lost_order],
            local_epsilon=self.reversed_epsilon,
            reversed_epsilon=self.local_epsilon,
        )

    def participating(self, probability: float) -> PairLaw:
        """The law when each person reports only with this probability.

        Staying silent is one more output, sent with the same probability whatever the input:
        an atom of mass ``1 - probability`` with both ratios 1.
        """
        speaking = np.column_stack([self.mass * probability, self.rho0, self.rho1])
        lost = np.column_stack([self.lost0, self.lost1]) * probability
        law = PairLaw.of([*speaking, (1.0 - probability, 1.0, 1.0)], lost=lost)
        return law.descending(self)

    def without(self, left_out: npt.NDArray[np.bool_]) -> PairLaw:
        """The law in which these atoms count as the value 0."""
        mass, rho0, rho1 = (part[~left_out] for part in (self.mass, self.rho0, self.rho1))
        return replace(self, mass=mass, rho0=rho0, rho1=rho1)

    def without_rare(self, probability: float) -> PairLaw:
        """The law in which the atoms of the largest ratios are lost: of so much probability.

        A smaller blanket: an upper bound still, and far quicker to enclose at a larger delta.
        """
        rare = np.zeros(self.mass.size, dtype=bool)
        for ratios in (self.rho0, self.rho1):
            order = np.argsort(-ratios, kind="stable")
            rare[order] |= np.cumsum((self.mass * ratios)[order]) <= probability
        if not rare.any():
            return self
        gone = np.array([self.mass * self.rho0, self.mass * self.rho1])[:, rare]
        lost = np.hstack([[self.lost0, self.lost1], gone])
        lost = lost[:, np.lexsort((lost[1], lost[0]))]
        dropped = self.dropped + math.fsum(self.mass[rare])
        return replace(self.without(rare), lost0=lost[0], lost1=lost[1], dropped=dropped)

    def descending(self, source: PairLaw) -> PairLaw:
        """This law, computed from the atoms of another one: it errs where that one does."""
        return replace(
            self,
            local_epsilon=source.local_epsilon,
            reversed_epsilon=source.reversed_epsilon,
            error=self.error + source.error,
            dropped=self.dropped + source.dropped,
            tolerance=source.tolerance,
        )

    def covering(self, other: PairLaw) -> PairLaw:
        """One law for two that are equal up to float noise, its error large enough for both."""
        deviation = max(
            float(np.max(np.abs(theirs - own) / np.where(own > 0, own, 1.0), initial=0.0))
            for own, theirs in zip(_arrays(self), _arrays(other), strict=True)
        )
        return replace(
            self,
            local_epsilon=max(self.local_epsilon, other.local_epsilon),
            reversed_epsilon=max(self.reversed_epsilon, other.reversed_epsilon),
            error=max(self.error, other.error + deviation),
            dropped=max(self.dropped, other.dropped),
        )

    @cached_property
    def signature(self) -> bytes:
        """A key under which laws equal up to float noise coincide."""
        return b"|".join(_rounded(part).tobytes() for part in _arrays(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairLaw) and (
            _bounds(self) == _bounds(other)
            and all(map(np.array_equal, _arrays(self), _arrays(other)))
        )

    def __hash__(self) -> int:
        return hash(self.signature)


_bounds = attrgetter("local_epsilon", "reversed_epsilon", "error", "dropped")
_arrays = attrgetter("mass", "rho0", "rho1", "lost0", "lost1")


def distinct(pairs: Iterable[PairLaw]) -> tuple[PairLaw, ...]:
    """One law for those that are equal up to float noise, in order of appearance."""
    laws: dict[bytes, PairLaw] = {}
    for pair in pairs:
        known = laws.get(pair.signature)
        laws[pair.signature] = pair if known is None or known == pair else known.covering(pair)
    return tuple(laws.values())


def _log_ratios(first: Array, second: Array) -> tuple[float, float]:
    """Upper bounds on max log(first/second) and on max log(second/first)."""
    if np.array_equal(first, second):
        return 0.0, 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(first), np.log(second)
        ratio = np.where(first == second, 0.0, logs[0] - logs[1])
        size = 1 + np.abs(logs[0]) + np.abs(logs[1])
    error = ROUNDING * np.where(np.isfinite(size), size, 1.0)
    return max(0.0, float((ratio + error).max())), max(0.0, float((error - ratio).max()))


def _grown(ratios: Array, epsilon: float) -> Array:
    """``e^epsilon`` times each, at most 1e300: more makes no difference to a sum with it."""
    if epsilon <= LARGEST_LOG_RATIO:  # neither is above e^300
        return ratios * math.exp(epsilon)
    with np.errstate(over="ignore", invalid="ignore"):
        product = ratios * math.exp(LARGEST_LOG_RATIO) * np.exp(epsilon - LARGEST_LOG_RATIO)
    return np.where(ratios > 0, np.fmin(product, _LARGEST_PRODUCT), 0.0)


def _merged(rows: Array) -> tuple[Array, float]:
    """Join atoms whose ratios agree to float noise at their mean; and how far that moves them."""
    if len(rows) == 0:
        return rows, 0.0
    _, first, group, counts = np.unique(
        _rounded(rows[:, 1:]), axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) == len(rows):
        return rows[first], 0.0
    group = group.reshape(-1)
    mass = np.bincount(group, weights=rows[:, 0])
    means = [np.bincount(group, weights=rows[:, 0] * rows[:, j]) / mass for j in (1, 2)]
    joined = np.where((counts > 1)[:, None], np.column_stack([mass, *means]), rows[first])
    ratios = joined[group, 1:]
    moved = np.abs(rows[:, 1:] - ratios) / np.where(ratios > 0, ratios, 1.0)
    return joined, float(moved.max()) + int(counts.max()) * 2.0**-53


def _rounded(values: Array) -> Array:
    """Round to so many bits that float noise is gone."""
    mantissa, exponent = np.frexp(values)
    rounded: Array = np.ldexp(np.round(np.ldexp(mantissa, _SAME_BITS)), exponent - _SAME_BITS)
    return rounded

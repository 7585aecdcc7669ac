"""What a test has to find out: which hypothesis, how far a departure, how surely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.questions.kinds import MOST_LABELS
from shoal.values import Array

Kind = Literal["uniformity", "identity", "closeness"]

LEVEL = 0.05
SMALLEST_DISTANCE = 1e-8  # without any noise it takes sqrt(k)/distance^2 people to notice
_SUM_TOLERANCE = 1e-6
_EVEN = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Hypothesis:
    """What is tested, and the departure from it that is to be noticed.

    It says that the answers 0, ..., k − 1 are equally likely; that they have the probabilities of a
    reference; or, for ``closeness``, that two batches agree, whatever the answers.

    Args:
        k: How many answers there are, if they are equally likely.
        reference: A probability for each answer; for closeness it is only what plans and powers
            reckon with, and so is k.
        distance: Total variation in (0, 1) that is to be noticed.
        level: Probability to reject a hypothesis that is true.
        closeness: Whether two batches of as many people each agree.
        overlapping: Whether people may be in both of them: ε is then what two reports of one
            person, one in each batch, cost together.

    Raises:
        InvalidArgumentError: A number is out of its range, or two exclude each other.

    Example:
        >>> Hypothesis(k=64, distance=0.1).kind
        'uniformity'
        >>> fair = Hypothesis(reference=[0.5, 0.3, 0.2], distance=0.1, level=0.01)
        >>> fair.kind, fair.k
        ('identity', 3)
    """

    k: int | None = None
    reference: npt.ArrayLike | None = None
    distance: float
    level: float = LEVEL
    closeness: bool = False
    overlapping: bool = False

    def __post_init__(self) -> None:
        expected = "exactly one of k and a reference"
        checks.refuse(self.k is None and self.reference is None, expected, given="neither")
        size = self.probabilities.size
        # Both in agreement are those of a hypothesis that is replaced in part.
        checks.refuse(self.k is not None and self.k != size, expected, given="both")
        object.__setattr__(self, "k", size)
        checks.open_probability(level=self.level)
        check_noticeable(self.distance)
        self.require_possible(self.distance)
        alone = self.overlapping and not self.closeness
        checks.refuse(alone, "two batches (closeness) to overlap", overlapping=self.overlapping)

    @cached_property
    def probabilities(self) -> Array:
        """Those of the reference, or equal ones: they sum to 1."""
        if self.reference is not None:
            return _normal(self.reference)
        k = checks.count(2, k=self.k)  # type: ignore[arg-type]
        checks.refuse(k > MOST_LABELS, f"2 <= k <= {MOST_LABELS:,} answers", k=k)
        return np.full(k, 1 / k)

    @property
    def uniform(self) -> bool:
        """Whether all answers are equally likely."""
        return is_uniform(self.probabilities)

    @property
    def kind(self) -> Kind:
        """Which of the three tests it takes."""
        return "closeness" if self.closeness else self.kind_of_one

    @property
    def kind_of_one(self) -> Kind:
        """Which test of one batch it takes."""
        return "uniformity" if self.uniform else "identity"

    def require_possible(self, distance: float) -> None:
        """No distribution is further from the reference than all mass on its rarest answer."""
        check_noticeable(distance)
        limit = 1 - float(self.probabilities.min())
        expected = f"distance <= {limit:.6g}, the largest from this reference"
        checks.refuse(distance > limit, expected, distance=distance)


def _normal(reference: npt.ArrayLike) -> Array:
    """The reference, checked, as probabilities that sum to 1."""
    try:
        probabilities = np.array(reference, dtype=np.float64)
    except (TypeError, ValueError) as error:
        shown = type(reference).__name__
        raise InvalidArgumentError("reference", shown, "a list of probabilities") from error
    shape = probabilities.shape
    few = len(shape) != 1 or shape[0] < 2
    checks.refuse(few, "a reference with at least two answers", reference=f"shape {shape}")
    for place in np.flatnonzero(~(np.isfinite(probabilities) & (probabilities >= 0))):
        expected = "probabilities that are finite and not negative"
        raise InvalidArgumentError(f"reference[{place}]", float(probabilities[place]), expected)
    total = float(probabilities.sum())
    off = abs(total - 1) > _SUM_TOLERANCE
    checks.refuse(off, "probabilities that sum to 1", **{"sum of reference": total})
    return probabilities / total


def is_uniform(probabilities: Array) -> bool:
    """Whether all answers are equally likely."""
    return float(np.ptp(probabilities)) <= _EVEN / probabilities.size


def check_noticeable(distance: float) -> None:
    """A distance that some number of people may notice."""
    checks.open_probability(distance=distance)
    expected = f"distance >= {SMALLEST_DISTANCE:g} (10^15 people would not notice less)"
    checks.refuse(distance < SMALLEST_DISTANCE, expected, distance=distance)

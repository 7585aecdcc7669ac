"""What is minimized: the mean over examples (x, y) of a convex loss of the score x.theta.

A loss gives its value and its slope, the derivative in the score; the gradient in theta is the
slope times x. Half of l2 |theta|^2 may be added to it. That term does not depend on the data, so
its gradient is neither clipped nor hidden by noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.values import Array

Label = object

PUBLIC_LABELS = (
    "which two labels there are is treated as public: they were taken from the answers (name them: "
    "Logistic(labels=(first, second)))"
)
LARGEST_NUMBER = 1e100  # squares and sums of what is smaller stay finite
_STEEP = 700.0  # the largest argument whose exponential is finite, about


@dataclass(frozen=True, kw_only=True)
class Loss(ABC):
    """A convex loss of the score, and how to read the answers it is about."""

    l2: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative(l2=self.l2)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What reading the answers takes as public beyond what every training run does."""
        return ()

    @abstractmethod
    def reading(self, y: npt.ArrayLike) -> tuple[Array, tuple[Label, ...]]:
        """Answers as numbers, and the labels they stand for, if they do."""

    @abstractmethod
    def values(self, scores: Array, targets: Array) -> Array:
        """The loss of each example."""

    @abstractmethod
    def slopes(self, scores: Array, targets: Array) -> Array:
        """The derivative of each loss in its score."""

    @abstractmethod
    def slope(self, score: float, target: float) -> float:
        """The same for one example: one at a time, arrays cost more than the arithmetic."""

    @abstractmethod
    def predicted(self, scores: Array, labels: tuple[Label, ...]) -> npt.NDArray[np.generic]:
        """The answer that a score stands for."""

    @abstractmethod
    def score(self, scores: Array, y: npt.ArrayLike, labels: tuple[Label, ...]) -> float:
        """How well scores explain answers: 1 is perfect."""


@dataclass(frozen=True, kw_only=True)
class Logistic(Loss):
    """log(1 + exp(-y s)) for two labels, y = -1 the first and +1 the second.

    ``labels`` names them in that order. Without it they are the two that occur, sorted. Which they
    are is then treated as public, and the guarantee of a training run says so: where one person
    alone has a label, leaving that person's answer out is an error, not a model.

    >>> loss = Logistic(labels=("no", "yes"))
    >>> loss.reading(["yes", "no"])[0].tolist()
    [1.0, -1.0]
    >>> round(loss.slope(0.0, 1.0), 3)
    -0.5
    """

    labels: Sequence[Label] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels is None:
            return
        named = tuple(self.labels)
        if len(named) != 2 or named[0] == named[1]:
            raise InvalidArgumentError("labels", self.labels, "two different labels")
        object.__setattr__(self, "labels", named)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Labels that were not named are taken from the answers, without noise."""
        return (PUBLIC_LABELS,) if self.labels is None else ()

    def reading(self, y: npt.ArrayLike) -> tuple[Array, tuple[Label, ...]]:
        """Minus and plus one, and the two labels."""
        answers = _column(y)
        named = _two_labels(answers) if self.labels is None else tuple(self.labels)
        second = _equal(answers, named[1])
        strange = ~(_equal(answers, named[0]) | second)
        if strange.any():
            found = answers[strange][0]
            expected = f"only the labels {named[0]!r} and {named[1]!r}"
            raise InvalidArgumentError("answers", _plain(found), expected)
        return np.where(second, 1.0, -1.0), named

    def values(self, scores: Array, targets: Array) -> Array:
        """log(1 + exp(-y s))."""
        return np.logaddexp(0.0, -targets * scores)

    def slopes(self, scores: Array, targets: Array) -> Array:
        """-y/(1 + exp(y s))."""
        return -targets / (1.0 + np.exp(np.minimum(targets * scores, _STEEP)))

    def slope(self, score: float, target: float) -> float:
        """-y/(1 + exp(y s))."""
        return -target / (1.0 + math.exp(min(target * score, _STEEP)))

    def predicted(self, scores: Array, labels: tuple[Label, ...]) -> npt.NDArray[np.generic]:
        """The second label where the score is above zero."""
        return np.asarray(labels)[(scores > 0).astype(np.intp)]

    def score(self, scores: Array, y: npt.ArrayLike, labels: tuple[Label, ...]) -> float:
        """The share of answers predicted right."""
        targets, _ = Logistic(labels=labels).reading(y)
        return float(np.mean((scores > 0) == (targets > 0)))


@dataclass(frozen=True, kw_only=True)
class Ridge(Loss):
    """Half the squared residual, (s - y)^2/2.

    >>> Ridge(l2=0.1).slope(3.0, 1.0)
    2.0
    """

    def reading(self, y: npt.ArrayLike) -> tuple[Array, tuple[Label, ...]]:
        """The answers, which must be numbers."""
        return numbers("answers", y, dimensions=1), ()

    def values(self, scores: Array, targets: Array) -> Array:
        """(s - y)^2/2."""
        return 0.5 * np.square(scores - targets)

    def slopes(self, scores: Array, targets: Array) -> Array:
        """s - y."""
        return scores - targets

    def slope(self, score: float, target: float) -> float:
        """s - y."""
        return score - target

    def predicted(self, scores: Array, labels: tuple[Label, ...]) -> npt.NDArray[np.generic]:
        """The score itself."""
        del labels
        return scores

    def score(self, scores: Array, y: npt.ArrayLike, labels: tuple[Label, ...]) -> float:
        """R^2: one minus the share of the variance of the answers that is left."""
        del labels
        targets = numbers("answers", y, dimensions=1)
        spread = float(np.square(targets - targets.mean()).sum())
        if spread == 0:
            raise InvalidArgumentError(
                "answers", float(targets[0]), "answers that are not all the same"
            )
        return 1 - float(np.square(scores - targets).sum()) / spread


def numbers(name: str, values: npt.ArrayLike, *, dimensions: int) -> Array:
    """An array of finite numbers with so many dimensions; the first one that is not is named."""
    try:
        read = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(name, type(values).__name__, f"{name} of numbers") from error
    if read.ndim != dimensions or not read.size:
        shape = "one number per example" if dimensions == 1 else "one row of numbers per example"
        raise InvalidArgumentError(name, f"array of shape {read.shape}", f"{name} with {shape}")
    strange = ~(np.abs(read) <= LARGEST_NUMBER)
    if strange.any():
        place = tuple(int(part) for part in np.argwhere(strange)[0])
        where = ", ".join(map(str, place))
        expected = f"{name} of finite numbers, at most {LARGEST_NUMBER:g} in size (see [{where}])"
        raise InvalidArgumentError(name, float(read[place]), expected)
    return read


def _column(y: npt.ArrayLike) -> npt.NDArray[np.generic]:
    answers = np.asarray(y)
    if answers.ndim != 1 or not answers.size:
        expected = "one label per example"
        raise InvalidArgumentError("answers", f"array of shape {answers.shape}", expected)
    return answers


def _two_labels(answers: npt.NDArray[np.generic]) -> tuple[Label, ...]:
    try:
        found = np.unique(answers)
    except TypeError as error:
        expected = "labels of one kind; name them: Logistic(labels=(first, second))"
        raise InvalidArgumentError("answers", type(answers[0]).__name__, expected) from error
    if found.dtype.kind == "f" and np.isnan(found).any():
        raise InvalidArgumentError("answers", float("nan"), "labels, none of them missing")
    if len(found) != 2:
        shown = ", ".join(repr(_plain(each)) for each in found[:4]) + (", …" * (len(found) > 4))
        expected = (
            "two different labels; if one is missing name both: Logistic(labels=(first, second))"
        )
        raise InvalidArgumentError("answers", f"{len(found)} labels: {shown}", expected)
    return tuple(_plain(each) for each in found)


def _equal(answers: npt.NDArray[np.generic], label: Label) -> npt.NDArray[np.bool]:
    return np.asarray(answers == label, dtype=np.bool)


def _plain(label: object) -> object:
    return label.item() if isinstance(label, np.generic) else label

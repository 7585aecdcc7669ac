"""What a report is about: anything with these properties, such as the result of a run."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from shoal.accounting.guarantee import Guarantee
from shoal.randomizers.base import Mechanism
from shoal.values import Estimate, MeanEstimate, VectorEstimate


class ReportedColumn(Protocol):
    """One question: its answers, what was estimated, and how."""

    @property
    def column(self) -> str:
        """The question."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers, or the coordinates, in the order of the estimate; empty for numbers."""

    @property
    def estimate(self) -> Estimate | MeanEstimate | VectorEstimate:
        """The shares of the answers, or the mean."""

    @property
    def randomizer(self) -> Mechanism:
        """What made each report."""

    @property
    def guarantee(self) -> Guarantee:
        """What holds for this question by itself."""

    @property
    def truth(self) -> npt.NDArray[np.float64] | None:
        """The true shares (the true mean, for numbers), if somebody asked for them."""

    @property
    def n(self) -> int:
        """How many people reported."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about this question."""


class Reported(Protocol):
    """A finished collection."""

    @property
    def columns(self) -> tuple[ReportedColumn, ...]:
        """One entry per question."""

    @property
    def guarantee(self) -> Guarantee:
        """What holds for all questions together."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the collection."""

    @property
    def contains_truth(self) -> bool:
        """Whether true values are in it: then it is not private."""

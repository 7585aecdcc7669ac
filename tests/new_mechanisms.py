"""New mechanisms, one of each kind: each is a class, and a line of the registry.

Nothing else of Shoal knows these classes.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from shoal.accounting.law import BlanketLaw
from shoal.intervals.estimates import VectorEstimate
from shoal.mechanisms import registry
from shoal.mechanisms.base import (
    ByLaw,
    ByProfile,
    CategoryRandomizer,
    Mechanism,
    Odds,
    Parts,
)
from shoal.mechanisms.codec import Numbered, ragged
from shoal.mechanisms.dummies import AmongDummies, Dummies, LessDummies, UniformDummies
from shoal.mechanisms.estimators import MeanEstimator, Support, Supported
from shoal.mechanisms.grid import OnGrid, rounded
from shoal.questions.domains import Ball, Cells, Interval
from shoal.values import Counts

BITS = 53


def told(leaves, how):
    """What a survey says of a mechanism: that it is this one."""
    return f"{{% set leaves %}}{leaves}{{% endset %}}{{% set how %}}{how}{{% endset %}}"


def response(truths, odds, outputs, bits):
    """Each number with odds high : low against each other one."""
    drawn = bits.below(odds.total, truths.size).astype(np.int64)
    excess = odds.high - odds.low
    return np.where(drawn < excess, truths, (drawn - excess) // odds.low % outputs)


class Turned(Supported):
    """The last message speaks for the first answer."""

    def estimate(self, counts):
        return super().estimate(Counts(counts.cells[::-1], counts.n))


@dataclass(frozen=True, kw_only=True)
class Mirrored(CategoryRandomizer):
    """Answer x is sent as k - 1 - x, with odds e^epsilon : 1 against each other number."""

    name: ClassVar[str] = "mirrored"
    words = told("An answer in a mirror leaves your device.", "It may be any of {{ device.k }}.")

    @cached_property
    def parts(self):
        odds = Odds.of(self.epsilon, highs=1, lows=self.k - 1)
        support = Support(odds.high / odds.total, odds.low / odds.total)
        return Parts(
            domain=Cells(self.k),
            privacy=ByLaw(
                odds.epsilon, lambda: BlanketLaw.randomized_response(k=self.k, epsilon=odds.epsilon)
            ),
            codec=Numbered(self.k),
            estimator=Turned(self.k, support, joint=(0.0, 0.0)),
            odds=odds,
        )

    def draw(self, data, bits):
        return response(self.k - 1 - data, self.odds, self.k, bits)

    def table(self):
        weights = np.full((self.k, self.k), self.odds.low / self.odds.total)
        np.fill_diagonal(weights[:, ::-1], self.odds.high / self.odds.total)
        return weights


class Leaking(Mirrored):
    """The same class, careless: a tenth of the reports are the truth."""

    def draw(self, data, bits):
        messages = super().draw(data, bits)
        careless = bits.below(10, len(messages)) == 0
        return np.where(careless, self.k - 1 - data, messages)


@dataclass(frozen=True, kw_only=True)
class Backwards(Mechanism):
    """A number is rounded to low, middle or high; level l of the three is sent as 2 - l."""

    name: ClassVar[str] = "backwards"
    words = told("A step counted from above leaves your device.", "It may be any of three.")

    low: float
    high: float
    epsilon: float

    @cached_property
    def parts(self):
        odds = Odds.of(self.epsilon, highs=1, lows=2)
        true, other = odds.high / odds.total, odds.low / odds.total
        levels = np.array([2.0, 1.0, 0.0])  # of the messages, by their number
        # E[y | l] = (true - other) l + 3 other, and 5 other for the squares.
        scores, squares = ((levels**i - (1 + 2**i) * other) / (true - other) for i in (1, 2))
        return Parts(
            domain=Interval(self.low, self.high),
            privacy=ByLaw(
                odds.epsilon, lambda: BlanketLaw.randomized_response(k=3, epsilon=odds.epsilon)
            ),
            codec=Numbered(3),
            estimator=OnGrid(
                low=self.low,
                step=(self.high - self.low) / 2,
                scores=scores,
                square_scores=squares,
                moments=self._rows(odds) @ scores**2,
                lies=3 * other,
            ),
            odds=odds,
        )

    @staticmethod
    def _rows(odds):
        rows = np.full((3, 3), odds.low / odds.total)
        np.fill_diagonal(rows[:, ::-1], odds.high / odds.total)
        return rows

    def draw(self, data, bits):
        return response(2 - rounded(data, self.low, self.high, 2, bits), self.odds, 3, bits)


class OnAxes(MeanEstimator):
    """The mean vector from how often each axis was sent, upwards and downwards."""

    def __init__(self, dimension, scale):
        self.dimension, self.scale = dimension, scale  # of one report's estimate

    def estimate(self, counts):
        downwards, upwards = counts.cells.reshape(self.dimension, 2).T
        means = self.scale * (upwards - downwards) / counts.n
        variances = self.scale**2 * (upwards + downwards) / counts.n - means**2
        return VectorEstimate(means, np.sqrt(variances / counts.n), counts.n)

    def variance(self, frequencies=None, *, n):  # noqa: ARG002
        return self.scale**2 / n


@dataclass(frozen=True, kw_only=True)
class Axis(Mechanism):
    """The sign of one coordinate, drawn at random; a report is 2 j + 1 if coordinate j is up."""

    name: ClassVar[str] = "axis"

    dimension: int
    norm: float = 1.0
    epsilon: float

    @cached_property
    def parts(self):
        odds = Odds.of(self.epsilon, highs=1, lows=1)
        kept = (odds.high - odds.low) / odds.total
        return Parts(
            domain=Ball(self.dimension, self.norm),
            privacy=ByLaw(
                odds.epsilon, lambda: BlanketLaw.randomized_response(k=2, epsilon=odds.epsilon)
            ),
            codec=Numbered(2 * self.dimension),
            estimator=OnAxes(self.dimension, self.norm * self.dimension / kept),
            odds=odds,
        )

    def draw(self, data, bits):
        axes = bits.below(self.dimension, len(data)).astype(np.int64)
        upwards = (1 + data[np.arange(len(data)), axes] / self.norm) / 2
        up = bits.below(1 << BITS, len(data)) < np.floor(upwards * 2.0**BITS).astype(np.uint64)
        return 2 * axes + response(up.astype(np.int64), self.odds, 2, bits)


class TurnedCounts(LessDummies):
    """The last message speaks for the first answer."""

    def estimate(self, counts):
        return super().estimate(Counts(counts.cells[::-1], counts.n))


@dataclass(frozen=True, kw_only=True)
class Chaff(AmongDummies):
    """Answer x is sent as k - 1 - x, among numbers that mean nothing."""

    name: ClassVar[str] = "chaff"
    words = told("Several numbers leave your device.", "One of them is an answer in a mirror.")

    k: int
    dummies: float

    def __post_init__(self):
        object.__setattr__(self, "dummies", Dummies.checked(self.dummies))

    @cached_property
    def parts(self):
        alike = UniformDummies(k=self.k, dummies=self.dummies)
        return Parts(
            domain=Cells(self.k),
            privacy=ByProfile(alike.profile),
            codec=Numbered(self.k, spare=True, always_full=not self.added.sometimes),
            estimator=TurnedCounts(self.k, self.added),
            **self.sending(),
        )

    @classmethod
    def calibrated(cls, *, k, n, epsilon, delta):
        least = registry.calibration("dummies")(k=k, n=n, epsilon=epsilon, delta=delta)
        return cls(k=k, dummies=1.01 * least.dummies).kept(n=n, epsilon=epsilon, delta=delta)

    def draw(self, data, bits):
        added = self.added.added(data.size, bits)
        drawn = bits.below(self.k, int(added.sum())).astype(np.int64)
        return ragged(self.k - 1 - data, drawn, added)


KINDS = {
    "mirrored": (Mirrored, registry.Line("new", "Mirrored", "answers", "clients")),
    "backwards": (Backwards, registry.Line("new", "Backwards", "numbers", "clients")),
    "axis": (Axis, registry.Line("new", "Axis", "vectors", "tables")),
    "chaff": (
        Chaff,
        registry.Line("new", "Chaff", "answers", "clients", local=False, several=True),
    ),
}


def register(monkeypatch):
    """What a module ``new`` and these lines in the registry do."""
    monkeypatch.setitem(sys.modules, "shoal.mechanisms.new", sys.modules[__name__])
    for name, (_, line) in KINDS.items():
        monkeypatch.setitem(registry.LINES, name, line)


def made(name):
    """One of them, for data of the kind that it takes."""
    if name == "chaff":
        return Chaff.calibrated(k=3, n=1000, epsilon=2.0, delta=1e-6)
    shapes = {
        "mirrored": {"k": 3},
        "backwards": {"low": 0.0, "high": 10.0},
        "axis": {"dimension": 3},
    }
    return KINDS[name][0](epsilon=math.log(3), **shapes[name])

"""How many partitions and bins to make where coins are public.

A forecast says which layouts are worth a calibration. The noise for another number of bins
follows from one calibration to leading order: (e − 1)²/(e + L − 1), e being e^ε0, stays what it is
(the variance of the privacy loss), and so do the dummies per bin.

The forecast is the power before the coins are drawn. A random partition of k answers into L equal
bins keeps of a departure its projection on L − 1 of k − 1 dimensions. With Π_g these
projections, S = Σ_g Π_g and ρ dummies, uniform answers give

    one message:       MΣ ~ (k/(L² G)) S,         mean of T ~ (λ k/(L G))² d'S²d,
    several messages:  MΣ ~ (k/L²) (S² + ρ S),    mean of T ~ (k/L)² d'S²d.

The projections of independent random partitions are nearly free, which gives the moments of S from
the free cumulants of a projection (Voiculescu; Nica and Speicher, "Lectures on the Combinatorics of
Free Probability", 2006). How much of d survives is chance: d'S²d is taken for a gamma variable with
relative variance 2 tr(S⁴)/tr(S²)².

Answers that are not uniform make some bins vary more, and the statistic counts these less: in place
of ‖d‖² stands Σ_x w_x d_x², the weight being that of the bin of x with the mean of all other bins.
Its least value over all departures is taken (:mod:`shoal.testing.power`). If one answer can
lose all that another gains, nothing is seen where they share all their bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Self

import numpy as np
from scipy import stats

from shoal.accounting.amplification import local_epsilon
from shoal.accounting.noise import dummies_rho
from shoal.protocols.base import Device
from shoal.protocols.dummies import PartitionedDummies
from shoal.randomizers.base import Randomizer
from shoal.randomizers.partitioned import PartitionedResponse
from shoal.testing import power
from shoal.testing.question import Question
from shoal.testing.scores import MOST_CELLS, Departure, Spread
from shoal.values import Array

PARTITIONS = (1, 4)
MOST_SYMBOLS = 1 << 20
_MOST_SHARED = 64  # bins of each of several partitions, unless asked for: one with more sees more
_TRIED = 2  # layouts of the best forecast that are calibrated
_LARGEST_LOCAL_EPSILON = 25.0
_SAMPLE = 16
_ALIKE = 0.02  # of power: not worth more messages
_NODES = (np.arange(24) + 0.5) / 24
_ALONE = 2048  # of the most frequent answers, and as many groups of the others


@dataclass(frozen=True, eq=False)
class Target:
    """What so many people shall notice: all departures at this distance from a reference.

    ``probabilities`` are those of its answers; of very many, rare ones are taken together in
    groups of similar ones, with their mean probability and their number in ``sizes``.
    """

    probabilities: Array
    sizes: Array
    distance: float
    people: float
    level: float

    @classmethod
    def of(cls, reference: Array, distance: float, *, people: float, level: float) -> Self:
        """In order, which makes what follows quick."""
        ordered = np.sort(reference)
        alone = max(0, ordered.size - _ALONE)
        groups = np.linspace(0, alone, _ALONE, endpoint=False).astype(np.int64)
        starts = np.unique(np.append(groups, np.arange(alone, ordered.size)))
        sizes = np.diff(np.append(starts, ordered.size)).astype(np.float64)
        probabilities = np.add.reduceat(ordered, starts) / sizes
        return cls(probabilities, sizes, distance, people, level)

    def square(self, variances: Array) -> float:
        """The least Σ_x w_x d_x², with the weights of these variances beside their mean."""
        relative = variances / np.average(variances, weights=self.sizes)
        weights, mass = relative ** (-2 / 3) / self.sizes, self.probabilities * self.sizes
        hardest = power.hardest(mass, self.distance, weights=weights)
        return float(weights @ (hardest - mass) ** 2)

    @property
    def exchange(self) -> bool:
        """Whether one answer can lose all that another gains."""
        return bool(self.probabilities[-1] >= self.distance)


@dataclass(frozen=True)
class Shape:
    """k answers, in each of ``partitions`` partitions sorted into ``symbols`` bins."""

    k: int
    symbols: int
    partitions: int

    @property
    def moments(self) -> tuple[float, float, float, float]:
        """tr(S^i)/(k − 1) for i = 1, ..., 4.

        >>> [round(moment, 9) for moment in Shape(9, 9, 3).moments]
        [3.0, 9.0, 27.0, 81.0]
        """
        r, g = (self.symbols - 1) / (self.k - 1), self.partitions
        first, second = g * r, g * (r - r**2)
        third = g * (r - 3 * r**2 + 2 * r**3)
        fourth = g * (r - 6 * r**2 + 10 * r**3 - 5 * r**4)
        return (
            first,
            second + first**2,
            third + 3 * second * first + first**3,
            fourth + 4 * third * first + 2 * second**2 + 6 * second * first**2 + first**4,
        )

    def one_message(self, truth: float, target: Target) -> float:
        """Predicted power of randomized response whose true symbol is likelier by λ = truth."""
        first, second, _, _ = self.moments
        noise = self.k / (self.symbols**2 * self.partitions)
        noises = (noise * first, noise**2 * second)
        seen = (truth * self.k / (self.symbols * self.partitions)) ** 2
        probabilities = (1 - truth) / self.symbols + truth * self._bins(target)
        return self._averaged(noises, seen, probabilities * (1 - probabilities), target)

    def several_messages(self, dummies: float, target: Target) -> float:
        """Predicted power of histograms with so many dummies per person and partition."""
        first, second, third, fourth = self.moments
        noise = self.k / self.symbols**2
        square = fourth + 2 * dummies * third + dummies**2 * second
        noises = (noise * (second + dummies * first), noise**2 * square)
        bins = self._bins(target)
        variances = bins * (1 - bins) + dummies / self.symbols
        return self._averaged(noises, (self.k / self.symbols) ** 2, variances, target)

    def _averaged(
        self, noises: tuple[float, float], seen: float, variances: Array, target: Target
    ) -> float:
        """From tr(MΣ) and tr((MΣ)²) per dimension, and the variance of the bin of each answer."""
        _, second, _, fourth = self.moments
        spread = Spread(*((self.k - 1) * np.array(noises)))
        variance = 2 * fourth / ((self.k - 1) * second**2)
        factors = stats.gamma.ppf(_NODES, 1 / variance, scale=variance)
        signals = seen * second * target.square(variances) * factors
        powers = power.predicted(
            spread,
            Departure(signals, signals * spread.scale, spread),
            people=target.people,
            level=target.level,
        )
        return min(float(powers.mean()), 1 - self._together * (1 - target.level) * target.exchange)

    def _bins(self, target: Target) -> Array:
        """How likely the bin of each answer is, on average over the others in it."""
        others = (self.k / self.symbols - 1) / (self.k - 1)
        return target.probabilities + others * (1 - target.probabilities)

    @property
    def _together(self) -> float:
        """The probability that two answers share all their bins."""
        return ((self.k / self.symbols - 1) / (self.k - 1)) ** self.partitions


# --------------------------------------------------------------------------- layouts to choose from


def shapes(question: Question, partitions: tuple[int, ...] = PARTITIONS) -> list[Shape]:
    """The layouts to choose from: powers of two below k, unless they are given."""
    k = question.k
    symbols = [1 << i for i in range(1, min(k, MOST_SYMBOLS).bit_length()) if 1 << i < k] or [k]
    if question.symbols is not None:
        symbols = [question.symbols]
    most = _MOST_SHARED
    if question.partitions is not None:
        partitions, most = (question.partitions,), MOST_CELLS // question.partitions
    layouts = [Shape(k, many, parts) for parts in partitions for many in symbols]
    fitting = [shape for shape in layouts if shape.partitions == 1 or shape.symbols <= most]
    return fitting or layouts[:1]  # what was asked for may be refused later, with a reason


def one_message_devices(question: Question) -> list[Device]:
    """The best layouts, by forecast, of randomized response on partitions."""

    def family(shape: Shape) -> partial[PartitionedResponse]:
        return partial(PartitionedResponse, coins=question.coins, **asdict(shape))

    choice = shapes(question)
    if len(choice) > 1:
        sample = min(choice, key=lambda shape: abs(shape.symbols - _SAMPLE))
        growth = math.exp(calibrated(family(sample), question))
        constant = (growth - 1) ** 2 / (growth + sample.symbols - 1)
        target = _target(question)
        choice.sort(key=lambda shape: -shape.one_message(_truth(constant, shape.symbols), target))
    families = [family(shape) for shape in choice[:_TRIED]]
    return [each(epsilon=calibrated(each, question)) for each in families]


def calibrated(family: Callable[..., Randomizer], question: Question) -> float:
    """The largest local epsilon of a family that keeps what one batch may cost."""
    return local_epsilon(
        family,
        epsilon=question.batch_epsilon,
        delta=question.delta,
        n=question.n,
        honest_fraction=question.honest_fraction,
        cap=_LARGEST_LOCAL_EPSILON,
    )


def _truth(constant: float, symbols: int) -> float:
    """λ = y/(y + L) with y² = constant (y + L)."""
    excess = (constant + math.sqrt(constant**2 + 4 * constant * symbols)) / 2
    return excess / (excess + symbols)


def several_messages_devices(question: Question) -> list[Device]:
    """The best layout, by forecast, of histograms among dummies that keeps the cap.

    One partition unless more are asked for: they send as many times as much for the same power.
    Of the layouts within the cap and nearly the best forecast, it is the one that sends least.
    """
    k, honest, delta = question.k, question.crowd.honest, question.delta
    choice = shapes(question, (1,))
    if len(choice) > 1:
        # Dummies per person and bin, as for Gaussian noise.
        bins, parts = min(k, _SAMPLE), choice[0].partitions
        part = question.batch_epsilon / math.sqrt(parts)
        each = dummies_rho(n=honest, k=bins, epsilon=part, delta=delta) / bins

        def messages(shape: Shape) -> float:
            return parts * (1 + shape.symbols * each)

        target = _target(question)
        cap = math.inf if question.messages_cap is None else question.messages_cap
        within = [shape for shape in choice if messages(shape) <= cap]
        powers = {s: s.several_messages(s.symbols * each, target) for s in within}
        enough = max(powers.values(), default=0.0) - _ALIKE
        # Nothing within the cap: the least there is will be named, and refused.
        alike = [shape for shape in within if powers[shape] >= enough] or choice
        choice = [min(alike, key=messages)]
    layout = asdict(choice[0]) | {"coins": question.coins}
    epsilon = question.batch_epsilon
    return [PartitionedDummies.calibrated(n=honest, epsilon=epsilon, delta=delta, **layout)]


def _target(question: Question) -> Target:
    other = question.n if question.closeness else None
    people = power.effective(question.n, other)
    return Target.of(question.reference, question.distance, people=people, level=question.level)

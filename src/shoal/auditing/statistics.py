"""What single devices' messages look like, and one number for each run that follows from it.

Statistics are large if the first data set is likelier.

*The crowd.* If everybody else's messages follow R*, the likelihood of n shuffled messages under R_x
among them is proportional to the sum of ``R_x(y)/R*(y)`` over the messages y. So with R* the
mixture of what the others hold,

    T = log( sum_y R_0(y)/R*(y) / sum_y R_1(y)/R*(y) )

is the privacy loss, and no event tells more than T beyond a threshold (Neyman and Pearson); exact
if all others hold the same.

*The position.* If the shuffler leaves the person's message at place j with probability w_j, the
same with the terms of place j weighted by w_j: one place, if it does not shuffle at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.auditing.data import DataSet, Neighbours
from shoal.auditing.messages import (
    Coder,
    Codes,
    Distinct,
    Numbered,
    Raw,
    Supports,
    binned,
    fitted,
    joined,
)
from shoal.auditing.subjects import Sampler, Transcripts
from shoal.randomizers.base import Auditable
from shoal.values import Array

DECLARED, LEARNED = "declared", "learned"
_LARGEST_NUMBERED = 1 << 16
_IMPOSSIBLE = 1e-15
_STEEPEST = 10.0
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Likelihoods of each code under each input, from each source.

    Those declared may miss a factor that depends on the code only: nothing here depends on it.
    """

    inputs: tuple[Hashable, ...]
    coder: Coder
    likelihoods: dict[str, Array]

    @property
    def unread(self) -> float:
        """The fraction of messages that are all alike to the coder, as it never saw them before."""
        return self.coder.unread if isinstance(self.coder, Distinct) else 0.0

    def ratios(self, source: str, neighbours: Neighbours) -> tuple[Array, Array]:
        """R_0/R* and R_1/R* of each code, R* being the mixture of what the others hold."""
        rows = np.maximum(self.likelihoods[source], _IMPOSSIBLE)
        mixed = neighbours.fractions(self.inputs) @ rows
        first, second = (self.inputs.index(x) for x in (neighbours.first, neighbours.second))
        return rows[first] / mixed, rows[second] / mixed

    def score(self, source: str, neighbours: Neighbours) -> Array:
        """The privacy loss of one message by itself, cut off."""
        over, under = self.ratios(source, neighbours)
        return np.clip(np.log(over / under), -_STEEPEST, _STEEPEST)

    def promise(self, neighbours: Neighbours) -> float:
        """The variance of the privacy loss to leading order: how much there is to be seen."""
        rows = self.likelihoods[LEARNED]
        first, second = (rows[self.inputs.index(x)] for x in (neighbours.first, neighbours.second))
        # A message that nobody else sends tells no more than that it is there.
        own = (first + second) / (2 * (len(neighbours.others) + 1))
        mixed = neighbours.fractions(self.inputs) @ rows
        return float(((first - second) ** 2 / (mixed + own)).sum())


def learned(
    sampler: Sampler, inputs: tuple[Hashable, ...], mechanism: Auditable, *, size: int, n: int
) -> Knowledge:
    """Messages of single devices for every input; of whole crowds that hold it, if need be."""
    samples = [single_messages(sampler, x, size, n) for x in inputs]
    coder = _coder(mechanism, inputs, samples)
    counts = np.array([np.bincount(coder(sample), minlength=coder.size) for sample in samples])
    smooth = counts + 0.5
    likelihoods = {LEARNED: smooth / smooth.sum(axis=1, keepdims=True)}
    declared = _declared(mechanism, inputs, coder)
    if declared is not None:
        likelihoods = {DECLARED: declared, **likelihoods}
    return Knowledge(inputs, coder, likelihoods)


def single_messages(sampler: Sampler, x: Hashable, size: int, n: int) -> Raw:
    """What devices that hold x send; what crowds send who all hold it, if need be."""
    crowd = 1 if sampler.subject.alone else n
    data = DataSet((x,) * crowd)
    return sampler.seen(data, -(-size // crowd)).messages


def seen_rates(mechanism: Auditable, inputs: tuple[Hashable, ...], samples: Sequence[Raw]) -> Array:
    """How often each code was seen for each input; each input that is supported, if any are."""
    supports = [mechanism.supports(sample, inputs) for sample in samples]
    listed = [columns.sum(axis=0) for columns in supports if columns is not None]
    if len(listed) < len(samples):
        coder = _coder(mechanism, inputs, samples)
        listed = [np.bincount(coder(sample), minlength=coder.size) for sample in samples]
    return np.array(listed, dtype=np.float64)


def _coder(mechanism: Auditable, inputs: tuple[Hashable, ...], samples: Sequence[Raw]) -> Coder:
    """The coder that fits the messages of a known mechanism, or one that fits what was seen."""
    together = joined(samples)
    if mechanism.supports(together[:1], inputs) is not None:
        sizes = mechanism.support_sizes(together)
        return Supports(mechanism, inputs, None if sizes is None else int(np.median(sizes)))
    if together.ndim == 2:
        direction = mechanism.direction(*inputs[:2])
        if direction is not None:
            return binned(together, direction)
    outputs = mechanism.outputs
    numbers = together.dtype.kind in "iu" and together.ndim == 1
    if numbers and outputs is not None and outputs <= _LARGEST_NUMBERED:
        return Numbered(outputs)
    return fitted(samples)


def _declared(mechanism: Auditable, inputs: tuple[Hashable, ...], coder: Coder) -> Array | None:
    """Likelihoods of the codes by the mechanism's own description."""
    if isinstance(coder, Numbered):
        rows = mechanism.probabilities(inputs)
        return None if rows is None else np.column_stack([rows, np.zeros(len(rows))])
    local_epsilon = getattr(mechanism, "local_epsilon", math.inf)
    if isinstance(coder, Supports) and math.isfinite(local_epsilon):
        supported = (np.arange(coder.size) >> np.arange(len(inputs))[:, None]) & 1
        return np.asarray(np.exp(local_epsilon * supported))
    return None


# ------------------------------------------------------------------------------ the statistics


@dataclass(frozen=True, eq=False)
class Statistic:
    """One number per run."""

    name: str
    of: Callable[[Transcripts], Array]
    in_order: bool = False  # whether the order of the messages matters


def privacy_loss(name: str, coder: Coder, ratios: tuple[Array, Array]) -> Statistic:
    """log of the likelihood ratio of the messages, in whatever order: from R_0/R* and R_1/R*."""

    def loss(seen: Transcripts) -> Array:
        codes = coder(seen.messages)
        over, under = (summed(ratio[codes], seen) for ratio in ratios)
        return _log_ratio(over, under)

    return Statistic(name, loss)


def position(
    name: str,
    coder: Coder,
    ratios: tuple[Array, Array],
    places: npt.NDArray[np.intp],
    weights: Array,
) -> Statistic:
    """The same of the messages at some places, weighted; 0 where a run has no such place."""

    def loss(seen: Transcripts) -> Array:
        codes, there = at_places(coder(seen.messages), seen, places)
        over, under = (np.where(there, ratio[codes], 1.0) @ weights for ratio in ratios)
        return _log_ratio(over, under)

    return Statistic(name, loss, in_order=True)


def noise_ratio(
    name: str, coder: Coder, telling: Sequence[Array], certain: tuple[int, int]
) -> Statistic:
    """log of the ratio of the messages for two answers, less those that the others surely sent.

    Among iid dummies the likelihood ratio is that of these two numbers. ``telling`` is 1 for the
    codes that speak for the one answer alone, else 0.
    """

    def ratio(seen: Transcripts) -> Array:
        codes = coder(seen.messages)
        over, under = (
            np.maximum(summed(marks[codes], seen) - known, 0.0) + 0.5
            for marks, known in zip(telling, certain, strict=True)
        )
        return _log_ratio(over, under)

    return Statistic(name, ratio)


def summed(values: Array, seen: Transcripts) -> Array:
    """The sum over the messages of every run."""
    sizes = seen.sizes
    if not sizes.size or not values.size:
        return np.zeros(sizes.size)
    if (sizes == sizes[0]).all():
        return np.asarray(values.reshape(sizes.size, -1).sum(axis=1))
    sums = np.zeros(sizes.size)
    inhabited = np.flatnonzero(sizes)
    sums[inhabited] = np.add.reduceat(values, seen.starts[inhabited])
    return sums


def at_places(
    codes: Codes, seen: Transcripts, places: npt.NDArray[np.intp]
) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """The codes at these places of every run, and whether the run has so many messages."""
    there = places < seen.sizes[:, None]
    where = np.where(there, seen.starts[:, None] + places, 0)
    return codes[where], there


def _log_ratio(over: Array, under: Array) -> Array:
    return np.asarray(np.log(np.maximum(over, _TINY)) - np.log(np.maximum(under, _TINY)))

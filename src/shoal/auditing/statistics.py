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
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from shoal.auditing import messages
from shoal.auditing.hints import Hints
from shoal.auditing.messages import Coder, Codes, Raw
from shoal.auditing.subjects import Collection, DataSet, Neighbours, Sampler, Subject, Transcripts
from shoal.values import Array, Batch

Ratios = tuple[Array, Array]  # R_0/R* and R_1/R* of each code

DECLARED, LEARNED = "declared", "learned"
_LARGEST_NUMBERED = 1 << 16
_IMPOSSIBLE = 1e-15
_STEEPEST = 10.0
_TINY = 1e-300
_MOST_COUNTED = 4096  # kinds of messages that are counted one by one
_MOST_CELLS = 1 << 25  # of counts of all runs


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
        return self.coder.unread if isinstance(self.coder, messages.Distinct) else 0.0

    def ratios(self, source: str, neighbours: Neighbours) -> Ratios:
        """R_0/R* and R_1/R* of each code, R* being the mixture of what the others hold."""
        rows = np.maximum(self.likelihoods[source], _IMPOSSIBLE)
        mixed = neighbours.fractions(self.inputs) @ rows
        first, second = (self.inputs.index(x) for x in (neighbours.first, neighbours.second))
        return rows[first] / mixed, rows[second] / mixed

    def promise(self, neighbours: Neighbours) -> float:
        """The variance of the privacy loss to leading order: how much there is to be seen."""
        rows = self.likelihoods[LEARNED]
        first, second = (rows[self.inputs.index(x)] for x in (neighbours.first, neighbours.second))
        # A message that nobody else sends tells no more than that it is there.
        own = (first + second) / (2 * (len(neighbours.others) + 1))
        mixed = neighbours.fractions(self.inputs) @ rows
        return float(((first - second) ** 2 / (mixed + own)).sum())


def learned(
    sampler: Sampler, inputs: tuple[Hashable, ...], hints: Hints, *, size: int, n: int
) -> Knowledge:
    """Messages of single devices for every input; of whole crowds that hold it, if need be."""
    samples = [single_messages(sampler, x, size, n) for x in inputs]
    coder = _coder(hints, inputs, samples)
    counts = np.array([np.bincount(coder(sample), minlength=coder.size) for sample in samples])
    smooth = counts + 0.5
    likelihoods = {LEARNED: smooth / smooth.sum(axis=1, keepdims=True)}
    declared = _declared(hints, inputs, coder)
    if declared is not None:
        likelihoods = {DECLARED: declared, **likelihoods}
    return Knowledge(inputs, coder, likelihoods)


def single_messages(sampler: Sampler, x: Hashable, size: int, n: int) -> Raw:
    """What devices that hold x send; what crowds send who all hold it, if need be."""
    crowd = 1 if sampler.subject.alone else n
    data = DataSet((x,) * crowd)
    return sampler.seen(data, -(-size // crowd)).messages


def seen_rates(hints: Hints, inputs: tuple[Hashable, ...], samples: Sequence[Raw]) -> Array:
    """How often each code was seen for each input; each input that is supported, if any are."""
    supports = [hints.supports(sample, inputs) for sample in samples]
    listed = [columns.sum(axis=0) for columns in supports if columns is not None]
    if len(listed) < len(samples):
        coder = _coder(hints, inputs, samples)
        listed = [np.bincount(coder(sample), minlength=coder.size) for sample in samples]
    return np.array(listed, dtype=np.float64)


def _coder(hints: Hints, inputs: tuple[Hashable, ...], samples: Sequence[Raw]) -> Coder:
    """The coder that fits the messages of a known mechanism, or one that fits what was seen."""
    together = messages.joined(samples)
    if hints.supports(together[:1], inputs) is not None:
        sizes = hints.support_sizes(together)
        return messages.Supports(hints, inputs, None if sizes is None else int(np.median(sizes)))
    if together.ndim == 2:
        direction = hints.direction(*inputs[:2])
        if direction is not None:
            return messages.binned(together, direction)
    outputs = hints.outputs
    numbers = together.dtype.kind in "iu" and together.ndim == 1
    if numbers and outputs is not None and outputs <= _LARGEST_NUMBERED:
        return messages.Numbered(outputs)
    return messages.fitted(samples)


def _declared(hints: Hints, inputs: tuple[Hashable, ...], coder: Coder) -> Array | None:
    """Likelihoods of the codes by the mechanism's own description."""
    if isinstance(coder, messages.Numbered):
        rows = hints.probabilities(inputs)
        return None if rows is None else np.column_stack([rows, np.zeros(len(rows))])
    local_epsilon = hints.local_epsilon
    if isinstance(coder, messages.Supports) and math.isfinite(local_epsilon):
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


def privacy_loss(known: Knowledge, pair: Neighbours, of: str) -> Iterator[Statistic]:
    """log of the likelihood ratio of the messages in whatever order, by each source."""

    def loss(ratios: Ratios, seen: Transcripts) -> Array:
        codes = known.coder(seen.messages)
        over, under = (summed(ratio[codes], seen) for ratio in ratios)
        return _log_ratio(over, under)

    for source in known.likelihoods:
        ratios = known.ratios(source, pair)
        yield Statistic(f"privacy loss of {of} ({source})", partial(loss, ratios))


def promising(
    subject: Subject, known: Knowledge, pair: Neighbours, first: Transcripts, second: Transcripts
) -> Iterator[Statistic]:
    """What may tell the two data sets apart, by runs on each."""
    yield from privacy_loss(known, pair, "the counts")
    yield from _positions(known, pair, first, second)
    if subject.several:
        yield Statistic("number of messages", lambda seen: seen.sizes.astype(np.float64))
        yield from _weighted_counts(known, first, second)
        if isinstance(subject, Collection):
            yield from _estimates(Hints.of(subject.device), known, pair)


def _positions(
    known: Knowledge, pair: Neighbours, first: Transcripts, second: Transcripts
) -> Iterator[Statistic]:
    """If the messages at some places differ between the data sets, the privacy loss there."""
    ratios = known.ratios(LEARNED, pair)
    score = np.clip(np.log(ratios[0] / ratios[1]), -_STEEPEST, _STEEPEST)
    shortest = min(int(part.sizes.min()) for part in (first, second))
    places = np.arange(shortest, dtype=np.intp)
    scores = (score[_at_places(known.coder, part, places)[0]] for part in (first, second))
    differences, errors = _differences(*scores)
    telling = np.flatnonzero(differences > _stands_out(shortest) * errors)
    if not telling.size:
        return
    weights = differences[telling] / differences[telling].sum()

    def loss(seen: Transcripts) -> Array:
        """0 where a run has no such place."""
        codes, there = _at_places(known.coder, seen, telling)
        over, under = (np.where(there, ratio[codes], 1.0) @ weights for ratio in ratios)
        return _log_ratio(over, under)

    where = f"place {telling[0] + 1}" if telling.size == 1 else f"{telling.size:,} places"
    yield Statistic(f"privacy loss at {where}", loss, in_order=True)


def _weighted_counts(
    known: Knowledge, first: Transcripts, second: Transcripts
) -> Iterator[Statistic]:
    """Messages whose numbers differ between the data sets, by how much for their noise."""
    size = known.coder.size
    if size > _MOST_COUNTED or size * len(first.sizes) > _MOST_CELLS:
        return

    def counts(seen: Transcripts) -> Array:
        runs = len(seen.sizes)
        owner = np.repeat(np.arange(runs), seen.sizes)
        flat = np.bincount(owner * size + known.coder(seen.messages), minlength=runs * size)
        return flat.reshape(runs, size).astype(np.float64)

    differences, errors = _differences(counts(first), counts(second))
    telling = np.abs(differences) > _stands_out(size) * errors
    if telling.any():
        weights = np.zeros(size)
        weights[telling] = differences[telling] / np.maximum(errors[telling], 1e-9) ** 2
        weights /= np.abs(weights).max()
        coder = known.coder
        yield Statistic("weighted counts", lambda seen: summed(weights[coder(seen.messages)], seen))


def _estimates(hints: Hints, known: Knowledge, pair: Neighbours) -> Iterator[Statistic]:
    """What the analyzer of a known protocol would look at, and the two counts that differ.

    The counts are of messages for two answers, less those that the others surely sent. Among iid
    dummies the likelihood ratio is that of these two numbers.
    """
    gap = hints.gap(pair.first, pair.second)
    if gap is not None:
        people = len(pair.others) + 1

        def gaps(seen: Transcripts) -> Array:
            parts = np.split(seen.messages, seen.starts[1:])
            return np.array([gap(Batch(part, people)) for part in parts])

        yield Statistic("estimate", gaps)
    codes = np.arange(known.coder.size)
    own = [hints.true_message(x) for x in (pair.first, pair.second)]
    if isinstance(known.coder, messages.Numbered) and None not in own:
        marks = [codes == message for message in own]
        certain = (pair.others.count(pair.first), pair.others.count(pair.second))
    elif isinstance(known.coder, messages.Supports):
        places = [known.inputs.index(x) for x in (pair.first, pair.second)]
        first, second = ((codes >> place) & 1 for place in places)
        marks, certain = [first > second, second > first], (0, 0)
    else:
        return

    def ratio(seen: Transcripts) -> Array:
        telling = known.coder(seen.messages)
        over, under = (
            np.maximum(summed(mark[telling].astype(np.float64), seen) - sure, 0.0) + 0.5
            for mark, sure in zip(marks, certain, strict=True)
        )
        return _log_ratio(over, under)

    yield Statistic("log-ratio of two counts", ratio)


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


def _at_places(
    coder: Coder, seen: Transcripts, places: npt.NDArray[np.intp]
) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """The codes at these places of every run, and whether the run has so many messages."""
    there = places < seen.sizes[:, None]
    where = np.where(there, seen.starts[:, None] + places, 0)
    return coder(seen.messages)[where], there


def _log_ratio(over: Array, under: Array) -> Array:
    return np.asarray(np.log(np.maximum(over, _TINY)) - np.log(np.maximum(under, _TINY)))


def _stands_out(columns: int) -> float:
    """Standard errors that hardly any of so many columns of noise is off by."""
    return 1 + math.sqrt(2 * math.log(2 * columns))


def _differences(first: Array, second: Array) -> tuple[Array, Array]:
    """Differences of the means of each column, and their standard errors."""
    difference = first.mean(axis=0) - second.mean(axis=0)
    variance = first.var(axis=0) / len(first) + second.var(axis=0) / len(second)
    least = 1 / min(len(first), len(second)) ** 2  # a column that never varied proves little
    return difference, np.sqrt(np.maximum(variance, least))

"""Which data sets, which statistic, which event: all chosen on runs that are not counted later."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from shoal.auditing.data import Neighbours
from shoal.auditing.events import Stakes, best_event
from shoal.auditing.knowledge import LEARNED, Knowledge
from shoal.auditing.messages import Numbered, Supports
from shoal.auditing.running import Sampler, Trial, bin_edges
from shoal.auditing.statistics import (
    EstimateGap,
    MessageCount,
    NoiseRatio,
    Position,
    PrivacyLoss,
    Statistic,
    WeightedCount,
    at_places,
)
from shoal.auditing.subjects import Collection, Transcripts
from shoal.randomizers.base import Auditable
from shoal.values import Array

COMPARED = 3  # data sets that are tried on real runs
_FEW_RUNS = 100  # to compare by, if there are so many
_MANY_RUNS = 50_000
_CLOSE = 0.9  # to the best promise, to be tried too
_FEWEST = 20  # runs to compare by, however large the crowd
_MOST_KEPT = 1 << 22  # messages kept at once
_MOST_COUNTED = 4096  # kinds of messages that are counted one by one


@dataclass(frozen=True)
class Budget:
    """Runs on each data set: to compare so many of them, and to set the threshold."""

    compared: int
    compare: int
    settle: int

    @classmethod
    def of(cls, runs: int, candidates: int) -> Budget:
        """A fifth of the runs, a tenth if there are many: half to compare, half to settle."""
        training = runs // (10 if runs > _MANY_RUNS else 5)
        compared = max(1, min(COMPARED, candidates, training // (2 * _FEW_RUNS)))
        return cls(compared, training // (2 * compared), training // 2)

    @property
    def total(self) -> int:
        """Runs on each of the two worlds."""
        return self.compared * self.compare + self.settle


def trained_local(
    sampler: Sampler, known: Knowledge, pairs: Sequence[Neighbours], stakes: Stakes, *, size: int
) -> Trial:
    """The pair of data whose single messages differ most, and the messages that tell."""
    found: list[Trial] = []
    seen = {
        x: sampler.seen(data, size, in_order=False)
        for pair in pairs
        for x, data in zip((pair.first, pair.second), pair.worlds, strict=True)
    }
    for pair in pairs:
        for source in known.likelihoods:
            loss = PrivacyLoss(
                f"privacy loss of one message ({source})", known.coder, known.ratios(source, pair)
            )
            found.append(
                _trial(pair, loss, (loss(seen[pair.first]), loss(seen[pair.second])), stakes)
            )
    return max(found, key=lambda trial: trial.event.predicted)


def trained_crowd(
    sampler: Sampler,
    known: Knowledge,
    candidates: Sequence[Neighbours],
    stakes: Stakes,
    budget: Budget,
) -> Trial:
    """The data sets and the statistic that promise most; the threshold from runs of its own."""
    tried = _promising(known, candidates, budget.compared)
    found = [trial for pair in tried for trial in _compared(sampler, known, pair, stakes, budget)]
    best = max(found, key=lambda trial: trial.event.predicted)
    worlds = best.neighbours.worlds
    fresh = [sampler.values(world, budget.settle, best.statistic) for world in worlds]
    return _trial(best.neighbours, best.statistic, (fresh[0], fresh[1]), stakes)


def _promising(known: Knowledge, candidates: Sequence[Neighbours], most: int) -> list[Neighbours]:
    """The data sets that promise most, and those that come close."""
    promises = [known.promise(pair) for pair in candidates]
    order = np.argsort(promises)[::-1][:most]
    least = _CLOSE * promises[order[0]]
    return [candidates[i] for i in order if promises[i] >= least]


def _trial(
    pair: Neighbours, statistic: Statistic, values: tuple[Array, Array], stakes: Stakes
) -> Trial:
    event = best_event(*values, stakes)
    return Trial(pair, statistic, event, bin_edges(*values, event.threshold))


def _compared(
    sampler: Sampler, known: Knowledge, pair: Neighbours, stakes: Stakes, budget: Budget
) -> Iterator[Trial]:
    people = len(pair.others) + 1
    runs = min(budget.compare, max(_FEWEST, _MOST_KEPT // people))
    first, second = (sampler.seen(world, runs, in_order=True) for world in pair.worlds)
    for statistic in _statistics(sampler, known, pair, (first, second)):
        yield _trial(pair, statistic, (statistic(first), statistic(second)), stakes)


def _statistics(
    sampler: Sampler, known: Knowledge, pair: Neighbours, seen: tuple[Transcripts, Transcripts]
) -> Iterator[Statistic]:
    for source in known.likelihoods:
        name = f"privacy loss of the counts ({source})"
        yield PrivacyLoss(name, known.coder, known.ratios(source, pair))
    yield from _positions(known, pair, seen)
    if sampler.subject.several:
        yield MessageCount()
        yield from _counted(known, seen)
        if isinstance(sampler.subject, Collection):
            yield from _estimated(sampler.subject.device, known, pair)


def _positions(
    known: Knowledge, pair: Neighbours, seen: tuple[Transcripts, Transcripts]
) -> Iterator[Statistic]:
    """If the messages at some places differ between the data sets, what they are."""
    score = known.score(LEARNED, pair)
    places = np.arange(min(int(part.sizes.min()) for part in seen), dtype=np.intp)
    scores = [score[at_places(known.coder(part.messages), part, places)[0]] for part in seen]
    differences, errors = _differences(*scores)
    telling = np.flatnonzero(differences > _stands_out(places.size) * errors)
    if telling.size:
        weights = differences[telling] / differences[telling].sum()
        where = f"place {telling[0] + 1}" if telling.size == 1 else f"{telling.size:,} places"
        ratios = known.ratios(LEARNED, pair)
        yield Position(f"privacy loss at {where}", known.coder, ratios, telling, weights)


def _counted(known: Knowledge, seen: tuple[Transcripts, Transcripts]) -> Iterator[Statistic]:
    """Messages whose numbers differ between the data sets, by how much for their noise."""
    size = known.coder.size
    if size > _MOST_COUNTED or size * seen[0].runs > _MOST_KEPT * 8:
        return
    counts = [_counts(known.coder(part.messages), part, size) for part in seen]
    differences, errors = _differences(*counts)
    telling = np.abs(differences) > _stands_out(size) * errors
    if telling.any():
        weights = np.zeros(size)
        weights[telling] = differences[telling] / np.maximum(errors[telling], 1e-9) ** 2
        yield WeightedCount("weighted counts", known.coder, weights / np.abs(weights).max())


def _estimated(mechanism: Auditable, known: Knowledge, pair: Neighbours) -> Iterator[Statistic]:
    """What the analyzer of a known protocol would look at, and the two counts that differ."""
    gap = mechanism.gap_estimator(pair.first, pair.second)
    if gap is not None:
        yield EstimateGap("estimate", gap, people=len(pair.others) + 1)
    codes = np.arange(known.coder.size)
    own = [mechanism.true_message(x) for x in (pair.first, pair.second)]
    if isinstance(known.coder, Numbered) and None not in own:
        marks = [codes == message for message in own]
        certain = (pair.others.count(pair.first), pair.others.count(pair.second))
    elif isinstance(known.coder, Supports):
        places = [known.inputs.index(x) for x in (pair.first, pair.second)]
        first, second = ((codes >> place) & 1 for place in places)
        marks, certain = [first > second, second > first], (0, 0)
    else:
        return
    telling = (marks[0].astype(np.float64), marks[1].astype(np.float64))
    yield NoiseRatio("log-ratio of two counts", known.coder, telling, certain)


def _counts(codes: npt.NDArray[np.intp], seen: Transcripts, size: int) -> Array:
    owner = np.repeat(np.arange(seen.runs), seen.sizes)
    flat = np.bincount(owner * size + codes, minlength=seen.runs * size)
    return flat.reshape(seen.runs, size).astype(np.float64)


def _stands_out(columns: int) -> float:
    """Standard errors that hardly any of so many columns of noise is off by."""
    return 1 + math.sqrt(2 * math.log(2 * columns))


def _differences(first: Array, second: Array) -> tuple[Array, Array]:
    """Differences of the means of each column, and their standard errors."""
    difference = first.mean(axis=0) - second.mean(axis=0)
    variance = first.var(axis=0) / len(first) + second.var(axis=0) / len(second)
    least = 1 / min(len(first), len(second)) ** 2  # a column that never varied proves little
    return difference, np.sqrt(np.maximum(variance, least))

"""Run a pipeline many times on neighbouring data sets, and compare with what is claimed.

Data sets, statistic and event are chosen on training runs that are not counted later; the event is
chosen for the bound that the later runs will give.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
from scipy import special

from shoal import checks
from shoal import randomness as sources
from shoal.accounting.amplification import amplify
from shoal.accounting.devices import HasLaw, HasProfile, privacy_of
from shoal.accounting.law import BlanketLaw
from shoal.auditing import statistics, subjects
from shoal.auditing.hints import Hints
from shoal.auditing.limits import coin_bounds
from shoal.auditing.result import Audit, Evidence, Histogram
from shoal.auditing.statistics import Knowledge, Statistic
from shoal.auditing.subjects import MOST_INPUTS, Collection, Listed, Neighbours, Sampler, Subject
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Mechanism
from shoal.questions.domains import MOST_TRIED, some_answers
from shoal.randomness import Randomness
from shoal.values import Array, attributes

FEWEST_RUNS = 1_000
MOST_RUNS = 100_000_000
MOST_PEOPLE = 1_000_000
_LOCAL_PART = 0.25  # of what may go wrong, the part for the local claim
_SINGLES = (2_000, 100_000)  # messages of single devices per input, at least and at most
_SINGLES_PER_RUN = 10  # single messages are cheap, and tell more about epsilon_0
_FEW = 5  # inputs of a mechanism that are tried
_SCREENED = 1_000  # messages of every input that is screened
_FEWEST_SCREENED = 20
_MOST_COLUMNS = 4096
_IMPOSSIBLE = 1e-15
_SURE = 2.0  # standard errors by which a log-ratio is taken towards zero
_COINS = 1 << 24  # at once
_FEW_VALUES = 90
_BINS = 60
_NARROWEST = 300  # bins of the narrowest width that would fill the axis
COMPARED = 3  # data sets that are tried on real runs
_FEW_RUNS = 100  # to compare by, if there are so many
_MANY_RUNS = 50_000
_CLOSE = 0.9  # to the best promise, to be tried too
_FEWEST = 20  # runs to compare by, however large the crowd
_MOST_IN_MEMORY = 1 << 22  # messages
_MOST_THRESHOLDS = 400
_FITS = 3.0  # standard errors
_ENOUGH = 40  # runs in an event, for smoothing to be believed
_FARTHEST = 30.0  # standard deviations
_STEPS = 12
_HELD_BACK = 1e-3
_DIGITS = 10  # of a statistic; sums of the same terms in another order differ beyond


def audit(
    device: object,
    *,
    n: int,
    epsilon: float | None = None,
    delta: float = 1e-6,
    local_epsilon: float | None = None,
    runs: int = 100_000,
    confidence: float = 0.999,
    data: Neighbours | Sequence[Any] | None = None,
    inputs: Sequence[Hashable] | None = None,
    declared: object | None = None,
    randomness: Randomness | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """A statistically valid lower bound on ε, and whether it refutes what is claimed.

    The device runs ``runs`` times on each of two neighbouring data sets of n people.
    Claims that are not stated are what the accountant proves.

    Args:
        device: A mechanism of Shoal, a table R[x, y], an object with a ``randomize``
            method, a function of one value, or a ``Function``, ``WholePipeline`` or
            ``Program`` of :mod:`shoal.auditing`.
        n: People in the data sets.
        epsilon: The ε that is claimed of the crowd.
        delta: The δ of the crowd's claim; 0 only if epsilon is given. ε₀ has none.
        local_epsilon: The ε₀ that is claimed of one report.
        runs: Runs on each data set.
        confidence: Probability in (0, 1) with which all lower bounds hold together.
        data: (x0, x1, what everybody else holds); chosen by trials unless given.
        inputs: Data worth trying.
        declared: The mechanism that the device is said to be.
        randomness: That of a simulation; None is secure.
        progress: Called with the messages made and all.

    Returns:
        A :class:`shoal.auditing.Audit` with lower bounds, claims, and a verdict.

    Raises:
        InvalidArgumentError: A number is out of its range, or nothing is claimed.
        AuditedCodeError: The audited code failed: there is no verdict.

    References:
        :doc:`/theory/auditing`.

    Example:
        >>> import shoal
        >>> device = shoal.RandomizedResponse(k=2, epsilon=2.0)
        >>> result = shoal.audit(device, n=20, delta=1e-3, runs=20_000)
        >>> result.verdict, 1.8 < result.local_lower < 2
        ('consistent', True)
    """
    n = checks.count(n=n)
    expected = f"n <= {MOST_PEOPLE:,}, as every run makes everybody's messages (audit fewer)"
    checks.refuse(n > MOST_PEOPLE, expected, n=n)
    runs = checks.count(FEWEST_RUNS, runs=runs)
    checks.refuse(runs > MOST_RUNS, f"runs <= {MOST_RUNS:,}", runs=runs)
    checks.open_probability(confidence=confidence)
    subject = subjects.subject_of(device)
    described = _described(device if declared is None else declared)
    known = _hints(described)
    epsilon, local = _claims(described, n, epsilon, delta, local_epsilon)
    bits = sources.secure() if randomness is None else randomness
    if data is not None and inputs is not None:
        raise InvalidArgumentError("inputs", list(inputs), "inputs or data, not both")
    if data is None and inputs is None:
        own = declared is None or declared is device
        tried, screened = _screened(Sampler(subject, bits), known, n, own=own)
        candidates = subjects.candidates(tried, n, ends=known.ends_first)
    else:
        pair = None if data is None else subjects.neighbours(data, n)
        tried = subjects.checked_inputs(inputs) if pair is None else pair.inputs
        candidates = subjects.candidates(tried, n) if pair is None else [pair]
        screened = len(tried)
        for value in tried:
            known.check_input(value)
    # How the runs and the allowance for error are divided. A device has a local claim of its own
    # if it can be run by itself and sends one message.
    if not subject.alone or subject.several:
        local = None
    budget = Budget(runs, len(candidates))
    singles = min(max(runs, _SINGLES[0]), _SINGLES[1])
    part = 0.0 if local is None else _LOCAL_PART
    crowd_stakes = Stakes(2 * (runs - budget.total), delta, (1 - part) * (1 - confidence))
    local_runs = crowd_stakes.runs * min(n, _SINGLES_PER_RUN)
    local_stakes = Stakes(local_runs, 0.0, part * (1 - confidence), smooth=False)
    work = singles * len(tried) + (2 * budget.total + crowd_stakes.runs) * n
    if local is not None:
        work += singles * len(tried) + local_runs
    # Training, then the runs that count.
    sampler = Sampler(subject, bits, progress, work)
    knowledge = statistics.learned(sampler, tried, known, size=singles, n=n)
    local_evidence = None
    if local is not None:
        alone = dict.fromkeys((pair.first, pair.second) for pair in candidates)
        pairs = [Neighbours(first, second, ()) for first, second in alone]
        trial = trained_local(sampler, knowledge, pairs, local_stakes, size=singles)
        local_evidence = evaluated(sampler, trial, local_stakes, "local", local)
    trial = trained_crowd(sampler, knowledge, candidates, crowd_stakes, budget)
    evidence = evaluated(sampler, trial, crowd_stakes, "crowd", epsilon)
    sampler.finish()
    return Audit(
        name=subject.name,
        n=n,
        runs=runs,
        confidence=confidence,
        evidence=evidence,
        local_evidence=local_evidence,
        inputs=tried,
        screened=screened,
        unread=knowledge.unread,
    )


def _described(device: object) -> object | None:
    """What is known of the messages and their law, if it is anything of ours or like it."""
    a_class = isinstance(device, type)
    checks.refuse(a_class, "a mechanism, not a class of mechanisms", declared=device)
    if isinstance(device, Subject):
        return device.device if isinstance(device, Collection) else None
    return Listed(device) if isinstance(device, np.ndarray | list | tuple) else device


def _hints(declared: object) -> Hints:
    """What is known beside the law."""
    if isinstance(declared, Mechanism):
        return Hints.of(declared)
    return declared.hints if isinstance(declared, Listed) else Hints()


# ----------------------------------------------------------------------------------- the claims


def _claims(
    declared: object, n: int, epsilon: float | None, delta: float, local_epsilon: float | None
) -> tuple[float, float | None]:
    """ε of the crowd and ε0, as stated; else what the accountant proves of what is declared."""
    if epsilon is None:
        checks.open_probability(delta=delta)
    else:
        checks.closed_probability(delta=delta)
        checks.non_negative(epsilon=epsilon)
    if local_epsilon is not None:
        checks.positive(local_epsilon=local_epsilon)
    local = _local(declared) if local_epsilon is None else local_epsilon
    if epsilon is not None:
        return epsilon, local
    law = _accounted(declared)
    if law is not None:
        return amplify(law, n=n, delta=delta).epsilon, local
    if local is not None:
        return amplify(local_epsilon=local, n=n, delta=delta).epsilon, local
    expected = "a claim to audit: epsilon, local_epsilon, or a declared mechanism"
    raise InvalidArgumentError("epsilon", epsilon, expected)


def _accounted(declared: object) -> BlanketLaw | HasProfile | None:
    """What the accountant takes, if the mechanism has it."""
    own = privacy_of(cast("HasLaw", declared))
    if isinstance(own, BlanketLaw | HasProfile):
        return own
    law = getattr(own, "law", None)
    return law() if callable(law) else None


def _local(declared: object) -> float | None:
    local: object = getattr(declared, "local_epsilon", None)
    if local is None and isinstance(law := _accounted(declared), BlanketLaw):
        local = law.local_epsilon
    return local if isinstance(local, float | int) and math.isfinite(local) else None


# ----------------------------------------------------------------------------------- the inputs
#
# Of many inputs a few are tried that are far apart: by the table that is declared, and by what is
# sent. Two inputs a and b are far apart in one message if log R_a(y)/R_b(y) is large for some y,
# and in a crowd that holds c if the variance of the privacy loss, to leading order the sum of
# (R_a - R_b)^2/R_c, is. Inputs are taken in turn from the pairs that are first in either order.


def _screened(
    sampler: Sampler, known: Hints, n: int, *, own: bool
) -> tuple[tuple[Hashable, ...], int]:
    """Inputs of a known mechanism to try, and of how many; ``own``: it is its own code that runs.

    A table that is drawn from by Shoal is taken at its word. Somebody's code, and a mechanism with
    more answers than are tried, runs by itself on many of them.
    """
    inputs, table = known.trial_inputs(), known.table
    few = _FEW if table is None else MOST_INPUTS
    if table is not None and len(table) > MOST_INPUTS:
        apart = farthest(table, n=n, most=MOST_INPUTS if own else MOST_INPUTS // 2)
        if own:
            return tuple(sorted(apart)), len(table)
    elif table is not None or len(inputs) <= few:
        return inputs, len(inputs)
    else:
        apart = known.far_apart()
    pool: list[Any] = sorted({*inputs, *apart})
    size = max(_FEWEST_SCREENED, _SCREENED * sampler.subject.block // subjects.BLOCK)
    samples = [statistics.single_messages(sampler, x, size, n) for x in pool]
    counts = statistics.seen_rates(known, tuple(pool), samples)
    sent = np.array([[max(1, len(sample))] for sample in samples])
    rates, errors = (counts + 0.5) / (sent + 1), 1 / np.sqrt(counts + 0.5)
    seen = [pool[place] for place in farthest(rates, n=n, most=few, errors=errors)]
    chosen = list(dict.fromkeys((*apart, *seen)))[:few]
    return tuple(sorted(chosen)), len(pool)


def farthest(rows: Array, *, n: int, most: int, errors: Array | None = None) -> tuple[int, ...]:
    """Rows that are far from each other, those farthest apart first.

    ``errors`` are standard errors of the logarithms of the entries.

    >>> farthest(np.array([[0.5, 0.5], [0.5, 0.5], [0.4, 0.6], [0.9, 0.1]]), n=10, most=2)
    (2, 3)
    """
    places = _extreme_rows(rows)
    columns = np.argsort(rows.max(axis=0))[-_MOST_COLUMNS:]
    part = np.maximum(rows[np.ix_(places, columns)], _IMPOSSIBLE)
    noise = np.zeros_like(part) if errors is None else errors[np.ix_(places, columns)]
    chosen: dict[int, None] = {}
    for local, crowd in zip(_by_ratio(part, noise), _by_variance(part, n), strict=True):
        chosen.update(dict.fromkeys((*local, *crowd)))
        if len(chosen) >= most:
            break
    return tuple(int(places[place]) for place in [*chosen][:most])


def _extreme_rows(rows: Array) -> npt.NDArray[np.intp]:
    """All rows, or those that hold the extremes of the columns that vary most."""
    if len(rows) <= MOST_TRIED:
        return np.arange(len(rows))
    high, low = rows.argmax(axis=0), rows.argmin(axis=0)
    largest, least = rows.max(axis=0), np.maximum(rows.min(axis=0), _IMPOSSIBLE)
    orders = [np.argsort(-largest / least), np.argsort(-((largest - least) ** 2) / least)]
    varied = [column for pair in zip(*orders, strict=True) for column in pair]
    ends = [row for column in varied for row in (int(high[column]), int(low[column]))]
    chosen = list(dict.fromkeys([*ends, *some_answers(len(rows))]))
    return np.array(chosen[:MOST_TRIED], dtype=np.intp)


def _by_ratio(rows: Array, noise: Array) -> list[tuple[int, int]]:
    """Pairs by the largest log-ratio that they surely have."""
    logs, variances = np.log(rows), noise**2
    apart = np.zeros((len(rows), len(rows)))
    for a in range(len(rows)):
        error = _SURE * np.sqrt(variances[a] + variances)
        apart[a] = (np.abs(logs[a] - logs) - error).max(axis=1)
    return _ranked(apart)


def _by_variance(rows: Array, n: int) -> list[tuple[int, int, int]]:
    """Pairs by the variance in the crowd in which it is largest, with what that crowd holds."""
    # The person's own report bounds what a message can tell that nobody else sends.
    inverse = 1 / (rows + rows.max(axis=0) / (2 * n))
    variances = np.array([(rows - row) ** 2 @ inverse.T for row in rows])
    return [(a, b, int(variances[a, b].argmax())) for a, b in _ranked(variances.max(axis=2))]


def _ranked(apart: Array) -> list[tuple[int, int]]:
    pairs = [*itertools.combinations(range(len(apart)), 2)]
    return sorted(pairs, key=lambda pair: -apart[pair])


# ------------------------------------------------------------------------------------ events


@dataclass(frozen=True, eq=False)
class Trial:
    """What will be counted: that a statistic is at least a threshold, or that it is below.

    ``swapped`` says that the second data set is the one on which it is likelier. ``predicted`` is
    the bound that training runs promise.
    """

    neighbours: Neighbours
    statistic: Statistic
    threshold: float
    at_least: bool
    swapped: bool
    predicted: float
    edges: Array  # of the histograms


@dataclass(frozen=True)
class Stakes:
    """What the evaluation will be: how many runs, at which delta, wrong with which probability."""

    runs: int
    delta: float
    tail: float
    smooth: bool = True  # whether the statistic is a sum of many terms, whose law is smooth

    def bounds(self, likelier: Array | int, other: Array | int) -> Array:
        """What so many runs in the event, on each data set, prove."""
        return coin_bounds(likelier, other, self.runs, delta=self.delta, tail=self.tail)


def rounded(statistic: Array) -> Array:
    """Without the last digits, in which equal counts may differ."""
    return np.round(statistic, _DIGITS)


def _best_trial(
    pair: Neighbours, statistic: Statistic, samples: tuple[Array, Array], stakes: Stakes
) -> Trial:
    """The event with the largest bound to be expected, of both directions and both orders.

    Fractions of runs beyond each threshold are counted, and smoothed. Smoothed fractions vary
    less, and are believed where they agree with those counted; elsewhere the latter are taken three
    standard errors towards the worse, so that a lucky handful of training runs does not decide.
    """
    first, second = map(rounded, samples)
    thresholds = _thresholds(np.concatenate([first, second]))
    counts = [
        1 - np.searchsorted(np.sort(values), thresholds, side="left") / values.size
        for values in (first, second)
    ]
    curves = _smoothed(first, second, thresholds)

    def best(*, at_least: bool, swapped: bool) -> tuple[float, bool, bool, float]:
        sides = (1, 0) if swapped else (0, 1)
        limits = []
        fits = np.full(thresholds.size, stakes.smooth)
        for side, towards in zip(sides, (-1, 1), strict=True):
            counted, smooth = (
                values[side] if at_least else 1 - values[side] for values in (counts, curves)
            )
            size = samples[side].size
            inside = (counted * size + 1) / (size + 2)
            error = np.sqrt(inside * (1 - inside) / (size + 2))
            fits &= np.abs(smooth - counted) <= _FITS * error
            fits &= counted * size >= _ENOUGH
            limits.append((smooth, np.clip(counted + towards * _FITS * error, 0.0, 1.0)))
        likelier, other = (np.where(fits, smooth, careful) for smooth, careful in limits)
        half = stakes.runs / 2
        bounds = stakes.bounds(likelier * half, other * half)
        # Where nothing can be expected, the larger difference is the better guess.
        i = int((bounds + 1e-9 * (likelier - other)).argmax())
        return float(thresholds[i]), at_least, swapped, float(bounds[i])

    events = [best(at_least=a, swapped=s) for a in (True, False) for s in (False, True)]
    event = max(events, key=lambda event: event[-1])
    return Trial(pair, statistic, *event, bin_edges(*samples, event[0]))


def _smoothed(first: Array, second: Array, thresholds: Array) -> tuple[Array, Array]:
    """Fractions from both samples together, each run split by the probability of its value.

    That probability is a logistic curve in the value, of which a privacy loss is a special case.
    """
    values = np.concatenate([first, second])
    order = np.argsort(values)
    truths = (order < first.size).astype(np.float64)
    center, scale = float(values.mean()), float(values.std()) or 1.0
    places = np.clip((values[order] - center) / scale, -_FARTHEST, _FARTHEST)
    curve = _logistic_curve(places, truths)
    cuts = np.searchsorted(values[order], thresholds, side="left")
    fractions = []
    for weights in (curve, 1 - curve):
        tails = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        fractions.append(tails[cuts] / max(float(tails[0]), 1e-12))
    return fractions[0], fractions[1]


def _logistic_curve(places: Array, truths: Array) -> Array:
    """Probabilities of a truth, by maximum likelihood (Newton's method, slightly held back)."""
    columns = np.stack([np.ones_like(places), places])
    slopes = np.zeros(2)
    curve = np.full(places.size, 0.5)
    for _ in range(_STEPS):
        gradient = columns @ (truths - curve) - _HELD_BACK * slopes
        curvature = (columns * (curve * (1 - curve))) @ columns.T + _HELD_BACK * np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        slopes = slopes + step / max(1.0, float(np.abs(step).max()))
        curve = special.expit(slopes @ columns)
    return curve


def _thresholds(values: Array) -> Array:
    """Between neighbouring values, at most so many of them, evenly along the runs."""
    known = np.unique(values)
    if known.size > _MOST_THRESHOLDS:
        ranks = np.linspace(0, 1, _MOST_THRESHOLDS)
        known = np.unique(np.quantile(values, ranks, method="nearest"))
    if known.size == 1:
        return known
    return np.asarray((known[1:] + known[:-1]) / 2)


# ---------------------------------------------------------------------------------- training


class Budget:
    """Runs on each data set: to ``compare`` so many of them, and to ``settle`` the threshold.

    A fifth of the runs, a tenth if there are many: half to compare, half to settle.
    """

    def __init__(self, runs: int, candidates: int) -> None:
        training = runs // (10 if runs > _MANY_RUNS else 5)
        self.compared = max(1, min(COMPARED, candidates, training // (2 * _FEW_RUNS)))
        self.compare, self.settle = training // (2 * self.compared), training // 2
        self.total = self.compared * self.compare + self.settle


def trained_local(
    sampler: Sampler, known: Knowledge, pairs: Sequence[Neighbours], stakes: Stakes, *, size: int
) -> Trial:
    """The pair of data whose single messages differ most, and the messages that tell."""
    trials: list[Trial] = []
    seen = {
        x: sampler.seen(data, size)
        for pair in pairs
        for x, data in zip((pair.first, pair.second), pair.worlds, strict=True)
    }
    for pair in pairs:
        one, two = seen[pair.first], seen[pair.second]
        tried = statistics.privacy_loss(known, pair, "one message")
        trials += [_best_trial(pair, each, (each.of(one), each.of(two)), stakes) for each in tried]
    return max(trials, key=lambda trial: trial.predicted)


def trained_crowd(
    sampler: Sampler,
    known: Knowledge,
    candidates: Sequence[Neighbours],
    stakes: Stakes,
    budget: Budget,
) -> Trial:
    """The data sets and the statistic that promise most; the threshold from runs of its own."""
    trials: list[Trial] = []
    promises = [known.promise(pair) for pair in candidates]
    best_first = np.argsort(promises)[::-1][: budget.compared]
    least = _CLOSE * promises[best_first[0]]
    for pair in [candidates[i] for i in best_first if promises[i] >= least]:
        runs = min(budget.compare, max(_FEWEST, _MOST_IN_MEMORY // (len(pair.others) + 1)))
        one, two = (sampler.seen(world, runs, in_order=True) for world in pair.worlds)
        tried = statistics.promising(sampler.subject, known, pair, one, two)
        trials += [_best_trial(pair, each, (each.of(one), each.of(two)), stakes) for each in tried]
    best = max(trials, key=lambda trial: trial.predicted)
    pair, statistic = best.neighbours, best.statistic
    fresh = []
    for world in pair.worlds:
        parts = sampler.blocks(world, budget.settle, in_order=statistic.in_order)
        fresh.append(np.concatenate([statistic.of(part) for part in parts]))
    return _best_trial(pair, statistic, (fresh[0], fresh[1]), stakes)


# -------------------------------------------------------------------------------- evaluation


def evaluated(
    sampler: Sampler, trial: Trial, stakes: Stakes, claim: Literal["crowd", "local"], claimed: float
) -> Evidence:
    """Fresh runs, a fair coin for each saying on which data set.

    Runs are independent, so only how many coins fell to each side matters.
    """
    statistic, threshold = trial.statistic, trial.threshold
    sizes = (min(_COINS, stakes.runs - start) for start in range(0, stakes.runs, _COINS))
    heads = sum(int(sampler.randomness.bits(size).sum(dtype=np.int64)) for size in sizes)
    runs = (heads, stakes.runs - heads)
    inside, histograms = [0, 0], []
    for side, data in enumerate(trial.neighbours.worlds):
        counts = np.zeros(trial.edges.size - 1, dtype=np.int64)
        for part in sampler.blocks(data, runs[side], in_order=statistic.in_order):
            values = statistic.of(part)
            inside[side] += int(np.count_nonzero((rounded(values) >= threshold) == trial.at_least))
            counts += histogram(values, trial.edges)
        histograms.append(counts)
    likelier, other = inside[::-1] if trial.swapped else inside
    return Evidence(
        claim=claim,
        claimed=claimed,
        lower=float(stakes.bounds(likelier, other)),
        delta=stakes.delta,
        statistic=statistic.name,
        event=f"{'at least' if trial.at_least else 'below'} {threshold:.5g}",
        data=trial.neighbours.words,
        runs=runs,
        inside=(inside[0], inside[1]),
        edges=trial.edges,
        histograms=(histograms[0], histograms[1]),
        **attributes(trial, "threshold", "at_least", "swapped"),
    )


def histogram(values: Array, edges: Array) -> Histogram:
    """How many values are in each bin; the outer bins are open."""
    bins = np.searchsorted(edges[1:-1], rounded(values), side="right")
    return np.bincount(bins, minlength=edges.size - 1)


def bin_edges(first: Array, second: Array, threshold: float) -> Array:
    """Edges of bins that show both samples, the threshold being one of them."""
    values = rounded(np.concatenate([first, second]))
    known = np.unique(values)
    if known.size == 1:
        return np.asarray(known[0] + np.array([-0.5, 0.5]))
    gaps = np.diff(known)
    if known.size <= _FEW_VALUES and gaps.min() * _NARROWEST >= known[-1] - known[0]:
        inner = (known[1:] + known[:-1]) / 2
        return np.asarray([known[0] - gaps[0] / 2, *inner, known[-1] + gaps[-1] / 2])
    low, high = np.quantile(values, [0.0005, 0.9995])
    low, high = min(low, threshold), max(high, threshold)
    width = (high - low) / _BINS or float(known[-1] - known[0])
    before = max(1, int(np.ceil((threshold - low) / width)))
    after = max(1, int(np.ceil((high - threshold) / width)))
    return np.asarray(threshold + width * np.arange(-before, after + 1))

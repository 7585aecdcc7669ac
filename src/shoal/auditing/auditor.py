"""Run a pipeline many times on neighbouring data sets, and compare with what is claimed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal import randomness as sources
from shoal.accounting.amplification import amplify
from shoal.accounting.devices import HasProfile
from shoal.accounting.law import BlanketLaw
from shoal.auditing import data as datasets
from shoal.auditing.data import MOST_INPUTS, Neighbours
from shoal.auditing.result import Audit
from shoal.auditing.statistics import learned, seen_rates, single_messages
from shoal.auditing.subjects import BLOCK, Collection, Listed, Sampler, Subject, subject_of
from shoal.auditing.trials import Budget, Stakes, evaluated, trained_crowd, trained_local
from shoal.errors import InvalidArgumentError
from shoal.randomizers.base import MOST_TRIED, Auditable, some_answers
from shoal.randomness import Randomness
from shoal.values import Array

FEWEST_RUNS = 1_000
MOST_RUNS = 100_000_000
_LOCAL_PART = 0.25  # of what may go wrong, the part for the local claim
_SINGLES = (2_000, 100_000)  # messages of single devices per input, at least and at most
_SINGLES_PER_RUN = 10  # single messages are cheap, and tell more about epsilon_0
_FEW = 5  # inputs of a mechanism that are tried
_SCREENED = 1_000  # messages of every input that is screened
_FEWEST_SCREENED = 20
_MOST_COLUMNS = 4096
_IMPOSSIBLE = 1e-15
_SURE = 2.0  # standard errors by which a log-ratio is taken towards zero


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
    """A statistically valid lower bound on epsilon, and whether it refutes what is claimed.

    ``device`` is a mechanism of Shoal, a table R[x, y], an object with a ``randomize`` method, a
    function of one value, or one of :class:`Function`, :class:`WholePipeline`, :class:`Program`.
    It runs ``runs`` times on each of two neighbouring data sets of ``n`` people. Claims that are
    not given are what the accountant proves for the mechanism, or for the one ``declared``.
    ``inputs`` are data worth trying; ``data`` is (x0, x1, what everybody else holds).

    >>> from shoal.randomizers.response import RandomizedResponse
    >>> device = RandomizedResponse(k=2, epsilon=2.0)
    >>> result = audit(device, n=20, delta=1e-3, runs=20_000)
    >>> result.verdict, 1.8 < result.local_lower < 2
    ('consistent', True)
    """
    n = datasets.people(n)
    runs = checks.count(FEWEST_RUNS, runs=runs)
    checks.refuse(runs > MOST_RUNS, f"runs <= {MOST_RUNS:,}", runs=runs)
    checks.open_probability(confidence=confidence)
    subject = subject_of(device)
    described = _described(device if declared is None else declared)
    known = described if isinstance(described, Auditable) else Auditable()
    epsilon, local = _claims(described, n, epsilon, delta, local_epsilon)
    bits = sources.secure() if randomness is None else randomness
    requested = _requested(known, n, data, inputs)
    if requested is None:
        own = declared is None or declared is device
        tried, screened = _screened(Sampler(subject, bits), known, n, own=own)
        candidates = datasets.candidates(tried, n, ends=known.ends_first)
    else:
        tried, candidates = requested
        screened = len(tried)
    # How the runs and the allowance for error are divided. A device has a local claim of its own
    # if it can be run by itself and sends one message.
    if not subject.alone or subject.several:
        local = None
    budget = Budget.of(runs, len(candidates))
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
    knowledge = learned(sampler, tried, known, size=singles, n=n)
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
    if isinstance(device, Collection):
        return device.device
    if isinstance(device, Subject):
        return None
    if isinstance(device, np.ndarray | list | tuple):
        return Listed(device)
    return device


def _requested(
    known: Auditable,
    n: int,
    data: Neighbours | Sequence[Any] | None,
    inputs: Sequence[Hashable] | None,
) -> tuple[tuple[Hashable, ...], list[Neighbours]] | None:
    """The data that somebody asked for, and the data sets of them."""
    if data is not None and inputs is not None:
        raise InvalidArgumentError("inputs", list(inputs), "inputs or data, not both")
    if data is not None:
        pair = datasets.neighbours(data, n)
        tried, candidates = pair.inputs, [pair]
    elif inputs is not None:
        tried = datasets.checked_inputs(inputs)
        candidates = datasets.candidates(tried, n)
    else:
        return None
    for value in tried:
        known.check_input(value)
    return tried, candidates


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
    if isinstance(declared, BlanketLaw | HasProfile):
        return declared
    law = getattr(declared, "law", None)
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
    sampler: Sampler, known: Auditable, n: int, *, own: bool
) -> tuple[tuple[Hashable, ...], int]:
    """Inputs of a known mechanism to try, and of how many; ``own``: it is its own code that runs.

    A table that is drawn from by Shoal is taken at its word. Somebody's code, and a mechanism with
    more answers than are tried, runs by itself on many of them.
    """
    inputs, table = known.trial_inputs(), isinstance(known, Listed)
    few = MOST_INPUTS if table else _FEW
    if isinstance(known, Listed) and len(known.rows) > MOST_INPUTS:
        apart = farthest(known.rows, n=n, most=MOST_INPUTS if own else MOST_INPUTS // 2)
        if own:
            return tuple(sorted(apart)), len(known.rows)
    elif table or len(inputs) <= few:
        return inputs, len(inputs)
    else:
        apart = known.far_apart()
    pool: list[Any] = sorted({*inputs, *apart})
    size = max(_FEWEST_SCREENED, _SCREENED * sampler.subject.block // BLOCK)
    samples = [single_messages(sampler, x, size, n) for x in pool]
    counts = seen_rates(known, tuple(pool), samples)
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

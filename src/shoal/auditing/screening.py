"""Of many inputs, a few that are far apart: by the table that is declared, and by what is sent.

Two inputs a and b are far apart in one message if log R_a(y)/R_b(y) is large for some y, and in a
crowd that holds c if the variance of the privacy loss, to leading order the sum of
(R_a - R_b)^2/R_c, is. Inputs are taken in turn from the pairs that are first in either order.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.auditing.data import MOST_INPUTS
from shoal.auditing.knowledge import seen_rates, single_messages
from shoal.auditing.subjects import BLOCK, Listed, Sampler
from shoal.randomizers.base import MOST_TRIED, Auditable, some_answers
from shoal.values import Array

FEW = 5  # inputs of a mechanism that are tried
_MESSAGES = 1_000  # of every input that is screened
_FEWEST = 20
_MOST_COLUMNS = 4096
_IMPOSSIBLE = 1e-15
_SURE = 2.0  # standard errors by which a log-ratio is taken towards zero


@dataclass(frozen=True)
class Screened:
    """The inputs to try, and how many there were to choose from."""

    inputs: tuple[Hashable, ...]
    of: int


def screened(sampler: Sampler, known: Auditable, *, n: int, own: bool) -> Screened:
    """Inputs of a known mechanism; ``own`` says that it is its own code that runs.

    A table that is drawn from by Shoal is taken at its word. Somebody's code, and a mechanism with
    more answers than are tried, runs by itself on many of them.
    """
    inputs = known.trial_inputs()
    if isinstance(known, Listed):
        if len(known.rows) <= MOST_INPUTS:
            return Screened(inputs, len(inputs))
        apart = farthest(known.rows, n=n, most=MOST_INPUTS if own else MOST_INPUTS // 2)
        if own:
            return Screened(tuple(sorted(apart)), len(known.rows))
        return _by_messages(sampler, known, apart, n=n, most=MOST_INPUTS)
    if len(inputs) <= FEW:
        return Screened(inputs, len(inputs))
    return _by_messages(sampler, known, known.far_apart(), n=n, most=FEW)


def _by_messages(
    sampler: Sampler, known: Auditable, apart: Sequence[int], *, n: int, most: int
) -> Screened:
    """Inputs that are known to be far apart, and those whose messages are."""
    pool: list[Any] = sorted({*known.trial_inputs(), *apart})
    size = max(_FEWEST, _MESSAGES * sampler.subject.block // BLOCK)
    samples = [single_messages(sampler, x, size, n) for x in pool]
    counts = seen_rates(known, tuple(pool), samples)
    sent = np.array([[max(1, len(sample))] for sample in samples])
    rates, errors = (counts + 0.5) / (sent + 1), 1 / np.sqrt(counts + 0.5)
    seen = [pool[place] for place in farthest(rates, n=n, most=most, errors=errors)]
    inputs = list(dict.fromkeys((*apart, *seen)))[:most]
    return Screened(tuple(sorted(inputs)), len(pool))


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

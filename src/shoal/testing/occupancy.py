"""Sums of squares of uniform multinomial counts, without drawing the counts.

If all cells are alike, Σ_j N_j² depends only on how many cells hold 0, 1, 2, ... messages. Counts
of n messages in K cells are drawn in two steps, exactly:

1. K independent Poisson numbers with a mean so low that their sum M stays below n (if not, they are
   drawn again). Given M they are multinomial, and how many of them are 0, 1, 2, ... is one draw of
   a multinomial vector with as many entries as there are likely values.
2. The missing n − M messages, about 5√n, are thrown into the cells one by one. Which cells get one
   of them, two, ... has nothing to do with what the cells held, so that what they held is drawn
   from step 1 without replacement.

The cost per sample is O(√n + √(n/K)), not O(K).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import stats

from shoal.testing import sampling

Whole = npt.NDArray[np.int64]

LEAST_CELLS = 2048  # below, drawing the counts is as quick
MOST_EACH = 64  # messages per cell, above which there are too many different counts
_SHORT = 5.0  # standard deviations that the first step stays below n
_REACH = 12.0  # standard deviations of a count; beyond lies less than 10^-15 of all


def squares(cells: int, *, sent: Whole, generator: np.random.Generator) -> Whole:
    """Σ_j N_j² for each entry of ``sent``: so many messages, uniform on the cells."""
    if cells >= LEAST_CELLS and int(sent.max(initial=0)) <= MOST_EACH * cells:
        return thrown(cells, sent=sent, generator=generator)
    found = np.empty(sent.size, dtype=np.int64)
    start = 0
    for size in sampling.chunks(sent.size, cells):
        tables = sampling.uniform(cells, sent=sent[start : start + size], generator=generator)
        found[start : start + size] = np.einsum("ij,ij->i", tables, tables)
        start += size
    return found


def thrown(cells: int, *, sent: Whole, generator: np.random.Generator) -> Whole:
    """The same by the two steps, whatever the numbers."""
    held = _poisson_cells(cells, sent, generator)
    values = np.arange(held.shape[1])
    total = held @ values**2
    hits = _hit_cells(cells, sent - held @ values, generator)
    for level in range(1, hits.shape[1]):
        # (N + level)² = N² + 2 level N + level² in each cell that is hit so often.
        met = _picked(held, hits[:, level], generator)
        total += 2 * level * (met @ values) + level**2 * hits[:, level]
        held = held - met
    return total


def _poisson_cells(cells: int, sent: Whole, generator: np.random.Generator) -> Whole:
    """Rows: how many of the cells hold 0, 1, 2, ... messages after the first step."""
    fewest = float(sent.min())
    mean = max(fewest - _SHORT * math.sqrt(fewest), 0.0) / cells
    most = math.ceil(mean + _REACH * math.sqrt(mean)) + 30
    values = np.arange(most + 1)
    law = stats.poisson.pmf(values, mean)
    law[-1] += stats.poisson.sf(most, mean)
    law /= law.sum()
    held = generator.multinomial(cells, law, size=sent.size)
    over = np.flatnonzero(held @ values > sent)
    while over.size:
        held[over] = generator.multinomial(cells, law, size=over.size)
        over = over[held[over] @ values > sent[over]]
    return held


def _hit_cells(cells: int, missing: Whole, generator: np.random.Generator) -> Whole:
    """Rows: how many cells are hit 0, 1, 2, ... times by so many messages."""
    rows = []
    for number in missing.tolist():
        hit = np.bincount(generator.integers(cells, size=number), minlength=1)
        rows.append(np.bincount(hit))
    found = np.zeros((missing.size, max(row.size for row in rows)), dtype=np.int64)
    for place, row in zip(found, rows, strict=True):
        place[: row.size] = row
    return found


def _picked(held: Whole, number: Whole, generator: np.random.Generator) -> Whole:
    """Rows: of so many cells picked at random, how many hold 0, 1, 2, ... messages."""
    met = np.zeros_like(held)
    left, wanted = held.sum(axis=1), number.copy()
    for value, here in enumerate(held.T):
        if here.any() and wanted.any():
            met[:, value] = generator.hypergeometric(here, left - here, wanted)
            wanted -= met[:, value]
        left = left - here
    return met

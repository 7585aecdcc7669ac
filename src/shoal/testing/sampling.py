"""Counts of made-up messages, many samples at a time.

Sums of squares of uniform multinomial counts, without drawing the counts.

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
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import stats

from shoal.values import Array

CountTable = npt.NDArray[np.int64]
Generator = np.random.Generator

LARGEST_CHUNK = 1 << 22  # counts held at a time: about 200 MB with what is computed from them
_EVEN = 1e-12  # by how much a uniform law may differ from one in its last digits
_FEW_EACH = 20  # messages per cell, below which drawing them one by one is quicker,
_MANY_CELLS = 256  # if there are so many cells
LEAST_CELLS = 2048  # below, drawing the counts is as quick
MOST_EACH = 64  # messages per cell, above which there are too many different counts
_SHORT = 5.0  # standard deviations that the first step stays below n
_REACH = 12.0  # standard deviations of a count; beyond lies less than 10^-15 of all


def chunks(size: int, cells: int) -> Iterator[int]:
    """How many samples to take at a time, so that memory stays bounded."""
    at_once = max(1, LARGEST_CHUNK // max(1, cells))
    while size > 0:
        yield min(size, at_once)
        size -= at_once


def multinomial(law: Array, *, n: int, size: int, generator: Generator) -> CountTable:
    """Rows of counts of n messages of this law, or, row by row, of those laws."""
    normal = law / law.sum(axis=-1, keepdims=True)
    if normal.ndim > 1:
        return generator.multinomial(n, normal)
    if np.ptp(normal) <= _EVEN * float(normal.max()):
        return uniform(normal.size, sent=np.full(size, n), generator=generator)
    return generator.multinomial(n, normal, size=size)


def uniform(cells: int, *, sent: CountTable, generator: Generator) -> CountTable:
    """For each entry of ``sent`` a row of counts of so many messages, uniform on the cells.

    Two quick ways: message by message where they are few, else one binomial number a cell.
    """
    if cells < _MANY_CELLS or int(sent.max(initial=0)) >= _FEW_EACH * cells:
        return generator.multinomial(sent, np.full(cells, 1 / cells))
    tables = np.empty((sent.size, cells), dtype=np.int64)
    for row, number in zip(tables, sent.tolist(), strict=True):
        drawn = generator.integers(cells, size=number, dtype=np.int32)
        row[:] = np.bincount(drawn, minlength=cells)
    return tables


# ---------------------------------------------------------------------------------- sums of squares


def squares(cells: int, *, sent: CountTable, generator: Generator) -> CountTable:
    """Σ_j N_j² for each entry of ``sent``: so many messages, uniform on the cells."""
    if cells >= LEAST_CELLS and int(sent.max(initial=0)) <= MOST_EACH * cells:
        return thrown(cells, sent=sent, generator=generator)
    sums = np.empty(sent.size, dtype=np.int64)
    start = 0
    for size in chunks(sent.size, cells):
        tables = uniform(cells, sent=sent[start : start + size], generator=generator)
        sums[start : start + size] = np.einsum("ij,ij->i", tables, tables)
        start += size
    return sums


def thrown(cells: int, *, sent: CountTable, generator: Generator) -> CountTable:
    """The same by the two steps, whatever the numbers."""
    occupied = _poisson_cells(cells, sent, generator)
    values = np.arange(occupied.shape[1])
    total = occupied @ values**2
    hits = _hit_cells(cells, sent - occupied @ values, generator)
    for level in range(1, hits.shape[1]):
        # (N + level)² = N² + 2 level N + level² in each cell that is hit so often.
        met = _picked(occupied, hits[:, level], generator)
        total += 2 * level * (met @ values) + level**2 * hits[:, level]
        occupied = occupied - met
    return total


def _poisson_cells(cells: int, sent: CountTable, generator: Generator) -> CountTable:
    """Rows: how many of the cells hold 0, 1, 2, ... messages after the first step."""
    fewest = float(sent.min())
    mean = max(fewest - _SHORT * math.sqrt(fewest), 0.0) / cells
    most = math.ceil(mean + _REACH * math.sqrt(mean)) + 30
    values = np.arange(most + 1)
    law = stats.poisson.pmf(values, mean)
    law[-1] += stats.poisson.sf(most, mean)
    law /= law.sum()
    occupied = generator.multinomial(cells, law, size=sent.size)
    over = np.flatnonzero(occupied @ values > sent)
    while over.size:
        occupied[over] = generator.multinomial(cells, law, size=over.size)
        over = over[occupied[over] @ values > sent[over]]
    return occupied


def _hit_cells(cells: int, missing: CountTable, generator: Generator) -> CountTable:
    """Rows: how many cells are hit 0, 1, 2, ... times by so many messages."""
    rows = []
    for number in missing.tolist():
        hit = np.bincount(generator.integers(cells, size=number), minlength=1)
        rows.append(np.bincount(hit))
    table = np.zeros((missing.size, max(row.size for row in rows)), dtype=np.int64)
    for place, row in zip(table, rows, strict=True):
        place[: row.size] = row
    return table


def _picked(occupied: CountTable, number: CountTable, generator: Generator) -> CountTable:
    """Rows: of so many cells picked at random, how many hold 0, 1, 2, ... messages."""
    met = np.zeros_like(occupied)
    left, wanted = occupied.sum(axis=1), number.copy()
    for value, here in enumerate(occupied.T):
        if here.any() and wanted.any():
            met[:, value] = generator.hypergeometric(here, left - here, wanted)
            wanted -= met[:, value]
        left = left - here
    return met

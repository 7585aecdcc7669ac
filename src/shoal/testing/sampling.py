"""Counts of made-up messages, many samples at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from shoal.values import Array

CountTable = npt.NDArray[np.int64]

LARGEST_CHUNK = 1 << 22  # counts held at a time: about 200 MB with what is computed from them
_EVEN = 1e-12  # by how much a uniform law may differ from one in its last digits
_FEW_EACH = 20  # messages per cell, below which drawing them one by one is quicker,
_MANY_CELLS = 256  # if there are so many cells


def chunks(size: int, cells: int) -> Iterator[int]:
    """How many samples to take at a time, so that memory stays bounded."""
    at_once = max(1, LARGEST_CHUNK // max(1, cells))
    while size > 0:
        yield min(size, at_once)
        size -= at_once


def multinomial(law: Array, *, n: int, size: int, generator: np.random.Generator) -> CountTable:
    """Rows of counts of n messages of this law, or, row by row, of those laws."""
    normal = law / law.sum(axis=-1, keepdims=True)
    if normal.ndim > 1:
        return generator.multinomial(n, normal)
    if np.ptp(normal) <= _EVEN * float(normal.max()):
        return uniform(normal.size, sent=np.full(size, n), generator=generator)
    return generator.multinomial(n, normal, size=size)


def uniform(
    cells: int, *, sent: npt.NDArray[np.int64], generator: np.random.Generator
) -> CountTable:
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


def resplit(
    pooled: npt.NDArray[np.int64], *, first: int, size: int, generator: np.random.Generator
) -> CountTable:
    """Counts of ``first`` messages picked at random out of these, again and again."""
    return generator.multivariate_hypergeometric(pooled, first, size=size, method="marginals")

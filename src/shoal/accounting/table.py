"""From a randomizer's table of probabilities to its atoms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting.atoms import Array, PairLaw, distinct
from shoal.errors import InvalidArgumentError

ROW_SUM_TOLERANCE = 1e-9
RATIO_TOLERANCE = 1e-12
MOST_WITNESSES = 16


def validated(table: npt.ArrayLike, *, local_epsilon: float | None) -> Array:
    """A table with rows of probabilities, each normalised, keeping the claimed guarantee."""
    try:
        rows = np.array(table, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError("table", type(table).__name__, "a table of numbers") from error
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 1:
        raise InvalidArgumentError("shape", rows.shape, "a 2-D table with at least 2 inputs (rows)")
    if not np.isfinite(rows).all() or (rows < 0).any():
        x, y = np.argwhere(~(np.isfinite(rows) & (rows >= 0)))[0].tolist()
        raise InvalidArgumentError(f"table[{x}, {y}]", float(rows[x, y]), "probabilities >= 0")
    sums = np.array([math.fsum(row) for row in rows.tolist()])
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        name = f"sum of row {worst}"
        raise InvalidArgumentError(name, float(sums[worst]), "every row of the table to sum to 1")
    rows = _normalised(rows, sums)
    if local_epsilon is not None:
        checks.non_negative(local_epsilon=local_epsilon)
        _check_claim(rows, local_epsilon)
    return rows


def _normalised(rows: Array, sums: Array) -> Array:
    """Rows of sum 1. Rows that differed still do, so that only equal ones are called equal."""
    scaled = rows / sums[:, None]
    origins: dict[bytes, bytes] = {}
    for row, origin in zip(scaled, rows, strict=True):
        while origins.setdefault(row.tobytes(), origin.tobytes()) != origin.tobytes():
            row[:] = np.where(row > 0, np.nextafter(row, 1.0), 0.0)
    return scaled


def blanket_pairs(rows: Array) -> tuple[PairLaw, ...]:
    """One law per inequivalent ordered pair of inputs; the blanket is the pointwise minimum."""
    blanket = rows.min(axis=0)
    pairs = itertools.combinations(range(len(rows)), 2)
    return distinct(PairLaw.over(blanket, rows[a], rows[b]) for a, b in pairs)


def witness_pairs(rows: Array) -> tuple[PairLaw, ...]:
    """Exact laws of "x0 or x1 among n - 1 people who all hold x2", the most telling ones.

    Every choice is a valid lower bound, so keeping only those with the largest leading-order
    divergence, ``sum (R0 - R1)^2 / R2``, loses tightness at most.
    """
    telling: dict[float, tuple[int, int, int]] = {}
    for a, b in itertools.permutations(range(len(rows)), 2):
        difference = (rows[a] - rows[b]) ** 2
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(difference > 0, difference / rows, 0.0)
        # Equal scores are nearly always equivalent triples: one of them is enough.
        scores = (float(f"{score:.10g}") for score in ratio.sum(axis=1))
        telling.update({score: (a, b, c) for c, score in enumerate(scores)})
    best = sorted(telling, reverse=True)[:MOST_WITNESSES]
    triples = (telling[score] for score in best)
    return distinct(PairLaw.over(rows[c], rows[a], rows[b]) for a, b, c in triples)


def _check_claim(rows: Array, local_epsilon: float) -> None:
    high, low = rows.argmax(axis=0), rows.argmin(axis=0)
    columns = np.arange(rows.shape[1])
    allowed = math.exp(local_epsilon) * (1 + RATIO_TOLERANCE)
    excess = rows[high, columns] - allowed * rows[low, columns]
    y = int(excess.argmax())
    if excess[y] > 0:
        top, bottom = float(rows[high[y], y]), float(rows[low[y], y])
        ratio = math.log(top / bottom) if bottom > 0 else math.inf
        name = f"table[{high[y]}, {y}] / table[{low[y]}, {y}]"
        expected = f"log-ratios within the claimed local_epsilon={local_epsilon:g}"
        raise InvalidArgumentError(name, f"e^{ratio:.6g}", expected)

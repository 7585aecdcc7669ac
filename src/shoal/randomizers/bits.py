"""Messages with one bit per answer, packed into rows of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.randomizers import base
from shoal.values import Messages

MOST_ANSWERS = 1 << 24
CELLS_AT_ONCE = 1 << 20

_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)


def checked_answers(k: int) -> int:
    """A number of answers whose bits make a message."""
    k = checks.count(2, k=k)
    if k > MOST_ANSWERS:
        raise InvalidArgumentError("k", k, f"k <= {MOST_ANSWERS} for a message of k bits")
    return k


def row_bytes(k: int) -> int:
    """Bytes of k bits."""
    return -(-k // 8)


def checked_rows(rows: Messages, k: int) -> npt.NDArray[np.uint8]:
    """Rows of k bits, or an error saying what they are instead."""
    found, width = np.asarray(rows), row_bytes(k)
    if found.dtype != np.uint8 or found.ndim != 2 or found.shape[1] != width:
        expected = f"uint8 rows of {width} bytes"
        raise InvalidArgumentError("rows", f"{found.dtype} of shape {found.shape}", expected)
    if not _ends(found, k).all():
        raise InvalidArgumentError("rows", "set bits after the last answer's", f"rows of {k} bits")
    return found.astype(np.uint8, copy=False)


def clean_rows(rows: npt.NDArray[np.uint8], k: int) -> npt.NDArray[np.bool_]:
    """Which rows have no bit set after the last answer's."""
    return _ends(base.checked_rows(rows, row_bytes(k)), k)


def _ends(rows: npt.NDArray[np.integer], k: int) -> npt.NDArray[np.bool_]:
    padding = np.uint8((1 << (8 * row_bytes(k) - k)) - 1)
    unused: npt.NDArray[np.bool_] = (rows[:, -1] & padding) == 0
    return unused


def supported(rows: npt.NDArray[Any], answers: Sequence[int]) -> npt.NDArray[np.bool_] | None:
    """Whether the bits of these answers (columns) are set; None if these are no rows of bytes."""
    if rows.dtype != np.uint8 or rows.ndim != 2:
        return None
    places = np.array(answers, dtype=np.intp)
    return ((rows[:, places // 8] >> (7 - places % 8).astype(np.uint8)) & 1).astype(bool)


def support_sizes(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """How many bits are set in each row."""
    sizes: npt.NDArray[np.int64] = np.bitwise_count(rows).sum(axis=1, dtype=np.int64)
    return sizes


def bit_counts(rows: npt.NDArray[np.uint8], k: int) -> npt.NDArray[np.int64]:
    """How many rows have each bit set: a histogram of every byte, then of its bits."""
    counted = [np.bincount(column, minlength=256) @ _BITS_OF_BYTE for column in rows.T]
    return np.concatenate(counted)[:k]

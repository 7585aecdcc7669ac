"""A randomizer's table in a file: one row per input, one column per output."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt

from shoal.cli.options import RefusedError

Table = npt.NDArray[np.float64]


def read(path: Path) -> Table:
    """The numbers in a .csv file (no heading; lines that begin with # are left out) or a .npy."""
    readers = {".csv": _read_csv, ".npy": _read_npy}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise RefusedError(f"expected --table to be a .csv or .npy file, got {path}")
    try:
        return reader(path)
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError, csv.Error) as error:
        raise RefusedError(f"cannot read {path}: {error}") from error


def _read_csv(path: Path) -> Table:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        kept = ((n, line) for n, line in enumerate(lines, start=1) if _says_something(line))
        rows = [(n, next(csv.reader([line]))) for n, line in kept]
    if not rows:
        raise ValueError("it holds no numbers")
    width = len(rows[0][1])
    for n, row in rows:
        if len(row) != width:
            raise ValueError(f"line {n} has {len(row)} entries, the first row has {width}")
    return np.array([[_entry(text, n) for text in row] for n, row in rows])


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _entry(text: str, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text.strip()!r} on line {line} is not a number") from None


def _read_npy(path: Path) -> Table:
    loaded = np.load(path, allow_pickle=False)
    if not isinstance(loaded, np.ndarray) or loaded.dtype.kind not in "fiu":
        raise ValueError("it does not hold an array of numbers")
    return loaded.astype(np.float64)

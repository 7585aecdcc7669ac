"""A reference distribution in a file: a column of answers and one of probabilities or counts."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from shoal.cli.options import RefusedError
from shoal.engines.reading import MOST_ANSWERS

_SLACK = 1e-6  # of a sum of rounded probabilities


@dataclass(frozen=True)
class Reference:
    """Answers with their probabilities, and what was done to get them."""

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    notes: tuple[str, ...] = ()


def read(path: Path) -> Reference:
    """The distribution in a CSV file with a heading; whole numbers are counts."""
    rows = _rows(path)
    labels = tuple(label for _, label, _ in rows)
    weights = [_weight(path, line, text) for line, _, text in rows]
    _require_once(path, rows)
    if len(labels) < 2:
        raise RefusedError(f"{path} lists one answer: there is nothing to test with fewer than two")
    if len(labels) > MOST_ANSWERS:
        raise RefusedError(f"{path} lists more than {MOST_ANSWERS:,} answers")
    total = math.fsum(weights)
    if abs(total - 1) <= _SLACK:
        return Reference(labels, tuple(weight / total for weight in weights))
    if total > 0 and all(weight.is_integer() for weight in weights):
        said = f"{path} has counts: they were divided by their sum, {total:,.0f}"
        return Reference(labels, tuple(weight / total for weight in weights), (said,))
    raise RefusedError(
        f"the probabilities in {path} add up to {total:.6g}: give probabilities that add up to 1, "
        "or counts"
    )


def _rows(path: Path) -> list[tuple[int, str, str]]:
    """Line number, answer and number of each line below the heading."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            found = [(reader.line_num, row) for row in reader if row]
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise RefusedError(f"cannot read {path}: {error}") from error
    if not found:
        raise RefusedError(f"{path} is empty: it should list answers with their probabilities")
    for line, row in found:
        if len(row) != 2:
            raise RefusedError(
                f"line {line} of {path} has {len(row)} entries: expected an answer and its "
                "probability, or its count"
            )
    (_, heading), *rows = found
    if _is_number(heading[1]):
        raise RefusedError(
            f"the first line of {path} is a heading (answer,probability), got {','.join(heading)}"
        )
    if not rows:
        raise RefusedError(f"{path} has a heading and nothing below it: it lists no answer")
    return [(line, label, text) for line, (label, text) in rows]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _weight(path: Path, line: int, text: str) -> float:
    value = float(text) if _is_number(text) else math.nan
    if not 0 <= value < math.inf:
        raise RefusedError(
            f"line {line} of {path}: expected a probability or a count, 0 or more, got {text!r}"
        )
    return value


def _require_once(path: Path, rows: list[tuple[int, str, str]]) -> None:
    seen: dict[str, int] = {}
    for line, label, _ in rows:
        if not label:
            raise RefusedError(f"line {line} of {path} has no answer")
        if label in seen:
            raise RefusedError(f"{path} lists {label!r} twice, on lines {seen[label]} and {line}")
        seen[label] = line

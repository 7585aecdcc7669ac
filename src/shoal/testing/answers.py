"""The public list of answers that a test is about, and references read from files."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.questions.kinds import MOST_LABELS

_SLACK = 1e-6  # of a sum of rounded probabilities


@dataclass(frozen=True)
class AnswerList:
    """The public list of answers, and how probable each should be (None: equally).

    ``taken`` says that it was taken from the data, which is what makes it public.
    """

    labels: tuple[str, ...]
    probabilities: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()
    taken: bool = False

    @property
    def terms(self) -> dict[str, Any]:
        """What a hypothesis says of them: how many there are, or how probable each is."""
        if self.probabilities is None:
            return {"k": len(self.labels)}
        return {"reference": self.probabilities}


def read_reference(path: str | os.PathLike[str]) -> AnswerList:
    r"""The distribution in a CSV file of answers and probabilities below a heading.

    Whole numbers that do not add up to 1 are counts: they are divided by their sum.

    Args:
        path: The file.

    Returns:
        ``labels``, ``probabilities`` and ``notes``.

    Raises:
        InvalidArgumentError: The file cannot be read, or a line is no answer and
            number.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     path = pathlib.Path(place, "reference.csv")
        ...     _ = path.write_text("answer,count\nred,3\nblue,1\n")
        ...     read_reference(path).probabilities
        (0.75, 0.25)
    """
    name = os.fspath(path)

    def need(holds: object, expected: str) -> None:
        checks.refuse(not holds, expected, reference=name)

    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        expected = f"a file that can be read ({getattr(error, 'strerror', None) or error})"
        raise InvalidArgumentError("reference", name, expected) from error
    for line, row in rows:
        cells = f"on line {line}, not {len(row)} cells"
        need(len(row) == 2, f"an answer and its probability or count {cells}")
    need(len(rows) > 1, "a heading, and answers with their probabilities below it")
    first = f"a heading (answer,probability) on the first line: {','.join(rows[0][1])}"
    need(_number(rows[0][1][1]) is None, first)
    lines: dict[str, int] = {}
    weights = []
    for line, (label, text) in rows[1:]:
        need(label, f"an answer on line {line}")
        once = f"({label!r} is on lines {lines.get(label)} and {line})"
        need(label not in lines, f"every answer once {once}")
        lines[label] = line
        number = _number(text)
        weights.append(math.nan if number is None else number)
        usable = f"a probability or a count, 0 or more, on line {line}: {text!r}"
        need(0 <= weights[-1] < math.inf, usable)
    labels, total = tuple(lines), math.fsum(weights)
    require_list("reference", path, labels)
    near = abs(total - 1) <= _SLACK
    counts = total > 0 and all(weight.is_integer() for weight in weights)
    sums = f"(they add up to {total:.6g})"
    need(near or counts, f"probabilities that add up to 1, or counts {sums}")
    note = f"{path} has counts: they were divided by their sum, {total:,.0f}"
    probabilities = tuple(weight / total for weight in weights)
    return AnswerList(labels, probabilities, () if near else (note,))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def require_list(argument: str, value: object, labels: Sequence[str]) -> None:
    """A list of two answers or more, each of them once."""
    expected = f"from 2 to {MOST_LABELS:,} answers, not {len(labels):,}"
    checks.refuse(not 2 <= len(labels) <= MOST_LABELS, expected, **{argument: str(value)})
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise InvalidArgumentError(argument, str(value), f"every answer once, not {twice!r} twice")

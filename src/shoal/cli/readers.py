"""What is typed after options that say what is asked: places, bins, bounds, a file of questions."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from shoal.cli.options import Bounds, read_int, read_number
from shoal.errors import InvalidArgumentError, RefusedError

if TYPE_CHECKING:
    from shoal.questions.edges import Place
    from shoal.questions.kinds import Question

T = TypeVar("T")

_DATE = re.compile(r"\s*\d{4}-\d\d")


def read_file(path: Path) -> tuple[Question, ...]:
    """The questions of a file; what is wrong with one is said in the words of the file."""
    from shoal.questions.file import read_questions

    try:
        return read_questions(path)
    except InvalidArgumentError as error:
        if error.name == "questions":  # the file itself
            raise RefusedError(
                f"expected --questions to be {error.expected}, got {path}"
            ) from error
        raise RefusedError(str(error)) from error


def read_place(text: str) -> Place:
    """A number; what is none may be a date.

    >>> read_place("5"), read_place("0.5"), read_place(" 2026-01-31")
    (5, 0.5, '2026-01-31')
    """
    readers: tuple[Callable[[str], Place], ...] = (int, float)
    for read in readers:
        with suppress(ValueError):
            return read(text)
    return text.strip()


def read_bins(text: str) -> int | str | list[Place]:
    """How many, a word, or the edges, which may be dates."""
    if "," in text:
        return [read_place(part) for part in text.split(",")]
    return _typed("bins", read_int, text) if text.strip()[:1].isdigit() else text


def read_bounds(name: str, text: str) -> Bounds:
    """Of numbers: those of dates are for bins."""
    dates = " (dates need --bins, such as month)" if _DATE.match(text) else ""
    return _typed(name, Bounds.read, text, dates)


def _typed(name: str, read: Callable[[str], T], text: str, hint: str = "") -> T:
    """What is read of an option, which is named where it cannot be."""
    try:
        return read(text)
    except typer.BadParameter as error:
        raise RefusedError(f"--{name}: {error.message}{hint}") from error


def read_quantiles(text: str) -> list[float]:
    """Fractions with commas between."""
    return [_typed("quantiles", read_number, part.strip()) for part in text.split(",")]


def read_ranges(text: str) -> list[tuple[Place, Place]]:
    """From one edge up to another: 20..65, several with commas between."""
    pairs = [part.partition("..") for part in text.split(",")]
    if not all(first.strip() and last.strip() for first, _, last in pairs):
        raise RefusedError(f"expected --ranges such as 20..65,65..100, got {text!r}")
    return [(read_place(first), read_place(last)) for first, _, last in pairs]

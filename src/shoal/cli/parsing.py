"""What people type: ``1e5`` is a whole number, and a typing error is answered in one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import NamedTuple, TypeVar

import typer

_LONGEST_EXPONENT = 20
Choice = TypeVar("Choice", bound=StrEnum)


def whole(text: str) -> int:
    """A whole number, also in scientific notation.

    >>> whole("1e5"), whole("200_000")
    (100000, 200000)
    """
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise _bad_whole(text) from None
    if not value.is_finite() or value.adjusted() > _LONGEST_EXPONENT or value != round(value):
        raise _bad_whole(text)
    return int(value)


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        message = f"expected a finite number such as 0.5 or 1e-6, got {text!r}"
        raise typer.BadParameter(message)
    return value


class Bounds(NamedTuple):
    """Public limits of a number."""

    low: float
    high: float


def bounds(text: str) -> Bounds:
    """Two numbers, the lower one first.

    >>> bounds("0,100")
    Bounds(low=0.0, high=100.0)
    """
    parts = text.split(",")
    if len(parts) != 2:
        raise typer.BadParameter(f"expected two numbers such as 0,100, got {text!r}")
    low, high = (number(part.strip()) for part in parts)
    if not low < high:
        raise typer.BadParameter(f"expected the lower bound first, got {text!r}")
    return Bounds(low, high)


def one_of(choices: type[Choice]) -> Callable[[str], Choice]:
    """A parser for one of a few words."""

    def parse(text: str) -> Choice:
        try:
            return choices(text)
        except ValueError:
            known = ", ".join(choices)
            raise typer.BadParameter(f"expected one of {known}, got {text!r}") from None

    return parse


def _bad_whole(text: str) -> typer.BadParameter:
    return typer.BadParameter(f"expected a whole number such as 100000 or 1e5, got {text!r}")

"""Neighbouring data sets: one person's datum changes, everybody else's stays."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.values import Array

MOST_INPUTS = 8


@dataclass(frozen=True, eq=False)
class DataSet:
    """What everybody holds, the person in question first."""

    values: tuple[Hashable, ...]

    @cached_property
    def array(self) -> npt.NDArray[Any]:
        """The same as an array, for code that takes everybody at once."""
        kinds = {len(value) if isinstance(value, tuple) else None for value in set(self.values)}
        if len(kinds) == 1 and all(_numeric(value) for value in set(self.values)):
            return np.array(self.values)
        return np.fromiter(self.values, dtype=object, count=len(self.values))

    def repeated(self, runs: int) -> npt.NDArray[Any]:
        """The array of so many runs, one after the other."""
        return np.tile(self.array, (runs, *[1] * (self.array.ndim - 1)))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Neighbours:
    """One person holds ``first`` or ``second``; ``others`` is what everybody else holds."""

    first: Hashable
    second: Hashable
    others: tuple[Hashable, ...] = field(repr=False)

    @cached_property
    def worlds(self) -> tuple[DataSet, DataSet]:
        """Both data sets."""
        return DataSet((self.first, *self.others)), DataSet((self.second, *self.others))

    @property
    def words(self) -> str:
        """In one phrase."""
        if not self.others:
            others = "nobody else"
        elif len(self._counts) == 1:
            others = f"everybody else {self.others[0]!r}"
        else:
            counts = ", ".join(f"{count:,} {kind!r}" for kind, count in self._counts.items())
            others = f"of the others {counts}"
        return f"{self.first!r} or {self.second!r}, {others}"

    @cached_property
    def _counts(self) -> Counter[Hashable]:
        return Counter(self.others)

    def fractions(self, inputs: Sequence[Hashable]) -> Array:
        """Which fraction of the others holds each input; if there is nobody, of the two data."""
        counts = self._counts or Counter((self.first, self.second))
        return np.array([counts[one] for one in inputs]) / counts.total()

    @property
    def inputs(self) -> tuple[Hashable, ...]:
        """The different data in them."""
        return tuple(dict.fromkeys((self.first, self.second, *self._counts)))


def candidates(inputs: Sequence[Hashable], n: int, *, ends: bool = False) -> list[Neighbours]:
    """Every pair of inputs, among people who all hold one of them or half of each.

    With ``ends`` the first two inputs are the ends of a range: no other pair is farther apart.
    """
    pairs = []
    crowds = [(third,) * (n - 1) for third in inputs] if n > 1 else [()]
    half = (n - 1) // 2
    for first, second in itertools.combinations(inputs[:2] if ends else inputs, 2):
        mixed = [(first,) * half + (second,) * (n - 1 - half)] * bool(half)
        pairs += [Neighbours(first, second, others) for others in [*crowds, *mixed]]
    return pairs


def neighbours(data: object, n: int) -> Neighbours:
    """Data sets that somebody wants to be audited on: (x0, x1, what everybody else holds)."""
    if isinstance(data, Neighbours):
        pair = data
    elif not isinstance(data, Sequence) or len(data) != 3:
        raise InvalidArgumentError("data", data, "(x0, x1, others)")
    else:
        first, second, others = data
        if isinstance(others, np.ndarray):
            others = others.tolist()
        # A vector is a tuple: among vectors one tuple of numbers is what each of the others holds.
        nested = isinstance(others, tuple) and bool(others) and isinstance(others[0], tuple)
        one = isinstance(others, tuple) and isinstance(first, tuple) and not nested
        same = one or not isinstance(others, list | tuple)
        pair = Neighbours(first, second, (others,) * (n - 1) if same else tuple(others))
    for name, value in (("x0", pair.first), ("x1", pair.second), ("others", pair.others)):
        _check_hashable(name, value)
    others, inputs = len(pair.others), len(pair.inputs)
    checks.refuse(others != n - 1, f"the data of n - 1 = {n - 1} others", others=others)
    checks.refuse(pair.first == pair.second, "two different data x0 and x1", data=pair.first)
    checks.refuse(inputs > MOST_INPUTS, f"at most {MOST_INPUTS} different data", others=inputs)
    return pair


def _numeric(value: Hashable) -> bool:
    """A number, or a tuple of numbers."""
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, bool | int | float | np.number | np.bool_) for part in parts)


def _check_hashable(name: str, value: object) -> None:
    try:
        hash(value)
    except TypeError:
        expected = "data that can be looked up: tuples instead of lists and arrays"
        raise InvalidArgumentError(name, value, expected) from None


def checked_inputs(inputs: object) -> tuple[Hashable, ...]:
    """Two to eight different data."""
    expected = f"2 to {MOST_INPUTS} different values to try"
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise InvalidArgumentError("inputs", inputs, expected)
    listed = inputs.tolist() if isinstance(inputs, np.ndarray) else list(inputs)
    for value in listed:
        _check_hashable("inputs", value)
    distinct = tuple(dict.fromkeys(listed))
    checks.refuse(not 2 <= len(distinct) <= MOST_INPUTS, expected, inputs=listed)
    return distinct

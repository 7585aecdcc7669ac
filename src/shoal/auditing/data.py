"""Neighbouring data sets: one person's datum changes, everybody else's stays."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidArgumentError
from shoal.protocols.near_central import NearCentralSum
from shoal.protocols.split_vectors import SplitAndMixVectors
from shoal.randomizers.base import AnswerMechanism, Mechanism, NumberMechanism
from shoal.randomizers.vectors import CapRandomizer
from shoal.values import Array

MOST_INPUTS = 8
_FEW = 4


@dataclass(frozen=True, eq=False)
class DataSet:
    """What everybody holds, the person in question first."""

    values: tuple[Hashable, ...]

    @cached_property
    def array(self) -> npt.NDArray[Any]:
        """The same as an array, for code that takes everybody at once."""
        if any(isinstance(value, str) for value in self.values):
            return np.array(self.values, dtype=object)
        return np.array(self.values)

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
        return f"{self.first!r} or {self.second!r}, {self._of_others}"

    @property
    def _of_others(self) -> str:
        kinds = list(dict.fromkeys(self.others))
        if not kinds:
            return "nobody else"
        if len(kinds) == 1:
            return f"everybody else {kinds[0]!r}"
        counts = ", ".join(f"{self.others.count(kind):,} {kind!r}" for kind in kinds)
        return f"of the others {counts}"

    def shares(self, inputs: Sequence[Hashable]) -> Array:
        """Which share of the others holds each input; if there is nobody, of the two data."""
        held = self.others or (self.first, self.second)
        return np.array([held.count(one) for one in inputs]) / len(held)


def candidates(inputs: Sequence[Hashable], n: int, *, ends: bool = False) -> list[Neighbours]:
    """Every pair of inputs, among people who all hold one of them or half of each.

    With ``ends`` the first two inputs are the ends of a range: no other pair is farther apart.
    """
    found = []
    for first, second in itertools.combinations(inputs[:2] if ends else inputs, 2):
        if n == 1:
            found.append(Neighbours(first, second, ()))
            continue
        found += [Neighbours(first, second, (third,) * (n - 1)) for third in inputs]
        half = (n - 1) // 2
        if half:
            mixed = (first,) * half + (second,) * (n - 1 - half)
            found.append(Neighbours(first, second, mixed))
    return found


def given(data: Neighbours | Sequence[Any], n: int) -> Neighbours:
    """Data sets that somebody wants to be audited on: (x0, x1, what everybody else holds)."""
    if isinstance(data, Neighbours):
        found = data
    else:
        if len(data) != 3:
            raise InvalidArgumentError("data", data, "(x0, x1, others)")
        first, second, others = data
        listed = tuple(others) if isinstance(others, list | np.ndarray) else (others,) * (n - 1)
        found = Neighbours(first, second, listed)
    if len(found.others) != n - 1:
        raise InvalidArgumentError(
            "others", len(found.others), f"the data of n - 1 = {n - 1} others"
        )
    if found.first == found.second:
        raise InvalidArgumentError("data", found.first, "two different data x0 and x1")
    if len(inputs_of(found)) > MOST_INPUTS:
        expected = f"at most {MOST_INPUTS} different data"
        raise InvalidArgumentError("others", len(inputs_of(found)), expected)
    return found


def inputs_of(neighbours: Neighbours) -> tuple[Hashable, ...]:
    """The different data in them."""
    return tuple(dict.fromkeys((neighbours.first, neighbours.second, *neighbours.others)))


def inputs_for(device: Mechanism) -> tuple[Hashable, ...]:
    """A few data worth trying: all of them if there are three, the ends if they are numbers."""
    if isinstance(device, NearCentralSum) and device.levels is None:
        return tuple(dict.fromkeys((0, int(device.high), int(device.high) // 2)))
    if isinstance(device, NumberMechanism):
        return (device.low, device.high, (device.low + device.high) / 2)
    if isinstance(device, CapRandomizer):
        axis = (1.0, *[0.0] * (device.dimension - 1))
        across = (0.0, 1.0, *[0.0] * (device.dimension - 2))
        return (axis, tuple(-x for x in axis), across)
    if isinstance(device, SplitAndMixVectors):
        end = (device.bound, *[0.0] * (device.dimension - 1))
        return (end, tuple(-x for x in end), tuple(0.0 for _ in end))
    if isinstance(device, AnswerMechanism):
        return _answers(device.k)
    expected = "inputs, as this mechanism does not say which data it takes"
    raise InvalidArgumentError("inputs", None, expected)


def _answers(k: int | None) -> tuple[Hashable, ...]:
    if k is None:
        return ("a", "b", "c")
    return tuple(range(k)) if k <= _FEW else (*range(_FEW), k - 1)


def checked_inputs(inputs: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Two to eight different data."""
    found = tuple(dict.fromkeys(inputs))
    if not 2 <= len(found) <= MOST_INPUTS:
        expected = f"2 to {MOST_INPUTS} different values to try"
        raise InvalidArgumentError("inputs", list(inputs), expected)
    return found

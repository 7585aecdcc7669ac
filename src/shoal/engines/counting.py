"""Everybody's reports, made and counted: the same code wherever the rows are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.engines.engine import Engine, Spend, changed, unmeasured
from shoal.engines.tables import Codes
from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Device
from shoal.questions.domains import Ball
from shoal.questions.settled import Coding
from shoal.randomness import Randomness
from shoal.values import Array, Counts

Progress = Callable[[int, int], None]
_MOST_BITS = 1 << 25  # of messages made at once: long messages come in smaller pieces
_ORDER_BITS = 62  # of a random order: two of 60 are the same once in 10^15


@dataclass(frozen=True, eq=False)
class Report:
    """What a device runs on what was read of a person.

    Or on what is ``given`` of that: it takes values and randomness, and makes so many ``times``
    as many of them.
    """

    device: Device
    given: Any = None
    times: int = 1


@dataclass(frozen=True, eq=False)
class Part:
    """The counts of some people's reports, and their true totals where these are compared."""

    counts: tuple[Counts, ...]
    totals: Array | None = None

    def __add__(self, other: Part) -> Part:
        totals = self.totals if other.totals is None else other.totals
        if self.totals is not None and other.totals is not None:
            totals = self.totals + other.totals
        pairs = zip(self.counts, other.counts, strict=True)
        return Part(tuple(one + two for one, two in pairs), totals)


@dataclass(frozen=True, eq=False)
class Counting:
    """What is read of everybody, the reports made of it, and whether the truth is counted, too."""

    coding: Coding
    reports: tuple[Report, ...]
    truth: bool = False

    def parts(
        self, chunks: Iterator[Any], bits: Randomness, spend: Spend = unmeasured
    ) -> Iterator[Part]:
        """The counts of the people of each chunk; long messages are made of pieces of it."""
        coding = self.coding
        wide = 64 * coding.cells * coding.several
        lengths = [
            8 * each.device.message_bytes * math.ceil(each.device.messages) * each.times
            for each in self.reports
        ]
        most = max(1, _MOST_BITS // max(*lengths, wide))
        while True:
            with spend("read"):
                values = next(chunks, None)
            if values is None:
                return
            # No code of a value that was not there when the question was settled.
            coded = coding.reads in {"codes", "placed"}
            if coded and len(values) and values.min(axis=0).flat[0] < 0:
                expected = "no value that is not in the list, in data that does not change while it"
                raise InvalidArgumentError("column", coding.column, f"{expected} is read")
            total: Part | None = None
            for start in range(0, len(values), most):
                part = self.part(values[start : start + most], bits, spend)
                total = part if total is None else total + part
            if total is not None:
                yield replace(total, totals=totals(coding, values) if self.truth else None)

    def part(self, values: Any, bits: Randomness, spend: Spend = unmeasured) -> Part:  # noqa: ANN401
        """The counts of these people, who are few enough."""
        values, counts = bounded(self.coding, values, bits), []
        for each in self.reports:
            with spend("randomize"):
                given = values if each.given is None else each.given(values, bits)
                sent = each.device.randomize(given, randomness=bits)
            with spend("count"):
                counts.append(each.device.tally(sent))
        return Part(tuple(counts))

    def total(
        self,
        engine: Engine,
        n: int,
        bits: Randomness,
        spend: Spend = unmeasured,
        progress: Progress | None = None,
        *,
        done: int = 0,
        people: int | None = None,
    ) -> Part:
        """The counts of all n people, wherever they are.

        ``progress`` gets how many are counted, those ``done`` before among them, and how many
        ``people`` there are (n, unless it is said).
        """
        total: Part | None = None
        for part in engine.counts(self, n, bits, spend):
            total = part if total is None else total + part
            if progress is not None:
                counted = total.counts[0].n // self.reports[0].times
                progress(done + counted, n if people is None else people)
        wanted = [n * each.times for each in self.reports]
        if total is None or [each.n for each in total.counts] != wanted:
            raise changed(self.coding.column)
        return total


def bounded(coding: Any, values: Any, bits: Randomness) -> Any:  # noqa: ANN401 - as they are
    """Values within the bounds, no longer than the norm, or of so many labels at most."""
    if coding.several:
        return drawn(values, len(coding.labels), coding.most, bits)
    if coding.reads == "numbers":
        return np.clip(values, coding.low, coding.high).astype(np.float64, copy=False)
    if coding.reads == "vectors":
        from shoal.mechanisms.vectors import shortened

        return shortened(values, Ball(len(coding.columns), coding.norm))
    return values


def totals(coding: Any, values: Any) -> Array:  # noqa: ANN401 - as they are
    """True totals of a chunk: a person's answer, or number, adds to them.

    Of numbers and vectors as they are: what cutting them costs has to show. Infinite numbers,
    which have no sum, count as the nearest bound.
    """
    reads = coding.reads
    if reads == "numbers":
        inside = np.clip(values, coding.low, coding.high)
        return np.array([math.fsum(np.where(np.isinf(values), inside, values))])
    if reads == "vectors":
        return np.asarray(values.sum(axis=0))
    if reads == "placed":
        numbers, groups = values[:, 1], values[:, 0].astype(np.int64)
        there = ~np.isnan(numbers)
        counts = np.bincount(groups[there], minlength=coding.cells)
        sums = np.bincount(groups[there], weights=numbers[there], minlength=coding.cells)
        return np.concatenate([counts, sums])
    if coding.several:
        bits = values[:, None] >> np.arange(coding.cells) & 1
        return np.asarray(bits.sum(axis=0), dtype=np.float64)
    return np.bincount(values, minlength=coding.cells).astype(np.float64)


def drawn(values: Codes, k: int, most: int, bits: Randomness) -> Codes:
    """Sets of k labels: of those with more than so many a uniform choice of as many."""
    if most >= k:
        return values
    places = np.arange(k)
    members = values[:, None] >> places & 1 > 0
    many = np.flatnonzero(members.sum(axis=1) > most)
    if not many.size:
        return values
    order = bits.below(1 << _ORDER_BITS, many.size * k).reshape(-1, k).astype(np.int64)
    order[~members[many]] = 1 << _ORDER_BITS  # behind those that are selected
    chosen = np.argsort(order, axis=1, kind="stable")[:, :most]
    values = values.copy()
    values[many] = (1 << chosen).sum(axis=1)
    return values

"""What a search for frequent answers gives back."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shoal.accounting.guarantee import Guarantee
from shoal.estimate.hitters import HeavyHitters
from shoal.protocols.prefixes import PrefixCollector
from shoal.results import Record, harmless
from shoal.values import Array, Estimate


@dataclass(frozen=True)
class OpenItem:
    """One answer: about how many gave it, with a 95 % interval."""

    label: str
    count: float
    share: float
    low: float
    high: float
    truth: int | None = None

    def to_dict(self) -> Record:
        """Plain values."""
        values: Record = {
            "value": self.label,
            "frequency": self.share,
            "count": self.count,
            "low": self.low,
            "high": self.high,
        }
        return values if self.truth is None else values | {"truth": self.truth}


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenResult:
    """The most frequent answers, and what is guaranteed: to the people, and about the list.

    ``items`` are the ``top`` of all ``found``. ``missed`` says, if the truth was asked for, which
    answers above their threshold were not found.
    """

    column: str
    items: tuple[OpenItem, ...]
    found: HeavyHitters
    mechanism: PrefixCollector
    guarantee: Guarantee
    notes: tuple[str, ...]
    missed: tuple[str, ...] | None = None
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many people answered."""
        return self.found.n

    @property
    def contains_truth(self) -> bool:
        """Whether true counts are in it: then it is not private."""
        return self.missed is not None

    @property
    def statement(self) -> str:
        """What the list is sure to have, in words."""
        return threshold_statement(self.found)

    def to_dict(self) -> Record:
        """Plain values, as the command line's ``--json`` prints them."""
        mechanism = self.mechanism
        return {
            "column": self.column,
            "n": self.n,
            "guarantee": self.guarantee.to_dict(),
            "estimates": [item.to_dict() for item in self.items],
            "listed": len(self.found),
            "thresholds": [
                {"bytes": cut, "count": count if np.isfinite(count) else None}
                for cut, count in zip(self.found.longest, self.found.thresholds, strict=True)
            ],
            "beta": self.found.beta,
            "complete": self.found.complete,
            "mechanism": {
                "name": mechanism.name,
                "cells": mechanism.tree.k,
                "levels": mechanism.tree.levels,
                "messages": mechanism.messages,
                "message_bits": mechanism.message_bits,
                "local_epsilon": mechanism.local_epsilon,
            },
            "notes": list(self.notes),
            "stages": dict(self.stages),
            "contains_truth": self.contains_truth,
        }

    def to_csv(self, path: str | Path) -> None:
        """One line per answer; what a spreadsheet would run as a formula gets an apostrophe."""
        rows = [item.to_dict() for item in self.items]
        names = list(rows[0]) if rows else ["value", "frequency", "count", "low", "high"]
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(harmless, rows))

    def to_html(self) -> str:
        """One self-contained page."""
        from shoal.report import html

        return html(_Page(self))

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        """The answers, the most frequent first, and the guarantee, as text."""
        width = max((len(item.label) for item in self.items), default=0)
        lines = [
            f"{item.label:<{width}}  {item.share:8.3%}  {item.low:8.3%} to {item.high:.3%}"
            for item in self.items
        ]
        listed = "\n".join([f"{self.column}: share, 95 % interval", *lines])
        return "\n\n".join([listed, self.statement, str(self.guarantee), *self.notes])


@dataclass(frozen=True, eq=False)
class _Page:
    """The result as a report sees it: one question with the answers that were found."""

    result: OpenResult

    @property
    def columns(self) -> tuple[_Page]:
        """One question only."""
        return (self,)

    @property
    def column(self) -> str:
        """The question."""
        return self.result.column

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers listed."""
        return tuple(item.label for item in self.result.items)

    @property
    def estimate(self) -> Estimate:
        """Their shares."""
        found, size = self.result.found, len(self.result.items)
        errors = found.standard_errors[:size] / found.n
        return Estimate(found.frequencies[:size], errors, found.n)

    @property
    def randomizer(self) -> PrefixCollector:
        """What made each report."""
        return self.result.mechanism

    @property
    def guarantee(self) -> Guarantee:
        """What holds for the people."""
        return self.result.guarantee

    @property
    def truth(self) -> Array | None:
        """The true shares, if somebody asked for them."""
        if not self.result.contains_truth:
            return None
        return np.array([item.truth or 0 for item in self.result.items]) / self.result.n

    @property
    def n(self) -> int:
        """How many people reported."""
        return self.result.n

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know, first of all which answers are sure to be there."""
        return (self.result.statement, *self.result.notes)

    @property
    def contains_truth(self) -> bool:
        """Whether true counts are in it."""
        return self.result.contains_truth


def threshold_statement(found: HeavyHitters) -> str:
    """What the list is sure to have, in words."""
    sure = f"with probability {1 - found.beta:.5g}"
    reached = [
        f"{round(np.ceil(count)):,} people (up to {cut} bytes)"
        for cut, count in zip(found.longest, found.thresholds, strict=True)
        if found.complete and count <= found.n
    ]
    if not reached:
        return f"{sure} no answer listed is one that nobody gave; none is sure to be found"
    shown = reached if len(reached) <= 3 else [*reached[:2], "...", reached[-1]]
    return (
        f"{sure} every answer of at least {', '.join(shown)} is found, "
        "and no answer listed is one that nobody gave"
    )

"""Open answers, the whole way: texts in, the most frequent ones out, with errors and guarantee."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.devices import Crowd
from shoal.accounting.guarantee import Guarantee
from shoal.engines import Clock, LocalEngine, Progress, Tell, reading
from shoal.engines.shuffling import RUN_HERE
from shoal.errors import InvalidArgumentError
from shoal.estimate.hitters import HeavyHitters
from shoal.estimate.hitters import heavy_hitters as found_in
from shoal.explain.document import Document, Row, Table
from shoal.protocols.prefixes import (
    BETA,
    LENGTH,
    MESSAGES,
    PrefixCollector,
    PrefixDummies,
    PrefixResponse,
)
from shoal.protocols.strings import Alphabet
from shoal.randomizers.base import source
from shoal.randomness import Randomness
from shoal.results import Record, framed, harmless, interval_cells
from shoal.values import Array, Counts, Estimate

__all__ = ["OpenItem", "OpenResult", "heavy_hitters"]

TOP = 50
EMPTY = "(empty)"
NOT_PRIVATE = "true counts are included for comparison: this result is not private"
INCOMPLETE = "more prefixes stood out than could be followed: frequent answers may be missing"
_PIECE = 1 << 17
_KEYS = 10**15


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
            "warnings": list(self.warnings),
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

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        return (*([] if self.found.complete else [INCOMPLETE]), *self.guarantee.warnings)

    def document(self) -> Document:
        """The answers, the guarantee, what the list is sure to have, notes and warnings."""
        rows = []
        for item in self.items:
            share, low, high = (100 * part for part in (item.share, item.low, item.high))
            rows.append(Row((item.label, *interval_cells(share, low, high, " %"))))
        heads = ("answer", "share", "95 % interval")
        notes = [f"list: {self.statement}"]
        if self.missed is not None:
            notes.append(f"of the answers above their threshold, {len(self.missed)} were missed")
        return replace(
            self.guarantee.document(),
            table=Table(heads, tuple(rows), frozenset({1}), self.column) if rows else None,
            notes=(*notes, *self.notes),
            warnings=self.warnings,
        )

    def _repr_html_(self) -> str:
        return framed(self.to_html())

    def __str__(self) -> str:
        """The answers, the most frequent first, and the guarantee, as text."""
        return str(self.document())


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
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        return self.result.warnings

    @property
    def contains_truth(self) -> bool:
        """Whether true counts are in it."""
        return self.result.contains_truth


def heavy_hitters(
    data: object,
    *,
    column: str | None = None,
    epsilon: float,
    delta: float = 1e-6,
    top: int = TOP,
    length: int = LENGTH,
    alphabet: str | bytes | None = None,
    messages_cap: float = MESSAGES,
    single: bool = False,
    beta: float = BETA,
    honest_fraction: float = 1.0,
    compare_truth: bool = False,
    randomness: Randomness | None = None,
    progress: Tell | None = None,
) -> OpenResult:
    """Find the answers that many people gave, without a list of answers.

    ``data`` is a table or file with a ``column`` of text, one person per row, or else a list of
    texts. Rows without an answer count as the empty answer. Answers are cut to ``length`` bytes of
    UTF-8 and may have any characters, or those of the public ``alphabet`` only, which finds rarer
    ones. People send at most ``messages_cap`` messages on average, or one each if that is 1 or if
    ``single``.

    With probability 1 - ``beta`` at least no answer found is one that nobody gave, and all answers
    of as many people as the result's threshold says are found, or the result notes that some may be
    missing. ``compare_truth`` adds the true counts, which makes the result not private.
    """
    size = checks.count(top=top)
    clock = Clock()
    with clock("read"):
        texts = _Texts.of(data, column)
        total = texts.size()
    with clock("plan"):
        honest = Crowd(total, honest_fraction).honest
        bits = source(randomness)
        key = int(bits.below(_KEYS, 1)[0])  # public, but unknown when people chose their answers
        kind: Callable[..., PrefixCollector] = PrefixResponse.calibrated
        if not single and messages_cap != 1:
            kind = partial(PrefixDummies.calibrated, messages_cap=messages_cap)
        mechanism = kind(
            n=honest,
            epsilon=epsilon,
            delta=delta,
            length=length,
            alphabet=alphabet,
            beta=beta,
            hash_key=key,
        )
    with clock("account"):
        guarantee = amplification.amplify(
            mechanism, n=total, delta=delta, honest_fraction=honest_fraction
        )
    collection = _Collection(mechanism, bits, clock, Progress(progress, total), compare_truth)
    counts, truth = collection.counted(texts)
    if counts.n != total:
        raise InvalidArgumentError(
            "column", texts.name, "data that stays the same while it is read"
        )
    with clock("find"):
        found = found_in(mechanism, counts, beta=beta)
    return OpenResult(
        column=texts.name,
        items=_items(found, size, truth),
        found=found,
        mechanism=mechanism,
        # What the cells of two texts reveal is an upper bound only: nothing is known from below.
        guarantee=replace(guarantee, lower_bound=lambda: 0.0),
        notes=_notes(found, length, size, compare_truth=compare_truth),
        missed=_missed(found, mechanism.tree.alphabet, truth),
        stages={stage: round(taken, 3) for stage, taken in clock.seconds.items()},
    )


@dataclass(frozen=True, eq=False)
class _Texts:
    """A column of texts, or a list of them."""

    name: str
    column: reading.Column | None
    listed: Sequence[str]

    @classmethod
    def of(cls, data: object, column: str | None) -> _Texts:
        if column is not None:
            return cls(column, _textual(reading.column(data, column)), ())
        if (
            isinstance(data, str | bytes)
            or hasattr(data, "columns")
            or not hasattr(data, "__iter__")
        ):
            expected = "the name of a column of text (only a list of texts has none)"
            raise InvalidArgumentError("column", column, expected)
        turned = getattr(data, "to_list", None) or getattr(data, "tolist", None)
        values = turned() if callable(turned) else list(data)
        kinds = {kind.__name__ for kind in set(map(type, values)) - {str, type(None)}}
        if kinds:
            raise InvalidArgumentError("data", ", ".join(sorted(kinds)), "a list of texts only")
        return cls("answers", None, ["" if text is None else text for text in values])

    def size(self) -> int:
        """How many people there are."""
        n = len(self.listed) if self.column is None else self.column.size()[0]
        if n < 1:
            raise InvalidArgumentError("rows", n, f"at least one row in column {self.name}")
        return n

    def chunks(self) -> Iterator[list[str]]:
        """Everybody's text, piece by piece."""
        if self.column is None:
            for start in range(0, len(self.listed), _PIECE):
                yield list(self.listed[start : start + _PIECE])
            return
        import polars as pl

        frame = self.column.frame.select(pl.first().cast(pl.String).fill_null(""))
        for batch in frame.collect_batches(chunk_size=_PIECE, maintain_order=True, lazy=True):
            yield batch.to_series().to_list()


def _textual(column: reading.Column) -> reading.Column:
    import polars as pl

    (kind,) = column.frame.collect_schema().dtypes()
    if kind not in {pl.String, pl.Categorical, pl.Enum}:
        expected = f"a column of text ({column.name} holds {kind})"
        raise InvalidArgumentError("column", column.name, expected)
    return column


@dataclass(frozen=True)
class _Collection:
    """Makes the reports and counts them."""

    mechanism: PrefixCollector
    randomness: Randomness
    clock: Clock
    progress: Progress
    compare_truth: bool

    def counted(self, texts: _Texts) -> tuple[Counts, Counter[str] | None]:
        """The counts of all cells, and the true ones of all texts if asked for."""
        total = Counts(np.zeros(self.mechanism.tree.k, dtype=np.int64), 0)
        truth: Counter[str] = Counter()
        for piece in self.clock.each("read", texts.chunks()):
            with self.clock("randomize"):
                reports = self.mechanism.randomize(piece, randomness=self.randomness)
            with self.clock("count"):
                total = total + LocalEngine().count(self.mechanism, [reports])
            if self.compare_truth:
                truth.update(piece)
            self.progress.add(len(piece))
        return total, _as_sent(truth, self.mechanism.tree.alphabet) if self.compare_truth else None


def _as_sent(truth: Counter[str], alphabet: Alphabet) -> Counter[str]:
    """The true counts of the texts as they are cut."""
    cut: Counter[str] = Counter()
    for text, count in zip(alphabet.texts(alphabet.pack(list(truth))), truth.values(), strict=True):
        cut[text] += count
    return cut


def _items(found: HeavyHitters, top: int, truth: Counter[str] | None) -> tuple[OpenItem, ...]:
    lows, highs = (limits / found.n for limits in found.interval())
    return tuple(
        OpenItem(
            label=text or EMPTY,
            count=float(found.counts[place]),
            share=float(found.frequencies[place]),
            low=float(lows[place]),
            high=float(highs[place]),
            truth=None if truth is None else truth[text],
        )
        for place, text in enumerate(found.texts[:top])
    )


def _missed(
    found: HeavyHitters, alphabet: Alphabet, truth: Counter[str] | None
) -> tuple[str, ...] | None:
    if truth is None:
        return None
    listed = set(found.texts)
    frequent = [text for text, count in truth.items() if count >= min(found.thresholds)]
    sizes = np.count_nonzero(alphabet.pack(frequent), axis=1).tolist()
    return tuple(
        text
        for text, size in zip(frequent, sizes, strict=True)
        if text not in listed and truth[text] >= found.threshold_of(size)
    )


def _notes(found: HeavyHitters, length: int, top: int, *, compare_truth: bool) -> tuple[str, ...]:
    notes = [f"answers are cut to {length} bytes; rows without one count as {EMPTY}"]
    if len(found) > top:
        notes.append(f"{len(found)} answers were found, of which the first {top} are listed")
    notes.append("for what is sure about the list, hash tables are taken as random functions")
    notes.append(RUN_HERE)
    if compare_truth:
        notes.append(NOT_PRIVATE)
    return tuple(notes)


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

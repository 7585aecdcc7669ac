"""Open answers, the whole way: texts in, the most frequent ones out, with errors and guarantee."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from shoal import checks
from shoal.accounting import amplification
from shoal.accounting.devices import People
from shoal.accounting.guarantee import Guarantee, default_delta
from shoal.engines import tables
from shoal.engines.counting import Counting, Report
from shoal.engines.engine import Engine
from shoal.engines.shuffling import RUN_HERE
from shoal.engines.tables import Local
from shoal.estimate import hitters
from shoal.estimate.hitters import HeavyHitters
from shoal.explain.document import Document
from shoal.explain.text import Item
from shoal.explain.views import Tabular
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.prefixes import (
    BETA,
    MESSAGES,
    Alphabet,
    PrefixCollector,
    PrefixDummies,
    PrefixResponse,
)
from shoal.questions.kinds import Text
from shoal.questions.settled import Answers, Spelled
from shoal.questions.terms import EVERYBODY, NO_LIMITS, Crowd, Limits, require
from shoal.randomness import Randomness, source
from shoal.results.result import (
    ColumnResult,
    Result,
    Stages,
    in_table,
    items_table,
    write_csv,
)
from shoal.values import Record, attributes

__all__ = ["OpenItem", "OpenResult", "heavy_hitters"]

TOP = 50
EMPTY = "(empty)"
NOT_PRIVATE = "true counts are included for comparison: this result is not private"
INCOMPLETE = "more prefixes stood out than could be followed: frequent answers may be missing"
BELOW = (
    "{} listed with fewer people than are sure to be found: their intervals do not count that only "
    "answers that stand out are listed"
)
ANSWERS = "answers"  # what a list of texts is called
_KEYS = 10**15


@dataclass(frozen=True)
class OpenItem:
    """One answer that :func:`shoal.heavy_hitters` found: about how many gave it.

    Attributes:
        label: The answer.
        count: The estimated number of people.
        share: The same as a fraction of all.
        low: Lower end of a 95 % interval of the fraction, which does not count that only answers
            that stand out are listed: see ``below_threshold``.
        high: Upper end.
        truth: The true count, if it is compared.
        below_threshold: Whether the count is below that from which on answers are sure to be
            listed. Of answers with far fewer people only those whose noise is large are listed, and
            their intervals are mostly above the truth.
    """

    label: str
    count: float
    share: float
    low: float
    high: float
    truth: int | None = None
    below_threshold: bool = False

    def to_dict(self) -> Record:
        """Plain values."""
        known = {} if self.truth is None else {"truth": self.truth}
        named = {"value": self.label, "frequency": self.share, "count": self.count}
        marked = {"below_threshold": self.below_threshold}
        return named | {"low": self.low, "high": self.high} | known | marked

    def shown(self, n: int) -> Item:
        """The same in percent of n people, as charts show it."""
        value, low, high = (100 * part for part in (self.share, self.low, self.high))
        truth = None if self.truth is None else 100 * self.truth / n
        return Item(self.label, value, low, high, self.count, truth=truth, unit=" %")


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenResult(Tabular):
    """What :func:`shoal.heavy_hitters` found, and what is guaranteed.

    Attributes:
        column: The name of the column.
        items: The most frequent answers, ``top`` of them at most.
        found: All that were found, with the threshold above which none is missing.
        mechanism: What each device ran.
        guarantee: The (ε, δ) of everybody.
        notes: What was done, in words.
        missed: Answers above the threshold that were not found, if the truth is compared.
        stages: Seconds that each stage took.
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

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        return (*([] if self.found.complete else [INCOMPLETE]), *self.guarantee.warnings)

    @property
    def findings(self) -> tuple[str, ...]:
        """What the list is sure to have."""
        return (f"list: {self.statement}",)

    def records(self) -> list[Record]:
        """One row per answer."""
        return [item.to_dict() for item in self.items]

    def _rows(self) -> list[Record]:
        return [in_table(row) for row in self.records()]

    def to_dict(self) -> Record:
        """Plain values, as the command line's ``--json`` prints them."""
        mechanism = self.mechanism
        return {
            **attributes(self, "column", "n"),
            "guarantee": self.guarantee.to_dict(),
            "estimates": self.records(),
            "listed": len(self.found),
            "thresholds": [
                {"bytes": cut, "count": count if np.isfinite(count) else None}
                for cut, count in zip(self.found.longest, self.found.thresholds, strict=True)
            ],
            **attributes(self.found, "beta", "complete"),
            "mechanism": {
                "name": mechanism.name,
                "cells": mechanism.tree.k,
                "levels": mechanism.tree.levels,
                **attributes(mechanism, "messages", "message_bits", "local_epsilon"),
            },
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "stages": dict(self.stages),
            "contains_truth": self.contains_truth,
        }

    def to_csv(self, path: str | Path) -> None:
        """One line per answer; what a spreadsheet would run as a formula gets an apostrophe."""
        columns = ("value", "fraction", "count", "low", "high", "below_threshold")
        write_csv(path, self._rows(), columns)

    def to_html(self) -> str:
        """One self-contained page: one question with the answers that were found."""
        return self._question().to_html()

    def _question(self) -> Result:
        """The same as the result of a question with the answers that were found."""
        frequent, n, size = self.found, self.n, len(self.items)
        errors = frequent.standard_errors[:size] / n
        truth = np.array([item.truth or 0 for item in self.items]) / n
        column = ColumnResult(
            column=self.column,
            labels=tuple(item.label for item in self.items),
            estimate=Estimate(frequent.frequencies[:size], errors, n),
            randomizer=self.mechanism,
            guarantee=self.guarantee,
            n=n,
            truth=truth if self.contains_truth else None,
            notes=(self.statement, *self.notes),
            warnings=() if frequent.complete else (INCOMPLETE,),
        )
        return Result(columns=(column,), guarantee=self.guarantee, notes=column.notes)

    def document(self, *, table: bool = True) -> Document:
        """The answers (unless there is to be no table), the guarantee, what the list has, notes."""
        notes = [f"list: {self.statement}"]
        if self.missed is not None:
            notes.append(f"{len(self.missed)} of the answers above their threshold were missed")
        items = [item.shown(self.n) for item in self.items if table]
        return replace(
            self.guarantee.document(),
            table=items_table(items, self.column) if items else None,
            notes=(*notes, *self.notes),
            warnings=self.warnings,
        )

    def _repr_html_(self) -> str:
        return self._question()._repr_html_()

    def __str__(self) -> str:
        """The answers, the most frequent first, and the guarantee, as text."""
        return str(self.document())


def heavy_hitters(
    data: object,
    question: Text | str | None = None,
    *,
    epsilon: float,
    delta: float | None = None,
    top: int = TOP,
    crowd: Crowd = EVERYBODY,
    limits: Limits = NO_LIMITS,
    beta: float = BETA,
    compare_truth: bool = False,
    randomness: Randomness | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> OpenResult:
    """Find the answers that many people gave, without a list of answers.

    With probability 1 − beta no answer found is one that nobody gave, and all answers
    of as many people as the result's threshold says are found, or the result notes that
    some may be missing.

    Args:
        data: A table or file with a column of text, one person per row, or a list of
            texts. Rows without an answer count as the empty answer.
        question: A :class:`shoal.Text`, or the name of the column; a list needs none.
        epsilon: ε > 0 of everybody's report.
        delta: δ; min(1e-6, 1/(10 n)) unless given.
        top: The most answers that are listed.
        crowd: Who takes part.
        limits: How many messages one person sends on average at most, 10 unless it says
            otherwise; with messages=1 one each.
        beta: Probability in (0, 1) with which the list may be wrong.
        compare_truth: Add the true counts, which makes the result not private.
        randomness: That of a simulation; None is secure.
        progress: Called with the number of reports made and the number of all.

    Returns:
        A :class:`shoal.open_answers.OpenResult`.

    Raises:
        InvalidArgumentError: A number is out of its range, or there is no row.
        UnreachableTargetError: So few people cannot keep the target by so few messages.

    References:
        :doc:`/theory/dummies` for several messages, :doc:`/theory/blanket` for one
        each.

    Example:
        >>> import shoal
        >>> from shoal.randomness import simulated as draw
        >>> answers = ["no"] * 3_000 + ["yes"] * 2_000
        >>> asked = shoal.Text("answer", length=3, alphabet="enosy")
        >>> found = shoal.heavy_hitters(answers, asked, epsilon=1, randomness=draw(1))
        >>> [item.label for item in found.items]
        ['no', 'yes']
    """
    size = checks.count(top=top)
    listed = tables.listed(data) and not isinstance(question, str)
    name = tables.only_column(data) if question is None and not listed else question
    expected = "a Text, or the name of a column of text (only a list of texts has none)"
    unnamed = isinstance(name, str) or (name is None and listed)
    asked = cast("Text", Text(ANSWERS if name is None else str(name)) if unnamed else name)
    checks.refuse(getattr(asked, "kind", None) != Text.kind, expected, question=name)
    _check(crowd, limits)
    stages = Stages()
    with stages("read"):
        table, coding = _texts(data, asked, listed=listed), Spelled(asked.name)
        total, _ = table.size(coding)
        checks.refuse(total < 1, f"at least one row in column {asked.name}", rows=total)
    delta = default_delta(total) if delta is None else delta
    with stages("plan"):
        bits = source(randomness)
        people = People(total, crowd).honest
        target = {"n": people, "epsilon": epsilon, "delta": delta, "beta": beta}
        mechanism = _mechanism(asked, limits.messages, bits, **target)
    with stages("account"):
        guarantee = amplification.amplify(mechanism, n=total, delta=delta, crowd=crowd)
    counting = Counting(coding, (Report(mechanism),))
    (counts,) = counting.total(table, total, bits, stages, progress).counts
    with stages("find"):
        frequent = hitters.heavy_hitters(mechanism, counts, beta=beta)
    sent = None
    if compare_truth:
        sent = _as_sent(table.answers(asked.name, few=False), mechanism.tree.alphabet)
    items = _items(frequent, size, sent, mechanism.tree.alphabet)
    notes = _notes(asked.length, frequent, items)
    return OpenResult(
        column=asked.name,
        items=items,
        found=frequent,
        mechanism=mechanism,
        # What the cells of two texts reveal is an upper bound only: nothing is known from below.
        guarantee=replace(guarantee, lower_bound=lambda: 0.0),
        notes=(*notes, RUN_HERE, *[NOT_PRIVATE] * compare_truth),
        missed=None if sent is None else _missed(frequent, mechanism.tree.alphabet, sent),
        stages={stage: round(taken, 3) for stage, taken in stages.items()},
    )


def _check(crowd: Crowd, limits: Limits) -> None:
    """Of terms, those that texts know."""
    require(crowd, limits)
    expected = "no participation: every row of a table reports"
    checks.refuse(crowd.participation < 1, expected, participation=crowd.participation)
    expected = "a finite number of messages with texts"
    checks.refuse(limits.messages == math.inf, expected, messages=limits.messages)
    for name in ("local_epsilon", "each", "weaker"):
        wish = getattr(limits, name)
        checks.refuse(
            wish, f"no {name} with texts: they know the limit of messages only", **{name: wish}
        )


def _mechanism(
    question: Text, messages: float | None, bits: Randomness, **target: float
) -> PrefixCollector:
    """With the least noise that keeps the target: of several messages, or of one."""
    kind: Callable[..., PrefixCollector] = PrefixResponse.calibrated
    if messages != 1:
        most = MESSAGES if messages is None else messages
        kind = partial(PrefixDummies.calibrated, messages_cap=most)
    return kind(
        **target,
        length=question.length,
        alphabet=question.alphabet,
        hash_key=int(bits.below(_KEYS, 1)[0]),  # public, but unknown when people answered
    )


def _notes(length: int, frequent: HeavyHitters, items: Sequence[OpenItem]) -> list[str]:
    """What was done with texts, and what is not listed."""
    notes = [f"answers are cut to {length} bytes; rows without one count as {EMPTY}"]
    if len(frequent) > len(items):
        size = len(items)
        notes.append(f"{len(frequent)} answers were found, of which the first {size} are listed")
    if below := sum(item.below_threshold for item in items):
        notes.append(BELOW.format(below))
    notes.append("the statement about the list treats hash functions as random")
    return notes


def _texts(data: object, question: Text, *, listed: bool) -> Engine:
    """The texts of people, or of a list."""
    import polars as pl

    name = question.name
    if not listed:
        table = tables.table(data, [name])
        kind = table.kind(name)
        expected = f"a column of text ({name} holds {kind} values)"
        checks.refuse(kind != "text", expected, column=name)
        return table
    given: Any = data
    turned = getattr(given, "to_list", None) or getattr(given, "tolist", None)
    values = turned() if callable(turned) else list(given)
    kinds = {kind.__name__ for kind in set(map(type, values)) - {str, type(None)}}
    checks.refuse(kinds, "a list of texts only", data=", ".join(sorted(kinds)))
    return Local(pl.LazyFrame({name: pl.Series(values, dtype=pl.String)}))


def _as_sent(answers: Answers, alphabet: Alphabet) -> Counter[str]:
    """The true counts of the texts as they are cut."""
    cut = Counter({"": answers.nulls})
    texts, counts = answers.tally.get_columns()
    for text, count in zip(alphabet.texts(alphabet.pack(texts.to_list())), counts, strict=True):
        cut[text] += count
    return cut


def _items(
    texts: HeavyHitters, top: int, truth: Counter[str] | None, alphabet: Alphabet
) -> tuple[OpenItem, ...]:
    lows, highs = (limits / texts.n for limits in texts.interval())
    sizes = np.count_nonzero(alphabet.pack(list(texts.texts[:top])), axis=1).tolist()
    return tuple(
        OpenItem(
            label=text or EMPTY,
            count=float(texts.counts[place]),
            share=float(texts.frequencies[place]),
            low=float(lows[place]),
            high=float(highs[place]),
            truth=None if truth is None else truth[text],
            below_threshold=bool(texts.counts[place] < texts.threshold_of(size)),
        )
        for place, (text, size) in enumerate(zip(texts.texts[:top], sizes, strict=True))
    )


def _missed(texts: HeavyHitters, alphabet: Alphabet, truth: Counter[str]) -> tuple[str, ...]:
    listed = set(texts.texts)
    frequent = [text for text, count in truth.items() if count >= min(texts.thresholds)]
    sizes = np.count_nonzero(alphabet.pack(frequent), axis=1).tolist()
    return tuple(
        text
        for text, size in zip(frequent, sizes, strict=True)
        if text not in listed and truth[text] >= texts.threshold_of(size)
    )


def threshold_statement(texts: HeavyHitters) -> str:
    """What the list is sure to have, in words."""
    sure = f"with probability {1 - texts.beta:.5g}"
    reached = [
        f"{round(np.ceil(count)):,} people (up to {cut} bytes)"
        for cut, count in zip(texts.longest, texts.thresholds, strict=True)
        if texts.complete and count <= texts.n
    ]
    if not reached:
        return f"{sure} no answer listed is one that nobody gave; none is sure to be found"
    shown = reached if len(reached) <= 3 else [*reached[:2], "...", reached[-1]]
    return (
        f"{sure} every answer of at least {', '.join(shown)} is found, "
        "and no answer listed is one that nobody gave"
    )

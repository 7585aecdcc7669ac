"""The result of a column by groups: how many people each has, and a chart of their answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np

from shoal.estimate import groups
from shoal.estimate.groups import NOBODY, Group
from shoal.explain.document import Row, Table
from shoal.explain.text import Item, whole
from shoal.intervals.estimates import Estimate
from shoal.mechanisms.estimators import AnswerEstimator
from shoal.questions.edges import Edges
from shoal.results.charts import LEVEL, Kind, Panel, counted
from shoal.results.result import ColumnResult, mean_words
from shoal.values import Record


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedResult(ColumnResult):
    """A column of answers by groups: the answers of the first group, of the second, and so on.

    ``labels`` are of a group and an answer, in the order of the estimate. Answers with an ``order``
    of their own are shown in it, others the most frequent first.
    """

    group_labels: tuple[str, ...]
    answers: tuple[str, ...]
    inner: Edges | None = None  # that the answers are

    @property
    def kind(self) -> Kind:
        """A chart for each group."""
        return "groups"

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups: their sizes, and the fractions inside them, with 95 % intervals."""
        estimator = cast("AnswerEstimator", self.randomizer.estimator)
        return groups.split(estimator, cast("Estimate", self.estimate), self.group_labels, LEVEL)

    def records(self) -> list[Record]:
        """One row per group and answer: of all people, within the group, and the group's size."""
        records: list[Record] = []
        for i, row in enumerate(super().records()):
            number, place = divmod(i, len(self.answers))
            group = self.groups[number]
            fraction = dict.fromkeys(("fraction", "fraction_low", "fraction_high"))
            if group.fractions is not None:
                inside = (group.fractions, group.lows, group.highs)
                fraction = dict(zip(fraction, (float(each[place]) for each in inside), strict=True))
            records.append(
                {"group": group.label}
                | row
                | {"value": self.answers[place]}
                | self._ends(place)
                | fraction
                | {f"group_{name}": getattr(group, name) for name in ("count", "low", "high")}
                | self._mean(number)
            )
        return records

    def sentences(self) -> list[str]:
        """None: the mean of each group is beside its chart."""
        return []

    def _mean(self, group: int) -> Record:
        """That of a group, if answers stand for numbers."""
        if self.scored is None:
            return {}
        mean = self.means[group]
        return {"group_mean": mean.mean, "group_mean_low": mean.low, "group_mean_high": mean.high}

    def _ends(self, place: int) -> Record:
        """Those of a bin."""
        if self.inner is None:
            return {}
        ends = self.inner.span(place, place) if place < len(self.inner) else (None, None)
        return dict(zip(("from", "to"), ends, strict=True))

    def to_dict(self) -> Record:
        """Plain values."""
        sizes = [
            {"group": group.label, "count": group.count, "low": group.low, "high": group.high}
            | ({"truth": true} if (true := self._true_size(i)) is not None else {})
            | {"empty": group.fractions is None}
            for i, group in enumerate(self.groups)
        ]
        return super().to_dict() | {"groups": sizes}

    def panels(self) -> list[Panel]:
        """A chart for each group, answers in the same order in all of them."""
        estimate, k = cast("Estimate", self.estimate), len(self.answers)
        flags = (estimate.frequencies >= estimate.noise_floor(LEVEL)).reshape(-1, k)
        counts = estimate.counts.reshape(-1, k)
        order = np.argsort(-counts.sum(axis=0), kind="stable").tolist()
        order = order if self.order is None else list(self.order)
        panels = []
        for i, group in enumerate(self.groups):
            size = Item(group.label, group.count, group.low, group.high, truth=self._true_size(i))
            items: list[Item] = []
            if group.fractions is not None:
                true = None if size.truth is None else self._true_counts[i] / max(size.truth, 1)
                items = [
                    Item(
                        label=self.answers[j],
                        value=float(group.fractions[j]),
                        low=float(group.lows[j]),
                        high=float(group.highs[j]),
                        total=float(counts[i, j]),
                        significant=bool(flags[i, j]),
                        truth=None if true is None else float(true[j]),
                    ).percent
                    for j in order
                ]
            words = people(group, counted(self.guarantee))
            if self.scored is not None and items:
                words += f"; {mean_words(self.means[i], self.true_mean(i))}"
            panels.append(Panel(group.label, size, items, words))
        return panels

    @cached_property
    def _true_counts(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        true = np.zeros(len(self.labels)) if self.truth is None else self.truth * self.n
        return np.rint(true).reshape(len(self.group_labels), -1)

    def _true_size(self, group: int) -> float | None:
        return None if self.truth is None else float(self._true_counts[group].sum())

    def table(self) -> Table:
        """The answers in each group with their 95 % intervals, to the digits of their error."""
        rows: list[Row] = []
        for panel in self.panels():
            rows.append(Row((panel.label, panel.people, "", ""), "strong"))
            rows += [Row(("", item.label, *item.cells)) for item in panel.items]
        heads = (self.by, "answer", "fraction", "95 % interval")
        return Table(heads, tuple(rows), frozenset({2}), self.title)


def people(group: Group, counted: str = "people") -> str:
    """How many there are, people or reports of theirs, with the interval, in words."""
    if group.fractions is None:
        return f"{NOBODY}: at most {whole(group.high)}"
    return f"about {whole(group.count)} {counted}, {whole(group.low)} to {whole(group.high)}"

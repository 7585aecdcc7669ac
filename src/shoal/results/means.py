"""The result of numbers by groups, or of numbers that may be missing: means, and of how many.

Numbers were rounded at random to a few steps, which are cells of a histogram.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.estimate.groups import NOBODY
from shoal.explain.document import Row, Table
from shoal.explain.text import Item, whole
from shoal.planning.schemes import Rounded
from shoal.questions.kinds import spelled
from shoal.questions.settled import Settled
from shoal.results.charts import Kind, counted
from shoal.results.result import ColumnResult, Scored
from shoal.values import Record


@dataclass(frozen=True, kw_only=True, eq=False)
class MeansResult(ColumnResult):
    """The mean of a column, or of that of each group, with how many people have a number.

    ``labels`` are the groups; without groups there is one mean, of the column itself. The estimate
    is of the cells, and ``truth`` of how many have a number and of their sum, group by group.
    """

    scored: Scored

    @classmethod
    def of(cls, settled: Settled, scheme: Rounded, **fields: Any) -> MeansResult:  # noqa: ANN401
        """The result of such a question."""
        groups = settled.groups
        labels = ("mean",) if groups is None else groups.labels
        cells = [each.tolist() for each in scheme.cells]
        scored = Scored(cells, scheme.scores.tolist(), labels, scheme.steps)
        by = "" if groups is None else groups.name
        return cls(by=by, scored=scored, **fields | {"labels": labels, "order": None})

    @property
    def kind(self) -> Kind:
        """A mean, or one for each group."""
        return "means" if self.by or self.means[0].mean is None else "mean"

    @property
    def bounds(self) -> tuple[float, float]:
        """The public bounds of the numbers."""
        return self.scored.scores[0], self.scored.scores[-1]

    def true_mean(self, group: int = 0) -> float | None:
        """The true one, if it is compared and there is one."""
        if self.truth is None:
            return None
        count, total = self.truth.reshape(2, -1)[:, group].tolist()
        return total / count if count > 0 else None

    def items(self, most: int | None = None) -> list[Item]:  # noqa: ARG002 - all are shown
        """A mean with its interval for each group that is not empty."""
        return [
            replace(mean.item, truth=self.true_mean(i))
            for i, mean in enumerate(self.means)
            if mean.item is not None
        ]

    def records(self) -> list[Record]:
        """One row per group: its mean, and how many people with a number it has."""
        named = () if self.by else ("group",)
        return [
            {name: cell for name, cell in row.items() if name not in named}
            for row in self.mean_records()
        ]

    def sentences(self) -> list[str]:
        """How many people have a number, of the only mean; else which groups may have nobody."""
        what = counted(self.guarantee)
        if self.by:
            empty = [mean.label for mean in self.means if mean.mean is None]
            return [f"{NOBODY}: {spelled(empty, 'groups')}"] if empty else []
        (mean,) = self.means
        if mean.mean is None:
            return [f"at most {whole(mean.count_high)} {what} have a number"]
        most = f"{whole(mean.count_low)} to {whole(mean.count_high)}"
        return [f"about {whole(mean.count)} {what} have a number (95 % interval {most})"]

    def table(self) -> Table:
        """The means with their 95 % intervals, and how many people each is of."""
        what, rows = counted(self.guarantee), []
        by_label = {item.label: item for item in self.items()}
        for i, mean in enumerate(self.means):
            item, true = by_label.get(mean.label), self.true_mean(i)
            cells = (NOBODY, "") if item is None else item.cells
            truly = () if self.truth is None else ("" if true is None else f"{true:,.4g}",)
            rows.append(Row((mean.label, *cells, whole(np.maximum(mean.count, 0.0)), *truly)))
        private = () if self.truth is None else ("true mean: not private",)
        heads = (self.by or "", "mean", "95 % interval", f"{what}, about", *private)
        return Table(heads, tuple(rows), frozenset({1, 3, 4}), self.title)

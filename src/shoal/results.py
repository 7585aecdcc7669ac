"""What a run gives back: estimates with their errors, the guarantee, and what to know."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError
from shoal.explain import plots
from shoal.explain.document import Document, Row, Table
from shoal.explain.text import measured
from shoal.planning import Plan
from shoal.protocols.base import Device
from shoal.protocols.registry import described
from shoal.values import Array, Estimate, MeanEstimate, VectorEstimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Record = dict[str, object]
AnyEstimate = Estimate | MeanEstimate | VectorEstimate
_MOST_DRAWN = 40
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnResult:
    """One column: its answers, what was estimated, by which randomizer, how private by itself.

    Or the columns of a vector, which are its labels.
    """

    column: str
    labels: tuple[str, ...]
    estimate: AnyEstimate
    randomizer: Device
    guarantee: Guarantee
    n: int
    plan: Plan | None = None
    truth: Array | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def records(self) -> list[Record]:
        """One row per answer or coordinate, or one for a mean; limits are of 95 % intervals."""
        estimate = self.estimate
        if isinstance(estimate, MeanEstimate):
            low, high = estimate.interval()
            numbers = {"mean": estimate.mean, "sum": estimate.sum, "low": low, "high": high}
            return [{**numbers, **self._true(0)}]
        lows, highs = estimate.interval()
        if isinstance(estimate, VectorEstimate):
            return self._coordinates(estimate, lows, highs)
        cells = zip(self.labels, estimate.frequencies, estimate.counts, lows, highs, strict=True)
        return [
            {
                "value": label,
                "frequency": float(frequency),
                "count": float(count),
                "low": float(low),
                "high": float(high),
                **self._true(index),
            }
            for index, (label, frequency, count, low, high) in enumerate(cells)
        ]

    def _coordinates(self, estimate: VectorEstimate, lows: Array, highs: Array) -> list[Record]:
        columns = {
            "mean": estimate.mean,
            "sum": estimate.sum,
            "standard_error": estimate.standard_errors,
            "low": lows,
            "high": highs,
        }
        return [
            {
                "coordinate": label,
                **{name: float(values[i]) for name, values in columns.items()},
                **self._true(i),
            }
            for i, label in enumerate(self.labels)
        ]

    def to_dict(self) -> Record:
        """Plain values."""
        return {
            "column": self.column,
            "n": self.n,
            "guarantee": self.guarantee.to_dict(),
            "randomizer": _randomizer(self.randomizer),
            "estimates": self.records(),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def table(self) -> Table:
        """The estimates with their 95 % intervals, to the digits of their error, largest first."""
        estimate = self.estimate
        if isinstance(estimate, MeanEstimate):
            low, high = estimate.interval()
            cells = interval_cells(estimate.mean, low, high)
            return Table(("mean", "95 % interval"), (Row(cells),), frozenset({0}), self.column)
        lows, highs = estimate.interval()
        if isinstance(estimate, VectorEstimate):
            values, what, unit, scale = estimate.mean, "mean", "", 1
            order = np.arange(values.size)
        else:
            values, what, unit, scale = estimate.frequencies, "share", " %", 100
            order = np.argsort(-values, kind="stable")
        rows = tuple(
            Row(
                (
                    self.labels[i],
                    *interval_cells(scale * values[i], scale * lows[i], scale * highs[i], unit),
                )
            )
            for i in order
        )
        heads = ("coordinate" if unit == "" else "answer", what, "95 % interval")
        return Table(heads, rows, frozenset({1}), self.column)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The estimates with their 95 % intervals, the largest first, at most 40 of them."""
        records = self.records()
        key = next(name for name in ("frequency", "mean") if name in records[0])
        scale, unit = (100, " %") if key == "frequency" else (1, "")
        if key == "frequency":
            records.sort(key=lambda record: -record[key])  # type: ignore[operator]
        rows, intervals = [], []
        for record in records[:_MOST_DRAWN]:
            value, low, high = (scale * float(record[name]) for name in (key, "low", "high"))  # type: ignore[arg-type]
            name = str(record.get("value", record.get("coordinate", "mean")))
            text = f"{measured(value, (high - low) / 2)}{unit}"
            rows.append((name, value, text, plots.BLUE))
            intervals.append((low, high))
        more = f"; {len(records) - len(rows):,} more" if len(records) > len(rows) else ""
        what = "fraction of the answers, %" if unit else "mean"
        with plots.on(ax, 1.5 + 0.26 * len(rows)) as axes:
            plots.dots(
                axes,
                rows,
                intervals=intervals,
                xlabel=f"{what}, with 95 % intervals{more}",
                title=self.column,
                log=False,
            )
        return axes

    def _true(self, index: int) -> Record:
        return {} if self.truth is None else {"truth": float(self.truth[index])}


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """All columns of a run, and the guarantee that holds for all of them together."""

    columns: tuple[ColumnResult, ...]
    guarantee: Guarantee
    notes: tuple[str, ...]
    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before relying on it."""
        several = len(self.columns) > 1
        own = (
            f"{column.column}: {warning}" if several else warning
            for column in self.columns
            for warning in column.warnings
        )
        return (*own, *self.guarantee.warnings)

    @property
    def contains_truth(self) -> bool:
        """Whether true values are in it: then it is not private."""
        return any(column.truth is not None for column in self.columns)

    @property
    def only(self) -> ColumnResult:
        """The column, if there is one only."""
        if len(self.columns) > 1:
            names = ", ".join(column.column for column in self.columns)
            raise InvalidArgumentError("columns", names, "one column (use .columns for several)")
        return self.columns[0]

    @property
    def estimate(self) -> AnyEstimate:
        """The estimate of the only column."""
        return self.only.estimate

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers of the only column, or the coordinates, in the order of its estimate."""
        return self.only.labels

    @property
    def randomizer(self) -> Device:
        """What each device ran for the only column."""
        return self.only.randomizer

    @property
    def plan(self) -> Plan | None:
        """The plan of the only column, if there was one."""
        return self.only.plan

    @property
    def truth(self) -> Array | None:
        """The true shares, or the true mean, of the only column, if asked for."""
        return self.only.truth

    @property
    def n(self) -> int:
        """How many people reported in the only column."""
        return self.only.n

    def __getitem__(self, column: str) -> ColumnResult:
        for each in self.columns:
            if each.column == column:
                return each
        names = ", ".join(each.column for each in self.columns)
        raise InvalidArgumentError("column", column, f"one of {names}")

    def to_dict(self) -> Record:
        """Plain values, as the command line's ``--json`` prints them."""
        first = self.columns[0]
        return {
            "guarantee": self.guarantee.to_dict(),
            "columns": [column.to_dict() for column in self.columns],
            "estimates": first.records(),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
            "randomizer": _randomizer(first.randomizer),
            "stages": dict(self.stages),
            "contains_truth": self.contains_truth,
        }

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as a file."""
        from shoal.report import finite

        text = json.dumps(finite(self.to_dict()), ensure_ascii=False, allow_nan=False, indent=1)
        Path(path).write_text(text + "\n", encoding="utf-8")

    def to_csv(self, path: str | Path) -> None:
        """One line per answer, mean or coordinate; a leading column tells several columns apart.

        A name or an answer that a spreadsheet would run as a formula gets an apostrophe in front.
        """
        several = len(self.columns) > 1
        rows = [
            ({"column": column.column} if several else {}) | record
            for column in self.columns
            for record in column.records()
        ]
        names = list(dict.fromkeys(name for row in rows for name in row))
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(harmless, rows))

    def to_html(self) -> str:
        """One self-contained page."""
        from shoal.report import html

        return html(self)

    def document(self) -> Document:
        """The estimates (of one column), the guarantee, notes and warnings."""
        document = self.guarantee.document()
        table = self.columns[0].table() if len(self.columns) == 1 else None
        return replace(document, table=table, notes=self.notes, warnings=self.warnings)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The estimates of the only column with their 95 % intervals."""
        return self.only.plot(ax)

    def _repr_html_(self) -> str:
        return framed(self.to_html())

    def __str__(self) -> str:
        """The estimates, the largest first, and the guarantee, as text."""
        tables = [str(Document(each.column, table=each.table())) for each in self.columns]
        return "\n\n".join([*tables, str(replace(self.document(), table=None))])


def _randomizer(mechanism: Device) -> Record:
    return {
        **described(mechanism),
        "local_epsilon": mechanism.local_epsilon,
        "message_bits": mechanism.message_bits,
        "messages": mechanism.messages,
        "slots": mechanism.slots,
    }


def interval_cells(value: float, low: float, high: float, unit: str = "") -> tuple[str, str]:
    """A value and its interval as cells of a table, to the digits of their margin."""
    shown, first, last = (f"{measured(x, (high - low) / 2)}{unit}" for x in (value, low, high))
    return shown, f"{first} to {last}"


def framed(page: str) -> str:
    """A page inside another, a notebook say, neither of which restyles the other."""
    frame = "width:100%;height:620px;border:1px solid #ccd3da;border-radius:6px;background:#fff;"
    frame = frame.replace(";", " !important;")
    return f'<iframe sandbox="" style="{frame}" srcdoc="{escape(page)}"></iframe>'


def harmless(row: Record) -> Record:
    """The row, its texts shown by spreadsheets as they are and never run as formulas."""
    return {
        name: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell
        for name, cell in row.items()
    }

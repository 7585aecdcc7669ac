"""The whole way: a table in, estimates with their errors and the guarantee out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from shoal.accounting.guarantee import Guarantee
from shoal.engines import Clock, LocalEngine, Progress, Tell
from shoal.engines.coding import Bounds, Lists, Separate, Together, changed
from shoal.engines.shuffling import ORDERLESS, RUN_HERE, shuffle
from shoal.planning import Plan
from shoal.planning.columns import Requirements, Split, Step, compose_columns
from shoal.protocols.base import Device
from shoal.randomizers.base import AnswerMechanism, NumberMechanism, VectorMechanism, source
from shoal.randomness import Randomness
from shoal.results import ColumnResult, Result
from shoal.values import Array, Counts

__all__ = ["ColumnResult", "Result", "run", "shuffle"]

NOT_PRIVATE = "true values are included for comparison: this result is not private"
_MOST_BITS = 1 << 25  # of messages made at once: long messages come in smaller pieces


def run(
    data: object,
    *,
    column: str | Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    categories: Lists | None = None,
    bounds: Bounds | None = None,
    norm: float | None = None,
    randomizer: Device | str | Mapping[str, Device | str] | None = None,
    local_epsilon: float | None = None,
    plan: Plan | Mapping[str, Plan] | None = None,
    split: Split | None = None,
    drop_nulls: bool = False,
    honest_fraction: float = 1.0,
    local_epsilon_cap: float | None = None,
    messages_cap: float | None = None,
    choose: str | None = None,
    allow_weaker: bool = False,
    compare_truth: bool = False,
    randomness: Randomness | None = None,
    progress: Tell | None = None,
) -> Result:
    """Collect columns of a table as the shuffle model would, and estimate what is in them.

    ``data`` is a Polars, pandas or Arrow table, anything else with an Arrow C stream (a DuckDB
    relation), or the path of a CSV, Parquet or Arrow file, which is read in chunks. Every row is
    one person. Exactly one of ``epsilon`` (a plan is made), ``randomizer`` (or its name, with its
    ``local_epsilon``) and ``plan``; ``delta`` is the plan's, or 1e-6. No report has a local epsilon
    above ``local_epsilon_cap``, if there is one. A plan whose epsilon is not kept by the people
    there are is refused, unless ``allow_weaker``: then it is warned about.

    With ``epsilon``, people send at most ``messages_cap`` messages on average (one, unless said),
    and ``choose`` names the option of the plan to be run instead of the best: then any number of
    messages is allowed unless said.

    ``column`` names a column of answers, or of numbers if it has ``bounds``: numbers outside count
    as the nearest bound. Several columns are several reports of each person. With ``epsilon`` the
    budget is for all of them: ``split="divide"`` gives each column an equal part of epsilon and
    delta. With ``split="compose"`` each column gets all of it, and the guarantee of the result is
    what they cost together. ``categories``, ``bounds``, ``randomizer`` and ``plan`` may then be
    mappings from column to value.

    ``columns`` are the coordinates of one vector instead, and one report: the estimate is the mean
    vector. Vectors longer than ``norm`` count as scaled down to it.

    ``compare_truth`` adds the true values, which makes the result not private. ``progress`` is
    called with the number of reports made and the number of all.
    """
    wanted: Separate | Together
    if columns is None:
        wanted = Separate.of(column, categories, bounds, norm=norm)
    else:
        single = {"column": column, "categories": categories, "bounds": bounds, "split": split}
        wanted = Together.of(columns, norm, **single)
    wanted.require(randomizer=randomizer, plan=plan)
    required = Requirements(
        columns=wanted.questions,
        epsilon=epsilon,
        delta=delta,
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        plan=plan,
        split=split,
        honest_fraction=honest_fraction,
        local_epsilon_cap=local_epsilon_cap,
        messages_cap=messages_cap,
        choose=choose,
        allow_weaker=allow_weaker,
    )
    clock = Clock()
    with clock("read"):
        coded = wanted.coded(data, drop_nulls=drop_nulls)
    # Everything is checked, planned and accounted for before anybody reports.
    with clock("plan"):
        steps = [required.step(each) for each in coded]
    with clock("account"):
        guarantee = compose_columns(steps, required.delta or 0.0)
    total = sum(step.coded.n for step in steps)
    collection = _Collection(source(randomness), clock, Progress(progress, total), compare_truth)
    results = tuple(collection.column(step) for step in steps)
    return Result(
        columns=results,
        guarantee=guarantee,
        notes=_notes(results, required.split, guarantee),
        stages={stage: round(taken, 3) for stage, taken in clock.seconds.items()},
    )


@dataclass(frozen=True)
class _Collection:
    """Makes the reports of a column, counts them and estimates."""

    randomness: Randomness
    clock: Clock
    progress: Progress
    compare_truth: bool

    def column(self, step: Step) -> ColumnResult:
        """The result of one column."""
        counts, truth = self._counted(step)
        if counts is None or counts.n != step.coded.n:
            raise changed(step.coded.name)
        with self.clock("estimate"):
            device = cast("AnswerMechanism | NumberMechanism | VectorMechanism", step.randomizer)
            estimate = step.coded.estimated(device.estimate(counts), device)
        return ColumnResult(
            column=step.coded.name,
            labels=step.coded.labels,
            estimate=estimate,
            randomizer=step.randomizer,
            guarantee=step.guarantee,
            n=counts.n,
            plan=step.plan,
            truth=truth / counts.n if self.compare_truth else None,
            notes=step.notes,
            warnings=step.warnings,
        )

    def _counted(self, step: Step) -> tuple[Counts | None, Array]:
        engine = LocalEngine()
        counts: Counts | None = None
        truth: Array = np.zeros(max(1, len(step.coded.labels)))
        device = step.randomizer
        most = max(1, _MOST_BITS // (8 * device.message_bytes * math.ceil(device.messages)))
        for values in self.clock.each("read", step.coded.chunks()):
            for start in range(0, len(values), most):
                with self.clock("randomize"):
                    piece = step.coded.given(values[start : start + most], device)
                    reports = device.randomize(piece, randomness=self.randomness)
                with self.clock("count"):
                    part = engine.count(device, [reports])
                    counts = part if counts is None else counts + part
            if self.compare_truth:
                truth += step.coded.totals(values)
            self.progress.add(len(values))
        return counts, truth


def _notes(
    columns: Sequence[ColumnResult], split: Split | None, guarantee: Guarantee
) -> tuple[str, ...]:
    several = len(columns) > 1
    notes = [
        f"{column.column}: {note}" if several else note
        for column in columns
        for note in column.notes
    ]
    if several and split == "divide":
        notes.append(f"each of the {len(columns)} columns has an equal part of epsilon and delta")
    elif several:
        notes.append(
            f"each of the {len(columns)} columns has a budget of its own; "
            f"together they cost epsilon {guarantee.epsilon:.3g}"
        )
    notes += [RUN_HERE, ORDERLESS]
    if any(column.truth is not None for column in columns):
        notes.append(NOT_PRIVATE)
    return tuple(notes)

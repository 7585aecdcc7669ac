"""A run among peers as people and programs read it."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from rich.table import Table
from rich.text import Text

from shoal.cli.app import printable
from shoal.cli.peers_answer import Answer
from shoal.cli.render import console, panel
from shoal.cli.run_show import bar
from shoal.estimate.ranking import noise_floor
from shoal.report.axis import Axis
from shoal.report.shares import LEVEL, Row, percent

_SHOWN = 30
_WIDTH = 30
_LABEL = 20


def to_dict(found: Answer) -> dict[str, object]:
    """Plain values; the estimate's shares are of one, not of a hundred."""
    run, loads = found.run, np.array(found.run.loads)
    low, high = found.estimate.interval(LEVEL)
    truth = found.question.truth
    return {
        "estimate": [
            {
                "answer": label,
                "share": float(found.estimate.frequencies[number]),
                "standard_error": float(found.estimate.standard_errors[number]),
                "low": float(low[number]),
                "high": float(high[number]),
                **({"truth": float(truth[number])} if found.question.made_up else {}),
            }
            for number, label in enumerate(found.question.labels)
        ],
        "guarantee": found.guarantee.to_dict(),
        "peers": run.sent,
        "arrived": run.arrived,
        "duplicates": run.duplicates,
        "rejected": run.rejected,
        "stranded": run.stranded,
        "moves": run.moves,
        "most_load": int(loads.max()),
        "without_load": int((loads == 0).sum()),
        "survey": {**asdict(found.survey), "hops": found.survey.hops or found.survey.rounds},
        "offline": found.asked.offline,
        "processes": found.asked.processes,
        "overlay": {"n": found.graph.n, "edges": found.graph.edges, "degree": found.asked.degree},
        "seconds": found.seconds,
        "notes": _notes(found),
    }


def show(found: Answer) -> None:
    """Print what happened, the estimate and the guarantee."""
    page = console()
    for line in _story(found):
        page.print(line)
    page.print()
    page.print(_chart(found))
    truth = "; ◆ true share" if found.question.made_up else ""
    page.print(Text(f"█ share, ▒ its 95 % interval{truth}", style="dim"))
    page.print()
    page.print(panel(found.guarantee.document()))
    for note in _notes(found):
        page.print(f"note: {note}", style="yellow")


def _story(found: Answer) -> list[str]:
    run, survey = found.run, found.survey
    hops = f", {survey.layers} hops" if survey.mode == "onion" else ""
    lost = f", {run.stranded:,} stranded on unfinished paths" if survey.mode == "onion" else ""
    what = "reports" if survey.submit == "all" else "messages, dummies among them,"
    who = (
        f"{run.sent:,} peers with {found.asked.degree} neighbours each, {survey.rounds} rounds in "
        f"{survey.mode} mode{hops}, {found.asked.offline:.0%} away in a round"
    )
    came = (
        f"{run.moves:,} hops in {found.seconds:.1f} s; {run.arrived:,} {what} arrived, "
        f"{run.duplicates:,} duplicates, {run.rejected:,} rejected{lost}; at most "
        f"{max(run.loads):,} held by one peer"
    )
    return [who, came]


def _chart(found: Answer) -> Table:
    rows = _rows(found)[:_SHOWN]
    axis = Axis(0.0, max(*(row.high for row in rows), *(row.truth or 0.0 for row in rows), 1e-9))
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, max_width=_LABEL, overflow="ellipsis")
    table.add_column(no_wrap=True, width=_WIDTH)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="dim")
    for row in rows:
        reach = f"± {(row.high - row.low) / 2:.1f}" + ("" if row.significant else " ~")
        cells = [printable(row.label), bar(row, axis, _WIDTH), percent(row.value), reach]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _rows(found: Answer) -> list[Row]:
    estimate, truth = found.estimate, found.question.truth
    low, high = estimate.interval(LEVEL)
    certain = estimate.frequencies >= noise_floor(estimate, LEVEL)
    return [
        Row(
            label=found.question.labels[i],
            value=100 * float(estimate.frequencies[i]),
            low=100 * float(low[i]),
            high=100 * float(high[i]),
            people=float(estimate.counts[i]),
            significant=bool(certain[i]),
            truth=100 * float(truth[i]) if found.question.made_up else None,
        )
        for i in np.argsort(-estimate.frequencies, kind="stable").tolist()
    ]


def _notes(found: Answer) -> list[str]:
    run = found.run
    said = [*found.guarantee.warnings, *found.question.notes]
    if run.duplicates:
        said.append(
            f"{run.duplicates:,} reports came from two peers, which shows a hop of each: the "
            "guarantee does not cover these"
        )
    said.append("peers are not authenticated: nothing here keeps out one person with many peers")
    return said

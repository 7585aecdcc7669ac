"""``shoal run``: columns of a table, collected as the shuffle model would, with a chart."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import typer

from shoal.cli import files, run_asked
from shoal.cli.open_asked import OpenAsked, refuse_without
from shoal.cli.options import choice, flag, number, option, whole
from shoal.cli.render import print_json, reporting
from shoal.cli.run_asked import RunAsked

_WHAT = "What is collected"
_HOW = "How private: one of"
_CROWD = "Who takes part"
_OUT = "What to make of it"


class Split(StrEnum):
    """How the budget is shared by several columns."""

    COMPOSE = "compose"
    DIVIDE = "divide"


def run(
    *,
    data: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A table, one person per row: CSV, Parquet, Arrow."),
    ],
    column: Annotated[
        list[str] | None, option("The column to collect; several if repeated.", _WHAT, "NAME")
    ] = None,
    columns: Annotated[
        str | None,
        option("The coordinates of a vector, whose mean is estimated.", _WHAT, "NAME,NAME,…"),
    ] = None,
    norm: Annotated[
        float | None,
        number("With --columns: the public length that longer vectors are cut to.", _WHAT),
    ] = None,
    categories: Annotated[
        list[str] | None,
        option(
            "The public list of answers: a,b,c (blanks around commas do not count) or a file with "
            "one per line, kept as it is. Beside several columns: NAME=a,b,c.",
            _WHAT,
            "LIST",
        ),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        option(
            "Public bounds of a column of numbers (or NAME=LOW,HIGH); a number outside counts as "
            "the nearest bound.",
            _WHAT,
            "LOW,HIGH",
        ),
    ] = None,
    drop_nulls: Annotated[
        bool, flag("--drop-nulls", "Leave out rows without an answer.", _WHAT)
    ] = False,
    open_answers: Annotated[
        bool, flag("--open", "Text without a list of answers: find the frequent ones.", _WHAT)
    ] = False,
    top: Annotated[int | None, whole("With --open: show so many (50).", _WHAT)] = None,
    length: Annotated[
        int | None, whole("With --open: the longest answer, in bytes (32).", _WHAT)
    ] = None,
    alphabet: Annotated[
        str | None,
        option("With --open: the only characters of answers; fewer find more.", _WHAT, "CHARS"),
    ] = None,
    epsilon: Annotated[float | None, number("ε: plans the rest by itself.", _HOW)] = None,
    delta: Annotated[float | None, number("δ; 1e-6 if not given.", _HOW)] = None,
    randomizer: Annotated[
        str | None, option("A randomizer by name, with --local-epsilon.", _HOW, "NAME")
    ] = None,
    local_epsilon: Annotated[float | None, number("Its ε0.", _HOW)] = None,
    plan: Annotated[Path | None, option("A plan of shoal plan --save.", _HOW, "FILE")] = None,
    allow_weaker: Annotated[
        bool, flag("--allow-weaker", "Go on if too few people keep the plan's ε.", _HOW)
    ] = False,
    local_epsilon_cap: Annotated[
        float | None, number("The most that ε0 of one report may be.", _HOW)
    ] = None,
    messages_cap: Annotated[
        float | None,
        number("With --epsilon: messages one person may send on average (1).", _HOW),
    ] = None,
    choose: Annotated[
        str | None,
        option("With --epsilon: run this option of the plan, not the best.", _HOW, "NAME"),
    ] = None,
    split: Annotated[
        Split | None,
        choice(
            "Several --column: divide ε and δ equally (as with --epsilon unless said), or compose: "
            "each has all of it, and what they cost together is told.",
            _HOW,
            Split,
        ),
    ] = None,
    honest_fraction: Annotated[
        float, number("The share of people that follows the protocol.", _CROWD)
    ] = 1.0,
    report: Annotated[Path | None, option("Write a page to hand on (.html).", _OUT, "FILE")] = None,
    csv: Annotated[Path | None, option("Write the estimates (.csv).", _OUT, "FILE")] = None,
    as_json: Annotated[bool, flag("--json", "Print JSON.", _OUT)] = False,
    compare_truth: Annotated[
        bool, flag("--compare-truth", "Show true values too: no longer private.", _OUT)
    ] = False,
) -> None:
    """Randomize, shuffle and estimate columns of a table: a chart with its error and its ε."""
    files.check(report=report, csv=csv, never=data)
    if open_answers:
        found = OpenAsked(
            data=data,
            columns=tuple(column or ()),
            epsilon=epsilon,
            delta=delta,
            top=top,
            length=length,
            alphabet=alphabet,
            messages_cap=messages_cap,
            honest_fraction=honest_fraction,
            compare_truth=compare_truth,
        )
        found.check(
            columns=columns,
            norm=norm,
            categories=categories,
            bounds=bounds,
            drop_nulls=drop_nulls,
            randomizer=randomizer,
            local_epsilon=local_epsilon,
            plan=plan,
            allow_weaker=allow_weaker,
            local_epsilon_cap=local_epsilon_cap,
            choose=choose,
            split=split,
        )
        with reporting("collecting") as progress:
            from shoal.cli import run_open

            answers = found.run(progress)
        _finish(answers, run_open.show, report=report, csv=csv, as_json=as_json)
        return
    refuse_without(top=top, length=length, alphabet=alphabet)
    asked = RunAsked(
        data=data,
        columns=tuple(column or ()),
        vector=columns,
        norm=norm,
        epsilon=epsilon,
        delta=delta,
        randomizer=randomizer,
        local_epsilon=local_epsilon,
        plan=plan,
        categories=tuple(categories or ()),
        bounds=tuple(bounds or ()),
        drop_nulls=drop_nulls,
    )
    asked.check()
    with reporting("collecting") as progress:
        import shoal
        from shoal.cli import run_show

        result = shoal.run(
            data,
            **run_asked.keywords(asked),
            split=None if split is None else split.value,
            honest_fraction=honest_fraction,
            local_epsilon_cap=local_epsilon_cap,
            messages_cap=messages_cap,
            choose=choose,
            allow_weaker=allow_weaker,
            compare_truth=compare_truth,
            progress=progress,
        )
    _finish(result, run_show.show, report=report, csv=csv, as_json=as_json)


class _Finished(Protocol):
    """What a run gives back, of whatever kind."""

    def to_dict(self) -> dict[str, object]: ...
    def to_html(self) -> str: ...
    def to_csv(self, path: str | Path) -> None: ...


Found = TypeVar("Found", bound=_Finished)


def _finish(
    result: Found,
    show: Callable[[Found], None],
    *,
    report: Path | None,
    csv: Path | None,
    as_json: bool,
) -> None:
    """Write the files, all or none, and print."""
    with files.together() as write:
        if report is not None:
            page = result.to_html()
            write(report, lambda path: path.write_text(page, encoding="utf-8"))
        if csv is not None:
            write(csv, result.to_csv)
    if as_json:
        print_json(result.to_dict())
        return
    show(result)
    for path in (report, csv):
        if path is not None:
            typer.echo(f"wrote {path}")

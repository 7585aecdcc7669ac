"""``shoal run``: columns of a table, collected as the shuffle model would, with a chart."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from shoal.cli import files
from shoal.cli.app import ANALYSE, RefusedError, app
from shoal.cli.options import (
    MASTER,
    Bounds,
    Engine,
    Excludes,
    Needs,
    OneOf,
    Options,
    Required,
    command,
    option,
    read_int,
    read_number,
)
from shoal.cli.render import answer, show_charts, working
from shoal.engines.files import Format

if TYPE_CHECKING:
    from shoal.open_answers import OpenResult
    from shoal.report.result import Result

_WHAT = "What is collected"
_HOW = "How private: one of"
_CROWD = "Who takes part"
_WHERE = "Where it is computed"
_COLLECTION = ("honest_fraction", "messages_cap", "compare_truth")


Split = Literal["joint", "divide"]  # how the budget is shared by several columns
Answer = Literal["yes", "no"]


class RunOptions(Options):
    """What is collected, how private, from whom, and what to make of it."""

    data: list[str] = option(
        f"{files.TABLE} Several are one table. With --engine spark also places that Spark can "
        "read.",
        name="FILE",
    )
    format: Format | None = option(files.FORMAT, keyword="format")
    column: list[str] | None = option("The column to collect; several if repeated.", _WHAT, "NAME")
    columns: str | None = option(
        "The coordinates of a vector, whose mean is estimated.", _WHAT, "NAME,NAME,…"
    )
    norm: float | None = option(
        "With --columns: the public length that longer vectors are cut to.", _WHAT
    )
    categories: list[str] | None = option(
        "The public list of answers: a,b,c (blanks around commas do not count) or a file with "
        "one per line, kept as it is. Beside several columns: NAME=a,b,c.",
        _WHAT,
        "LIST",
    )
    bounds: list[str] | None = option(
        "Public bounds of a column of numbers or dates (or NAME=LOW,HIGH); a number outside "
        "counts as the nearest bound.",
        _WHAT,
        "LOW,HIGH",
    )
    bins: list[str] | None = option(
        "Count numbers in bins: how many, their edges a,b,c, auto, or the day, week or month of "
        "dates (or NAME=…). Without, the result is the mean.",
        _WHAT,
        "BINS",
    )
    quantiles: list[str] | None = option(
        "With --bins: quantiles, such as 0.25,0.5,0.75 (or NAME=…).", _WHAT, "Q,Q,…"
    )
    ranges: list[str] | None = option(
        "With --bins: count from one edge up to another: 20..65,65..100 (or NAME=…).",
        _WHAT,
        "A..B,…",
    )
    tree: Answer | None = option(
        "With --bins: count on several levels, for quantiles and ranges; as the smaller "
        "predicted error says, unless said.",
        _WHAT,
    )
    by: str | None = option("A column of groups: one chart for each of them.", _WHAT, "NAME")
    groups: str | None = option("With --by: the public list of groups, or a file.", _WHAT, "LIST")
    open_groups: bool = option("With --by: find the frequent groups first.", _WHAT)
    public_list: bool = option(files.PUBLIC_LIST, _WHAT)
    drop_nulls: bool = option("Leave out rows without an answer.", _WHAT)
    open: bool = option("Text without a list of answers: find the frequent ones.", _WHAT)
    top: int | None = option("With --open: show so many (50).", _WHAT)
    length: int | None = option(
        "With --open: the longest answer, in bytes (32); with --open-groups the longest name (24).",
        _WHAT,
    )
    alphabet: str | None = option(
        "With --open: the only characters of answers; fewer find more.", _WHAT, "CHARS"
    )
    epsilon: float | None = option("ε: plans the rest by itself.", _HOW)
    delta: float | None = option("δ; the smaller of 1e-6 and 1/(10 n) if not given.", _HOW)
    randomizer: str | None = option("A randomizer by name, with --local-epsilon.", _HOW, "NAME")
    local_epsilon: float | None = option("Its ε0.", _HOW)
    plan: Path | None = option("A plan of shoal plan --save.", _HOW)
    allow_weaker: bool = option("Go on if too few people keep the plan's ε.", _HOW)
    local_epsilon_cap: float | None = option("The most that ε0 of one report may be.", _HOW)
    messages_cap: float | None = option(
        "With --epsilon: messages one person may send on average (1).", _HOW
    )
    choose: str | None = option(
        "With --epsilon: run this option of the plan, not the best.", _HOW, "NAME", keyword="name"
    )
    weights: str | None = option(
        "With --epsilon and several --column: how the budget is shared (1 each unless said).",
        _HOW,
        "NAME=NUMBER,…",
    )
    split: Split | None = option(
        "With --epsilon and several --column: all of ε and δ for them together (joint, unless "
        "said), or divide: a part for each, which spends less of it.",
        _HOW,
    )
    honest_fraction: float | None = option(
        "The fraction of people that follows the protocol.", _CROWD
    )
    person: str | None = option(
        "The column that says whose row it is; without it every row counts as one person.",
        _CROWD,
        "NAME",
    )
    reports_per_person: int | None = option(
        "With --person: everybody counts as so many reports (1), missing ones as (none).", _CROWD
    )
    engine: Engine | None = option(
        "Where rows are read and randomized: in this process (local, unless said) or by Spark.",
        _WHERE,
    )
    master: str | None = option(
        MASTER,
        _WHERE,
        "URL",
    )
    report: Path | None = option("Write a page to hand on (.html).")
    csv: Path | None = option("Write the estimates (.csv).")
    compare_truth: bool = option("Show true values too: no longer private.")

    rules = (
        Excludes(
            "open",
            (
                *("columns", "norm", "categories", "public_list", "bounds", "drop_nulls"),
                "randomizer",
                *("local_epsilon", "plan", "allow_weaker", "local_epsilon_cap", "split", "weights"),
                *("bins", "quantiles", "ranges", "by", "groups", "open_groups"),
                *("person", "reports_per_person"),
                "tree",
            ),
            "--open finds the answers by itself",
        ),
        *(Needs(name, ("open",), "text without a list") for name in ("top", "alphabet")),
        Needs("length", ("open", "open_groups"), "text without a list"),
        *(Needs(name, ("bins",), "what is counted") for name in ("quantiles", "ranges", "tree")),
        Needs("groups", ("by",), "the column that they are in"),
        Needs("open_groups", ("by",), "the column that they are in"),
        Needs("open_groups", ("epsilon",), "a part of which finds them"),
        Excludes("open_groups", ("groups",), "--open-groups finds the groups by itself"),
        Excludes(
            "by",
            ("columns", "quantiles", "ranges", "tree"),
            "--by is for charts of answers and bins",
        ),
        Needs("open", ("epsilon",), "what the collection may cost each person"),
        OneOf(("epsilon", "randomizer", "plan"), "how private"),
        Needs("randomizer", ("local_epsilon",), "its ε0"),
        Needs("local_epsilon", ("randomizer",), "what has this ε0"),
        Needs("reports_per_person", ("person",), "whose rows they are"),
        Needs("master", ("engine=spark",), "what has a master"),
        Required(
            "column",
            "which column of the file to collect (or --columns for a vector)",
            ("columns",),
        ),
    )

    def keywords(self) -> dict[str, Any]:
        """The arguments of :func:`shoal.run`."""
        keywords = self.only(
            *("column", "norm", "drop_nulls", "epsilon", "delta", "randomizer", "local_epsilon"),
            *("by", "open_groups", "length", "public_list", "person", "reports_per_person"),
            *("allow_weaker", "local_epsilon_cap", "split", *_COLLECTION),
        )
        if self.choose is not None:
            keywords["choose"] = self.choose
        if self.tree is not None:
            keywords["tree"] = self.tree == "yes"
        if self.weights is not None:
            keywords["weights"] = self._weights(self.weights)
        if self.groups is not None:
            keywords["groups"] = files.read_list(self.groups, "groups")
        if self.columns is not None:
            names = (part.strip() for part in self.columns.split(","))
            keywords["columns"] = [name for name in names if name]
        keywords |= self._by_column("categories", files.read_list)
        keywords |= self._by_column("bins", _read_bins)
        keywords |= self._by_column("quantiles", _read_quantiles)
        keywords |= self._by_column("ranges", _read_ranges)
        keywords |= self._by_column("bounds", _read_bounds, keywords.get("bins", ()))
        if self.plan is not None:
            from shoal.planning import Plan

            keywords["plan"] = Plan.load(self.plan)
        return keywords

    def _weights(self, text: str) -> dict[str, float]:
        """The weight of each column that has one."""
        if len(self.column or []) < 2:
            raise RefusedError("--weights is for several --column, which share the budget")
        parts = [part.rpartition("=") for part in text.split(",")]
        if not all(name.strip() for name, _, _ in parts):
            raise RefusedError(f"expected --weights to be NAME=NUMBER,… (color=2), got {text!r}")
        return {name.strip(): read_number(weight.strip()) for name, _, weight in parts}

    def _by_column(
        self, name: str, read: Callable[[str], object], binned: Container[str] = ()
    ) -> dict[str, Any]:
        """What an option says of each column; ends of bins are left as they are written."""
        texts = getattr(self, name) or []
        if not texts or self.columns is not None:
            return {name: texts} if texts else {}
        own = dict(self._of_column(name, text) for text in texts)
        return {
            name: {
                column: text.split(",") if column in binned else read(text)
                for column, text in own.items()
            }
        }

    def _of_column(self, name: str, text: str) -> tuple[str, str]:
        """``NAME=TEXT`` is about one of the columns, ``TEXT`` about the only one."""
        columns = self.column or []
        for column in columns:
            if text.startswith(f"{column}="):
                return column, text.removeprefix(f"{column}=")
        if len(columns) > 1:
            names = ", ".join(columns)
            raise RefusedError(f"say which column --{name} is for: --{name} NAME=…, one of {names}")
        return columns[0], text


def _read_bins(text: str) -> int | str | list[str]:
    """How many, a word, or the edges, which may be dates."""
    if "," in text:
        return [part.strip() for part in text.split(",")]
    return read_int(text) if text.strip()[:1].isdigit() else text


def _read_bounds(text: str) -> Bounds:
    """Of numbers: those of dates are for bins."""
    try:
        return Bounds.read(text)
    except typer.BadParameter as error:
        dates = " (dates need --bins, such as month)" if re.match(r"\s*\d{4}-\d\d", text) else ""
        raise RefusedError(f"--bounds: {error.message}{dates}") from error


def _read_quantiles(text: str) -> list[float]:
    return [read_number(part.strip()) for part in text.split(",")]


def _read_ranges(text: str) -> list[tuple[str, str]]:
    """From one edge up to another: 20..65, several with commas between."""
    pairs = [part.partition("..") for part in text.split(",")]
    if not all(first.strip() and last.strip() for first, _, last in pairs):
        raise RefusedError(f"expected --ranges to be such as 20..65,65..100, got {text!r}")
    return [(first.strip(), last.strip()) for first, _, last in pairs]


@command(app, ANALYSE)
def run(options: RunOptions) -> None:
    """Randomize, shuffle and estimate columns of a table: a chart with its error and its ε."""
    outputs = {"report": options.report, "csv": options.csv}
    files.check(**outputs)
    if options.open and len(options.column or []) != 1:
        raise RefusedError("--open takes one --column of text")
    result: Result | OpenResult
    with working("collecting") as progress, ExitStack() as stack:
        import shoal

        cluster = options.engine == "spark"
        counted = None if cluster else progress  # whose stages are watched
        formats = None
        if cluster:
            from shoal.engines import spark_session

            formats = tuple(spark_session.FORMATS)
        table = files.table(options.data, options.format, formats, elsewhere=cluster)
        data: Any = stack.enter_context(table)
        for place in data.paths:
            files.check(**outputs, never=place)
        if cluster:
            spark = stack.enter_context(spark_session.session(options.master, progress))
            data = spark_session.frame(spark, data)
        if options.open:
            (column,) = options.column or []
            keywords = options.only("epsilon", "delta", "top", "length", "alphabet", *_COLLECTION)
            result = shoal.heavy_hitters(data, column=column, progress=counted, **keywords)
        else:
            result = shoal.run(data, progress=counted, **options.keywords())
    files.write(files.text(options.report, result.to_html), (options.csv, result.to_csv))
    if not options.json:
        show_charts(result)
    document = result.document(table=False)
    answer(options, result.to_dict(), document, options.report, options.csv)

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
        f"{files.TABLE} Several files make one table. With --engine spark, also any place "
        "that Spark can read.",
        name="FILE",
    )
    format: Format | None = option(files.FORMAT, keyword="format")
    column: list[str] | None = option(
        "The column to collect; repeat it for several.", _WHAT, "NAME"
    )
    columns: str | None = option(
        "The columns that are coordinates of one vector; the result is its mean.",
        _WHAT,
        "NAME,NAME,…",
    )
    norm: float | None = option(
        "With --columns: public length; longer vectors are scaled down to it.", _WHAT
    )
    categories: list[str] | None = option(
        "The public list of answers: a,b,c (blanks around commas are dropped), or a file "
        "with one answer per line, taken as it is. With several columns: NAME=a,b,c.",
        _WHAT,
        "LIST",
    )
    bounds: list[str] | None = option(
        "Public bounds of a column of numbers or dates (or NAME=LOW,HIGH); a number "
        "outside counts as the nearest bound.",
        _WHAT,
        "LOW,HIGH",
    )
    bins: list[str] | None = option(
        "Count numbers in bins: the number of bins, their edges a,b,c, auto, or day, week "
        "or month for dates (or NAME=…). Without --bins the result is the mean.",
        _WHAT,
        "BINS",
    )
    quantiles: list[str] | None = option(
        "With --bins: estimate these quantiles, such as 0.25,0.5,0.75 (or NAME=…).", _WHAT, "Q,Q,…"
    )
    ranges: list[str] | None = option(
        "With --bins: count from one edge up to another, such as 20..65,65..100 (or NAME=…).",
        _WHAT,
        "A..B,…",
    )
    tree: Answer | None = option(
        "With --bins: count on several levels, for quantiles and ranges; default: "
        "whichever has the smaller predicted error.",
        _WHAT,
    )
    by: str | None = option("A column of groups: one chart for each group.", _WHAT, "NAME")
    groups: str | None = option("With --by: the public list of groups, or a file.", _WHAT, "LIST")
    open_groups: bool = option("With --by: find the frequent groups first.", _WHAT)
    public_list: bool = option(files.PUBLIC_LIST, _WHAT)
    drop_nulls: bool = option("Leave out rows without an answer.", _WHAT)
    open: bool = option("The answers are free text: find the frequent ones.", _WHAT)
    top: int | None = option("With --open: number of answers to show; default: 50.", _WHAT)
    length: int | None = option(
        "Longest answer in bytes with --open (default: 32), or longest group name with "
        "--open-groups (default: 24).",
        _WHAT,
    )
    alphabet: str | None = option(
        "With --open: the characters that answers may have; with fewer, more answers are found.",
        _WHAT,
        "CHARS",
    )
    epsilon: float | None = option("ε of the whole collection; the rest is planned.", _HOW)
    delta: float | None = option("δ; default: the smaller of 1e-6 and 1/(10 n).", _HOW)
    randomizer: str | None = option("A randomizer by name, with --local-epsilon.", _HOW, "NAME")
    local_epsilon: float | None = option("Its ε0.", _HOW)
    plan: Path | None = option("A plan from shoal plan --save.", _HOW)
    allow_weaker: bool = option("Continue even if there are too few people for the plan's ε.", _HOW)
    local_epsilon_cap: float | None = option("Largest ε0 that one report may have.", _HOW)
    messages_cap: float | None = option(
        "With --epsilon: messages that one person may send on average; default: 1, or any "
        "number with --choose. More than 1 offers protocols whose error is near a curator's and "
        "which have no local ε0.",
        _HOW,
    )
    choose: str | None = option(
        "With --epsilon: run this option of the plan instead of the best one.",
        _HOW,
        "NAME",
        keyword="name",
    )
    weights: str | None = option(
        "With --epsilon and several --column: weight of each column in the budget; "
        "default: 1 each.",
        _HOW,
        "NAME=NUMBER,…",
    )
    split: Split | None = option(
        "With --epsilon and several --column: compose all columns to ε and δ together "
        "(joint, the default), or divide ε and δ among them (divide), which uses less of "
        "the budget.",
        _HOW,
    )
    honest_fraction: float | None = option("Fraction of people who follow the protocol.", _CROWD)
    person: str | None = option(
        "The column with the person's id; without it every row is one person.",
        _CROWD,
        "NAME",
    )
    reports_per_person: int | None = option(
        "With --person: number of reports from everybody; missing ones count as (none). "
        "Default: 1.",
        _CROWD,
    )
    engine: Engine | None = option(
        "Where rows are read and randomized: in this process (local, the default) or by Spark.",
        _WHERE,
    )
    master: str | None = option(
        MASTER,
        _WHERE,
        "URL",
    )
    report: Path | None = option("Write a report to hand on (.html).")
    csv: Path | None = option("Write the estimates (.csv).")
    compare_truth: bool = option("Show true values too: the result is then not private.")

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
            "--open finds the answers in free text",
        ),
        *(Needs(name, ("open",), "it is for free text") for name in ("top", "alphabet")),
        Needs("length", ("open", "open_groups"), "it is for free text"),
        *(
            Needs(name, ("bins",), "the bins that are counted")
            for name in ("quantiles", "ranges", "tree")
        ),
        Needs("groups", ("by",), "the column with the groups"),
        Needs("open_groups", ("by",), "the column with the groups"),
        Needs("open_groups", ("epsilon",), "a part of it pays for finding them"),
        Excludes("open_groups", ("groups",), "--open-groups finds the groups"),
        Excludes(
            "by",
            ("columns", "quantiles", "ranges", "tree"),
            "--by is for charts of answers and bins",
        ),
        Needs("open", ("epsilon",), "what the collection may cost each person"),
        OneOf(("epsilon", "randomizer", "plan"), "how private"),
        Needs("randomizer", ("local_epsilon",), "its ε0"),
        Needs("local_epsilon", ("randomizer",), "the randomizer with this ε0"),
        Needs("reports_per_person", ("person",), "the column with the person's id"),
        Needs("master", ("engine=spark",), "the engine with a master"),
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
            raise RefusedError(
                f"say which column --{name} is for: --{name} NAME=…, with NAME one of {names}"
            )
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
        raise RefusedError(f"expected --ranges such as 20..65,65..100, got {text!r}")
    return [(first.strip(), last.strip()) for first, _, last in pairs]


@command(app, ANALYSE)
def run(options: RunOptions) -> None:
    """Randomize, shuffle and estimate columns of a table: a chart with its error and its ε."""
    outputs = {"report": options.report, "csv": options.csv}
    files.check(**outputs)
    if options.open and len(options.column or []) != 1:
        raise RefusedError("--open takes one --column with text")
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

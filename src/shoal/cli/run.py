"""``shoal run``: columns of a table, collected as the shuffle model would, with a chart."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
)
from shoal.cli.render import answer, show_charts, working

if TYPE_CHECKING:
    from shoal.open_answers import OpenResult
    from shoal.report.result import Result

_WHAT = "What is collected"
_HOW = "How private: one of"
_CROWD = "Who takes part"
_WHERE = "Where it is computed"
_COLLECTION = ("honest_fraction", "messages_cap", "compare_truth")


Split = Literal["compose", "divide"]  # how the budget is shared by several columns


class RunOptions(Options):
    """What is collected, how private, from whom, and what to make of it."""

    data: list[str] = option(
        "A table, one person per row: CSV, Parquet, Arrow. With --engine spark also several, "
        "directories of them, and places that Spark can read.",
        name="FILE",
    )
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
        "Public bounds of a column of numbers (or NAME=LOW,HIGH); a number outside counts as "
        "the nearest bound.",
        _WHAT,
        "LOW,HIGH",
    )
    drop_nulls: bool = option("Leave out rows without an answer.", _WHAT)
    open: bool = option("Text without a list of answers: find the frequent ones.", _WHAT)
    top: int | None = option("With --open: show so many (50).", _WHAT)
    length: int | None = option("With --open: the longest answer, in bytes (32).", _WHAT)
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
    split: Split | None = option(
        "Several --column: divide ε and δ equally (as with --epsilon unless said), or compose: "
        "each has all of it, and the result says what they cost together.",
        _HOW,
    )
    honest_fraction: float | None = option(
        "The fraction of people that follows the protocol.", _CROWD
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
                *("columns", "norm", "categories", "bounds", "drop_nulls", "randomizer"),
                *("local_epsilon", "plan", "allow_weaker", "local_epsilon_cap", "split"),
            ),
            "--open finds the answers by itself",
        ),
        *(Needs(name, ("open",), "text without a list") for name in ("top", "length", "alphabet")),
        Needs("open", ("epsilon",), "what the collection may cost each person"),
        OneOf(("epsilon", "randomizer", "plan"), "how private"),
        Needs("randomizer", ("local_epsilon",), "its ε0"),
        Needs("local_epsilon", ("randomizer",), "what has this ε0"),
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
            *("allow_weaker", "local_epsilon_cap", "split", *_COLLECTION),
        )
        if self.choose is not None:
            keywords["choose"] = self.choose
        if self.columns is not None:
            names = (part.strip() for part in self.columns.split(","))
            keywords["columns"] = [name for name in names if name]
        for name, read in (("categories", files.read_list), ("bounds", Bounds.read)):
            texts = getattr(self, name) or []
            if texts and self.columns is None:
                by_column = (self._of_column(name, text) for text in texts)
                keywords[name] = {column: read(text) for column, text in by_column}
            elif texts:
                keywords[name] = texts
        if self.plan is not None:
            from shoal.planning import Plan

            keywords["plan"] = Plan.load(self.plan)
        return keywords

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


@command(app, ANALYSE)
def run(options: RunOptions) -> None:
    """Randomize, shuffle and estimate columns of a table: a chart with its error and its ε."""
    for path in options.data:
        files.check(report=options.report, csv=options.csv, never=Path(path))
    if options.open and len(options.column or []) != 1:
        raise RefusedError("--open takes one --column of text")
    if options.engine != "spark" and len(options.data) > 1:
        raise RefusedError(f"{len(options.data)} files: only --engine spark reads several")
    result: Result | OpenResult
    with working("collecting") as progress, ExitStack() as stack:
        import shoal

        data: object = Path(options.data[0])
        counted = None if options.engine == "spark" else progress  # whose stages are watched
        if options.engine == "spark":
            from shoal.engines import spark_session

            tables = spark_session.Files.at(options.data)
            spark = stack.enter_context(spark_session.session(options.master, progress))
            data = tables.frame(spark)
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

"""``shoal run``: questions asked of a table as the shuffle model would, with charts.

One question is put together from options, as for ``shoal plan``; several are in a file.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from shoal.cli import files
from shoal.cli.app import ANALYSE, app
from shoal.cli.options import (
    MASTER,
    Engine,
    Excludes,
    Needs,
    OneOf,
    Options,
    Required,
    Rule,
    command,
    option,
)
from shoal.cli.readers import (
    read_bins,
    read_bounds,
    read_file,
    read_place,
    read_quantiles,
    read_ranges,
)
from shoal.cli.render import answer_brief, working
from shoal.engines.files import Format
from shoal.errors import InvalidArgumentError, RefusedError

if TYPE_CHECKING:
    from shoal.open_answers import OpenResult
    from shoal.planning import Plan
    from shoal.questions.edges import Place
    from shoal.questions.kinds import Question
    from shoal.results.result import Result

_WHERE = "Where it is computed"
_CHOSEN = ("choose", "messages_cap", "each")
_OF_COLUMN = ("categories", "choices", "scale", "bounds", "bins", "by", "public_list")
WHAT = "What is asked"
PRIVATE = "How private"
CROWD = "Who takes part"

ANSWER = "answer"  # what a plan calls a question that is of no column yet

Answer = Literal["yes", "no"]
Missing = Literal["cell", "drop", "refuse"]
# What one question is put together from; a file of questions has its own words for it.
SHAPED = (
    *("categories", "choices", "at_most", "scale", "bounds", "bins", "quantiles", "ranges"),
    *("tree", "norm", "missing"),
)
ASKED = (*SHAPED, "by", "groups", "choose")


class Asking(Options):
    """What is asked, of whom, and how private it has to be."""

    questions: Path | None = option("Several questions: a file of them (.json).", WHAT)
    categories: str | None = option("The public answers: a,b,c, or a file of lines.", WHAT, "LIST")
    choices: str | None = option("The same, of which people select any.", WHAT, "LIST")
    at_most: int | None = option("With --choices: so many of them at most.", WHAT)
    scale: str | None = option("Steps of a scale: bars, and the mean.", WHAT, "LOW,HIGH")
    bounds: str | None = option(
        "Public bounds of numbers, or of dates with --bins. Alone: the mean.", WHAT, "LOW,HIGH"
    )
    bins: str | None = option(
        "Bins to count in: how many, edges a,b,c, auto, day, week, month.", WHAT, "BINS"
    )
    quantiles: str | None = option("With --bins: such as 0.25,0.5,0.75.", WHAT, "Q,Q,…")
    ranges: str | None = option("With --bins: counts of 20..65,65..100.", WHAT, "A..B,…")
    tree: Answer | None = option("With --bins: count on several levels.", WHAT)
    norm: float | None = option("Public length of the longest vector.", WHAT)
    missing: Missing | None = option("Rows without a value: count, drop or refuse them.", WHAT)
    by: str | None = option("A column of groups to count or average by.", WHAT, "NAME")
    groups: str | None = option("With --by: the public groups.", WHAT, "LIST")
    epsilon: float | None = option("ε of the whole collection.", PRIVATE)
    delta: float | None = option("δ; default: the smaller of 1e-6 and 1/(10 n).", PRIVATE)
    local_epsilon_cap: float | None = option(
        "Largest ε0 of one report.", PRIVATE, keyword="local_epsilon"
    )
    messages_cap: float | None = option(
        "Messages of one report on average; default: 1, or any with --choose. More than 1 come "
        "near a curator's error, without a local ε0.",
        PRIVATE,
        keyword="messages",
    )
    choose: str | None = option("Run this option instead of the best.", PRIVATE, "NAME")
    each: bool = option("Each question keeps a part of ε by itself.", PRIVATE)
    honest_fraction: float | None = option("Fraction who follow the protocol.", CROWD)

    rules: ClassVar[tuple[Rule, ...]] = (
        Excludes("questions", ASKED, "the file of --questions says what is asked"),
        Excludes("choices", ("categories", "scale", "bounds", "bins"), "--choices has the answers"),
        Excludes("choices", ("by",), "--choices are not counted by groups"),
        Excludes("scale", ("categories", "bounds", "bins"), "--scale has the steps"),
        Needs("at_most", ("choices",), "the answers to select"),
        Needs("quantiles", ("bins",), "the bins that are counted"),
        Needs("ranges", ("bins",), "the bins that are counted"),
        Needs("tree", ("bins",), "the bins that are counted"),
        Needs("groups", ("by",), "the column with the groups"),
        Excludes("by", ("quantiles", "ranges", "tree"), "--by is for charts and means"),
        Needs("each", ("questions",), "several questions"),
    )

    def standing(self) -> dict[str, str]:
        """Also those of questions: answers and ends are given by several options."""
        standing = super().standing()
        if self.questions is not None:
            return without(standing, *ASKED, "questions")
        ends = "bounds" if self.scale is None else "scale"
        listed = "categories" if self.choices is None else "choices"
        return standing | {"labels": listed, "low": ends, "high": ends}

    def unknown(self, error: InvalidArgumentError) -> InvalidArgumentError:
        """What no option stands for is of the file, if there is one."""
        if self.questions is None:
            return error
        expected = f"{error.expected} (in {self.questions})"
        return InvalidArgumentError(error.name, error.value, expected)

    def terms(self) -> dict[str, Any]:
        """Who takes part, and what reports may be: arguments of the library."""
        from shoal.questions.terms import Crowd, Limits

        names = self.declared.keys() & {"local_epsilon_cap", "messages_cap", "each", "allow_weaker"}
        limits = Limits(**self.only(*names))  # of a mechanism by name is another ε0
        return {"crowd": Crowd(**self.arguments(Crowd)), "limits": limits}

    def listed(self) -> tuple[Question, ...]:
        """The questions of the file."""
        return () if self.questions is None else read_file(self.questions)

    def shaped(self, name: str, **terms: Any) -> Question:  # noqa: ANN401 - of a question
        """The one question that the options say, but a vector or a text."""
        from shoal.questions import kinds

        terms |= self.only("choose", "missing")
        if self.choices is not None:
            selected = files.read_list(self.choices, "choices")
            return kinds.Choices(name, selected, self.at_most, **terms)
        if self.scale is not None:
            ends: Any = read_bounds("scale", self.scale)  # which have to be whole numbers
            return kinds.Scale(name, *ends, **terms)
        if self.bins is not None:
            low_high = (None, None) if self.bounds is None else self._ends(self.bounds)
            terms |= {} if self.tree is None else {"tree": self.tree == "yes"}
            quantiles = () if self.quantiles is None else read_quantiles(self.quantiles)
            ranges = () if self.ranges is None else read_ranges(self.ranges)
            terms |= {"bins": read_bins(self.bins), "quantiles": quantiles, "ranges": ranges}
            return kinds.Bins(name, *low_high, **terms)
        if self.bounds is not None:
            return kinds.Number(name, *read_bounds("bounds", self.bounds), **terms)
        answers = None if self.categories is None else self.answers(self.categories)
        return kinds.Choice(name, answers, **terms)

    def answers(self, text: str) -> Any:  # noqa: ANN401 - a list, or how many where there are no data
        """The public answers."""
        return files.read_list(text)

    def _ends(self, text: str) -> tuple[Place, Place]:
        """Of bins: they may be dates."""
        parts = [read_place(part) for part in text.split(",")]
        if len(parts) != 2:
            raise RefusedError(f"expected --bounds to be two numbers or dates, got {text!r}")
        return parts[0], parts[1]


class TableOptions(Options):
    """Which columns of which table: what help shows first."""

    data: list[str] = option(
        f"{files.TABLE} Several files make one table. With --engine spark, also any place "
        "that Spark can read.",
        name="FILE",
    )
    column: list[str] | None = option("One question: the column with the answers.", WHAT, "NAME")
    columns: str | None = option("The coordinates of one vector instead.", WHAT, "NAME,NAME,…")


class RunOptions(Asking, TableOptions):
    """What is asked of which table, how private, and what to make of it."""

    open_groups: bool = option("With --by: find the frequent groups first.", WHAT)
    open: bool = option("The answers are free text: find the frequent ones.", WHAT)
    top: int | None = option("With --open: answers to show; default: 50.", WHAT)
    length: int | None = option("Longest text (32) or group (24), in bytes.", WHAT)
    alphabet: str | None = option("With --open: the characters of answers.", WHAT, "CHARS")
    public_list: bool = option("Take a long list of answers from the data.", WHAT)
    drop_nulls: bool = option("Leave out rows without an answer.", WHAT)
    randomizer: str | None = option("Instead of ε: a mechanism by name.", PRIVATE, "NAME")
    local_epsilon: float | None = option("Its ε0.", PRIVATE)
    plan: Path | None = option("Instead of ε: a plan from shoal plan --save.", PRIVATE)
    allow_weaker: bool = option(
        "Run a plan that so few people do not keep.", PRIVATE, keyword="weaker"
    )
    person: str | None = option("Column of ids; else a row is a person.", CROWD, "NAME")
    reports_per_person: int | None = option(
        "With --person: rows of each; default: 1.", CROWD, keyword="reports"
    )
    format: Format | None = option("If the name of FILE does not tell.", _WHERE)
    engine: Engine | None = option("In this process (local), or by Spark.", _WHERE)
    master: str | None = option(MASTER, _WHERE, "URL")
    report: Path | None = option("Write a report to hand on (.html).")
    csv: Path | None = option("Write the estimates (.csv).")
    compare_truth: bool = option("Show true values too: not private.")
    verbose: bool = option("Print the guarantee, assumptions and notes, too.")

    rules: ClassVar[tuple[Rule, ...]] = (
        *Asking.rules,
        Excludes("questions", ("column", "columns", "open"), "--questions names the columns"),
        Excludes(
            "questions", ("public_list", "drop_nulls"), "the file of --questions says what is asked"
        ),
        Excludes(
            "open",
            (
                *("columns", "norm", "categories", "public_list", "bounds", "drop_nulls"),
                *("randomizer", "local_epsilon", "plan", "allow_weaker", "local_epsilon_cap"),
                *("bins", "quantiles", "ranges", "by", "groups", "open_groups", "tree"),
                *("person", "reports_per_person", "choices", "scale", "choose", "each", "missing"),
            ),
            "--open finds the answers in free text",
        ),
        *(Needs(name, ("open",), "it is for free text") for name in ("top", "alphabet")),
        Needs("length", ("open", "open_groups"), "it is for free text"),
        Excludes(
            "columns",
            ("categories", "choices", "scale", "bounds", "bins", "by", "public_list"),
            "--columns are the coordinates of a vector",
        ),
        Excludes("columns", ("column",), "--columns are the coordinates of a vector"),
        Excludes("missing", ("drop_nulls",), "--missing says what becomes of such rows"),
        Needs("missing", ("column", "columns"), "the column with the answers"),
        Excludes("bins", ("categories",), "--bins says what people answer"),
        Excludes("bounds", ("categories",), "--bounds says what people answer"),
        *(Needs(name, ("column",), "the column with the answers") for name in _OF_COLUMN),
        Needs("drop_nulls", ("column", "columns"), "the column with the answers"),
        Needs("norm", ("columns",), "the coordinates of the vector"),
        Needs("open_groups", ("by",), "the column with the groups"),
        Needs("open_groups", ("epsilon",), "a part of it pays for finding them"),
        Excludes("open_groups", ("groups",), "--open-groups finds the groups"),
        Needs("open", ("epsilon",), "what the collection may cost each person"),
        OneOf(("epsilon", "randomizer", "plan"), "how private"),
        Excludes("plan", _CHOSEN, "--plan says what devices run"),
        Excludes("randomizer", _CHOSEN, "--randomizer says what devices run"),
        Needs("randomizer", ("local_epsilon",), "its ε0"),
        Needs("local_epsilon", ("randomizer",), "the randomizer with this ε0"),
        Needs("reports_per_person", ("person",), "the column with the person's id"),
        Needs("master", ("engine=spark",), "the engine with a master"),
        Required(
            "column",
            "which column of the file to collect (or --columns for a vector)",
            ("columns", "questions", "plan"),
        ),
    )

    def standing(self) -> dict[str, str]:
        """Also those of mechanisms and of rows without a value, as far as these are typed."""
        standing = super().standing() | {"name": "column"}
        if self.missing is None:
            standing["missing"] = "drop_nulls"
        if self.columns is not None:
            standing |= {"column": "columns", "name": "columns"}
        if self.open_groups:
            standing["groups"] = "open_groups"
        if self.randomizer is not None:
            standing |= {"mechanism": "randomizer", "epsilon": "local_epsilon"}
        if self.plan is not None:
            standing["question"] = "column"
        named = self.column or self.columns is not None
        return standing if named else without(standing, "column", "columns", "drop_nulls")

    @cached_property
    def planned(self) -> Plan | None:
        """The plan that was made before."""
        from shoal.planning import Plan

        return None if self.plan is None else Plan.load(self.plan)

    def asked(self) -> tuple[Question, ...] | None:
        """The questions; None for those of the plan."""
        from shoal.questions.kinds import Find, Vector, spelled

        terms: dict[str, Any] = {"missing": "drop"} if self.drop_nulls else {}
        if self.columns is not None:
            names = [part.strip() for part in self.columns.split(",") if part.strip()]
            called = spelled(names) or "vector"
            return (Vector(called, names, self.norm, **terms, **self.only("choose", "missing")),)
        if not self.column:
            return self.listed() or self._of_plan()
        name = self.column[0]
        known = None if self.plan is None else self._of_plan(name)
        if known is not None and not self.only(*SHAPED, "public_list", "drop_nulls"):
            (question,) = known
        else:
            plain = not any((self.choices, self.scale, self.bins, self.bounds))
            terms |= {"public": self.public_list} if plain else {}
            question = self.shaped(name, **terms)
        if self.by is None:
            return (question,)
        groups: Any = None
        if self.open_groups:
            groups = Find() if self.length is None else Find(self.length)
        elif self.groups is not None:
            groups = files.read_list(self.groups, "groups")
        elif question.groups is not None:  # of the plan, whatever the column was called
            return (replace(question, groups=replace(question.groups, column=self.by)),)
        return (question.by(self.by, groups, public=self.public_list),)

    def _of_plan(self, column: str | None = None) -> tuple[Question, ...] | None:
        """What the plan asks, of this column if one is said; None if it does not know the answers.

        A plan that was made by options has no name for its question. What devices run is the
        plan's, whatever the question wished.
        """
        made = self.planned
        if made is None:
            return None
        if column is None:
            if made.questions[0].name == ANSWER or not all(each.columns for each in made.questions):
                words = "which column of the file to collect, as the plan does not say"
                raise RefusedError(f"--column is missing: {words}")
            return None
        alone = len(made.questions) == 1
        asked = [each for each in made.questions if alone or each.name == column]
        if not asked or not asked[0].columns or isinstance(getattr(asked[0], "labels", ()), int):
            return None
        return (replace(asked[0], name=column, choose=None, weight=1.0),)

    def keywords(self) -> dict[str, Any]:
        """The arguments of :func:`shoal.run`, but the data and the questions."""
        from shoal.questions.terms import Named, Person

        keywords = self.only("epsilon", "delta", "compare_truth")
        keywords |= self.terms()
        if self.person is not None:
            reports = self.only("reports_per_person").values()
            keywords["person"] = Person(self.person, *reports)
        if self.randomizer is not None and self.local_epsilon is not None:
            local, cap = self.local_epsilon, self.local_epsilon_cap
            if local <= 0:
                raise RefusedError(f"expected --local-epsilon > 0, got {local:g}")
            if cap is not None and local > cap:
                expected = f"--local-epsilon within --local-epsilon-cap {cap:g}"
                raise RefusedError(f"expected {expected}, got {local:g}")
            keywords["mechanism"] = Named(self.randomizer, self.local_epsilon)
        if self.plan is not None:
            keywords["plan"] = self.planned
        return keywords


@command(app, ANALYSE)
def run(options: RunOptions) -> None:
    """Ask questions of a table: randomize, shuffle, estimate; a chart with its error and its ε."""
    outputs = {"report": options.report, "csv": options.csv}
    files.check(**outputs)
    if options.column and len(options.column) > 1:  # the last one would be taken, nobody told
        raise RefusedError("--column is for one question: --questions FILE asks several")
    if options.open and not options.column:
        raise RefusedError("--open takes --column with text")
    result: Result | OpenResult
    with working("collecting") as progress, ExitStack() as stack:
        from shoal.pipeline import run as ask

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
            from shoal.open_answers import heavy_hitters
            from shoal.questions.kinds import Text

            asked = Text(*options.column or (), **options.only("length", "alphabet"))
            keywords = options.only("epsilon", "delta", "top", "compare_truth") | options.terms()
            result = heavy_hitters(data, asked, progress=counted, **keywords)
        else:
            result = ask(data, options.asked(), progress=counted, **options.keywords())
    files.write(files.text(options.report, result.to_html), (options.csv, result.to_csv))
    answer_brief(options, result, options.report, options.csv)


def without(standing: dict[str, str], *names: str) -> dict[str, str]:
    """All but these options, which are not given: what is refused is in a file."""
    return {argument: name for argument, name in standing.items() if name not in names}

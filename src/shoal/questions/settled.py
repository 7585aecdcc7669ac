"""Settled questions: what data, n or epsilon decide is filled in, and what is thereby public.

Which answers there are is fixed before anybody reports. A public list is taken as it is, with an
answer for "no answer" and one for "not in the list", whether or not the data has any: the data does
not decide. Without a list the answers in the data are used, and a note calls them public.

How a column is read is a *coding*, a plain value: an engine turns it into whatever reads rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.questions.domains import Ball, Cells, Domain, Interval, Sphere
from shoal.questions.edges import Edges
from shoal.questions.kinds import (
    MOST_CELLS,
    MOST_LABELS,
    NONE,
    OTHER,
    Bins,
    Choice,
    Choices,
    Groups,
    Number,
    Question,
    Scale,
    Text,
    Vector,
    spelled,
)

if TYPE_CHECKING:
    import polars as pl

PUBLIC_LIST = "the list of answers is treated as public: it was taken from the data"
PUBLIC_NULLS = "who answered is treated as public: rows without an answer are left out"
PUBLIC_GROUPS = "the list of groups is treated as public: it was taken from the data"
PUBLIC_TYPE = "whether numbers are whole is treated as public: it is the type of the column"
PADDED = "a row that a person lacks has no number"
CLAMPED = "numbers outside the bounds count as the nearest bound"
IN_BINS = "{} outside the bounds count in the first or the last bin"
ON_SCALE = "values outside the scale count as its nearest end"
UNEQUAL = "bins are not equally wide: they hold {} to {} whole numbers each"
SHORTENED = "vectors longer than the norm count as scaled down to it"
FEWER = "of more than {} selected answers, so many are drawn at random"
UNLISTED = "selected answers that are not in the list are left out"
GIVE_LIST = "labels / --categories FILE gives a list"
INSTEAD = f"{GIVE_LIST}, Bins / --bins is for numbers, heavy_hitters / --open for text"
LIST_GROUPS = "groups / --groups FILE gives a list, Find() / --open-groups finds the frequent ones"
_LEAVES = (
    "missing='drop' / --drop-nulls leaves out rows without one; of a Number missing='cell' / "
    "--missing cell counts them, too"
)

Reads = Literal["codes", "placed", "numbers", "vectors", "texts"]
Lacks = Literal["text", "place", "list", "number", "vector"]
Kind = Literal["text", "whole", "real", "date", "other"]


# ------------------------------------------------------------------------------------ codings
MOST_PUBLIC = 200  # answers of a list that is taken from the data
_MANY = 100


@dataclass(frozen=True, eq=False)
class Answers:
    """The different answers of a column, each with how many rows have it.

    ``tally`` has the answers and their counts; ``nulls`` of the rows have none.
    """

    rows: int
    nulls: int
    tally: pl.DataFrame

    @classmethod
    def of(cls, labels: pl.Series, counts: pl.Series) -> Answers:
        """Of answers, perhaps some of them repeated, and in how many rows each is."""
        import polars as pl

        tally = pl.DataFrame({"value": labels, "count": counts.cast(pl.UInt64)})
        tally = tally.group_by("value").agg(pl.col("count").sum())
        nulls = tally.filter(pl.col("value").is_null())["count"].sum()
        rows = tally["count"].sum()
        return cls(int(rows), int(nulls), tally.drop_nulls())

    @property
    def distinct(self) -> tuple[str, ...]:
        """The different answers, sorted."""
        return tuple(self.tally["value"].sort().to_list())

    @property
    def single(self) -> int:
        """How many answers are given by one row only."""
        return int((self.tally["count"] == 1).sum())

    def __add__(self, other: Answers) -> Answers:
        import polars as pl

        both = pl.concat([self.tally, other.tally])
        union = Answers.of(both["value"], both["count"])
        return Answers(self.rows + other.rows, self.nulls + other.nulls, union.tally)

    def require_public(self, name: str, argument: str, instead: str, *, insisted: bool) -> None:
        """Such as a public list may have: neither many, nor numbers of which some are not whole.

        What the answers are decides, and not the type of the column: in a text file all values are
        text. Who insists may have these, but not identifiers: a list that is public has no names.
        """
        import polars as pl

        many, taken = self.tally.height, "in a list taken from the data"
        if many > _MANY and 2 * self.single > many:
            single = "most are in one row only, as identifiers are"
            expected = f"answers that people share {taken} ({single}: {instead})"
            raise InvalidArgumentError(argument, name, expected)
        wanted = f"at most {MOST_PUBLIC} different answers, not {many:,}"
        wrong = not insisted and many > MOST_PUBLIC
        if not wrong and not insisted:
            numbers = self.tally["value"].str.strip_chars().cast(pl.Float64, strict=False)
            if not numbers.has_nulls() and bool((numbers != numbers.floor()).any()):
                wanted, wrong = "no numbers that are not whole", True
        insist = "public=True / --public-list takes it anyway"
        checks.refuse(wrong, f"{wanted} {taken} ({instead}; {insist})", **{argument: name})

    def require_few(self, name: str) -> None:
        """Few enough for a list of answers."""
        expected = f"at most {MOST_LABELS:,} different answers (is it an identifier?)"
        checks.refuse(self.tally.height > MOST_LABELS, expected, column=name)


class Read:
    """How a column is read: what comes out of it, and when a row lacks that."""

    reads: ClassVar[Reads] = "codes"
    several: ClassVar[bool] = False  # whether a code is a set of answers
    bounded: ClassVar[bool] = False  # whether what is read is cut to what may be reported

    column: str  # or what several are called

    @property
    def sources(self) -> tuple[str, ...]:
        """All columns that are read."""
        return (self.column,)

    @property
    def cells(self) -> int:
        """How many different codes, or coordinates, there are."""
        return 1

    @property
    def lacks(self) -> Lacks:
        """What a row has to have."""
        return "text"


@dataclass(frozen=True)
class Lookup(Read):
    """A value's text among the labels; ``none`` for rows without one, ``other`` for other texts.

    Where ``none`` is None such rows are left out; where ``other`` is, there must be no other text.
    """

    column: str
    labels: tuple[str, ...]
    none: int | None = None
    other: int | None = None

    @property
    def cells(self) -> int:
        """The labels, and what was added."""
        return len(self.labels) + (self.none is not None) + (self.other is not None)


@dataclass(frozen=True)
class Cut(Read):
    """The bin of a number or date; ``none`` for rows without one (None: these are left out)."""

    column: str
    edges: Edges
    none: int | None = None

    @property
    def cells(self) -> int:
        """The bins, and what was added."""
        return len(self.edges) + (self.none is not None)

    @property
    def lacks(self) -> Lacks:
        """A number or date, if rows without one are left out."""
        return "place" if self.none is None else "text"


@dataclass(frozen=True)
class Members(Read):
    """Which of the labels are selected: the sum of 2^i over those that are, at most so many.

    Rows without a value have selected none of them, unless these are left out.
    """

    several: ClassVar[bool] = True
    bounded: ClassVar[bool] = True

    column: str
    labels: tuple[str, ...]
    most: int
    separator: str
    drop: bool = False

    @property
    def cells(self) -> int:
        """The labels."""
        return len(self.labels)

    @property
    def lacks(self) -> Lacks:
        """A list."""
        return "list"


@dataclass(frozen=True)
class Product(Read):
    """A group and an answer as one code: the answers of the first group before the second's."""

    groups: Lookup
    inner: Lookup | Cut
    answers: int

    @property
    def lacks(self) -> Lacks:
        """An answer: everybody is in a group."""
        return self.inner.lacks

    @property
    def column(self) -> str:  # type: ignore[override] # follows from the parts
        """That of the answers."""
        return self.inner.column

    @property
    def sources(self) -> tuple[str, ...]:
        """That of the answers, and that of the groups."""
        return self.inner.column, self.groups.column

    @property
    def cells(self) -> int:
        """The answers of all groups."""
        return self.groups.cells * self.answers


@dataclass(frozen=True)
class Placed(Read):
    """The group of a number, 0 if there are none, and the number itself; none where it has none."""

    reads: ClassVar[Reads] = "placed"

    column: str
    groups: Lookup | None = None
    drop: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        """That of the numbers, and that of the groups."""
        return (self.column,) if self.groups is None else (self.column, self.groups.column)

    @property
    def cells(self) -> int:
        """The groups."""
        return 1 if self.groups is None else self.groups.cells

    @property
    def lacks(self) -> Lacks:
        """A number."""
        return "number"


@dataclass(frozen=True)
class Clip(Read):
    """A number, moved to the nearest bound; rows without one are left out."""

    reads: ClassVar[Reads] = "numbers"
    bounded: ClassVar[bool] = True

    column: str
    low: float
    high: float

    @property
    def lacks(self) -> Lacks:
        """A number."""
        return "number"


@dataclass(frozen=True)
class Coordinates(Read):
    """A vector, shortened to the norm; rows that lack a number are left out."""

    reads: ClassVar[Reads] = "vectors"
    bounded: ClassVar[bool] = True

    columns: tuple[str, ...]
    norm: float

    @property
    def column(self) -> str:  # type: ignore[override] # follows from the columns
        """What the columns are called."""
        return spelled(self.columns)

    @property
    def sources(self) -> tuple[str, ...]:
        """One for each coordinate."""
        return self.columns

    @property
    def cells(self) -> int:
        """The coordinates."""
        return len(self.columns)

    @property
    def lacks(self) -> Lacks:
        """A number in every column."""
        return "vector"


@dataclass(frozen=True)
class Spelled(Read):
    """A text; none is the empty one."""

    reads: ClassVar[Reads] = "texts"

    column: str


Coding = Lookup | Cut | Members | Product | Placed | Clip | Coordinates | Spelled


# ----------------------------------------------------------------------------- what data know


class Facts(ABC):
    """What an engine says of a table before anybody reports."""

    @abstractmethod
    def kind(self, column: str) -> Kind:
        """What a column holds."""

    @abstractmethod
    def size(self, coding: Coding) -> tuple[int, int]:
        """How many rows there are, and how many of them lack what is read."""

    @abstractmethod
    def answers(self, column: str, *, few: bool = True) -> Answers:
        """The different answers of a column: an error if they are not ``few``."""

    def lacking(self, coding: Coding) -> str:
        """The column in which a row lacks what is read: of several the first one."""
        *names, last = coding.sources if coding.reads == "vectors" else (coding.column,)
        return next((name for name in names if self.size(Placed(name))[1]), last)


# ------------------------------------------------------------------------------------ settled


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A question as it is asked of n people.

    ``labels`` are the cells by their number, or the coordinates; none for numbers. The first
    ``known`` of them are answers, bins or steps; then come those that were added. Steps have
    ``scores``, of which there is a mean. ``assumptions`` are what the guarantee takes for public.
    """

    question: Question
    n: int
    domain: Domain
    coding: Coding | None = None
    labels: tuple[str, ...] = ()
    known: int = 0
    edges: Edges | None = None
    ranges: tuple[tuple[int, int], ...] = ()
    scores: tuple[float, ...] = ()
    groups: Settled | None = None
    answers: Settled | None = None
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The question's."""
        return self.question.name

    @property
    def order(self) -> tuple[int, ...] | None:
        """The answers in the order that is their own, if they are bins, steps or numbers."""
        inner = self if self.answers is None else self.answers
        cells, known = range(len(inner.labels)), inner.labels[: inner.known]
        if inner.edges is not None or inner.scores:
            return tuple(cells)
        numbers = natural(known)
        if numbers is None:
            return None
        return (*map(known.index, numbers), *cells[inner.known :])

    @property
    def cells_of_means(self) -> list[list[int]]:
        """The cells of the steps of each group, or of everybody's."""
        groups = 1 if self.groups is None else len(self.groups.labels or range(self.groups.known))
        width = self.domain.arguments.get("k", 0) // groups
        return [list(range(i * width, i * width + len(self.scores))) for i in range(groups)]

    @property
    def fixed(self) -> Question:
        """The question with what was filled in, so that it settles to the same without data."""
        question, inner = self.question, self if self.answers is None else self.answers
        changes: dict[str, Any] = {}
        if self.groups is not None and question.groups is not None:
            changes["groups"] = replace(question.groups, **_listed(self.groups, question.groups))
        if getattr(question, "labels", ()) is None:
            changes |= _listed(inner, question)
        if inner.edges is not None:
            changes |= _ends(question, inner.edges)
        return replace(question, **changes)

    @property
    def listed(self) -> str:
        """What the labels are, in words."""
        if self.groups is not None and self.answers is not None:
            return f"{len(self.groups.labels)} groups of {len(self.answers.labels)} answers"
        return f"the list of {self.known}" if self.edges is None else f"{self.known} bins"


def _listed(settled: Settled, of: Any) -> dict[str, Any]:  # noqa: ANN401 - a question, or groups
    """What says the same answers without data."""
    if of.labels is not None:
        return {}
    none = NONE in settled.labels[settled.known :]
    keep = "cell" if none else "refuse" if of.missing == "cell" else of.missing
    return {"labels": settled.labels[: settled.known], "other": False, "missing": keep}


def _ends(question: Any, edges: Edges) -> dict[str, Any]:  # noqa: ANN401 - a question in bins
    """What says the same bins without data: the edges, and numbers that are not whole as such."""
    if question.bins == "auto":
        *shown, last = (edges.shown(edge) for edge in (*edges.edges[:-1], edges.edges[-1]))
        end = edges.span(0, len(edges) - 1)[1] if edges.whole else last
        return {"bins": (*shown, end), "low": None, "high": None}
    if edges.whole:
        return {}
    ends = {name: getattr(question, name) for name in ("low", "high")}
    real = {name: float(end) for name, end in ends.items() if end is not None}
    listed = isinstance(question.bins, tuple)
    return real | ({"bins": tuple(map(float, question.bins))} if listed else {})


@dataclass(frozen=True)
class Given:
    """What a question is settled by."""

    facts: Facts | None
    n: int
    epsilon: float | None
    padded: bool


def settle(
    question: Question,
    facts: Facts | None = None,
    *,
    n: int = 0,
    epsilon: float | None = None,
    padded: bool = False,
) -> Settled:
    """The question, asked of the people of a table; or of so many, if there is no table.

    How many bins there are, if they are automatic, depends on the question's part of ``epsilon``.
    If the table is ``padded``, empty rows may stand for those that a person does not have.
    """
    given = Given(facts, n, epsilon, padded)
    made: Settled = _SETTLING[question.kind](question, given)
    groups = question.groups
    if groups is None or made.domain.takes != "answers":
        return made
    return _grouped(made, _groups(groups, given))


def settle_all(
    questions: Sequence[Question],
    facts: Facts | None = None,
    *,
    n: int = 0,
    epsilon: float | None = None,
    padded: bool = False,
) -> list[Settled]:
    """All of them; what is wrong with one of several is said with its name."""
    made = []
    for question in questions:
        try:
            made.append(settle(question, facts, n=n, epsilon=epsilon, padded=padded))
        except InvalidArgumentError as error:
            if len(questions) == 1:
                raise
            expected = f"{error.expected} in question {question.name}"
            raise InvalidArgumentError(error.name, error.value, expected) from error
    return made


def _of(question: Question, given: Given, coding: Coding, **fields: Any) -> Settled:  # noqa: ANN401
    """With how many people there are: those without a value may be left out, but not everybody."""
    n = given.n
    if given.facts is not None:
        rows, without = given.facts.size(coding)
        refused = question.missing == "refuse" and without > 0
        lacking = given.facts.lacking(coding) if refused else coding.column
        n = people(question, rows, without, name=coding.column, lacking=lacking)
    public = (PUBLIC_NULLS,) * (question.missing == "drop")
    return Settled(question=question, n=n, coding=coding, assumptions=public, **fields)


def people(question: Question, rows: int, without: int, *, name: str, lacking: str) -> int:
    """How many report: who has no value may be left out, or must not be there, or is one, too.

    ``name`` is what the column is called, or the columns; ``lacking`` the one without a value.
    """
    n = rows - without if question.missing == "drop" else rows
    expected = f"at least one row{' with an answer' if rows else ''} in column {name}"
    checks.refuse(n < 1, expected, column=f"{name} without any")
    what = "an answer" if question.usually == "cell" else "a number"
    expected = f"{what} in every row of the column ({_LEAVES})"
    wrong = question.missing == "refuse" and without
    checks.refuse(wrong, expected, column=lacking)
    return n


@dataclass(frozen=True)
class Noun:
    """What a list is of, in errors: which arguments it is given by, and what to do instead."""

    one: str
    argument: str
    column: str
    instead: str
    public: str  # what is assumed of a list that the data gave


ANSWER = Noun("answer", "labels", "column", INSTEAD, PUBLIC_LIST)
GROUP = Noun("group", "groups", "by", LIST_GROUPS, PUBLIC_GROUPS)


def _choice(question: Choice, given: Given, noun: Noun = ANSWER) -> Settled:
    if isinstance(question.labels, int):
        expected = f"a list of {noun.one}s of {question.name}"
        expected += " (a number of them is enough for plans only)"
        checks.refuse(given.facts is not None, expected, **{noun.argument: question.labels})
        cells = Cells(question.labels)
        return Settled(question=question, n=given.n, domain=cells, known=question.labels)
    known: Any = question.labels
    none, n = question.missing == "cell", given.n
    answers = None
    if known is None:
        if given.facts is None:
            number = ", or how many there are," * (noun is ANSWER)
            expected = f"a list of {noun.one}s of {question.name}{number} to plan without a table"
            raise InvalidArgumentError(noun.argument, None, expected)
        answers = given.facts.answers(question.name)
        one = question.name
        n = people(question, answers.rows, answers.nulls, name=one, lacking=one)
        answers.require_public(question.name, noun.column, noun.instead, insisted=question.public)
        known, none = answers.distinct, none and (given.padded or answers.nulls > 0)
        known = natural(known) or known
    added = (*[NONE] * none, *[OTHER] * question.others)
    for value in added:
        expected = f"no {noun.one} called {value} (that name is taken for rows without a known one)"
        checks.refuse(value in known, expected, **{noun.argument: value})
    listed = (*known, *added)
    same = f"all {n:,} rows have the same one" if n > 1 else "there is one row"
    expected = f"at least two different {noun.one}s ({same})"
    checks.refuse(len(listed) < 2, expected, **{noun.column: question.name})
    coding = Lookup(
        question.name,
        known,
        len(known) if none else None,
        len(listed) - 1 if question.others else None,
    )
    fields: dict[str, Any] = {"labels": listed, "known": len(known), "domain": Cells(len(listed))}
    if answers is None:
        return _of(question, given, coding, **fields)
    public = (noun.public, *[PUBLIC_NULLS] * (question.missing == "drop"))
    return Settled(question=question, n=n, coding=coding, assumptions=public, **fields)


def _choices(question: Choices, given: Given) -> Settled:
    labels = tuple(map(str, question.labels))
    most, drop = question.at_most or len(labels), question.missing == "drop"
    coding = Members(question.name, labels, most, question.separator, drop)
    expected = "one report per person for any of several answers"
    checks.refuse(given.padded, expected, column=question.name)
    notes = (UNLISTED, *[FEWER.format(most)] * (most < len(labels)))
    return _of(
        question, given, coding, labels=labels, known=len(labels), notes=notes, domain=Cells(2)
    )


def _cut(question: Question, given: Given, edges: Edges, notes: Sequence[str]) -> Settled:
    labels = (*edges.labels, *[NONE] * question.none)
    coding = Cut(question.name, edges, len(edges) if question.none else None)
    return _of(
        question,
        given,
        coding,
        labels=labels,
        known=len(edges),
        edges=edges,
        notes=tuple(notes),
        domain=Cells(len(labels)),
    )


def _scale(question: Scale, given: Given) -> Settled:
    made = _cut(question, given, question.edges, [ON_SCALE])
    steps = range(question.low, question.high + 1)
    return replace(made, edges=None, scores=tuple(map(float, steps)))


def _bins(question: Bins, given: Given) -> Settled:
    real, typed, n, epsilon = False, False, given.n, given.epsilon
    if given.facts is not None:
        kind = given.facts.kind(question.name)
        # What text holds is not public: any number, as the type of decimals says too.
        real = kind != "whole"
        if isinstance(question.bins, str):
            n, _ = given.facts.size(Lookup(question.name, ()))
        # Bins then follow the type, and one missing value makes floats of a column of pandas.
        typed = kind in {"whole", "real"} and question.typed
    edges = question.edges_of(n, epsilon=epsilon, real=real)
    widths = [int(high - low) for low, high in pairwise(edges.edges)]
    counted = np.ndim(question.bins) == 0  # type: ignore[arg-type]  # a number, a word, or a list
    uneven = edges.whole and not edges.dates and counted and len(set(widths)) > 1
    unequal = [UNEQUAL.format(min(widths), max(widths))] * uneven
    what = "dates" if edges.dates else "numbers"
    made = _cut(question, given, edges, (IN_BINS.format(what), *unequal))
    ranges = tuple(edges.range(*pair) for pair in question.ranges)
    public = (*[PUBLIC_TYPE] * typed, *made.assumptions)
    return replace(made, ranges=ranges, assumptions=public)


def _number(question: Number, given: Given) -> Settled:
    bounds = Interval(question.low, question.high)
    if question.plain:
        why = f"{PADDED}: use Bins, or missing='cell'"
        expected = f"no mean of {question.name} with several reports per person ({why})"
        checks.refuse(given.padded, expected, column=question.name)
        clip = Clip(question.name, question.low, question.high)
        return _of(question, given, clip, domain=bounds, notes=(CLAMPED,))
    groups = None if question.groups is None else _groups(question.groups, given)
    lookup = None if groups is None else groups.coding
    placed = Placed(question.name, lookup, question.missing == "drop")  # type: ignore[arg-type]
    made = _of(question, given, placed, domain=bounds, notes=(CLAMPED,))
    if groups is None:
        return made
    return replace(made, groups=groups, assumptions=(*made.assumptions, *groups.assumptions))


def _vector(question: Vector, given: Given) -> Settled:
    d, norm = question.dimension, question.norm
    if given.facts is None:
        domain: Domain = Sphere(d) if norm is None else Ball(d, norm)
        return Settled(question=question, n=given.n, domain=domain)
    expected = "a norm with columns: the largest length of a vector, which is public"
    checks.refuse(not question.columns, "the names of columns", columns=d)
    if norm is None:
        raise InvalidArgumentError("norm", None, expected)
    expected = f"no mean of {question.name} with several reports per person ({PADDED})"
    checks.refuse(given.padded, expected, column=question.name)
    coding = Coordinates(question.columns, norm)
    labels = question.columns
    return _of(question, given, coding, labels=labels, domain=Ball(d, norm), notes=(SHORTENED,))


def _text(question: Text, given: Given) -> Settled:  # noqa: ARG001
    expected = "questions with answers: texts are found by heavy_hitters (--open)"
    raise InvalidArgumentError("questions", question.name, expected)


_SETTLING: dict[str, Any] = {
    "choice": _choice,
    "choices": _choices,
    "scale": _scale,
    "bins": _bins,
    "number": _number,
    "vector": _vector,
    "text": _text,
}


def natural(labels: Sequence[str]) -> tuple[str, ...] | None:
    """The labels in the order of the numbers that they are; None if some are none.

    >>> natural(["10", "9", "-1"]), natural(["10", "nine"])
    (('-1', '9', '10'), None)
    """
    try:
        numbers = {label: float(label) for label in labels}
    except ValueError:
        return None
    finite = all(map(math.isfinite, numbers.values()))
    rising = tuple(sorted(numbers, key=lambda label: numbers[label]))
    return rising if rising and finite else None


# ------------------------------------------------------------------------------------- groups


def _groups(groups: Groups, given: Given) -> Settled:
    """The groups: a public list, and whoever is in none of it; or those in the data.

    ``padded``: rows that a person lacks are in no group, whether or not there are any.
    """
    expected = "a list of groups to plan without a table, where Find() would find them"
    checks.refuse(groups.longest is not None, expected, by=groups.column)
    listed: Any = groups.labels
    terms: dict[str, Any] = {"public": groups.public, "missing": groups.missing}
    choice = Choice(groups.column, listed, other=groups.other, **terms)
    return _choice(choice, given, GROUP)


def _grouped(answers: Settled, groups: Settled) -> Settled:
    """Every answer in every group."""
    k = len(groups.labels or range(groups.known)) * len(answers.labels or range(answers.known))
    most = MOST_LABELS if answers.coding is not None else MOST_CELLS
    expected = f"at most {most:,} answers in all of them together, not {k:,}"
    checks.refuse(k > most, expected, by=groups.name)
    coding = None
    if answers.coding is not None and groups.coding is not None:
        coding = Product(groups.coding, answers.coding, len(answers.labels))  # type: ignore[arg-type]
    return replace(
        answers,
        domain=Cells(k),
        coding=coding,
        labels=tuple(f"{group} · {each}" for group in groups.labels for each in answers.labels),
        known=k,
        edges=None,
        groups=groups,
        answers=answers,
        assumptions=(*answers.assumptions, *groups.assumptions),
    )

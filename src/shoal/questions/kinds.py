"""Questions: what is asked, be it of a column of a table or of a person with a form.

There are seven kinds, and each reads itself from and writes itself to the one file of questions
(:mod:`shoal.questions.file`). A question says nothing about how it is collected: that a column has
six labels, or numbers in twenty bins, is all that a planner and a device need of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from numbers import Real
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.questions.edges import Binning, Edges, Place, written_whole
from shoal.values import Record

Missing = Literal["cell", "refuse", "drop"]

NONE = "(none)"
OTHER = "(other)"
MOST_LABELS = 1_000_000
MOST_CELLS = 10_000_000  # of a plan: beyond, predicting the error of every answer takes too long
MOST_CHOICES = 60  # labels of which somebody may select several
MOST_STEPS = 1_000  # of a scale
MOST_WEIGHT = 1_000  # of a question; the least is its reciprocal
LONGEST_GROUP = 24  # bytes of the name of a group that is found
_NAMED = 6
_EXACT_WHOLE = 2.0**53


# ------------------------------------------------------------------------------------ groups


@dataclass(frozen=True)
class Find:
    """Groups that nobody lists: the frequent ones are found first, by half of the budget.

    Args:
        length: Bytes of the longest name that is found; others count as "(other)".

    Raises:
        InvalidArgumentError: ``length`` is no whole number >= 1.

    Example:
        >>> Find(length=12).length
        12
    """

    length: int = LONGEST_GROUP

    def __post_init__(self) -> None:
        checks.counts(self, length=1)


@dataclass(frozen=True)
class Groups:
    """The groups that answers are counted by: one report tells group and answer at once.

    Args:
        column: The column of groups; of a form, a name for it.
        labels: The public list of groups, :class:`shoal.Find` to find the frequent ones, or None
            for those of the data, which are public then.
        text: What people are asked about their group.
        public: Allow a list from the data of more than 200 groups, or of numbers that are not
            whole.
        other: Whether groups that are not in the list count as "(other)"; by default if there is
            a list.
        missing: "cell" counts rows without a group as "(none)", "refuse" allows none.

    Raises:
        InvalidArgumentError: The list is empty, or a name is empty or there twice.

    Example:
        >>> Groups("region", ["north", "south"]).labels
        ('north', 'south')
    """

    column: str
    labels: Sequence[object] | Find | None = None
    text: str = ""
    public: bool = False
    other: bool | None = field(default=None, kw_only=True)
    missing: Missing = field(default="cell", kw_only=True)

    def __post_init__(self) -> None:
        checks.one_of(("cell", "refuse"), missing=self.missing)
        listed: Any = self.labels
        if listed is None or self.longest is not None:
            return
        expected = "a list with at least one name"
        wrong = isinstance(listed, str | bytes) or not hasattr(listed, "__len__") or not len(listed)
        checks.refuse(wrong, expected, groups=self.labels or "none")
        named = tuple("" if each is None else label_of(each) for each in listed)
        checks.refuse("" in named, "no empty name in the list", groups=", ".join(named))
        object.__setattr__(self, "labels", distinct("groups", named, "every group once"))

    @property
    def longest(self) -> int | None:
        """Bytes of the longest name, if the frequent groups are to be found."""
        return self.labels.length if isinstance(self.labels, Find) else None


# --------------------------------------------------------------------------------- questions


@dataclass(frozen=True)
class Question(ABC):
    """What every question has, whatever may be answered."""

    kind: ClassVar[str]
    usually: ClassVar[Missing] = "cell"  # what becomes of rows without a value
    ungrouped: ClassVar[str] = ""  # why it is not counted by groups, if it is not

    name: str
    text: str = field(default="", kw_only=True)
    weight: float = field(default=1.0, kw_only=True)
    choose: str | None = field(default=None, kw_only=True)
    missing: Missing | None = field(default=None, kw_only=True)
    groups: Groups | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        name: object = self.name
        named = isinstance(name, str) and name != ""
        checks.refuse(not named, "what a column, or a question, is called", name=self.name)
        checks.positive(weight=self.weight)
        expected = f"a weight from {1 / MOST_WEIGHT} to {MOST_WEIGHT:,}"
        fits = 1 / MOST_WEIGHT <= self.weight <= MOST_WEIGHT
        checks.refuse(not fits, expected, weight=self.weight)
        if self.missing is None:
            object.__setattr__(self, "missing", self.usually)
        expected = f"one of {', '.join(get_args(Missing))}"
        checks.refuse(self.missing not in get_args(Missing), expected, missing=self.missing)
        if self.groups is not None:
            by = self.groups.column
            expected = "another column than the one that is collected"
            checks.refuse(by == self.name, expected, by=by)
            checks.refuse(self.ungrouped, f"no groups for {self.ungrouped}", by=by)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table that it is about, that of the groups among them."""
        beside = () if self.groups is None else (self.groups.column,)
        return (self.name, *beside)

    @property
    def none(self) -> bool:
        """Whether somebody without a value counts as one, in a cell of its own."""
        return self.missing == "cell"

    def by(
        self,
        column: str,
        labels: Sequence[object] | Find | None = None,
        *,
        text: str = "",
        public: bool = False,
    ) -> Self:
        """The same question, counted by groups: see :class:`shoal.Groups`."""
        return replace(self, groups=Groups(column, labels, text, public))

    @abstractmethod
    def __str__(self) -> str:
        """What may be answered."""

    # In the file of questions

    def to_dict(self) -> Record:
        """Plain values: the kind, and what is not as usual."""
        written: Record = {"kind": self.kind}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "missing" and value == self.usually:
                continue
            if value != each.default:
                written[each.name] = _plain(value)
        return written

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """From plain values; a key that there is not is named, with the one that was meant.

        What is None is as usual.
        """
        known = {each.name: each for each in fields(cls)}
        values = _given(stored, ("kind", *known), "")
        values.pop("kind", None)
        for name, each in known.items():
            lacks = each.default is MISSING and name not in values
            checks.refuse(lacks, f"a question with a {name}", **{name: None})
        if isinstance(values.get("groups"), Mapping):
            values["groups"] = _groups(values["groups"])
        return cls(**values)


def _plain(value: object) -> object:
    if isinstance(value, Groups):
        plain: Record = {"column": value.column}
        listed: Any = value.labels
        if value.longest is not None:
            plain["find"] = value.longest
        elif listed is not None:
            plain["labels"] = list(listed)
        for each in fields(value)[2:]:
            own = getattr(value, each.name)
            plain |= {} if own == each.default else {each.name: own}
        return plain
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    expected = "an alphabet of characters, to be written (not of bytes that are none)"
    checks.refuse(isinstance(value, bytes), expected, alphabet=value)
    return value if value is None or isinstance(value, str | Real) else str(value)


def _given(stored: Mapping[str, Any], known: Sequence[str], of: str) -> dict[str, Any]:
    """What is not None; a key that there is not is named, with the one that was meant."""
    for key in stored:
        expected = f"one of the keys {', '.join(known)}{of}{checks.similar(str(key), known)}"
        checks.refuse(key not in known, expected, key=key)
    return {key: value for key, value in stored.items() if value is not None}


def _groups(stored: Mapping[str, Any]) -> Groups:
    values = _given(stored, ("find", *(each.name for each in fields(Groups))), " of groups")
    checks.refuse("column" not in values, "groups with a column", column=None)
    if "find" in values:
        checks.refuse("labels" in values, "labels or find, not both", key="find")
        values["labels"] = Find(checks.count(find=values.pop("find")))
    return Groups(**values)


@dataclass(frozen=True)
class Choice(Question):
    """One of several answers.

    Args:
        name: The column, or the name of the question.
        labels: The public list of answers; those of the data unless given, which are public
            then. To plan, a number of answers is enough.
        other: Whether values that are not in the list count as "(other)"; by default if there
            is a list.
        public: Allow a list from the data of more than 200 answers, or of numbers that are not
            whole.
        text: The question, as people read it.
        weight: Its part of the budget, from 0.001 to 1,000.
        choose: The option of the plan to be run instead of the best.
        missing: What becomes of rows without an answer: "cell" counts them as "(none)",
            "drop" leaves them out, which is public then, "refuse" allows none.
        groups: The groups that answers are counted by; see :meth:`by`.

    Raises:
        InvalidArgumentError: The list is empty, or an answer is there twice.

    Example:
        >>> Choice("color", ["red", "green"]).cells
        4
        >>> Choice("color", 4).cells
        4
    """

    kind: ClassVar[str] = "choice"

    labels: Sequence[object] | int | None = None
    other: bool | None = field(default=None, kw_only=True)
    public: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.labels, Real):
            given: Any = self.labels
            object.__setattr__(self, "labels", checks.count(2, labels=given))
            expected = f"labels <= {MOST_CELLS:,} (open answers need no list: Text, --open)"
            checks.refuse(self.labels > MOST_CELLS, expected, labels=self.labels)
        elif self.labels is not None and not isinstance(self.labels, int):
            object.__setattr__(self, "labels", labels("labels", self.labels))

    @property
    def known(self) -> tuple[str, ...] | None:
        """The list of answers, if there is one."""
        return self.labels if isinstance(self.labels, tuple) else None

    @property
    def others(self) -> bool:
        """Whether there is an answer for those that are not in the list."""
        return self.labels is not None if self.other is None else self.other

    @property
    def cells(self) -> int | None:
        """How many answers there are, those that are added among them; None of the data."""
        if isinstance(self.labels, tuple):
            return len(self.labels) + self.none + self.others
        return self.labels if isinstance(self.labels, int) else None

    def __str__(self) -> str:
        cells = self.cells
        return "one of the answers in the data" if cells is None else f"one of {cells:,} answers"


@dataclass(frozen=True)
class Choices(Question):
    """Any of several answers: select all that apply.

    In a table the column holds lists, or text with a separator between the answers.

    Args:
        name: The column, or the name of the question.
        labels: The public list of answers.
        at_most: How many of them somebody may select; any number unless given. Of more, so many
            are drawn at random.
        separator: What is between the answers of a column of text.
        text: The question, as people read it.
        weight: Its part of the budget, from 0.001 to 1,000.
        choose: The option of the plan to be run instead of the best.
        missing: What becomes of rows without a value: "cell" counts them as if nothing was
            selected, "drop" leaves them out, which is public then, "refuse" allows none.
        groups: None: choices are not counted by groups.

    Raises:
        InvalidArgumentError: The list is empty or too long, an answer is there twice.

    Example:
        >>> Choices("symptoms", ["cough", "fever"]).at_most
        2
    """

    kind: ClassVar[str] = "choices"
    ungrouped: ClassVar[str] = "choices: ask for each answer by itself"

    labels: Sequence[object]
    at_most: int | None = None
    separator: str = field(default=";", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        listed = labels("labels", self.labels, most=MOST_CHOICES)
        object.__setattr__(self, "labels", listed)
        most = len(listed) if self.at_most is None else checks.count(at_most=self.at_most)
        object.__setattr__(self, "at_most", min(most, len(listed)))
        expected = "what is between two answers, such as ;"
        wrong = not str(self.separator)
        checks.refuse(wrong, expected, separator=self.separator)

    def __str__(self) -> str:
        most, k = self.at_most or 0, len(self.labels)
        return f"any of {k} answers" if most == k else f"at most {most} of {k} answers"


@dataclass(frozen=True)
class Scale(Question):
    """A whole number on a scale: bars in their order, and the mean, of the same reports.

    Args:
        name: The column, or the name of the question.
        low: The least step.
        high: The largest one. Values beyond count as the nearest step.
        ends: What the two ends are called, as people read it.
        text: The question, as people read it.
        weight: Its part of the budget, from 0.001 to 1,000.
        choose: The option of the plan to be run instead of the best.
        missing: What becomes of rows without a value: "cell" counts them as "(none)", and the
            mean is of the others; "drop" leaves them out, which is public then, "refuse" allows
            none.
        groups: The groups that answers are counted by; see :meth:`by`.

    Raises:
        InvalidArgumentError: The ends are no whole numbers, or too far apart.

    Example:
        >>> Scale("agreement", 1, 5).cells
        6
    """

    kind: ClassVar[str] = "scale"

    low: int
    high: int
    ends: Sequence[str] = field(default=("", ""), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
            whole = number and value % 1 == 0  # infinite and missing numbers have no such rest
            checks.refuse(not whole, "a scale of whole numbers", **{name: value})
            object.__setattr__(self, name, int(value))
        fits = 1 <= self.high - self.low < MOST_STEPS
        expected = f"a scale of 2 to {MOST_STEPS:,} steps, the least one first"
        checks.refuse(not fits, expected, high=self.high)
        two = not isinstance(self.ends, str) and len(self.ends) == 2
        checks.refuse(not two, "two names, of the lower end and of the upper one", ends=self.ends)
        object.__setattr__(self, "ends", tuple(self.ends))

    @property
    def edges(self) -> Edges:
        """A bin for each step."""
        steps = tuple(map(str, range(self.low, self.high + 1)))
        places = tuple(float(step) for step in range(self.low, self.high + 2))
        return Edges(places, steps, whole=True)

    @property
    def cells(self) -> int:
        """The steps, and that of those who have none."""
        return self.high - self.low + 1 + self.none

    def __str__(self) -> str:
        return f"a step from {self.low} to {self.high}"


@dataclass(frozen=True)
class Number(Question):
    """A number between public bounds, whose mean is estimated.

    Args:
        name: The column, or the name of the question.
        low: The least number that may be reported.
        high: The largest one. Numbers beyond count as the nearest bound.
        text: The question, as people read it.
        weight: Its part of the budget, from 0.001 to 1,000.
        choose: The option of the plan to be run instead of the best.
        missing: What becomes of rows without a number: "refuse" allows none, "drop" leaves them
            out, which is public then, "cell" counts how many there are, and the mean is of the
            others.
        groups: The groups that there is a mean of; see :meth:`by`.

    Raises:
        InvalidArgumentError: The bounds are not two finite numbers, the lower one first.

    Example:
        >>> str(Number("income", 0, 2e5))
        'a number from 0 to 200000'
    """

    kind: ClassVar[str] = "number"
    usually: ClassVar[Missing] = "refuse"

    low: float
    high: float

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = "bounds (low, high), two finite numbers with low < high"
        try:
            low, high = float(self.low), float(self.high)
        except (OverflowError, TypeError, ValueError) as error:
            raise InvalidArgumentError("bounds", (self.low, self.high), expected) from error
        checks.refuse(not -math.inf < low < high < math.inf, expected, bounds=(low, high))
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def plain(self) -> bool:
        """Whether everybody has a number, and nothing else is told of them."""
        return self.groups is None and not self.none

    def __str__(self) -> str:
        return f"a number from {self.low:.15g} to {self.high:.15g}"


@dataclass(frozen=True)
class Bins(Question):
    """A number or a date, counted in bins.

    Args:
        name: The column, or the name of the question.
        low: The least number or date; values beyond count in the first or the last bin.
        high: The largest one.
        bins: How many bins, "auto", "day", "week" or "month", or the edges, which need no bounds.
        quantiles: Those to be reported, such as 0.5.
        ranges: (first, last) of values to be counted.
        tree: Whether to count on several levels; by default, by the predicted error.
        text: The question, as people read it.
        weight: Its part of the budget, from 0.001 to 1,000.
        choose: The option of the plan to be run instead of the best.
        missing: What becomes of rows without a value: "cell" counts them as "(none)", "drop"
            leaves them out, which is public then, "refuse" allows none.
        groups: The groups that answers are counted by; see :meth:`by`.

    Raises:
        InvalidArgumentError: There are no bounds and no edges, a number is out of its range.

    Example:
        >>> Bins("age", 0, 100, bins=4).edges_of(1000).labels
        ('0–24', '25–49', '50–74', '75–100')
    """

    kind: ClassVar[str] = "bins"

    low: Place | None = None
    high: Place | None = None
    bins: Binning = field(default="auto", kw_only=True)
    quantiles: Sequence[float] = field(default=(), kw_only=True)
    ranges: Sequence[Sequence[Place]] = field(default=(), kw_only=True)
    tree: bool | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bins, np.ndarray):
            object.__setattr__(self, "bins", self.bins.tolist())
        if isinstance(self.bins, Sequence) and not isinstance(self.bins, str):
            object.__setattr__(self, "bins", tuple(self.bins))
        expected = "quantiles strictly between 0 and 1, such as 0.25, 0.5, 0.75"
        levels: list[Any] = np.atleast_1d(np.asarray(self.quantiles)).tolist()
        known = all(isinstance(each, float | int) and 0 < each < 1 for each in levels)
        checks.refuse(not known, expected, quantiles=self.quantiles)
        object.__setattr__(self, "quantiles", tuple(sorted({float(each) for each in levels})))
        listed = [] if isinstance(self.ranges, str) else list(self.ranges)
        pairs = [() if isinstance(each, str) else tuple(each) for each in listed]
        paired = all(len(each) == 2 for each in pairs) and not isinstance(self.ranges, str)
        expected = "ranges (first, last), such as (18, 64)"
        checks.refuse(not paired, expected, ranges=self.ranges)
        object.__setattr__(self, "ranges", tuple(pairs))
        one = (self.low is None) != (self.high is None)
        checks.refuse(one, "both bounds, or edges and none", bounds=(self.low, self.high))
        statistics = {"quantiles": self.quantiles, "ranges": self.ranges, "tree": self.tree}
        for name, wish in statistics.items():
            alone = self.groups is not None and bool(wish)
            checks.refuse(alone, f"no {name} with groups", **{name: wish})
        if not isinstance(self.bins, str):
            self.edges_of(1, real=True)  # or an error; of whole numbers there may be fewer bins

    @property
    def bounds(self) -> tuple[Place, Place] | None:
        """Both, if they are given."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def typed(self) -> bool:
        """Whether the bins follow the type of a column: they are written as whole numbers."""
        return written_whole(self.bins if isinstance(self.bins, tuple) else self.bounds or ())

    def edges_of(self, n: int, *, epsilon: float | None = None, real: bool = False) -> Edges:
        """The bins for n people; bounds written as whole numbers are not, where values are real."""
        return Edges.of(self.bins, self.bounds, n=n, epsilon=epsilon, real=real)

    def __str__(self) -> str:
        if isinstance(self.bins, tuple):
            return f"a value in one of {len(self.bins) - 1} bins"
        between = "" if self.bounds is None else f" from {self.low} to {self.high}"
        unit = f"{self.bins} bins" if isinstance(self.bins, Real) else f"bins ({self.bins})"
        return f"a value{between} in {unit}"


@dataclass(frozen=True)
class Vector(Question):
    """Several numbers that are one vector, whose mean is estimated.

    Args:
        name: What the vector is called.
        coordinates: The columns of its coordinates; to plan, how many is enough.
        norm: The longest vector that may be reported; longer ones count as scaled down to it.
            Without it every vector has length 1, which is for plans.
        text: The question, as people read it.
        weight: Its part of the budget, from 0.001 to 1,000.
        choose: The option of the plan to be run instead of the best.
        missing: What becomes of rows that lack a number: "refuse" allows none, "drop" leaves
            them out, which is public then.
        groups: None: there are no means of vectors by groups.

    Raises:
        InvalidArgumentError: There are less than two columns, or the norm is not above 0.

    Example:
        >>> Vector("position", ["x", "y"], 5.0).dimension
        2
    """

    kind: ClassVar[str] = "vector"
    ungrouped: ClassVar[str] = "a vector"
    usually: ClassVar[Missing] = "refuse"

    coordinates: Sequence[str] | int
    norm: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.coordinates, Real):
            least, given = 2 if self.norm is None else 1, cast("Any", self.coordinates)
            dimension = checks.count(least, dimension=given)
            object.__setattr__(self, "coordinates", dimension)
        else:
            expected = "the names of two columns or more, each once"
            several = cast("Sequence[str]", self.coordinates)
            listed = () if isinstance(several, str) else tuple(several)
            if len(listed) < 2:
                expected += " (for one column of numbers: Number, --column and --bounds)"
            named = all(isinstance(each, str) for each in listed)
            wrong = len(listed) < 2 or len(set(listed)) < len(listed) or not named
            checks.refuse(wrong, expected, columns=self.coordinates)
            object.__setattr__(self, "coordinates", listed)
        if self.norm is not None:
            checks.positive(norm=self.norm)
        checks.refuse(self.missing == "cell", "refuse or drop", missing=self.missing)

    @property
    def columns(self) -> tuple[str, ...]:
        """The coordinates."""
        return self.coordinates if isinstance(self.coordinates, tuple) else ()

    @property
    def dimension(self) -> int:
        """How many coordinates there are."""
        return self.coordinates if isinstance(self.coordinates, int) else len(self.coordinates)

    def __str__(self) -> str:
        long = "of length 1" if self.norm is None else f"at most {self.norm:.15g} long"
        return f"a vector of {self.dimension:,} coordinates, {long}"


@dataclass(frozen=True)
class Text(Question):
    """A free text: the frequent ones are found, without a list (:func:`shoal.heavy_hitters`).

    Args:
        name: The column, or the name of the question.
        length: Bytes of UTF-8 that answers are cut to.
        alphabet: The public characters that answers may have; None for any, which finds fewer.
        text: The question, as people read it.
        weight: Its part of the budget, from 0.001 to 1,000.
        choose: None: one message or several is a matter of :class:`shoal.Limits`.
        missing: "cell": rows without a text count as the empty one.
        groups: None: texts are not counted by groups.

    Raises:
        InvalidArgumentError: A number is out of its range.

    Example:
        >>> Text("comment", length=12).length
        12
    """

    kind: ClassVar[str] = "text"
    ungrouped: ClassVar[str] = "texts"

    length: int = 32
    alphabet: str | bytes | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.counts(self, length=1)
        if isinstance(self.alphabet, bytes):
            with suppress(UnicodeDecodeError):
                object.__setattr__(self, "alphabet", self.alphabet.decode())
        checks.refuse(self.missing != "cell", "cell", missing=self.missing)
        checks.refuse(self.choose is not None, "no choice of a mechanism", choose=self.choose)

    def __str__(self) -> str:
        return f"a text of at most {self.length} bytes"


KINDS: dict[str, type[Question]] = {
    each.kind: each for each in (Choice, Choices, Scale, Number, Bins, Vector, Text)
}


# ------------------------------------------------------------------------------------- labels


def label_of(value: object) -> str:
    """A public answer as the text that the same value has in a column."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value) if abs(float(value)) < _EXACT_WHOLE else value)
    return str(value)


def labels(name: str, listed: Sequence[object], *, most: int = MOST_LABELS) -> tuple[str, ...]:
    """A public list of answers, as text."""
    expected = f"a list of 1 to {most:,} answers"
    no_list = isinstance(listed, str | bytes) or not hasattr(listed, "__iter__")
    checks.refuse(no_list, expected, **{name: listed})
    nulls_added = f"no None in the list ({NONE} is added)"
    checks.refuse(any(value is None for value in listed), nulls_added, **{name: None})
    values = tuple(map(label_of, listed))
    checks.refuse(not 1 <= len(values) <= most, expected, **{name: f"{len(values)} answers"})
    return distinct(name, values, "every answer once")


def distinct(name: str, values: tuple[str, ...], expected: str) -> tuple[str, ...]:
    """The values, none of which is there twice."""
    twice = [value for value, times in Counter(values).items() if times > 1]
    checks.refuse(twice, expected, **{name: next(iter(twice), None)})
    return values


def spelled(names: Sequence[str], what: str = "columns") -> str:
    """The names of coordinates, or of groups; of many the first and the last.

    >>> spelled(["x", "y"]), spelled([f"v{i}" for i in range(100)])
    ('x, y', 'v0, ..., v99 (100 columns)')
    """
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{names[0]}, ..., {names[-1]} ({len(names)} {what})"

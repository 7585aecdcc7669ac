"""From an answer to what may leave the device: the coin, the noise, the seals, and nothing else.

An answer that cannot be used is refused without repeating it: errors end up in logs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal import randomness as sources
from shoal.errors import InvalidArgumentError
from shoal.explain.text import plain
from shoal.randomness import Randomness
from shoal.sealing import PublicKey
from shoal.service.client.errors import NOTHING_SENT, ClientError
from shoal.service.survey import NONE, Item, Survey
from shoal.service.wire import Wire

if TYPE_CHECKING:
    from shoal.engines.tables import Local

Values = npt.NDArray[Any]  # numbers of answers, or numbers; of several questions a field each
# To a question: one of its answers, a number, or a group and an answer.
One = str | float | tuple[str | None, str | None]
# To one question, or to several by their names, of which some may be skipped.
Answer = One | Mapping[str, One | None]
Answers = Sequence[Answer] | Values

_COIN_BITS = 62
_NOT_SHOWN = "(not shown)"
_LISTED = 20
_FINGERPRINT_DIGITS = 32
_ABSENT = -2  # what a table lacks
_PIECE = 500  # reports that one process seals at a time


@dataclass(frozen=True, eq=False)
class Drawn:
    """The messages of those who take part, person after person, and how many were asked.

    ``codes`` are what people invited show beside their reports.
    """

    asked: int
    people: int
    messages: bytes
    codes: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Keys:
    """The keys a report is sealed with, for :func:`shoal.service.client.seal_many`.

    Args:
        analyzer: The inner key: opens the message.
        shuffler: The outer key: opens the envelope around it.
    """

    analyzer: PublicKey
    shuffler: PublicKey

    @property
    def named(self) -> str:
        """Which keys they are: a number alone could be that of another key one day."""
        return ",".join(
            f"{key.number}:{key.fingerprint[:_FINGERPRINT_DIGITS]}"
            for key in (self.analyzer, self.shuffler)
        )


def values_of(survey: Survey, answers: Answers) -> Values:
    """Answers as the survey's mechanisms take them: their numbers, or numbers within bounds.

    An array holds them already: one with a field for each of several questions. A number outside
    the bounds is refused: counted as the nearest bound, it would not be what the person said.
    """
    if not survey.several:
        return _values(survey.only, answers, "")
    names = [question.name for question in survey.questions]
    if isinstance(answers, np.ndarray):
        whole = list(answers.dtype.names or ()) == names
        checks.refuse(not whole, f"an array with the fields {', '.join(names)}", answers=_NOT_SHOWN)
        given: Mapping[str, Answers] = {name: answers[name] for name in names}
    else:
        for answer in answers:
            known = isinstance(answer, Mapping) and set(answer) <= set(names)
            expected = f"answers with the names of the questions: {', '.join(names)}"
            checks.refuse(not known, expected, answer=_NOT_SHOWN)
        given = {each.name: [_of(answer, each) for answer in answers] for each in survey.questions}
    columns = ((each, given[each.name], f" to {each.name}") for each in survey.questions)
    return _joined({each.name: _values(each, texts, named) for each, texts, named in columns})


def _of(answer: Any, question: Item) -> One:  # noqa: ANN401 - a mapping of answers
    given: One | None = answer.get(question.name)
    if question.groups:
        given = (None, None) if given is None else given
        if _is_pair(given):
            return NONE if given[0] is None else given[0], NONE if given[1] is None else given[1]
    if given is not None:
        return given
    if not question.may_be_skipped:
        expected = f"an answer to {question.name}, which cannot be skipped"
        raise InvalidArgumentError("answer", _NOT_SHOWN, expected)
    return NONE


def _joined(columns: Mapping[str, Values]) -> Values:
    """One array with a field for each question, and a row for each person."""
    kinds = [(name, column.dtype) for name, column in columns.items()]
    people = {len(column) for column in columns.values()}
    checks.refuse(len(people) > 1, "an answer of everybody to each question", people=sorted(people))
    joined: Values = np.empty(people.pop(), dtype=np.dtype(kinds))
    for name, column in columns.items():
        joined[name] = column
    return joined


def _values(question: Item, answers: Answers, named: str) -> Values:
    if question.answers:
        if isinstance(answers, np.ndarray):
            return _checked_codes(answers, len(question.labels))
        if not question.groups:
            return _coded("answers", named, question.answers, answers)
        pairs = all(map(_is_pair, answers))
        expected = f"a group and an answer{named}, in this order"
        checks.refuse(not pairs, expected, answer=_NOT_SHOWN)
        given = cast("Sequence[tuple[str, str]]", answers)
        groups = _coded("groups", named, question.groups, (group for group, _ in given))
        own = _coded("answers", named, question.answers, (answer for _, answer in given))
        return groups * len(question.answers) + own
    low, high = question.bounds
    if isinstance(answers, np.ndarray) and answers.dtype.kind in "iuf":
        numbers = answers.astype(np.float64)
    else:
        numbers = np.array([_number(answer) for answer in answers], dtype=np.float64)
    within = (low <= numbers) & (numbers <= high)  # NaN is not
    expected = f"a number from {low:g} to {high:g}"
    checks.refuse(numbers.ndim != 1 or not within.all(), expected, answer=_NOT_SHOWN)
    return numbers


def _is_pair(answer: object) -> TypeGuard[tuple[str | None, str | None]]:
    return isinstance(answer, tuple | list) and len(answer) == 2


def _coded(what: str, named: str, labels: Sequence[str], given: Iterable[object]) -> Values:
    """The places of texts in a list."""
    codes = {label: code for code, label in enumerate(labels)}
    coded = [codes.get(text, -1) if isinstance(text, str) else -1 for text in given]
    if -1 in coded:
        more = ", …" if len(labels) > _LISTED else ""
        listed = ", ".join(map(repr, labels[:_LISTED]))
        expected = f"one of the {what}{named} {listed}{more}"
        raise InvalidArgumentError(what.removesuffix("s"), _NOT_SHOWN, expected)
    return np.array(coded, dtype=np.int64)


def table_values(
    survey: Survey,
    table: Path,
    column: str | None = None,
    *,
    by: str | None = None,
    drop_nulls: bool = False,
) -> Values:
    """A table's answers as the survey's mechanisms take them: one person per row.

    Those to the only question are in a ``column``; those to each of several in the column of its
    name, where a row without one skips the question. Groups are in the column ``by``. No answer is
    repeated in what is refused.
    """
    grouped = any(question.groups for question in survey.questions)
    expected = "the column of the groups, for a survey that counts by groups, and no other"
    checks.refuse(grouped != (by is not None), expected, by=by)
    if not survey.several:
        if column is None:
            raise InvalidArgumentError("column", column, "the column of the answers")
        return _column_values(survey.only, table, column, by, drop_nulls=drop_nulls)
    names = ", ".join(question.name for question in survey.questions)
    expected = f"no column: answers are in the columns with the names of the questions: {names}"
    checks.refuse(column is not None, expected, column=column)
    expected = "no rows dropped: people who skip a question count with the others"
    checks.refuse(drop_nulls, expected, drop_nulls=drop_nulls)
    columns = {
        each.name: _column_values(each, table, each.name, by, drop_nulls=None)
        for each in survey.questions
    }
    return _joined(columns)


def _column_values(
    question: Item,
    table: Path,
    column: str,
    by: str | None,
    *,
    drop_nulls: bool | None,
) -> Values:
    """One person per row; those without an answer may be left out unless ``drop_nulls`` is None."""
    from shoal.engines.tables import local
    from shoal.questions.settled import Clip

    people = local(table, [column])
    if question.answers:
        values = _places(question, people, column, question.answers)
        known = values >= 0
        what = "have an answer that the survey does not"
        absent = values == _ABSENT
        if question.groups and by is not None:
            groups = _places(question, local(table, [by]), by, question.groups)
            values = groups * len(question.answers) + values
            known, absent = known & (groups >= 0), absent | (groups == _ABSENT)
            what = "have an answer or a group that the survey does not"
        rows, nulls, wrong = len(values), int(absent.sum()), int((~known & ~absent).sum())
        values = values[known]
    else:
        low, high = question.bounds
        number = Clip(column, low, high)
        rows, nulls = people.size(number)
        values = np.concatenate([*people.chunks(number), np.empty(0, dtype=np.float64)])
        wrong = int(((values < low) | (values > high)).sum())
        what = f"are not a number from {plain(low)} to {plain(high)}"
    if wrong:
        raise ClientError(f"{wrong:,} of {rows:,} rows of {column} {what}: {NOTHING_SENT}")
    if nulls and drop_nulls is None:
        reason = f"{nulls:,} of {rows:,} rows of {column} have no answer, which cannot be skipped"
        raise ClientError(f"{reason}: {NOTHING_SENT}")
    if nulls and not drop_nulls:
        raise ClientError(
            f"{nulls:,} of {rows:,} rows of {column} have no answer: --drop-nulls (in Python "
            f"drop_nulls=True) leaves them out; {NOTHING_SENT}"
        )
    if not values.size:
        raise ClientError(f"column {column} has no answers: {NOTHING_SENT}")
    return values


def _places(question: Item, table: Local, column: str, labels: Sequence[str]) -> Values:
    """Everybody's place in a list; ``_ABSENT`` where there is none, and it cannot be skipped."""
    from shoal.questions.settled import Lookup

    none = len(labels) - 1 if question.may_be_skipped else _ABSENT
    places = table.chunks(Lookup(column, tuple(labels), none))
    return np.concatenate([*places, np.empty(0, dtype=np.int64)])


def draw(
    survey: Survey, values: Values, codes: bytes = b"", *, randomness: Randomness | None = None
) -> Drawn:
    """Toss everybody's coin and randomize the values of those who take part.

    The probability of taking part is rounded down to a multiple of 2^-62, so it is at most what
    the survey promises. ``codes`` are one for each value, if people are invited.
    """
    taking_part = values
    if survey.participation < 1:
        source = sources.secure() if randomness is None else randomness
        odds = np.uint64(math.floor(survey.participation * (1 << _COIN_BITS)))
        coins = source.below(1 << _COIN_BITS, len(values)) < odds
        taking_part = values[coins]
        if codes:
            table = np.frombuffer(codes, dtype=np.uint8).reshape(len(values), -1)
            codes = table[coins].tobytes()
    if not taking_part.size:
        return Drawn(len(values), 0, b"")
    people, columns = int(taking_part.size), [taking_part]
    if survey.several:
        columns = [np.ascontiguousarray(taking_part[each.name]) for each in survey.questions]
    sections = [
        np.asarray(device.encode(device.randomize(column, randomness=randomness))).reshape(
            people, -1
        )
        for device, column in zip(survey.devices, columns, strict=True)
    ]
    messages = np.ascontiguousarray(np.concatenate(sections, axis=1)).tobytes()
    return Drawn(len(values), people, messages, codes)


def seal_many(
    survey: Survey,
    values: Values,
    keys: Keys,
    *,
    randomness: Randomness | None = None,
    pool: Executor | None = None,
) -> list[bytes]:
    """Everybody's randomized and sealed report; those who do not take part have none.

    Args:
        survey: What is asked.
        values: What the mechanism takes: numbers of answers, or numbers within bounds.
        keys: The parties' keys.
        randomness: That of a simulation; None is secure.
        pool: Processes that seal; None seals here.

    Returns:
        One report a person who takes part, as bytes for the shuffler.

    Example:
        >>> import shoal
        >>> from shoal.sealing import SUITES, KeyPair
        >>> from shoal.service.survey import Open, Party
        >>> survey = shoal.Survey.new(
        ...     shoal.Choice("walked", ["yes", "no"], text="Did you walk?"),
        ...     epsilon=0.5,
        ...     minimum=1000,
        ...     admission=Open(dishonest=0),
        ...     purpose="To plan footpaths.",
        ...     shuffler=Party(url="https://shuffler.example", fingerprint="0" * 64),
        ...     analyzer=Party(url="https://analyzer.example", fingerprint="1" * 64),
        ... )
        >>> pairs = [KeyPair.generate(suite=SUITES[0]) for _ in range(2)]
        >>> keys = Keys(*[pair.public for pair in pairs])
        >>> len(seal_many(survey, values_of(survey, ["yes", "no"]), keys))
        2
    """
    drawn = draw(survey, values, randomness=randomness)
    return seal(Wire.of(survey), drawn.messages, keys, pool=pool)


def seal(wire: Wire, messages: bytes, keys: Keys, *, pool: Executor | None = None) -> list[bytes]:
    """Reports of messages that were drawn: those of all sections make one."""
    size = _PIECE * sum(map(math.prod, wire.shapes))
    pieces = [messages[start : start + size] for start in range(0, len(messages), size)]
    mapped = map if pool is None or len(pieces) < 2 else pool.map
    return list(chain.from_iterable(mapped(_seal_piece, repeat(wire), pieces, repeat(keys))))


def _seal_piece(wire: Wire, messages: bytes, keys: Keys) -> list[bytes]:
    ends = list(accumulate(map(math.prod, wire.shapes), initial=0))
    people = np.frombuffer(messages, dtype=np.uint8).reshape(-1, ends[-1])
    sections = [
        people[:, start:end].reshape(-1, *shape)
        for (start, end), shape in zip(pairwise(ends), wire.shapes, strict=True)
    ]
    return [
        wire.seal(*rows, analyzer=keys.analyzer, shuffler=keys.shuffler)
        for rows in zip(*sections, strict=True)
    ]


def _checked_codes(codes: Values, k: int) -> npt.NDArray[np.int64]:
    whole = codes.ndim == 1 and codes.dtype.kind in "iu"
    fits = whole and ((codes >= 0) & (codes < k)).all()
    expected = f"a one-dimensional array of whole numbers 0, ..., {k - 1}"
    checks.refuse(not fits, expected, answers=_NOT_SHOWN)
    return codes.astype(np.int64)


def _number(answer: Any) -> float:  # noqa: ANN401 - whatever was given as an answer
    try:
        return math.nan if isinstance(answer, bool) else float(answer)
    except (TypeError, ValueError):
        return math.nan

"""The one file of questions: what ``shoal run``, ``shoal plan`` and ``shoal survey new`` read.

It is a JSON list. Every question is an object with its ``kind``, its ``name`` and the fields of its
kind; what is as usual may be left out. Errors say which question they are of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.questions.kinds import KINDS, Question
from shoal.values import Record


class Type(NamedTuple):
    """What a field holds in JSON, and how that is said."""

    holds: Callable[[Any], bool]
    words: str


def _text(value: object) -> bool:
    return isinstance(value, str)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _place(value: object) -> bool:
    return _number(value) or _text(value)


def _list_of(inner: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(inner, value))


def _labels(value: object) -> bool:
    return type(value) is int or _list_of(_place)(value)


_TEXT, _NUMBER, _FLAG = (
    Type(_text, "a text"),
    Type(_number, "a number"),
    Type(_flag, "true or false"),
)
_PLACE = Type(_place, "a number, or a date such as 2024-01-31")
_WHICH = {
    **dict.fromkeys(
        ("kind", "name", "text", "choose", "missing", "separator", "alphabet", "column"), _TEXT
    ),
    **dict.fromkeys(("weight", "at_most", "length", "find", "norm"), _NUMBER),
    **dict.fromkeys(("other", "public", "tree"), _FLAG),
    **dict.fromkeys(("low", "high"), _PLACE),
    "labels": Type(_labels, "a list of answers"),
    "ends": Type(_list_of(_text), "a list of two texts"),
    "bins": Type(lambda value: _place(value) or _list_of(_place)(value), "a number, word or list"),
    "quantiles": Type(_list_of(_number), "a list of numbers"),
    "ranges": Type(_list_of(_list_of(_place)), "a list of pairs"),
    "coordinates": Type(_labels, "a list of columns"),
    "groups": Type(lambda value: isinstance(value, dict), "an object with a column"),
}


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON: of a key that is there twice, nobody would know which one counts."""
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        message = f"{twice!r} is there twice"
        raise ValueError(message)
    return dict(pairs)


def read_questions(path: str | Path) -> tuple[Question, ...]:
    """The questions of a file.

    Args:
        path: A file of JSON.

    Returns:
        The questions, in their order.

    Raises:
        InvalidArgumentError: It is no such file, or a question of it is not complete.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp()) / "questions.json"
        >>> mood = '{"kind": "scale", "name": "mood", "low": 1, "high": 5}'
        >>> _ = place.write_text(f"[{mood}]")
        >>> [str(each) for each in read_questions(place)]
        ['a step from 1 to 5']
    """
    try:
        stored = json.loads(Path(path).read_bytes(), object_pairs_hook=_each_once)
    except OSError as error:
        expected = f"a file that can be read ({error.strerror or error})"
        raise InvalidArgumentError("questions", str(path), expected) from error
    except (ValueError, RecursionError) as error:
        expected = f"a file of JSON ({error})"
        raise InvalidArgumentError("questions", str(path), expected) from error
    wrong = not isinstance(stored, list) or not stored
    checks.refuse(wrong, "a file with a list of at least one question", questions=str(path))
    made = [_question(each, f"question {i} of {path}") for i, each in enumerate(stored, 1)]
    places: dict[str, int] = {}
    for i, each in enumerate(made, 1):
        first = places.setdefault(each.name, i)
        expected = f"another name than that of question {first} in question {i} of {path}"
        checks.refuse(first != i, expected, name=each.name)
    return tuple(made)


def _question(stored: object, where: str) -> Question:
    """One of them; an error says where it is."""
    try:
        is_object, expected = isinstance(stored, dict), "an object with kind, name and more"
        checks.refuse(not is_object, expected, question=type(stored).__name__)
        stored = cast("Record", stored)
        _check(stored)
        kind = str(stored.get("kind"))
        expected = f"one of {', '.join(KINDS)}{checks.similar(kind, KINDS)}"
        checks.refuse(kind not in KINDS, expected, kind=stored.get("kind"))
        return KINDS[kind].from_dict(stored)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            error.name, error.value, f"{error.expected} in {where}"
        ) from None


def _check(stored: Record) -> None:
    """What a field holds is of its type; null is as usual."""
    for name, value in stored.items():
        known = _WHICH.get(name)
        if known is not None and value is not None:
            checks.refuse(not known.holds(value), f"{known.words} as {name}", **{name: value})
        if name == "groups" and isinstance(value, dict):
            _check(value)


def write_questions(path: str | Path, questions: Iterable[Question]) -> None:
    """Write questions as :func:`shoal.read_questions` reads them.

    Args:
        path: The file.
        questions: In their order.

    Example:
        >>> import tempfile, shoal
        >>> place = Path(tempfile.mkdtemp()) / "questions.json"
        >>> write_questions(place, [shoal.Choice("color", ["red", "green"])])
        >>> read_questions(place) == (shoal.Choice("color", ["red", "green"]),)
        True
    """
    listed = [each.to_dict() for each in questions]
    text = json.dumps(listed, indent=2, ensure_ascii=False)
    Path(path).write_text(text + "\n", encoding="utf-8")

"""Texts of a survey that show what they are: nothing is hidden, and no two answers look alike.

Whoever answers sees letters, and a device sends the number of an answer. A text with marks that
turn it around, or one more answer whose letters are of another script, would have people say what
they do not mean. So such a survey is neither written nor added, and no client answers it; what a
store has already is still read.

Two answers look alike if their skeletons are equal (Unicode Technical Standard 39): letters of
other scripts become the Latin letters that they look like, by ``lookalikes.txt``, from which
browsers read, too (``clients/browser/src/texts.ts``). Of answers in different scripts, compatible
letters are the same as well: ½ is 1⁄2 then, which anybody can tell apart otherwise.

Where a question can be skipped, no other answer reads as the one of those who do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shoal import checks
from shoal.explain.text import visible
from shoal.questions.kinds import NONE

if TYPE_CHECKING:
    from shoal.service.survey.document import Survey
    from shoal.service.survey.items import Field

SKIPPED = "I prefer not to say"  # what programs call NONE, as people read it

_BREAKS = re.compile(r"[\t\n\r]")
_SCRIPTS = tuple(
    re.compile(letters)
    for letters in (
        "[A-Za-z\u00c0-\u024f\u1e00-\u1eff]",
        "[\u0370-\u03ff\u1f00-\u1fff]",  # Greek
        "[\u0400-\u052f]",  # Cyrillic
        "[\u0530-\u058f]",  # Armenian
        "[\u13a0-\u13ff\uab70-\uabbf]",  # Cherokee
        "[\ua4d0-\ua4ff]",  # Lisu
    )
)
# In one script, by the fonts of many: worth a second look, and no fraud.
_ALIKE = str.maketrans({"1": "l", "I": "l", "|": "l", "0": "O"})


def check_texts(survey: Survey) -> None:
    """Refuse hidden characters, and answers that look alike but are not written alike."""
    check_shown(name=survey.name, purpose=survey.purpose)
    for each in survey.questions:
        check_field(each)


def check_field(field: Field) -> None:
    """The same of one question."""
    check_shown(text=field.text, by=field.by)
    for name, listed in (("labels", field.answers), ("groups", field.groups)):
        for text in listed:
            check_shown(**{name: text})
        if listed[-1:] == (NONE,):
            for text in listed[:-1]:
                expected = f"{name} without {text!r}, which is added for those who skip it"
                added = _skeleton(text).casefold() in (NONE, SKIPPED.casefold())
                checks.refuse(added, expected, **{name: text})
        # Of one script, and they differ by more than spaces: nearly always.
        words = {" ".join(text.split()) for text in listed}
        if len(words) < len(listed) or not "".join(listed).isascii():
            _check_apart(name, listed)


def similar(survey: Survey) -> Iterator[tuple[str, str]]:
    """Pairs of answers, or groups, that are easily taken for each other, as 1 and l are."""
    for question in survey.questions:
        for listed in (question.answers, question.groups):
            seen: dict[str, str] = {}
            for text in listed:
                key = _skeleton(text).translate(_ALIKE).replace("rn", "m")
                if key in seen:
                    yield seen[key], text
                seen.setdefault(key, text)


def check_shown(**texts: str) -> None:
    """Refuse texts with characters that are not seen, or that turn others around."""
    expected = (
        "text without control characters, marks of direction and characters of no width (joiners "
        "only where a script or an emoji needs them)"
    )
    for name, text in texts.items():
        hidden = visible(text) != text or _BREAKS.search(text)
        checks.refuse(hidden, expected, **{name: text})


def _check_apart(name: str, listed: tuple[str, ...]) -> None:
    alike: dict[str, str] = {}
    compatible: dict[str, str] = {}
    for text in listed:
        other = alike.setdefault(_skeleton(text, "NFD"), text)
        if other is text:
            first = compatible.setdefault(_skeleton(text), text)
            other = first if _scripts(first) != _scripts(text) else text
        expected = f"{name} that look different from each other ({other!a} is there, too)"
        checks.refuse(other is not text, expected, **{name: ascii(text)[1:-1]})


def _scripts(text: str) -> tuple[bool, ...]:
    return tuple(script.search(text) is not None for script in _SCRIPTS)


def _skeleton(text: str, form: Literal["NFD", "NFKD"] = "NFKD") -> str:
    """What it looks like: accents apart, without joiners, in Latin letters.

    The form of Unicode says whether compatible letters are the same.
    """
    letters = unicodedata.normalize(form, text)
    seen = "".join(_lookalikes().get(letter, letter) for letter in letters)
    return " ".join(re.sub("[\u200c\u200d\ufe0e\ufe0f]", "", seen).split())


@cache
def _lookalikes() -> dict[str, str]:
    """Letters of other scripts, and the Latin ones that they look like."""
    lines = (Path(__file__).parent / "lookalikes.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split() for line in lines)
    return {letter: latin for latin, letters in pairs for letter in letters}

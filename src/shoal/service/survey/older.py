"""Surveys of versions 1 to 3: their documents, rewritten as one of the present version.

Such a survey keeps its bytes and its id: what is made here says only what they mean. Nothing else
knows of these versions:

* Version 1 has one question, and states a *fraction* of dishonest reports.
* Version 2 has one question, and an ``admission``.
* Version 3 has several ``questions``, or counts the answers to its only one by ``groups``.

The only question has no name, and nobody skips it. Of several, those with answers may all be
skipped: their answers, and groups, end with ``(none)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal import checks
from shoal.questions.kinds import NONE

VERSION = 4
ANSWER, GROUP = "answer", "group"  # what programs call the only question, and its groups
_OF_QUESTION = (
    "question",
    "answers",
    "by",
    "groups",
    "mechanism",
    "sampler",
    "message_bytes",
    "slots",
)


def present(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The document in the present version; what is not known stays in it, and is refused there."""
    document, version = {**stored}, checks.count(version=stored["version"])
    several = "questions" in document
    latest = several or "groups" in document
    known = (3,) if latest else (1, 2)
    checks.refuse(version not in known, f"a version up to {VERSION}", version=version)
    if version > 1:
        checks.count(0, dishonest=document["admission"]["dishonest"])  # people, and no fraction
    else:
        checks.refuse("admission" in document, "no admission beside a fraction", version=version)
        checks.closed_probability(dishonest=document["dishonest"])
        document["admission"] = {"kind": "open", "dishonest": document.pop("dishonest")}
    items = [{name: document.pop(name) for name in _OF_QUESTION if name in document}]
    if several:
        checks.refuse(
            len(document["questions"]) < 2 or items[0], "several questions", version=version
        )
        items = [{**each} for each in document["questions"]]
    document["questions"] = [_item(each, skipped=several) for each in items]
    return document | {"version": VERSION}


def _item(part: dict[str, Any], *, skipped: bool) -> dict[str, Any]:
    """A question and its mechanism; ``skipped``: some of those who are asked give no answer."""
    name = part.pop("name") if skipped else ANSWER
    words = {"name": name, "text": part.pop("question")}
    ends = {} if skipped else {"missing": "refuse"}
    listed = part.pop("answers")
    checks.refuse(not isinstance(listed, list), "a list of answers", answers=listed)
    if not listed:
        bounds = {end: part["mechanism"][end] for end in ("low", "high")}
        return {"question": {"kind": "number", **words, **bounds}, **part}
    answers = _listed(listed, skipped=skipped)
    question = {"kind": "choice", **words, "labels": answers, "other": False, **ends}
    if "groups" in part:
        groups = _listed(part.pop("groups"), skipped=skipped)
        column = GROUP if name != GROUP else f"{GROUP}-of-{GROUP}"
        about = {"column": column, "labels": groups, "text": part.pop("by"), "other": False}
        question["groups"] = about | ends
    return {"question": question, **part}


def _listed(texts: list[str], *, skipped: bool) -> list[str]:
    """The answers without that of those who skip the question, if that may be."""
    wrong = skipped and texts and texts[-1] != NONE
    checks.refuse(wrong, f"a list that ends with {NONE!r}", labels=texts[-1:])
    return texts[:-1] if skipped else texts

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
_ASKED = ("question", "answers", "by", "groups", "mechanism", "sampler", "message_bytes", "slots")


def present(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The document in the present version; what is not known stays in it, and is refused there."""
    told, version = {**stored}, checks.count(version=stored["version"])
    several = "questions" in told
    latest = several or "groups" in told
    known = (3,) if latest else (1, 2)
    checks.refuse(version not in known, f"a version up to {VERSION}", version=version)
    if version > 1:
        checks.count(0, dishonest=told["admission"]["dishonest"])  # people, and no fraction
    else:
        checks.refuse("admission" in told, "no admission beside a fraction", version=version)
        checks.closed_probability(dishonest=told["dishonest"])
        told["admission"] = {"kind": "open", "dishonest": told.pop("dishonest")}
    asked = [{name: told.pop(name) for name in _ASKED if name in told}]
    if several:
        checks.refuse(len(told["questions"]) < 2 or asked[0], "several questions", version=version)
        asked = [{**each} for each in told["questions"]]
    told["questions"] = [_item(each, skipped=several) for each in asked]
    return told | {"version": VERSION}


def _item(part: dict[str, Any], *, skipped: bool) -> dict[str, Any]:
    """A question and its mechanism; ``skipped``: some of those who are asked give no answer."""
    name = part.pop("name") if skipped else ANSWER
    asked = {"name": name, "text": part.pop("question")}
    ends = {} if skipped else {"missing": "refuse"}
    listed = part.pop("answers")
    checks.refuse(not isinstance(listed, list), "a list of answers", answers=listed)
    if not listed:
        bounds = {end: part["mechanism"][end] for end in ("low", "high")}
        return {"question": {"kind": "number", **asked, **bounds}, **part}
    answers = _listed(listed, skipped=skipped)
    question = {"kind": "choice", **asked, "labels": answers, "other": False, **ends}
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

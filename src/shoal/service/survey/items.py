"""The items of a survey: a question as a form asks it, and the mechanism that devices run for it.

The question is one of :mod:`shoal.questions`, written as in a file of questions. A form has no
other answers than those of the list. Where a question may be skipped, whoever does so
sends ``(none)``, so that everybody's report has the same form; people read it in other words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from shoal import checks
from shoal.errors import InvalidArgumentError
from shoal.mechanisms import registry
from shoal.mechanisms.base import Device
from shoal.mechanisms.registry import restored
from shoal.mechanisms.shares import alike
from shoal.questions.domains import Cells, Domain, Interval
from shoal.questions.kinds import KINDS, NONE, Missing, Question
from shoal.sealing import Plain
from shoal.sealing.envelope import LARGEST_CAPACITY
from shoal.service.survey.mechanisms import PYTHON, SURVEYS
from shoal.service.survey.texts import SKIPPED

FORMS = ("choice", "number")  # kinds of questions that surveys ask
MOST_CELLS = 10_000  # answers of all groups together: a short survey can ask devices for no more
LONGEST_TEXT = 2000
LONGEST_ANSWER = 200
_MOST_BITS = 8 * LARGEST_CAPACITY
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,39}")


@dataclass(frozen=True)
class Field:
    """A question as a form asks it: a choice among answers, or a number between bounds.

    What only matters to those who plan, its weight for one, is not part of it.
    """

    question: Question

    def __post_init__(self) -> None:
        question, groups = self.question, self.question.groups
        names: tuple[object, ...] = (question.name,)
        names += () if groups is None else (groups.column,)
        for name in names:
            expected = "a name of 1 to 40 letters, digits, underscores, hyphens and dots"
            named = isinstance(name, str) and _NAME.fullmatch(name)
            checks.refuse(not named, expected, name=name)
        check_text("text", question.text, LONGEST_TEXT)
        expected = f"a choice or a number, as surveys ask for {question.name} so far"
        checks.refuse(question.kind not in FORMS, expected, kind=question.kind)
        may = ("cell", "refuse") if question.kind == "choice" else ("refuse",)
        expected = f"{' or '.join(map(repr, may))} for {question.name}"
        checks.refuse(question.missing not in may, expected, missing=question.missing)
        changes: dict[str, Any] = {"weight": 1.0, "choose": None}
        if question.kind == "choice":
            listed: Any = question
            expected = f"a list of answers for the question {question.name}"
            checks.refuse(not listed.known, expected, labels=listed.labels)
            expected = f"no other answers to {question.name} than those of the list: add one to it"
            checks.refuse(listed.other, expected, other=True)
            changes |= {"other": False, "public": False}
        if groups is not None:
            expected = f"groups with labels and a text, of a choice, for {question.name}"
            whole = isinstance(groups.labels, tuple) and question.kind == "choice"
            checks.refuse(not whole or not groups.text, expected, groups=groups.column)
            check_text("by", groups.text, LONGEST_TEXT)
            expected = f"no other groups of {question.name} than those of the list: add one to it"
            checks.refuse(groups.other, expected, other=True)
            expected = f"'cell' for the groups of {question.name}, which may be skipped"
            both = groups.missing == "cell" or not question.none
            checks.refuse(not both, expected, missing=groups.missing)
            missing: Missing = "cell" if question.none else "refuse"
            changes["groups"] = replace(groups, other=False, public=False, missing=missing)
        object.__setattr__(self, "question", replace(question, **changes))
        for name, texts in (("labels", self.answers), ("groups", self.groups)):
            for text in texts:
                check_text(name, text, LONGEST_ANSWER)
            repeated = next((each for each in texts if texts.count(each) > 1), None)
            checks.refuse(repeated is not None, f"{name} that differ", **{name: repeated})
            expected = f"at least two {name} of {question.name}"
            checks.refuse(len(texts) == 1, expected, **{name: ",".join(texts)})
        number = len(self.answers) * len(self.groups)
        expected = f"at most {MOST_CELLS:,} answers in all of them together, not {number:,}"
        checks.refuse(number > MOST_CELLS, expected, groups=len(self.groups))

    @property
    def name(self) -> str:
        """By which programs know it."""
        return self.question.name

    @property
    def text(self) -> str:
        """The question, as people read it."""
        return self.question.text

    @property
    def by(self) -> str:
        """What people are asked about their group, if answers are counted by groups."""
        return "" if self.question.groups is None else self.question.groups.text

    @property
    def may_be_skipped(self) -> bool:
        """Whether somebody may give no answer; a number has to be given."""
        return self.question.none

    @property
    def answers(self) -> tuple[str, ...]:
        """What may be chosen, that of those who skip the question at the end; none of a number."""
        known = getattr(self.question, "known", None) or ()
        return (*known, *[NONE] * self.question.none)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that answers are counted by, that of those who skip them at the end."""
        groups = self.question.groups
        listed = () if groups is None else cast("tuple[str, ...]", groups.labels)
        return (*listed, *[NONE] * (self.question.none and bool(listed)))

    @property
    def labels(self) -> tuple[str, ...]:
        """What the mechanism has: the answers, or every answer in every group."""
        return labels(self.answers, self.groups)

    @property
    def spoken(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The answers and the groups as people read them."""
        answers, groups = (
            (*listed[:-1], SKIPPED) if listed and self.may_be_skipped else listed
            for listed in (self.answers, self.groups)
        )
        return answers, groups

    @property
    def bounds(self) -> tuple[float, float]:
        """Of a number."""
        number: Any = self.question
        return number.low, number.high

    @property
    def domain(self) -> Domain:
        """What devices are given of it: the answers of the first group before the second's."""
        return Cells(len(self.labels)) if self.answers else Interval(*self.bounds)


@dataclass(frozen=True)
class Item(Field):
    """A question of a survey, and what devices run for it.

    Args:
        question: A :class:`shoal.Choice` with a list of answers, or a :class:`shoal.Number`, each
            with a text; of a choice also by groups. With ``missing="refuse"`` nobody skips it.
        device: A mechanism of surveys for the question's answers, or for its bounds.

    Raises:
        InvalidArgumentError: No form can ask that, or the mechanism is for other answers.

    Example:
        >>> import shoal
        >>> walked = shoal.Choice("walked", ["yes", "no"], text="Did you walk?", missing="refuse")
        >>> Item(walked, shoal.RandomizedResponse(k=2, epsilon=1.0)).labels
        ('yes', 'no')
    """

    device: Device
    # Of a survey that was written on another kind of processor: its tables, in its last digits.
    _sampler: Mapping[str, Any] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        device = self.device
        if not hasattr(device, "parts") or device.domain.takes not in {"answers", "numbers"}:
            device = getattr(device, "name", device)
            raise InvalidArgumentError("device", device, "a mechanism for answers or for numbers")
        if device.name not in SURVEYS:
            by_sigma = device.name in registry.LINES and registry.line(device.name).by_sigma
            tables = f" ({device.name} is for tables: shoal run)" * by_sigma
            expected = f"a mechanism of surveys{tables}: one of {', '.join(SURVEYS)}"
            raise InvalidArgumentError("device", device.name, expected)
        expected = f"a mechanism for {self.domain}, as {self.name} has"
        fits = device.domain.accepts(self.domain)
        checks.refuse(not fits, expected, device=str(device.domain))

    def to_dict(self) -> dict[str, Plain]:
        """The question, the mechanism, and what follows from its parameters.

        A machine that derives other numbers has to refuse, and a client in another language need
        not derive any.
        """
        return {
            "question": cast("dict[str, Plain]", self.question.to_dict()),
            "mechanism": cast("dict[str, Plain]", self.device.described()),
            "sampler": dict(self.device.integers if self._sampler is None else self._sampler),
            "message_bytes": self.device.message_bytes,
            "slots": self.device.slots,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Item:
        """From plain values; refuses a mechanism for other answers, or with endless numbers."""
        mechanism, question = stored["mechanism"], stored["question"]
        field = Field(KINDS[question["kind"]].from_dict(question))
        number = len(field.labels)
        k = checks.count(0, k=mechanism.get("k", number))
        checks.refuse(k != number, f"a mechanism for the {number} answers listed", k=k)
        bits = checks.count(0, modulus_bits=mechanism.get("modulus_bits", 0))
        checks.refuse(bits > _MOST_BITS, f"at most {_MOST_BITS}", modulus_bits=bits)
        made = cls(field.question, restored(mechanism))
        # Devices that derive their tables themselves draw by their own, whose error counts the
        # last digits of a processor. Those of browsers draw by what is written, to the last digit.
        own, written = made.device.integers, stored["sampler"]
        if made.device.name in PYTHON and written != own and alike(own, written):
            object.__setattr__(made, "_sampler", dict(written))
        return made


def labels(answers: tuple[str, ...], groups: tuple[str, ...]) -> tuple[str, ...]:
    """The answers, or every answer in every group.

    >>> labels(("yes", "no"), ("north",))
    ('north · yes', 'north · no')
    """
    if not groups:
        return answers
    return tuple(f"{group} · {answer}" for group in groups for answer in answers)


def check_text(name: str, text: object, longest: int) -> None:
    """Refuse what is no text, blank, or too long."""
    # The mark of byte order is a space of no width to browsers.
    fits = isinstance(text, str) and text.replace("\ufeff", "").strip() and len(text) <= longest
    expected = f"{'answers' if name == 'labels' else 'text'} of 1 to {longest} characters"
    checks.refuse(not fits, expected, **{name: text})

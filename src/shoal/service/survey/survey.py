"""A survey: one question, everything public about how it is collected, and a name of its own.

A survey never changes. Its name is the hash of its canonical configuration, and every envelope of
the collection is bound to the name, so that whoever answers agrees on all of it: the question, the
purpose, the randomizer, the least crowd, the promised (epsilon, delta), who operates what.

What is promised is for one person over the survey's life. R reports of one person may fall into
one batch or into several. Give each its own share of a batch's honest people at random: showing the
analyzer these shares separately shows more than the batch, so each report is hidden by at least
floor(h/R) honest people, h those of the smallest batch, and R adaptive rounds of that compose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from shoal import checks
from shoal.accounting.guarantee import Guarantee
from shoal.errors import InvalidArgumentError, ShoalError, UnreachableTargetError
from shoal.protocols.base import Device
from shoal.randomizers.base import AnswerMechanism, NumberMechanism
from shoal.randomizers.registry import described
from shoal.sealing import SUITES, MalformedError, Plain, SurveyId, canonical, parsed
from shoal.service.survey.batches import Batches
from shoal.service.survey.complaints import InconsistentSurveyError
from shoal.service.survey.party import Party
from shoal.service.survey.promise import Terms, promised
from shoal.service.survey.room import check_room
from shoal.service.survey.stated import Stated

VERSION = 1
LONGEST_TEXT = 2000
LONGEST_ANSWER = 200
_LEAST = {"reports_per_person": 1, "not_before": 0, "not_after": 0, "token_bytes": 0}
_SLACK = 1e-9  # of the promise, for what is lost in arithmetic


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Everything that all parties and people agree on.

    ``answers`` are the labels of a mechanism for answers; one for numbers has its bounds.
    ``dishonest`` is the share of reports that may come from people who follow no protocol.
    ``participation`` is a coin that the device tosses for every report. ``not_before`` and
    ``not_after`` are seconds since 1970. ``token_bytes`` is room for anonymous tokens in every
    report, none unless they are used.
    """

    name: str
    question: str
    purpose: str
    device: Device
    answers: tuple[str, ...] = ()
    batches: Batches
    epsilon: float
    delta: float
    reports_per_person: int = 1
    dishonest: float = 0.0
    participation: float = 1.0
    not_before: int
    not_after: int
    shuffler: Party
    analyzer: Party
    suite: str = SUITES[0]
    token_bytes: int = 0

    def __post_init__(self) -> None:
        _check_texts(name=self.name, question=self.question, purpose=self.purpose)
        self._check_device()
        self._check_wholes()
        _ = self.stated  # refuses by itself
        if self.suite not in SUITES:
            raise InvalidArgumentError("suite", self.suite, f"one of {', '.join(SUITES)}")
        check_room(self.device, suite=self.suite, token_bytes=self.token_bytes)
        self._check_promise()

    def _check_wholes(self) -> None:
        for name, least in _LEAST.items():
            object.__setattr__(self, name, checks.count(least, **{name: getattr(self, name)}))
        if self.not_after <= self.not_before:
            expected = f"not_after later than not_before={self.not_before}"
            raise InvalidArgumentError("not_after", self.not_after, expected)

    def _check_device(self) -> None:
        if isinstance(self.device, AnswerMechanism):
            _check_answers(self.answers, self.device.k)
            return
        if not isinstance(self.device, NumberMechanism):
            named = getattr(self.device, "name", self.device)
            expected = "a mechanism for answers or for numbers"
            raise InvalidArgumentError("device", named, expected)
        if self.answers:
            expected = "no list of answers beside a mechanism for numbers"
            raise InvalidArgumentError("answers", len(self.answers), expected)

    def _check_promise(self) -> None:
        found = self.guarantee(self.batches.minimum).epsilon
        if not self.allows(found):
            raise UnreachableTargetError(
                f"epsilon={self.epsilon:g} at delta={self.delta:g}",
                f"a batch of minimum={self.batches.minimum} reports gives {found:.6g}",
                "ask for a larger minimum, more noise, fewer reports per person or more epsilon",
            )

    @cached_property
    def id(self) -> SurveyId:
        """The hash of the configuration."""
        return SurveyId.of(self.configuration())

    @property
    def slots(self) -> int:
        """Messages in one report, the empty ones included."""
        return self.device.slots

    @property
    def message_bytes(self) -> int:
        """Length of every message."""
        return self.device.message_bytes

    @property
    def terms(self) -> Terms:
        """What the promise counts on besides the mechanism."""
        return Terms.of(self)

    @property
    def stated(self) -> Stated:
        """What it may be refused by before the promise is computed."""
        return Stated(
            device=self.device,
            batches=self.batches,
            epsilon=self.epsilon,
            terms=self.terms,
            shuffler=self.shuffler,
            analyzer=self.analyzer,
        )

    def honest(self, valid: int) -> int:
        """How many of so many valid reports may be counted on: n'."""
        return self.terms.honest(checks.count(0, valid=valid))

    def guarantee(self, valid: int) -> Guarantee:
        """What one person is promised if every batch with their reports has so many valid ones."""
        return promised(self.device, self.terms, checks.count(0, valid=valid))

    def allows(self, epsilon: float) -> bool:
        """Whether a guarantee with this epsilon is within the promise."""
        return epsilon <= self.epsilon * (1 + _SLACK)

    def configuration(self) -> dict[str, Plain]:
        """All of it as plain values."""
        return {
            "version": VERSION,
            "kind": "survey",
            "name": self.name,
            "question": self.question,
            "purpose": self.purpose,
            "answers": list(self.answers),
            "mechanism": cast("dict[str, Plain]", described(self.device)),
            # What follows from the parameters: a machine that derives other numbers has to refuse,
            # and a client in another language need not derive any.
            "sampler": dict(self.device.integers),
            "message_bytes": self.message_bytes,
            "slots": self.slots,
            "batches": self.batches.configuration(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "reports_per_person": self.reports_per_person,
            "dishonest": self.dishonest,
            "participation": self.participation,
            "not_before": self.not_before,
            "not_after": self.not_after,
            "shuffler": self.shuffler.configuration(),
            "analyzer": self.analyzer.configuration(),
            "suite": self.suite,
            "token_bytes": self.token_bytes,
        }

    def to_bytes(self) -> bytes:
        """The one way of writing it; its name is the hash of these bytes."""
        return canonical(self.configuration())

    @classmethod
    def from_bytes(cls, data: bytes) -> Survey:
        """The survey that these bytes are; what does not follow from itself is refused."""
        stored = parsed(data)
        try:
            found = cls._restored(stored)
        except (KeyError, TypeError, AttributeError) as error:
            raise MalformedError("the survey", f"all of its fields ({error})") from None
        except (ShoalError, ArithmeticError) as error:  # the latter for numbers beyond any sense
            raise InconsistentSurveyError(error) from None
        if found.to_bytes() != data:
            # Unknown fields, another version, or parameters that this machine derives otherwise.
            raise MalformedError("the survey", f"a survey of version {VERSION} and nothing more")
        return found

    @classmethod
    def _restored(cls, stored: Mapping[str, Plain]) -> Survey:
        wholes = cast("Mapping[str, int]", stored)
        known = Stated.restored(stored)
        return cls(
            name=cast("str", stored["name"]),
            question=cast("str", stored["question"]),
            purpose=cast("str", stored["purpose"]),
            device=known.device,
            answers=tuple(cast("list[str]", stored["answers"])),
            batches=known.batches,
            epsilon=known.epsilon,
            delta=known.terms.delta,
            reports_per_person=known.terms.reports_per_person,
            dishonest=known.terms.dishonest,
            participation=known.terms.participation,
            not_before=wholes["not_before"],
            not_after=wholes["not_after"],
            shuffler=known.shuffler,
            analyzer=known.analyzer,
            suite=cast("str", stored["suite"]),
            token_bytes=wholes["token_bytes"],
        )


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str) or _is_blank(text) or len(text) > LONGEST_TEXT:
            expected = f"text of 1 to {LONGEST_TEXT} characters"
            raise InvalidArgumentError(name, text, expected)


def _is_blank(text: str) -> bool:
    """Whether it shows nothing; the mark of byte order is a space of no width to browsers."""
    return not text.replace("\ufeff", "").strip()


def _check_answers(answers: tuple[str, ...], k: int) -> None:
    if len(answers) != k:
        raise InvalidArgumentError("answers", len(answers), f"{k} answers, as the mechanism has")
    listed: tuple[object, ...] = answers
    for answer in listed:
        if not isinstance(answer, str) or _is_blank(answer) or len(answer) > LONGEST_ANSWER:
            expected = f"answers of 1 to {LONGEST_ANSWER} characters"
            raise InvalidArgumentError("answer", answer, expected)
    if len(set(answers)) < k:
        raise InvalidArgumentError("answers", "repeated", "answers that differ")

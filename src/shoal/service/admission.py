"""Admission: who may report, and what is counted on because of it.

An ``open`` survey takes reports of anybody. That its crowd is real is then assumed, not checked. An
``invited`` one takes reports of people who were invited: each has a secret, and the secret gives a
code for each of the R reports that one person may send. The shuffler keeps hashes of the codes and
takes one report for each::

    invitation   28 characters: the secret (128 bits), and 12 bits that tell a mistyped one
    code         SHA-256("shoal/1 admission" | survey (32) | secret (16) | i (2))[:16]
    code hash    SHA-256("shoal/1 code" | code)[:16]           what the shuffler is told, and keeps

where i = 0, ..., R - 1 is the number of the report. A code travels beside the sealed report. It
says nothing of the answer, and without the secret nobody can tell which codes are one person's, in
one survey or in several. A third kind, anonymous tokens, would be one more class here.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from shoal import checks, randomness
from shoal.accounting.guarantee import TRUST
from shoal.errors import InvalidArgumentError
from shoal.sealing import Plain, SurveyId

ASSUMED = "crowd assumed, not checked"
CODE_BYTES = 16
CODE_SPENT, CODE_UNKNOWN, CODE_REVOKED = "code_spent", "code_unknown", "code_revoked"
CODE_PROBLEMS = {
    CODE_SPENT: "another report was sent with this invitation, and an invitation counts once",
    CODE_UNKNOWN: "this survey has no such invitation; it may belong to another survey",
    CODE_REVOKED: "this invitation was revoked or replaced; ask for another one where you got it",
}
_INVITER = (
    "the inviter makes up no people: together with the analyzer the inviter could, and made-up "
    "people hide nobody; together with the shuffler, the inviter could tell who took part"
)
MOST_ENTITLED = 10**10  # more people than there are
_SECRET_BYTES = 16
_CHECK_BITS = 12
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32
_ALIKE = str.maketrans("ILO", "110")
_BITS = 5  # of a letter
_LENGTH = (8 * _SECRET_BYTES + _CHECK_BITS) // _BITS
_GROUP = 4
_BETWEEN = re.compile(r"[\s-]+")


@dataclass(frozen=True, kw_only=True)
class Admission(ABC):
    """Who may report: :class:`shoal.service.survey.Open` or :class:`shoal.service.survey.Invited`.

    Args:
        dishonest: How many people may follow no protocol.

    Raises:
        InvalidArgumentError: ``dishonest`` is no whole number >= 0.
    """

    kind: ClassVar[str]
    code_bytes: ClassVar[int] = 0  # beside every report
    enforced: ClassVar[str] = "assumed, not enforced"  # how many reports one person sends
    trust: ClassVar[str] = TRUST
    caveat: ClassVar[str] = ""  # said wherever a result is

    dishonest: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "dishonest", checks.count(0, dishonest=self.dishonest))

    def honest(self, valid: int, reports_per_person: int) -> int:
        """How many of so many valid reports may be counted on: n'."""
        return max(0, valid - reports_per_person * int(self.dishonest))

    def least_valid(self, honest: int, reports_per_person: int) -> int:
        """The fewest valid reports of which so many may be counted on."""
        return honest + reports_per_person * int(self.dishonest)

    def most_valid(self, reports_per_person: int) -> float:  # noqa: ARG002 - some kinds have a limit
        """How many reports there can be."""
        return math.inf

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee takes for granted because of it."""

    @property
    @abstractmethod
    def fact(self) -> str:
        """In a few words."""

    def to_dict(self) -> dict[str, Plain]:
        """As a survey and a result state it."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class Open(Admission):
    """Anybody may report: how many of them are dishonest is assumed.

    Args:
        dishonest: How many people may follow no protocol.

    Example:
        >>> Open(dishonest=10).honest(1000, reports_per_person=1)
        990
    """

    kind: ClassVar[str] = "open"
    caveat: ClassVar[str] = ASSUMED

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That nobody looks."""
        return (f"{ASSUMED}: anybody may send any number of reports",)

    @property
    def fact(self) -> str:
        """In a few words."""
        return f"open: {ASSUMED}; {_dishonest(self.dishonest)}"


@dataclass(frozen=True, kw_only=True)
class OpenFraction(Open):
    """Open, as early surveys are: ``dishonest`` is a fraction of the reports, not of people."""

    dishonest: float = 0.0

    def __post_init__(self) -> None:
        checks.closed_probability(dishonest=self.dishonest)

    def honest(self, valid: int, reports_per_person: int) -> int:  # noqa: ARG002 - of reports
        """How many of so many valid reports may be counted on: n'."""
        # The fraction as it was written: 0.1 is one tenth, not the float next to it.
        return math.floor(valid * (1 - Fraction(repr(float(self.dishonest)))))

    def least_valid(self, honest: int, reports_per_person: int) -> int:
        """The fewest valid reports of which so many may be counted on."""
        valid = math.ceil(honest / (1 - self.dishonest))
        while self.honest(valid, reports_per_person) < honest:
            valid += 1
        return valid

    @property
    def fact(self) -> str:
        """In a few words."""
        return f"open: {ASSUMED}; dishonest reports assumed: {100 * self.dishonest:g} %"


@dataclass(frozen=True, kw_only=True)
class Invited(Admission):
    """People who were invited may report, each once an occasion, which the shuffler checks.

    Args:
        dishonest: How many of them may follow no protocol.
        entitled: How many are invited.

    Raises:
        InvalidArgumentError: A number is out of its range, or nobody is honest.

    Example:
        >>> Invited(entitled=1000, dishonest=10).most_valid(reports_per_person=2)
        2000
    """

    kind: ClassVar[str] = "invited"
    code_bytes: ClassVar[int] = CODE_BYTES
    enforced: ClassVar[str] = "checked by the shuffler"
    trust: ClassVar[str] = f"{TRUST}; the inviter makes up no people for the analyzer"

    entitled: int

    def __post_init__(self) -> None:
        super().__post_init__()
        entitled = checks.count(entitled=self.entitled)
        checks.refuse(entitled > MOST_ENTITLED, f"at most {MOST_ENTITLED:,}", entitled=entitled)
        object.__setattr__(self, "entitled", entitled)
        expected = f"fewer than entitled={entitled}"
        checks.refuse(self.dishonest >= entitled, expected, dishonest=self.dishonest)

    def most_valid(self, reports_per_person: int) -> float:
        """How many reports there can be."""
        return self.entitled * reports_per_person

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Who is counted on, and what collusions give."""
        checked = (
            f"the shuffler accepts one report for each code of {self.entitled:,} invited people"
        )
        return f"{checked}; {_dishonest(self.dishonest)}", _INVITER

    @property
    def fact(self) -> str:
        """In a few words."""
        return f"invited: {self.entitled:,} entitled; {_dishonest(self.dishonest)}"


def read_admission(stored: Mapping[str, Any]) -> Admission:
    """As a survey states it: of an open one, a number below 1 is a fraction of the reports."""
    fields = {**stored}
    kind = fields.pop("kind")
    part = OpenFraction if 0 < fields["dishonest"] < 1 else Open
    kinds: dict[str, type[Admission]] = {"open": part, "invited": Invited}
    checks.one_of(tuple(kinds), kind=kind)
    return kinds[kind](**fields)


def _dishonest(number: float) -> str:
    return f"dishonest people assumed: {f'at most {number:,}' if number else 'none'}"


@dataclass(frozen=True)
class Invitation:
    """What one invited person has: nobody else should see it.

    >>> invitation = Invitation(bytes(16))
    >>> str(invitation), Invitation.read(str(invitation).lower()) == invitation
    ('0000-0000-0000-0000-0000-0000-032T', True)
    """

    secret: bytes = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Invitation:
        """From its characters, in whatever case and groups, or from a link that ends with them."""
        letters = _BETWEEN.sub("", text.rpartition("#")[2]).upper().translate(_ALIKE)
        if len(letters) == _LENGTH and set(letters) <= set(_LETTERS):
            number = 0
            for letter in letters:
                number = number << _BITS | _LETTERS.index(letter)
            invitation = cls((number >> _CHECK_BITS).to_bytes(_SECRET_BYTES))
            if invitation._number == number:
                return invitation
        expected = f"the {_LENGTH} letters and digits of an invitation, as it was handed out"
        raise InvalidArgumentError("invitation", "(not shown)", f"{expected}: check for a typo")

    @classmethod
    def draw(cls, people: int) -> list[Invitation]:
        """New ones, for so many people."""
        words = randomness.secure().words(2 * people).tobytes()
        starts = range(0, len(words), _SECRET_BYTES)
        return [cls(words[start : start + _SECRET_BYTES]) for start in starts]

    @property
    def _number(self) -> int:
        """The secret and its check."""
        digest = sha256(b"shoal/1 invitation" + self.secret).digest()
        check = int.from_bytes(digest[:2]) >> (16 - _CHECK_BITS)
        return int.from_bytes(self.secret) << _CHECK_BITS | check

    def __str__(self) -> str:
        number = self._number
        shifts = range(_BITS * (_LENGTH - 1), -1, -_BITS)
        letters = "".join(_LETTERS[number >> shift & 31] for shift in shifts)
        return "-".join(letters[at : at + _GROUP] for at in range(0, _LENGTH, _GROUP))

    def code(self, survey: SurveyId, occasion: int) -> bytes:
        """What is shown beside the person's report number ``occasion``, from 1 on."""
        shown = b"shoal/1 admission" + survey.digest + self.secret + (occasion - 1).to_bytes(2)
        return sha256(shown).digest()[:CODE_BYTES]

    def code_hashes(self, survey: SurveyId, reports_per_person: int) -> list[bytes]:
        """What the shuffler is told of the person."""
        codes = (self.code(survey, 1 + i) for i in range(reports_per_person))
        return hashes_of(b"".join(codes))


def hashes_of(codes: bytes) -> list[bytes]:
    """What the shuffler keeps of codes, in their order."""
    return [
        sha256(b"shoal/1 code" + codes[at : at + CODE_BYTES]).digest()[:CODE_BYTES]
        for at in range(0, len(codes), CODE_BYTES)
    ]


def beside(reports: bytes, codes: bytes) -> bytes:
    """Reports as they are sent: each followed by its code, if there are codes."""
    if not codes:
        return reports
    codes_table = np.frombuffer(codes, dtype=np.uint8).reshape(-1, CODE_BYTES)
    reports_table = np.frombuffer(reports, dtype=np.uint8).reshape(len(codes_table), -1)
    return np.hstack([reports_table, codes_table]).tobytes()
